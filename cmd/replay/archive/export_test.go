package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// TestHoweverItIsGathered an archive has the same bytes: each trace read by itself, all
// in one reading, and with room for next to nothing.
func TestHoweverItIsGathered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := newMemory()
		last := map[events.TurnKey]uint64{}
		for i := range rapid.IntRange(1, 50).Draw(t, "commits") {
			key := events.TurnKey{Trace: fmt.Sprintf("t%d", rapid.IntRange(0, 24).Draw(t, "trace")), Turn: "u"}
			s, err := log.AppendBody(context.Background(), commitOf(key, fmt.Sprint(i), events.Body{Text: "x"}), last[key])
			if err != nil {
				t.Fatal(err)
			}
			last[key] = s.Seq
		}
		list := spans(t, log)
		var want []byte
		for _, held := range []int{-1, 0, 1, 700} {
			var out bytes.Buffer
			w, err := NewWriter(&out, Options{})
			if err != nil {
				t.Fatal(err)
			}
			e := Export{From: log, Held: held}
			if held < 0 {
				for _, s := range list {
					if err := e.alone(context.Background(), w, s); err != nil {
						t.Fatal(err)
					}
				}
			} else if err := e.gather(context.Background(), w, list); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = out.Bytes()
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Fatalf("with room for %d bytes there are others", held)
			}
		}
	})
}

// TestWhatIsMissingIsNamed, and the archive is written all the same; a store that cannot
// be reached is another matter.
func TestWhatIsMissingIsNamed(t *testing.T) {
	s := interleaved(15)
	var gone events.BlobRef
	for digest, data := range s.blobs {
		gone = events.BlobRef{Digest: digest, Size: int64(len(data))}
		delete(s.blobs, digest)
		break
	}
	b := s.write(t, blockSize, Options{})
	r := openBytes(t, b)
	defer r.Close()
	if m := r.Manifest(); m.Missing != 1 || m.Blobs != len(s.blobs) {
		t.Errorf("%+v", m)
	}
	if _, err := r.Blobs().Get(t.Context(), gone); !errors.Is(err, bus.ErrNotFound) {
		t.Error(err)
	}
	named := 0
	err := r.Traces(t.Context(), func(tr Trace) error {
		for _, d := range tr.Missing {
			if d == gone.Digest {
				named++
			}
		}
		return nil
	})
	if err != nil || named != 1 {
		t.Errorf("it is named %d times, %v", named, err)
	}
	w, err := NewWriter(&bytes.Buffer{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Begin("trace2"); err != nil {
		t.Fatal(err)
	}
	refers := Commit{at(1), events.TurnKey{Trace: "trace2", Turn: "u"}, commitOf(events.TurnKey{Trace: "trace2", Turn: "u"}, "1", events.Body{Ref: &gone})}
	if err := w.Add(t.Context(), refers, unreachable{}); !errors.Is(err, bus.ErrUnavailable) {
		t.Errorf("a store that cannot be reached: %v", err)
	}
}

// unreachable is a store that is not there now.
type unreachable struct{ bus.Blobs }

// Get is bus.Blobs'.
func (unreachable) Get(context.Context, events.BlobRef) ([]byte, error) {
	return nil, bus.ErrUnavailable
}
