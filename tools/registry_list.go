package tools

import (
	"encoding/json"
)

// OpenAI is the list of tools as the Chat Completions API takes it, in the
// order given. It fails only where a tool's schema is no JSON, which no
// registered tool's is.
func OpenAI(list []Tool) (json.RawMessage, error) {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	type entry struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	return toolList(list, func(t Tool) entry {
		return entry{"function", function{t.Name, t.Description, t.Schema}}
	})
}

// OpenAIResponses is the list of tools as the Responses API takes it; see OpenAI. That
// API takes functions as strict where nothing is said, and then makes every argument a
// required one: so it is said.
func OpenAIResponses(list []Tool) (json.RawMessage, error) {
	type entry struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	}
	return toolList(list, func(t Tool) entry {
		return entry{"function", t.Name, t.Description, t.Schema, false}
	})
}

// Anthropic is the list of tools as the Messages API takes it; see OpenAI.
func Anthropic(list []Tool) (json.RawMessage, error) {
	type entry struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	return toolList(list, func(t Tool) entry {
		return entry{t.Name, t.Description, t.Schema}
	})
}

// Gemini is the list of tools as generateContent takes it: one entry with all
// declarations; see OpenAI.
func Gemini(list []Tool) (json.RawMessage, error) {
	type declaration struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parametersJsonSchema"`
	}
	all := make([]declaration, len(list))
	for i, t := range list {
		all[i] = declaration{t.Name, t.Description, t.Schema}
	}
	return plainJSON([]map[string][]declaration{{"functionDeclarations": all}})
}

func toolList[E any](list []Tool, entry func(Tool) E) (json.RawMessage, error) {
	out := make([]E, len(list))
	for i, t := range list {
		out[i] = entry(t)
	}
	return plainJSON(out)
}
