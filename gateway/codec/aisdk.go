package codec

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// The parts of the AI SDK's messages that are calls, and their answers.
const (
	callPart   = "tool-call"
	answerPart = "tool-result"
	optionsOf  = "providerOptions" // what the provider behind the SDK wants back
)

// decodeAISDK reads an assistant's message of Vercel's AI SDK, its content, the tool calls of
// a result, or what a model of the SDK gives.
func decodeAISDK(body []byte) (Message, error) {
	if first(body) == '[' {
		calls, err := partsAISDK(body, "")
		return Message{Calls: calls}, err
	}
	m, err := fields(body, "")
	if err != nil {
		return Message{}, err
	}
	var out Message
	role, err := text(m["role"], "/role")
	switch {
	case err != nil:
		return out, err
	case role != "" && role != "assistant":
		return out, malformed("/role", "%q, want assistant", shorten(role, 32))
	}
	if out.Reason, err = reasonAISDK(m["finishReason"]); err != nil {
		return out, err
	}
	if usage, err := fields(m["usage"], ""); err == nil {
		out.Input, out.Output = count(usage["inputTokens"]), count(usage["outputTokens"])
	}
	name := "content"
	if absent(m[name]) || first(m[name]) == '"' && !absent(m["toolCalls"]) {
		name = "toolCalls"
	}
	switch first(m[name]) {
	case '"':
		return out, nil // text alone
	case 0:
		return out, malformed("/content", "is missing: want an assistant's message, or its parts")
	}
	out.Calls, err = partsAISDK(m[name], "/"+name)
	return out, err
}

// reasonAISDK is a finish reason: a word, or in newer models an object with one.
func reasonAISDK(raw json.RawMessage) (string, error) {
	if first(raw) != '{' {
		return text(raw, "/finishReason")
	}
	m, err := fields(raw, "/finishReason")
	if err != nil {
		return "", err
	}
	return text(m["unified"], "/finishReason/unified")
}

// partsAISDK makes calls of content parts. What the model reasoned travels with the call
// behind it.
func partsAISDK(raw json.RawMessage, path string) ([]events.RawCall, error) {
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
		case kind == "reasoning":
			before = append(before, raw)
			return c, false, nil
		case string(m["providerExecuted"]) == "true":
			return c, false, nil
		case kind == "" && !absent(m["toolName"]): // a model's own list of calls, before its release 5
		case kind != callPart && strings.HasPrefix(path, "/toolCalls"):
			return c, false, malformed(path, "no call as the AI SDK writes them: want toolCallId and toolName; calls of another format stand under its own name, as tool_calls")
		case kind != callPart:
			return c, false, nil
		}
		c, err = partAISDK(m, path)
		c.Extra = extra{Format: AISDK, Before: before, With: pick(m, optionsOf)}.body()
		before = nil
		return c, err == nil, err
	})
}

func partAISDK(m map[string]json.RawMessage, path string) (c events.RawCall, err error) {
	id, err := text(m["toolCallId"], path+"/toolCallId")
	if err != nil {
		return c, err
	}
	name, err := text(m["toolName"], path+"/toolName")
	if err != nil {
		return c, err
	}
	input := m["input"]
	if absent(input) {
		input = m["args"] // as it was called before its release 5
	}
	return newCall(id, name, input, path)
}

// idsAISDK are unique in the conversation, since that is how the SDK finds answers.
func idsAISDK(calls []asked, seen []string) []string { return unique(calls, seen, 0) }

// nameAISDK is a tool's name beside its call and its answer. One that no provider takes is
// cut to what the bounds of answers leave for it.
func nameAISDK(s string) string {
	switch {
	case len(s) > maxName:
		return shortHash(s)[:4]
	case shownName(s) != "":
		return s
	}
	return functionName(s)
}

func callsAISDK(calls []events.RawCall, ids []string, _ map[string]bool) []json.RawMessage {
	m := anthropicMessage{Role: "assistant", Content: []json.RawMessage{}}
	for i, c := range calls {
		e, _ := extraOf(AISDK, c)
		o := members{{"type", marshal(callPart)}, {"toolCallId", marshal(ids[i])}, {"toolName", marshal(nameAISDK(cmp.Or(c.Said, c.Tool)))}, {"input", object(c.Args.Text)}}
		m.Content = append(append(m.Content, typed(e.Before, "reasoning")...), o.add(e.With, optionsOf).marshal())
	}
	return []json.RawMessage{marshal(m)}
}

type aiAnswer struct {
	Type   string   `json:"type"`
	ID     string   `json:"toolCallId"`
	Name   string   `json:"toolName"`
	Output aiOutput `json:"output"`
}

type aiOutput struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

func answersAISDK(answers []events.Answer, ids []string) []json.RawMessage {
	m := anthropicMessage{Role: "tool", Content: make([]json.RawMessage, len(answers))}
	for i, a := range answers {
		name := nameAISDK(cmp.Or(a.Said, a.Tool))
		if a.Verbatim && a.Standing != events.AnswerOpen {
			m.Content[i] = recordedOf(a.Result).aiSDK(ids[i], name)
			continue
		}
		out := aiOutput{"text", string(lifecycle.Envelope(a))}
		if isError(a) {
			out.Type = "error-text"
		}
		m.Content[i] = marshal(aiAnswer{answerPart, ids[i], name, out})
	}
	return []json.RawMessage{marshal(m)}
}

// validateAISDK wants an assistant's message with tool calls followed by one tool message
// that has a result for each, in order, and nothing else; and ids that stand once in the
// conversation.
func validateAISDK(messages []json.RawMessage) error {
	var owed []string
	seen := make(map[string]bool)
	for i, raw := range messages {
		m, err := fields(raw, at(i))
		if err != nil {
			return err
		}
		role, err := text(m["role"], at(i)+"/role")
		switch {
		case err != nil:
			return err
		case role == "tool":
			if err := answeredAISDK(m["content"], at(i)+"/content", owed); err != nil {
				return err
			}
			owed = nil
			continue
		case len(owed) > 0:
			return malformed(at(i), "call %q has no answer before this message", owed[0])
		case role != "assistant" || first(m["content"]) != '[':
			continue
		}
		if owed, err = owedAISDK(m["content"], at(i)+"/content", seen); err != nil {
			return err
		}
	}
	if len(owed) > 0 {
		return malformed(at(len(messages)-1), "call %q has no answer", owed[0])
	}
	return nil
}

func owedAISDK(raw json.RawMessage, path string, seen map[string]bool) ([]string, error) {
	calls, err := partsAISDK(raw, path)
	if err != nil {
		return nil, err
	}
	var owed []string
	for _, c := range calls {
		switch {
		case c.ProviderID == "" || seen[c.ProviderID]:
			return nil, malformed(path, "the id %q is missing, or stands twice in the conversation", c.ProviderID)
		case c.Tool == "":
			return nil, malformed(path, "call %q names no tool", c.ProviderID)
		}
		seen[c.ProviderID] = true
		owed = append(owed, c.ProviderID)
	}
	return owed, nil
}

// outputsAISDK are the kinds of a result's output.
var outputsAISDK = []string{"text", "json", "error-text", "error-json", "execution-denied", "content"}

func answeredAISDK(raw json.RawMessage, path string, owed []string) error {
	parts, err := list(raw, path)
	if err != nil {
		return err
	}
	for j, raw := range parts {
		m, err := fields(raw, path+at(j))
		if err != nil {
			return err
		}
		kind, _ := text(m["type"], "")
		id, _ := text(m["toolCallId"], "")
		switch {
		case kind != answerPart:
			return malformed(path+at(j)+"/type", "%q, want %s", shorten(kind, 32), answerPart)
		case j >= len(owed):
			return malformed(path+at(j), "answers %q, which the message before it has not asked for", shorten(id, 64))
		case id != owed[j]:
			return malformed(path+at(j), "answers %q, and it is the turn of %q", shorten(id, 64), owed[j])
		case !slices.Contains(outputsAISDK, typeOf(m["output"])):
			return malformed(path+at(j)+"/output", "want an object with a type of %v", outputsAISDK)
		}
	}
	if len(parts) < len(owed) {
		return malformed(path, "call %q has no answer in this message", owed[len(parts)])
	}
	return nil
}
