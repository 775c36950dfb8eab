package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Bounds of what is said.
const (
	MaxWhole   = 16 << 20  // bytes of JSON of work, or of an answer, all parts together
	MaxMessage = 768 << 10 // bytes of one message, as far as nobody says otherwise: servers take 1 MiB by default
	PartData   = 512 << 10 // bytes of data in a part, before base64
	MaxSchema  = 128 << 10 // bytes of a tool's schema
	MaxHere    = 256 << 10 // bytes of an announcement

	MaxAnswers     = 10_000 // answers of one go, at once
	AnswersASecond = 100    // and as many more in each second since the go
)

// Encode is the JSON of a message, without the escapes that are for HTML. It fails only
// where a json.RawMessage in it is no JSON.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write a message to the other side: %w", err)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// Decode reads a message of the other side. Its errors name the member that is wrong, in
// words that an author in any language understands.
func Decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return fmt.Errorf("want a JSON object, not: %.40s", wrong.Value)
		}
		return fmt.Errorf("%.200s is no %s: %.40s", wrong.Field, kinds[wrong.Type.Kind()], wrong.Value)
	}
	if broken, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("no JSON: %w", broken)
	}
	return err
}

// kinds are JSON's words for what Go reads.
var kinds = map[reflect.Kind]string{
	reflect.String: "string", reflect.Bool: "truth value", reflect.Int: "whole number", reflect.Int64: "whole number",
	reflect.Float64: "number", reflect.Struct: "object", reflect.Slice: "array",
}

// Split makes parts of the JSON of a message. They say all but the conversation's id and
// the number of the answer, which the caller fills in.
func Split(whole []byte) []Part {
	n := (len(whole) + PartData - 1) / PartData
	out := make([]Part, 0, n)
	for i := range n {
		piece := whole[i*PartData : min((i+1)*PartData, len(whole))]
		out = append(out, Part{V: Version, Type: TypePart, Part: i + 1, Parts: n, Data: piece})
	}
	return out
}

// Parts puts parts together. It is for one goroutine; the zero Parts is ready.
type Parts struct {
	seq, next, of int
	whole         []byte
}

// Add takes the next part, and returns the whole once it is complete. A first part begins
// anew, since who repeats an answer repeats all of it; one that does not continue what is
// there is dropped with it, since something between them was lost. It returns an error
// where the parts could never make a whole, or one of more than MaxWhole bytes.
func (p *Parts) Add(part Part) (whole []byte, err error) {
	if part.Parts < 1 || part.Part < 1 || part.Part > part.Parts || part.Parts > MaxWhole || len(part.Data) == 0 {
		return nil, fmt.Errorf("part %d of %d with %d bytes is none", part.Part, part.Parts, len(part.Data))
	}
	if part.Part == 1 {
		*p = Parts{seq: part.Seq, next: 1, of: part.Parts}
	}
	if p.next != part.Part || p.seq != part.Seq || p.of != part.Parts {
		*p = Parts{}
		return nil, nil
	}
	if len(p.whole)+len(part.Data) > MaxWhole {
		*p = Parts{}
		return nil, fmt.Errorf("it has more than %d bytes, all parts together", MaxWhole)
	}
	p.whole = append(p.whole, part.Data...)
	p.next++
	if part.Part < part.Parts {
		return nil, nil
	}
	whole = p.whole
	*p = Parts{}
	return whole, nil
}
