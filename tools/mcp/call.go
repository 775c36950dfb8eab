package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/shell/family"
)

// Members of a call's _meta that are ours. A server that honours keys does one effect for
// one key; the call and its attempt are for its log.
const (
	MetaKey     = "run.sluice/idempotency-key"
	MetaCall    = "run.sluice/call"    // trace/turn/offset
	MetaAttempt = "run.sluice/attempt" // 1 for the first
)

const (
	busyAfter = time.Second
	// margin is how long before the attempt's own deadline the server is given up, so
	// that there is time to tell it, and to say whose the time was.
	margin = 250 * time.Millisecond
	// grace is how long a call may take to return once it is to end.
	grace = 2 * time.Second
)

// errSlow is the cause of a context that ended because the server did not answer in time.
var errSlow = errors.New("the server did not answer in time")

// call is one attempt of a call of one of the server's tools.
func (s *server) call(ctx context.Context, in tools.Invocation, d definition, tier events.Tier) (events.Result, error) {
	tools.Tell(ctx, tools.Ending{Grace: grace})
	later := tools.Later(ctx)
	outer := ctx
	if wall := time.Until(in.Deadline); !in.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, in.Deadline.Add(-min(margin, wall/10)), errSlow)
		defer stop()
	}
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	case <-ctx.Done():
		return events.Result{}, s.notSent(ctx, "the server has as many calls as it may, and none of them has ended")
	}
	for try := 1; ; try++ {
		x, after, err := s.reach(ctx)
		if err == nil && s.yields(in.Call) {
			family.Within(busyAfter, ctx.Done())
			x, after, err = s.reach(ctx)
		}
		switch {
		case errors.Is(err, errStuck):
			return events.Result{}, s.notSent(ctx, err.Error())
		case err != nil && ctx.Err() != nil:
			return events.Result{}, s.notSent(ctx, "the server was not reached")
		case err != nil:
			return events.Result{}, &tools.Error{
				Code: events.MCPNetworkError, Class: events.ClassUnavailable, Effects: events.EffectsNone, After: after, Message: clip(events.Visible(err.Error()), maxMessage),
			}
		}
		r, lost, err := x.call(ctx, outer, in, d, later)
		if !lost || try == tries {
			return r, err
		}
		x.passes(ctx)
	}
}

// tries is how often a call is sent that never left: its connection had ended, and
// nobody had noticed yet.
const tries = 3

// passes waits until the session has ended, or is found to be well.
func (x *session) passes(ctx context.Context) {
	timer := time.NewTimer(x.times.Pong)
	defer timer.Stop()
	select {
	case <-x.ctx.Done():
	case <-ctx.Done():
	case <-timer.C:
	}
}

// notSent is the end of an attempt of which the server has heard nothing.
func (s *server) notSent(ctx context.Context, why string) error {
	e := &tools.Error{Code: events.MCPTimeout, Class: events.ClassTimeout, Effects: events.EffectsNone, Absent: true, Message: "the call was not sent: " + why}
	if !errors.Is(context.Cause(ctx), errSlow) {
		e.Code, e.Class = events.CodeCancelled, events.ClassCancelled
	}
	return e
}

// call sends the call, and waits for its answer, the end of ctx, or that of the session.
// lost says that it never left, because the connection was gone.
func (x *session) call(ctx, outer context.Context, in tools.Invocation, d definition, later func(events.Result, error)) (_ events.Result, lost bool, err error) {
	x.busy.Add(1)
	defer x.busy.Add(-1)
	params, err := x.params(in, d)
	if err != nil {
		return events.Result{}, false, err
	}
	if x.proc != nil {
		x.proc.called.Store(true)
	}
	callers := ctx
	f := &flight{token: x.token(), trace: in.Traceparent, progress: progressOf(in)}
	params.SetProgressToken(f.token)
	ctx, done := x.within(ctx)
	defer done()
	unwanted := x.tap.wants(f)
	defer unwanted()
	heard := x.awaits(in.Call, d.Name)
	_, err = x.cs.CallTool(f.with(ctx), params)
	r, sent := f.abandon(x.lateTo(outer, d, later))
	behind := heard(r != nil, slow(ctx))
	if r != nil && callers.Err() != nil && unreachable(r) {
		r, err = nil, context.Cause(callers) // it broke since nobody waits any more
	}
	if r == nil && err == nil {
		err = errors.New("the answer was not seen")
	}
	switch {
	case r == nil:
		x.tap.keeps(f)
		e := x.broken(ctx, outer, sent, err)
		e.Absent = behind && (slow(ctx) || errors.Is(context.Cause(x.ctx), errDeaf))
		return events.Result{}, !sent && callers.Err() == nil, e
	case r.Error != nil:
		return events.Result{}, false, x.refused(r.Error)
	}
	res, err := d.resultOf(outer, r.Result)
	return res, false, err
}

// awaits notes that a server over pipes is to answer a call of a tool, and has it asked
// whether it is there if it takes its time. The function that it returns says how that
// has ended, and whether the server may never have got to it: see hearing.
func (x *session) awaits(call events.CallKey, tool string) (ended func(answered, slow bool) (behind bool)) {
	if x.pipe == nil {
		return func(bool, bool) bool { return false }
	}
	w := x.tap.hearing.begins(call, tool)
	late := time.AfterFunc(busyAfter, x.suspect)
	return func(answered, slow bool) bool {
		late.Stop()
		behind := x.tap.hearing.ends(w, answered, slow)
		if !answered {
			x.suspect()
		}
		return behind
	}
}

// slow says that ctx has ended since the server did not answer in time: it was given up for
// that, or, on a busy machine, its attempt was first.
func slow(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, errSlow) || errors.Is(cause, tools.ErrDeadline)
}

// lateTo tells what a server answers that nobody waits for any more. It is called on the
// goroutine that reads, and does its work on another.
func (x *session) lateTo(ctx context.Context, d definition, later func(events.Result, error)) func(*jsonrpc.Response) {
	ctx = context.WithoutCancel(ctx)
	return func(r *jsonrpc.Response) {
		x.wg.Go(func() {
			if r.Error != nil {
				later(events.Result{}, x.refused(r.Error))
				return
			}
			later(d.resultOf(ctx, r.Result))
		})
	}
}

// params are what the server is sent.
func (x *session) params(in tools.Invocation, d definition) (*mcp.CallToolParams, error) {
	p := &mcp.CallToolParams{Name: d.Name, Arguments: in.Args, Meta: mcp.Meta{MetaCall: in.Call.String(), MetaAttempt: in.Attempt}}
	if len(bytes.TrimSpace(in.Args)) == 0 {
		p.Arguments = json.RawMessage("{}")
	}
	p.Meta[MetaKey] = in.Key
	if in.Key == "" {
		p.Meta[MetaKey] = in.Call.String() // the same for each of its attempts
	}
	if in.Traceparent != "" {
		p.Meta["traceparent"] = in.Traceparent
	}
	if in.Given == nil {
		return p, nil
	}
	if x.revision() < newRevision {
		return p, accepted(in.Given)
	}
	p.RequestState = in.Given.State
	p.InputResponses = mcp.InputResponseMap{}
	for _, a := range in.Given.Answers {
		r := &mcp.ElicitResult{Action: a.Action}
		if len(a.Content) > 0 {
			dec := json.NewDecoder(bytes.NewReader(a.Content))
			dec.UseNumber()
			if err := dec.Decode(&r.Content); err != nil {
				return nil, fmt.Errorf("the answer to %s is no JSON object: %w", a.ID, err)
			}
		}
		p.InputResponses[a.ID] = r
	}
	return p, nil
}

// accepted is the end of a call whose tool cannot be told of a no: only a yes calls it
// again in the older revision.
func accepted(g *events.Given) error {
	for _, a := range g.Answers {
		if a.Action != events.InputAccept {
			return &tools.Error{Code: events.MCPExecutionError, Class: events.ClassTool, Effects: events.EffectsNone, Message: "the tool asks for something that nobody agreed to: " + a.Action}
		}
	}
	return nil
}

// progressOf tells what a server says of a call's progress, as long as it increases.
func progressOf(in tools.Invocation) func(json.RawMessage) {
	last := 0.0
	begun := false
	return func(raw json.RawMessage) { // one at a time: see tap
		var p struct {
			Progress float64 `json:"progress"`
			Total    float64 `json:"total"`
			Message  string  `json:"message"`
		}
		if json.Unmarshal(raw, &p) != nil || begun && p.Progress <= last || in.Progress == nil {
			return
		}
		begun, last = true, p.Progress
		in.Progress(events.Progress{Text: visibleLines(clip(p.Message, maxDescription)), Done: p.Progress, Total: p.Total})
	}
}

// broken is the end of a call that has no answer.
func (x *session) broken(ctx, outer context.Context, sent bool, err error) *tools.Error {
	e := &tools.Error{Code: events.MCPNetworkError, Class: events.ClassUnavailable}
	if !sent {
		e.Effects = events.EffectsNone
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSlow):
		e.Code, e.Class = events.MCPTimeout, events.ClassTimeout
		e.Message = "the server did not answer in time; " + whatItKnows(sent)
		x.suspect()
	case outer.Err() != nil: // the attempt is to end, and says itself why
		e.Code, e.Class, e.Message = events.CodeCancelled, events.ClassCancelled, whatItKnows(sent)
	default:
		if x.pipe != nil && sent {
			family.Within(time.Second, x.ctx.Done()) // it knows why
		}
		if why := context.Cause(x.ctx); why != nil {
			err = why
		}
		e.Message = clip(fmt.Sprintf("the connection to server %s ended before it answered: %s", x.server.Name, forCallers(err)), maxMessage)
		x.suspect()
	}
	return e
}

// whatItKnows says what the server knows of a call that nobody waits for any more.
func whatItKnows(sent bool) string {
	if !sent {
		return "the call was not sent to it"
	}
	return "it was told to stop, and nobody knows what it has done"
}

// codeResource is the older revision's: there is no such resource.
const codeResource = -32002

var unknownTool = regexp.MustCompile(`(?i)(unknown|no such|not found|does not exist).{0,40}tool|tool.{0,300}(not found|unknown|does not exist)`)

// refused is an error of the protocol: the server did not run the tool, or did not get
// as far as its answer.
func (x *session) refused(err error) error {
	e := &tools.Error{Code: events.MCPExecutionError, Class: events.ClassTool, Message: clip(visibleLines(err.Error()), maxMessage)}
	var w *jsonrpc.Error
	if !errors.As(err, &w) {
		return e
	}
	said := cmp.Or(strings.TrimSpace(visibleLines(w.Message)), "it does not say why")
	e.Message = clip(fmt.Sprintf("%s (error %d of server %s)", said, w.Code, x.server.Name), maxMessage)
	if w.Code >= codeTooLarge && w.Code <= codeUnreadable { // ours, and no code that the server has ever said
		e.Message = clip(fmt.Sprintf("%s (server %s)", said, x.server.Name), maxMessage)
	}
	switch {
	case w.Code == jsonrpc.CodeInvalidParams && unknownTool.MatchString(w.Message), w.Code == jsonrpc.CodeMethodNotFound, w.Code == codeResource:
		e.Code, e.Effects = events.MCPNotFound, events.EffectsNone
		select {
		case x.tap.changed <- struct{}{}: // what else is not as it was listed
		default:
		}
	case w.Code == jsonrpc.CodeInvalidParams:
		e.Code, e.Class, e.Effects = events.MCPParamError, events.ClassInvalid, events.EffectsNone
	case w.Code == jsonrpc.CodeInvalidRequest, w.Code == jsonrpc.CodeParseError:
		e.Effects = events.EffectsNone
	case w.Code == mcp.CodeURLElicitationRequired && x.revision() < newRevision:
		return visits(w, e)
	case w.Code == codeTooLarge:
		e.Code, e.Effects = events.TooLarge, events.EffectsDone
	case w.Code == codeNoResponse:
		e.Code, e.Class = events.MCPNetworkError, events.ClassUnavailable
		x.suspect()
	case w.Code == codeStatus:
		x.statusOf(w, e)
	}
	return e
}

// visits is what a tool of the older revision asks by an error: that a person visits
// pages before it is called again.
func visits(w *jsonrpc.Error, e *tools.Error) error {
	var data struct {
		Elicitations []struct {
			elicitation
			ID string `json:"elicitationId"`
		} `json:"elicitations"`
	}
	if json.Unmarshal(w.Data, &data) != nil || len(data.Elicitations) == 0 {
		return e
	}
	asks := &tools.InputRequired{}
	for _, one := range data.Elicitations {
		r, err := one.request(one.ID)
		if err != nil || r.Kind != events.InputURL {
			return e
		}
		asks.Requests = append(asks.Requests, r)
	}
	return asks
}

// statusOf is what a status of HTTP means.
func (x *session) statusOf(w *jsonrpc.Error, e *tools.Error) {
	var s status
	_ = json.Unmarshal(w.Data, &s) // it is ours
	e.Code, e.Class = events.MCPNetworkError, events.ClassUnavailable
	switch {
	case s.Status == 401, s.Status == 403:
		e.Effects = events.EffectsNone
		e.Message = fmt.Sprintf("server %s refuses this node (%d): its operator has to mend the headers in the file of servers", x.server.Name, s.Status)
	case s.Status >= 300 && s.Status < 400:
		e.Effects = events.EffectsNone
		e.Message = fmt.Sprintf("server %s redirects (%d), and calls stay with the address in the file of servers: write the one that it leads to there", x.server.Name, s.Status)
	case s.Status == 429:
		e.Effects, e.After = events.EffectsNone, time.Duration(s.After)*time.Second
	case s.Status == 404, s.Status == 405, s.Status == 413, s.Status == 400:
		e.Class, e.Effects = events.ClassTool, events.EffectsNone
	default:
		e.After = time.Duration(s.After) * time.Second
		x.suspect()
	}
	e.Message = strings.TrimSpace(e.Message)
}
