// Package events is the vocabulary of the log: the kinds of things that can
// have happened to a turn and its calls, their ids, and their stored form.
// It is pure: no clock, no I/O, no knowledge of who keeps the log.
package events

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxID is the length in bytes of the longest trace or turn id.
const MaxID = 64

// ErrID says that a string is no valid trace or turn id.
var ErrID = errors.New("id must be 1 to 64 of A-Z a-z 0-9 _ -")

// CheckID returns nil for a valid trace or turn id, or an error that wraps ErrID.
func CheckID(what, id string) error {
	if len(id) == 0 || len(id) > MaxID {
		return fmt.Errorf("%s %q: %w", what, clip(id), ErrID)
	}
	for i := range len(id) {
		if !idByte(id[i]) {
			return fmt.Errorf("%s %q: %w", what, clip(id), ErrID)
		}
	}
	return nil
}

func idByte(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func clip(s string) string {
	if len(s) > MaxID+8 {
		return s[:MaxID+8] + "…"
	}
	return s
}

// TurnKey names a turn: the tool calls of one model response in one trace.
type TurnKey struct {
	Trace string `json:"trace"`
	Turn  string `json:"turn"`
}

// String is "trace/turn".
func (k TurnKey) String() string { return k.Trace + "/" + k.Turn }

// Call is the key of the call at offset in the turn.
func (k TurnKey) Call(offset int) CallKey { return CallKey{k.Trace, k.Turn, offset} }

// Check returns nil for a valid key, or an error that wraps ErrID.
func (k TurnKey) Check() error {
	return errors.Join(CheckID("trace", k.Trace), CheckID("turn", k.Turn))
}

// ParseTurnKey reads what TurnKey.String wrote.
func ParseTurnKey(s string) (TurnKey, error) {
	trace, turn, ok := strings.Cut(s, "/")
	k := TurnKey{trace, turn}
	if !ok {
		return TurnKey{}, fmt.Errorf("turn %q: want trace/turn", clip(s))
	}
	return k, k.Check()
}

// CallKey names a call by its place: the provider's id is data only, since
// providers repeat ids, in one message and across turns.
type CallKey struct {
	Trace  string `json:"trace"`
	Turn   string `json:"turn"`
	Offset int    `json:"call"` // 0-based place in the model's message
}

// String is "trace/turn/offset".
func (k CallKey) String() string { return k.Trace + "/" + k.Turn + "/" + strconv.Itoa(k.Offset) }

// TurnKey is the key of the turn that the call belongs to.
func (k CallKey) TurnKey() TurnKey { return TurnKey{k.Trace, k.Turn} }

// ParseCallKey reads what CallKey.String wrote.
func ParseCallKey(s string) (CallKey, error) {
	i := strings.LastIndexByte(s, '/')
	if strings.Count(s, "/") != 2 {
		return CallKey{}, fmt.Errorf("call %q: want trace/turn/call, the call by its place in the turn, from 0: for example shop/t1/0", clip(s))
	}
	t, err := ParseTurnKey(s[:i])
	if err != nil {
		return CallKey{}, err
	}
	n, err := strconv.Atoi(s[i+1:])
	if err != nil || n < 0 || strconv.Itoa(n) != s[i+1:] {
		return CallKey{}, fmt.Errorf("call %q: offset must be a number from 0", clip(s))
	}
	return t.Call(n), nil
}

// Position is an event's place in the whole log. Positions of one generation
// are ordered; a new generation begins after an unclean start.
type Position struct {
	Generation uint32 // 1 for a new log
	Seq        uint64 // of the commit in the stream, from 1
	Index      int    // of the event in its commit, from 0
}

// String is "<generation>.<stream sequence>.<index>".
func (p Position) String() string { return fmt.Sprintf("%d.%d.%d", p.Generation, p.Seq, p.Index) }

// ParsePosition reads what Position.String wrote; a missing index is 0.
func ParsePosition(s string) (Position, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 2 && len(parts) != 3 {
		return Position{}, fmt.Errorf("position %q: want generation.sequence.index", clip(s))
	}
	g, err := strconv.ParseUint(parts[0], 10, 32)
	if err != nil {
		return Position{}, fmt.Errorf("position %q: generation must be a number from 0 to %d", clip(s), uint32(math.MaxUint32))
	}
	q, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return Position{}, fmt.Errorf("position %q: sequence must be a number from 0 to %d", clip(s), uint64(math.MaxUint64))
	}
	p := Position{Generation: uint32(g), Seq: q}
	if len(parts) == 3 {
		if p.Index, err = strconv.Atoi(parts[2]); err != nil || p.Index < 0 {
			return Position{}, fmt.Errorf("position %q: index must be a number from 0", clip(s))
		}
	}
	return p, nil
}

// Compare is -1, 0 or 1 as p stands before, at or after q.
func (p Position) Compare(q Position) int {
	switch {
	case p.Generation != q.Generation:
		return sign(p.Generation < q.Generation)
	case p.Seq != q.Seq:
		return sign(p.Seq < q.Seq)
	case p.Index != q.Index:
		return sign(p.Index < q.Index)
	}
	return 0
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}
