package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
)

var describe = flag.Bool("describe-archives", false, "write what archives give that have no description yet")

// goldenArchive is what an archive gives, whoever reads it.
type goldenArchive struct {
	Release string                `json:"release"`
	Kinds   []archive.KindCount   `json:"kinds"`
	Digest  string                `json:"digest"`
	Redact  *archive.Redaction    `json:"redaction,omitempty"`
	Blobs   int                   `json:"blobs"`
	Traces  map[string]goldenPart `json:"traces"`
}

// goldenPart is one of its traces.
type goldenPart struct {
	First, Last string // positions
	Open        int
	Digest      string
	Gives       golden
}

// archives are the paths of all of them.
func archives(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir("archives", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".sluice") {
			out = append(out, path)
		}
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("%d archives, %v", len(out), err)
	}
	return out
}

// TestArchives: what a release has exported is whole, is read the same for ever, and can
// be imported: its laws hold, its messages are those that they were, and out of another
// log the same comes out again.
func TestArchives(t *testing.T) {
	for _, path := range archives(t) {
		t.Run(path, func(t *testing.T) {
			r, err := archive.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := r.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := giveArchive(t, r)
			name := strings.TrimSuffix(path, ".sluice") + ".json"
			if *describe {
				writeGolden(t, name, got)
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var want goldenArchive
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			got = again(t, got)
			for id, part := range got.Traces {
				part.Gives.only(want.Traces[id].Gives)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("it is read otherwise than by the release that wrote it (-then +now):\n%s", diff)
			}
			restored(t, r)
		})
	}
}

// again is what was given, after a trip through JSON.
func again(t *testing.T, g goldenArchive) (out goldenArchive) {
	t.Helper()
	b, err := json.Marshal(g)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func writeGolden(t *testing.T, name string, g goldenArchive) {
	t.Helper()
	text, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if os.IsExist(err) {
		return // what is there is history
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
}

func giveArchive(t *testing.T, r *archive.Reader) goldenArchive {
	t.Helper()
	m := r.Manifest()
	out := goldenArchive{Release: m.Release, Kinds: m.Kinds, Digest: m.Digest, Redact: m.Redaction, Blobs: m.Blobs, Traces: map[string]goldenPart{}}
	err := r.Traces(t.Context(), func(tr archive.Trace) error {
		var commits []events.Commit
		err := r.Read(t.Context(), events.Position{}, bus.Filter{Trace: tr.ID}, false, func(s bus.Stored) error {
			commits = append(commits, s.Commit)
			for _, rec := range s.Commit.Records {
				for _, ref := range archive.References(rec.Event) {
					if _, err := r.Blobs().Get(t.Context(), ref); err != nil {
						t.Error(err)
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		lawful(t, commits)
		g, err := give(commits)
		g.Messages = nil // their digests do: they are large
		out.Traces[tr.ID] = goldenPart{tr.First.String(), tr.Last.String(), tr.Open, tr.Digest, g}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// memory is a log in memory that takes and gives stored bytes.
type memory struct{ *memlog.View }

// ReadBodies is archive.Bodies'.
func (m memory) ReadBodies(ctx context.Context, from events.Position, f bus.Filter, yield func(events.Position, events.TurnKey, []byte) error) error {
	return m.Read(ctx, from, f, false, func(s bus.Stored) error {
		body, err := events.Encode(s.Commit)
		if err != nil {
			return err
		}
		return yield(s.Position(0), s.Commit.Turn, body)
	})
}

// AppendBody is archive.Log's.
func (m memory) AppendBody(ctx context.Context, body []byte, at uint64) (bus.Stored, error) {
	c, err := events.Decode(body)
	if err != nil {
		return bus.Stored{}, err
	}
	return m.Append(ctx, c, at)
}

// restored imports an archive, and holds what is exported of that against it.
func restored(t *testing.T, r *archive.Reader) {
	t.Helper()
	log := memory{memlog.New(memlog.Config{}).View("test")}
	var spans []archive.Span
	err := (&archive.Import{From: r, To: log}).Run(t.Context(), nil, func(o archive.Outcome) error {
		if o.Status != archive.Imported {
			t.Errorf("%+v", o)
		}
		spans = append(spans, archive.Span{Trace: o.Trace, First: o.First, Last: o.Last})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, archive.Options{Release: "test", Redaction: r.Manifest().Redaction})
	if err != nil {
		t.Fatal(err)
	}
	job := archive.Export{From: log, Blobs: log.Blobs()}
	if err := job.Run(t.Context(), w, spans); err != nil {
		t.Fatal(err)
	}
	m, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if was := r.Manifest(); m.Digest != was.Digest || m.Blobs != was.Blobs || m.Open != was.Open {
		t.Errorf("imported and exported again it is %+v\nwas %+v", m, was)
	}
}

// TestArchivesHaveEverything that an archive is for.
func TestArchivesHaveEverything(t *testing.T) {
	seen := map[events.Kind]bool{}
	redacted, large := false, false
	for _, path := range archives(t) {
		r, err := archive.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		m := r.Manifest()
		for _, k := range m.Kinds {
			seen[k.Kind] = true
		}
		redacted = redacted || r.Redacted()
		large = large || m.BlobBytes > bus.MaxInline
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []events.Kind{events.KindApproved, events.KindApprovalRequested, events.KindDeduplicated, events.KindUnknown, events.KindRecovered, events.KindRetrying, events.KindDenied} {
		if !seen[k] {
			t.Errorf("no archive has %s", k)
		}
	}
	if !redacted || !large {
		t.Errorf("a redacted archive: %t, one with bytes outside the log: %t", redacted, large)
	}
}
