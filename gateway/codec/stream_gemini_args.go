package codec

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// argTree is an object that grows by pieces, each of which names its place by a JSONPath
// (RFC 9535): $.a.b[0]['c d'].
type argTree struct {
	root    *argNode
	pending map[*argNode]string // strings that go on, and their places
}

// argNode is one value of the tree.
type argNode struct {
	kind    byte                // o: object, a: array, s: string, v: another value; 0: it has none, which is null
	keys    []string            // of an object, as they came
	members map[string]*argNode // by key
	items   []*argNode
	text    []byte // of a string, as it stands between its quotes
	value   json.RawMessage
}

// add takes one piece, and returns how many bytes it brings.
func (t *argTree) add(raw json.RawMessage) (int, error) {
	p, err := fieldsGemini(raw, "partialArgs")
	if err != nil {
		return 0, err
	}
	path, err := text(toUnicode(p["jsonPath"]), "jsonPath")
	if err != nil {
		return 0, ofMessage(err)
	}
	steps, err := pathSteps(path)
	if err != nil {
		return 0, err
	}
	more, err := boolean(p["willContinue"], "willContinue")
	if err != nil {
		return 0, err
	}
	n, err := t.at(steps, path)
	if err != nil {
		return 0, err
	}
	if err := t.set(n, p, path); err != nil {
		return 0, err
	}
	switch {
	case more && n.kind != 's' && n.kind != 0:
		return 0, fault(FaultConflict, "%s goes on, and is no string", shorten(path, 128))
	case more:
		n.kind = 's' // nothing else goes on
		if t.pending == nil {
			t.pending = make(map[*argNode]string)
		}
		t.pending[n] = path
	default:
		delete(t.pending, n)
	}
	return len(raw), nil
}

// set gives a place its value, or the next piece of it.
func (t *argTree) set(n *argNode, p map[string]json.RawMessage, path string) error {
	_, goesOn := t.pending[n]
	var given []string
	for _, name := range []string{"stringValue", "numberValue", "boolValue", "nullValue"} {
		if !absent(p[name]) {
			given = append(given, name)
		}
	}
	switch {
	case len(given) > 1:
		return fault(FaultConflict, "%s has several values at once", shorten(path, 128))
	case n.kind != 0 && !(n.kind == 's' && goesOn):
		return fault(FaultConflict, "%s comes twice", shorten(path, 128))
	case len(given) == 0:
		return nil
	}
	return n.take(given[0], p[given[0]], path)
}

// take gives a node a value of one of the kinds.
func (n *argNode) take(kind string, raw json.RawMessage, path string) error {
	raw = bytes.TrimSpace(raw)
	if kind == "stringValue" {
		in, err := inner(raw, "stringValue")
		n.kind, n.text = 's', append(n.text, in...)
		return err
	}
	c := first(raw)
	switch {
	case n.kind == 's':
		return fault(FaultConflict, "%s is a string, and goes on as another value", shorten(path, 128))
	case kind == "nullValue":
		raw = json.RawMessage("null")
	case kind == "numberValue" && c != '-' && (c < '0' || c > '9'),
		kind == "boolValue" && string(raw) != "true" && string(raw) != "false":
		return fault(FaultMalformed, "%s: %s is no %s", shorten(path, 128), shorten(string(raw), 32), kind)
	}
	n.kind, n.value = 'v', raw
	return nil
}

// pathStep is a key of an object, or an index of an array.
type pathStep struct {
	key   string
	index int // -1: it is a key
}

// pathSteps reads a JSONPath that names one place.
func pathSteps(path string) ([]pathStep, error) {
	bad := func() error {
		return fault(FaultMalformed, "jsonPath %q: want one place, such as $.a.b[0]['c']", shorten(path, 128))
	}
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return nil, bad()
	}
	var out []pathStep
	for rest != "" {
		if len(out) == MaxDepth {
			return nil, &StreamError{Fault: FaultMalformed, Reason: "jsonPath is deeper than " + strconv.Itoa(MaxDepth), Err: ErrTooDeep}
		}
		var s pathStep
		if s, rest, ok = nextStep(rest); !ok {
			return nil, bad()
		}
		out = append(out, s)
	}
	if len(out) == 0 || out[0].index >= 0 {
		return nil, bad()
	}
	return out, nil
}

// nextStep cuts the first step off a path.
func nextStep(rest string) (pathStep, string, bool) {
	switch {
	case strings.HasPrefix(rest, "['"), strings.HasPrefix(rest, `["`):
		return quotedStep(rest[2:], rest[1])
	case rest[0] == '[':
		digits, after, ok := strings.Cut(rest[1:], "]")
		n, err := strconv.Atoi(digits)
		return pathStep{index: n}, after, ok && err == nil && n >= 0 && digits == strconv.Itoa(n)
	case rest[0] == '.':
		rest = rest[1:]
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		return pathStep{rest[:end], -1}, rest[end:], end > 0 && rest[:end] != "*"
	}
	return pathStep{}, "", false
}

// quotedStep reads a key in quotes, which end with quote.
func quotedStep(rest string, quote byte) (pathStep, string, bool) {
	var key []byte
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\' && i+1 < len(rest) && strings.IndexByte(`\'"`, rest[i+1]) >= 0:
			i++
			key = append(key, rest[i])
		case c == quote:
			after, ok := strings.CutPrefix(rest[i+1:], "]")
			return pathStep{string(key), -1}, after, ok
		case c == '\\':
			return pathStep{}, "", false // escapes that keys of arguments do not need
		default:
			key = append(key, c)
		}
	}
	return pathStep{}, "", false
}

// at is the node of a place, made with all that leads to it.
func (t *argTree) at(steps []pathStep, path string) (*argNode, error) {
	if t.root == nil {
		t.root = &argNode{kind: 'o'}
	}
	n := t.root
	for _, s := range steps {
		if n = n.child(s); n == nil {
			return nil, fault(FaultConflict, "%s leads through a value that is not of that kind, or leaves elements of an array out", shorten(path, 128))
		}
	}
	return n, nil
}

// child is the node that a step leads to, made if it is the next one; nil where it cannot be.
func (n *argNode) child(s pathStep) *argNode {
	want := byte('o')
	if s.index >= 0 {
		want = 'a'
	}
	if n.kind == 0 {
		n.kind = want
	}
	switch {
	case n.kind != want:
		return nil
	case want == 'o':
		c := n.members[s.key]
		if c == nil {
			if n.members == nil {
				n.members = make(map[string]*argNode)
			}
			c = new(argNode)
			n.members[s.key] = c
			n.keys = append(n.keys, s.key)
		}
		return c
	case s.index > len(n.items):
		return nil
	case s.index == len(n.items):
		n.items = append(n.items, new(argNode))
	}
	return n.items[s.index]
}

// unfinished is the place of a string that should go on, the first by name; "" for none.
func (t *argTree) unfinished() string {
	var all []string
	for _, path := range t.pending {
		all = append(all, path)
	}
	if len(all) == 0 {
		return ""
	}
	return slices.Min(all)
}

// value is the object, {} where no piece has come.
func (t *argTree) value() json.RawMessage {
	if t.root == nil {
		return json.RawMessage("{}")
	}
	return t.root.append(nil)
}

// append adds a node's JSON. Its depth is bounded by that of the paths.
func (n *argNode) append(out []byte) []byte {
	switch n.kind {
	case 'o':
		out = append(out, '{')
		for i, k := range n.keys {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(out, marshal(k)...), ':')
			out = n.members[k].append(out)
		}
		return append(out, '}')
	case 'a':
		out = append(out, '[')
		for i, c := range n.items {
			if i > 0 {
				out = append(out, ',')
			}
			out = c.append(out)
		}
		return append(out, ']')
	case 'v':
		return append(out, n.value...)
	case 's':
		return append(out, quoted(n.text)...)
	}
	return append(out, "null"...) // which the API may write as no value at all
}
