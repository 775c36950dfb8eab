package codec

import (
	"encoding/json"
	"slices"
	"strings"
)

// othersResponses are the kinds of items that whoever has asked the model must answer, and
// that are not answered here. Some of them the provider also runs itself: then their answer
// stands among the items.
var othersResponses = []string{
	"computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request", "tool_search_call",
}

// others says whether an item is of such a kind. So is a call of a kind that is not known yet,
// where it has the call_id that an answer names.
func others(kind string, m map[string]json.RawMessage) bool {
	return slices.Contains(othersResponses, kind) || strings.HasSuffix(kind, "_call") && !callKind(kind) && !absent(m["call_id"])
}

// unansweredOf are the items that somebody else must answer; owns are the answers of
// those that the provider has run itself, by kind and call_id.
func unansweredOf(items []json.RawMessage) (out []Unanswered, owns map[string]bool) {
	answered := make(map[string]bool)
	for _, raw := range items {
		if m, err := fields(raw, ""); err == nil {
			answered[typeIn(m)+" "+calledID(m)] = true
		}
	}
	owns = make(map[string]bool)
	for _, raw := range items {
		m, err := fields(raw, "")
		if err != nil {
			continue
		}
		kind, id := typeIn(m), calledID(m)
		answer := kind + outputSuffix + " " + id
		switch where, _ := text(m["execution"], ""); {
		case !others(kind, m):
		case id != "" && answered[answer]:
			owns[answer] = true
		case kind == "tool_search_call" && where != "client":
		case len(out) < MaxCalls:
			out = append(out, Unanswered{Type: kind, ID: shorten(id, MaxID)})
		}
	}
	return out, owns
}

// calledID is the id that an item's answer names: an approval has no other than its own.
func calledID(m map[string]json.RawMessage) string {
	raw := m["call_id"]
	if absent(raw) {
		raw = m["id"]
	}
	id, _ := text(raw, "")
	return id
}
