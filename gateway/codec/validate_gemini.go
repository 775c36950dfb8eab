package codec

import (
	"encoding/json"
	"slices"
)

// validateGemini wants the function calls of a model's content answered by the content
// behind it: one function response for each, first in it and in order, of the same name and
// id. A content with calls does not stand behind another one of the model's.
func validateGemini(messages []json.RawMessage) error {
	var owed []calledGemini
	before := ""
	for i, raw := range messages {
		m, err := fields(raw, at(i))
		if err != nil {
			return err
		}
		role, err := text(m["role"], at(i)+"/role")
		if err != nil {
			return err
		}
		parts, err := list(m["parts"], at(i)+"/parts")
		if err != nil {
			return err
		}
		switch role {
		case "model":
			if len(owed) > 0 {
				return malformed(at(i), "call %q has no answer before this content", owed[0].Name)
			}
			if owed, err = owedGemini(parts, i); err == nil && len(owed) > 0 && before == role {
				err = malformed(at(i), "calls behind another content of the model")
			}
		case "user", "function":
			err = answeredGemini(parts, i, owed)
			owed = nil
		default:
			err = malformed(at(i)+"/role", "%q, want user or model", shorten(role, 32))
		}
		if err != nil {
			return err
		}
		before = role
	}
	if len(owed) > 0 {
		return malformed(at(len(messages)-1), "call %q has no answer", owed[0].Name)
	}
	return nil
}

// owedGemini are the calls of a model's content, which must be answered next.
func owedGemini(parts []json.RawMessage, i int) ([]calledGemini, error) {
	var out []calledGemini
	for j, raw := range parts {
		path := at(i) + "/parts" + at(j)
		c, ok, err := partGemini(raw, path)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		same := func(o calledGemini) bool { return o.ID != "" && o.ID == c.ProviderID }
		switch {
		case shownName(c.Tool) == "":
			return nil, malformed(path+"/functionCall/name", "%q: want 1 to %d of A-Z a-z 0-9 _ : . -", shorten(c.Tool, maxName), maxName)
		case c.Args.Text != "" && first([]byte(c.Args.Text)) != '{':
			return nil, malformed(path+"/functionCall/args", "want an object")
		case slices.ContainsFunc(out, same):
			return nil, malformed(path+"/functionCall/id", "%q stands twice in the content", c.ProviderID)
		}
		out = append(out, calledGemini{ID: c.ProviderID, Name: c.Tool})
	}
	return out, nil
}

func answeredGemini(parts []json.RawMessage, i int, owed []calledGemini) error {
	n := 0
	for j, raw := range parts {
		path := at(i) + "/parts" + at(j)
		part, err := fields(raw, path)
		if err != nil {
			return err
		}
		answer, err := either(part, "functionResponse", "function_response", path)
		switch {
		case err != nil:
			return err
		case !absent(part["functionCall"]) || !absent(part["function_call"]):
			return malformed(path, "a call in the user's content")
		case answer == nil:
			continue
		case n != j:
			return malformed(path, "a function response behind something else")
		case n == len(owed):
			return malformed(path, "answers a call that the content before it has not asked for")
		}
		if err := owed[n].answeredBy(answer, path+"/functionResponse"); err != nil {
			return err
		}
		n++
	}
	if n < len(owed) {
		return malformed(at(i), "call %q has no answer in this content", owed[n].Name)
	}
	return nil
}

// answeredBy says whether a function response is the one to this call.
func (c calledGemini) answeredBy(raw json.RawMessage, path string) error {
	m, err := fields(raw, path)
	if err != nil {
		return err
	}
	id, err := text(m["id"], path+"/id")
	if err != nil {
		return err
	}
	name, err := text(m["name"], path+"/name")
	switch {
	case err != nil:
		return err
	case id != c.ID:
		return malformed(path+"/id", "%q, and it is the turn of %q", shorten(id, 64), c.ID)
	case name != c.Name:
		return malformed(path+"/name", "%q, and it is the turn of %q", shorten(name, maxName), c.Name)
	case first(m["response"]) != '{':
		return malformed(path+"/response", "want an object")
	}
	return nil
}
