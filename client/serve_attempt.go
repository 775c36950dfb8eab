package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// noted is what a node says of an attempt.
type noted struct {
	kind, reply string
	body        []byte
}

// attempt is an offer that was accepted, and what follows.
type attempt struct {
	w     *worker
	tool  *served
	offer wire.Offer
	in    chan noted    // go, parts, no, cancel: what does not fit is dropped, and missed
	over  chan struct{} // closed once the node has the end, or needs none
	once  sync.Once

	mu    sync.Mutex
	reply string // where to answer
	seq   int
	stop  context.CancelCauseFunc // of the handler's context; nil until it runs
	news  *wire.Answer            // the newest progress that was not said yet; nil: there is none
	said  time.Time               // when a sign of life was last given
}

// progressEvery is the shortest time between two signs of life: a node hears only so many.
const progressEvery = 100 * time.Millisecond

var errCancelled = errors.New("the node asks for the end of the attempt")

// hear takes what a node says of the attempt.
func (a *attempt) hear(kind string, m *nats.Msg) {
	switch kind {
	case wire.TypeDone, wire.TypeNo:
		a.once.Do(func() { close(a.over) })
		return
	case wire.TypeCancel:
		a.mu.Lock()
		stop := a.stop
		a.mu.Unlock()
		if stop != nil {
			stop(errCancelled)
		}
	}
	select {
	case a.in <- noted{kind, m.Reply, m.Data}:
	default:
	}
}

// run does the work, and says how it ended.
func (a *attempt) run() {
	defer a.w.forget(a)
	end, g := a.work()
	a.w.free()
	if g != nil {
		a.finish(end, beatOf(g))
	}
}

// beatOf is how often a worker must be heard of.
func beatOf(g *wire.Go) time.Duration {
	return max(time.Duration(g.BeatMS)*time.Millisecond, 10*time.Millisecond)
}

// work waits for the go, and does what it says. Without one there is no end to tell.
func (a *attempt) work() (last, *wire.Go) {
	g, work, ok := a.await()
	if !ok {
		return last{}, nil
	}
	ctx, stop := context.WithTimeoutCause(a.w.ctx, time.Duration(g.LeftMS)*time.Millisecond, context.DeadlineExceeded)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.mu.Lock()
	a.stop = cancel
	a.mu.Unlock()
	a.sign()
	if g.LeftMS <= 0 {
		return a.sized(wire.Answer{Type: wire.TypeError, Error: &wire.Error{
			Code: events.Timeout, Class: events.ClassTimeout, Effects: events.EffectsNone, Message: "the deadline had passed before the worker could begin",
		}}, g.Message), &g
	}
	end := make(chan last, 1)
	go func() { end <- a.sized(a.handle(ctx, work), g.Message) }() // joined below; a large answer takes its time, too
	tick := time.NewTicker(beatOf(&g))
	defer tick.Stop()
	for {
		select {
		case answer := <-end:
			return answer, &g
		case <-tick.C:
			a.sign()
		case m := <-a.in:
			if m.kind == wire.TypeCancel {
				cancel(errCancelled)
			}
		}
	}
}

// await waits for the go, and for all of the work.
func (a *attempt) await() (g wire.Go, work wire.Work, ok bool) {
	late := time.NewTimer(awaitGo)
	defer late.Stop()
	leaves := a.w.leaves
	var parts wire.Parts
	for {
		var m noted
		select {
		case m = <-a.in:
		case <-leaves:
			leaves = nil
			late.Reset(awaitLast)
			continue
		case <-late.C:
			return g, work, false
		case <-a.over:
			return g, work, false
		case <-a.w.ctx.Done():
			return g, work, false
		}
		var whole []byte
		switch m.kind {
		case wire.TypeCancel:
			return g, work, false
		case wire.TypeGo:
			if json.Unmarshal(m.body, &g) != nil || g.V != wire.Version || m.reply == "" {
				return g, work, false
			}
			a.mu.Lock()
			a.reply = m.reply
			a.mu.Unlock()
			if g.Work != nil {
				return g, *g.Work, true
			}
		case wire.TypePart:
			var p wire.Part
			var err error
			if json.Unmarshal(m.body, &p) != nil || g.Parts == 0 {
				continue
			}
			if whole, err = parts.Add(p); err != nil {
				return g, work, false
			}
		}
		if whole != nil {
			return g, work, json.Unmarshal(whole, &work) == nil
		}
	}
}

// answer publishes something about the attempt. A final answer keeps its number.
func (a *attempt) answer(v wire.Answer) wire.Answer {
	a.mu.Lock()
	if v.Seq == 0 {
		a.seq++
		v.Seq = a.seq
	}
	reply := a.reply
	a.mu.Unlock()
	v.V, v.ID, v.Worker = wire.Version, a.offer.ID, a.w.name
	a.w.say(reply, v)
	return v
}

// progress says how far the attempt is, unless something was said just now: then the newest
// is said with the next sign of life.
func (a *attempt) progress(text string, done, total float64) {
	a.mu.Lock()
	a.news = &wire.Answer{Type: wire.TypeProgress, Text: text, Done: done, Total: total}
	due := time.Since(a.said) >= progressEvery
	a.mu.Unlock()
	if due {
		a.sign()
	}
}

// sign gives a sign of life, with the newest progress.
func (a *attempt) sign() {
	a.mu.Lock()
	v := wire.Answer{Type: wire.TypeBeat}
	if a.news != nil {
		v = *a.news
	}
	a.news, a.said = nil, time.Now()
	a.mu.Unlock()
	a.answer(v)
}

// last is the end of an attempt, ready to be said.
type last struct {
	whole wire.Answer
	parts []wire.Part // nil: it fits one message
}

// sized cuts an end in parts where one message cannot hold it, and replaces one that none
// can hold.
func (a *attempt) sized(v wire.Answer, most int) last {
	if limit := int(a.w.cfg.Conn.MaxPayload()); most <= 0 || most > limit {
		most = limit
	}
	v.V, v.ID = wire.Version, a.offer.ID
	body, err := wire.Encode(v)
	switch {
	case err == nil && len(body) > wire.MaxWhole:
		err = fmt.Errorf("the answer has %d bytes, and may have %d: answer with less, or with where the rest is", len(body), wire.MaxWhole)
		fallthrough
	case err != nil: // what it did is done
		v = wire.Answer{Type: wire.TypeError, Error: &wire.Error{Code: events.ExecutionError, Message: err.Error()}}
	case len(body) > most-512:
		return last{whole: v, parts: wire.Split(body)}
	}
	return last{whole: v}
}

// finish says the end, again at each beat, until the node has heard it, or for a while.
func (a *attempt) finish(e last, every time.Duration) {
	late, beat := time.NewTimer(awaitDone), time.NewTicker(every)
	defer late.Stop()
	defer beat.Stop()
	leaves := a.w.leaves
	a.mu.Lock()
	a.seq++
	e.whole.Seq = a.seq
	a.mu.Unlock()
	a.sayLast(e)
	for {
		select {
		case <-a.over:
			return
		case <-leaves: // nobody may be there who says that it was heard
			leaves = nil
			late.Reset(awaitLast)
		case <-late.C:
			a.w.cfg.Log.Warn("no node has heard how an attempt ended", "call", a.offer.Call, "attempt", a.offer.Attempt)
			return
		case <-a.w.ctx.Done():
			return
		case <-beat.C:
			a.sayLast(e)
		}
	}
}

func (a *attempt) sayLast(e last) {
	if e.parts == nil {
		a.answer(e.whole)
		return
	}
	a.mu.Lock()
	reply := a.reply
	a.mu.Unlock()
	for _, p := range e.parts {
		p.ID, p.Seq = a.offer.ID, e.whole.Seq
		a.w.say(reply, p)
	}
}

// handle runs the tool's code.
func (a *attempt) handle(ctx context.Context, work wire.Work) wire.Answer {
	t := Task{
		Call: work.Call, Tool: work.Tool, Attempt: work.Attempt, Key: work.Key, Mode: work.Mode, Args: work.Args, Deadline: work.Deadline,
		Given: work.Given, Traceparent: work.Traceparent,
		Progress: a.progress,
	}
	if a.offer.Verb == wire.VerbProbe {
		found, out, err := a.tool.Probe(ctx, t)
		if err != nil {
			return a.failed(ctx, err)
		}
		return wire.Answer{Type: wire.TypeFound, Found: found, Result: out.wire()}
	}
	run := a.tool.Run
	if a.offer.Verb == wire.VerbCompensate {
		done := Output{}
		if work.Done != nil {
			done = Output{Status: work.Done.Status, Text: work.Done.Text, Data: work.Done.Data, Undo: work.Done.Undo}
		}
		run = func(ctx context.Context, t Task) (Output, error) { return a.tool.Compensate(ctx, t, done) }
	}
	out, err := run(ctx, t)
	if err != nil {
		return a.failed(ctx, err)
	}
	return wire.Answer{Type: wire.TypeResult, Result: out.wire()}
}

// failed is the end of an attempt by an error.
func (a *attempt) failed(ctx context.Context, err error) wire.Answer {
	if ask, ok := errors.AsType[*InputNeeded](err); ok {
		return wire.Answer{Type: wire.TypeAsk, Asks: ask.Requests, State: ask.State}
	}
	out := wire.Answer{Type: wire.TypeError}
	if own, ok := errors.AsType[*ToolError](err); ok {
		out.Error = &wire.Error{
			Code: own.Code, Class: own.Class, Message: own.Message, Path: own.Path, Effects: own.Effects, AfterMS: own.After.Milliseconds(),
		}
		if own.Output != nil {
			out.Result = own.Output.wire()
		}
		return out
	}
	out.Error = &wire.Error{Code: events.ExecutionError, Message: err.Error()}
	switch cause := context.Cause(ctx); {
	case cause == nil || !errors.Is(err, cause) && !errors.Is(err, ctx.Err()):
	case errors.Is(cause, context.DeadlineExceeded):
		out.Error.Class, out.Error.Code = events.ClassTimeout, events.Timeout
	default:
		out.Error.Class, out.Error.Code = events.ClassCancelled, events.CodeCancelled
	}
	return out
}
