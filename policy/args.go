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

// maxArgDepth is how deep arguments are looked into for their leaves.
const maxArgDepth = 16

// frame is an object or array on the way to a value.
type frame struct {
	name   string // of the member that is read; in an array, of the member that holds it
	index  int    // of the element that is read
	array  bool
	inside bool // an object whose next token is a value
}

// walkStrings calls visit for every string in a JSON value, however deep, with the name
// of the member that holds it and a function that gives its JSON Pointer, in order,
// until visit says false. It reads the value once.
func walkStrings(raw json.RawMessage, visit func(name string, path func() string, text string) bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var way []frame
	path := func() string { return pointerTo(way) }
	for {
		t, err := dec.Token()
		if err != nil {
			return
		}
		d, delim := t.(json.Delim)
		if delim && (d == '}' || d == ']') {
			if way = way[:len(way)-1]; len(way) == 0 {
				return
			}
			passed(way)
			continue
		}
		var top *frame
		if len(way) > 0 {
			top = &way[len(way)-1]
		}
		s, isText := t.(string)
		if top != nil && !top.array && !top.inside {
			top.name, top.inside = s, true
			continue
		}
		name := ""
		if top != nil {
			name = top.name
		}
		switch {
		case delim:
			way = append(way, frame{name: name, array: d == '['})
			continue
		case isText && !visit(name, path, s), top == nil:
			return
		}
		passed(way)
	}
}

// passed moves the last frame behind the value that was read.
func passed(way []frame) {
	top := &way[len(way)-1]
	top.index++
	top.inside = false
}

// pointerTo is the JSON Pointer to the value that is read.
func pointerTo(way []frame) string {
	var b strings.Builder
	for _, f := range way {
		b.WriteByte('/')
		if f.array {
			b.WriteString(strconv.Itoa(f.index))
		} else {
			b.WriteString(escapePointer(f.name))
		}
	}
	return b.String()
}

// maxLeafPaths bounds the pointers to all leaves together, in bytes: a long name above
// many leaves would stand in each of them.
const maxLeafPaths = 4 << 20

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
	walkStrings(args, func(_ string, path func() string, s string) bool {
		if s != text {
			return true
		}
		found = path()
		return false
	})
	return found
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}
