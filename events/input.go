package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"
)

// Kinds of input requests that every door can show. Any other kind is the name of
// the tool's own method, and InputRequest.Raw says what it wants.
const (
	InputForm = "form" // fields to fill in; InputRequest.Schema says which
	InputURL  = "url"  // a page to visit: what is said there goes past the log
)

// Bounds of what a tool may ask, and of what it is answered.
const (
	MaxInputRequests = 16        // requests of one asking
	MaxInputRequest  = 64 << 10  // bytes of one request
	MaxInputAsking   = 256 << 10 // bytes of all requests of one asking: its event must fit a commit
	MaxInputState    = 64 << 10  // bytes of a tool's state
	MaxInputAnswers  = 128 << 10 // bytes of all answers of one asking
	maxInputID       = 256       // bytes of a request's id, and of its kind
)

// InputRequest is one thing that a tool asks a person for before it can go on.
// Everything in it is the tool's word: who shows it escapes control characters.
type InputRequest struct {
	ID      string          `json:"id"`                // of the tool's choice; unique in its asking
	Kind    string          `json:"kind"`              // InputForm, InputURL, or the name of another method
	Message string          `json:"message,omitempty"` // for the person
	Schema  json.RawMessage `json:"schema,omitempty"`  // of a form: a flat JSON Schema of its fields
	URL     string          `json:"url,omitempty"`     // of a page: http or https
	Raw     json.RawMessage `json:"raw,omitempty"`     // the request as it came, where there is more to it; JSON
}

// What a person does about a request.
const (
	InputAccept  = "accept"  // and Content has what was asked for
	InputDecline = "decline" // a no
	InputCancel  = "cancel"  // no answer: also what is given where nobody answered in time
)

// InputAnswer is the answer to one request.
type InputAnswer struct {
	ID      string          `json:"id"`
	Action  string          `json:"action"`            // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"` // of an accept: a JSON object. nil: none was asked for
	Secrets []SecretRef     `json:"secrets,omitempty"` // sealed values that Content refers to
}

// Given is what an attempt goes on with: the answers to what the attempt before it
// asked, in the order of the requests, and that one's state.
type Given struct {
	State   string        `json:"state,omitempty"`
	Answers []InputAnswer `json:"answers"`
}

// InputRequested ends an attempt whose tool asks a person before it can go on. The
// call waits, and may be parked. What the attempt did before it asked is done.
type InputRequested struct {
	Attempt  int            `json:"attempt"`
	Round    int            `json:"round"` // 1 for the call's first asking
	Requests []InputRequest `json:"requests"`
	State    string         `json:"state,omitempty"`   // the tool's own, opaque: it goes back to it with the answers
	Secrets  []SecretRef    `json:"secrets,omitempty"` // one: State is a placeholder for the sealed value
	Effects  Effects        `json:"effects"`           // of that attempt
	Expires  time.Time      `json:"expires"`           // then cancel is the answer to each request
	Why      string         `json:"why,omitempty"`     // a sentence, where nobody is waited for
	Run      int64          `json:"run_us,omitempty"`  // of the attempt, in microseconds
}

// InputGiven is what a tool gets for its asking. Its call then starts again, as the
// next attempt, with the same idempotency key.
type InputGiven struct {
	Round   int           `json:"round"`        // of the InputRequested that it answers
	By      *Principal    `json:"by,omitempty"` // nil: nobody answered, and each answer is cancel
	Answers []InputAnswer `json:"answers"`      // one for each request, in their order
	Note    string        `json:"note,omitempty"`
}

// ErrInput says that a tool has asked for what cannot be asked.
var ErrInput = errors.New("the tool asks for input in a way that cannot be shown to a person")

// CheckInput returns nil for requests and a state within the bounds, and otherwise an
// ErrInput that says what is wrong with them. It looks at their form; what a schema
// means it does not know. It is pure.
func CheckInput(requests []InputRequest, state string) error {
	switch {
	case len(requests) == 0:
		return fmt.Errorf("%w: there is no request", ErrInput)
	case len(requests) > MaxInputRequests:
		return fmt.Errorf("%w: %d requests, at most %d", ErrInput, len(requests), MaxInputRequests)
	case len(state) > MaxInputState:
		return fmt.Errorf("%w: %d bytes of state, at most %d", ErrInput, len(state), MaxInputState)
	case !utf8.ValidString(state):
		return fmt.Errorf("%w: its state is no UTF-8", ErrInput)
	}
	total := 0
	for i, r := range requests {
		if err := r.check(); err != nil {
			return fmt.Errorf("%w: request %d: %w", ErrInput, i+1, err)
		}
		if slices.ContainsFunc(requests[:i], func(q InputRequest) bool { return q.ID == r.ID }) {
			return fmt.Errorf("%w: two requests have the id %q", ErrInput, clip(Visible(r.ID)))
		}
		total += r.size()
	}
	if total > MaxInputAsking {
		return fmt.Errorf("%w: %d bytes of requests, at most %d together", ErrInput, total, MaxInputAsking)
	}
	return nil
}

func (r InputRequest) size() int {
	return len(r.ID) + len(r.Kind) + len(r.Message) + len(r.Schema) + len(r.URL) + len(r.Raw)
}

func (r InputRequest) check() error {
	switch {
	case r.ID == "" || len(r.ID) > maxInputID:
		return fmt.Errorf("an id of %d bytes, want 1 to %d", len(r.ID), maxInputID)
	case r.Kind == "" || len(r.Kind) > maxInputID:
		return fmt.Errorf("a kind of %d bytes, want 1 to %d", len(r.Kind), maxInputID)
	case r.size() > MaxInputRequest:
		return fmt.Errorf("%d bytes, at most %d", r.size(), MaxInputRequest)
	case !utf8.ValidString(r.ID) || !utf8.ValidString(r.Kind) || !utf8.ValidString(r.Message) || !utf8.ValidString(r.URL):
		return errors.New("it is no UTF-8")
	case len(r.Schema) > 0 && !json.Valid(r.Schema), len(r.Raw) > 0 && !json.Valid(r.Raw):
		return errors.New("its schema, or the request itself, is no JSON")
	case r.Kind == InputForm && len(r.Schema) == 0:
		return errors.New("a form without a schema of its fields")
	case r.Kind == InputURL:
		return checkInputURL(r.URL)
	}
	return nil
}

// checkInputURL refuses what is not a plain address of the web: a person is sent there.
func checkInputURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("its address is not one of the web (http or https, and a host)")
	case u.User != nil:
		return errors.New("its address has a name or a password in front of the host, which misleads whoever reads it")
	}
	return nil
}
