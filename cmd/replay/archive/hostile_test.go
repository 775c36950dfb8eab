package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// forger writes archives that no writer writes: heads are as they are given, and only
// what is missing of them is filled in.
type forger struct {
	t   testing.TB
	out bytes.Buffer
	enc *zstd.Encoder
}

func forge(t testing.TB) *forger {
	t.Helper()
	enc, err := encoder()
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{t: t, enc: enc}
	f.piece(head{Kind: pieceBegin, Format: Format}, nil)
	return f
}

// piece adds a piece, and returns where it is.
func (f *forger) piece(h head, raw []byte) int64 {
	f.t.Helper()
	at := f.out.Len()
	var frame []byte
	if raw != nil {
		frame = f.enc.EncodeAll(raw, nil)
		was := h
		h = sized(h, raw, frame)
		if was.Raw != 0 {
			h.Raw = was.Raw
		}
	}
	b, err := encodeHead(h, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	f.out.Write(b)
	f.out.Write(frame)
	return int64(at)
}

// commits adds a piece of commits.
func (f *forger) commits(h head, list ...Commit) int64 {
	f.t.Helper()
	var raw bytes.Buffer
	for _, c := range list {
		if err := appendRecord(&raw, c); err != nil {
			f.t.Fatal(err)
		}
	}
	h.Kind = pieceCommits
	return f.piece(h, raw.Bytes())
}

// end adds manifest and end.
func (f *forger) end(m Manifest) []byte {
	f.t.Helper()
	m.Format = Format
	text, err := json.Marshal(m)
	if err != nil {
		f.t.Fatal(err)
	}
	at := f.piece(head{Kind: pieceManifest}, text)
	b, err := encodeHead(head{Kind: pieceEnd, At: at}, endSize)
	if err != nil {
		f.t.Fatal(err)
	}
	f.out.Write(b)
	return f.out.Bytes()
}

func at(seq uint64) events.Position { return events.Position{Generation: 1, Seq: seq} }

// one is a commit of a trace.
func one(trace string, seq uint64) Commit {
	key := events.TurnKey{Trace: trace, Turn: "u"}
	return Commit{at(seq), key, commitOf(key, fmt.Sprint(trace, seq), events.Body{Text: "x"})}
}

// final is the head of a trace's only commit.
func final(trace string, seq uint64) head {
	return head{Trace: trace, Count: 1, First: seq, Last: seq, Final: true}
}

// hostile are archives that no writer writes, and what is said of each.
var hostile = []struct {
	name string
	make func(*forger) []byte
	want string
}{
	{"a path for a trace", func(f *forger) []byte {
		f.commits(final("../../etc", 1), one("t", 1))
		return f.end(Manifest{})
	}, "id must be"},
	{"control characters in a turn", func(f *forger) []byte {
		c := one("t", 1)
		c.Turn.Turn = "u\x1b[2K"
		f.commits(final("t", 1), c)
		return f.end(Manifest{})
	}, "id must be"},
	{"a trace twice", func(f *forger) []byte {
		f.commits(final("t", 1), one("t", 1))
		f.commits(final("v", 2), one("v", 2))
		f.commits(final("t", 3), one("t", 3))
		return f.end(Manifest{})
	}, "trace t is in it twice"},
	{"traces in disorder", func(f *forger) []byte {
		f.commits(final("t", 9), one("t", 9))
		f.commits(final("v", 2), one("v", 2))
		return f.end(Manifest{})
	}, "began later"},
	{"sequences in disorder", func(f *forger) []byte {
		f.commits(head{Trace: "t", Count: 2, First: 1, Last: 9, Final: true}, one("t", 9), one("t", 1))
		return f.end(Manifest{})
	}, "not those that the head"},
	{"a size that is none", func(f *forger) []byte {
		h := final("t", 1)
		h.Raw = maxRaw
		f.commits(h, one("t", 1))
		return f.end(Manifest{})
	}, "another size than its head says"},
	{"a piece that is too large", func(f *forger) []byte {
		h := final("t", 1)
		h.Raw = maxRaw + 1
		f.commits(h, one("t", 1))
		return f.end(Manifest{})
	}, "at most 4194304"},
	{"a blob that is too large", func(f *forger) []byte {
		f.piece(head{Kind: pieceBlob, Digest: make([]byte, 32), Size: math.MaxInt64}, []byte("x"))
		return f.end(Manifest{})
	}, "at most 268435456"},
	{"a bomb", bomb, "unpacks to more than 1024 times its size"},
	{"an archive behind another", func(f *forger) []byte {
		f.commits(final("t", 1), one("t", 1))
		f.piece(head{Kind: pieceBegin, Format: Format}, nil)
		f.commits(final("v", 2), one("v", 2))
		return f.end(Manifest{})
	}, "it begins twice"},
	{"more commits than bytes", func(f *forger) []byte {
		h := final("t", 1)
		h.Count, h.Last = 1<<40, 1<<41
		f.commits(h, one("t", 1))
		return f.end(Manifest{})
	}, "1099511627776 commits"},
	{"a turn that is another's", func(f *forger) []byte {
		c := one("other", 1)
		c.Turn.Trace = "t"
		f.commits(final("t", 1), c)
		return f.end(Manifest{})
	}, "it says that it is of turn other/u"},
	{"nested too deep", func(f *forger) []byte {
		c := one("t", 1)
		c.Body = bytes.Repeat([]byte{0x91}, 400_000)
		f.commits(final("t", 1), c)
		return f.end(Manifest{})
	}, "nested too deep"},
	{"a list of four thousand million", func(f *forger) []byte {
		c := one("t", 1)
		c.Body = []byte{0xdd, 0xff, 0xff, 0xff, 0xff}
		f.commits(final("t", 1), c)
		return f.end(Manifest{})
	}, "longer than it is"},
}

// TestHostileArchivesAreRefused by a bound, BEFORE room is made for what they say.
func TestHostileArchivesAreRefused(t *testing.T) {
	for _, c := range hostile {
		b := c.make(forge(t))
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		said := fmt.Sprint(err)
		if err == nil {
			said = readAll(r)
			r.Close()
		}
		if !strings.Contains(said, c.want) {
			t.Errorf("%s: %s\nwant %q", c.name, said, c.want)
		}
	}
}

// readAll is everything that is said by reading all of an archive.
func readAll(r *Reader) string {
	var said []string
	from := events.Position{}
	for {
		err := r.Read(context.Background(), from, bus.Filter{}, false, func(bus.Stored) error { return nil })
		said = append(said, fmt.Sprint(err))
		var bad *bus.Unreadable
		if !errors.As(err, &bad) || len(said) > 100 {
			return strings.Join(said, "\n")
		}
		from = at(bad.Seq + 1)
	}
}

// bomb is a small file of pieces that unpack to gigabytes.
func bomb(f *forger) []byte {
	zeros := make([]byte, maxRaw)
	for i := range 64 {
		sum := bytes.Repeat([]byte{byte(i)}, 32)
		f.piece(head{Kind: pieceBlob, Digest: sum, Size: maxRaw}, zeros)
	}
	return f.end(Manifest{})
}

// TestTheIndexIsNotTrusted: one that points elsewhere, or nowhere, is found out.
func TestTheIndexIsNotTrusted(t *testing.T) {
	for _, c := range []struct {
		name  string
		entry entry
		want  string
	}{
		{"behind the end", entry{ID: "t", Commits: 1, Blocks: []block{{1 << 40, 1}}}, "points nowhere"},
		{"no block", entry{ID: "t", Commits: 1}, "the index's counts"},
		{"a path", entry{ID: "../t", Commits: 1, Blocks: []block{{1, 1}}}, "id must be"},
		{"amid a piece", entry{ID: "t", Commits: 1, Blocks: []block{{100, 1}}}, "is damaged"},
		{"another trace", entry{ID: "v", Commits: 1, Blocks: []block{{0, 1}}}, "is damaged"},
	} {
		f := forge(t)
		place := f.commits(head{Trace: "t", Count: 1, First: 1, Last: 1, Final: true}, one("t", 1))
		if len(c.entry.Blocks) == 1 && c.entry.Blocks[0][0] == 0 {
			c.entry.Blocks[0][0] = uint64(place)
		}
		text, err := json.Marshal(c.entry)
		if err != nil {
			t.Fatal(err)
		}
		listed := page{c.entry.ID, f.piece(head{Kind: pieceTraces}, text)}
		b := f.end(Manifest{Index: manifestIndex{Traces: []page{listed}}})
		r := openBytes(t, b)
		got, err := collect(r, events.Position{}, bus.Filter{Trace: c.entry.ID})
		if len(got) > 0 || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %d commits, %v; want %q", c.name, len(got), err, c.want)
		}
		r.Close()
	}
}

// TestTheFuture: a newer format says what to do, and what this one does not know
// within its own format is passed over.
func TestTheFuture(t *testing.T) {
	var out bytes.Buffer
	b, err := encodeHead(head{Kind: pieceBegin, Format: Format + 1, Release: "v9"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	if _, err := NewReader(bytes.NewReader(out.Bytes()), int64(out.Len())); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "v9") {
		t.Errorf("%v", err)
	}
	key := events.TurnKey{Trace: "t", Turn: "u"}
	body, err := events.Encode(events.Commit{ID: "1", Turn: key, At: noon, Records: []events.Record{
		{Call: 0, Seq: 1, Event: events.Foreign{Name: "teleported", Version: 7, Body: []byte{0x80}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := sample{commits: []Commit{{at(5), key, body}}, blobs: shelf{}}
	whole := s.write(t, blockSize, Options{})
	r := openBytes(t, patched(t, whole))
	defer r.Close()
	got, err := collect(r, events.Position{}, bus.Filter{})
	if err != nil || !sameCommits(got, s.commits) {
		t.Errorf("%d commits, %v", len(got), err)
	}
	if m := r.Manifest(); len(m.Kinds) != 1 || m.Kinds[0] != (KindCount{"teleported", 7, 1}) {
		t.Errorf("%+v", m)
	}
}

// patched is an archive whose heads and manifest have members that nobody knows, and
// that has a kind of piece that nobody knows.
func patched(t *testing.T, b []byte) []byte {
	t.Helper()
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	f := forge(t)
	for off := 0; off < len(b); {
		h, n, err := decodeHead(b[off:])
		if err != nil {
			t.Fatal(err)
		}
		frame := b[off+n : off+n+int(h.Packed)]
		off += n + int(h.Packed)
		if h.Kind != pieceCommits {
			continue
		}
		raw, err := dec.DecodeAll(frame, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.piece(h, raw)
		f.piece(head{Kind: "hologram"}, []byte("what will be"))
	}
	text := []byte(`{"format":1,"release":"v1.9","hologram":{"deep":[1,2]},"kinds":[{"kind":"teleported","version":7,"events":1,"mood":"good"}],"index":{"traces":null,"smell":1}}`)
	place := f.piece(head{Kind: pieceManifest}, text)
	end, err := encodeHead(head{Kind: pieceEnd, At: place}, endSize)
	if err != nil {
		t.Fatal(err)
	}
	return append(f.out.Bytes(), end...)
}

// FuzzReader: whatever the bytes, the reader ends, and says what it finds within its
// bounds.
func FuzzReader(f *testing.F) {
	whole := interleaved(15).write(f, 500, Options{Release: "test"})
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(interleaved(15).write(f, blockSize, Options{Redaction: &Redaction{Mode: RedactBodies}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(mended(b)), int64(len(b)))
		if err != nil {
			return
		}
		defer r.Close()
		last := uint64(0)
		got, _, _ := readOn(r, bus.Filter{})
		for _, c := range got {
			if c.At.Seq < last || c.Turn.Check() != nil {
				t.Fatalf("%s at %d, behind %d", c.Turn, c.At.Seq, last)
			}
			last = c.At.Seq
		}
		err = r.Traces(context.Background(), func(tr Trace) error {
			_, _ = collect(r, events.Position{}, bus.Filter{Trace: tr.ID})
			return events.CheckID("trace", tr.ID)
		})
		if errors.Is(err, events.ErrID) && !errors.Is(err, ErrHostile) {
			t.Fatal(err)
		}
		_, _ = r.Blobs().Get(context.Background(), events.BlobRef{Digest: digestText(make([]byte, 32))})
		_ = r.Check(context.Background())
	})
}

// mended gives every head its checksum again, so that a fuzzer comes further.
func mended(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; ; {
		i := bytes.Index(b[at:], fileMagic)
		if i < 0 || len(b)-at-i < fixedHead {
			return b
		}
		at += i
		if size := skipSize + int(binary.LittleEndian.Uint32(b[at+4:])); size >= fixedHead && size <= maxHead && size <= len(b)-at {
			head := b[at : at+size]
			binary.LittleEndian.PutUint32(head[size-crcSize:], crc32.Checksum(head[:size-crcSize], castagnoli))
		}
		at++
	}
}
