package actors

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// The slots of a limit are leases of one resource, of which there are several: the
// actors of locks keep them, renew them and give them back.

// slotCell is the cell of slots by their resource: see lifecycle.LimitUse.Resource.
func slotCell(resource string) string {
	rule, principal, _ := strings.Cut(strings.TrimPrefix(resource, lifecycle.LimitResource), ":")
	return bus.LimitCell(bus.SlotCells, rule, principal)
}

// errFull says that a limit's slots were taken for as long as a call may wait.
var errFull = errors.New("all slots of the limit are taken")

// slot takes one of the slots of a limit, or returns errFull once until has come and the
// cluster has said that there is none. Another error says that nobody knows.
func (l *locks) slot(ctx context.Context, call events.CallKey, u lifecycle.LimitUse, until time.Time) (events.Lock, error) {
	return l.await(u.Resource(), takeLock{
		ctx: ctx, call: call.String(), slots: u.Concurrency, until: until, done: newPromise[tookLock](),
	})
}

// overdue says whether a take of a slot is one of a call that waits no longer.
func (m takeLock) overdue(now time.Time) bool { return m.slots > 0 && !now.Before(m.until) }

// deny answers those who wait no longer, now that the cell has said that there is no slot.
func (a *lockActor) deny() {
	now := a.n.cfg.Steady()
	a.queue = slices.DeleteFunc(a.queue, func(m takeLock) bool {
		over := m.overdue(now)
		if over {
			m.done.keep(tookLock{err: errFull})
		}
		return over
	})
}

// startLocks are all leases that an attempt was started with: of resources, and slots.
func startLocks(s *events.Started) []events.Lock {
	return append(slices.Clone(s.Locks), slotsOf(s.Limits)...)
}

// slotsOf are the slots among what a call has of limits.
func slotsOf(limits []events.Limit) []events.Lock {
	var out []events.Lock
	for _, l := range limits {
		if l.Slot.Resource != "" {
			out = append(out, l.Slot)
		}
	}
	return out
}
