package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// shelf is blobs in memory.
type shelf map[string][]byte

func (s shelf) put(data []byte) events.BlobRef {
	sum := sha256.Sum256(data)
	ref := events.BlobRef{Digest: digestText(sum[:]), Size: int64(len(data))}
	s[ref.Digest] = data
	return ref
}

// Put is bus.Blobs'.
func (s shelf) Put(_ context.Context, data []byte, _ string) (events.BlobRef, error) {
	return s.put(data), nil
}

// Get is bus.Blobs'.
func (s shelf) Get(_ context.Context, ref events.BlobRef) ([]byte, error) {
	data, ok := s[ref.Digest]
	if !ok {
		return nil, bus.ErrNotFound
	}
	return data, nil
}

// sample is a log of several traces whose commits lie between each other.
type sample struct {
	commits []Commit // in the log's order
	blobs   shelf
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// commitOf is a commit of a turn with a text in it.
func commitOf(key events.TurnKey, id string, args events.Body) []byte {
	b, err := events.Encode(events.Commit{ID: id, Turn: key, At: noon, Records: []events.Record{
		{Call: 0, Seq: 1, Event: &events.Requested{Tool: "Read", Args: args}},
	}})
	if err != nil {
		panic(err)
	}
	return b
}

// drawSample draws a log.
func drawSample(t *rapid.T) sample {
	s := sample{blobs: shelf{}}
	seq, gen := uint64(rapid.IntRange(0, 1000).Draw(t, "before")), uint32(1)
	traces := rapid.IntRange(1, 5).Draw(t, "traces")
	for i := range rapid.IntRange(0, 40).Draw(t, "commits") {
		seq += uint64(rapid.IntRange(1, 3).Draw(t, "step"))
		if rapid.IntRange(0, 19).Draw(t, "generation") == 0 {
			gen++
		}
		key := events.TurnKey{Trace: fmt.Sprintf("t%d", rapid.IntRange(1, traces).Draw(t, "trace")), Turn: fmt.Sprintf("u%d", rapid.IntRange(0, 2).Draw(t, "turn"))}
		c := Commit{At: events.Position{Generation: gen, Seq: seq}, Turn: key}
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0: // cannot be decoded
			c.Body = rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "junk")
		case 1:
			ref := s.blobs.put(rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "blob"))
			c.Body = commitOf(key, fmt.Sprint(i), events.Body{Ref: &ref})
		default:
			c.Body = commitOf(key, fmt.Sprint(i), events.Body{Text: rapid.StringN(0, 200, 400).Draw(t, "text")})
		}
		s.commits = append(s.commits, c)
	}
	return s
}

// traces are the traces of the sample, in the order in which they began.
func (s sample) traces() []string {
	var out []string
	for _, c := range s.commits {
		if !slices.Contains(out, c.Turn.Trace) {
			out = append(out, c.Turn.Trace)
		}
	}
	return out
}

// of are the commits that pass a filter, from a sequence on.
func (s sample) of(f bus.Filter, from uint64) []Commit {
	var out []Commit
	for _, c := range s.commits {
		if (f.Trace == "" || f.Trace == c.Turn.Trace) && (f.Turn == "" || f.Turn == c.Turn.Turn) && c.At.Seq >= from {
			out = append(out, c)
		}
	}
	return out
}

// write is the sample as an archive whose blocks have about fill bytes.
func (s sample) write(t interface {
	Fatal(args ...any)
	Helper()
}, fill int, o Options,
) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, o)
	if err != nil {
		t.Fatal(err)
	}
	w.fill = fill
	for _, id := range s.traces() {
		if err := w.Begin(id); err != nil {
			t.Fatal(err)
		}
		for _, c := range s.of(bus.Filter{Trace: id}, 0) {
			if err := w.Add(context.Background(), c, s.blobs); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// openBytes opens an archive that is in memory.
func openBytes(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// collect reads commits.
func collect(r *Reader, from events.Position, f bus.Filter) ([]Commit, error) {
	var out []Commit
	err := r.ReadBodies(context.Background(), from, f, func(at events.Position, turn events.TurnKey, body []byte) error {
		out = append(out, Commit{at, turn, body})
		return nil
	})
	return out, err
}

// readOn reads as a verb does: behind each commit that cannot be read it goes on.
func readOn(r *Reader, f bus.Filter) (got []Commit, lost []error, whole error) {
	from := events.Position{}
	for {
		list, err := collect(r, from, f)
		got = append(got, list...)
		var bad *bus.Unreadable
		if !errors.As(err, &bad) {
			return got, lost, err
		}
		lost = append(lost, bad)
		from = events.Position{Generation: 1, Seq: bad.Seq + 1}
	}
}

func sameCommits(a, b []Commit) bool {
	return slices.EqualFunc(a, b, func(a, b Commit) bool { return a.At == b.At && a.Turn == b.Turn && bytes.Equal(a.Body, b.Body) })
}
