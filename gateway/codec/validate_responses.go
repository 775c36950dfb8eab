package codec

import (
	"encoding/json"
	"slices"
	"strings"
)

// validateResponses wants the calls of a response answered at once by one output for each,
// in order and of the call's kind, before anything of the user or of the next response; no
// other outputs; ids of calls and of items that stand once in the conversation; and reasoning
// followed by what it led to. A reference to an item that the provider keeps may be one to a
// call, so one output more is taken for each.
func validateResponses(items []json.RawMessage) error {
	v := responsesRules{calls: make(map[string]bool), items: make(map[string]bool)}
	for i, raw := range items {
		m, err := fields(raw, at(i))
		if err != nil {
			return err
		}
		if err := v.item(m, at(i)); err != nil {
			return err
		}
	}
	last := at(max(len(items)-1, 0))
	if len(v.owed) > 0 {
		return malformed(last, "call %q has no answer", v.owed[0].id)
	}
	if v.thought {
		return malformed(last, "reasoning without what it led to")
	}
	return nil
}

// responsesRules is what the rules must remember of the items before.
type responsesRules struct {
	owed         []owedItem // calls that must be answered, in order
	answering    bool       // one of them has been
	thought      bool       // the item before was reasoning
	kept         int        // items before that only the provider has, and that were not answered
	calls, items map[string]bool
}

type owedItem struct{ id, answer string }

func (v *responsesRules) item(m map[string]json.RawMessage, path string) error {
	var s [3]string
	for i, name := range []string{"type", "role", "id"} {
		var err error
		if s[i], err = text(m[name], path+"/"+name); err != nil {
			return err
		}
	}
	kind, role, id := s[0], s[1], s[2]
	if kind == "item_reference" {
		v.kept++
		id = ""
	}
	if id != "" && v.items[id] {
		return malformed(path+"/id", "%q stands twice in the conversation", shorten(id, 64))
	}
	v.items[id] = true
	call := kind == functionCall || kind == customCall
	output := kind == functionCall+outputSuffix || kind == customCall+outputSuffix
	theirs := call || kind == "reasoning" || role == "assistant" || kind != "" && kind != "message" && !strings.HasSuffix(kind, outputSuffix)
	switch {
	case v.thought && !theirs:
		return malformed(path, "stands behind reasoning, which must be followed by what it led to")
	case output:
		return v.output(m, kind, path)
	case len(v.owed) > 0 && (v.answering || !theirs):
		return malformed(path, "call %q has no answer before this item", v.owed[0].id)
	}
	v.thought = kind == "reasoning"
	if call {
		return v.call(m, kind, path)
	}
	return nil
}

func (v *responsesRules) call(m map[string]json.RawMessage, kind, path string) error {
	c, err := itemResponses(m, kind, path)
	if err != nil {
		return err
	}
	args := "arguments"
	if kind == customCall {
		args = "input"
	}
	switch id := c.ProviderID; {
	case id == "" || len(id) > maxCallID:
		return malformed(path+"/call_id", "%q: want 1 to %d bytes", shorten(id, maxCallID), maxCallID)
	case v.calls[id]:
		return malformed(path+"/call_id", "%q stands twice in the conversation", id)
	case c.Tool == "" || len(c.Tool) > maxName || plain(c.Tool) != c.Tool:
		return malformed(path+"/name", "%q: want 1 to %d of A-Z a-z 0-9 _ -", shorten(c.Tool, maxName), maxName)
	case first(m[args]) != '"':
		return malformed(path+"/"+args, "want a string")
	}
	if s, err := text(m["status"], path+"/status"); err != nil || s != "" && !slices.Contains(itemStatuses, s) {
		return malformed(path+"/status", "%q, want one of %v", shorten(s, 32), itemStatuses)
	}
	v.calls[c.ProviderID] = true
	v.owed, v.answering = append(v.owed, owedItem{c.ProviderID, kind + outputSuffix}), false
	return nil
}

func (v *responsesRules) output(m map[string]json.RawMessage, kind, path string) error {
	id, err := text(m["call_id"], path+"/call_id")
	switch {
	case err != nil:
		return err
	case len(v.owed) == 0 && v.kept > 0:
		v.kept--
		return nil
	case len(v.owed) == 0:
		return malformed(path, "answers %q, which no call before it has asked for", shorten(id, maxCallID))
	case id != v.owed[0].id:
		return malformed(path, "answers %q, and it is the turn of %q", shorten(id, maxCallID), v.owed[0].id)
	case kind != v.owed[0].answer:
		return malformed(path+"/type", "%q, want %q", kind, v.owed[0].answer)
	case first(m["output"]) != '"' && first(m["output"]) != '[':
		return malformed(path+"/output", "want a string or parts")
	}
	v.owed, v.answering = v.owed[1:], true
	return nil
}
