package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// lockModel is the lock as a child would write it: who holds it until when, and
// which writers stand in line until when.
type lockModel struct {
	holds map[string]lifecycle.Hold
	line  []lifecycle.Hold
}

func (m *lockModel) expire(now time.Time) {
	maps.DeleteFunc(m.holds, func(_ string, h lifecycle.Hold) bool { return !h.Until.After(now) })
	m.line = slices.DeleteFunc(m.line, func(h lifecycle.Hold) bool { return !h.Until.After(now) })
}

func (m *lockModel) free(call string) {
	delete(m.holds, call)
	m.line = slices.DeleteFunc(m.line, func(h lifecycle.Hold) bool { return h.Call == call })
}

func (m *lockModel) take(now time.Time, h lifecycle.Hold) bool {
	m.expire(now)
	_, again := m.holds[h.Call]
	place := slices.IndexFunc(m.line, func(x lifecycle.Hold) bool { return x.Call == h.Call })
	free := again || len(m.line) == 0 || place == 0
	for _, o := range m.holds {
		free = free && (o.Call == h.Call || !o.Exclusive && !h.Exclusive)
	}
	switch {
	case free:
		m.free(h.Call)
		m.holds[h.Call] = h
	case h.Exclusive && place < 0:
		m.line = append(m.line, h)
	case h.Exclusive:
		m.line[place] = h
	}
	return free
}

// Against the dumb model, whatever is asked in whatever order; and an exclusive
// holder is always alone.
func TestLockAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l lifecycle.LockState
		m := &lockModel{holds: map[string]lifecycle.Hold{}}
		now := start
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "seconds")) * time.Second)
			i := rapid.IntRange(0, 4).Draw(t, "call")
			call := fmt.Sprint("t/1/", i)
			if rapid.IntRange(0, 2).Draw(t, "free") == 0 {
				l = l.Free(now, call)
				m.expire(now)
				m.free(call)
			} else {
				h := lifecycle.Hold{
					Call: call, Boot: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "boot"),
					Exclusive: i < 2, Until: now.Add(lifecycle.LockTTL),
				}
				next, ok := l.Take(now, h)
				if want := m.take(now, h); ok != want {
					t.Fatalf("take %s: got %t, want %t; held by %v, waited for by %v", call, ok, want, l.Holds, l.Waiting)
				}
				if ok && !next.Held(now, call, h.Boot) {
					t.Fatalf("%s took it, and does not hold it", call)
				}
				l = next
			}
			sameLock(t, l, m, now)
		}
	})
}

func sameLock(t *rapid.T, l lifecycle.LockState, m *lockModel, now time.Time) {
	live := func(hs []lifecycle.Hold) map[string]lifecycle.Hold {
		out := map[string]lifecycle.Hold{}
		for _, h := range hs {
			if now.Before(h.Until) {
				out[h.Call] = h
			}
		}
		return out
	}
	held, gone := live(l.Holds), func(h lifecycle.Hold) bool { return !now.Before(h.Until) }
	if !maps.Equal(held, m.holds) || !slices.Equal(slices.DeleteFunc(slices.Clone(l.Waiting), gone), m.line) {
		t.Fatalf("held by %v and waited for by %v, want %v and %v", l.Holds, l.Waiting, m.holds, m.line)
	}
	for _, h := range held {
		if h.Exclusive && len(held) > 1 {
			t.Fatalf("an exclusive holder is not alone: %v", held)
		}
	}
	if l.Empty(now) != (len(held)+len(m.line) == 0) {
		t.Fatalf("empty is %t of %v, %v", l.Empty(now), l.Holds, l.Waiting)
	}
}

// A writer that keeps asking is not starved by readers that keep coming, and a call
// that is held goes on on its next owner.
func TestWritersAreNotStarved(t *testing.T) {
	var l lifecycle.LockState
	now, ok := start, false
	reader := func(i int) lifecycle.Hold {
		return lifecycle.Hold{Call: fmt.Sprint("t/r/", i), Boot: "n1", Until: now.Add(lifecycle.LockTTL)}
	}
	writer := func() lifecycle.Hold {
		return lifecycle.Hold{Call: "t/w/0", Boot: "n1", Exclusive: true, Until: now.Add(lifecycle.LockTTL)}
	}
	for i := range 3 {
		if l, ok = l.Take(now, reader(i)); !ok {
			t.Fatal("readers do not share")
		}
	}
	if l, ok = l.Take(now, writer()); ok {
		t.Fatal("a writer shares with readers")
	}
	for i := 3; i < 50; i++ {
		now = now.Add(100 * time.Millisecond)
		if l, ok = l.Take(now, reader(i)); ok {
			t.Fatal("a reader passes a writer that waits")
		}
		if l, ok = l.Take(now, reader(i%3)); i < 30 && !ok {
			t.Fatal("a reader that holds it cannot enter again")
		}
		if i == 30 {
			for r := range 3 {
				l = l.Free(now, reader(r).Call)
			}
			if l, ok = l.Take(now, writer()); !ok {
				t.Fatal("the readers are gone, and the writer still waits")
			}
		}
	}
	if next, ok := l.Take(now, lifecycle.Hold{Call: "t/w/0", Boot: "n2", Exclusive: true, Until: now.Add(time.Second)}); !ok || next.Held(now, "t/w/0", "n1") {
		t.Errorf("the call's next owner cannot enter again: %v", next)
	}
	if _, ok := l.Take(now.Add(lifecycle.LockTTL), reader(0)); !ok {
		t.Error("a lease that has ended still holds")
	}
}

// A writer that waits and is gone does not hold readers off for ever.
func TestDeadWriterWaitsNoLonger(t *testing.T) {
	var l lifecycle.LockState
	l, _ = l.Take(start, lifecycle.Hold{Call: "r1", Until: start.Add(time.Hour)})
	l, _ = l.Take(start, lifecycle.Hold{Call: "w", Exclusive: true, Until: start.Add(lifecycle.LockTTL)})
	if _, ok := l.Take(start.Add(time.Second), lifecycle.Hold{Call: "r2", Until: start.Add(time.Minute)}); ok {
		t.Fatal("a reader passes a writer that waits")
	}
	if _, ok := l.Take(start.Add(lifecycle.LockTTL), lifecycle.Hold{Call: "r2", Until: start.Add(time.Minute)}); !ok {
		t.Fatal("a dead writer holds readers off")
	}
}

// breakerRun drives a breaker through its life.
type breakerRun struct {
	lifecycle.Breaker
	c   lifecycle.BreakerConfig
	now time.Time
}

func (r *breakerRun) admit(who string) bool {
	next, ok := r.Admit(r.c, r.now, who)
	r.Breaker = next
	return ok
}

func (r *breakerRun) report(who string, class events.Class) {
	r.Breaker = r.Report(r.c, r.now, who, class)
}

func opened(t *testing.T) *breakerRun {
	t.Helper()
	r := &breakerRun{now: start}
	for i := range lifecycle.BreakerFailures {
		if !r.admit("a") {
			t.Fatalf("closed after %d failures, and admits nobody", i)
		}
		r.report("a", events.ClassUnavailable)
	}
	if r.State(r.c, r.now) != lifecycle.BreakerOpen || r.admit("a") || r.Peek(r.c, r.now) {
		t.Fatalf("after %d failures it is %s", lifecycle.BreakerFailures, r.State(r.c, r.now))
	}
	return r
}

// Scenario: half-open, and the probe ends in a way that says nothing, or never.
func TestBreakerProbe(t *testing.T) {
	for _, class := range []events.Class{
		events.ClassInvalid, events.ClassConflict, events.ClassCancelled, events.ClassPanic, events.ClassLost,
	} {
		r := opened(t)
		r.now = r.now.Add(lifecycle.BreakerWindow)
		if !r.admit("p1") || r.admit("p2") {
			t.Fatal("half open admits not exactly one")
		}
		r.report("p1", class)
		if r.State(r.c, r.now) != lifecycle.BreakerHalfOpen || !r.admit("p2") {
			t.Errorf("a probe that ended as %s does not free its place", class)
		}
	}
	r := opened(t)
	r.now = r.now.Add(lifecycle.BreakerWindow)
	r.admit("p1")
	r.now = r.now.Add(lifecycle.ProbeLease - 1)
	if r.admit("p2") {
		t.Error("a second probe during the first one's lease")
	}
	r.now = r.now.Add(1)
	if !r.admit("p2") {
		t.Error("a probe that never reports wedges the breaker")
	}
	r.report("p1", events.ClassUnavailable)
	if r.Probe != "p2" {
		t.Error("a probe that was given up takes the next one's place away")
	}
	r.report("p2", events.ClassUnavailable)
	if r.State(r.c, r.now.Add(lifecycle.BreakerWindow-1)) != lifecycle.BreakerOpen {
		t.Error("a probe that failed does not restart the full window")
	}
	r.now = r.now.Add(lifecycle.BreakerWindow)
	r.admit("p3")
	r.report("p3", events.ClassTool)
	if r.Breaker != (lifecycle.Breaker{}) {
		t.Errorf("the tool answered, and the breaker is %+v", r.Breaker)
	}
}

// Scenario: fifty calls from three nodes right after the window: one probe.
func TestBreakerAdmitsOneProbe(t *testing.T) {
	r := opened(t)
	r.now = r.now.Add(lifecycle.BreakerWindow)
	admitted := 0
	for i := range 50 {
		if r.admit(fmt.Sprintf("t/1/%d n%d", i, i%3)) {
			admitted++
		}
	}
	if admitted != 1 {
		t.Errorf("%d of 50 were admitted, want 1", admitted)
	}
}

// Only availability is evidence: bad arguments do not disable a tool for everybody.
func TestBreakerEvidence(t *testing.T) {
	r := &breakerRun{now: start}
	for range 20 {
		for _, class := range []events.Class{events.ClassInvalid, events.ClassConflict, events.ClassCancelled, events.ClassPanic} {
			r.report("a", class)
		}
	}
	if r.Breaker != (lifecycle.Breaker{}) {
		t.Errorf("no evidence came, and the breaker is %+v", r.Breaker)
	}
	for range 5 { // never three in a row
		r.report("a", events.ClassTimeout)
		r.report("a", events.ClassUnavailable)
		r.report("a", events.ClassTool)
	}
	if r.State(r.c, r.now) != lifecycle.BreakerClosed {
		t.Error("failures that are not consecutive opened it")
	}
	c := lifecycle.BreakerConfig{Failures: 1, Window: time.Second, Lease: time.Millisecond}
	b := lifecycle.Breaker{}.Report(c, start, "a", events.ClassTimeout)
	if b.State(c, start) != lifecycle.BreakerOpen || b.State(c, start.Add(time.Second)) != lifecycle.BreakerHalfOpen {
		t.Error("the configured numbers do not count")
	}
	if next, _ := b.Admit(c, start.Add(time.Second), "a"); !next.Peek(c, start.Add(time.Second+time.Millisecond)) {
		t.Error("the configured lease does not count")
	}
}

// breakerModel remembers everything that happened and looks it all through again.
type breakerModel struct{ log []breakerEntry }

type breakerEntry struct {
	at     time.Time
	who    string
	class  events.Class // "" for an admission
	probed bool         // an admission as the probe; a report by the probe
}

func (m *breakerModel) state(now time.Time) (open time.Time, probe string) {
	streak := 0
	var lease time.Time
	for _, e := range m.log {
		switch {
		case e.class == "" && e.probed:
			probe, lease = e.who, e.at.Add(lifecycle.ProbeLease)
		case e.class == "":
		default:
			mine := probe != "" && probe == e.who
			if mine {
				probe = ""
			}
			failure := e.class == events.ClassUnavailable || e.class == events.ClassTimeout
			success := e.class == events.ClassOK || e.class == events.ClassTool || e.class == events.ClassInput
			switch {
			case success && (mine || open.IsZero()):
				streak, open, probe = 0, time.Time{}, ""
			case failure:
				streak++
				if mine || open.IsZero() && streak >= lifecycle.BreakerFailures {
					open = e.at
				}
			}
		}
	}
	if !now.Before(lease) {
		probe = ""
	}
	return open, probe
}

func TestBreakerAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, m := &breakerRun{now: start}, &breakerModel{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			r.now = r.now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 30, 61, 299, 301}).Draw(t, "seconds")) * time.Second)
			who := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who")
			open, probe := m.state(r.now)
			half := !open.IsZero() && !r.now.Before(open.Add(lifecycle.BreakerWindow))
			may := open.IsZero() || half && (probe == "" || probe == who)
			if peek := open.IsZero() || half && probe == ""; r.Peek(r.c, r.now) != peek {
				t.Fatalf("peek is not %t of %+v", peek, r.Breaker)
			}
			if rapid.Bool().Draw(t, "admit") {
				if got := r.admit(who); got != may {
					t.Fatalf("admit %s: got %t, want %t of %+v", who, got, may, r.Breaker)
				}
				if may {
					m.log = append(m.log, breakerEntry{at: r.now, who: who, probed: half})
				}
				continue
			}
			class := rapid.SampledFrom(classes).Draw(t, "class")
			r.report(who, class)
			m.log = append(m.log, breakerEntry{at: r.now, who: who, class: class})
		}
	})
}

// TestDedupe has every way in which the holder of a key may stand.
func TestDedupe(t *testing.T) {
	me := events.CallKey{Trace: "u", Turn: "1", Offset: 0}
	holder := "t/1/0"
	for _, c := range []struct {
		name string
		said []string
		want lifecycle.DedupeRuling
		as   events.Kind
		says string
	}{
		{"no events", nil, lifecycle.KeyTake, "", ""},
		{"not planned", []string{"submit pay"}, lifecycle.KeyTake, "", ""},
		{"requested", []string{"submit pay", "claim n1", "plan"}, lifecycle.KeyWait, "", ""},
		{"running", begunPay(), lifecycle.KeyWait, "", ""},
		{"completed", begunPay("settle 0 ok"), lifecycle.KeyReuse, events.KindCompleted, "done"},
		{"failed, no effects", begunPay("settle 0 tool effects=none"), lifecycle.KeyTake, "", ""},
		{"failed, and done", begunPay("settle 0 tool effects=done"), lifecycle.KeyReuse, events.KindFailed, ""},
		{"failed, nobody knows", begunPay("settle 0 tool effects=possible"), lifecycle.KeyBlocked, "", ""},
		{"timed out", begunPay("settle 0 timeout unanswered"), lifecycle.KeyBlocked, "", ""},
		{"cancelled while it ran", begunPay("cancel 0", "settle 0 cancelled unanswered"), lifecycle.KeyBlocked, "", ""},
		{"cancelled before", []string{"submit pay", "claim n1", "plan", "cancel 0", "advance"}, lifecycle.KeyTake, "", ""},
		{"denied", []string{"submit pay", "claim n1", "plan", "judge 0 deny=allow:ACCESS_DENIED"}, lifecycle.KeyTake, "", ""},
		{"lost, being asked", begunPay("crash"), lifecycle.KeyWait, "", ""},
		{"lost", begunPay("crash", "probe 0 failed"), lifecycle.KeyBlocked, "", ""},
		{"resolved: done", begunPay("crash", "probe 0 failed", "resolve 0 done"), lifecycle.KeyReuse, events.KindCompleted, ""},
		{"resolved: none", begunPay("crash", "probe 0 failed", "resolve 0 none"), lifecycle.KeyTake, "", ""},
		{"resolved by its late answer", begunPay("crash", "probe 0 failed", "late 0 attempt=1 from=n1/1 ok"), lifecycle.KeyReuse, events.KindCompleted, "came late"},
		{"itself a duplicate of a read", []string{"submit pay", "claim n1", "plan", "judge 0 reuse=t/0/9:completed effects=none"}, lifecycle.KeyReuse, events.KindCompleted, ""},
		{"itself a duplicate", []string{"submit pay", "claim n1", "plan", "judge 0 reuse=t/0/9:completed"}, lifecycle.KeyReuse, events.KindCompleted, "of the first one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			sp := &speaker{world: w}
			for _, line := range c.said {
				sp.line(t, line)
			}
			entry := &lifecycle.KeyEntry{Holder: holder, Hash: "h"}
			got, d := lifecycle.Dedupe(me, "h", entry, w.turn)
			if got != c.want || (d != nil) != (c.want == lifecycle.KeyReuse) {
				t.Fatalf("got %s, %v, want %s", got, d, c.want)
			}
			if d != nil && (d.As != c.as || c.says != "" && d.Outcome.Result.Text.Text != c.says) {
				t.Errorf("got %s, %q, want %s, %q", d.As, d.Outcome.Result.Text.Text, c.as, c.says)
			}
			other, _ := lifecycle.Dedupe(me, "other", entry, w.turn)
			if c.want != lifecycle.KeyTake && other != lifecycle.KeyConflict {
				t.Errorf("with other arguments: got %s, want %s", other, lifecycle.KeyConflict)
			}
		})
	}
}

func begunPay(more ...string) []string {
	return append([]string{"submit pay", "claim n1", "plan", "judge 0", "begin 0"}, more...)
}

// TestDedupeFindings: the finding says what the ruling means, with a sentence.
func TestDedupeFindings(t *testing.T) {
	e := &lifecycle.KeyEntry{Holder: "t/1/0", Hash: "h"}
	d := &events.Deduplicated{Of: "t/1/0"}
	for r, want := range map[lifecycle.DedupeRuling]lifecycle.Finding{
		lifecycle.KeyTake:     {Ruling: lifecycle.Pass},
		lifecycle.KeyMine:     {Ruling: lifecycle.Pass},
		lifecycle.KeyReuse:    {Ruling: lifecycle.Reuse},
		lifecycle.KeyWait:     {Ruling: lifecycle.Wait},
		lifecycle.KeyBlocked:  {Ruling: lifecycle.Deny, Code: events.UnknownOutcome},
		lifecycle.KeyConflict: {Ruling: lifecycle.Deny, Code: events.IdempotencyConflict},
	} {
		got := lifecycle.DedupeFinding(r, "k", e, d)
		if got.Gate != lifecycle.GateDedupe || got.Ruling != want.Ruling || got.Code != want.Code {
			t.Errorf("%s: got %+v, want %+v", r, got, want)
		}
		if (got.Reason == "") != (want.Ruling == lifecycle.Pass || want.Ruling == lifecycle.Reuse) {
			t.Errorf("%s: the reason is %q", r, got.Reason)
		}
		if r == lifecycle.KeyReuse && (got.Reuse == nil || got.Reuse.Key != "k") {
			t.Errorf("%s: it does not say which key", r)
		}
	}
	me := events.CallKey{Trace: "t", Turn: "1", Offset: 0}
	for name, entry := range map[string]*lifecycle.KeyEntry{
		"none": nil, "points nowhere": {Holder: "nowhere"}, "of another call's turn": {Holder: "t/1/7"},
	} {
		if got, _ := lifecycle.Dedupe(me, "h", entry, lifecycle.Turn{}); got != lifecycle.KeyTake {
			t.Errorf("an entry that %s: got %s, want %s", name, got, lifecycle.KeyTake)
		}
	}
	if got, _ := lifecycle.Dedupe(me, "h", e, lifecycle.Turn{}); got != lifecycle.KeyMine {
		t.Errorf("its own entry: got %s, want %s", got, lifecycle.KeyMine)
	}
}

// Two nodes ask for one key at the same instant: whichever writes its entry first
// runs, the other one waits for its answer.
func TestSameKeyAtOnce(t *testing.T) {
	one := events.CallKey{Trace: "t", Turn: "1", Offset: 0}
	two := events.CallKey{Trace: "t", Turn: "2", Offset: 0}
	w := newWorld()
	sp := &speaker{world: w}
	for _, line := range begunPay() {
		sp.line(t, line)
	}
	first, _ := lifecycle.Dedupe(one, "h", nil, w.turn)
	second, _ := lifecycle.Dedupe(two, "h", nil, lifecycle.Turn{})
	if first != lifecycle.KeyTake || second != lifecycle.KeyTake {
		t.Fatalf("both find the key free: got %s and %s", first, second)
	}
	entry := &lifecycle.KeyEntry{Holder: one.String(), Hash: "h"} // the first one's write; the second's fails, and it looks again
	if got, _ := lifecycle.Dedupe(two, "h", entry, w.turn); got != lifecycle.KeyWait {
		t.Errorf("the second finds %s, want %s", got, lifecycle.KeyWait)
	}
	sp.line(t, "settle 0 ok")
	got, d := lifecycle.Dedupe(two, "h", entry, w.turn)
	if got != lifecycle.KeyReuse || d.Of != one.String() {
		t.Errorf("the first has ended: got %s, %v", got, d)
	}
}

// An earlier owner of a call neither gives its successor's hold back nor renews over
// it; a hold that ran out is renewed if nobody else wanted the lock.
func TestLockOfTwoOwners(t *testing.T) {
	hold := func(boot string, at time.Time) lifecycle.Hold {
		return lifecycle.Hold{Call: "t/1/0", Boot: boot, Exclusive: true, Until: at.Add(lifecycle.LockTTL)}
	}
	later := start.Add(2 * lifecycle.LockTTL)
	l, _ := lifecycle.LockState{}.Take(start, hold("n1", start))
	if next, ok := l.Renew(later, hold("n1", later)); !ok || !next.Held(later, "t/1/0", "n1") {
		t.Errorf("it ran out, and nobody wanted it: got %v", next)
	}
	if _, ok := (lifecycle.LockState{}).Renew(later, hold("n1", later)); ok {
		t.Error("it ran out, its cell is gone, and it is renewed: others may have come and gone meanwhile")
	}
	l, _ = l.Take(start, hold("n2", start))
	if next, ok := l.Renew(start, hold("n1", start)); ok || !next.Held(start, "t/1/0", "n2") {
		t.Errorf("the earlier owner renews over the next one: got %v", next)
	}
	if next := l.FreeOn(start, "t/1/0", "n1"); !next.Held(start, "t/1/0", "n2") {
		t.Errorf("the earlier owner gives the next one's hold back: got %v", next)
	}
	if next := l.FreeOn(start, "t/1/0", "n2"); !next.Empty(start) {
		t.Errorf("its own hold stays: got %v", next)
	}
	other := lifecycle.Hold{Call: "t/2/0", Boot: "n1", Exclusive: true, Until: later.Add(lifecycle.LockTTL)}
	l, _ = l.Take(later, other)
	if _, ok := l.Renew(later, hold("n2", later)); ok || !l.Held(later, "t/2/0", "n1") {
		t.Errorf("renewed, and somebody else has it: got %v", l)
	}
	waits, _ := l.Take(later, hold("n2", later))
	if next := waits.FreeOn(later, "t/1/0", "n2"); len(next.Waiting) > 0 {
		t.Errorf("its place among the waiting stays: got %v", next)
	}
}
