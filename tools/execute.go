package tools

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/sluice-run/sluice/events"
)

// DefaultWall is how long an attempt may take that says nothing of it.
const DefaultWall = 120 * time.Second

// DefaultGrace is how long a tool may take to return once its context has
// ended, beyond what it has asked for with Tell.
const DefaultGrace = 100 * time.Millisecond

// MaxGrace bounds what a tool may ask for with Tell.
const MaxGrace = 10 * time.Second

// ErrDeadline is the cause of a context that ended because its attempt's
// deadline passed. A tool may tell it from a cancel by context.Cause.
var ErrDeadline = errors.New("the deadline of the attempt has passed")

// Options are what one attempt needs of the house. The zero value works: no
// progress, no log, late answers dropped.
type Options struct {
	// Grace is how long the tool may take to return once its context has ended;
	// 0 means DefaultGrace. A tool that must end processes asks for more.
	Grace time.Duration
	// Log hears of what the operator must know: panics with their stacks, and
	// errors that are ours. nil means nobody.
	Log *slog.Logger
	// Progress gets the newest progress, at most one each Every. It is called
	// on the goroutine of Execute and never after it has returned; the tool does
	// not wait for it. nil drops all.
	Progress func(events.Progress)
	// Every is the least time between two progresses; 0 means 250 ms.
	Every time.Duration
	// Late gets the report of a tool that returned after Execute had given it
	// up, on the tool's goroutine. nil drops it.
	Late func(Report)
	// Keep stores output that is not text and returns where it is; the result
	// then refers to it. It is called at most once, before the report is given.
	// nil means that such output is described and dropped.
	Keep func(data []byte, media string) (events.BlobRef, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// After is the timer of progress and grace; nil means time.After.
	After func(time.Duration) <-chan time.Time
}

func (o Options) withDefaults() Options {
	o.Grace = cmp.Or(max(o.Grace, 0), DefaultGrace)
	o.Every = cmp.Or(max(o.Every, 0), 250*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	return o
}

// Execute runs one attempt of t and reports how it ended. It returns once the
// tool has returned, or Options.Grace after ctx or the deadline has ended, with
// Confirmed false, if the tool still runs by then; what it answers later goes to
// Options.Late. The deadline is the earlier of in.Deadline and Limits.Wall from
// now. A tool's panic is a report too. Where ctx has ended before the call, the
// tool is not started and the effects are none.
func Execute(ctx context.Context, t Tool, in Invocation, o Options) Report {
	o = o.withDefaults()
	a := &attempt{tool: t, in: in, o: o, began: o.Now(), done: make(chan Report, 1), news: newNews(in.Attempt)}
	a.in.Progress = a.news.put
	wall := a.wall()
	ctx, stop := context.WithTimeoutCause(ctx, wall, ErrDeadline)
	defer stop()
	if ctx.Err() != nil {
		return a.notStarted(context.Cause(ctx))
	}
	go a.run(withBoard(ctx, &a.board)) // joined by wait, or by Options.Late where the tool is deaf
	return a.wait(ctx)
}

// attempt is one running Execute.
type attempt struct {
	tool  Tool
	in    Invocation
	o     Options
	began time.Time
	done  chan Report  // one, unless given up
	over  atomic.Bool  // set once: by the tool's return or by giving up
	tier  atomic.Value // events.Tier, once the tool's code has said it
	news  *news
	board board
	later afterwards
}

// wall is how long the attempt may take from now. A deadline that has passed
// makes it 0 or less, which ends the context at once.
func (a *attempt) wall() time.Duration {
	wall := a.tool.Limits.Wall
	if wall <= 0 {
		wall = DefaultWall
	}
	if !a.in.Deadline.IsZero() {
		wall = min(wall, a.in.Deadline.Sub(a.began))
	}
	a.in.Deadline = a.began.Add(wall)
	return wall
}

// run is the tool's goroutine. What the tool gave is told in any case: a tool
// can end the goroutine under its own feet.
func (a *attempt) run(ctx context.Context) {
	e := ended{tier: events.Irreversible, broke: true} // until the tool has said otherwise
	defer func() { a.settle(e) }()
	a.call(withLater(ctx, a), &e)
}

// call runs the tool's code. It holds the one recover of tools: a panic, or a
// Goexit, of a tool becomes the end of its attempt.
func (a *attempt) call(ctx context.Context, e *ended) {
	defer func() {
		e.cause = context.Cause(ctx)
		if e.broke {
			a.o.Log.Error("tool broke", "tool", a.tool.Name, "call", a.in.Call.String(), "attempt", a.in.Attempt,
				"panic", recover(), "stack", string(debug.Stack()))
		}
	}()
	e.tier = attemptTier(a.tool.Spec, a.in.Args)
	a.tier.Store(e.tier)
	e.result, e.err = a.tool.Run(ctx, a.in)
	e.broke = false
}

// settle tells how the tool's code ended: to wait, or as late evidence.
func (a *attempt) settle(e ended) {
	e.run = a.o.Now().Sub(a.began)
	e.told = a.board.read()
	late := !a.over.CompareAndSwap(false, true)
	if late {
		e.cause = nil // its own words count now, not why it was given up
	}
	r := a.report(e)
	switch {
	case !late:
		a.done <- r
	case a.o.Late != nil:
		a.o.Late(r)
	}
	a.later.begin()
}

// attemptTier is the tier of these arguments.
func attemptTier(s Spec, args []byte) events.Tier {
	if s.TierOf != nil {
		return s.TierOf(args)
	}
	return cmp.Or(s.Tier, events.Irreversible)
}

// wait passes progress on until the tool has returned or its context has ended.
func (a *attempt) wait(ctx context.Context) Report {
	defer a.news.close()
	var pause <-chan time.Time // running: the last progress is too recent
	for {
		ready := a.news.ready
		if pause != nil {
			ready = nil
		}
		select {
		case r := <-a.done:
			return r
		case <-ctx.Done():
			return a.grace(context.Cause(ctx))
		case <-pause:
			pause = nil
		case <-ready:
			if p, ok := a.news.take(); ok && a.o.Progress != nil {
				a.o.Progress(p)
				pause = a.o.After(a.o.Every)
			}
		}
	}
}

// graceParts are the waits that a grace consists of. A machine that stalls
// swallows one of them, and not the tool's whole time to return.
const graceParts = 4

// grace waits for a tool whose context has ended, and gives it up in the end.
func (a *attempt) grace(cause error) Report {
	for range graceParts {
		asked := min(max(a.board.read().Grace, 0), MaxGrace)
		select {
		case r := <-a.done:
			return r
		case <-a.o.After((a.o.Grace + asked) / graceParts):
		}
	}
	if !a.over.CompareAndSwap(false, true) {
		return <-a.done // it returned just now
	}
	a.o.Log.Warn("tool did not stop", "tool", a.tool.Name, "call", a.in.Call.String(), "attempt", a.in.Attempt, "cause", cause)
	return a.givenUp(cause)
}
