package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// kit is what the assemblers share: previews, and the bound of what is held.
type kit struct {
	watched  bool // previews are wanted
	previews []Preview
	held     int // bytes
	calls    int // that have begun
	model    json.RawMessage
	usage    json.RawMessage
}

// hold counts bytes that are kept until the end.
func (k *kit) hold(n int) error {
	if k.held += n; k.held > MaxBody {
		return tooLarge("more than %d bytes of calls", MaxBody)
	}
	return nil
}

// keep is raw, kept until the end in the place of what was there before.
func (k *kit) keep(old, raw json.RawMessage) (json.RawMessage, error) {
	return raw, k.hold(len(raw) - len(old))
}

// note keeps the model and the usage, of which the last ones that are said count.
func (k *kit) note(model, usage json.RawMessage) error {
	var err error
	if !absent(model) {
		if k.model, err = k.keep(k.model, model); err != nil {
			return err
		}
	}
	if !absent(usage) {
		k.usage, err = k.keep(k.usage, usage)
	}
	return err
}

// call is one call that is being put together. Its parts are kept as they are written in
// JSON strings, without their quotes, and read once the last one is there: a character
// that was cut in two comes together again.
type call struct {
	number int // in the order in which calls began
	id     []byte
	name   []byte
	args   []byte
	whole  json.RawMessage // arguments that came as a value, not as pieces of text
	empty  bool            // they came as an empty object, and nothing more has come
	scan   objectScan
	size   int // bytes of arguments, as text
	closed bool
}

// begin opens a call.
func (k *kit) begin() (*call, error) {
	if k.calls == MaxCalls {
		return nil, &StreamError{Fault: FaultTooLarge, Reason: fmt.Sprintf("more than %d calls in one message", MaxCalls), Err: ErrTooManyCalls}
	}
	k.calls++
	return &call{number: k.calls - 1}, k.hold(64)
}

// identify sets a part of a call that does not change: its id, its name. Nothing and ""
// say nothing.
func (k *kit) identify(part *[]byte, raw json.RawMessage, what string) error {
	in, err := inner(raw, what)
	if err != nil || len(in) == 0 || bytes.Equal(*part, in) {
		return err
	}
	if len(*part) > 0 {
		return fault(FaultConflict, "the %s changes midway, from %q to %q", what, shorten(string(*part), 64), shorten(string(in), 64))
	}
	if len(in) > 6*MaxID {
		return tooLarge("%s of %d bytes", what, len(in))
	}
	*part = in
	return k.hold(len(in))
}

// because sets why the model stopped. Nothing and "" say nothing; of two reasons that both
// let calls start the first one stays, and others contradict each other.
func (k *kit) because(reason *[]byte, raw json.RawMessage, what string) error {
	in, err := inner(raw, what)
	switch old := *reason; {
	case err != nil || len(in) == 0 || bytes.Equal(in, old):
		return err
	case len(old) == 0:
		*reason = in
		return k.hold(len(in))
	case finished(unquoted(old)) && finished(unquoted(in)):
		return nil
	default:
		return fault(FaultConflict, "%s %q after %q", what, shorten(string(in), 64), shorten(string(old), 64))
	}
}

// extend adds a piece of a call's arguments, and shows it.
func (k *kit) extend(c *call, raw json.RawMessage, what string) error {
	if absent(raw) {
		return nil
	}
	if first(raw) != '"' {
		return k.value(c, raw, what)
	}
	in, err := inner(raw, what)
	if err != nil {
		return err
	}
	if len(in) > 0 && c.whole != nil {
		return fault(FaultConflict, "%s come as a value and as pieces", what)
	}
	if len(in) > 0 && c.empty {
		c.empty, c.scan = false, objectScan{}
	}
	delta, err := text(toUnicode(raw), what)
	if err != nil {
		return ofMessage(err)
	}
	if c.size += len(delta); c.size > MaxArgs {
		return tooLarge("more than %d bytes of arguments of one call", MaxArgs)
	}
	c.scan.add(delta)
	c.args = append(c.args, in...)
	k.show(c, delta)
	return k.hold(len(in))
}

// value sets arguments that come as a whole value. An empty object is what bridges write
// where a call begins, before its pieces: it says nothing.
func (k *kit) value(c *call, raw json.RawMessage, what string) error {
	if emptyObject(raw) {
		if c.whole == nil && len(c.args) == 0 {
			c.empty, c.scan.whole = true, true
			k.show(c, "")
		}
		return nil
	}
	if c.whole != nil || len(c.args) > 0 {
		return fault(FaultConflict, "%s come twice", what)
	}
	if len(raw) > MaxArgs {
		return tooLarge("more than %d bytes of arguments of one call", MaxArgs)
	}
	c.whole, c.scan.whole, c.empty = raw, true, false
	k.show(c, string(toUnicode(raw)))
	return k.hold(len(raw))
}

// emptyObject says whether raw is an object without members.
func emptyObject(raw json.RawMessage) bool {
	return first(raw) == '{' && strings.Trim(string(raw), "{} \t\r\n") == ""
}

// nothing says whether a piece of text is none, or "".
func nothing(raw json.RawMessage) bool { return absent(raw) || string(bytes.TrimSpace(raw)) == `""` }

// show adds a preview of a call, where somebody looks.
func (k *kit) show(c *call, delta string) {
	if !k.watched {
		return
	}
	k.previews = append(k.previews, Preview{Call: c.number, ID: unquoted(c.id), Tool: unquoted(c.name), Delta: delta, Closed: c.closed})
}

// close says that nothing more of a call comes.
func (k *kit) close(c *call) {
	c.closed = true
	k.show(c, "")
}

// text is the call's arguments as a JSON string, or as the value that came.
func (c *call) text() json.RawMessage {
	if c.whole != nil {
		return c.whole
	}
	return quoted(c.args)
}

// inner is what stands between the quotes of a string in JSON; nothing for nothing and null.
func inner(raw json.RawMessage, what string) ([]byte, error) {
	if absent(raw) {
		return nil, nil
	}
	raw = bytes.TrimSpace(raw)
	if raw[0] != '"' {
		return nil, fault(FaultMalformed, "%s: want a string", what)
	}
	return raw[1 : len(raw)-1], nil
}

// quoted is a JSON string of what stands between its quotes.
func quoted(in []byte) json.RawMessage {
	out := make(json.RawMessage, 0, len(in)+2)
	return append(append(append(out, '"'), in...), '"')
}

// unquoted is the text of what stands between quotes.
func unquoted(in []byte) string {
	s, _ := text(toUnicode(quoted(in)), "") // it was read as a string
	return s
}

// number is a place that raw gives, from 0; -1 where it gives none.
func place(raw json.RawMessage, what string) (int, error) {
	if absent(raw) {
		return -1, nil
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(raw)))
	if err != nil || n < 0 || n > maxPlace {
		return 0, fault(FaultMalformed, "%s %s: want a whole number from 0 to %d", what, shorten(string(raw), 32), maxPlace)
	}
	return n, nil
}

// maxPlace is the largest index of a block, item or call: there are texts between calls.
const maxPlace = 1 << 20

// objectScan watches pieces of JSON text for the end of an object. It takes each byte
// once, however the text is cut.
type objectScan struct {
	depth                  int
	quoted, escaped, begun bool
	whole                  bool // an object has ended, and nothing but blanks follows
	wrong                  bool // it is no object
}

func (o *objectScan) add(s string) {
	for i := range len(s) {
		o.byte(s[i])
	}
}

func (o *objectScan) byte(c byte) {
	switch {
	case o.escaped:
		o.escaped = false
	case o.quoted && c == '\\':
		o.escaped = true
	case o.quoted && c == '"':
		o.quoted = false
	case o.quoted, c == ' ', c == '\t', c == '\r', c == '\n':
	case o.whole || !o.begun && c != '{':
		o.whole, o.begun, o.wrong = false, true, true
	case c == '"':
		o.quoted = true
	case c == '{' || c == '[':
		o.begun = true
		o.depth++
	case c == '}' || c == ']':
		o.depth--
		o.whole = o.depth == 0 && !o.wrong
	}
}

// failure is the fault of an event in which a provider says that it failed.
func failure(e event, top map[string]json.RawMessage) error {
	kind, _ := text(top["type"], "")
	object, _ := text(top["object"], "")
	said := top["error"]
	if e.name != "error" && kind != "error" && object != "error" && !tells(said) {
		return nil
	}
	words := top // of Responses, which has them at the top
	if m, err := fields(said, ""); err == nil {
		words = m
	}
	reason := ""
	for _, name := range []string{"type", "code", "status", "message"} {
		if s, err := text(words[name], ""); err == nil && s != "" && s != "error" {
			if reason != "" {
				reason += ": "
			}
			reason += shorten(s, 300)
		}
	}
	if s, err := text(said, ""); err == nil && s != "" {
		reason = shorten(s, 300)
	}
	if reason == "" {
		reason = "it does not say why"
	}
	return fault(FaultError, "the provider failed while it answered (%s)", string(toUnicode([]byte(reason))))
}

// whole is a message with the model and the usage that were noted.
func (k *kit) whole(message map[string]any) json.RawMessage {
	if k.model != nil {
		message["model"] = k.model
	}
	if k.usage != nil {
		message["usage"] = k.usage
	}
	return marshal(message)
}
