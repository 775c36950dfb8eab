package codec

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/sluice-run/sluice/events"
)

// newCall makes a call of what any provider's message says of it. args is the
// JSON value of the arguments: a string is taken for the text in it, anything else
// is kept as it is written.
func newCall(id, name string, args json.RawMessage, path string) (events.RawCall, error) {
	c := events.RawCall{ProviderID: id, Tool: name}
	if n := len(marshal(id)) - 2; n > MaxID {
		return c, malformed(path, "an id of %d bytes, at most %d", n, MaxID)
	}
	switch {
	case absent(args):
	case first(args) == '"':
		s, err := text(args, path)
		if err != nil {
			return c, err
		}
		c.Args.Text = string(toUnicode([]byte(s)))
	default:
		c.Args.Text = string(bytes.TrimSpace(args))
	}
	if n := len(c.Args.Text); n > MaxArgs {
		return c, &Error{Path: path, Reason: fmt.Sprintf("%d bytes of arguments, at most %d", n, MaxArgs), Err: ErrTooLarge}
	}
	if len(name) > MaxName {
		c.Tool = prefix(name, MaxName)
		c.Refused = &events.Refusal{
			Code:   events.UnknownTool,
			Reason: fmt.Sprintf("There is no such tool: its name has %d bytes, and names have at most %d.", len(name), MaxName),
		}
	}
	return c, nil
}

// eachCall makes calls of the elements of raw, at most MaxCalls of them. read
// returns false for an element that is no call.
func eachCall(raw json.RawMessage, path string, read func(json.RawMessage, string) (events.RawCall, bool, error)) ([]events.RawCall, error) {
	elements, err := list(raw, path)
	if err != nil {
		return nil, err
	}
	var out []events.RawCall
	for i, e := range elements {
		c, ok, err := read(e, fmt.Sprintf("%s/%d", path, i))
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if len(out) == MaxCalls {
			return nil, &Error{Path: path, Reason: fmt.Sprintf("at most %d", MaxCalls), Err: ErrTooManyCalls}
		}
		out = append(out, c)
	}
	return out, nil
}

// object is arguments as a JSON object that a provider accepts: as the model wrote
// them where they are one, empty where it wrote none. What is no object must not
// come back as one that the model did not write, so it is wrapped and named.
func object(args string) json.RawMessage {
	raw := json.RawMessage(args)
	switch {
	case absent(bytes.TrimSpace(raw)):
		return json.RawMessage("{}")
	case first(raw) == '{' && json.Valid(raw) && checkDepth(raw) == nil:
		return raw
	}
	return marshal(map[string]string{"invalid_json": shorten(args, 512)})
}
