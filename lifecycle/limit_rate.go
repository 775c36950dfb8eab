package lifecycle

import (
	"fmt"
	"time"
)

// Rate is how many calls may begin in a time: a bucket of Burst tokens that N flow into
// for each Per. In any time T there begin no more than Burst + N·T/Per.
type Rate struct {
	N     int
	Per   time.Duration // a second, a minute or an hour
	Burst int           // tokens of a full bucket; 0 means N
}

// Check says what is wrong with a rate that is not zero.
func (r Rate) Check() error {
	if r.Per != time.Second && r.Per != time.Minute && r.Per != time.Hour {
		return fmt.Errorf("rate per %v: want a second, a minute or an hour", r.Per)
	}
	if r.N < 1 || int64(r.N) > MaxRate*int64(r.Per/time.Second) {
		return fmt.Errorf("rate of %d per %s: want 1 to %d", r.N, r.unit(), MaxRate*int64(r.Per/time.Second))
	}
	if r.Burst < 0 || r.full() > MaxRateBurst {
		return fmt.Errorf("burst %d: want 1 to %d", max(r.Burst, r.full()), MaxRateBurst)
	}
	return nil
}

func (r Rate) unit() string {
	switch r.Per {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	}
	return "hour"
}

// time is the unit with its article.
func (r Rate) time() string {
	if r.Per == time.Hour {
		return "an hour"
	}
	return "a " + r.unit()
}

// String is the rate as a file has it, without the burst; "" for none.
func (r Rate) String() string {
	if r == (Rate{}) {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.N, r.unit()[:1])
}

// full is how many tokens a full bucket has.
func (r Rate) full() int {
	if r.Burst > 0 {
		return r.Burst
	}
	return r.N
}

// token is one start, in parts of which whole ones flow in each nanosecond, whatever the
// rate: nothing is rounded, and the sums of all bounds fit.
const token = int64(time.Hour)

// flow is how many parts flow in each nanosecond.
func (r Rate) flow() int64 { return int64(r.N) * int64(time.Hour/r.Per) }

// RateState is the state of one bucket of tokens, shared by the cluster. Its zero value
// is full.
type RateState struct {
	Debt int64     `json:"debt,omitempty"` // what was taken and has not flowed in since, in parts of a token
	At   time.Time `json:"at,omitzero"`    // when it was so
}

// maxDebt is more than any rule's: a full burst, and all that its longest wait lets in.
const maxDebt = (MaxRateBurst + MaxRate*int64(MaxLimitWait/time.Second) + 1) * token

// RateSkew is how far a bucket's time may be ahead of who looks: the clocks of nodes
// follow the log's. Beyond it a clock was wrong, and the bucket's time begins anew.
const RateSkew = 10 * time.Second

// at is the bucket at a time. Its time never goes back: nodes whose clocks differ let no
// more flow in than the time that has passed.
func (s RateState) at(r Rate, now time.Time) RateState {
	s.Debt = min(max(s.Debt, 0), maxDebt)
	switch passed := now.Sub(s.At); {
	case s.Debt == 0:
		return RateState{At: maxTime(s.At, now)}
	case passed < -RateSkew:
		s.At = now
	case passed <= 0:
	case int64(passed) > s.Debt/r.flow():
		return RateState{At: now}
	default:
		s.Debt, s.At = s.Debt-int64(passed)*r.flow(), now
	}
	return s
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) && a.Sub(b) <= RateSkew {
		return a
	}
	return b
}

// Take takes one token, which is due at a time that may still come, at the latest after
// wait: whoever takes it begins then, and no sooner. ok is false where it would be due
// later; then nothing is taken, and at says when it would be.
func (s RateState) Take(r Rate, now time.Time, wait time.Duration) (next RateState, at time.Time, ok bool) {
	is := s.at(r, now)
	at = is.At
	if over := is.Debt + token - int64(r.full())*token; over > 0 {
		at = at.Add(time.Duration((over + r.flow() - 1) / r.flow()))
	} else if at.After(now) {
		at = now
	}
	if at.Sub(now) > wait {
		return s, at, false
	}
	is.Debt += token
	return is, at, true
}

// Return gives back a token with which nothing was begun.
func (s RateState) Return() RateState {
	s.Debt = max(0, s.Debt-token)
	return s
}

// Left is how many calls could begin now, and when the next one can where none can; zero
// otherwise.
func (s RateState) Left(r Rate, now time.Time) (tokens int, next time.Time) {
	is := s.at(r, now)
	tokens = int(max(0, int64(r.full())*token-is.Debt) / token)
	if tokens == 0 {
		_, next, _ = s.Take(r, now, 0)
	}
	return tokens, next
}
