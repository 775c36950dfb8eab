package codec

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/sluice-run/sluice/events"
)

// MaxTranscript is the size in bytes of the largest recorded conversation.
const MaxTranscript = 64 << 20

// Recording is a recorded conversation, as far as calls and answers go.
type Recording struct {
	Trace   string // made from the content: the same recording has the same
	Format  Format
	Turns   []RecordedTurn // one for each message with calls
	Skipped []string       // answers that no call asked for: what and where
}

// RecordedTurn is one message with calls, and what was answered.
type RecordedTurn struct {
	Turn    string // t0001, t0002 …
	Calls   []events.RawCall
	Answers []*RecordedAnswer // one for each call; nil where the recording has none
}

// RecordedAnswer is one recorded answer.
type RecordedAnswer struct {
	Name    *string         // where the recording has one
	Content json.RawMessage // as recorded; nil where the recording has none
	Result  events.Result   // what an import stores; Render gives the recorded message back
}

// Results are the results that an import stores, nil where there is none.
func (t RecordedTurn) Results() []*events.Result {
	out := make([]*events.Result, len(t.Answers))
	for i, a := range t.Answers {
		if a != nil {
			out[i] = &a.Result
		}
	}
	return out
}

// Transcripts reads recorded conversations one after another: JSON Lines, or one
// document of any layout. It stops at the first error, and never holds more than one
// conversation. See Transcript.
func Transcripts(r io.Reader) iter.Seq2[Recording, error] { return transcripts(r, MaxTranscript) }

func transcripts(r io.Reader, limit int64) iter.Seq2[Recording, error] {
	return func(yield func(Recording, error) bool) {
		in := &io.LimitedReader{R: r}
		dec := json.NewDecoder(in)
		for n := 1; ; n++ {
			in.N = limit + 1
			var doc json.RawMessage
			var rec Recording
			err := dec.Decode(&doc)
			switch {
			case err == nil:
				rec, err = Transcript(doc)
			case in.N <= 0: // or the end of the file would be taken for that of the recordings
				err = &Error{Reason: fmt.Sprintf("more than %d bytes", limit), Err: ErrTooLarge}
			case errors.Is(err, io.EOF):
				return
			}
			if err != nil {
				yield(Recording{}, fmt.Errorf("conversation %d: %w", n, err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// Transcript reads one recorded conversation: an object with its messages, or the array
// of them, in the form of any provider. Answers are matched in their place, since ids
// repeat: those between a message with calls and the next of the assistant, by id, and of
// equal ids in order; where a format's calls have no ids, by name and order. Errors are
// *Error.
func Transcript(doc []byte) (Recording, error) {
	if len(doc) > MaxTranscript {
		return Recording{}, &Error{Reason: fmt.Sprintf("%d bytes, at most %d", len(doc), MaxTranscript), Err: ErrTooLarge}
	}
	doc = toUnicode(doc)
	if err := checkDepth(doc); err != nil {
		return Recording{}, err
	}
	parts, err := spoken(doc)
	if err != nil {
		return Recording{}, err
	}
	rec := &recorder{}
	for _, part := range parts {
		messages, err := list(part.raw, part.path)
		if err != nil {
			return Recording{}, err
		}
		for i, m := range messages {
			if err := rec.message(m, part.path+at(i)); err != nil {
				return Recording{}, err
			}
		}
	}
	rec.out.Trace, rec.out.Format = traceOf(doc), rec.format
	if rec.format == "" {
		rec.out.Format = OpenAI // no calls: it could be any
	}
	return rec.out, nil
}

// span is an array of messages and where it stands.
type span struct {
	raw  json.RawMessage
	path string
}

// spoken are the arrays of messages of a document, in their order: those of a request,
// and with Responses what came back behind them.
func spoken(doc []byte) ([]span, error) {
	if first(doc) != '{' {
		return []span{{doc, ""}}, nil
	}
	m, err := fields(doc, "")
	if err != nil {
		return nil, err
	}
	var out []span
	for _, name := range []string{"messages", "contents", "input", "output"} {
		raw, ok := m[name]
		switch {
		case !ok || absent(raw) && name != "messages":
			continue
		case len(out) > 0 && (name != "output" || out[0].path != "/input"):
			return nil, malformed("/"+name, "stands beside %s: want one of them", out[0].path[1:])
		case name == "input" && first(raw) == '"':
			raw = json.RawMessage("[]") // a user's words
		}
		out = append(out, span{raw, "/" + name})
	}
	if out == nil {
		return nil, malformed("/messages", "is missing: want an object with messages, input or contents, or the array of them")
	}
	return out, nil
}

// traceOf names a recording by what it says, however it is laid out.
func traceOf(doc []byte) string {
	var compact bytes.Buffer
	if json.Compact(&compact, doc) != nil {
		compact.Write(doc)
	}
	sum := sha256.Sum256(compact.Bytes())
	return "imp_" + hex.EncodeToString(sum[:20])
}

// recorder folds messages into turns.
type recorder struct {
	out       Recording
	format    Format
	open      *RecordedTurn     // whose answers may still come
	gathering bool              // and whose calls: they come as items, one by one
	before    []json.RawMessage // items that stand before a call
}

func (r *recorder) message(raw json.RawMessage, path string) error {
	m, err := fields(raw, path)
	if err != nil {
		return err
	}
	kind, err := text(m["type"], path+"/type")
	if err != nil {
		return err
	}
	role, err := text(m["role"], path+"/role")
	switch {
	case err != nil:
		return err
	case !absent(m["parts"]) && role != "assistant" && role != "tool":
		return r.content(m, role, path)
	case kind != "" && role == "" || kind == "message" && r.format == Responses:
		return r.item(raw, m, kind, role, path)
	}
	switch role {
	case "assistant":
		return r.assistant(m, path)
	case "tool":
		if first(m["content"]) == '[' && absent(m["tool_call_id"]) {
			return r.results(m, path)
		}
		if err := r.speak(OpenAI, path); err != nil {
			return err
		}
		return r.answer(m, "tool_call_id", "content", path, "role", "tool_call_id")
	case "user":
		r.gathering = false
		return r.user(m, path)
	}
	return nil
}

// speak fails where a recording is in two formats.
func (r *recorder) speak(f Format, path string) error {
	if r.format != "" && r.format != f {
		return malformed(path, "is in the form of %s, and what stands before in that of %s", f, r.format)
	}
	r.format = f
	return nil
}

func (r *recorder) assistant(m map[string]json.RawMessage, path string) error {
	if r.format == Responses {
		return nil // words between calls and their answers
	}
	r.open = nil
	var calls []events.RawCall
	var err error
	f := OpenAI
	if !absent(m["tool_calls"]) {
		calls, err = eachCall(m["tool_calls"], path+"/tool_calls", callOpenAI)
	} else if first(m["content"]) == '[' {
		if f, calls, err = Anthropic, nil, nil; sniffParts(m["content"]) {
			f = AISDK
			calls, err = partsAISDK(m["content"], path+"/content")
		} else {
			calls, err = blocksAnthropic(m["content"], path+"/content")
		}
	}
	if err != nil || len(calls) == 0 {
		return err
	}
	if f == OpenAI {
		calls[0].Extra = aroundOpenAI(calls[0], m)
	}
	return r.asked(f, calls, path)
}

// asked begins a turn.
func (r *recorder) asked(f Format, calls []events.RawCall, path string) error {
	if err := r.speak(f, path); err != nil {
		return err
	}
	r.out.Turns = append(r.out.Turns, RecordedTurn{
		Turn:    fmt.Sprintf("t%04d", len(r.out.Turns)+1),
		Calls:   calls,
		Answers: make([]*RecordedAnswer, len(calls)),
	})
	r.open = &r.out.Turns[len(r.out.Turns)-1]
	return nil
}

// user looks for the tool_result blocks of an Anthropic message.
func (r *recorder) user(m map[string]json.RawMessage, path string) error {
	if first(m["content"]) != '[' {
		return nil
	}
	all, err := list(m["content"], path+"/content")
	if err != nil {
		return err
	}
	for j, raw := range all {
		path := path + "/content" + at(j)
		b, err := fields(raw, path)
		if err != nil {
			return err
		}
		if kind, err := text(b["type"], path+"/type"); err != nil || kind != "tool_result" {
			continue
		}
		if err := r.speak(Anthropic, path); err != nil {
			return err
		}
		if err := r.answer(b, "tool_use_id", "content", path, "type", "tool_use_id"); err != nil {
			return err
		}
	}
	return nil
}

// place is the offset of the first call with that id and no answer, or -1. Where a call may
// have no id, name must be its tool's.
func (t *RecordedTurn) place(id, name string) int {
	if t == nil {
		return -1
	}
	for i, c := range t.Calls {
		if c.ProviderID == id && t.Answers[i] == nil && (id != "" || name == "" || c.Tool == name) {
			return i
		}
	}
	return -1
}

// answer gives the answer m, which says content, to the first open call of its id.
func (r *recorder) answer(m map[string]json.RawMessage, idField, content, path string, own ...string) error {
	id, err := text(m[idField], path+"/"+idField)
	if err != nil {
		return err
	}
	a := &RecordedAnswer{Content: m[content]}
	if raw, ok := m["name"]; ok {
		if name, err := text(raw, path); err == nil && first(raw) == '"' {
			a.Name = &name
		}
	}
	name := ""
	if r.format == Gemini && a.Name != nil {
		name = *a.Name
	}
	place := r.open.place(id, name)
	if place < 0 {
		r.out.Skipped = append(r.out.Skipped, fmt.Sprintf("%s answers %q, which no call before it has asked for", path, shorten(cmp.Or(id, name), 64)))
		return nil
	}
	rec, err := newRecorded(r.format, m, content, own...)
	if err != nil {
		return malformed(path+"/"+content, "cannot be read%s", because(err))
	}
	a.Result = rec.result()
	r.open.Answers[place] = a
	return nil
}
