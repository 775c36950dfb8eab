package archive

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of looking for the values of members.
const (
	maxNesting = 64  // of JSON, also of JSON in a string of JSON
	minValue   = 6   // bytes of a value that is looked for elsewhere in the trace
	maxValues  = 512 // values of one trace that are looked for elsewhere
)

// plain is JSON without the escapes meant for HTML.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// scrub replaces the values of the members in a text, whether it is JSON or only has
// some in it, and every value that was replaced before in the same trace. A part that is
// no JSON, and names a member as JSON would, is replaced as a whole: it may be cut off
// amid the value.
func (r *Redactor) scrub(s string) string { return r.scrubAt(s, 0) }

func (r *Redactor) scrubAt(s string, depth int) string {
	var out strings.Builder
	work := 16*len(s) + 1<<20 // bytes that may be tried in vain
	from := 0
	for at := 0; at < len(s) && work > 0; {
		i := strings.IndexAny(s[at:], "{[")
		if i < 0 {
			break
		}
		at += i
		var v json.RawMessage
		dec := json.NewDecoder(strings.NewReader(s[at:]))
		err := dec.Decode(&v)
		if err != nil {
			n := broken(err, len(s)-at)
			if strings.ContainsAny(s[at:at+n], `"'`) {
				break // it may have named a member whose value follows
			}
			work -= 512 + n
			at++
			continue
		}
		out.WriteString(r.rest(s[from:at]))
		out.Write(r.json(v, depth))
		at += len(v)
		from = at
	}
	out.WriteString(r.rest(s[from:]))
	return out.String()
}

// broken is behind how many of n bytes it showed that they are no JSON.
func broken(err error, n int) int {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return min(int(syntax.Offset), n)
	}
	return n
}

// rest is what is no JSON.
func (r *Redactor) rest(s string) string {
	if r.mentions(s) {
		return r.text(s)
	}
	return r.echo(s)
}

// mentions says whether a text names a member in quotes, however they are escaped.
func (r *Redactor) mentions(s string) bool {
	if !strings.ContainsAny(s, `"'`) {
		return false
	}
	plain := strings.ToLower(escaped.ReplaceAllStringFunc(s, func(e string) string {
		n, err := strconv.ParseUint(e[len(e)-4:], 16, 16)
		if err != nil {
			return e
		}
		return string(rune(n))
	}))
	plain = strings.ReplaceAll(plain, `\`, "")
	for name := range r.names {
		for _, quote := range []string{`"`, `'`} {
			if strings.Contains(plain, quote+name+quote) {
				return true
			}
		}
	}
	return false
}

// escaped is a rune as JSON may write it, also in JSON in a string of JSON.
var escaped = regexp.MustCompile(`\\+u[0-9a-fA-F]{4}`)

// echo replaces the values that are known in a text.
func (r *Redactor) echo(s string) string {
	for _, value := range r.order {
		if strings.Contains(s, value) {
			s = strings.ReplaceAll(s, value, r.known[value])
		}
	}
	return s
}

// member is what stands for the value of a member: a JSON string.
func (r *Redactor) member(raw []byte) []byte {
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" {
		return raw
	}
	value := string(raw)
	var s string
	if json.Unmarshal(raw, &s) == nil {
		value = s
	}
	by := r.text(value)
	if _, there := r.known[value]; !there && len(value) >= minValue && len(r.known) < maxValues {
		r.known[value] = by
		r.order = append(r.order, value)
		slices.SortStableFunc(r.order, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may hold another
	}
	return quoted(by)
}

// json replaces the values of the members in a JSON value, and leaves every other byte
// as it is.
func (r *Redactor) json(raw []byte, depth int) []byte {
	t := bytes.TrimSpace(raw)
	switch {
	case len(t) == 0:
		return raw
	case depth > maxNesting:
		return quoted(r.placeholder(raw, int64(len(raw))))
	case t[0] == '{', t[0] == '[':
		return r.nested(raw, depth)
	case t[0] != '"':
		return raw
	}
	var s string
	if json.Unmarshal(t, &s) != nil {
		return raw
	}
	if out := r.nestedText(s, depth); out != s {
		return quoted(out)
	}
	return raw
}

// nestedText is a string in JSON, which may be JSON again.
func (r *Redactor) nestedText(s string, depth int) string {
	if in := strings.TrimSpace(s); (strings.HasPrefix(in, "{") || strings.HasPrefix(in, "[")) && json.Valid([]byte(s)) {
		return string(r.json([]byte(s), depth+1))
	}
	if depth > 8 { // of strings in strings, each of which is looked through
		return r.rest(s)
	}
	return r.scrubAt(s, depth+1)
}

// nested is json of an object or a list.
func (r *Redactor) nested(raw []byte, depth int) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	open, err := dec.Token()
	if err != nil {
		return quoted(r.placeholder(raw, int64(len(raw))))
	}
	var out bytes.Buffer
	from := 0
	for dec.More() {
		hit := false
		if open == json.Delim('{') {
			key, err := dec.Token()
			name, ok := key.(string)
			if err != nil || !ok {
				return quoted(r.placeholder(raw, int64(len(raw))))
			}
			hit = r.names[strings.ToLower(name)]
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return quoted(r.placeholder(raw, int64(len(raw))))
		}
		end := int(dec.InputOffset())
		by := r.json(v, depth+1)
		if hit {
			by = r.member(v)
		}
		out.Write(raw[from : end-len(v)])
		out.Write(by)
		from = end
	}
	out.Write(raw[from:])
	return out.Bytes()
}

// anything is a decoded msgpack value with the values of the members replaced.
func (r *Redactor) anything(v any, depth int) any {
	if depth > maxNesting {
		return "[redacted]"
	}
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			if r.names[strings.ToLower(name)] {
				text, err := plain(e)
				if err != nil {
					text = []byte(`"?"`)
				}
				v[name] = strings.Trim(string(r.member(text)), `"`)
				continue
			}
			v[name] = r.anything(e, depth+1)
		}
	case []any:
		for i := range v {
			v[i] = r.anything(v[i], depth+1)
		}
	case string:
		return r.scrub(v)
	case []byte:
		if utf8.Valid(v) {
			return []byte(r.scrub(string(v)))
		}
		return []byte(r.echo(string(v)))
	}
	return v
}
