package lifecycle

import (
	"slices"
	"time"
)

// Clocks of nodes differ. A lease of another node is over when its holder has not
// renewed it for as long as it lasts, by the clock of whoever looks: what its holder
// wrote only tells one renewal from the next. The types here are what one observer
// remembers for that; times in them are the observer's own.

// Sighting is a hold of another boot, and when it was seen first as it is.
type Sighting struct {
	Hold Hold
	At   time.Time
}

// Sight is what an observer on boot has seen of a lock, now that its state is l: a
// hold that was renewed is a new one, and what is gone is forgotten.
func (l LockState) Sight(boot string, now time.Time, was []Sighting) []Sighting {
	var out []Sighting
	for _, h := range slices.Concat(l.Holds, l.Waiting) {
		if h.Boot == boot {
			continue
		}
		i := slices.IndexFunc(was, func(s Sighting) bool { return s.Hold.is(h) })
		if i < 0 {
			out = append(out, Sighting{h, now})
			continue
		}
		out = append(out, was[i])
	}
	return out
}

func (h Hold) is(x Hold) bool {
	return h.Call == x.Call && h.Boot == x.Boot && h.Exclusive == x.Exclusive && h.Slots == x.Slots && h.Until.Equal(x.Until)
}

// Local is the state with the leases of other boots as the observer counts them:
// each lasts for ttl after it was seen first.
func (l LockState) Local(seen []Sighting, ttl time.Duration) LockState {
	return l.each(func(h Hold) Hold {
		if i := slices.IndexFunc(seen, func(s Sighting) bool { return s.Hold.is(h) }); i >= 0 {
			h.Until = seen[i].At.Add(ttl)
		}
		return h
	})
}

// Shared is what Local was made from, for those holds that have stayed: what others
// wrote is written back as it was.
func (l LockState) Shared(seen []Sighting, ttl time.Duration) LockState {
	return l.each(func(h Hold) Hold {
		i := slices.IndexFunc(seen, func(s Sighting) bool {
			local := s.Hold
			local.Until = s.At.Add(ttl)
			return local.is(h)
		})
		if i >= 0 {
			h.Until = seen[i].Hold.Until
		}
		return h
	})
}

func (l LockState) each(change func(Hold) Hold) LockState {
	all := func(list []Hold) []Hold {
		var out []Hold
		for _, h := range list {
			out = append(out, change(h))
		}
		return out
	}
	return LockState{Holds: all(l.Holds), Waiting: all(l.Waiting)}
}

// BreakerSight is a breaker as an observer sees it.
type BreakerSight struct {
	Cell     Breaker   // as it is shared
	Opened   time.Time // since when it is open
	ProbeEnd time.Time // of the probe's lease
}

// Sight is what the observer sees now that the cell is b. live says that it has heard
// of every change since the earlier one: what is new happened just now. Otherwise
// what the cell says of its opening is believed, as far as it is not in the future of
// shared, the time by which the log goes and which the cell was written by.
func (b Breaker) Sight(c BreakerConfig, now, shared time.Time, was BreakerSight, live bool) BreakerSight {
	s := BreakerSight{Cell: b}
	switch {
	case b.OpenedAt.IsZero():
	case b.OpenedAt.Equal(was.Cell.OpenedAt):
		s.Opened = was.Opened
	case live:
		s.Opened = now
	default:
		s.Opened = now.Add(-max(0, shared.Sub(b.OpenedAt)))
	}
	switch {
	case b.Probe == "":
	case b.Probe == was.Cell.Probe && b.ProbeEnd.Equal(was.Cell.ProbeEnd):
		s.ProbeEnd = was.ProbeEnd
	default:
		s.ProbeEnd = now.Add(c.lease())
	}
	return s
}

// Local is the breaker by the observer's clock.
func (s BreakerSight) Local() Breaker {
	b := s.Cell
	b.OpenedAt, b.ProbeEnd, b.HeldUntil = s.Opened, s.ProbeEnd, s.held()
	return b
}

// held is until when a person has switched the tool off: as long after its opening as
// the cell says.
func (s BreakerSight) held() time.Time {
	if s.Cell.HeldUntil.IsZero() {
		return time.Time{}
	}
	return s.Opened.Add(s.Cell.HeldUntil.Sub(s.Cell.OpenedAt))
}

// Shared is what is written where the observer has made Local into next: times that
// have stayed are as they were, and an opening is of now, by the time that all share.
func (s BreakerSight) Shared(next Breaker, now time.Time) Breaker {
	switch {
	case next.OpenedAt.Equal(s.Opened):
		next.OpenedAt = s.Cell.OpenedAt
	case !next.OpenedAt.IsZero():
		next.OpenedAt = now
	}
	if next.ProbeEnd.Equal(s.ProbeEnd) {
		next.ProbeEnd = s.Cell.ProbeEnd
	}
	if next.HeldUntil.Equal(s.held()) {
		next.HeldUntil = s.Cell.HeldUntil
	}
	return next
}
