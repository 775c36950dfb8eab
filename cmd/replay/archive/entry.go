package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/sluice-run/sluice/events"
)

// entry is a trace in the index, in JSON.
type entry struct {
	ID         string   `json:"trace"`
	Turns      int      `json:"turns"`
	Open       int      `json:"open,omitempty"`
	Commits    int      `json:"commits"`
	Events     int      `json:"events"`
	Unreadable int      `json:"unreadable,omitempty"`
	First      place    `json:"first"`
	Last       place    `json:"last"`
	Digest     []byte   `json:"sha256"`
	Missing    [][]byte `json:"missing,omitempty"` // digests
	Blocks     []block  `json:"blocks"`
}

// place is a commit's position: generation and sequence.
type place [2]uint64

func (p place) position() events.Position {
	return events.Position{Generation: uint32(p[0]), Seq: p[1]}
}

func placeOf(p events.Position) place { return place{uint64(p.Generation), p.Seq} }

// block is one piece of a trace's commits: its offset in the file, and the sequence of
// its first commit.
type block [2]uint64

func (b block) at() int64     { return int64(b[0]) }
func (b block) first() uint64 { return b[1] }

// blobEntry is a blob in the index.
type blobEntry struct {
	Digest []byte `json:"blob"`
	At     int64  `json:"at"`
	Size   int64  `json:"size"`
}

// trace is the entry as it is told.
func (e entry) trace() Trace {
	t := Trace{
		ID: e.ID, Turns: e.Turns, Open: e.Open, Commits: e.Commits, Events: e.Events, Unreadable: e.Unreadable,
		First: e.First.position(), Last: e.Last.position(), Digest: digestText(e.Digest),
	}
	for _, d := range e.Missing {
		t.Missing = append(t.Missing, digestText(d))
	}
	return t
}

// check refuses an entry that points outside the file, or nowhere.
func (e entry) check(size int64) error {
	if err := events.CheckID("trace", e.ID); err != nil {
		return fmt.Errorf("%w: %w", ErrHostile, err)
	}
	if e.Turns < 0 || e.Open < 0 || e.Commits < 1 || e.Events < 0 || e.Unreadable < 0 || len(e.Blocks) == 0 || e.First[1] > e.Last[1] || max(e.First[0], e.Last[0]) > math.MaxUint32 {
		return fmt.Errorf("%w: the index's counts of trace %s", ErrHostile, e.ID)
	}
	for i, b := range e.Blocks {
		if b.at() < 0 || b.at() >= size || i > 0 && (b.at() <= e.Blocks[i-1].at() || b.first() <= e.Blocks[i-1].first()) {
			return fmt.Errorf("%w: the index of trace %s points nowhere", ErrHostile, e.ID)
		}
	}
	return nil
}

// record is the stored form of a commit in a piece: generation, sequence, turn, body.
func appendRecord(out *bytes.Buffer, c Commit) error {
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.ResetDict(out, nil)
	enc.UseCompactInts(true)
	return errors.Join(enc.EncodeArrayLen(4), enc.EncodeUint(uint64(c.At.Generation)), enc.EncodeUint(c.At.Seq),
		enc.EncodeString(c.Turn.Turn), enc.EncodeBytes(c.Body))
}

// nextRecord reads one commit of a trace, and says how many bytes it took. The body
// shares raw's memory.
func nextRecord(trace string, raw []byte) (c Commit, n int, err error) {
	r := bytes.NewReader(raw)
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(r)
	if l, err := dec.DecodeArrayLen(); err != nil || l < 4 {
		return c, 0, recordError(err)
	}
	gen, err := dec.DecodeUint32()
	if err != nil {
		return c, 0, recordError(err)
	}
	seq, err := dec.DecodeUint64()
	if err != nil {
		return c, 0, recordError(err)
	}
	turn, err := dec.DecodeString()
	if err != nil {
		return c, 0, recordError(err)
	}
	size, err := dec.DecodeBytesLen()
	if err != nil || size < 0 || size > r.Len() || size > maxCommit {
		return c, 0, recordError(err)
	}
	at := len(raw) - r.Len()
	c = Commit{
		At:   events.Position{Generation: gen, Seq: seq},
		Turn: events.TurnKey{Trace: trace, Turn: turn}, Body: raw[at : at+size : at+size],
	}
	if err := c.Turn.Check(); err != nil {
		return c, 0, fmt.Errorf("%w: %w", ErrHostile, err)
	}
	return c, at + size, nil
}

func recordError(err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return damaged("a commit's frame: %v", err)
}
