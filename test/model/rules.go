package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What the providers refuse besides a broken order of calls and answers: members that they
// do not know, a tool list that they cannot read, a model or a bound that is missing.

var (
	toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	callID   = regexp.MustCompile(`^.{1,64}$`)
)

// only refuses members of an object that are not in the list.
func only(raw json.RawMessage, path string, known ...string) (map[string]json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, fmt.Errorf("%s: want an object", path)
	}
	for name := range object {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown parameter: '%s.%s'", path, name)
		}
	}
	return object, nil
}

func needs(body map[string]json.RawMessage, names ...string) error {
	for _, name := range names {
		if len(body[name]) == 0 || string(body[name]) == "null" {
			return fmt.Errorf("missing required parameter: '%s'", name)
		}
	}
	return nil
}

// each looks at every element of a list; a list that is not there has none.
func each(raw json.RawMessage, path string, look func(raw json.RawMessage, path string) error) error {
	if len(raw) == 0 {
		return nil
	}
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return fmt.Errorf("%s: want a list", path)
	}
	for i, one := range all {
		if err := look(one, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// declared checks a tool of a list: a name that is its own, and a schema of an object.
func declared(seen map[string]bool, name, schema json.RawMessage, path string) error {
	var s string
	if err := json.Unmarshal(name, &s); err != nil || !toolName.MatchString(s) {
		return fmt.Errorf("%s.name: %s does not match %s", path, name, toolName)
	}
	if seen[s] {
		return fmt.Errorf("%s.name: %s: tool names must be unique", path, name)
	}
	seen[s] = true
	if len(schema) == 0 {
		return nil // of a tool without parameters
	}
	var object struct{ Type string }
	if err := json.Unmarshal(schema, &object); err != nil || !strings.EqualFold(object.Type, "object") {
		return fmt.Errorf("%s: the schema must have the type object", path)
	}
	return nil
}

// object says whether a text is a JSON object, as servers must have it that write calls
// into a template.
func isObject(text json.RawMessage) bool {
	var s string
	var m map[string]json.RawMessage
	return json.Unmarshal(text, &s) == nil && json.Unmarshal([]byte(s), &m) == nil && m != nil
}

func chatRules(body map[string]json.RawMessage, messages []json.RawMessage) error {
	seen := make(map[string]bool)
	err := errors.Join(needs(body, "model", "messages"), each(body["tools"], "tools", func(raw json.RawMessage, path string) error {
		tool, err := only(raw, path, "type", "function")
		if err != nil {
			return err
		}
		f, err := only(tool["function"], path+".function", "name", "description", "parameters", "strict")
		if err != nil {
			return err
		}
		return declared(seen, f["name"], f["parameters"], path+".function")
	}))
	for i, raw := range messages {
		path := fmt.Sprintf("messages[%d]", i)
		m, bad := only(raw, path, "role", "content", "name", "tool_calls", "tool_call_id", "refusal", "annotations", "audio")
		err = errors.Join(err, bad, each(m["tool_calls"], path+".tool_calls", func(raw json.RawMessage, path string) error {
			call, err := only(raw, path, "id", "type", "function", "custom")
			if err != nil {
				return err
			}
			f, err := only(call["function"], path+".function", "name", "arguments")
			if err == nil && !isObject(f["arguments"]) {
				err = fmt.Errorf("%s.function.arguments: want the text of a JSON object", path)
			}
			return err
		}))
	}
	return err
}

// itemMembers are those of the items that the Responses API takes, by their type.
var itemMembers = map[string][]string{
	"":                     {"role", "content", "type"},
	"message":              {"role", "content", "type", "id", "status", "phase"},
	"function_call":        {"type", "id", "call_id", "name", "arguments", "status", "namespace"},
	"function_call_output": {"type", "id", "call_id", "output", "status"},
	"reasoning":            {"type", "id", "summary", "content", "encrypted_content", "status"},
}

func responsesRules(body map[string]json.RawMessage, items []json.RawMessage) error {
	seen := make(map[string]bool)
	err := errors.Join(needs(body, "model", "input"), each(body["tools"], "tools", func(raw json.RawMessage, path string) error {
		tool, err := only(raw, path, "type", "name", "description", "parameters", "strict")
		if err != nil {
			return err
		}
		return declared(seen, tool["name"], tool["parameters"], path)
	}))
	for i, raw := range items {
		path := fmt.Sprintf("input[%d]", i)
		var is struct{ Type string }
		if json.Unmarshal(raw, &is) != nil || itemMembers[is.Type] == nil {
			err = errors.Join(err, fmt.Errorf("%s.type: %q is not known here", path, is.Type))
			continue
		}
		m, bad := only(raw, path, itemMembers[is.Type]...)
		err = errors.Join(err, bad)
		var id string
		if m["call_id"] != nil && (json.Unmarshal(m["call_id"], &id) != nil || !callID.MatchString(id)) {
			err = errors.Join(err, fmt.Errorf("%s.call_id: %s: want 1 to 64 characters", path, m["call_id"]))
		}
		if is.Type == "function_call" && !isObject(m["arguments"]) {
			err = errors.Join(err, fmt.Errorf("%s.arguments: want the text of a JSON object", path))
		}
	}
	return err
}

// blockMembers are those of the blocks that the Messages API takes, by their type.
var blockMembers = map[string][]string{
	"text":              {"type", "text", "citations", "cache_control"},
	"tool_use":          {"type", "id", "name", "input", "caller", "cache_control"},
	"tool_result":       {"type", "tool_use_id", "content", "is_error", "cache_control"},
	"thinking":          {"type", "thinking", "signature"},
	"redacted_thinking": {"type", "data"},
}

func anthropicRules(body map[string]json.RawMessage, messages []json.RawMessage) error {
	seen := make(map[string]bool)
	err := errors.Join(needs(body, "model", "max_tokens", "messages"), each(body["tools"], "tools", func(raw json.RawMessage, path string) error {
		tool, err := only(raw, path, "name", "description", "input_schema", "type", "cache_control")
		if err == nil {
			err = needs(tool, "input_schema")
		}
		if err != nil {
			return err
		}
		return declared(seen, tool["name"], tool["input_schema"], path)
	}))
	for i, raw := range messages {
		path := fmt.Sprintf("messages.%d", i)
		m, bad := only(raw, path, "role", "content")
		err = errors.Join(err, bad)
		if i == 0 && string(m["role"]) != `"user"` {
			err = errors.Join(err, errors.New("messages: first message must use the user role"))
		}
		if bytes.HasPrefix(m["content"], []byte(`"`)) {
			continue
		}
		err = errors.Join(err, each(m["content"], path+".content", func(raw json.RawMessage, path string) error {
			var is struct{ Type, Text string }
			if json.Unmarshal(raw, &is) != nil || blockMembers[is.Type] == nil {
				return fmt.Errorf("%s: no block of type %q is known here", path, is.Type)
			}
			if is.Type == "text" && strings.TrimSpace(is.Text) == "" {
				return fmt.Errorf("%s: text content blocks must be non-empty", path)
			}
			if strings.HasPrefix(is.Type, "tool_") && len(seen) == 0 {
				return errors.New("requests which include tool_use or tool_result blocks must define tools")
			}
			_, err := only(raw, path, blockMembers[is.Type]...)
			return err
		}))
	}
	return err
}

// partMembers are those of a part that the Gemini API takes.
var partMembers = []string{"text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData", "fileData"}

func geminiRules(body map[string]json.RawMessage, contents []json.RawMessage) error {
	seen := make(map[string]bool)
	err := errors.Join(needs(body, "contents"), each(body["tools"], "tools", func(raw json.RawMessage, path string) error {
		tool, err := only(raw, path, "functionDeclarations")
		if err != nil {
			return err
		}
		return each(tool["functionDeclarations"], path+".functionDeclarations", func(raw json.RawMessage, path string) error {
			f, err := only(raw, path, "name", "description", "parameters", "parametersJsonSchema", "behavior", "response", "responseJsonSchema")
			if err != nil {
				return err
			}
			schema := f["parametersJsonSchema"]
			if schema == nil {
				schema = f["parameters"]
			}
			return declared(seen, f["name"], schema, path)
		})
	}))
	for i, raw := range contents {
		path := fmt.Sprintf("contents[%d]", i)
		m, bad := only(raw, path, "role", "parts")
		if i == 0 && string(m["role"]) != `"user"` {
			bad = errors.Join(bad, errors.New("a function call turn comes immediately after a user turn or after a function response turn"))
		}
		calls := 0
		err = errors.Join(err, bad, each(m["parts"], path+".parts", func(raw json.RawMessage, path string) error {
			part, err := only(raw, path, partMembers...)
			if err == nil && part["functionCall"] != nil {
				calls++
				if calls == 1 && len(part["thoughtSignature"]) < 3 {
					return fmt.Errorf("%s: function call is missing a thought_signature", path)
				}
				_, err = only(part["functionCall"], path+".functionCall", "id", "name", "args")
			}
			if err == nil && part["functionResponse"] != nil {
				_, err = only(part["functionResponse"], path+".functionResponse", "id", "name", "response", "willContinue", "scheduling", "parts")
			}
			return err
		}))
	}
	return err
}
