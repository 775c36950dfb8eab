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
	ids    openAIIDs
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
	return choices || object == "chat.completion.chunk" || ofOllama(top)
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
		return fault(FaultAfterEnd, "a chunk follows the end")
	case ofOllama(top):
		return s.takeOllama(top)
	}
	id, err := inner(top["id"], "id")
	if err != nil {
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
	return s.choice(choices[0], id)
}

func (s *openAIStream) choice(raw json.RawMessage, id []byte) error {
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
		if err := s.delta(c["delta"], id, !nothing(c["finish_reason"])); err != nil {
			return err
		}
	}
	return s.stop(c["finish_reason"])
}

// stop takes a finish_reason.
func (s *openAIStream) stop(raw json.RawMessage) error {
	going := len(s.reason) == 0
	err := s.because(&s.reason, raw, "finish_reason")
	switch {
	case err != nil || len(s.reason) == 0 || !going:
		return err
	case string(s.reason) == "error":
		return fault(FaultError, "the provider failed while it answered: its finish_reason is error")
	}
	for _, c := range s.calls {
		s.close(c.call)
	}
	return s.apart()
}

// delta takes what a chunk with that id brings; ends says that it has a finish_reason, too.
func (s *openAIStream) delta(raw json.RawMessage, id []byte, ends bool) error {
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
	case legacyCall(d["function_call"]):
		return fault(FaultMalformed, "/choices/0/delta/function_call: the form before tool_calls is not supported: ask the model with tools, not functions")
	}
	if otherName(d) {
		return fault(FaultMalformed, "/choices/0/delta/toolCalls: calls stand under tool_calls in this format")
	}
	if len(s.reason) > 0 {
		return s.late(d)
	}
	if err := s.ids.next(id, role != "", says(d) != "", ends); err != nil {
		return err
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
	if name := says(d); name != "" {
		return fault(FaultAfterEnd, "/choices/0/delta/%s follows the finish_reason", name)
	}
	return nil
}

// says is the member of a delta that holds words of the model, or calls; "" where none does.
func says(d map[string]json.RawMessage) string {
	switch content := bytes.TrimSpace(d["content"]); {
	case !emptyPieces(d["tool_calls"]):
		return "tool_calls"
	case !nothing(content) && string(content) != "[]":
		return "content"
	}
	return ""
}

// emptyPieces says whether the deltas of calls are none, or bring nothing: no id, no name and
// no arguments.
func emptyPieces(raw json.RawMessage) bool {
	if absent(raw) {
		return true
	}
	pieces, err := list(raw, "")
	return err == nil && !slices.ContainsFunc(pieces, func(raw json.RawMessage) bool {
		d, err := fields(raw, "")
		f, bad := optional(d["function"], "")
		silent := hint{args: f["arguments"]}.silent()
		return err != nil || bad != nil || !silent || !nothing(d["id"]) || !nothing(f["name"]) || !absent(d["custom"])
	})
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
	c, err := s.find(hint{index, id, name, f[args]})
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
