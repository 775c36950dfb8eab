package codec

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// responsesStream takes the response that the terminal event of a Responses stream holds,
// and holds it against what the events before it said.
type responsesStream struct {
	*kit
	id       []byte // of the response
	sequence int    // number of the last event that has one
	begun    bool
	end      string // the terminal event; "" before it
	response map[string]json.RawMessage
	items    []*responsesItem // in the order in which they began
}

// responsesItem is an output item.
type responsesItem struct {
	index int    // -1: its events have none
	id    []byte // of the item, which is not the call's
	kind  string
	final json.RawMessage // as output_item.done had it
	call  *call           // of a function_call or custom_tool_call
	text  json.RawMessage // its arguments, as their own done event had them
}

func looksResponses(e event, top map[string]json.RawMessage) bool {
	return strings.HasPrefix(kindOf(e, top), "response.")
}

func (s *responsesStream) missing() string { return "response.completed or response.incomplete" }

func (s *responsesStream) over() bool { return s.end != "" }

func (s *responsesStream) take(e event, top map[string]json.RawMessage) error {
	kind := kindOf(e, top)
	if s.end != "" {
		if kind == "keepalive" {
			return nil
		}
		return fault(FaultAfterEnd, "%s follows %s", shorten(kind, 64), s.end)
	}
	if err := s.order(top["sequence_number"]); err != nil {
		return err
	}
	switch kind {
	case "response.created":
		if s.begun {
			return fault(FaultConflict, "a second response begins")
		}
		s.begun = true
		return s.same(top["response"])
	case "response.in_progress", "response.queued":
		return s.same(top["response"])
	case "response.output_item.added":
		return s.add(top)
	case "response.output_item.done":
		return s.done(top)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		return s.delta(top)
	case "response.function_call_arguments.done":
		return s.text(top, "arguments")
	case "response.custom_tool_call_input.done":
		return s.text(top, "input")
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return s.finish(kind, top["response"])
	}
	return nil
}

// order refuses an event that comes again, or too late.
func (s *responsesStream) order(raw json.RawMessage) error {
	if absent(raw) {
		return nil // not every server counts
	}
	n, err := place(raw, "/sequence_number")
	if err != nil {
		return err
	}
	if n += 1; n <= s.sequence { // from 1 here, so that the zero value is before all
		return fault(FaultConflict, "sequence_number %d after %d: an event was sent twice, or late", n-1, s.sequence-1)
	}
	s.sequence = n
	return nil
}

// same refuses an event about another response.
func (s *responsesStream) same(raw json.RawMessage) error {
	r, err := fields(raw, "/response")
	if err != nil {
		return ofMessage(err)
	}
	return s.identify(&s.id, r["id"], "response id")
}

// item is the item that an event is about, nil where there is none yet: by its place, else
// by its id. Routers give one item several ids; its place and its call_id stay.
func (s *responsesStream) item(top map[string]json.RawMessage, id json.RawMessage) (index int, name []byte, found *responsesItem, err error) {
	if index, err = place(top["output_index"], "/output_index"); err != nil {
		return 0, nil, nil, err
	}
	if name, err = inner(id, "item id"); err != nil {
		return 0, nil, nil, err
	}
	for _, it := range s.items {
		if index >= 0 && it.index == index || index < 0 && len(name) > 0 && bytes.Equal(it.id, name) {
			return index, name, it, nil
		}
	}
	return index, name, nil, nil
}

// callKind says whether an item of that type is a call that its receiver answers.
func callKind(kind string) bool { return kind == "function_call" || kind == "custom_tool_call" }

func (s *responsesStream) add(top map[string]json.RawMessage) error {
	in, err := fields(top["item"], "/item")
	if err != nil {
		return ofMessage(err)
	}
	index, id, it, err := s.item(top, in["id"])
	switch {
	case err != nil:
		return err
	case it != nil:
		return fault(FaultConflict, "item %d begins twice", index)
	}
	_, err = s.beginItem(index, id, in)
	return err
}

// beginItem begins an item.
func (s *responsesStream) beginItem(index int, id []byte, in map[string]json.RawMessage) (*responsesItem, error) {
	if len(s.items) == maxBlocks {
		return nil, tooLarge("more than %d output items", maxBlocks)
	}
	kind, err := text(in["type"], "/item/type")
	if err != nil {
		return nil, ofMessage(err)
	}
	it := &responsesItem{index: index, id: id, kind: kind}
	s.items = append(s.items, it)
	if err := s.hold(len(id) + 64); err != nil || !callKind(kind) {
		return it, err
	}
	if it.call, err = s.begin(); err != nil {
		return nil, err
	}
	if err := s.identify(&it.call.id, in["call_id"], "call_id"); err != nil {
		return nil, err
	}
	if err := s.identify(&it.call.name, in["name"], "name"); err != nil {
		return nil, err
	}
	s.show(it.call, "")
	return it, nil
}

func (s *responsesStream) delta(top map[string]json.RawMessage) error {
	index, id, it, err := s.item(top, top["item_id"])
	switch {
	case err != nil:
		return err
	case it == nil && index < 0 && len(id) == 0:
		return s.lone(top["delta"])
	case it == nil:
		return fault(FaultOrder, "a delta of item %d, which has not begun", index)
	case it.call == nil:
		return fault(FaultConflict, "a delta of arguments for item %d, which is a %s", index, shorten(it.kind, 64))
	case it.final != nil || it.text != nil:
		return fault(FaultOrder, "a delta of item %d, which is done", index)
	}
	return s.extend(it.call, top["delta"], "delta")
}

// lone takes a delta that names no item: it can only be that of the one call that is open.
func (s *responsesStream) lone(raw json.RawMessage) error {
	var open []*responsesItem
	for _, it := range s.items {
		if it.call != nil && it.final == nil {
			open = append(open, it)
		}
	}
	if len(open) != 1 {
		return fault(FaultAmbiguous, "a delta that names no item, and %d calls are open", len(open))
	}
	return s.extend(open[0].call, raw, "delta")
}

// text takes the event that says the whole of a call's arguments.
func (s *responsesStream) text(top map[string]json.RawMessage, member string) error {
	index, _, it, err := s.item(top, top["item_id"])
	switch {
	case err != nil:
		return err
	case it == nil || it.call == nil:
		return fault(FaultOrder, "arguments are done of item %d, which is no call that has begun", index)
	}
	return s.settleText(it, top[member])
}

// settleText holds whole arguments against those that are there already.
func (s *responsesStream) settleText(it *responsesItem, raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	if before := it.arguments(); before != nil && !sameText(before, raw) {
		return fault(FaultConflict, "the arguments of call %q as a whole are not those that its deltas or an earlier event gave", shorten(string(it.call.id), 64))
	}
	if it.final != nil {
		return nil
	}
	if it.call.size == 0 { // nothing has been shown of them
		whole, _ := text(toUnicode(raw), "")
		it.call.size = len(whole)
		s.show(it.call, whole)
	}
	s.held -= len(it.call.args)
	it.call.args = nil // they are in raw
	var err error
	it.text, err = s.keep(it.text, raw)
	return err
}

// arguments are those that an item's events have given so far; nil for none, which is no
// evidence: routers leave the deltas out.
func (it *responsesItem) arguments() json.RawMessage {
	switch {
	case it.final != nil:
		in, _ := fields(it.final, "") // it was read when it came
		return in[argsOf(it.kind)]
	case it.text != nil:
		return it.text
	case len(it.call.args) > 0:
		return quoted(it.call.args)
	}
	return nil
}

// sameText says whether two JSON strings, or values, are the same.
func sameText(a, b json.RawMessage) bool {
	if first(a) == '"' && first(b) == '"' {
		x, _ := text(toUnicode(a), "")
		y, _ := text(toUnicode(b), "")
		return x == y
	}
	return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b))
}

func (s *responsesStream) done(top map[string]json.RawMessage) error {
	in, err := fields(top["item"], "/item")
	if err != nil {
		return ofMessage(err)
	}
	index, id, it, err := s.item(top, in["id"])
	if err != nil {
		return err
	}
	if it == nil { // a router may say each item once
		if it, err = s.beginItem(index, id, in); err != nil {
			return err
		}
	}
	if it.final != nil {
		return fault(FaultConflict, "item %d is done twice", index)
	}
	if kind, err := text(in["type"], "/item/type"); err != nil || kind != it.kind {
		return fault(FaultConflict, "item %d changes its type from %s", index, shorten(it.kind, 64))
	}
	if it.call == nil {
		it.final, err = s.keep(nil, top["item"])
		return err
	}
	if err := s.identify(&it.call.id, in["call_id"], "call_id"); err != nil {
		return err
	}
	if err := s.identify(&it.call.name, in["name"], "name"); err != nil {
		return err
	}
	if err := s.settleText(it, in[argsOf(it.kind)]); err != nil {
		return err
	}
	s.close(it.call)
	it.final, err = s.keep(it.text, top["item"]) // which has that text
	it.text = nil
	return err
}

// argsOf is the member of a call that holds its arguments.
func argsOf(kind string) string {
	if kind == "custom_tool_call" {
		return "input"
	}
	return "arguments"
}

// finish takes the terminal event.
func (s *responsesStream) finish(kind string, raw json.RawMessage) error {
	r, err := fields(raw, "/response")
	if err != nil {
		return ofMessage(err)
	}
	if err := s.identify(&s.id, r["id"], "response id"); err != nil {
		return err
	}
	status, err := text(r["status"], "/response/status")
	if err != nil {
		return ofMessage(err)
	}
	if kind == "response.failed" || kind == "response.cancelled" || status == "failed" || status == "cancelled" {
		if err := failure(event{}, r); err != nil {
			return err
		}
		return fault(FaultError, "the response ended as %s", shorten(strings.TrimPrefix(kind, "response."), 32))
	}
	if want := strings.TrimPrefix(kind, "response."); status != "" && status != want {
		return fault(FaultConflict, "%s holds a response whose status is %q", kind, shorten(status, 32))
	}
	s.end, s.response = kind, make(map[string]json.RawMessage)
	for _, name := range []string{"id", "model", "output", "incomplete_details", "usage"} { // of much that repeats the question
		if s.response[name], err = s.keep(nil, r[name]); err != nil {
			return err
		}
	}
	return s.reconcile(kind)
}

// reconcile holds the response's items against the events before it. Some servers send the
// items in their own events alone, and none with the response.
func (s *responsesStream) reconcile(kind string) error {
	var output []json.RawMessage
	if !absent(s.response["output"]) {
		var err error
		if output, err = list(s.response["output"], "/response/output"); err != nil {
			return ofMessage(err)
		}
	}
	if len(output) == 0 {
		return s.fill(kind)
	}
	if kind != "response.completed" {
		return nil // its calls are refused, whatever they were
	}
	var calls []map[string]json.RawMessage
	for _, raw := range output {
		m, err := fields(raw, "/response/output")
		if err != nil {
			return ofMessage(err)
		}
		if k, err := text(m["type"], "/response/output/type"); err == nil && callKind(k) {
			calls = append(calls, m)
		}
	}
	return s.compare(calls)
}

// compare refuses a response whose calls are not those that the events before it showed: a
// client may have taken them from either.
func (s *responsesStream) compare(calls []map[string]json.RawMessage) error {
	var seen []*responsesItem
	for _, it := range s.items {
		if it.call != nil {
			seen = append(seen, it)
		}
	}
	if len(seen) == 0 {
		return nil // a stream that was resumed, or a server that sends no items by themselves
	}
	slices.SortStableFunc(seen, func(a, b *responsesItem) int { return a.index - b.index })
	if len(seen) != len(calls) {
		return fault(FaultConflict, "the response has %d calls, and the events before it had %d", len(calls), len(seen))
	}
	for i, it := range seen {
		in := calls[i]
		if err := s.identify(&it.call.id, in["call_id"], "call_id"); err != nil {
			return err
		}
		if err := s.identify(&it.call.name, in["name"], "name"); err != nil {
			return err
		}
		if err := s.settleText(it, in[argsOf(it.kind)]); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the response's items of those that came by themselves. Where the model was
// cut off, one that is not done is there, too.
func (s *responsesStream) fill(kind string) error {
	items := slices.Clone(s.items)
	slices.SortStableFunc(items, func(a, b *responsesItem) int { return a.index - b.index })
	var out []json.RawMessage
	for _, it := range items {
		switch {
		case it.final != nil:
			out = append(out, it.final)
		case it.call != nil && kind == "response.completed":
			return fault(FaultOrder, "response.completed, and the call %q has not ended", shorten(string(it.call.id), 64))
		case it.call != nil:
			out = append(out, marshal(map[string]json.RawMessage{
				"type": marshal(it.kind), "id": quoted(it.id), "call_id": quoted(it.call.id), "name": quoted(it.call.name), argsOf(it.kind): it.call.text(),
			}))
		}
	}
	s.response["output"] = marshal(out)
	return nil
}

func (s *responsesStream) body() (json.RawMessage, error) {
	out := map[string]any{"object": "response", "status": strings.TrimPrefix(s.end, "response.")}
	for name, v := range s.response {
		if v != nil {
			out[name] = v
		}
	}
	return marshal(out), nil
}
