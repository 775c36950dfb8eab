package codec

import (
	"encoding/json"
	"slices"
	"strings"
)

// finish takes the terminal event.
func (s *responsesStream) finish(kind string, raw json.RawMessage) error {
	r, err := fields(raw, "/response")
	if err != nil {
		return ofMessage(err)
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
	if tells(r["error"]) {
		if err := failure(event{}, r); err != nil {
			return err
		}
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
		args := in[argsOf(it.kind)]
		if before := it.arguments(); before != nil && nothing(args) && !it.sameArgs(before, quoted(nil)) {
			return it.differs() // it is the response that counts, and it has none
		}
		if err := s.settleText(it, args); err != nil {
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
