package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
)

var archivedFlag = flag.Uint64("archived", 30, "how many seeds' logs to export, import and export again")

// vault is a log that keeps commits as they come, to the byte.
type vault struct {
	commits []archive.Commit
	bodies  cellar
}

// cellar is what stands outside a log.
type cellar map[string][]byte

// Put is bus.Blobs'.
func (c cellar) Put(_ context.Context, data []byte, media string) (events.BlobRef, error) {
	ref := events.BlobRef{Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(data)), Size: int64(len(data)), Media: media}
	c[ref.Digest] = data
	return ref, nil
}

// Get is bus.Blobs'.
func (c cellar) Get(_ context.Context, ref events.BlobRef) ([]byte, error) {
	data, ok := c[ref.Digest]
	if !ok {
		return nil, bus.ErrNotFound
	}
	return data, nil
}

// Blobs is archive.Log's.
func (v *vault) Blobs() bus.Blobs { return v.bodies }

// ReadBodies is archive.Bodies'.
func (v *vault) ReadBodies(_ context.Context, from events.Position, f bus.Filter, yield func(events.Position, events.TurnKey, []byte) error) error {
	for _, c := range v.commits {
		if c.At.Seq < from.Seq || f.Trace != "" && f.Trace != c.Turn.Trace || f.Turn != "" && f.Turn != c.Turn.Turn {
			continue
		}
		if err := yield(c.At, c.Turn, c.Body); err != nil {
			return err
		}
	}
	return nil
}

// AppendBody is archive.Log's.
func (v *vault) AppendBody(_ context.Context, body []byte, at uint64) (bus.Stored, error) {
	c, err := events.Decode(body)
	if err != nil {
		return bus.Stored{}, err
	}
	last, next := uint64(0), uint64(1)
	for _, have := range v.commits {
		if next = have.At.Seq + 1; have.Turn == c.Turn {
			last = have.At.Seq
		}
	}
	if last != at {
		return bus.Stored{}, &bus.Conflict{Last: last}
	}
	v.commits = append(v.commits, archive.Commit{At: events.Position{Generation: 1, Seq: next}, Turn: c.Turn, Body: slices.Clone(body)})
	return bus.Stored{Generation: 1, Seq: next, Commit: c}, nil
}

// recorded is a run's log as a vault, with what its commits refer to.
func (s *sim) recorded() (*vault, error) {
	v := &vault{bodies: cellar{}}
	s.looking = true
	defer func() { s.looking = false }()
	err := s.door.Read(ctx, events.Position{}, bus.Filter{}, false, func(st bus.Stored) error {
		body, err := events.Encode(st.Commit)
		if err != nil {
			return err
		}
		v.commits = append(v.commits, archive.Commit{At: st.Position(0), Turn: st.Commit.Turn, Body: body})
		for _, r := range st.Commit.Records {
			for _, ref := range archive.References(r.Event) {
				data, err := s.door.Blobs().Get(ctx, ref)
				if err != nil {
					return fmt.Errorf("%s at %s: %w", r.Event.Kind(), st.Position(0), err)
				}
				v.bodies[ref.Digest] = data
			}
		}
		return nil
	})
	return v, err
}

// exported is a log as an archive.
func exported(from archive.Log) ([]byte, *archive.Reader, error) {
	spans := map[string]*archive.Span{}
	err := from.ReadBodies(ctx, events.Position{}, bus.Filter{}, func(at events.Position, turn events.TurnKey, _ []byte) error {
		if spans[turn.Trace] == nil {
			spans[turn.Trace] = &archive.Span{Trace: turn.Trace, First: at}
		}
		spans[turn.Trace].Last = at
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, archive.Options{Release: "test"})
	if err != nil {
		return nil, nil, err
	}
	var list []archive.Span
	for _, s := range spans {
		list = append(list, *s)
	}
	job := archive.Export{From: from, Blobs: from.Blobs()}
	if err := job.Run(ctx, w, list); err != nil {
		return nil, nil, err
	}
	if _, err := w.Close(); err != nil {
		return nil, nil, err
	}
	r, err := archive.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	return out.Bytes(), r, err
}

// digests are those of an archive's traces, and how much there is of each.
func digests(r *archive.Reader) (map[string]string, error) {
	out := map[string]string{}
	err := r.Traces(ctx, func(t archive.Trace) error {
		out[t.ID] = fmt.Sprintf("%s: %d turns, %d open, %d commits, %d events, %d missing", t.Digest, t.Turns, t.Open, t.Commits, t.Events, len(t.Missing))
		return nil
	})
	return out, err
}

// taken imports an archive, each of whose traces must end so.
func taken(r *archive.Reader, to archive.Log, status string) error {
	return (&archive.Import{From: r, To: to}).Run(ctx, nil, func(o archive.Outcome) error {
		if o.Status != status || o.Err != nil || o.Missing > 0 {
			return fmt.Errorf("trace %s: %s, want %s; %d bodies are missing, %w", o.Trace, o.Status, status, o.Missing, o.Err)
		}
		return nil
	})
}

// roundTrip exports a log, imports that into another one, and exports it again: all that
// is said of each trace is the same, to the byte of every commit, and an import of either
// finds everything there.
func roundTrip(from, to archive.Log) error {
	one, first, err := exported(from)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := errors.Join(taken(first, to, archive.Imported), taken(first, to, archive.Attached)); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	_, second, err := exported(to)
	if err != nil {
		return fmt.Errorf("export again: %w", err)
	}
	was, err := digests(first)
	is, err2 := digests(second)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if !maps.Equal(was, is) || first.Manifest().Digest != second.Manifest().Digest {
		return fmt.Errorf("exported %v, and after an import %v; of all %s and %s", was, is, first.Manifest().Digest, second.Manifest().Digest)
	}
	if err := taken(second, to, archive.Attached); err != nil {
		return fmt.Errorf("import what was exported again: %w", err)
	}
	again, _, err := exported(from)
	if err == nil && !bytes.Equal(one, again) {
		err = errors.New("the same log gave other bytes")
	}
	return errors.Join(err, first.Close(), second.Close())
}

// TestWhatHappenedIsArchived: whatever went wrong in a run, its log survives an export,
// an import and an export.
func TestWhatHappenedIsArchived(t *testing.T) {
	commits := 0
	for seed := uint64(1); seed <= *archivedFlag; seed++ {
		s := newSim(seed)
		if err := s.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		v, err := s.recorded()
		if err == nil {
			err = roundTrip(v, &vault{bodies: cellar{}})
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		commits += len(v.commits)
		spread(v, seed)
		if err := roundTrip(v, &vault{bodies: cellar{}}); err != nil {
			t.Fatalf("seed %d, with gaps: %v", seed, err)
		}
	}
	t.Logf("%d seeds, %d commits", *archivedFlag, commits)
}

// spread gives a log gaps, as retention and other traces leave them, and generations.
func spread(v *vault, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0xa7c))
	at := events.Position{Generation: 1, Seq: r.Uint64N(1 << 40)}
	for i := range v.commits {
		at.Seq += 1 + r.Uint64N(3)
		if r.IntN(20) == 0 {
			at.Generation++
		}
		v.commits[i].At = at
	}
}

// TestWhatHappenedIsArchivedInALog is the same over a real one.
func TestWhatHappenedIsArchivedInALog(t *testing.T) {
	s := newSim(1)
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	v, err := s.recorded()
	if err != nil {
		t.Fatal(err)
	}
	if err := roundTrip(v, jettest.Start(t).Open(jetlog.Config{Memory: true})); err != nil {
		t.Error(err)
	}
}
