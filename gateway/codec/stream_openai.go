package codec

import (
	"bytes"
	"encoding/json"
	"slices"
)

// openAIStream puts a message of Chat Completions together from its chunks.
type openAIStream struct {
	*kit
	noDone bool // a finish_reason is the end: no [DONE] follows it in this framing
	done   bool
	id     []byte // of the completion
	reason []byte
	calls  []*openAIPiece    // in the order in which they began
	around map[string]*aside // what the model thought, by the member that holds it
}

// aside is what a provider wants back with the calls that it led to: pieces of a string, or
// of a list.
type aside struct {
	text  []byte
	items []json.RawMessage
}

// openAIPiece is a call whose deltas may be told apart by an index, an id, or neither.
type openAIPiece struct {
	*call
	index int             // -1: its deltas have none
	kind  []byte          // function or custom; nothing means function
	extra json.RawMessage // what its provider wants back with it
}

func looksOpenAI(_ event, top map[string]json.RawMessage) bool {
	object, _ := text(top["object"], "")
	_, choices := top["choices"]
	return choices || object == "chat.completion.chunk"
}

func (s *openAIStream) missing() string {
	if len(s.reason) > 0 {
		return "[DONE] (a server that never sends it has to be known: see done=optional)"
	}
	return "a finish_reason and [DONE]"
}

func (s *openAIStream) over() bool { return s.done || s.noDone && len(s.reason) > 0 }

func (s *openAIStream) take(_ event, top map[string]json.RawMessage) error {
	switch {
	case top == nil && len(s.reason) == 0:
		return fault(FaultCut, "[DONE] without a finish_reason: nothing says why the model stopped")
	case top == nil: // a second [DONE] says nothing new
		s.done = true
		return nil
	case s.done:
		return fault(FaultAfterEnd, "a chunk follows [DONE]")
	}
	if err := s.sameMessage(top["id"]); err != nil {
		return err
	}
	if err := s.note(top["model"], top["usage"]); err != nil {
		return err
	}
	if absent(top["choices"]) {
		return nil // what a router says of itself
	}
	choices, err := list(top["choices"], "/choices")
	switch {
	case err != nil:
		return ofMessage(err)
	case len(choices) == 0: // usage, or what a filter says of the prompt
		return nil
	case len(choices) > 1:
		return fault(FaultChoices, "%d choices in a chunk: ask the model for one (n=1)", len(choices))
	}
	return s.choice(choices[0])
}

// sameMessage refuses a chunk of another completion.
func (s *openAIStream) sameMessage(raw json.RawMessage) error {
	id, err := inner(raw, "id")
	switch {
	case err != nil:
		return err
	case len(id) == 0 || bytes.Equal(id, s.id): // the first chunk of some servers has none
		return nil
	case len(s.id) > 0:
		return fault(FaultConflict, "a second message begins: id %q after %q", shorten(string(id), 64), shorten(string(s.id), 64))
	}
	s.id = id
	return s.hold(len(id))
}

func (s *openAIStream) choice(raw json.RawMessage) error {
	c, err := fields(raw, "/choices/0")
	if err != nil {
		return ofMessage(err)
	}
	if n, err := place(c["index"], "/choices/0/index"); err != nil || n > 0 {
		if err == nil {
			err = fault(FaultChoices, "a chunk of choice %d: ask the model for one (n=1)", n)
		}
		return err
	}
	if !absent(c["message"]) {
		return fault(FaultMalformed, "/choices/0 has a message, not a delta: this is a whole response, and no stream")
	}
	if err := failure(event{}, c); err != nil { // as routers tell it
		return err
	}
	if !absent(c["delta"]) {
		if err := s.delta(c["delta"]); err != nil {
			return err
		}
	}
	return s.stop(c["finish_reason"])
}

// stop takes a finish_reason.
func (s *openAIStream) stop(raw json.RawMessage) error {
	reason, err := inner(raw, "/choices/0/finish_reason")
	switch {
	case err != nil:
		return err
	case len(reason) == 0 || bytes.Equal(reason, s.reason):
		return nil
	case len(s.reason) > 0:
		return fault(FaultConflict, "finish_reason %q after %q", shorten(string(reason), 64), shorten(string(s.reason), 64))
	case string(reason) == "error":
		return fault(FaultError, "the provider failed while it answered: its finish_reason is error")
	}
	s.reason = reason
	for _, c := range s.calls {
		s.close(c.call)
	}
	return s.hold(len(reason))
}

func (s *openAIStream) delta(raw json.RawMessage) error {
	d, err := fields(raw, "/choices/0/delta")
	if err != nil {
		return ofMessage(err)
	}
	role, err := text(d["role"], "/choices/0/delta/role")
	switch {
	case err != nil:
		return ofMessage(err)
	case role != "" && role != "assistant":
		return fault(FaultMalformed, "/choices/0/delta/role: %q, want assistant", shorten(role, 32))
	case !absent(d["function_call"]):
		return fault(FaultMalformed, "/choices/0/delta/function_call: the form before tool_calls is not supported: ask the model with tools, not functions")
	}
	if len(s.reason) > 0 {
		return s.late(d)
	}
	for _, name := range thoughtsOpenAI {
		if err := s.think(name, d[name]); err != nil {
			return err
		}
	}
	if absent(d["tool_calls"]) {
		return nil
	}
	calls, err := list(d["tool_calls"], "/choices/0/delta/tool_calls")
	if err != nil {
		return ofMessage(err)
	}
	for _, c := range calls {
		if err := s.piece(c); err != nil {
			return err
		}
	}
	return nil
}

// think adds to what the model thought.
func (s *openAIStream) think(name string, raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	if s.around == nil {
		s.around = make(map[string]*aside)
	}
	a := s.around[name]
	if a == nil {
		a = new(aside)
		s.around[name] = a
	}
	switch first(raw) {
	case '"':
		in, err := inner(raw, name)
		if err != nil {
			return err
		}
		a.text = append(a.text, in...)
	case '[':
		items, err := list(raw, name)
		if err != nil {
			return ofMessage(err)
		}
		a.items = append(a.items, items...)
	}
	return s.hold(len(raw))
}

// late refuses what the model would say after it has stopped.
func (s *openAIStream) late(d map[string]json.RawMessage) error {
	for _, name := range []string{"tool_calls", "content"} {
		v := bytes.TrimSpace(d[name])
		if !absent(v) && !slices.Contains([]string{`""`, `[]`}, string(v)) {
			return fault(FaultAfterEnd, "/choices/0/delta/%s follows the finish_reason", name)
		}
	}
	return nil
}

// piece takes one delta of one call.
func (s *openAIStream) piece(raw json.RawMessage) error {
	const path = "/choices/0/delta/tool_calls"
	d, err := fields(raw, path)
	if err != nil {
		return ofMessage(err)
	}
	kind, args, err := form(d)
	if err != nil {
		return err
	}
	f := map[string]json.RawMessage{}
	if !absent(d[kind]) {
		if f, err = fields(d[kind], path+"/"+kind); err != nil {
			return ofMessage(err)
		}
	}
	index, err := place(d["index"], path+"/index")
	if err != nil {
		return err
	}
	id, err := inner(d["id"], path+"/id")
	if err != nil {
		return err
	}
	name, err := inner(f["name"], path+"/name")
	if err != nil {
		return err
	}
	c, err := s.find(index, id, name, f[args])
	if err != nil || c == nil {
		return err
	}
	if !absent(d["type"]) || kind == "custom" {
		if err := s.identify(&c.kind, marshal(kind), "type"); err != nil {
			return err
		}
	}
	if err := s.identify(&c.id, d["id"], "id"); err != nil {
		return err
	}
	if err := s.identify(&c.name, f["name"], "name"); err != nil {
		return err
	}
	if extra := d[extraOpenAI]; !absent(extra) {
		if c.extra, err = s.keep(c.extra, extra); err != nil {
			return err
		}
	}
	return s.extend(c.call, f[args], "arguments")
}

// form is the member of a delta that holds the call, and that member's own for arguments.
func form(d map[string]json.RawMessage) (kind, args string, err error) {
	kind, err = text(d["type"], "type")
	switch {
	case err != nil:
		return "", "", ofMessage(err)
	case kind == "custom", kind == "" && !absent(d["custom"]):
		return "custom", "input", nil
	case kind == "", kind == "function":
		return "function", "arguments", nil
	}
	return "", "", fault(FaultMalformed, "a call of type %q, want function or custom", shorten(kind, 32))
}

// find is the call that a delta belongs to, begun if it is a new one; nil for a delta that
// says nothing. With an index it is the call of that index. Without one an id opens a call,
// and what has no id either goes on with the last one, if that can be said.
func (s *openAIStream) find(index int, id, name []byte, args json.RawMessage) (*openAIPiece, error) {
	if index >= 0 {
		for _, c := range s.calls {
			if c.index == index {
				return c, nil
			}
		}
		if len(id) == 0 && len(name) == 0 {
			return nil, fault(FaultAmbiguous, "a delta of index %d, which no delta with an id or a name has begun", index)
		}
		return s.start(index)
	}
	if len(id) > 0 {
		return s.byID(id, name)
	}
	if len(name) > 0 {
		return s.start(-1)
	}
	if len(s.calls) == 0 || nothing(args) {
		if nothing(args) {
			return nil, nil
		}
		return nil, fault(FaultAmbiguous, "a delta without index, id and name, and no call has begun")
	}
	return s.last()
}

func (s *openAIStream) start(index int) (*openAIPiece, error) {
	c, err := s.begin()
	if err != nil {
		return nil, err
	}
	p := &openAIPiece{call: c, index: index}
	s.calls = append(s.calls, p)
	return p, nil
}

// byID is the call of a delta with an id and no index.
func (s *openAIStream) byID(id, name []byte) (*openAIPiece, error) {
	var same []*openAIPiece
	for _, c := range s.calls {
		if bytes.Equal(c.id, id) {
			same = append(same, c)
		}
	}
	switch {
	case len(same) == 0:
		return s.start(-1)
	case len(name) == 0 && len(same) == 1:
		return same[0], nil
	case len(name) == 0:
		return nil, fault(FaultAmbiguous, "a delta without index, and %d calls have its id %q", len(same), shorten(string(id), 64))
	}
	for _, c := range same { // a name, too: the same call again, or another one with its id
		if !c.scan.whole {
			return nil, fault(FaultAmbiguous, "a delta without index, with the id %q of a call whose arguments are not whole: it could be that one's, or a new call", shorten(string(id), 64))
		}
	}
	return s.start(-1)
}

// last is the call that a delta with neither index nor id goes on with: the only one there
// is, or the last one where all others are whole and it is not.
func (s *openAIStream) last() (*openAIPiece, error) {
	n := len(s.calls)
	last := s.calls[n-1]
	if n == 1 {
		return last, nil
	}
	open := 0
	for _, c := range s.calls {
		if !c.scan.whole {
			open++
		}
	}
	if open != 1 || last.scan.whole {
		return nil, fault(FaultAmbiguous, "a delta with neither index nor id, and %d of %d calls are not whole: nobody can say which one it belongs to", open, n)
	}
	return last, nil
}

// nothing says whether a delta's arguments are none, or "".
func nothing(args json.RawMessage) bool { return absent(args) || string(bytes.TrimSpace(args)) == `""` }

// body is the completion. Calls stand in the order of their indexes, or as they began where
// one of them has none.
func (s *openAIStream) body() (json.RawMessage, error) {
	calls := slices.Clone(s.calls)
	if !slices.ContainsFunc(calls, func(c *openAIPiece) bool { return c.index < 0 }) {
		slices.SortStableFunc(calls, func(a, b *openAIPiece) int { return a.index - b.index })
	}
	list := make([]json.RawMessage, len(calls))
	for i, c := range calls {
		f := map[string]json.RawMessage{"name": quoted(c.name)}
		kind, args := "function", "arguments"
		if string(c.kind) == "custom" {
			kind, args = "custom", "input"
		}
		if c.whole != nil || len(c.args) > 0 {
			f[args] = c.text()
		}
		one := map[string]json.RawMessage{"id": quoted(c.id), "type": marshal(kind), kind: marshal(f)}
		if c.extra != nil {
			one[extraOpenAI] = c.extra
		}
		list[i] = marshal(one)
	}
	message := map[string]any{"role": "assistant", "content": nil, "tool_calls": list}
	for name, a := range s.around {
		if a.items != nil {
			message[name] = a.items
		} else if len(a.text) > 0 {
			message[name] = quoted(a.text)
		}
	}
	out := map[string]any{"choices": []any{map[string]any{"finish_reason": quoted(s.reason), "message": message}}}
	return s.whole(out), nil
}
