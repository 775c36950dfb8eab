package lifecycle

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
)

func mustLimits(t *testing.T, rules ...LimitRule) Limits {
	t.Helper()
	l, err := NewLimits(rules)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLimitsOfACall: all rules that fit apply, in the order of their ids, and a child is
// counted with its parents.
func TestLimitsOfACall(t *testing.T) {
	l := mustLimits(
		t,
		LimitRule{ID: "z-all", Concurrency: 9},
		LimitRule{ID: "each", Principal: "bot-*", Each: true, Concurrency: 1},
		LimitRule{ID: "one", Principal: "bot-*", Concurrency: 1},
		LimitRule{ID: "kind", Kind: KindPerson, Concurrency: 1},
		LimitRule{ID: "agents", Kind: "agent", Tool: "charge", Concurrency: 1},
		LimitRule{ID: "tool", Tool: "mcp__?*", Rate: Rate{N: 1, Per: time.Second}},
	)
	for _, c := range []struct {
		who  events.Principal
		tool string
		want string
	}{
		{events.Principal{ID: "ann", Kind: KindPerson}, "charge", "limit:kind limit:z-all"},
		{events.Principal{ID: "x"}, "charge", "limit:agents limit:z-all"},
		{events.Principal{ID: "bot-1"}, "read", "limit:each:bot-1 limit:one limit:z-all"},
		{events.Principal{ID: "kid", Parents: []string{"bot-2", "bot-1"}}, "read", "limit:each:bot-1 limit:each:bot-2 limit:one limit:z-all"},
		{events.Principal{ID: "bot-9", Parents: []string{"bot-9", "boss"}}, "mcp__x", "limit:each:bot-9 limit:one limit:tool limit:z-all"},
		{events.Principal{ID: "x"}, "mcp__", "limit:z-all"},
	} {
		var got []string
		for _, u := range l.Of(c.who, c.tool) {
			got = append(got, u.Resource())
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%v, %s: %s, want %s", c.who, c.tool, s, c.want)
		}
	}
	if got := (Limits{}).Of(events.Principal{ID: "x"}, "read"); got != nil {
		t.Errorf("no limits give %v", got)
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true},
		{"*", "a/b", true},
		{"a*", "b", false},
		{"a*c", "abc", true},
		{"a*c", "abcd", false},
		{"*b*", "abc", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"abc", "abc", true},
		{"abc", "ab", false},
		{"**a", "bba", true},
		{"*ab*ab", "abab", true},
		{"*ab*abc", "ababab", false},
		{"[a]", "a", false},
		{"?", "", false},
	} {
		if got := fits(c.pattern, c.name); got != c.want {
			t.Errorf("%q of %q: %t", c.pattern, c.name, got)
		}
	}
}

// TestLimitsThatAreNone: each is refused with what is wrong with it.
func TestLimitsThatAreNone(t *testing.T) {
	rate := Rate{N: 1, Per: time.Second}
	good := LimitRule{ID: "a", Concurrency: 1}
	for _, c := range []struct {
		rules []LimitRule
		says  string
	}{
		{[]LimitRule{{Concurrency: 1}}, "id"},
		{[]LimitRule{{ID: "a.b", Concurrency: 1}}, "id"},
		{[]LimitRule{{ID: "a"}}, "bounds nothing"},
		{[]LimitRule{{ID: "a", Concurrency: -1}}, "concurrency -1"},
		{[]LimitRule{{ID: "a", Concurrency: MaxSlots + 1}}, "want 1 to 256"},
		{[]LimitRule{{ID: "a", Rate: rate, Wait: MaxLimitWait + 1}}, "wait"},
		{[]LimitRule{{ID: "a", Rate: rate, Wait: -1}}, "wait"},
		{[]LimitRule{{ID: "a", Rate: rate, Kind: "robot"}}, "kind"},
		{[]LimitRule{{ID: "a", Rate: rate, Tool: strings.Repeat("x", 65)}}, "longer"},
		{[]LimitRule{{ID: "a", Rate: Rate{N: 1, Per: time.Hour * 24}}}, "a second, a minute or an hour"},
		{[]LimitRule{{ID: "a", Rate: Rate{N: -1, Per: time.Hour}}}, "rate of -1"},
		{[]LimitRule{{ID: "a", Rate: Rate{N: MaxRate + 1, Per: time.Second}}}, "rate of 1001"},
		{[]LimitRule{{ID: "a", Rate: Rate{N: 1, Per: time.Second, Burst: -1}}}, "burst"},
		{[]LimitRule{{ID: "a", Rate: Rate{N: MaxRateBurst + 1, Per: time.Hour}}}, "burst"},
		{[]LimitRule{good, good}, "twice"},
		{slices.Repeat([]LimitRule{good}, MaxLimits+1), "at most 256"},
	} {
		if _, err := NewLimits(c.rules); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+.80v: %v, want %q", c.rules, err, c.says)
		}
	}
}

// TestRateIsExact: whatever is asked for when, by whoever's clock is a little off, in any
// time T no more begin than the burst and what flows in, and one who asks again and again
// gets that many and no fewer.
func TestRateIsExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	start := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	for range 300 {
		r := Rate{N: 1 + rnd.IntN(40), Per: []time.Duration{time.Second, time.Minute, time.Hour}[rnd.IntN(3)], Burst: rnd.IntN(8)}
		if r.Check() != nil {
			continue
		}
		var s RateState
		var due []time.Time // in the order in which they were taken
		now := start
		for range 400 {
			now = now.Add(time.Duration(rnd.Int64N(int64(r.Per)*2/int64(r.N) + 1)))
			wait := time.Duration(rnd.Int64N(int64(r.Per)))
			next, at, ok := s.Take(r, now, wait)
			switch {
			case ok && (at.Before(now) || at.Sub(now) > wait):
				t.Fatalf("%+v: at %v a token that is due in %v, and may wait %v", r, now, at.Sub(now), wait)
			case !ok && (next != s || at.Sub(now) <= wait):
				t.Fatalf("%+v: refused at %v what is due in %v, and may wait %v", r, now, at.Sub(now), wait)
			case ok && rnd.IntN(20) == 0:
				next = next.Return() // nothing was begun
			case ok:
				due = append(due, at)
			}
			s = next
		}
		for i := range due {
			for j := i; j < len(due); j++ {
				// r.full() of them at once, and then one for each Per/N.
				if n, least := j-i+1, time.Duration(0); n > r.full() {
					if least = time.Duration(n-r.full()) * r.Per / time.Duration(r.N); due[j].Sub(due[i]) < least-1 {
						t.Fatalf("%+v: %d begin in %v, want %v", r, n, due[j].Sub(due[i]), least)
					}
				}
			}
		}
	}
}

// TestRateGivesAllThatFlowsIn: nothing is lost to rounding, in a year of asking.
func TestRateGivesAllThatFlowsIn(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, r := range []Rate{{N: 7, Per: time.Second}, {N: 7, Per: time.Minute, Burst: 1}, {N: 11, Per: time.Hour, Burst: 3}, {N: 999, Per: time.Second, Burst: 1}} {
		var s RateState
		n, now := 0, start
		for range 20_000 {
			next, at, ok := s.Take(r, now, time.Hour)
			if !ok {
				t.Fatalf("%+v: refused: it is due at %v", r, at)
			}
			s, now, n = next, at, n+1
		}
		want := start.Add(time.Duration(float64(n-r.full()) * float64(r.Per) / float64(r.N)))
		if off := now.Sub(want).Abs(); off > time.Microsecond {
			t.Errorf("%+v: the last of %d is due %v beside its time", r, n, off)
		}
		if left, next := s.Left(r, now); left != 0 || !next.After(now) {
			t.Errorf("%+v: %d left, the next one at %v", r, left, next)
		}
		if left, _ := s.Left(r, now.Add(time.Hour*2)); left != r.full() {
			t.Errorf("%+v: %d are left after two hours, want %d", r, left, r.full())
		}
	}
}

// TestRateAndClocks: a clock that is behind lets nothing flow in twice, and one that was
// far ahead does not stop everybody.
func TestRateAndClocks(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := Rate{N: 1, Per: time.Second}
	s, _, _ := RateState{}.Take(r, now.Add(5*time.Second), 0)
	if _, at, ok := s.Take(r, now, 0); ok || at.Sub(now) != 6*time.Second {
		t.Errorf("taken again at a clock that is 5 s behind: %t, due at %v", ok, at)
	}
	s, _, ok := s.Take(r, now.Add(6*time.Second), 0)
	if !ok {
		t.Error("nothing has flowed in after a second")
	}
	s.At = now.Add(48 * time.Hour) // by a clock that was wrong
	if s, at, ok := s.Take(r, now, time.Minute); !ok || at.Sub(now) != time.Second || s.At != now {
		t.Errorf("a bucket of the future: %t, due at %v", ok, at)
	}
	wild := RateState{Debt: 1<<63 - 1, At: now}
	if _, _, ok := wild.Take(r, now.Add(time.Hour), 0); ok {
		t.Error("a debt beyond all bounds is none")
	}
	if s, _, ok := (RateState{Debt: -5, At: now}).Take(r, now, 0); !ok || s.Debt != token {
		t.Errorf("a debt below nothing: %+v", s)
	}
}

// TestSlots: as many as there are, first come first served, and a call that has one
// enters it again wherever it runs.
func TestSlots(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hold := func(call, boot string, slots int) Hold {
		return Hold{Call: call, Boot: boot, Slots: slots, Until: now.Add(LockTTL)}
	}
	var s LockState
	take := func(h Hold, want bool) {
		t.Helper()
		next, ok := s.Take(now, h)
		if ok != want {
			t.Fatalf("%s takes a slot: %t of %+v", h.Call, ok, s)
		}
		s = next
	}
	take(hold("a", "1", 2), true)
	take(hold("b", "2", 2), true)
	take(hold("c", "1", 2), false)
	take(hold("d", "2", 2), false)
	take(hold("a", "3", 2), true)  // its next owner
	take(hold("a", "3", 1), true)  // under a smaller limit, too
	s = s.FreeOn(now, "a", "1")    // which has nothing any more
	take(hold("d", "2", 2), false) // c is before it
	s = s.Free(now, "a")
	take(hold("d", "2", 2), false) // the slot that is free is c's
	take(hold("c", "1", 2), true)
	s = s.Free(now, "b")
	take(hold("d", "2", 2), true)
	take(hold("e", "2", 3), true) // under a larger limit
	if len(s.Holds) != 3 || len(s.Waiting) != 0 {
		t.Errorf("in the end %+v", s)
	}
	take(hold("f", "9", 3), false)
	now = now.Add(LockTTL) // nobody has renewed anything
	take(hold("g", "9", 1), true)
}

// TestSlotsUnderRandomUse: never more holders than slots whose leases stand, and whoever
// waits is served before whoever comes later.
func TestSlotsUnderRandomUse(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s LockState
	const slots = 3
	for range 20_000 {
		now = now.Add(time.Duration(rnd.IntN(2000)) * time.Millisecond)
		call, boot := fmt.Sprint("c", rnd.IntN(8)), fmt.Sprint("b", rnd.IntN(2))
		h := Hold{Call: call, Boot: boot, Slots: slots, Until: now.Add(LockTTL)}
		before := s.at(now)
		switch rnd.IntN(4) {
		case 0:
			s = s.Free(now, call)
		case 1:
			s, _ = s.Renew(now, h)
		default:
			next, ok := s.Take(now, h)
			had := slices.ContainsFunc(before.Holds, func(x Hold) bool { return x.Call == call })
			at := slices.IndexFunc(before.Waiting, func(x Hold) bool { return x.Call == call })
			free := slots - len(before.Holds)
			if want := had || at >= 0 && at < free || at < 0 && len(before.Waiting) < free; ok != want {
				t.Fatalf("%s takes: %t, want %t, of %+v", call, ok, want, before)
			}
			s = next
		}
		if n := len(s.at(now).Holds); n > slots {
			t.Fatalf("%d hold %d slots", n, slots)
		}
	}
}

// TestLimitSentences: a model reads which limit it was, and when to try again.
func TestLimitSentences(t *testing.T) {
	u := LimitUse{LimitRule: LimitRule{ID: "pay", Tool: "charge*", Concurrency: 3, Rate: Rate{N: 10, Per: time.Minute}, Wait: time.Second}, Bucket: "bot"}
	full, spent := u.Full(), u.Spent(1500*time.Millisecond)
	for _, f := range []Finding{full, spent} {
		if f.Gate != GateLimit || f.Ruling != Deny || f.Code != events.RateLimited || !slices.Equal(f.Policies, []string{"pay"}) {
			t.Errorf("%+v", f)
		}
	}
	if want := "the limit pay lets 3 calls of charge* by bot run at once, and so many run: it was not run after a wait; try again once one of them has ended, in 5 seconds or later"; full.Reason != want {
		t.Errorf("%s", full.Reason)
	}
	if want := "the limit pay lets 10 calls of charge* by bot begin in a minute, and none is left now: it was not run; try again in 2 seconds"; spent.Reason != want {
		t.Errorf("%s", spent.Reason)
	}
	u.Concurrency, u.Tool, u.Bucket, u.Wait = 1, "", "", 0
	if got, want := u.Full().Reason, "the limit pay lets 1 call run at once, and so many run: it was not run; try again once one of them has ended, in 5 seconds or later"; got != want {
		t.Errorf("%s", got)
	}
}
