package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Bounds of limits.
const (
	MaxLimits    = 256              // rules of a node
	MaxSlots     = 256              // of one rule: each is an entry of a cell that the cluster shares
	MaxRateBurst = 1_000_000        // starts at once, of one rule
	MaxRate      = 1000             // starts a second, of one rule
	MaxLimitWait = 10 * time.Minute // that a call waits for its turn
	LimitAgain   = time.Minute      // that a call which has run already waits at least: its work would be lost
)

// LimitRule bounds how many calls run at once, or begin in a time, of some tools and
// some principals. At least one of Concurrency and Rate must be given.
type LimitRule struct {
	ID          string        // 1 to 64 of A-Za-z0-9_-; unique
	Principal   string        // a pattern of ids, with * for any bytes and ? for one; "" means everybody
	Kind        string        // agent, person or service; "" means any
	Each        bool          // one bucket for each principal. Otherwise one for all of them
	Tool        string        // a pattern of names; "" means every tool
	Concurrency int           // calls at once, in the cluster; 0: any number
	Rate        Rate          // starts in a time, in the cluster; zero: any number
	Wait        time.Duration // how long a call may wait for its turn; 0: it is denied at once
}

// ErrLimit says that a rule is not one.
var ErrLimit = errors.New("no limit")

// Check returns an ErrLimit that says what is wrong with the rule.
func (r LimitRule) Check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrLimit}, args...)...)
	}
	if err := events.CheckID("id", r.ID); err != nil {
		return wrong("%w", err)
	}
	switch {
	case r.Concurrency < 0 || r.Concurrency > MaxSlots:
		return wrong("%s: concurrency %d: want 1 to %d", r.ID, r.Concurrency, MaxSlots)
	case r.Concurrency == 0 && r.Rate == Rate{}:
		return wrong("%s bounds nothing: give it a concurrency, a rate, or both", r.ID)
	case r.Wait < 0 || r.Wait > MaxLimitWait:
		return wrong("%s: wait %v: want 0s to %v", r.ID, r.Wait, MaxLimitWait)
	case !slices.Contains([]string{"", "agent", KindPerson, KindService}, r.Kind):
		return wrong("%s: kind %q: want agent, person or service", r.ID, r.Kind)
	case len(r.Tool) > 64 || len(r.Principal) > MaxActor:
		return wrong("%s: a pattern of %d bytes, longer than any name", r.ID, max(len(r.Tool), len(r.Principal)))
	}
	if r.Rate != (Rate{}) {
		if err := r.Rate.Check(); err != nil {
			return wrong("%s: %w", r.ID, err)
		}
	}
	return nil
}

// Limits are the rules of a node, ordered by their ids: the one order in which every
// node takes what a call needs. Make them with NewLimits. The zero value limits nothing.
type Limits struct{ rules []LimitRule }

// NewLimits checks rules and puts them in order. It returns an ErrLimit for a rule that
// is not one, for two of one id, and for more than MaxLimits.
func NewLimits(rules []LimitRule) (Limits, error) {
	if len(rules) > MaxLimits {
		return Limits{}, fmt.Errorf("%w: %d rules, at most %d", ErrLimit, len(rules), MaxLimits)
	}
	list := slices.Clone(rules)
	slices.SortFunc(list, func(a, b LimitRule) int { return strings.Compare(a.ID, b.ID) })
	for i, r := range list {
		if err := r.Check(); err != nil {
			return Limits{}, err
		}
		if i > 0 && list[i-1].ID == r.ID {
			return Limits{}, fmt.Errorf("%w: the id %s is given twice", ErrLimit, r.ID)
		}
	}
	return Limits{list}, nil
}

// Rules are all of them, in their order.
func (l Limits) Rules() []LimitRule { return slices.Clone(l.rules) }

// LimitUse is a rule that fits a call, and the bucket that the call is counted in.
type LimitUse struct {
	LimitRule
	Bucket string // of this principal; "" is the one for all
}

// Of are the limits of a call, in the one order of everybody. What somebody does, those
// above do, too: a rule whose pattern fits a parent counts the child's calls, and where
// each has a bucket, all of them are counted.
func (l Limits) Of(p events.Principal, tool string) []LimitUse {
	var out []LimitUse
	for _, r := range l.rules {
		if r.Kind != "" && r.Kind != cmp.Or(p.Kind, "agent") || r.Tool != "" && !fits(r.Tool, tool) {
			continue
		}
		var who []string
		for _, id := range append([]string{p.ID}, p.Parents...) {
			if (r.Principal == "" || fits(r.Principal, id)) && !slices.Contains(who, id) {
				who = append(who, id)
			}
		}
		if !r.Each {
			who = who[:min(len(who), 1)]
		}
		slices.Sort(who)
		for _, id := range who {
			if !r.Each {
				id = ""
			}
			out = append(out, LimitUse{r, id})
		}
	}
	return out
}

// fits says whether a name is of a pattern: * stands for any bytes, ? for one.
func fits(pattern, name string) bool {
	star, from := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p, n = p+1, n+1
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Resource is the name of the bucket's slots, as events.Lock has it.
func (u LimitUse) Resource() string {
	if u.Bucket == "" {
		return LimitResource + u.ID
	}
	return LimitResource + u.ID + ":" + u.Bucket
}

// LimitResource begins the names of all slots. What tools declare never begins so.
const LimitResource = "limit:"

// Patience is how long a start of the call waits for the rule.
func (r LimitRule) Patience(attempts int) time.Duration {
	if attempts > 0 {
		return max(r.Wait, LimitAgain)
	}
	return r.Wait
}

// who names those that a bucket counts, for a sentence about n of them.
func (u LimitUse) who(n int) string {
	what := fmt.Sprint(n, " calls")
	if n == 1 {
		what = "1 call"
	}
	if u.Tool != "" {
		what += " of " + u.Tool
	}
	switch {
	case u.Bucket != "":
		return what + " by " + u.Bucket
	case u.Principal != "":
		return what + " by " + u.Principal + " together"
	}
	return what
}

// Full is the finding where all slots are taken, and were for as long as the call may
// wait.
func (u LimitUse) Full() Finding {
	return u.denied(fmt.Sprintf("the limit %s lets %s run at once, and so many run: it was not run%s; try again once one of them has ended, in %s or later",
		u.ID, u.who(u.Concurrency), waited(u.Wait), inSeconds(fullAgain)))
}

// fullAgain is when to try again where nobody knows when a slot is free.
const fullAgain = 5 * time.Second

// Spent is the finding where the rate's next start is due only in a while, longer than
// the call may wait.
func (u LimitUse) Spent(in time.Duration) Finding {
	return u.denied(fmt.Sprintf("the limit %s lets %s begin in %s, and none is left now: it was not run; try again in %s",
		u.ID, u.who(u.Rate.N), u.Rate.time(), inSeconds(in)))
}

func (u LimitUse) denied(reason string) Finding {
	return Finding{Gate: GateLimit, Ruling: Deny, Code: events.RateLimited, Reason: reason, Policies: []string{u.ID}}
}

func waited(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return " after a wait"
}

// inSeconds is a time for a model: whole seconds, no fewer than it takes.
func inSeconds(d time.Duration) string {
	n := max(1, (d+time.Second-1)/time.Second)
	if n == 1 {
		return "1 second"
	}
	return fmt.Sprintf("%d seconds", n)
}
