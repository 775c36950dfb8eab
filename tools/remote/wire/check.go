package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// Digest is what a definition is called in offers, and where an approval is bound to it:
// "sha256-" and 12 hex digits of its canonical JSON, or of what is no JSON as it is. Who
// describes the same tool with other blanks or another order of members means the same.
func (d Definition) Digest() string {
	text, err := Encode(d)
	if err != nil {
		text = []byte(d.Description + "\x00" + d.Version + "\x00" + string(d.Schema))
	}
	if plain, err := canonical(text); err == nil {
		text = plain
	}
	sum := sha256.Sum256(text)
	return "sha256-" + hex.EncodeToString(sum[:6])
}

// canonical is JSON with sorted members and no blanks; digits stay as they are.
func canonical(text []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return Encode(v)
}

// maxDescription and the like are the sizes in bytes of what a definition says.
const (
	maxDescription = 8192
	maxVersion     = 64
	maxPointer     = 256
)

// Check returns nil for a definition that a node can work with, as far as it can be told
// without compiling the schema, or says what to mend.
func (d Definition) Check() error {
	switch {
	case len(d.Schema) == 0 || len(d.Schema) > MaxSchema:
		return fmt.Errorf("its schema has %d bytes: want 1 to %d", len(d.Schema), MaxSchema)
	case !json.Valid(d.Schema):
		return errors.New("its schema is no JSON")
	case len(d.Description) > maxDescription || !utf8.ValidString(d.Description):
		return fmt.Errorf("its description must be UTF-8 of at most %d bytes", maxDescription)
	case len(d.Version) > maxVersion || !printable(d.Version):
		return fmt.Errorf("its version must be printable, and at most %d bytes", maxVersion)
	case d.Key != "" && (!pointer.MatchString(d.Key) || len(d.Key) > maxPointer):
		return fmt.Errorf("key: %.80q is no JSON Pointer to an argument of at most %d bytes", d.Key, maxPointer)
	case d.Compensate && d.Tier != events.Reversible:
		return errors.New("compensate: only calls of a reversible tool can be undone: say tier reversible")
	case d.Limits != nil && (d.Limits.WallMS < 0 || d.Limits.Output < 0 || d.Limits.Lines < 0 || d.Limits.Text < 0):
		return errors.New("limits: a bound is not negative")
	}
	switch d.Tier {
	case "", events.Readonly, events.Reversible, events.Irreversible, events.Approval:
	default:
		return fmt.Errorf("there is no tier %.40q: say readonly, reversible, irreversible or approval", d.Tier)
	}
	if d.Limits != nil {
		switch d.Limits.Keep {
		case "", "head", "tail", "both":
		default:
			return fmt.Errorf("limits: keep %.40q: say head, tail or both", d.Limits.Keep)
		}
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}

// Check returns nil for an answer that keeps to the contract by itself, as the ones before
// it do not matter, or says what it lacks. A part is checked as the whole is, by its number.
func (a Answer) Check() error {
	switch {
	case a.V != Version:
		return fmt.Errorf("an answer of version %d: want %d", a.V, Version)
	case a.Seq < 1:
		return fmt.Errorf("an answer with seq %d: it counts the answers of one go from 1", a.Seq)
	}
	switch a.Type {
	case TypeBeat, TypeProgress, TypePart, TypeError, TypeFound, TypeAsk:
		return nil
	case TypeResult:
		if r := a.Result; r != nil && r.Status != "" && r.Status != events.Success && r.Status != events.Partial {
			return fmt.Errorf("a result of status %.40q: say success or partial, and an error of what has failed", r.Status)
		}
		return nil
	}
	return fmt.Errorf("an answer of type %.40q: after the go say beat, progress, part, result, error, found or ask", a.Type)
}

// May returns nil for as many answers of one go as a worker may have said within a time.
func May(answers int, since time.Duration) error {
	if most := MaxAnswers + int(since.Seconds()*AnswersASecond); answers > most {
		return fmt.Errorf("it has said %d things of one attempt in %v, and may say %d, and %d a second: say progress a few times a second",
			answers, since.Round(time.Millisecond), MaxAnswers, AnswersASecond)
	}
	return nil
}

var (
	code    = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
	pointer = regexp.MustCompile(`^(/([^/~]|~[01])*)+$`)
)

// Bounds of an error's words.
const (
	maxErrorMessage = 16 << 10
	maxErrorPath    = 1 << 10
)

// Sound is an error in which everything that makes no sense is left out, or replaced by
// what an error that says nothing means.
func (e *Error) Sound() Error {
	if e == nil {
		return Error{Code: events.ExecutionError, Message: "the tool failed and did not say why"}
	}
	out := *e
	if !code.MatchString(string(e.Code)) {
		out.Code = events.ExecutionError
	}
	switch e.Class {
	case events.ClassTool, events.ClassInvalid, events.ClassConflict, events.ClassUnavailable, events.ClassTimeout, events.ClassCancelled:
	default:
		out.Class = events.ClassTool
	}
	switch e.Effects {
	case events.EffectsNone, events.EffectsPossible, events.EffectsDone:
	default:
		out.Effects = ""
	}
	if len(e.Message) > maxErrorMessage {
		out.Message = strings.ToValidUTF8(e.Message[:maxErrorMessage], "") + " …"
	}
	if !strings.HasPrefix(e.Path, "/") || len(e.Path) > maxErrorPath || !printable(e.Path) {
		out.Path = ""
	}
	out.AfterMS = max(e.AfterMS, 0)
	return out
}

// IsObject says whether a text is one JSON object.
func IsObject(text json.RawMessage) bool {
	t := bytes.TrimSpace(text)
	return len(t) > 0 && t[0] == '{' && json.Valid(t)
}
