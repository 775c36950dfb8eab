package actors

import (
	"sync"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// errand is something that a call's actor has set going and waits for. What it
// took on the way is given back exactly once, by the actor that drops it or, where
// that comes first, by its own goroutine: neither the end of the actor nor an
// answer that crosses it may lose a lease.
type errand struct {
	stop func() // ends it
	anew bool   // its actor was told meanwhile to ask again; the actor's own

	mu      sync.Mutex
	over    bool    // nobody waits for it any more
	running bool    // it was dropped because an attempt runs, which has the same things
	held    holding // what the answer brings that is on its way
}

// answer says whether somebody still waits for the answer, which brings held.
func (e *errand) answer(held holding) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.held = held
	}
	return !e.over
}

// leave ends the errand, and returns what an answer brings that nobody will hear.
func (e *errand) leave(running bool) holding {
	e.stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over, e.running = true, running
	return e.held
}

// drop ends an errand that is not wanted any more.
func (a *callActor) drop(e lifecycle.Effect) {
	is := a.busy[e]
	delete(a.busy, e)
	running := a.running()
	if held := is.leave(running); held.any() {
		n := a.n
		n.do(func() { n.giveBack(held, running) })
	}
}

// running says whether an attempt of the call is open, as far as this actor was told.
func (a *callActor) running() bool {
	t := a.owe.turn
	return t.Submitted != nil && t.Calls[a.key.Offset].Phase == lifecycle.PhaseStarted
}

// unheld gives up everything that this node holds for a call that has ended.
func (n *Node) unheld(key events.CallKey, call *lifecycle.Call, workspace string) {
	if call.Started != nil { // also what an earlier owner took
		for _, l := range startLocks(call.Started) {
			n.locks.free(l.Resource, key)
		}
		if call.Started.Breaker.Probe {
			n.breaks.spare(admitted(call), holder(key, call.Started.Owner.Boot))
		}
	}
	if call.Verdict == nil {
		return
	}
	for _, u := range call.Verdict.Resources { // taken for a start that did not come about
		n.locks.freeHeld(scopedResource(u.Name, workspace), key)
	}
}
