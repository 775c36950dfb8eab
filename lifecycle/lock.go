package lifecycle

import (
	"slices"
	"time"
)

// Hold is one holder of a lock.
type Hold struct {
	Call      string    `json:"call"` // trace/turn/offset: a call's next owner re-enters
	Boot      string    `json:"boot"`
	Exclusive bool      `json:"exclusive,omitempty"`
	Slots     int       `json:"slots,omitempty"` // it shares with others, as long as there are no more holders than that; 0: with any number
	Until     time.Time `json:"until"`           // its lease
}

// LockState is the state of one resource's lock, shared by the cluster. Its zero
// value is free.
type LockState struct {
	Holds   []Hold `json:"holds,omitempty"`
	Waiting []Hold `json:"waiting,omitempty"` // exclusive ones, and those for slots, that wait, the first one first: nobody new passes them
}

// LockTTL is the length of a lease; its holder renews it every third of that.
const LockTTL = 30 * time.Second

func (l LockState) at(now time.Time) LockState {
	gone := func(h Hold) bool { return !now.Before(h.Until) }
	return LockState{
		Holds:   slices.DeleteFunc(slices.Clone(l.Holds), gone),
		Waiting: slices.DeleteFunc(slices.Clone(l.Waiting), gone),
	}
}

// Take gives the lock to h if it can be had now. A call that holds it already
// re-enters, whatever boot it is on. Where it cannot be had, an exclusive h, or one for
// a slot, is remembered as waiting until its lease ends, and keeps its place while it
// asks again: neither readers nor the writers of a busier node pass it.
func (l LockState) Take(now time.Time, h Hold) (next LockState, ok bool) {
	next = l.at(now)
	same := func(x Hold) bool { return x.Call == h.Call }
	others := slices.DeleteFunc(slices.Clone(next.Holds), same)
	ahead := len(next.Waiting)
	if h.Exclusive || h.Slots > 0 {
		if ahead = slices.IndexFunc(next.Waiting, same); ahead < 0 {
			ahead = len(next.Waiting)
			next.Waiting = append(next.Waiting, h)
		}
		next.Waiting[ahead] = h
	}
	reentry := len(others) != len(next.Holds)
	blocked := slices.ContainsFunc(others, func(x Hold) bool { return x.Exclusive || h.Exclusive })
	if h.Slots > 0 {
		blocked = blocked || !reentry && len(others)+ahead >= h.Slots
	} else {
		blocked = blocked || !reentry && ahead > 0
	}
	if blocked {
		return next, false
	}
	return LockState{Holds: append(others, h), Waiting: slices.DeleteFunc(next.Waiting, same)}, true
}

// Free takes the call's hold, and its place among the waiting, away.
func (l LockState) Free(now time.Time, call string) LockState {
	next := l.at(now)
	same := func(x Hold) bool { return x.Call == call }
	next.Holds = slices.DeleteFunc(next.Holds, same)
	next.Waiting = slices.DeleteFunc(next.Waiting, same)
	return next
}

// FreeOn is Free for what the call has through one boot: an earlier owner gives
// nothing of its successor's back.
func (l LockState) FreeOn(now time.Time, call, boot string) LockState {
	return l.at(now).Without(call, boot)
}

// CallsOf are the calls that hold the lock through a boot, or wait for it there.
func (l LockState) CallsOf(boot string) []string {
	var out []string
	for _, h := range slices.Concat(l.Holds, l.Waiting) {
		if h.Boot == boot && !slices.Contains(out, h.Call) {
			out = append(out, h.Call)
		}
	}
	return out
}

// Without is the state in which the call has nothing through that boot. Unlike FreeOn it
// needs no clock, and judges nobody else's lease.
func (l LockState) Without(call, boot string) LockState {
	its := func(x Hold) bool { return x.Call == call && x.Boot == boot }
	return LockState{
		Holds:   slices.DeleteFunc(slices.Clone(l.Holds), its),
		Waiting: slices.DeleteFunc(slices.Clone(l.Waiting), its),
	}
}

// Unused says that nobody stands in the lock, not even with a lease that has ended.
func (l LockState) Unused() bool { return len(l.Holds)+len(l.Waiting) == 0 }

// Renew extends the hold of a call, also one that has run out while nobody else
// wanted the lock. ok is false, and nothing changes, where the call's next owner
// has entered it on another boot, or somebody else has the lock now or has had it
// meanwhile: who takes or frees a lock removes what has run out, so that its holder
// does not go on under a token that another has overtaken. Holds of the same boot
// that have run out, too, stay, to be renewed in their turn.
func (l LockState) Renew(now time.Time, h Hold) (next LockState, ok bool) {
	moved := func(x Hold) bool { return x.Call == h.Call && x.Boot != h.Boot }
	if !slices.ContainsFunc(l.Holds, h.sameOwner) || slices.ContainsFunc(l.at(now).Holds, moved) {
		return l, false
	}
	if next, ok = l.Take(now, h); !ok {
		return l, false
	}
	for _, x := range l.Holds {
		if x.Boot == h.Boot && !slices.ContainsFunc(next.Holds, x.sameOwner) {
			next.Holds = append(next.Holds, x)
		}
	}
	return next, true
}

func (h Hold) sameOwner(x Hold) bool { return x.Call == h.Call && x.Boot == h.Boot }

// Held says whether the call holds the lock on that boot.
func (l LockState) Held(now time.Time, call, boot string) bool {
	return slices.ContainsFunc(l.at(now).Holds, func(h Hold) bool { return h.Call == call && h.Boot == boot })
}

// Empty says that nobody holds the lock or waits for it.
func (l LockState) Empty(now time.Time) bool {
	return l.at(now).Unused()
}
