package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/tools"
)

var (
	errCancelled = errors.New("somebody asked for the end of the attempt")
	errLeaseLost = errors.New("a lease of the attempt was lost: somebody else may have the resource")
	errOrphaned  = errors.New("the turn has another owner")
	errStopping  = errors.New("the node stops")
	errNotOpened = errors.New("its secrets cannot be opened")
)

// attemptKey names an attempt in the table of hands.
type attemptKey struct {
	call    events.CallKey
	attempt int
}

// hands is the table of what runs on this node. It belongs to the node, not to
// an actor: an actor that starts again finds its attempts here, and re-attaches
// instead of running a call a second time.
type hands struct {
	n  *Node
	mu sync.Mutex
	at map[attemptKey]*work

	under group // attempts that have not ended
}

// work is one attempt.
type work struct {
	stop context.CancelCauseFunc
	to   func(lifecycle.Settle) // where the answer goes
	done *lifecycle.Settle      // the answer, once it is there
}

func newHands(n *Node) *hands { return &hands{n: n, at: make(map[attemptKey]*work)} }

// job is what an attempt needs to run.
type job struct {
	tool  tools.Tool
	in    tools.Invocation
	call  *lifecycle.Call
	asked *Asked          // as the gates have judged it
	clean secrets.Cleaner // what to take out of all that comes back; see unseal
	max   int             // bytes of the call's answer
	note  func(events.Progress)
	late  func(lifecycle.Settle)
	end   func(events.Class) // told once, when the attempt has ended
}

// perform starts the attempt, or attaches to to it where it runs or has ended. It
// does nothing for whoever has been orphaned meanwhile.
func (h *hands) perform(key attemptKey, over *atomic.Bool, j job, to func(lifecycle.Settle)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if over.Load() {
		return
	}
	if w := h.at[key]; w != nil {
		w.to = to
		if w.done != nil {
			to(*w.done)
		}
		return
	}
	ctx, stop := context.WithCancelCause(h.n.ctx)
	w := &work{stop: stop, to: to}
	h.at[key] = w
	h.under.add()
	h.n.cfg.Scheduler.Go(func() {
		defer h.under.done()
		defer stop(nil)
		var s lifecycle.Settle
		var r tools.Report
		if broke := guarded(func() { s, r = h.run(ctx, key, j) }); broke != nil {
			h.n.log.Error("an attempt broke outside its tool", "call", key.call.String(), "attempt", key.attempt, "panic", broke)
			s = broken(key)
		}
		said := s.Class
		if r.Absent {
			said = events.ClassCancelled // where there is nobody, nobody has failed
		}
		j.end(said)
		h.mu.Lock()
		w.done = &s
		to := w.to
		h.mu.Unlock()
		to(s)
	})
}

// stop asks the attempt to end. The answer says whether it did.
func (h *hands) stop(key attemptKey, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.at[key]; w != nil {
		w.stop(cause)
	}
}

// lose ends the attempts of a call that has lost a lease.
func (h *hands) lose(call string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range orderedBy(h.at, compareAttempts) {
		if key.call.String() == call {
			h.at[key].stop(errLeaseLost)
		}
	}
}

// evidence takes the answers of attempts that can settle nothing any more.
type evidence func(events.CallKey, lifecycle.Settle)

// forget drops an attempt whose end is in the log. One that still runs, because
// its call was ended over its head, is orphaned.
func (h *hands) forget(key attemptKey, late evidence) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch w := h.at[key]; {
	case w == nil:
	case w.done != nil:
		delete(h.at, key)
	default:
		h.cut(key, w, late)
	}
}

// orphan ends the attempts of a turn that this node has lost, and over says so to
// whoever is about to begin one. What they still answer is evidence for the log, and
// settles nothing.
func (h *hands) orphan(turn events.TurnKey, over *atomic.Bool, late evidence) {
	h.mu.Lock()
	defer h.mu.Unlock()
	over.Store(true)
	for _, key := range orderedBy(h.at, compareAttempts) {
		switch w := h.at[key]; {
		case key.call.TurnKey() != turn:
		case w.done != nil: // it never came into the log
			delete(h.at, key)
			late(key.call, *w.done)
		default:
			h.cut(key, w, late)
		}
	}
}

// cut ends an attempt whose answer is evidence only. The caller holds mu.
func (h *hands) cut(key attemptKey, w *work, late evidence) {
	w.to = func(s lifecycle.Settle) {
		late(key.call, s)
		h.forget(key, nil) // it is done
	}
	w.stop(errOrphaned)
}

// running says how many attempts have not ended.
func (h *hands) running() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, w := range h.at {
		if w.done == nil {
			n++
		}
	}
	return n
}

// run is the attempt itself, on its own goroutine: the barrier, the tool, the
// limits, and a probe where the tool gave no answer. r is the tool's report; the zero
// Report where it was not run.
func (h *hands) run(ctx context.Context, key attemptKey, j job) (s lifecycle.Settle, r tools.Report) {
	if j.call.Verdict.Tier != events.Readonly {
		if err := h.n.cfg.Bus.Barrier().Wait(ctx); err != nil {
			h.n.barrierFailed(ctx, err)
			return h.notRun(key, err), r
		}
	}
	if !h.n.locks.has(key.call, startLocks(j.call.Started)) {
		s = h.notRun(key, errLeaseLost)
		s.Class, s.Result.Error.Code = events.ClassConflict, events.Conflict
		return s, r
	}
	j, fail := h.unseal(ctx, key, j)
	if fail != nil {
		s = h.notRun(key, errNotOpened)
		s.Class, s.Result.Error = events.ClassInvalid, fail
		return s, r
	}
	r = h.n.cfg.Execute(ctx, discreet(j.tool, j.clean), j.in, tools.Options{
		Log: discreetLog(h.n.log, j.clean), Progress: j.note, Now: h.n.cfg.Now, Keep: h.keep(ctx, j.clean),
		Late: func(r tools.Report) { j.late(h.settle(key, j, r)) },
	})
	s = h.asks(ctx, key, j, r, h.settle(key, j, r))
	if errors.Is(context.Cause(ctx), errLeaseLost) && !r.Answered {
		s.Class = events.ClassConflict // nobody asked for its end, and the tool's other side is not to blame
		s.Result.Error = &events.Error{Code: events.Conflict, Message: errLeaseLost.Error() + ", so it was ended"}
	}
	if !r.Answered && j.tool.Probe != nil && j.call.Verdict.Tier != events.Readonly {
		s.Found = h.probe(key, j)
	}
	return s, r
}

// notRun is the answer of an attempt that never began.
func (h *hands) notRun(key attemptKey, err error) lifecycle.Settle {
	return lifecycle.Settle{
		Call: key.call.Offset, Attempt: key.attempt, Class: events.ClassCancelled, Effects: events.EffectsNone, Confirmed: true,
		Result: events.Result{Status: events.Failure, Error: &events.Error{Code: events.CodeCancelled, Message: "not started: " + err.Error()}},
	}
}

// broken is the answer of an attempt that this node's own code has broken, before
// or after its tool ran.
func broken(key attemptKey) lifecycle.Settle {
	return lifecycle.Settle{
		Call: key.call.Offset, Attempt: key.attempt, Class: events.ClassPanic, Confirmed: true,
		Result: events.Result{Status: events.Failure, Error: &events.Error{
			Code: events.InternalError, Message: "a fault in the runtime: the operator can read it in the log",
		}},
	}
}

// keep stores bytes that are not text.
func (h *hands) keep(ctx context.Context, clean secrets.Cleaner) func([]byte, string) (events.BlobRef, error) {
	ctx = context.WithoutCancel(ctx)
	return func(data []byte, media string) (events.BlobRef, error) {
		return h.n.putBlob(ctx, clean.Bytes(data), media)
	}
}

// settle brings a report within the limits, and stores what they cut.
func (h *hands) settle(key attemptKey, j job, r tools.Report) lifecycle.Settle {
	return lifecycle.Settle{
		Call: key.call.Offset, Attempt: key.attempt, Class: r.Class, Effects: r.Effects, Result: h.bounded(r.Result, j, key.call),
		Answered: r.Answered, Confirmed: r.Confirmed, Pids: r.Pids, Exit: r.Exit, Signal: r.Signal,
		Output: r.Output, Run: r.Run, After: r.After, Jitter: h.n.cfg.Rand(),
	}
}

// bounded takes the secrets out of a result, brings it within the limits, and stores
// what they cut, in that order.
func (h *hands) bounded(r events.Result, j job, call events.CallKey) events.Result {
	r, wholes := limit(j.clean.Result(r), j)
	for _, w := range wholes {
		if w.Bytes == nil {
			continue
		}
		if _, err := h.n.putBlob(h.n.ctx, w.Bytes, w.Ref.Media); err != nil {
			h.n.log.Error("a cut answer's whole could not be stored", "call", call.String(), "digest", w.Ref.Digest, "err", err)
		}
	}
	return r
}

// limit applies the tool's own limit of lines and bytes, then the call's budget.
func limit(r events.Result, j job) (events.Result, []lifecycle.Whole) {
	whole := r.Text.Text
	kept, bytes, lines := tools.CutText(whole, j.tool.Limits)
	if bytes == 0 {
		return lifecycle.FitCall(r, j.max)
	}
	w := lifecycle.WholeOf(whole)
	r.Text.Text, r.Cut = kept, &events.Cut{Bytes: bytes, Lines: lines, Whole: w.Ref}
	r, more := lifecycle.FitCall(r, j.max)
	return r, append(more, w)
}

// probeWait bounds a probe: it is a question, not a run.
const probeWait = 15 * time.Second

// probe asks the tool whether the attempt had its effect; nil where it says no
// or cannot tell.
func (h *hands) probe(key attemptKey, j job) *events.Result {
	f, ok := h.ask(context.WithoutCancel(h.n.ctx), key.call, j)
	if !ok || !f.Found {
		return nil
	}
	return &f.Result
}

// ask runs a tool's probe as an attempt of its own, so that it has a deadline
// and its panic is caught. ok is false where it could not tell. What it found is
// within the limits.
func (h *hands) ask(ctx context.Context, call events.CallKey, j job) (f tools.Finding, ok bool) {
	j, fail := h.unseal(ctx, attemptKey{call, j.call.Attempt}, j)
	if fail != nil {
		return f, false
	}
	answer := make(chan tools.Finding, 1)
	t := tools.Tool{
		Spec: tools.Spec{Name: j.tool.Name, Tier: events.Readonly, Limits: tools.Limits{Wall: probeWait}},
		Run: func(ctx context.Context, in tools.Invocation) (events.Result, error) {
			f, err := j.tool.Probe(ctx, in)
			if err == nil {
				answer <- f
			}
			return events.Result{Status: events.Success}, quiet(err, j.clean)
		},
	}
	in := j.in
	in.Deadline = time.Time{}
	h.n.cfg.Execute(ctx, t, in, tools.Options{Log: discreetLog(h.n.log, j.clean), Now: h.n.cfg.Now})
	select {
	case f = <-answer:
		if f.Found {
			f.Result = h.bounded(f.Result, j, call)
		}
		return f, true
	default:
		return f, false
	}
}
