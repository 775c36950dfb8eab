package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// interleaved is a small log of so many commits: three traces whose commits lie between each other, with
// bytes outside the log.
func interleaved(commits int) sample {
	s := sample{blobs: shelf{}}
	for i := range commits {
		key := events.TurnKey{Trace: fmt.Sprintf("trace%d", i%3), Turn: "u"}
		args := events.Body{Text: strings.Repeat(fmt.Sprintf("text %d. ", i), 10)}
		if i%6 == 5 {
			ref := s.blobs.put(bytes.Repeat([]byte(fmt.Sprint("large ", i)), 30))
			args = events.Body{Ref: &ref}
		}
		s.commits = append(s.commits, Commit{events.Position{Generation: 1, Seq: uint64(2*i + 1)}, key, commitOf(key, fmt.Sprint(i), args)})
	}
	return s
}

// subset says whether got is want with some left out.
func subset(got, want []Commit) bool {
	for _, c := range got {
		i := slices.IndexFunc(want, func(w Commit) bool { return sameCommits([]Commit{c}, []Commit{w}) })
		if i < 0 {
			return false
		}
		want = want[i+1:]
	}
	return true
}

// TestEveryCut: wherever an archive is cut off, what stands whole before the cut is
// read, nothing else is, and something is said.
func TestEveryCut(t *testing.T) {
	s := interleaved(9)
	whole := s.write(t, 300, Options{Release: "test"})
	ends := pieceEnds(t, whole)
	for cut := range whole {
		r, err := NewReader(bytes.NewReader(whole[:cut]), int64(cut))
		if err != nil {
			if cut >= ends[0].at || !errors.Is(err, ErrNotArchive) {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			continue
		}
		got, lost, end := readOn(r, bus.Filter{})
		if !errors.Is(end, ErrDamaged) || !errors.Is(r.Damage(), ErrDamaged) || !errors.Is(r.Check(context.Background()), ErrDamaged) {
			t.Fatalf("cut at %d: %v, %v, and nothing is said", cut, lost, end)
		}
		n := 0
		for _, e := range ends {
			if e.at <= cut {
				n += e.commits
			}
		}
		if len(got) != n || !subset(got, s.commits) {
			t.Fatalf("cut at %d: %d commits, want the %d that are whole", cut, len(got), n)
		}
		for _, id := range s.traces()[:min(1, cut%4)] {
			one, _, end := readOn(r, bus.Filter{Trace: id})
			all := slices.DeleteFunc(slices.Clone(got), func(c Commit) bool { return c.Turn.Trace != id })
			if !errors.Is(end, ErrDamaged) || !sameCommits(one, all) {
				t.Fatalf("cut at %d: trace %s has %d commits by itself, and %d among all: %v", cut, id, len(one), len(all), end)
			}
		}
		r.Close()
	}
}

// ended is where a piece ends, and how many commits are in it.
type ended struct{ at, commits int }

// pieceEnds are the ends of all pieces, that of the beginning first.
func pieceEnds(t *testing.T, b []byte) []ended {
	t.Helper()
	var out []ended
	for at := 0; at < len(b); {
		h, n, err := decodeHead(b[at:])
		if err != nil {
			t.Fatal(err)
		}
		at += n + int(h.Packed)
		out = append(out, ended{at, h.Count})
	}
	return out
}

// TestFlippedBits, one in every other byte: nothing is read that was not written, a check finds it, and
// of the commits only those of one piece are lost.
func TestFlippedBits(t *testing.T) {
	s := interleaved(9)
	whole := s.write(t, 300, Options{Release: "test"})
	most := 0
	for _, e := range pieceEnds(t, whole) {
		most = max(most, e.commits)
	}
	for at := 0; at < len(whole); at += 2 {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at / 2 % 8)
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if at >= pieceEnds(t, whole)[0].at {
				t.Fatalf("byte %d: %v", at, err)
			}
			continue
		}
		got, lost, end := readOn(r, bus.Filter{})
		if !subset(got, s.commits) || len(got) < len(s.commits)-most {
			t.Fatalf("byte %d: %d commits of %d: %v, %v", at, len(got), len(s.commits), lost, end)
		}
		if len(got) < len(s.commits) && len(lost) == 0 && end == nil {
			t.Fatalf("byte %d: commits are lost, and nothing is said", at)
		}
		if err := r.Check(context.Background()); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d: the check says %v", at, err)
		}
		for digest, want := range s.blobs {
			if data, err := r.Blobs().Get(context.Background(), events.BlobRef{Digest: digest}); err == nil && !bytes.Equal(data, want) {
				t.Fatalf("byte %d: blob %s is another one", at, digest)
			}
		}
		r.Close()
	}
}

// TestWhatIsLostIsNamed: the trace, and its commits.
func TestWhatIsLostIsNamed(t *testing.T) {
	s := interleaved(24)
	whole := s.write(t, 500, Options{})
	for _, c := range []struct {
		name string
		harm func([]byte) []byte
		want []string
	}{
		{"a frame", func(b []byte) []byte { return flip(t, b, "trace1", 1, true) }, []string{"commits 4 to 6 of trace trace1", "do not fit their digest"}},
		{"a head", func(b []byte) []byte { return flip(t, b, "trace1", 1, false) }, []string{"commits 4 to 6 of trace trace1", "trace trace1 from sequence 21 to 38"}},
		{"the last head", func(b []byte) []byte { return flip(t, b, "trace2", -1, false) }, []string{"the end of trace trace2, from commit 7 on"}},
		{"a cut", func(b []byte) []byte { return b[:len(b)*2/3] }, []string{"was cut off", "trace2"}},
		{"a tail", func(b []byte) []byte { return append(b, "more"...) }, []string{"something stands behind it"}},
	} {
		b := c.harm(bytes.Clone(whole))
		_, lost, end := readOn(openBytes(t, b), bus.Filter{})
		said := fmt.Sprint(lost, end)
		for _, w := range c.want {
			if !strings.Contains(said, w) {
				t.Errorf("%s: %s\nwant %q", c.name, said, w)
			}
		}
	}
}

// flip flips a byte of the nth piece of commits of a trace (-1: the last one), in its
// frame or in its head.
func flip(t *testing.T, b []byte, trace string, nth int, frame bool) []byte {
	t.Helper()
	var heads, frames []int
	for at := 0; at < len(b); {
		h, n, err := decodeHead(b[at:])
		if err != nil {
			t.Fatal(err)
		}
		if h.Kind == pieceCommits && h.Trace == trace {
			heads, frames = append(heads, at+skipSize+20), append(frames, at+n+int(h.Packed)/2)
		}
		at += n + int(h.Packed)
	}
	if nth < 0 {
		nth += len(heads)
	}
	at := heads[nth]
	if frame {
		at = frames[nth]
	}
	b[at] ^= 0x10
	return b
}
