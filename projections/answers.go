package projections

import (
	"errors"
	"fmt"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Answers is what the model is told of each call, for any prefix of a trace or
// of one turn. It needs no registry.
var Answers = Projection[Conversation]{
	Name: "answers", Version: 2,
	Init:  func() Conversation { return Conversation{} },
	Apply: converse,
}

// Conversation is the turns of one trace, in the order of their submission.
type Conversation struct {
	Turns []*Turn `json:"turns,omitempty"`
}

// Turn is the calls of one model response, and what is known of each.
type Turn struct {
	Key      events.TurnKey  `json:"key"`
	Format   string          `json:"format,omitempty"` // the provider's, as submitted
	Limits   events.Limits   `json:"limits,omitempty,omitzero"`
	Imported bool            `json:"imported,omitempty"` // answers are verbatim
	From     events.Position `json:"from"`               // of its submission
	Last     events.Position `json:"last"`               // of the last event that changed an answer
	Calls    []Call          `json:"calls"`
	Ended    events.Kind     `json:"ended,omitempty"` // how the turn ended; "" while it has not
	Why      string          `json:"why,omitempty"`   // it was abandoned
	Foreign  bool            `json:"foreign,omitempty"`
}

// Call is one call as asked for, and its answer as it stands.
type Call struct {
	Raw     events.RawCall `json:"raw"`
	Started bool           `json:"started,omitempty"` // an attempt may have run
	Tier    events.Tier    `json:"tier,omitempty"`
	Hash    string         `json:"args_hash,omitempty"` // of Raw.Args; "" while it is not known
	Changed *events.Body   `json:"changed,omitempty"`   // as in Answer, which has it once it stands
	Answer  events.Answer  `json:"answer"`
}

// Blobs resolves a reference. Who calls it brings the store, and the patience.
type Blobs func(events.BlobRef) ([]byte, error)

// Turn is the turn of that key, or nil.
func (c Conversation) Turn(key events.TurnKey) *Turn {
	for i := len(c.Turns) - 1; i >= 0; i-- { // the one asked for is mostly the last
		if c.Turns[i].Key == key {
			return c.Turns[i]
		}
	}
	return nil
}

// Open says that an answer may still change.
func (t *Turn) Open() bool {
	if t.Ended != "" {
		return false
	}
	for i := range t.Calls {
		if t.Calls[i].Answer.Standing == events.AnswerOpen {
			return true
		}
	}
	return false
}

// Answers are the answers as they stand, one for each call, in request order.
// Text by reference is resolved through blobs, which may be nil if there is none.
// The answers are complete even with an error: it joins what could not be
// resolved, and there Result.Text.Ref is left.
func (t *Turn) Answers(blobs Blobs) ([]events.Answer, error) {
	out, errs := make([]events.Answer, len(t.Calls)), []error(nil)
	for i := range t.Calls {
		c := &t.Calls[i]
		out[i] = c.Answer
		if c.Answer.Standing == events.AnswerOpen && t.Ended != "" && !t.Imported {
			out[i] = lifecycle.AnswerLeft(i, c.Raw, c.Started, c.Tier, t.Why)
			out[i].Changed = c.Changed
		}
		if err := resolve(&out[i].Result.Text, blobs); err != nil {
			errs = append(errs, fmt.Errorf("answer of %s: %w", t.Key.Call(i), err))
		}
	}
	return out, errors.Join(errs...)
}

// Requests are the calls as the model asked for them, in request order, with
// arguments, and what their provider wants back, resolved as in Answers.
func (t *Turn) Requests(blobs Blobs) ([]events.RawCall, error) {
	out, errs := make([]events.RawCall, len(t.Calls)), []error(nil)
	for i := range t.Calls {
		out[i] = t.Calls[i].Raw
		if err := resolve(&out[i].Args, blobs); err != nil {
			errs = append(errs, fmt.Errorf("arguments of %s: %w", t.Key.Call(i), err))
		}
		if err := resolve(&out[i].Extra, blobs); err != nil {
			errs = append(errs, fmt.Errorf("what the provider wants back with %s: %w", t.Key.Call(i), err))
		}
	}
	return out, errors.Join(errs...)
}

var errNoStore = errors.New("there is no store to read it from")

func resolve(b *events.Body, blobs Blobs) error {
	if b.Ref == nil {
		return nil
	}
	if blobs == nil {
		return fmt.Errorf("%s: %w", b.Ref.Digest, errNoStore)
	}
	text, err := blobs(*b.Ref)
	if err != nil {
		return fmt.Errorf("%s: %w", b.Ref.Digest, err)
	}
	*b = events.Body{Text: string(text)}
	return nil
}

func converse(c Conversation, e Event) Conversation {
	t := c.Turn(e.Turn)
	if s, ok := e.Event.(*events.TurnSubmitted); ok && t == nil {
		c.Turns = append(c.Turns, submitted(e, s))
		return c
	}
	if t == nil {
		return c // a log that does not begin at the beginning: there is nothing to answer
	}
	if _, ok := e.Event.(events.Foreign); ok {
		t.Foreign = true
	}
	if e.Call == events.TurnEvent {
		t.turnEvent(e)
		return c
	}
	if e.Call < 0 || e.Call >= len(t.Calls) {
		return c
	}
	t.Calls[e.Call].event(e, t)
	return c
}

func submitted(e Event, s *events.TurnSubmitted) *Turn {
	t := &Turn{
		Key: e.Turn, Format: s.Format, Limits: s.Limits, Imported: s.Verbatim(),
		From: e.Pos, Last: e.Pos, Calls: make([]Call, len(s.Calls)),
	}
	for i, raw := range s.Calls {
		t.Calls[i] = Call{Raw: raw, Answer: lifecycle.AnswerOf(i, raw, nil)}
	}
	return t
}

func (t *Turn) turnEvent(e Event) {
	if t.Ended != "" || !events.EndsTurn(e.Kind()) {
		return
	}
	if t.Open() {
		t.Last = e.Pos // what is left open gets its answer from this
	}
	t.Ended = e.Kind()
	if a, ok := e.Event.(*events.TurnAbandoned); ok {
		t.Why = a.Reason
	}
}

func (c *Call) event(e Event, t *Turn) {
	switch v := e.Event.(type) {
	case *events.Requested:
		c.Hash = v.Hash
	case *events.Approved:
		c.Changed = lifecycle.ChangedArgs(c.Hash, c.Changed, v)
	case *events.Authorized:
		c.Tier = v.Verdict.Tier
	case *events.Started:
		c.Started = true
	}
	// The first terminal stands: what is found out later never rewrites what the model was told.
	if c.Answer.Standing != events.AnswerOpen || !events.IsTerminal(e.Kind()) {
		return
	}
	c.Answer = lifecycle.AnswerOf(e.Call, c.Raw, e.Event)
	c.Answer.Verbatim, c.Answer.Changed = t.Imported, c.Changed
	t.Last = e.Pos
}
