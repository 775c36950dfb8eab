package lifecycle

import (
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Finish is the command of a node that does not serve the turn's placement, where
// no node does: it ends what needs no tool. Calls whose end was asked for are
// cancelled, overdue ones end, approvals that nobody answered in time are denied,
// what a lost owner left is settled, and a turn that nobody has ever claimed is
// abandoned once it is older than half the log's retention. In the same commit the
// turn is claimed and, unless it has ended, parked until its placement is served or
// its next time has come. Where no call would end, nothing is written.
type Finish struct {
	Boot, Node, Reply string        // as in Claim
	Retention         time.Duration // of the log; 0: for ever
}

func (Finish) command() {}

func (d *decider) finish(c Finish) error {
	if d.t.Owner.Boot == "" && Expiring(d.t, d.env.Now, c.Retention) {
		d.claimed(Claim{Boot: c.Boot, Node: c.Node, Reply: c.Reply})
		return d.abandon("no node has served its placement in time")
	}
	if err := d.claim(Claim{Boot: c.Boot, Node: c.Node, Reply: c.Reply}); err != nil {
		return err
	}
	for i := range d.t.Calls {
		if d.t.Ended == nil && d.t.Calls[i].Phase != PhaseInput { // what a tool is told then takes the tool
			if err := d.expire(Expire{Call: i}); err != nil {
				return err
			}
			d.unprobed(d.t.Calls[i])
		}
	}
	d.close()
	ends := slices.ContainsFunc(d.out, func(r events.Record) bool { return events.IsTerminal(r.Event.Kind()) })
	switch {
	case !ends:
		d.out = nil
	case d.t.Ended == nil:
		d.emit(events.TurnEvent, &events.TurnParked{Due: FinishDue(d.t, d.env.Now), Waiting: d.t.openCalls()})
	}
	return nil
}

// unprobed ends a call whose tool would be asked what happened, where that has no time
// any more.
func (d *decider) unprobed(c *Call) {
	end := d.t.Deadline()
	_, _, cancelled := d.t.Cancelled(c)
	if c.Phase == PhaseProbing && (cancelled || !end.IsZero() && !d.env.Now.Before(end)) {
		d.unknownAfterLoss(c, "its owner was lost while it ran, and no node has the tool that could say whether the effect happened")
	}
}

// Expiring says whether a turn that nobody has claimed is older than half the log's
// retention, which is 0 for ever: it is abandoned before its events go.
func Expiring(t Turn, now time.Time, retention time.Duration) bool {
	return retention > 0 && t.Submitted != nil && now.Sub(t.SubmittedAt) > retention/2
}

// FinishDue is when Finish has something to do next: the first approval's expiry or
// the turn's deadline that is still to come. Zero means never. Its timer must be
// written before Finish is appended.
func FinishDue(t Turn, now time.Time) time.Time {
	due := t.Deadline()
	if !due.After(now) {
		due = time.Time{}
	}
	for _, c := range t.Calls {
		if c.Phase == PhaseAsking && c.Asked.Expires.After(now) && (due.IsZero() || c.Asked.Expires.Before(due)) {
			due = c.Asked.Expires
		}
	}
	return due
}

func (t Turn) openCalls() []int {
	var open []int
	for _, c := range t.Calls {
		if c.Open() {
			open = append(open, c.Offset)
		}
	}
	return open
}
