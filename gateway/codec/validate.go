package codec

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/sluice-run/sluice/events"
)

func at(i int) string { return "/" + strconv.Itoa(i) }

// validateOpenAI wants each assistant message with tool_calls followed at once by
// one tool message for each id, in the order of the calls, and no other tool message.
func validateOpenAI(messages []json.RawMessage) error {
	var owed []string // ids that must be answered now
	for i, raw := range messages {
		m, err := fields(raw, at(i))
		if err != nil {
			return err
		}
		role, err := text(m["role"], at(i)+"/role")
		if err != nil {
			return err
		}
		if role == "tool" {
			if owed, err = answered(m, owed, i); err != nil {
				return err
			}
			continue
		}
		if len(owed) > 0 {
			return malformed(at(i), "call %q has no answer before this message", owed[0])
		}
		if role == "assistant" && !absent(m["tool_calls"]) {
			if owed, err = owedOpenAI(m["tool_calls"], i); err != nil {
				return err
			}
		}
	}
	if len(owed) > 0 {
		return malformed(at(len(messages)-1), "call %q has no answer", owed[0])
	}
	return nil
}

func answered(m map[string]json.RawMessage, owed []string, i int) ([]string, error) {
	id, err := text(m["tool_call_id"], at(i)+"/tool_call_id")
	switch {
	case err != nil:
		return nil, err
	case len(owed) == 0:
		return nil, malformed(at(i), "answers %q, which no call before it has asked for", id)
	case id != owed[0]:
		return nil, malformed(at(i), "answers %q, and it is the turn of %q", id, owed[0])
	case first(m["content"]) != '"' && first(m["content"]) != '[':
		return nil, malformed(at(i)+"/content", "want a string or text parts")
	}
	return owed[1:], nil
}

func owedOpenAI(raw json.RawMessage, i int) ([]string, error) {
	path := at(i) + "/tool_calls"
	var ids []string
	_, err := eachCall(raw, path, func(raw json.RawMessage, path string) (events.RawCall, bool, error) {
		c, ok, err := callOpenAI(raw, path)
		switch {
		case err != nil:
			return c, false, err
		case c.ProviderID == "" || slices.Contains(ids, c.ProviderID):
			return c, false, malformed(path+"/id", "%q is missing, or stands twice in the message", c.ProviderID)
		}
		if m, err := fields(raw, path); err == nil {
			if f, err := fields(m["function"], path); err == nil && first(f["arguments"]) != '"' {
				return c, false, malformed(path+"/function/arguments", "want a string")
			}
		}
		ids = append(ids, c.ProviderID)
		return c, ok, nil
	})
	if err == nil && len(ids) == 0 {
		err = malformed(path, "is empty")
	}
	return ids, err
}

// validateAnthropic wants each assistant message with tool_use blocks followed by a
// user message that begins with their tool_result blocks, in order; tool_use blocks
// last in theirs; ids unique in the conversation; and no other tool_result.
func validateAnthropic(messages []json.RawMessage) error {
	var owed []string
	seen := make(map[string]bool)
	for i, raw := range messages {
		m, err := fields(raw, at(i))
		if err != nil {
			return err
		}
		role, err := text(m["role"], at(i)+"/role")
		if err != nil {
			return err
		}
		switch role {
		case "assistant":
			if len(owed) > 0 {
				return malformed(at(i), "call %q has no answer before this message", owed[0])
			}
			owed, err = uses(m["content"], i, seen)
		case "user":
			err = results(m["content"], i, owed)
			owed = nil
		default:
			err = malformed(at(i)+"/role", "%q, want user or assistant", shorten(role, 32))
		}
		if err != nil {
			return err
		}
	}
	if len(owed) > 0 {
		return malformed(at(len(messages)-1), "call %q has no answer", owed[0])
	}
	return nil
}

// block is what the rules ask of a content block.
type block struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	Use     string          `json:"tool_use_id"`
	Content json.RawMessage `json:"content"`
	IsError *bool           `json:"is_error"`
}

func blocks(content json.RawMessage, i int) ([]block, error) {
	if first(content) == '"' {
		return nil, nil
	}
	var out []block
	if err := json.Unmarshal(content, &out); err != nil || len(out) == 0 {
		return nil, malformed(at(i)+"/content", "want text or blocks%s", because(err))
	}
	return out, nil
}

func uses(content json.RawMessage, i int, seen map[string]bool) ([]string, error) {
	all, err := blocks(content, i)
	if err != nil {
		return nil, err
	}
	var ids []string
	behind := -1 // a thought behind a tool_use, which another one must follow
	for j, b := range all {
		path := at(i) + "/content" + at(j)
		switch {
		case b.Type == "tool_result":
			return nil, malformed(path, "a tool_result in the assistant's message")
		case b.Type != "tool_use" && len(ids) > 0 && !slices.Contains(thoughtsAnthropic, b.Type):
			return nil, malformed(path, "%s behind a tool_use", shorten(b.Type, 32))
		case b.Type != "tool_use" && len(ids) > 0:
			behind = j
			continue
		case b.Type != "tool_use":
			continue
		case b.ID == "" || plain(b.ID) != b.ID:
			return nil, malformed(path+"/id", "%q: want A-Z a-z 0-9 _ -", b.ID)
		case seen[b.ID]:
			return nil, malformed(path+"/id", "%q stands twice in the conversation", b.ID)
		case b.Name == "" || len(b.Name) > maxName || plain(b.Name) != b.Name:
			return nil, malformed(path+"/name", "%q: want 1 to %d of A-Z a-z 0-9 _ -", shorten(b.Name, maxName), maxName)
		case first(b.Input) != '{':
			return nil, malformed(path+"/input", "want an object")
		}
		seen[b.ID], behind = true, -1
		ids = append(ids, b.ID)
	}
	if behind >= 0 {
		return nil, malformed(at(i)+"/content"+at(behind), "thinking behind the last tool_use")
	}
	return ids, nil
}

func results(content json.RawMessage, i int, owed []string) error {
	all, err := blocks(content, i)
	if err != nil {
		return err
	}
	n := 0
	for j, b := range all {
		path := at(i) + "/content" + at(j)
		switch {
		case b.Type == "tool_use":
			return malformed(path, "a tool_use in the user's message")
		case b.Type != "tool_result":
			continue
		case n != j:
			return malformed(path, "a tool_result behind something else")
		case n == len(owed):
			return malformed(path, "answers %q, which no call of the message before it has asked for", b.Use)
		case b.Use != owed[n]:
			return malformed(path, "answers %q, and it is the turn of %q", b.Use, owed[n])
		}
		if c := first(b.Content); c != 0 && c != '"' && c != '[' {
			return malformed(path+"/content", "want a string or blocks")
		}
		n++
	}
	if n < len(owed) {
		return malformed(at(i), "call %q has no answer in this message", owed[n])
	}
	return nil
}
