package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
)

// anthropicStream puts a message of the Messages API together from its events.
type anthropicStream struct {
	*kit
	begun   bool
	first   [sha256.Size]byte // of message_start's message; the zero value: it has no id
	stopped bool
	reason  []byte
	usage   map[string]json.RawMessage
	blocks  []*anthropicBlock // in the order in which they began
}

// anthropicBlock is a content block. Of those that ask for nothing only thinking is kept,
// which the provider wants back before the calls that it led to.
type anthropicBlock struct {
	index    int
	kind     string
	closed   bool
	call     *call                      // of a tool_use
	with     map[string]json.RawMessage // what the provider wants back with it
	start    json.RawMessage            // of a block that is kept as it began
	thinking []byte
	sign     []byte
}

func looksAnthropic(e event, top map[string]json.RawMessage) bool {
	switch kindOf(e, top) {
	case "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop":
		return true
	}
	return false
}

// kindOf is the type of an event: its data's word, else that of its event field.
func kindOf(e event, top map[string]json.RawMessage) string {
	if kind, err := text(top["type"], ""); err == nil && kind != "" {
		return kind
	}
	return e.name
}

func (s *anthropicStream) missing() string { return "a message_stop" }

func (s *anthropicStream) over() bool { return s.stopped }

func (s *anthropicStream) take(e event, top map[string]json.RawMessage) error {
	kind := kindOf(e, top)
	switch {
	case kind == "ping", s.stopped && kind == "message_stop": // bridges say it twice
		return nil
	case s.stopped:
		return fault(FaultAfterEnd, "%s follows message_stop", shorten(kind, 64))
	case !s.begun && kind != "message_start" && looksAnthropic(e, top):
		return fault(FaultOrder, "%s before message_start", kind)
	case len(s.reason) > 0 && (kind == "content_block_start" || kind == "content_block_delta"):
		return s.late(kind, top)
	}
	switch kind {
	case "message_start":
		return s.start(top["message"])
	case "content_block_start":
		return s.startBlock(top)
	case "content_block_delta":
		return s.delta(top)
	case "content_block_stop":
		return s.stopBlock(top)
	case "message_delta":
		return s.change(top)
	case "message_stop":
		return s.stop()
	}
	return nil // events that this release does not know are no part of the message
}

// start takes message_start. Some routers say it twice, with one id.
func (s *anthropicStream) start(raw json.RawMessage) error {
	m, err := fields(raw, "/message")
	if err != nil {
		return ofMessage(err)
	}
	sum := [sha256.Size]byte{}
	if !nothing(m["id"]) {
		sum = sha256.Sum256(bytes.TrimSpace(raw))
	}
	if s.begun {
		if sum == s.first && sum != [sha256.Size]byte{} && len(s.blocks) == 0 && len(s.reason) == 0 {
			return nil
		}
		return fault(FaultConflict, "a second message begins before message_stop")
	}
	s.first = sum
	role, err := text(m["role"], "/message/role")
	if err != nil || role != "" && role != "assistant" {
		return fault(FaultMalformed, "/message/role: %s, want assistant", shorten(string(m["role"]), 32))
	}
	if content := bytes.TrimSpace(m["content"]); !absent(content) && string(content) != "[]" {
		return fault(FaultMalformed, "/message/content is not empty: this is a whole message, and no stream")
	}
	s.begun = true
	if err := s.note(m["model"], nil); err != nil {
		return err
	}
	return s.count(m["usage"])
}

// late refuses what the model would say after its stop_reason, which is about what stood
// before it. A delta that says nothing is let pass.
func (s *anthropicStream) late(kind string, top map[string]json.RawMessage) error {
	d, err := optional(top["delta"], "/delta")
	if err != nil {
		return ofMessage(err)
	}
	if kind == "content_block_delta" && !saysAnthropic(d) {
		return nil
	}
	return fault(FaultAfterEnd, "%s follows the stop_reason", kind)
}

// saysAnthropic says whether a delta brings anything.
func saysAnthropic(d map[string]json.RawMessage) bool {
	for name, v := range d {
		if name != "type" && !nothing(v) {
			return true
		}
	}
	return false
}

// count takes usage, of which each counter's last value counts.
func (s *anthropicStream) count(raw json.RawMessage) error {
	u, err := fields(raw, "")
	if err != nil {
		return nil //nolint:nilerr // numbers for people: what is none counts as 0
	}
	if s.usage == nil {
		s.usage = make(map[string]json.RawMessage)
	}
	for _, name := range []string{"input_tokens", "output_tokens"} {
		if !absent(u[name]) && len(u[name]) < 32 {
			s.usage[name] = u[name]
		}
	}
	return nil
}

// maxBlocks bounds the content blocks of a message: texts stand between the calls.
const maxBlocks = 16 * MaxCalls

func (s *anthropicStream) startBlock(top map[string]json.RawMessage) error {
	index, err := place(top["index"], "/index")
	if err != nil {
		return err
	}
	for _, b := range s.blocks {
		if b.index == index && (index >= 0 || !b.closed) {
			return fault(FaultConflict, "block %d begins twice", index)
		}
	}
	if len(s.blocks) == maxBlocks {
		return tooLarge("more than %d content blocks", maxBlocks)
	}
	c, err := fields(top["content_block"], "/content_block")
	if err != nil {
		return ofMessage(err)
	}
	b := &anthropicBlock{index: index}
	if b.kind, err = text(c["type"], "/content_block/type"); err != nil {
		return ofMessage(err)
	}
	s.blocks = append(s.blocks, b)
	switch b.kind {
	case "tool_use":
		return s.startCall(b, c)
	case "thinking":
		return s.think(b, c["thinking"], c["signature"])
	case "redacted_thinking":
		b.start, err = s.keep(nil, top["content_block"])
	}
	return err
}

func (s *anthropicStream) startCall(b *anthropicBlock, c map[string]json.RawMessage) error {
	var err error
	if b.call, err = s.begin(); err != nil {
		return err
	}
	if err := s.identify(&b.call.id, c["id"], "id"); err != nil {
		return err
	}
	if err := s.identify(&b.call.name, c["name"], "name"); err != nil {
		return err
	}
	b.with = pick(c, extraAnthropic...)
	for _, v := range b.with {
		if err := s.hold(len(v)); err != nil {
			return err
		}
	}
	s.show(b.call, "")
	if in := bytes.TrimSpace(c["input"]); !nothing(in) {
		return s.value(b.call, in, "input")
	}
	return nil
}

// block is the open block of an event: that of its index, or the only one where it has none.
func (s *anthropicStream) block(top map[string]json.RawMessage, what string) (*anthropicBlock, error) {
	index, err := place(top["index"], "/index")
	if err != nil {
		return nil, err
	}
	var found []*anthropicBlock
	for _, b := range s.blocks {
		switch {
		case index >= 0 && b.index == index && b.closed:
			return nil, fault(FaultOrder, "%s of block %d, which has ended", what, index)
		case !b.closed && (index < 0 || b.index == index):
			found = append(found, b)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case index >= 0:
		return nil, fault(FaultOrder, "%s of block %d, which has not begun", what, index)
	}
	return nil, fault(FaultAmbiguous, "%s without an index, and %d blocks are open", what, len(found))
}

func (s *anthropicStream) delta(top map[string]json.RawMessage) error {
	b, err := s.block(top, "a delta")
	if err != nil {
		return err
	}
	d, err := fields(top["delta"], "/delta")
	if err != nil {
		return ofMessage(err)
	}
	kind, err := text(d["type"], "/delta/type")
	if err != nil {
		return ofMessage(err)
	}
	switch {
	case !saysAnthropic(d):
		return nil
	case b.call != nil && (kind == "input_json_delta" || kind == "" && len(d) == 1 && d["partial_json"] != nil):
		return s.extend(b.call, d["partial_json"], "partial_json")
	case b.call != nil: // what it means for the call nobody could say
		return fault(FaultConflict, "a delta of type %q within a tool_use block", shorten(kind, 64))
	case kind == "thinking_delta" && b.kind == "thinking":
		return s.think(b, d["thinking"], nil)
	case kind == "signature_delta" && b.kind == "thinking":
		return s.think(b, nil, d["signature"])
	}
	return nil // text, citations, input of the provider's own tools, and what is not known yet
}

// think adds to a thinking block.
func (s *anthropicStream) think(b *anthropicBlock, thinking, sign json.RawMessage) error {
	t, err := inner(thinking, "thinking")
	if err != nil {
		return err
	}
	g, err := inner(sign, "signature")
	if err != nil {
		return err
	}
	b.thinking = append(b.thinking, t...)
	if len(g) > 0 {
		b.sign = g
	}
	return s.hold(len(t) + len(g))
}

func (s *anthropicStream) stopBlock(top map[string]json.RawMessage) error {
	if s.ended(top["index"]) {
		return nil // bridges say it twice
	}
	b, err := s.block(top, "an end")
	if err != nil {
		return err
	}
	b.closed = true
	if b.call != nil {
		s.close(b.call)
	}
	return nil
}

// ended says whether the block of that index has ended.
func (s *anthropicStream) ended(raw json.RawMessage) bool {
	index, err := place(raw, "/index")
	return err == nil && index >= 0 && slices.ContainsFunc(s.blocks, func(b *anthropicBlock) bool { return b.index == index && b.closed })
}

func (s *anthropicStream) change(top map[string]json.RawMessage) error {
	d, err := optional(top["delta"], "/delta")
	if err != nil {
		return ofMessage(err)
	}
	if err := s.because(&s.reason, d["stop_reason"], "stop_reason"); err != nil {
		return err
	}
	return s.count(top["usage"])
}

// stop takes message_stop. A call whose block is open then may lack its end, unless the
// model was cut off, where it is refused anyway.
func (s *anthropicStream) stop() error {
	if len(s.reason) == 0 {
		return fault(FaultCut, "message_stop without a stop_reason: nothing says why the model stopped")
	}
	if finished(unquoted(s.reason)) {
		for _, b := range s.blocks {
			if b.call != nil && !b.closed {
				return fault(FaultOrder, "message_stop, and block %d has not ended", b.index)
			}
		}
	}
	s.stopped = true
	return nil
}

func (s *anthropicStream) body() (json.RawMessage, error) {
	blocks := slices.Clone(s.blocks)
	slices.SortStableFunc(blocks, func(a, b *anthropicBlock) int { return a.index - b.index })
	content := []json.RawMessage{}
	for _, b := range blocks {
		switch {
		case b.call != nil:
			content = append(content, b.use())
		case b.start != nil:
			content = append(content, b.start)
		case b.kind == "thinking":
			content = append(content, members{
				{"type", marshal(b.kind)}, {"thinking", quoted(b.thinking)}, {"signature", quoted(b.sign)},
			}.marshal())
		}
	}
	out := map[string]any{"role": "assistant", "content": content, "stop_reason": quoted(s.reason)}
	if s.usage != nil {
		out["usage"] = s.usage
	}
	return s.whole(out), nil
}

// use is the block as a tool_use. Its input is the text of what the model wrote, which may
// be no JSON.
func (b *anthropicBlock) use() json.RawMessage {
	out := map[string]json.RawMessage{
		"type": marshal("tool_use"), "id": quoted(b.call.id), "name": quoted(b.call.name), "input": b.call.text(),
	}
	maps.Copy(out, b.with)
	return marshal(out)
}
