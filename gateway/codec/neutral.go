package codec

import (
	"encoding/json"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/events/near"
	"github.com/sluice-run/sluice/lifecycle"
)

// neutralCall is a call in our own format: {"calls": [...]} or the bare array.
// It is our envelope, so a field that is not here is an error.
type neutralCall struct {
	ID   string          `json:"id,omitempty"` // the provider's, any; may be missing or repeated
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"` // an object, or its text as a string
	Key  string          `json:"key,omitempty"`  // idempotency key
	// Secrets are JSON Pointers to arguments that are secrets. They are read and never
	// written: what was sealed stands in the arguments as placeholders.
	Secrets []string `json:"secrets,omitempty"`
}

// neutralAnswer is an answer in our own format.
type neutralAnswer struct {
	Call     int             `json:"call"` // offset in the turn
	ID       string          `json:"id,omitempty"`
	Tool     string          `json:"tool,omitempty"`
	Standing events.Standing `json:"answer"`            // success, failed, denied, unknown or open
	Content  json.RawMessage `json:"content,omitempty"` // the envelope; of an imported answer, what was recorded
}

func decodeNeutral(body []byte) (Message, error) {
	calls, path := json.RawMessage(body), ""
	if first(body) != '[' {
		top, err := fields(body, "")
		if err != nil {
			return Message{}, err
		}
		if err := known(top, "", "calls"); err != nil {
			return Message{}, err
		}
		calls, path = top["calls"], "/calls"
	}
	out, err := eachCall(calls, path, callNeutral)
	return Message{Calls: out}, err
}

func callNeutral(raw json.RawMessage, path string) (c events.RawCall, ok bool, err error) {
	m, err := fields(raw, path)
	if err != nil {
		return c, false, err
	}
	if err := known(m, path, "id", "tool", "args", "key", "secrets"); err != nil {
		return c, false, err
	}
	var s [3]string
	for i, name := range []string{"id", "tool", "key"} {
		if s[i], err = text(m[name], path+"/"+name); err != nil {
			return c, false, err
		}
	}
	c, err = newCall(s[0], s[1], m["args"], path)
	c.Key = s[2]
	if err == nil {
		c.Secrets, err = declared(m["secrets"], path+"/secrets")
	}
	return c, err == nil, err
}

// maxDeclared and maxPointer bound the arguments that a call declares as secrets: how
// many, and the length in bytes of each pointer.
const (
	maxDeclared = 64
	maxPointer  = 256
)

// declared are the arguments that a call names as secrets: references that name no
// sealed value yet.
func declared(raw json.RawMessage, path string) ([]events.SecretRef, error) {
	if absent(raw) {
		return nil, nil
	}
	var pointers []string
	if json.Unmarshal(raw, &pointers) != nil || len(pointers) > maxDeclared {
		return nil, malformed(path, "want a list of at most %d JSON Pointers to arguments, for example [\"/token\"]", maxDeclared)
	}
	var out []events.SecretRef
	for _, p := range pointers {
		if !strings.HasPrefix(p, "/") || len(p) > maxPointer {
			return nil, malformed(path, "want JSON Pointers to arguments, for example /token, of at most %d bytes", maxPointer)
		}
		out = append(out, events.SecretRef{Path: p})
	}
	return out, nil
}

// known refuses members that have none of the names.
func known(m map[string]json.RawMessage, path string, names ...string) error {
	allowed := make(map[string]bool, len(names))
	for _, n := range names {
		allowed[n] = true
	}
	unknown := ""
	for name := range m {
		if !allowed[name] && (unknown == "" || name < unknown) {
			unknown = name
		}
	}
	if unknown != "" {
		guess := ""
		if word := near.Word(unknown, names); word != "" {
			guess = "did you mean " + word + "? "
		}
		return malformed(path+"/"+shorten(unknown, 64), "no such field: %sthere are %s", guess, strings.Join(names, ", "))
	}
	return nil
}

// idsNeutral are the provider's own, whatever they are: offsets tell calls apart.
func idsNeutral(calls []asked, _ []string) []string {
	out := make([]string, len(calls))
	for i, c := range calls {
		out[i] = c.id
	}
	return out
}

func callsNeutral(calls []events.RawCall, ids []string, _ map[string]bool) []json.RawMessage {
	m := struct {
		Calls []neutralCall `json:"calls"`
	}{Calls: make([]neutralCall, len(calls))}
	for i, c := range calls {
		m.Calls[i] = neutralCall{ID: ids[i], Tool: c.Tool, Key: c.Key, Args: marshal(c.Args.Text)}
	}
	return []json.RawMessage{marshal(m)}
}

func answersNeutral(answers []events.Answer, ids []string) []json.RawMessage {
	out := make([]json.RawMessage, len(answers))
	for i, a := range answers {
		n := neutralAnswer{Call: a.Call, ID: ids[i], Tool: shownName(a.Tool), Standing: a.Standing, Content: lifecycle.Envelope(a)}
		if a.Verbatim && a.Standing != events.AnswerOpen {
			n.Content = recordedOf(a.Result).content()
		}
		out[i] = marshal(n)
	}
	return out
}

// validateNeutral wants each message of calls followed by its answers, by offset.
func validateNeutral(messages []json.RawMessage) error {
	for i := 0; i < len(messages); {
		m, err := fields(messages[i], at(i))
		if err != nil {
			return err
		}
		calls, err := eachCall(m["calls"], at(i)+"/calls", callNeutral)
		if err != nil {
			return err
		}
		for offset := range calls {
			i++
			if i == len(messages) {
				return malformed(at(i-1), "call %d has no answer", offset)
			}
			var n neutralAnswer
			if err := json.Unmarshal(messages[i], &n); err != nil || n.Call != offset || n.Standing == "" {
				return malformed(at(i), "want the answer to call %d", offset)
			}
		}
		i++
	}
	return nil
}
