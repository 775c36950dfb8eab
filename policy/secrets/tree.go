package secrets

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// node is a value of a JSON text, and where it stands there.
type node struct {
	kind     byte // { [ " 0 for numbers, k for names of members, or t for true, false and null
	from, to int
	at       [2]int // of the name, where it is a member
	name     string // of the member that it is; of an entry of a list, that of the list
	path     string // JSON Pointer
	kids     []node
}

// maxNesting is how deep a JSON text is looked into. What is deeper stays as one value.
const maxNesting = 256

// deep says whether a valid JSON text nests deeper than is looked.
func deep(text string) bool {
	t, open := treeReader{text: text}, 0
	for t.at < len(text) {
		switch text[t.at] {
		case '{', '[':
			if open++; open > maxNesting {
				return true
			}
		case '}', ']':
			open--
		case '"':
			t.string()
			continue
		}
		t.at++
	}
	return false
}

// tree reads a valid JSON text.
func tree(text string) node {
	t := treeReader{text: text}
	return t.value("", "", 0)
}

type treeReader struct {
	text string
	at   int
}

func (t *treeReader) blanks() {
	for t.at < len(t.text) && strings.IndexByte(" \t\r\n", t.text[t.at]) >= 0 {
		t.at++
	}
}

func (t *treeReader) value(name, path string, depth int) node {
	t.blanks()
	n := node{from: t.at, name: name, path: path}
	switch c := t.text[t.at]; {
	case c == '{' || c == '[':
		n.kind = c
		t.at++
		if depth >= maxNesting {
			t.skip()
			break
		}
		t.inside(&n, depth)
	case c == '"':
		n.kind = '"'
		t.string()
	case c == '-' || digits[c]:
		n.kind = '0'
		t.plain()
	default:
		n.kind = 't'
		t.plain()
	}
	n.to = t.at
	return n
}

// inside reads what stands in an object or a list, up to its end.
func (t *treeReader) inside(n *node, depth int) {
	for i := 0; ; i++ {
		t.blanks()
		switch t.text[t.at] {
		case '}', ']':
			t.at++
			return
		case ',':
			t.at++
			t.blanks()
		}
		name, path, at := n.name, n.path+"/"+strconv.Itoa(i), [2]int{}
		if n.kind == '{' {
			from := t.at
			t.string()
			at = [2]int{from, t.at}
			name = unquote(t.text[from:t.at])
			path = n.path + "/" + pointer.Replace(name)
			t.blanks()
			t.at++ // the colon
		}
		kid := t.value(name, path, depth+1)
		kid.at = at
		n.kids = append(n.kids, kid)
	}
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func (t *treeReader) string() {
	for t.at++; t.text[t.at] != '"'; t.at++ {
		if t.text[t.at] == '\\' {
			t.at++
		}
	}
	t.at++
}

func (t *treeReader) plain() {
	for t.at < len(t.text) && strings.IndexByte(",]} \t\r\n", t.text[t.at]) < 0 {
		t.at++
	}
}

// skip passes over the rest of an object or a list.
func (t *treeReader) skip() {
	for open := 1; open > 0; {
		switch t.text[t.at] {
		case '{', '[':
			open++
		case '}', ']':
			open--
		case '"':
			t.string()
			continue
		}
		t.at++
	}
}

func unquote(literal string) string {
	var s string
	if json.Unmarshal([]byte(literal), &s) != nil {
		return literal
	}
	return s
}

// quote is s as a JSON string without HTML escapes.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// leaf is a string, a number or a member's name of a JSON text, with what its surroundings say of it.
type leaf struct {
	node
	text  string // what the string says, or the digits of the number
	named Kind   // what its name, or that of the object around it, says it is; "" for nothing
	after string // the flag that stands before it in a list of words, as --token in ["--token", "x"]; "" for none
}

// each calls yield with each name of a member, string and number, in order. What a
// name says of its member counts, and in {"name": "Authorization", "value": "…"} what
// the one says of the other.
func each(text string, n node, inherited Kind, yield func(leaf)) {
	switch n.kind {
	case '"':
		yield(leaf{node: n, text: unquote(text[n.from:n.to]), named: inherited})
	case '0':
		yield(leaf{node: n, text: text[n.from:n.to], named: inherited})
	case '[':
		flag := ""
		for _, k := range n.kids {
			each(text, k, inherited, func(l leaf) {
				if k.kind == '"' {
					l.after = flag
				}
				yield(l)
			})
			flag = flagOf(text, k)
		}
	case '{':
		about := paired(text, n)
		for _, k := range n.kids {
			yield(leaf{node: node{kind: 'k', from: k.at[0], to: k.at[1], path: k.path}, text: k.name})
			kind := named(k.name)
			switch {
			case kind != "":
			case k.kind == '"' && strings.HasSuffix(strings.ToLower(k.name), "auth") && k.to-k.from < maxLook && userAndPassword(unquote(text[k.from:k.to])):
				kind = Token
			case strings.EqualFold(k.name, "pwd") && k.kind == '"' && !folder(unquote(text[k.from:k.to])) && slices.ContainsFunc(n.kids, ofUser):
				kind = Password
			case about != "" && slicesHas(valueNames, k.name):
				kind = about
			case inherited != "" && !plainName(k.name) && PlaceOf(k.name) == Free:
				kind = inherited
			}
			each(text, k, kind, yield)
		}
	}
}

// ofUser says whether a member names a user: beside it pwd is no folder.
func ofUser(n node) bool {
	switch strings.ToLower(n.name) {
	case "user", "username", "uid", "login", "userid", "user_id":
		return true
	}
	return false
}

// flagOf is the entry of a list of words where it is a flag that may have its value
// behind it; "" for any other.
func flagOf(text string, n node) string {
	if n.kind != '"' || n.to-n.from > maxName || text[n.from+1] != '-' {
		return ""
	}
	flag := unquote(text[n.from:n.to])
	if strings.TrimLeft(flag, "-") == "" || nameByte.run(flag, 0) != len(flag) {
		return ""
	}
	return flag
}

// behindFlag is the secret that a word is as a whole, where the flag before it says so
// as in a line of a shell.
func (l leaf) behindFlag(bold bool) []Span {
	if l.after == "" || blankSecret(l.text) || strings.HasPrefix(l.text, "-") {
		return nil
	}
	at := len(l.after) + 1
	word := strings.Map(func(r rune) rune { // an entry is one word, whatever is in it
		if r <= ' ' || strings.ContainsRune("\"'`;&|<>()", r) {
			return 'x'
		}
		return r
	}, l.text)
	for _, s := range find(l.after+" "+word, bold) {
		if s.Start == at {
			return []Span{{0, len(l.text), s.Kind}}
		}
	}
	return nil
}

// Names of members that say what the member beside them holds, and of that one.
var (
	labelNames = []string{"name", "key", "header", "field", "variable", "k", "Name", "Key"}
	valueNames = []string{"value", "val", "v", "Value"}
)

func paired(text string, n node) Kind {
	for _, k := range n.kids {
		if k.kind == '"' && slicesHas(labelNames, k.name) {
			label := unquote(text[k.from:k.to])
			if len(label) > maxName || nameByte.run(label, 0) != len(label) {
				continue // words, and no name
			}
			if kind := named(label); kind != "" {
				return kind
			}
		}
	}
	return ""
}

func slicesHas(list []string, s string) bool {
	for _, one := range list {
		if one == s {
			return true
		}
	}
	return false
}
