package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// responsesStream takes the response that the terminal event of a Responses stream holds,
// and holds it against what the events before it said.
type responsesStream struct {
	*kit
	sequence int // number of the last event that has one
	begun    bool
	end      string            // the terminal event; "" before it
	last     [sha256.Size]byte // of that event
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
		if kind == "keepalive" || s.again(kind, e, top) {
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
		return nil // its id proves nothing: proxies write one of their own into some of the events
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
		s.last = sha256.Sum256(bytes.TrimSpace(e.data))
		return s.finish(kind, top["response"])
	}
	return nil
}

// again says whether an event behind the terminal one says nothing new: the same once more,
// or response.done, which some servers send behind it, with the same items or none.
func (s *responsesStream) again(kind string, e event, top map[string]json.RawMessage) bool {
	if kind == s.end {
		return sha256.Sum256(bytes.TrimSpace(e.data)) == s.last
	}
	r, err := optional(top["response"], "/response")
	if kind != "response.done" || err != nil {
		return false
	}
	status, err := text(r["status"], "/response/status")
	if err != nil || status != "" && "response."+status != s.end {
		return false
	}
	var have, said bytes.Buffer
	if absent(r["output"]) || json.Compact(&said, r["output"]) != nil || said.String() == "[]" {
		return absent(r["output"]) || said.String() == "[]"
	}
	return json.Compact(&have, s.response["output"]) == nil && bytes.Equal(have.Bytes(), said.Bytes())
}

// order refuses an event that comes again, or too late. Servers that do not count leave the
// number out, or write 0 or -1.
func (s *responsesStream) order(raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(raw)))
	switch {
	case err != nil:
		return fault(FaultMalformed, "/sequence_number %s: want a whole number", shorten(string(raw), 32))
	case n <= 0:
		return nil
	case n <= s.sequence:
		return fault(FaultConflict, "sequence_number %d after %d: an event was sent twice, or late", n, s.sequence)
	}
	s.sequence = n
	return nil
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
	for _, it := range slices.Backward(s.items) {
		own := len(name) > 0 && bytes.Equal(it.id, name)
		switch {
		case own && (index < 0 || it.index == index):
			return index, name, it, nil
		case index >= 0 && it.index == index && found == nil: // the newest of those at one place
			found = it
		}
	}
	return index, name, found, nil
}

// another says whether an item that begins is not the one that is at its place: servers that
// give each item the same place end one before the next, which has ids of its own.
func (it *responsesItem) another(id []byte, in map[string]json.RawMessage) bool {
	call, err := inner(in["call_id"], "call_id")
	switch {
	case err != nil || it.final == nil || len(id) == 0 || bytes.Equal(id, it.id):
		return false
	case it.call != nil && len(call) > 0:
		return !bytes.Equal(call, it.call.id)
	}
	return len(call) > 0 || typeIn(in) != it.kind || it.call == nil
}

// typeIn is the type of an item, "" where it says none.
func typeIn(in map[string]json.RawMessage) string {
	kind, _ := text(in["type"], "")
	return kind
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
	case it != nil && !it.another(id, in):
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

// settleText holds whole arguments against those that are there already. None say nothing.
func (s *responsesStream) settleText(it *responsesItem, raw json.RawMessage) error {
	before := it.arguments()
	if absent(raw) || nothing(raw) && before != nil {
		return nil
	}
	if before != nil && !it.sameArgs(before, raw) {
		return it.differs()
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

func (it *responsesItem) differs() error {
	return fault(FaultConflict, "the arguments of call %q as a whole are not those that its deltas or an earlier event gave", shorten(string(it.call.id), 64))
}

// sameArgs says whether arguments are the same. Those of a function are, whatever blanks
// stand between their parts, and whether they are a text or a value; none are an empty object.
func (it *responsesItem) sameArgs(a, b json.RawMessage) bool {
	if sameText(a, b) {
		return true
	}
	x, y := compactArgs(a), compactArgs(b)
	return it.kind == functionCall && x != nil && bytes.Equal(x, y)
}

// compactArgs are a function's arguments without blanks between their parts, nil for what is
// no JSON.
func compactArgs(raw json.RawMessage) []byte {
	if first(raw) == '"' {
		s, err := text(toUnicode(raw), "")
		if err != nil {
			return nil
		}
		raw = json.RawMessage(s)
	}
	if absent(raw) || len(bytes.TrimSpace(raw)) == 0 {
		return []byte("{}")
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return nil
	}
	return out.Bytes()
}

// arguments are those that an item's events have given so far; nil for none, which is no
// evidence: routers leave the deltas out.
func (it *responsesItem) arguments() json.RawMessage {
	switch {
	case it.final != nil:
		in, _ := fields(it.final, "") // it was read when it came
		if args := in[argsOf(it.kind)]; !absent(args) {
			return args
		}
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
	if it == nil || it.another(id, in) { // a router may say each item once
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
	return s.settle(it, in, top["item"])
}

// settle keeps a call's item as its done event had it, with the arguments that came before
// where it has none itself.
func (s *responsesStream) settle(it *responsesItem, in map[string]json.RawMessage, item json.RawMessage) error {
	if before := it.arguments(); before != nil && nothing(in[argsOf(it.kind)]) {
		in[argsOf(it.kind)] = before
		item = marshal(in)
	}
	s.held -= len(it.call.args)
	var err error
	it.final, err = s.keep(it.text, item) // which has that text
	it.text, it.call.args = nil, nil
	return err
}

// argsOf is the member of a call that holds its arguments.
func argsOf(kind string) string {
	if kind == "custom_tool_call" {
		return "input"
	}
	return "arguments"
}
