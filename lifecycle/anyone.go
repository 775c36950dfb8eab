package lifecycle

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/events"
)

// Submit makes a turn. The same again attaches to it.
type Submit struct{ Turn events.TurnSubmitted }

// CancelCall asks for the end of one call.
type CancelCall struct {
	Call   int
	By     events.Principal
	Reason string
}

// CancelTurn asks for the end of every call that has not ended.
type CancelTurn struct {
	By     events.Principal
	Reason string
}

// Late notes an answer whose attempt was over.
type Late struct {
	Call    int
	Owner   events.Owner // whose attempt it was
	Outcome events.Outcome
}

// Resolve settles how a call ended whose effects are only possible.
type Resolve struct {
	Call    int
	By      events.Principal
	Effects events.Effects // none or done
	Result  *events.Result
	Note    string
}

// Undone notes that a call's effects were undone.
type Undone struct {
	Call   int
	By     events.Principal
	Result events.Result
}

// Note adds the caller's note about the model: a *events.ModelStarted or a
// *events.ModelCompleted.
type Note struct{ Event events.Event }

func (Submit) command()     {}
func (CancelCall) command() {}
func (CancelTurn) command() {}
func (Late) command()       {}
func (Resolve) command()    {}
func (Undone) command()     {}
func (Note) command()       {}

func (d *decider) submit(c Submit) error {
	if have := d.t.Submitted; have != nil {
		if sameSubmission(have, &c.Turn) {
			return nil // already so: attach
		}
		return ErrDifferent
	}
	if err := CheckSubmission(c.Turn); err != nil {
		return err
	}
	d.emit(events.TurnEvent, &c.Turn)
	return nil
}

// sameSubmission compares who acts and what is called, as they are stored: an
// absent list and an empty one are the same, an agent that is called one and one that is
// not, and so are arguments that only are written otherwise.
func sameSubmission(a, b *events.TurnSubmitted) bool {
	said := func(s *events.TurnSubmitted) *events.TurnSubmitted {
		by := events.Principal{ID: s.Principal.ID, Kind: agentKind(s.Principal), Parents: s.Principal.Parents}
		return &events.TurnSubmitted{Principal: by, Calls: canonical(s.Calls)}
	}
	return same(said(a), said(b))
}

// canonical are calls with the hashes of their arguments, where they have one, and
// without what only their provider reads, and the spelling of a name: who tells a turn again may have dropped it.
func canonical(calls []events.RawCall) []events.RawCall {
	out := slices.Clone(calls)
	for i, c := range out {
		out[i].Extra, out[i].Custom, out[i].Said = events.Body{}, false, ""
		if hash := inlineHash(c); hash != "" {
			out[i].Args = events.Body{Text: hash}
		}
	}
	return out
}

// same says whether two events say the same once they are stored.
func same(a, b events.Event) bool {
	x, errX := events.Encode(events.Commit{Records: []events.Record{{Event: a}}})
	y, errY := events.Encode(events.Commit{Records: []events.Record{{Event: b}}})
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func (d *decider) cancelCall(c CancelCall) error {
	call, err := d.open(c.Call)
	if err != nil {
		return err
	}
	if call.Cancel == nil {
		if call.Phase == PhaseNone {
			return d.cancelUnplanned(c)
		}
		d.emit(c.Call, &events.CancelRequested{By: c.By, Reason: c.Reason})
	}
	return nil
}

// cancelUnplanned cancels a call whose turn nobody has planned: the call's
// first event must be its request.
func (d *decider) cancelUnplanned(c CancelCall) error {
	raw := d.t.Submitted.Calls[c.Call]
	d.emit(c.Call, request(raw, inlineHash(raw)))
	d.emit(c.Call, &events.CancelRequested{By: c.By, Reason: c.Reason})
	return nil
}

// inlineHash is the hash of arguments that are at hand; "" where they do not parse
// or are elsewhere.
func inlineHash(raw events.RawCall) string {
	if raw.Args.Ref != nil {
		return ""
	}
	a, _ := Parse(raw.Args.Text)
	return a.Hash
}

func request(raw events.RawCall, hash string) *events.Requested {
	return &events.Requested{ProviderID: raw.ProviderID, Tool: raw.Tool, Args: raw.Args, Hash: hash, Secrets: raw.Secrets}
}

func (d *decider) cancelTurn(c CancelTurn) error {
	switch {
	case d.t.Ended != nil:
		return ErrEnded
	case d.t.Cancel != nil:
		return nil
	}
	d.emit(events.TurnEvent, &events.TurnCancelRequested{By: c.By, Reason: c.Reason})
	return nil
}

func (d *decider) late(c Late) error {
	call := d.t.Call(c.Call)
	if call == nil {
		return fmt.Errorf("call %d: %w", c.Call, ErrNoCall)
	}
	e, n := &events.LateResult{Owner: c.Owner, Outcome: c.Outcome}, c.Outcome.Attempt
	switch {
	case n < 1 || n > call.Attempt:
		return fmt.Errorf("call %d: attempt %d: %w, or never was", c.Call, n, ErrStale)
	case call.Phase == PhaseStarted && call.Attempt == n && d.t.Owner == c.Owner:
		return fmt.Errorf("call %d, attempt %d: %w", c.Call, n, ErrOpen)
	case saidAlready(call, c):
		return nil
	case slices.ContainsFunc(call.Late, func(have *events.LateResult) bool { return same(have, e) }):
		return nil // already so
	}
	d.emit(c.Call, e)
	if c.Outcome.Class == events.ClassOK && call.Unresolved() { // its own success: the effect has happened
		d.emit(c.Call, resolvedBy(e))
	}
	return nil
}

// saidAlready says whether the answer is the one that ended the call: it was kept,
// and whoever gave it has not heard so.
func saidAlready(call *Call, c Late) bool {
	if call.Outcome == nil || call.Started == nil || call.Outcome.Attempt != c.Outcome.Attempt || call.Started.Owner != c.Owner {
		return false
	}
	said := func(o events.Outcome) events.Event {
		return &events.Failed{Outcome: events.Outcome{Class: o.Class, Result: o.Result}}
	}
	return same(said(*call.Outcome), said(c.Outcome))
}

func (d *decider) resolve(c Resolve) error {
	call := d.t.Call(c.Call)
	switch {
	case call == nil:
		return fmt.Errorf("call %d: %w", c.Call, ErrNoCall)
	case c.Effects != events.EffectsNone && c.Effects != events.EffectsDone:
		return fmt.Errorf("effects %q: say %s or %s", c.Effects, events.EffectsNone, events.EffectsDone)
	case call.Resolved != nil && call.Resolved.Effects == c.Effects:
		return nil
	case call.Open():
		return fmt.Errorf("call %d: %w yet: it has not ended", c.Call, ErrNothing)
	case call.Last == events.KindDeduplicated:
		return fmt.Errorf("call %d: %w: it ran nothing; resolve %s, whose answer it has", c.Call, ErrNothing, call.Terminal.(*events.Deduplicated).Of)
	case !call.Unresolved():
		return fmt.Errorf("call %d: %w: how it ended is known", c.Call, ErrNothing)
	}
	d.emit(c.Call, &events.Resolved{By: c.By, Effects: c.Effects, Result: c.Result, Note: c.Note})
	return nil
}

func (d *decider) undone(c Undone) error {
	call := d.t.Call(c.Call)
	switch {
	case call == nil:
		return fmt.Errorf("call %d: %w", c.Call, ErrNoCall)
	case call.Undone:
		return nil
	case call.Terminal == nil || call.Last != events.KindCompleted || call.Verdict == nil || !call.Verdict.Undo:
		return fmt.Errorf("call %d: %w", c.Call, ErrNoUndo)
	}
	d.emit(c.Call, &events.Compensated{By: c.By, Result: c.Result})
	return nil
}

func (d *decider) note(c Note) error {
	if k := c.Event.Kind(); !slices.Contains([]events.Kind{events.KindModelStarted, events.KindModelCompleted}, k) {
		return fmt.Errorf("%s is no note about a model", k)
	}
	if !slices.ContainsFunc(d.t.Notes, func(have events.Event) bool { return same(have, c.Event) }) {
		d.emit(events.TurnEvent, c.Event)
	}
	return nil
}
