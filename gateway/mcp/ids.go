package mcp

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sluice-run/sluice/events"
)

// ids gives clients the ids of their messages back as they wrote them, and so the tokens
// of progress. The SDK reads numbers as float64 and makes integers of them: what it cannot
// keep goes through it in a text, which is taken off on the way out.
type ids struct{ mark string }

// maxID is the length in bytes of the longest id that needs such a text.
const maxID = 1024

// newIDs makes one whose texts nobody else can make.
func newIDs() ids { return ids{mark: "sluice." + rand.Text() + "."} }

// Members of messages in which ids stand.
const (
	idMember      = "id"
	methodMember  = "method"
	paramsMember  = "params"
	metaMember    = "_meta"
	tokenMember   = "progressToken"
	requestMember = "requestId"

	notifications = "notifications/" // begins the methods that are not answered
	cancelled     = notifications + "cancelled"
)

// in is a body as the SDK can keep its ids, and whether that is another one. What is no
// message is returned as it is: the SDK says what is wrong with it. An error is that of an
// id that nobody could answer to.
func (k ids) in(body []byte) ([]byte, bool, error) {
	e := edits{of: body}
	first := bytes.TrimLeft(body, " \t\r\n")
	if len(first) == 0 || first[0] != '[' {
		err := k.message(&e, 0, body)
		return e.made(), len(e.list) > 0, err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if _, err := dec.Token(); err != nil {
		return body, false, nil
	}
	for dec.More() {
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return body, false, nil
		}
		if err := k.message(&e, int(dec.InputOffset())-len(raw), raw); err != nil {
			return body, false, err
		}
	}
	return e.made(), len(e.list) > 0, nil
}

// message notes what is to be changed in one message, which stands at an offset of the body.
func (k ids) message(e *edits, at int, m []byte) error {
	var id, method, params []span
	if !members(m, func(name string, s span) {
		switch name {
		case idMember:
			id = append(id, s)
		case methodMember:
			method = append(method, s)
		case paramsMember:
			params = append(params, s)
		}
	}) || len(method) == 0 { // no message, or an answer to a question of the door's own
		return nil
	}
	var name string
	_ = json.Unmarshal(method[len(method)-1].in(m), &name) // what is no text is no method
	for _, s := range id {
		if err := k.note(e, at, m, s, strings.HasPrefix(name, notifications)); err != nil {
			return err
		}
	}
	if !bytes.Contains(m, []byte(tokenMember)) && name != cancelled {
		return nil
	}
	for _, p := range params {
		k.inParams(e, at+p.from, p.in(m), name == cancelled)
	}
	return nil
}

// inParams notes what is to be changed in a message's params: the request that is
// cancelled, and the token of progress.
func (k ids) inParams(e *edits, at int, params []byte, cancels bool) {
	members(params, func(name string, s span) {
		switch {
		case name == requestMember && cancels:
			_ = k.note(e, at, params, s, true) // what is no id is nobody's
		case name == metaMember:
			meta, from := s.in(params), at+s.from
			members(meta, func(name string, s span) {
				if name == tokenMember {
					_ = k.note(e, from, meta, s, true) // what is no token is not given back
				}
			})
		}
	})
}

// note notes that an id is to be changed which the SDK would not keep. lax lets pass what
// is none.
func (k ids) note(e *edits, at int, of []byte, s span, lax bool) error {
	token := s.in(of)
	switch {
	case keeps(token):
		return nil
	case !scalar(token):
		if lax {
			return nil
		}
		return unanswerable("the id of a request is a text or a number")
	case !utf8.Valid(token):
		return unanswerable("the id is no UTF-8")
	case len(token) > maxID:
		return unanswerable("the id is too long: %d bytes, at most %d of one that is no plain integer or text", len(token), maxID)
	}
	e.list = append(e.list, edit{span{at + s.from, at + s.to}, `"` + k.mark + base64.RawURLEncoding.EncodeToString(token) + `"`})
	return nil
}

// scalar says whether a value is a text or a number.
func scalar(token []byte) bool {
	return token[0] == '"' || token[0] == '-' || token[0] >= '0' && token[0] <= '9'
}

// idOf is the id of a message that is none otherwise; nil where nobody could be answered by it.
func idOf(m []byte) (id json.RawMessage) {
	members(m, func(name string, s span) {
		if token := s.in(m); name == idMember && scalar(token) && len(token) <= maxID && utf8.Valid(token) {
			id = bytes.Clone(token)
		}
	})
	return id
}

// unanswerable is the error of what nobody can be answered to.
func unanswerable(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// keepable is the greatest integer that float64 keeps, and all below it.
const keepable = 1 << 53

// keeps says whether the SDK gives an id back as it is: a text that is one, or an integer in
// the one form that there is of it.
func keeps(token []byte) bool {
	if token[0] == '"' {
		return bytes.Equal(events.WholeJSON(token), token)
	}
	digits := bytes.TrimPrefix(token, []byte("-"))
	if len(digits) == 0 || len(digits) > 16 || len(digits) > 1 && digits[0] == '0' || string(token) == "-0" {
		return false
	}
	n := 0
	for _, d := range digits {
		if d < '0' || d > '9' {
			return false
		}
		n = n*10 + int(d-'0')
	}
	return n <= keepable
}

// out is what the SDK has written, with the ids in it as their clients wrote them.
func (k ids) out(b []byte) []byte {
	quoted := []byte(`"` + k.mark)
	i := bytes.Index(b, quoted)
	if i < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for ; i >= 0; i = bytes.Index(b, quoted) {
		code := b[i+len(quoted):]
		end := bytes.IndexByte(code, '"')
		if end < 0 {
			break
		}
		token := make([]byte, base64.RawURLEncoding.DecodedLen(end))
		if n, err := base64.RawURLEncoding.Decode(token, code[:end]); err != nil || !json.Valid(token[:n]) {
			out, b = append(out, b[:i+len(quoted)]...), code
			continue
		}
		out, b = append(append(out, b[:i]...), token...), code[end+1:]
	}
	return append(out, b...)
}

// span is where something stands.
type span struct{ from, to int }

func (s span) in(b []byte) []byte { return b[s.from:s.to] }

// edit puts a text in the place of a span, edits several, none of which overlap.
type edit struct {
	span
	text string
}

type edits struct {
	of   []byte
	list []edit
}

// made is the body with its edits.
func (e edits) made() []byte {
	if len(e.list) == 0 {
		return e.of
	}
	slices.SortFunc(e.list, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	out := make([]byte, 0, len(e.of)+len(e.list)*64)
	done := 0
	for _, x := range e.list {
		out = append(append(out, e.of[done:x.from]...), x.text...)
		done = x.to
	}
	return append(out, e.of[done:]...)
}

// members calls f with each member of an object: its name, and where its value stands. It
// says whether b is an object.
func members(b []byte, f func(name string, s span)) bool {
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for dec.More() {
		name, err := dec.Token()
		var raw json.RawMessage
		if err != nil || dec.Decode(&raw) != nil {
			return false
		}
		to := int(dec.InputOffset())
		if text, ok := name.(string); ok {
			f(text, span{to - len(raw), to})
		}
	}
	_, err := dec.Token()
	return err == nil
}
