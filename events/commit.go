package events

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Format is the version of the log format that this build writes. A log with a
// newer one is refused.
const Format = 1

// TurnEvent is the Record.Call of an event about the turn itself.
const TurnEvent = -1

var (
	// ErrFormat says that bytes are no commit that this build can read.
	ErrFormat = errors.New("not a commit that this release can read")
	// ErrNewerFormat says that a newer release wrote the bytes.
	ErrNewerFormat = errors.New("written by a newer release: upgrade this one")
)

// Record is one event of a commit.
type Record struct {
	Call  int    // offset of the call, or TurnEvent
	Seq   uint32 // the call's or the turn's own number: 1, 2, 3 …, no gaps
	Event Event
}

// Commit is events of one turn that were decided together. It is durable whole
// or not at all.
type Commit struct {
	ID      string // unique; the same on every try of one append
	Turn    TurnKey
	At      time.Time // when it was decided, by the clock of who decided it; UTC, whole microseconds
	By      Owner     // zero where a door or a person wrote it
	Records []Record
}

// wire is the stored form of a commit: a msgpack map.
type wire struct {
	Format  int          `msgpack:"f"`
	ID      string       `msgpack:"id"`
	Trace   string       `msgpack:"tr"`
	Turn    string       `msgpack:"tu"`
	At      int64        `msgpack:"at"` // microseconds since 1970
	Boot    string       `msgpack:"b,omitempty"`
	Epoch   uint32       `msgpack:"e,omitempty"`
	Records []wireRecord `msgpack:"ev"`
}

type wireRecord struct {
	Kind    Kind               `msgpack:"k"`
	Version int                `msgpack:"v"`
	Call    int                `msgpack:"c"` // -1 for the turn
	Seq     uint32             `msgpack:"s"`
	Body    msgpack.RawMessage `msgpack:"d"`
}

var encoders = sync.Pool{New: func() any {
	e := msgpack.NewEncoder(nil)
	return e
}}

// Encode is the stored form of c. It is deterministic. It fails only for a
// commit without records or with an event that is in no table.
func Encode(c Commit) ([]byte, error) {
	if len(c.Records) == 0 {
		return nil, fmt.Errorf("encode commit %s: no events", c.ID)
	}
	w := wire{
		Format: Format, ID: c.ID, Trace: c.Turn.Trace, Turn: c.Turn.Turn, At: c.At.UnixMicro(),
		Boot: c.By.Boot, Epoch: c.By.Epoch, Records: make([]wireRecord, len(c.Records)),
	}
	for i, r := range c.Records {
		body, version, err := encodeEvent(r.Event)
		if err != nil {
			return nil, fmt.Errorf("encode commit %s: %w", c.ID, err)
		}
		w.Records[i] = wireRecord{Kind: r.Event.Kind(), Version: version, Call: r.Call, Seq: r.Seq, Body: body}
	}
	var out bytes.Buffer
	err := encode(&out, &w, "")
	return out.Bytes(), err
}

func encodeEvent(e Event) ([]byte, int, error) {
	if f, ok := e.(Foreign); ok {
		return f.Body, f.Version, nil
	}
	r := byKind[e.Kind()]
	if r == nil {
		return nil, 0, fmt.Errorf("kind %q is in no table", e.Kind())
	}
	var out bytes.Buffer
	err := encode(&out, e, "json")
	return out.Bytes(), r.Version, err
}

func encode(out *bytes.Buffer, v any, tag string) error {
	enc := encoders.Get().(*msgpack.Encoder)
	defer encoders.Put(enc)
	enc.ResetDict(out, nil)
	enc.UseCompactInts(true)
	enc.SetSortMapKeys(true)
	enc.SetCustomStructTag(tag)
	return enc.Encode(v)
}

// The first and the last microsecond that RFC 3339, and so JSON, has a form for.
const (
	firstTime = -62_135_596_800_000_000
	lastTime  = 253_402_300_799_999_999
)

// Decode reads the stored form of a commit. It returns ErrFormat, or
// ErrNewerFormat, and never panics on any bytes.
func Decode(b []byte) (Commit, error) {
	if err := walk(b); err != nil {
		return Commit{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	var w wire
	if err := msgpack.Unmarshal(b, &w); err != nil {
		return Commit{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if w.Format > Format {
		return Commit{}, fmt.Errorf("format %d, this is %d: %w", w.Format, Format, ErrNewerFormat)
	}
	if w.Format < 1 || len(w.Records) == 0 {
		return Commit{}, fmt.Errorf("%w: no format number or no events", ErrFormat)
	}
	if w.At < firstTime || w.At > lastTime {
		return Commit{}, fmt.Errorf("%w: its time, %d, is not of the years 1 to 9999", ErrFormat, w.At)
	}
	c := Commit{
		ID: w.ID, Turn: TurnKey{w.Trace, w.Turn}, At: time.UnixMicro(w.At).UTC(),
		By: Owner{w.Boot, w.Epoch}, Records: make([]Record, len(w.Records)),
	}
	for i, r := range w.Records {
		e, err := decodeEvent(r)
		if err != nil {
			return Commit{}, fmt.Errorf("commit %s, event %d, %s: %w: %w", c.ID, i, r.Kind, ErrFormat, err)
		}
		c.Records[i] = Record{Call: r.Call, Seq: r.Seq, Event: e}
	}
	return c, nil
}

func decodeEvent(r wireRecord) (Event, error) {
	row := byKind[r.Kind]
	if row == nil || r.Version > row.Version {
		return Foreign{Name: r.Kind, Version: r.Version, Body: bytes.Clone(r.Body)}, nil
	}
	body := []byte(r.Body)
	if r.Version < row.Version {
		var err error
		if body, err = upcast(row, r.Version, body); err != nil {
			return nil, err
		}
	}
	e := row.New()
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(body))
	dec.SetCustomStructTag("json")
	return e, dec.Decode(e)
}

func upcast(row *Row, from int, body []byte) ([]byte, error) {
	var m map[string]any
	if err := msgpack.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	for v := from; v < row.Version; v++ {
		up := row.Upcasts[v]
		if up == nil {
			return nil, fmt.Errorf("no upcast from version %d", v)
		}
		m = up(m)
	}
	var out bytes.Buffer
	err := encode(&out, m, "json")
	return out.Bytes(), err
}
