package projections

import (
	"fmt"
	"time"

	"github.com/sluice-run/sluice/events"
)

// What a call waits for, as the names of its wait spans say it.
const (
	waitGates    = "gates"    // to be judged
	waitKey      = "key"      // for another call, whose answer it then got
	waitApproval = "approval" // for a person's yes
	waitInput    = "input"    // for a person's answer to the tool
	waitStart    = "start"    // for its batch, and for locks
	waitRetry    = "retry"    // for the next attempt
	waitRecovery = "recovery" // for what a new owner does about it
)

// TracedCall is what the spans of a call that have not ended need to know of it.
type TracedCall struct {
	Tool      string         `json:"tool"`
	ID        string         `json:"id,omitempty"` // the provider's
	Requested time.Time      `json:"requested"`
	Tier      string         `json:"tier,omitempty"`
	For       string         `json:"for,omitempty"` // what it waits for; "": for nothing
	Since     time.Time      `json:"since,omitzero"`
	Waits     int            `json:"waits,omitempty"`
	Open      *TracedAttempt `json:"open,omitempty"` // the attempt that runs; nil: none does
	Attempts  int            `json:"attempts,omitempty"`
	Last      events.SpanID  `json:"last"` // span of the last attempt; zero: there was none
	Args      string         `json:"args,omitempty"`
	Ended     bool           `json:"ended,omitempty"`
	Told      int            `json:"told,omitempty"` // spans of what was told after its end
	SpanEvents

	passing
}

// TracedAttempt is an attempt that runs.
type TracedAttempt struct {
	Attempt int          `json:"attempt"`
	Owner   events.Owner `json:"owner"`
	Start   time.Time    `json:"start"`
	Locks   int64        `json:"locks,omitempty"`
	Probe   bool         `json:"probe,omitempty"` // of the tool's breaker
}

// passing is what a call needs while it takes an event.
type passing struct {
	turn    *TracedTurn
	offset  int
	content bool
	done    []Span
}

// ending is how an attempt, or a call, has ended.
type ending struct {
	kind    events.Kind
	errType string // "" where it is a success
	why     string
	outcome *events.Outcome // nil: the attempt has none
}

// pass takes an event of the call.
func (c *TracedCall) pass(e Event) {
	switch v := e.Event.(type) {
	case *events.Requested:
		c.Tool, c.ID, c.Requested = v.Tool, v.ProviderID, e.At
		c.argue(v.Args)
		c.wait(waitGates, e)
	case *events.Authorized:
		c.Tier = string(v.Verdict.Tier)
		c.wait(waitStart, e)
	case *events.Started:
		c.wait("", e)
		c.Attempts++
		c.Open = &TracedAttempt{Attempt: v.Attempt, Owner: v.Owner, Start: e.At, Locks: int64(len(v.Locks)), Probe: v.Breaker.Probe}
	case *events.Retrying:
		c.close(e, ending{kind: e.Kind(), errType: errorType(v.Error, v.Class), why: message(v.Error)})
		c.happened(e, Attrs(nil).num(AttrAttempt, int64(v.Attempt)).text(AttrErrorType, errorType(v.Error, v.Class)))
		c.wait(waitRetry, e)
	case *events.Recovered:
		c.recovered(e, v)
	case *events.CancelRequested:
		c.happened(e, Attrs(nil).text(AttrBy, v.By.ID).text(AttrWhy, v.Reason))
	case *events.LateResult:
		c.late(e, v)
	case *events.Resolved:
		c.after(e, "resolves", Attrs(nil).text(AttrBy, v.By.ID).text(AttrEffects, string(v.Effects)))
	case *events.Compensated:
		c.after(e, "compensates", Attrs(nil).text(AttrBy, v.By.ID))
	default:
		if events.IsTerminal(e.Kind()) {
			c.end(e)
			return
		}
		c.people(e)
	}
}

// people takes what a person is asked, and says.
func (c *TracedCall) people(e Event) {
	switch v := e.Event.(type) {
	case *events.ApprovalRequested:
		c.happened(e, Attrs(nil).text(AttrWhy, v.Why))
		c.wait(waitApproval, e)
	case *events.Approved:
		c.happened(e, Attrs(nil).text(AttrBy, v.By.ID))
		if v.Args != nil {
			c.argue(*v.Args)
		}
		c.wait(waitGates, e)
	case *events.InputRequested:
		c.close(e, ending{kind: e.Kind()})
		c.happened(e, Attrs(nil).num(AttrAttempt, int64(v.Attempt)))
		c.wait(waitInput, e)
	case *events.InputGiven:
		by := ""
		if v.By != nil {
			by = v.By.ID
		}
		c.happened(e, Attrs(nil).text(AttrBy, by))
		c.wait(waitStart, e)
	}
}

// argue notes the arguments, where spans have them.
func (c *TracedCall) argue(args events.Body) {
	if c.content {
		c.Args = content(args)
	}
}

// content is a body's text, or where it is.
func content(b events.Body) string {
	if b.Ref != nil {
		return fmt.Sprintf("[%d bytes, %s]", b.Ref.Size, b.Ref.Digest)
	}
	return Shortened(b.Text, MaxSpanContent)
}

// wait ends the wait that goes on, and begins another; "" begins none.
func (c *TracedCall) wait(what string, e Event) {
	if c.For != "" && e.At.Sub(c.Since) >= MinSpanWait {
		c.Waits++
		ids := c.turn.spanIDs()
		s := c.span("wait "+c.For, ids.Of("wait", c.offset, c.Waits), ids.Call(c.offset), c.Since, e)
		s.Attrs = s.Attrs.text(AttrWait, c.For)
		c.done = append(c.done, s)
	}
	c.For, c.Since = what, e.At
}

// span is a span of the call's, from a time to that of an event.
func (c *TracedCall) span(name string, id, parent events.SpanID, from time.Time, e Event) Span {
	s := c.turn.span(name, id, parent, from, e)
	s.Attrs = append(s.Attrs, Attr{Key: AttrCall, Num: int64(c.offset)})
	s.Attrs = s.Attrs.text(AttrTool, c.Tool).text(AttrProviderID, c.ID)
	return s
}

// close ends the attempt that runs, if one does.
func (c *TracedCall) close(e Event, how ending) {
	o := c.Open
	if o == nil {
		return
	}
	ids := c.turn.spanIDs()
	id := ids.Attempt(c.offset, o.Attempt, o.Owner)
	s := c.span("execute_tool "+spanTool(c.Tool), id, ids.Call(c.offset), o.Start, e)
	s.Attrs = s.Attrs.text(AttrOperation, "execute_tool").text(AttrToolType, "function").num(AttrAttempt, int64(o.Attempt)).
		text(AttrTier, c.Tier).text(AttrBoot, o.Owner.Boot).num(AttrEpoch, int64(o.Owner.Epoch)).num(AttrLocks, o.Locks).yes(AttrProbe, o.Probe).
		text(AttrEnd, string(how.kind)).text(AttrPosition, e.Pos.String())
	s.fail(how)
	if c.Args != "" {
		s.Attrs = append(s.Attrs, Attr{Key: AttrArguments, Text: c.Args})
	}
	if how.outcome != nil {
		s.outcome(how.outcome, c.content)
	}
	if c.Last != (events.SpanID{}) {
		s.Links = []SpanLink{{c.Last, "retry_of"}}
	}
	c.Open, c.Last, c.done = nil, id, append(c.done, s)
}

// fail says why the span failed, if it did.
func (s *Span) fail(how ending) {
	if how.errType == "" {
		return
	}
	s.Failed, s.Why = true, Shortened(how.why, MaxSpanText)
	s.Attrs = s.Attrs.text(AttrErrorType, how.errType)
}

// outcome adds what an attempt has come to.
func (s *Span) outcome(o *events.Outcome, result bool) {
	s.Attrs = s.Attrs.text(AttrClass, string(o.Class)).text(AttrEffects, string(o.Effects)).num(AttrEmitted, o.Output)
	if o.Exit != nil {
		s.Attrs = append(s.Attrs, Attr{Key: AttrExit, Num: int64(*o.Exit)})
	}
	if !result {
		return
	}
	text := content(o.Result.Text)
	if text == "" && len(o.Result.Data) > 0 {
		text = Shortened(string(o.Result.Data), MaxSpanContent)
	}
	if text != "" {
		s.Attrs = append(s.Attrs, Attr{Key: AttrResult, Text: text})
	}
}

// recovered ends the attempt of an owner that is gone.
func (c *TracedCall) recovered(e Event, v *events.Recovered) {
	c.close(e, ending{kind: e.Kind(), errType: string(events.ClassLost), why: v.Reason})
	c.happened(e, Attrs(nil).text(AttrStage, string(v.LastStage)).text(AttrAction, v.Action).
		yes(AttrBegun, v.ToolStarted).yes(AttrWhole, v.Complete).num(AttrAttempt, int64(v.Attempt)))
	if v.Attempt > 0 && c.For == "" {
		c.wait(waitRecovery, e)
	}
}

// end takes the call's terminal.
func (c *TracedCall) end(e Event) {
	if c.Ended {
		return
	}
	how := endingOf(e)
	if how.kind == events.KindDeduplicated && c.For == waitGates {
		c.For = waitKey
	}
	c.wait("", e)
	c.close(e, how)
	ids := c.turn.spanIDs()
	if how.kind == events.KindUnknown {
		c.happened(e, Attrs(nil).text(AttrWhy, how.why))
	}
	s := c.span("call "+spanTool(c.Tool), ids.Call(c.offset), ids.Turn(), c.Requested, e)
	s.SpanEvents = c.SpanEvents
	s.Attrs = s.Attrs.text(AttrTier, c.Tier).num(AttrAttempts, int64(c.Attempts)).text(AttrEnd, string(how.kind)).text(AttrPosition, e.Pos.String())
	s.fail(how)
	switch v := e.Event.(type) {
	case *events.Denied:
		s.Attrs = s.Attrs.text(AttrGate, v.Gate)
	case *events.Deduplicated:
		s.Attrs = s.Attrs.text(AttrOf, v.Of)
	default:
		if how.outcome != nil {
			s.Attrs = s.Attrs.text(AttrEffects, string(how.outcome.Effects))
		}
	}
	c.Ended, c.Args, c.SpanEvents, c.done = true, "", SpanEvents{}, append(c.done, s)
}

// late takes an answer after its attempt had ended: an event of the call's, or a span
// of its own where the call has ended, too.
func (c *TracedCall) late(e Event, v *events.LateResult) {
	attrs := Attrs(nil).num(AttrAttempt, int64(v.Outcome.Attempt)).text(AttrBoot, v.Owner.Boot).text(AttrClass, string(v.Outcome.Class)).
		text(AttrEffects, string(v.Outcome.Effects))
	if !c.Ended {
		c.happened(e, attrs)
		return
	}
	s := c.aside(e, attrs)
	s.Links = []SpanLink{{c.turn.spanIDs().Attempt(c.offset, v.Outcome.Attempt, v.Owner), "late_result_of"}}
	c.done = append(c.done, s)
}

// after is a span of what was told of the call after its end.
func (c *TracedCall) after(e Event, what string, attrs Attrs) {
	s := c.aside(e, attrs)
	if c.Last != (events.SpanID{}) {
		s.Links = []SpanLink{{c.Last, what}}
	}
	c.done = append(c.done, s)
}

// aside is a span without length, below the call's, which may have been told by now.
func (c *TracedCall) aside(e Event, attrs Attrs) Span {
	c.Told++
	ids := c.turn.spanIDs()
	s := c.span(string(e.Kind())+" "+spanTool(c.Tool), ids.Of("told", c.offset, c.Told), ids.Call(c.offset), e.At, e)
	s.Attrs = append(s.Attrs, attrs.text(AttrPosition, e.Pos.String())...)
	s.SpanEvents.happened(e, nil)
	return s
}

// endingOf is how a call has ended, by its terminal.
func endingOf(e Event) ending {
	how := ending{kind: e.Kind(), outcome: events.OutcomeOf(e.Event)}
	switch v := e.Event.(type) {
	case *events.Denied:
		how.errType, how.why = string(v.Code), v.Reason
	case *events.Unknown:
		how.errType, how.why = string(events.UnknownOutcome), v.Why
	case *events.TimedOut:
		how.errType, how.why = string(events.Timeout), message(v.Result.Error)
	case *events.Cancelled:
		how.errType, how.why = string(events.CodeCancelled), v.Reason
	case *events.Failed:
		how.errType, how.why = errorType(v.Result.Error, v.Class), message(v.Result.Error)
	case events.Foreign: // of a newer release: how it ended is in its kind alone
		if how.kind != events.KindCompleted && how.kind != events.KindDeduplicated {
			how.errType = errorType(nil, "")
		}
	}
	return how
}

// errorType is what went wrong, in a word: the code, else the class.
func errorType(err *events.Error, class events.Class) string {
	switch {
	case err != nil && err.Code != "":
		return string(err.Code)
	case class != "":
		return string(class)
	}
	return "_OTHER"
}

func message(err *events.Error) string {
	if err == nil {
		return ""
	}
	return err.Message
}

// spanTool is a tool's name in the name of a span, of which there must not be as many as
// a model can make up: what no registry would take is _unknown.
func spanTool(name string) string {
	if len(name) == 0 || len(name) > events.MaxID {
		return "_unknown"
	}
	for i := range len(name) {
		if c := name[i]; c != ':' && c != '.' && events.CheckID("", name[i:i+1]) != nil {
			return "_unknown"
		}
	}
	return name
}
