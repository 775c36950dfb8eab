package actors

import (
	"time"

	"github.com/sluice-run/sluice/lifecycle"
)

// keyPatience is how long a turn stays in memory that waits only for keys: most
// holders end sooner. Then it is parked, so that it takes no room from the very
// turn that it may be waiting for.
const keyPatience = time.Second

// keyBackstop is when such a turn is looked at again if nobody has woken it.
const keyBackstop = 30 * time.Second

// keyHeld notes that a call waits for a key. What its gate saw before the last nudge
// says nothing: that may have been the word that the key is free.
func (a *turnActor) keyHeld(m keyHeld) {
	if m.heard != a.heard {
		return
	}
	a.keys[m.call] = true
	if a.patient == nil {
		n, inc, self := a.n, a.inc, a.self
		a.patient = n.after(keyPatience, func() { n.root.Send(self, patience{inc}) })
	}
}

// parkOnKeys parks the turn where it waits only for keys, and for people.
func (a *turnActor) parkOnKeys() {
	a.patient = nil
	var cmd lifecycle.Park
	waits := false
	for i, call := range a.spec.Calls {
		if call.Phase == lifecycle.PhaseRequested || call.Phase == lifecycle.PhaseApproved {
			cmd.Keys = append(cmd.Keys, i) // those behind it wait for its judgement
			waits = waits || a.keys[i]
		}
	}
	if !waits || a.parking || a.flight || a.ending || a.lost || a.drain || len(a.pend) > 0 || a.open > 0 {
		return // a gate that still has to wait says so again
	}
	cmd.Until = a.now().Add(a.n.backstop)
	if until, ok := a.parksUntil(cmd); ok {
		a.parkWith(cmd, until)
	}
}
