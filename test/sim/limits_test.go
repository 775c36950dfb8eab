package sim

import (
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// limits are those of every node: of what runs at once, of what begins in a time, and of
// both, for those who wait and for those who do not.
var limits = func() lifecycle.Limits {
	l, err := lifecycle.NewLimits([]lifecycle.LimitRule{
		{ID: "few", Tool: "read", Concurrency: 1, Wait: 4 * time.Second},
		{ID: "alone", Tool: "edit", Principal: "a*", Each: true, Concurrency: 1, Wait: 30 * time.Second},
		{ID: "slow", Tool: "charge", Rate: lifecycle.Rate{N: 6, Per: time.Minute, Burst: 1}, Wait: 8 * time.Second},
		{ID: "both", Tool: "*e*", Concurrency: 3, Rate: lifecycle.Rate{N: 1, Per: time.Second, Burst: 3}, Wait: 5 * time.Second},
		{ID: "now", Tool: "post", Concurrency: 1},
		{ID: "asks", Tool: "quiz", Concurrency: 1, Wait: 3 * time.Second},
	})
	if err != nil {
		panic(err)
	}
	return l
}()

// limitOf is a rule by its id.
func limitOf(id string) lifecycle.LimitRule {
	for _, r := range limits.Rules() {
		if r.ID == id {
			return r
		}
	}
	return lifecycle.LimitRule{}
}

// startedAs is what the log says of an attempt's start, or nil.
func (s *sim) startedAs(call events.CallKey, attempt int) *events.Started {
	_, _, log := s.load(call.TurnKey())
	for _, c := range log {
		for _, r := range c.Commit.Records {
			if st, ok := r.Event.(*events.Started); ok && r.Call == call.Offset && st.Attempt == attempt {
				return st
			}
		}
	}
	return nil
}

// limited checks that an attempt has passed every limit of its call, and that no more run
// at once than each lets, as long as everybody's nodes are well.
func (s *sim) limited(a *attempt) {
	st := s.startedAs(a.call, a.attempt)
	if st == nil {
		return // which is another law
	}
	t, _, _ := s.load(a.call.TurnKey())
	uses := limits.Of(t.Submitted.Principal, a.tool)
	if len(uses) != len(st.Limits) {
		s.fail("limit: attempt %d of %s has %d limits, and was started with %+v", a.attempt, a.call, len(uses), st.Limits)
		return
	}
	for i, u := range uses {
		has := st.Limits[i]
		if has.Rule != u.ID || has.Principal != u.Bucket || (has.Slot.Resource == u.Resource()) != (u.Concurrency > 0) {
			s.fail("limit: attempt %d of %s was started with %+v, and not with %s", a.attempt, a.call, has, u.ID)
		}
		if a.slots = append(a.slots, u.Resource()); u.Concurrency == 0 || a.disturbed {
			continue
		}
		with := []events.CallKey{a.call}
		for _, o := range s.attempts {
			if o.running && !o.disturbed && o.call != a.call && slices.Contains(o.slots, u.Resource()) {
				with = append(with, o.call)
			}
		}
		if len(with) == u.Concurrency {
			s.counts.mark("limit: %s is full", u.ID)
		}
		if len(with) > u.Concurrency {
			s.fail("limit: %s lets %d run at once, and %v do", u.ID, u.Concurrency, with)
		}
	}
}

// spending is how much of each rate was used since a time at which no bucket was more
// than full: the run's start, or a power failure, which takes what was written last.
type spending struct {
	since time.Time
	of    map[string]int // by rule
}

// checkRates checks that no more has begun than the rates let in.
func (s *sim) checkRates(c events.Commit) {
	for _, r := range c.Records {
		switch v := r.Event.(type) {
		case *events.Denied:
			if v.Gate == string(lifecycle.GateLimit) {
				s.counts.mark("limit: %s denied", v.Policies[0])
			}
		case *events.Started:
			if v.LimitWaitMS > 1000 {
				s.counts.mark("limit: waited")
			}
			for _, l := range v.Limits {
				if l.Token {
					s.spend(l.Rule)
				}
			}
		}
	}
}

func (s *sim) spend(rule string) {
	if s.spent.of == nil {
		return
	}
	s.spent.of[rule]++
	rate := limitOf(rule).Rate
	passed := s.w.Now().Sub(s.spent.since) + time.Second // clocks differ by no more: see setOff
	if most := rate.Burst + int(passed*time.Duration(rate.N)/rate.Per); s.spent.of[rule] > most {
		s.fail("limit: %s lets %d begin in %s, and %d have", rule, most, passed, s.spent.of[rule])
	}
}

// refill notes that every bucket may be full now.
func (s *sim) refill() { s.spent = spending{s.w.Now(), map[string]int{}} }
