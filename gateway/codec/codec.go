// Package codec speaks the providers' languages: it decodes the calls of a
// model's message, renders the answers as messages, and checks conversations
// by each provider's rules. It is pure, and knows no tool and no log.
//
// Nothing that it reads is trusted: see the bounds below. What it renders is
// the same bytes every time.
package codec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// Format names a provider's language.
type Format string

// The formats; codecs.go has a row for each.
const (
	OpenAI    Format = "openai"    // Chat Completions
	Responses Format = "responses" // OpenAI's Responses
	Anthropic Format = "anthropic" // Messages
	Gemini    Format = "gemini"    // generateContent
	AISDK     Format = "aisdk"     // Vercel's AI SDK, whatever provider is behind it
	Neutral   Format = "json"      // ours: see neutral.go
)

// Bounds of a model's message.
const (
	MaxBody  = 8 << 20 // bytes of a message or response
	MaxCalls = 256
	MaxArgs  = 1 << 20  // bytes of one call's arguments
	MaxDepth = 100      // nesting of objects and arrays
	MaxName  = 128      // bytes of a tool's name; a call with a longer one is refused, its siblings are not
	MaxID    = 16 << 10 // bytes of a provider's id as a JSON string, without its quotes: some routers keep a signature in it
)

var (
	// ErrFormat says that there is no such format.
	ErrFormat = errors.New("no such format")
	// ErrMalformed says that a body is no message of the format.
	ErrMalformed = errors.New("not a message of this format")
	// ErrTooManyCalls says that a message has more than MaxCalls calls.
	ErrTooManyCalls = errors.New("too many calls in one message")
	// ErrTooLarge says that a body or a call's arguments are over their bound.
	ErrTooLarge = errors.New("too large")
	// ErrTooDeep says that a body nests deeper than MaxDepth.
	ErrTooDeep = errors.New("nested too deep")
)

// Error is why a body was refused as a whole: nothing of it may start.
type Error struct {
	Path   string // where in the body, as a JSON Pointer; "" means the whole
	Reason string // what is wrong, for who sent it
	Err    error  // one of the Err values above
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Err.Error() + ": " + e.Reason
	}
	return e.Err.Error() + ": " + e.Path + ": " + e.Reason
}

// Unwrap makes errors.Is with the Err values hold.
func (e *Error) Unwrap() error { return e.Err }

// Status is the HTTP status that says the same: 413 or 400.
func (e *Error) Status() int {
	if errors.Is(e.Err, ErrTooLarge) || errors.Is(e.Err, ErrTooManyCalls) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

// Code is the word that says the same: TOO_LARGE or INVALID_PARAM.
func (e *Error) Code() events.Code {
	if e.Status() == http.StatusRequestEntityTooLarge {
		return events.TooLarge
	}
	return events.InvalidParam
}

func malformed(path, format string, args ...any) error {
	return &Error{Path: path, Reason: fmt.Sprintf(format, args...), Err: ErrMalformed}
}

// Message is what a model's message asks for.
type Message struct {
	Calls  []events.RawCall // in the model's order; none where it asks for nothing
	Reason string           // why the model stopped, in the provider's word; "" where the body does not say
	Model  string           // "" where the body does not say
	Input  int64            // tokens; 0 where the body does not say
	Output int64
	// Unanswered are calls of kinds that are neither run nor answered here, and that the
	// provider wants answered by whoever has asked it: at most MaxCalls, in the model's order.
	Unanswered []Unanswered
}

// Unanswered is a call that whoever has the message must run and answer itself.
type Unanswered struct {
	Type string `json:"type"`         // the provider's word for its kind
	ID   string `json:"id,omitempty"` // that its answer names; "" where it has none
}

// Decode reads a provider's message: a whole response, its message, or the bare
// array of calls. Arguments are kept as the model wrote them, except that what is
// no Unicode becomes U+FFFD. Ids may be missing or repeated. Where the model was
// stopped early each call is there, and Refused. Errors are *Error, or wrap ErrFormat.
func Decode(f Format, body []byte) (Message, error) {
	c, err := find(f)
	if err != nil {
		return Message{}, err
	}
	if len(body) > MaxBody {
		return Message{}, &Error{Reason: fmt.Sprintf("%d bytes, at most %d", len(body), MaxBody), Err: ErrTooLarge}
	}
	body = toUnicode(body)
	if err := checkDepth(body); err != nil {
		return Message{}, err
	}
	m, err := c.decode(body)
	if err == nil {
		err = unseen(f, m, body)
	}
	if err != nil {
		return Message{}, err
	}
	if !finished(m.Reason) {
		for i := range m.Calls {
			m.Calls[i].Refused = truncated(m.Reason)
		}
	}
	return m, nil
}

// finished says whether a model that stopped for a reason had said all that it meant to.
// Routers pass on the words of other providers, so those of all formats count in each: none
// of them means that a message was cut off. "" is that of a body which does not say: whoever
// sent it had the whole message.
func finished(reason string) bool {
	switch reason {
	case "", "tool_calls", "stop", "function_call", // Chat Completions
		"completed",            // Responses
		"tool_use", "end_turn", // Anthropic
		"STOP",       // Gemini
		"tool-calls": // the AI SDK
		return true
	}
	return false
}

func truncated(reason string) *events.Refusal {
	return &events.Refusal{
		Code: events.TruncatedByModel,
		Reason: fmt.Sprintf("The answer that asked for this call was cut off (%s), so the call may be incomplete and was not run. "+
			"Send less at once, or in parts.", shorten(reason, 64)),
	}
}

// Options say how answers are rendered. The zero value is right for one turn.
type Options struct {
	// Seen are the ids that stand earlier in the conversation, as IDs gave them,
	// for formats whose ids are unique in a conversation.
	Seen []string
	// CallBytes bounds each answer and TurnBytes all of them, serialised; 0
	// means 50 000 and 200 000. Imported answers are not bounded.
	CallBytes, TurnBytes int
	// Items are the ids of items that stand earlier in the conversation, for formats
	// whose items have ids of their own: those are left out which would repeat one.
	// RenderCalls and Asked add theirs. nil is right for one turn.
	Items map[string]bool
}

// Render is the messages that answer a turn's calls, in request order. Answers
// over the bounds are cut as lifecycle.FitTurn says. An error wraps ErrFormat.
func Render(f Format, answers []events.Answer, o Options) ([]json.RawMessage, error) {
	c, err := find(f)
	if err != nil || len(answers) == 0 {
		return nil, err
	}
	return c.answers(fit(answers, o), c.ids(askedIn(answers), o.Seen)), nil
}

// RenderCalls is the model's message that asked for the calls, as it may be sent
// back: ids as in Render, and arguments that are no JSON object wrapped in one. Where a
// format has items and no messages, it is the array of them. With the calls stands what
// their provider wants back with them, as Decode found it; other text of the model is not
// in the log, so it is not in it.
func RenderCalls(f Format, calls []events.RawCall, o Options) (json.RawMessage, error) {
	c, err := find(f)
	if err != nil {
		return nil, err
	}
	list := c.calls(calls, c.ids(askedFor(calls), o.Seen), o.Items)
	if !c.items {
		return list[0], nil
	}
	if list == nil {
		list = []json.RawMessage{}
	}
	return marshal(list), nil
}

// Asked is RenderCalls as the messages, or items, that stand in a conversation.
func Asked(f Format, calls []events.RawCall, o Options) ([]json.RawMessage, error) {
	c, err := find(f)
	if err != nil {
		return nil, err
	}
	return c.calls(calls, c.ids(askedFor(calls), o.Seen), o.Items), nil
}

// IDs are the ids of a turn's calls as messages carry them, in request order: the
// provider's own wherever the format allows it, else made from it, the same
// every time. No two of them are equal, so the place of one in the list is the
// offset of its call. Only json keeps ids that repeat, and gemini leaves calls without
// an id without one: there the places tell.
func IDs(f Format, calls []events.RawCall, o Options) ([]string, error) {
	c, err := find(f)
	if err != nil {
		return nil, err
	}
	return c.ids(askedFor(calls), o.Seen), nil
}

// Mended says whether RenderCalls gives the model's message otherwise than the model wrote
// it: a call has another id or name, or arguments that were something else than a JSON
// object. Sent back as it was, providers would refuse it.
func Mended(f Format, calls []events.RawCall, o Options) (bool, error) {
	ids, err := IDs(f, calls, o)
	if err != nil || f == Neutral {
		return false, err
	}
	for i, c := range calls {
		name, said := functionName(c.Tool), cmp.Or(c.Said, c.Tool)
		switch f {
		case Gemini:
			name = nameGemini(said)
		case AISDK:
			name = nameAISDK(said)
		}
		asIs := c.Custom || absent([]byte(strings.TrimSpace(c.Args.Text))) || string(object(c.Args.Text)) == c.Args.Text
		if ids[i] != c.ProviderID || name != said || !asIs {
			return true, nil
		}
	}
	return false, nil
}

// Turn is one turn of a conversation.
type Turn struct {
	Calls                []events.RawCall
	Answers              []events.Answer // one for each call, in request order
	CallBytes, TurnBytes int             // as in Options
}

// Conversation is the messages of turns in their order: for each the model's calls,
// then their answers. It is valid by the format's rules, for any turns. skip leaves
// out the messages of that many turns at the beginning; those of the others are then
// the same bytes as without it, so turns must be the whole conversation.
func Conversation(f Format, turns []Turn, skip int) ([]json.RawMessage, error) {
	c, err := find(f)
	if err != nil {
		return nil, err
	}
	var out []json.RawMessage
	var seen []string
	items := make(map[string]bool)
	for i, t := range turns {
		ids := c.ids(askedFor(t.Calls), seen)
		seen = append(seen, ids...)
		if i < skip {
			if c.items {
				c.calls(t.Calls, ids, items) // its ids are taken
			}
			continue
		}
		out = append(out, c.calls(t.Calls, ids, items)...)
		out = append(out, c.answers(fit(t.Answers, Options{CallBytes: t.CallBytes, TurnBytes: t.TurnBytes}), ids)...)
	}
	return out, nil
}

// Validate returns nil for a conversation that the provider would accept as far as
// calls and answers go, or what is wrong with it and where. Its error is an
// *Error whose Path begins with the message's place, or wraps ErrFormat.
func Validate(f Format, messages []json.RawMessage) error {
	c, err := find(f)
	if err != nil {
		return err
	}
	return c.validate(messages)
}
