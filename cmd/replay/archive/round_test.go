package archive

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// TestWhatIsWrittenIsRead: whatever the log and the size of the blocks, every trace,
// turn and place is read as it was written, and the same log gives the same bytes.
func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSample(t)
		fill := rapid.SampledFrom([]int{1, 300, 2000, blockSize}).Draw(t, "fill")
		b := s.write(t, fill, Options{Release: "test"})
		if again := s.write(t, fill, Options{Release: "test"}); !bytes.Equal(b, again) {
			t.Fatal("the same log gave other bytes")
		}
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if r.Damage() != nil {
			t.Fatal(r.Damage())
		}
		filters := []bus.Filter{{}, {Trace: "nobody"}}
		for _, id := range s.traces() {
			filters = append(filters, bus.Filter{Trace: id}, bus.Filter{Trace: id, Turn: "u1"})
		}
		for _, f := range filters {
			for _, from := range places(s) {
				got, err := collect(r, events.Position{Generation: 1, Seq: from}, f)
				if want := s.of(f, from); err != nil || !sameCommits(got, want) {
					t.Fatalf("%+v from %d: %d commits, want %d, %v", f, from, len(got), len(want), err)
				}
			}
		}
		sameBlobs(t, s, r)
		sameCounts(t, s, r)
	})
}

// places are sequences to read from: before all, at and between commits, behind all.
func places(s sample) []uint64 {
	out := []uint64{0}
	if n := len(s.commits); n > 0 {
		mid, last := s.commits[n/2].At.Seq, s.commits[n-1].At.Seq
		out = append(out, s.commits[0].At.Seq, mid, mid+1, last, last+1)
	}
	return out
}

func sameBlobs(t *rapid.T, s sample, r *Reader) {
	for digest, want := range s.blobs {
		got, err := r.Blobs().Get(context.Background(), events.BlobRef{Digest: digest})
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("blob %s: %d bytes, want %d: %v", digest, len(got), len(want), err)
		}
	}
	if _, err := r.Blobs().Get(context.Background(), events.BlobRef{Digest: digestText(make([]byte, 32))}); !errors.Is(err, bus.ErrNotFound) {
		t.Fatalf("a blob that is not there: %v", err)
	}
}

func sameCounts(t *rapid.T, s sample, r *Reader) {
	m := r.Manifest()
	if m.Commits != len(s.commits) || m.Traces != len(s.traces()) || m.Blobs != len(s.blobs) || m.Missing != 0 {
		t.Fatalf("manifest: %+v", m)
	}
	n := 0
	err := r.Traces(context.Background(), func(tr Trace) error {
		want := s.of(bus.Filter{Trace: tr.ID}, 0)
		if n++; tr.Commits != len(want) || tr.First != want[0].At || tr.Last != want[len(want)-1].At {
			t.Fatalf("trace %+v", tr)
		}
		return nil
	})
	if err != nil || n != m.Traces {
		t.Fatalf("%d traces in the index, %v", n, err)
	}
}

// TestItIsPlainZstd: any zstd reads what is in an archive.
func TestItIsPlainZstd(t *testing.T) {
	s := sample{blobs: shelf{}}
	key := events.TurnKey{Trace: "t", Turn: "u"}
	s.commits = []Commit{{events.Position{Generation: 1, Seq: 7}, key, commitOf(key, "one", events.Body{Text: "what is asked"})}}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	plain, err := d.DecodeAll(s.write(t, blockSize, Options{}), nil)
	if err != nil || !bytes.Contains(plain, s.commits[0].Body) || !bytes.Contains(plain, []byte(`"traces":1`)) {
		t.Errorf("%q, %v", plain, err)
	}
}
