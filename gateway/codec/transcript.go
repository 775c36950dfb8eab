package codec

import (
	"bytes"
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

// Transcript reads one recorded conversation: an object with messages, or the array
// of them, in the form of OpenAI Chat or of Anthropic. Answers are matched in
// their place, since ids repeat: those between a message with calls and the next of
// the assistant, by id, and of equal ids in order. Errors are *Error.
func Transcript(doc []byte) (Recording, error) {
	if len(doc) > MaxTranscript {
		return Recording{}, &Error{Reason: fmt.Sprintf("%d bytes, at most %d", len(doc), MaxTranscript), Err: ErrTooLarge}
	}
	doc = toUnicode(doc)
	if err := checkDepth(doc); err != nil {
		return Recording{}, err
	}
	raw, path := json.RawMessage(doc), ""
	if first(doc) == '{' {
		m, err := fields(doc, "")
		if err != nil {
			return Recording{}, err
		}
		if raw, path = m["messages"], "/messages"; raw == nil {
			return Recording{}, malformed(path, "is missing: want an object with messages, or the array of them")
		}
	}
	messages, err := list(raw, path)
	if err != nil {
		return Recording{}, err
	}
	rec := &recorder{}
	for i, m := range messages {
		if err := rec.message(m, path+at(i)); err != nil {
			return Recording{}, err
		}
	}
	rec.out.Trace, rec.out.Format = traceOf(doc), rec.format
	if rec.format == "" {
		rec.out.Format = OpenAI // no calls: it could be either
	}
	return rec.out, nil
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
	out    Recording
	format Format
	open   *RecordedTurn // whose answers may still come
}

func (r *recorder) message(raw json.RawMessage, path string) error {
	m, err := fields(raw, path)
	if err != nil {
		return err
	}
	role, err := text(m["role"], path+"/role")
	if err != nil {
		return err
	}
	switch role {
	case "assistant":
		return r.assistant(m, path)
	case "tool":
		if err := r.speak(OpenAI, path); err != nil {
			return err
		}
		return r.answer(m, "tool_call_id", path, "role", "tool_call_id")
	case "user":
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
	r.open = nil
	var calls []events.RawCall
	var err error
	f := OpenAI
	if !absent(m["tool_calls"]) {
		calls, err = eachCall(m["tool_calls"], path+"/tool_calls", callOpenAI)
	} else if first(m["content"]) == '[' {
		f = Anthropic
		calls, err = eachCall(m["content"], path+"/content", blockAnthropic)
	}
	if err != nil || len(calls) == 0 {
		return err
	}
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
		if err := r.answer(b, "tool_use_id", path, "type", "tool_use_id"); err != nil {
			return err
		}
	}
	return nil
}

// place is the offset of the first call with that id and no answer, or -1.
func (t *RecordedTurn) place(id string) int {
	if t == nil {
		return -1
	}
	for i, c := range t.Calls {
		if c.ProviderID == id && t.Answers[i] == nil {
			return i
		}
	}
	return -1
}

// answer gives the answer m to the first open call of its id.
func (r *recorder) answer(m map[string]json.RawMessage, idField, path string, own ...string) error {
	id, err := text(m[idField], path+"/"+idField)
	if err != nil {
		return err
	}
	place := r.open.place(id)
	if place < 0 {
		r.out.Skipped = append(r.out.Skipped, fmt.Sprintf("%s answers %q, which no call before it has asked for", path, shorten(id, 64)))
		return nil
	}
	rec, err := newRecorded(r.format, m, own...)
	if err != nil {
		return malformed(path+"/content", "want a string%s", because(err))
	}
	a := &RecordedAnswer{Content: m["content"], Result: rec.result()}
	if raw, ok := m["name"]; ok {
		if name, err := text(raw, path); err == nil && first(raw) == '"' {
			a.Name = &name
		}
	}
	r.open.Answers[place] = a
	return nil
}
