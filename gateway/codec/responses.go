package codec

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// maxCallID is the length in bytes of the longest call_id that the Responses API takes.
const maxCallID = 64

// The items of the Responses API that are calls, and their answers.
const (
	functionCall = "function_call"
	customCall   = "custom_tool_call"
	outputSuffix = "_output"
)

// extraResponses are the members of a call's item that are kept with the call. The id
// is the item's own: answers name the call_id.
var extraResponses = []string{"id", "status", "namespace", "caller"}

// extraOfKind are those that an item of that kind has.
func extraOfKind(kind string) []string {
	if kind == customCall {
		return []string{"id", "namespace", "caller"}
	}
	return extraResponses
}

// decodeResponses reads a response, its output, or one item of it.
func decodeResponses(body []byte) (Message, error) {
	if first(body) == '[' {
		return messageOf(body, "")
	}
	top, err := fields(body, "")
	if err != nil {
		return Message{}, err
	}
	if raw, ok := top["output"]; ok && top["call_id"] == nil {
		return wholeResponse(top, raw)
	}
	kind, err := text(top["type"], "/type")
	switch {
	case err != nil:
		return Message{}, err
	case kind == "":
		return Message{}, malformed("/output", "is missing: want a response, the array of its output, or one item")
	}
	return messageOf(marshal([]json.RawMessage{body}), "")
}

// messageOf are the calls of output items.
func messageOf(items json.RawMessage, path string) (out Message, err error) {
	elements, err := list(items, path)
	if err != nil {
		return out, err
	}
	var owns map[string]bool
	out.Unanswered, owns = unansweredOf(elements)
	out.Calls, err = itemsResponses(items, path, owns)
	return out, err
}

// wholeResponse reads a response object.
func wholeResponse(top map[string]json.RawMessage, output json.RawMessage) (out Message, err error) {
	if out.Reason, err = statusOf(top); err != nil {
		return out, err
	}
	if out.Model, err = text(top["model"], "/model"); err != nil {
		return out, err
	}
	if usage, err := fields(top["usage"], ""); err == nil {
		out.Input, out.Output = count(usage["input_tokens"]), count(usage["output_tokens"])
	}
	if absent(output) {
		return out, nil
	}
	asked, err := messageOf(output, "/output")
	out.Calls, out.Unanswered = asked.Calls, asked.Unanswered
	return out, err
}

// statusOf is a response's status, with what the provider says of its cause behind it. Some
// servers say completed, and beside it why it is not: the stricter word counts.
func statusOf(top map[string]json.RawMessage) (string, error) {
	status, err := text(top["status"], "/status")
	if err != nil {
		return "", err
	}
	short, err := causeOf(top["incomplete_details"], "/incomplete_details", "reason")
	if err != nil {
		return "", err
	}
	failed, err := causeOf(top["error"], "/error", "code")
	if err != nil {
		return "", err
	}
	why := ""
	switch {
	case status == "in_progress" || status == "queued":
		return "", malformed("/status", "%q: the response has not ended: send it when it has", status)
	case status == "failed" || tells(top["error"]) && finished(status):
		status, why = "failed", failed
	case status == "incomplete" || tells(top["incomplete_details"]) && finished(status):
		status, why = "incomplete", short
	}
	if why != "" {
		status += ": " + shorten(why, 64)
	}
	return status, nil
}

// causeOf is the word of a member that says why a response is not whole, "" for none.
func causeOf(raw json.RawMessage, path, word string) (string, error) {
	m, err := optional(raw, path)
	if err != nil {
		return "", err
	}
	return text(m[word], path+"/"+word)
}

// tells says whether a member that may be an object says anything.
func tells(raw json.RawMessage) bool {
	m, err := optional(raw, "")
	if err != nil {
		return !nothing(raw)
	}
	for _, v := range m {
		if !nothing(v) {
			return true
		}
	}
	return false
}

// optional are the members of an object that may be missing or null.
func optional(raw json.RawMessage, path string) (map[string]json.RawMessage, error) {
	if absent(raw) {
		return nil, nil
	}
	return fields(raw, path)
}

// itemsResponses makes calls of output items. What the model thought travels with the
// call behind it, and so does everything between the two: the API refuses the one without
// the other.
// owns are the answers of the provider's own, by kind and call_id.
func itemsResponses(raw json.RawMessage, path string, owns map[string]bool) ([]events.RawCall, error) {
	var before []json.RawMessage
	return eachCall(raw, path, func(raw json.RawMessage, path string) (c events.RawCall, ok bool, err error) {
		m, err := fields(raw, path)
		if err != nil {
			return c, false, err
		}
		kind, err := text(m["type"], path+"/type")
		switch {
		case err != nil:
			return c, false, err
		case kind == functionCall || kind == customCall:
			c, err = itemResponses(m, kind, path)
			c.Extra = extra{Format: Responses, Before: before, With: pick(m, extraOfKind(kind)...)}.body()
			before = nil
			return c, err == nil, err
		case strings.HasSuffix(kind, outputSuffix) && !absent(m["call_id"]) && !owns[kind+" "+calledID(m)]:
			return c, false, malformed(path, "an answer among the items of a response: send those of one response alone")
		case kind == "reasoning" || len(before) > 0:
			before = append(before, raw)
		}
		return c, false, nil
	})
}

// itemResponses reads the item of a call. One that says that it is not whole is refused.
func itemResponses(m map[string]json.RawMessage, kind, path string) (c events.RawCall, err error) {
	id, err := text(m["call_id"], path+"/call_id")
	if err != nil {
		return c, err
	}
	name, err := text(m["name"], path+"/name")
	if err != nil {
		return c, err
	}
	status, err := text(m["status"], path+"/status")
	if err != nil {
		return c, err
	}
	args := m["arguments"]
	if kind == customCall {
		args = ofText(m["input"])
	}
	c, err = newCall(id, name, args, path)
	c.Custom = kind == customCall
	if status != "" && status != "completed" && c.Refused == nil {
		c.Refused = truncated(status)
	}
	return c, err
}

// idsResponses are unique in the conversation, where answers find their calls by them,
// and no longer than the API takes.
func idsResponses(calls []asked, seen []string) []string {
	calls = slices.Clone(calls)
	for i, c := range calls {
		if len(c.id) > maxCallID {
			calls[i] = asked{id: prefix(c.id, 32) + "-" + shortHash(c.id)}
		}
	}
	return unique(calls, seen, maxCallID)
}

// callsResponses are the items of a model's message. taken are the ids of items that stand
// earlier in the conversation, which the API refuses to read twice, and get those of these.
func callsResponses(calls []events.RawCall, ids []string, taken map[string]bool) []json.RawMessage {
	if taken == nil {
		taken = make(map[string]bool)
	}
	var out []json.RawMessage
	for i, c := range calls {
		e, _ := extraOf(Responses, c)
		if before := thoughtBefore(e.Before); fresh(before, taken) {
			out = append(out, before...)
		}
		if !fresh([]json.RawMessage{marshal(e.With)}, taken) {
			delete(e.With, "id")
		}
		kind, o := functionCall, members(nil)
		if c.Custom {
			kind = customCall
			o = members{{"input", marshal(freeText(c.Args.Text))}}
		} else {
			o = members{{"arguments", marshal(string(object(c.Args.Text)))}}
		}
		o = append(members{{"type", marshal(kind)}, {"call_id", marshal(ids[i])}, {"name", marshal(functionName(c.Tool))}}, o...)
		out = append(out, o.add(plausible(e.With), extraOfKind(kind)...).marshal())
	}
	return out
}

// thoughtBefore are the items before a call: none unless they begin with reasoning, and
// are all items that a model's message may have there.
func thoughtBefore(items []json.RawMessage) []json.RawMessage {
	for i, raw := range items {
		kind := typeOf(raw)
		call := kind == functionCall || kind == customCall || strings.HasSuffix(kind, outputSuffix)
		if call || kind == "" || i == 0 && kind != "reasoning" || kind == "message" && roleOf(raw) != "assistant" {
			return nil
		}
	}
	return items
}

// roleOf is the role of a message, "" where it says none.
func roleOf(raw json.RawMessage) string {
	m, err := fields(raw, "")
	if err != nil {
		return ""
	}
	role, _ := text(m["role"], "")
	return role
}

// fresh says whether none of the items has an id that is taken, and takes theirs if so.
func fresh(items []json.RawMessage, taken map[string]bool) bool {
	var own []string
	for _, raw := range items {
		m, err := optional(raw, "")
		if err != nil {
			return false
		}
		if absent(m["id"]) {
			continue
		}
		id, err := text(m["id"], "")
		if err != nil || id == "" || taken[id] || slices.Contains(own, id) {
			return false
		}
		own = append(own, id)
	}
	for _, id := range own {
		taken[id] = true
	}
	return true
}

// plausible are the members kept with a call that the API could have written.
func plausible(with map[string]json.RawMessage) map[string]json.RawMessage {
	if s, err := text(with["status"], ""); err != nil || !slices.Contains(itemStatuses, s) {
		delete(with, "status")
	}
	return with
}

// itemStatuses are what an item may say of itself.
var itemStatuses = []string{"in_progress", "completed", "incomplete"}

type responsesAnswer struct {
	Type   string `json:"type"`
	ID     string `json:"call_id"`
	Output string `json:"output"`
}

func answersResponses(answers []events.Answer, ids []string) []json.RawMessage {
	out := make([]json.RawMessage, len(answers))
	for i, a := range answers {
		kind := functionCall
		if a.Custom {
			kind = customCall
		}
		kind += outputSuffix
		if a.Verbatim && a.Standing != events.AnswerOpen {
			out[i] = recordedOf(a.Result).responses(kind, ids[i])
			continue
		}
		out[i] = marshal(responsesAnswer{kind, ids[i], string(lifecycle.Envelope(a))})
	}
	return out
}
