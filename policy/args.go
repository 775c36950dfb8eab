package policy

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// member is one name and value of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members are the members of a JSON object in its own order, repeated ones
// included; nil for anything else.
func members(raw json.RawMessage) []member {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var out []member
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return out
		}
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return out
		}
		out = append(out, member{name, v})
	}
	return out
}

// maxArgDepth is how deep arguments are looked into.
const maxArgDepth = 16

// walkStrings calls visit for every string in a JSON value with the name that
// holds it and its JSON Pointer, in order, until visit says false.
func walkStrings(raw json.RawMessage, visit func(name, path, text string) bool) {
	walkValue(raw, "", "", 0, visit)
}

func walkValue(raw json.RawMessage, name, path string, depth int, visit func(name, path, text string) bool) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 || depth > maxArgDepth {
		return true
	}
	switch raw[0] {
	case '"':
		var s string
		return json.Unmarshal(raw, &s) != nil || visit(name, path, s)
	case '{':
		for _, m := range members(raw) {
			if !walkValue(m.value, m.name, path+"/"+escapePointer(m.name), depth+1, visit) {
				return false
			}
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return true
		}
		for i, v := range list {
			if !walkValue(v, name, path+"/"+strconv.Itoa(i), depth+1, visit) {
				return false
			}
		}
	}
	return true
}

// leavesOf visits the leaves of a JSON value in order. It is false where visit was, or
// where there is something that it does not look into.
func leavesOf(raw json.RawMessage, path string, depth int, visit func(Leaf) bool) bool {
	raw = bytes.Trim(raw, " \t\r\n")
	if len(raw) == 0 || depth > maxArgDepth {
		return false
	}
	switch raw[0] {
	case '{':
		for _, m := range members(raw) {
			if !leavesOf(m.value, path+"/"+escapePointer(m.name), depth+1, visit) {
				return false
			}
		}
		return json.Valid(raw)
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return false
		}
		for i, v := range list {
			if !leavesOf(v, path+"/"+strconv.Itoa(i), depth+1, visit) {
				return false
			}
		}
		return true
	}
	return json.Valid(raw) && visit(Leaf{path, raw})
}

// pointer is the JSON Pointer to the first string in args that is text; "" if
// there is none.
func pointer(args json.RawMessage, text string) string {
	var found string
	walkStrings(args, func(_, path, s string) bool {
		if s != text {
			return true
		}
		found = path
		return false
	})
	return found
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}
