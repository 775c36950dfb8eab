package events

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// TraceID is a trace's id in the form of the W3C: 16 bytes, not all of them 0. It has
// nothing to do with the id of one of our own traces, which is the caller's text.
type TraceID [16]byte

// SpanID is a span's id in the form of the W3C: 8 bytes. All of them 0: none.
type SpanID [8]byte

// String is 32 hexadecimal digits.
func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// String is 16 hexadecimal digits.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText is the form in JSON.
func (id TraceID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// MarshalText is the form in JSON.
func (id SpanID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads 32 lower-case hexadecimal digits.
func (id *TraceID) UnmarshalText(b []byte) error { return unhex(id[:], b) }

// UnmarshalText reads 16 lower-case hexadecimal digits.
func (id *SpanID) UnmarshalText(b []byte) error { return unhex(id[:], b) }

// unhex fills all of out from lower-case hexadecimal digits.
func unhex(out, digits []byte) error {
	if len(digits) != 2*len(out) {
		return fmt.Errorf("an id of %d digits, want %d", len(digits), 2*len(out))
	}
	for _, d := range digits {
		if d >= 'A' && d <= 'F' {
			return fmt.Errorf("an id with %q: want lower-case hexadecimal digits", d)
		}
	}
	_, err := hex.Decode(out, digits)
	return err
}

// TraceContext is a place in somebody's trace, as a W3C traceparent says it. The zero
// value is none.
type TraceContext struct {
	Trace TraceID
	Span  SpanID
	Flags byte // bit 0: whoever began the trace records it
}

// FlagSampled is the bit of TraceContext.Flags that says that the trace is recorded.
const FlagSampled = 1

// flagsKnown are the flags that have a meaning, which are passed on: sampled, and that the
// trace's id is random. The W3C asks for zeros elsewhere.
const flagsKnown = 3

// Sampled says whether whoever began the trace records it.
func (c TraceContext) Sampled() bool { return c.Flags&FlagSampled != 0 }

// String is the traceparent, of version 00; "" for no context.
func (c TraceContext) String() string {
	if c == (TraceContext{}) {
		return ""
	}
	return "00-" + c.Trace.String() + "-" + c.Span.String() + "-" + hex.EncodeToString([]byte{c.Flags})
}

// lengthOf00 is the length in bytes of a traceparent of version 00.
const lengthOf00 = 55

// ParseTraceparent reads a traceparent. A version above 00 is read as far as 00 goes,
// as the W3C asks for. ok is false for what is none: then there is no caller's trace.
func ParseTraceparent(s string) (c TraceContext, ok bool) {
	if len(s) < lengthOf00 || s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" {
		return TraceContext{}, false
	}
	if len(s) > lengthOf00 && (s[:2] == "00" || s[lengthOf00] != '-') {
		return TraceContext{}, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		out  []byte
		text string
	}{{version[:], s[:2]}, {c.Trace[:], s[3:35]}, {c.Span[:], s[36:52]}, {flags[:], s[53:55]}} {
		if unhex(part.out, []byte(part.text)) != nil {
			return TraceContext{}, false
		}
	}
	if c.Trace == (TraceID{}) || c.Span == (SpanID{}) {
		return TraceContext{}, false
	}
	c.Flags = flags[0] & flagsKnown
	return c, true
}

// SpanIDs are the ids of the spans of one turn. They follow from what the log holds, so
// that every node, and every reading of the log, gives the same ones.
type SpanIDs struct {
	Trace  TraceID // the caller's, else the turn's own
	Caller SpanID  // the span that the turn was submitted in; zero: there is none
	Flags  byte    // the caller's; FlagSampled where there is none
	seed   [sha256.Size]byte
}

// SpansOf are the ids of a turn's spans: key and submitted are of its first commit,
// traceparent is what its caller gave. Two turns with one name, in two logs or on two
// sides of a lost tail, were not submitted in the same microsecond, and have other ids.
func SpansOf(key TurnKey, submitted time.Time, traceparent string) SpanIDs {
	ids := SpanIDs{seed: sha256.Sum256(fmt.Appendf(nil, "sluice span\x00%s\x00%d", key, submitted.UnixMicro()))}
	if c, ok := ParseTraceparent(traceparent); ok {
		ids.Trace, ids.Caller, ids.Flags = c.Trace, c.Span, c.Flags
		return ids
	}
	ids.Trace, ids.Flags = TraceID(ids.seed[:len(ids.Trace)]), FlagSampled
	ids.Trace[0] |= 1 // never all 0
	return ids
}

// Turn is the turn's own span.
func (ids SpanIDs) Turn() SpanID { return ids.Of("turn") }

// Call is the span of the call at offset.
func (ids SpanIDs) Call(offset int) SpanID { return ids.Of("call", offset) }

// Attempt is the span of an attempt. Its owner is part of the id: after a lost tail the
// same attempt of the same call can be begun once more, by another boot.
func (ids SpanIDs) Attempt(offset, attempt int, owner Owner) SpanID {
	return ids.Of("attempt "+owner.Boot, offset, attempt, int(owner.Epoch))
}

// Of is the span of anything else: what it is, and numbers that tell it from others of
// its kind.
func (ids SpanIDs) Of(what string, numbers ...int) SpanID {
	b := append(ids.seed[:], what...)
	for _, n := range numbers {
		b = append(b, 0)
		b = strconv.AppendInt(b, int64(n), 10)
	}
	sum := sha256.Sum256(b)
	id := SpanID(sum[:8])
	if binary.BigEndian.Uint64(id[:]) == 0 {
		id[0] = 1
	}
	return id
}

// Context is the place of a span, as a tool hands it on.
func (ids SpanIDs) Context(span SpanID) TraceContext {
	return TraceContext{Trace: ids.Trace, Span: span, Flags: ids.Flags}
}
