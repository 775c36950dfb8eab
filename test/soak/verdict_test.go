package main

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// made is a record of 400 s, 40 of them quiet before the load and 40 behind it,
// with one value that f gives.
func made(name string, f func(at float64) float64) *record {
	r := &record{begin: 40 * time.Second, end: 360 * time.Second}
	for s := 2.0; s < 400; s += 2 {
		one := sample{at: time.Duration(s * float64(time.Second)), phase: phaseLoad, values: map[string]float64{}}
		if s < 40 {
			one.phase = phaseIdle
		}
		if s > 360 {
			one.phase = phaseQuiet
		}
		if v := f(s); !math.IsNaN(v) {
			one.values[name] = v
		}
		r.samples = append(r.samples, one)
	}
	return r
}

func TestFlat(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	noise := func(by float64) float64 { return (rnd.Float64() - 0.5) * by }
	u := rule{figure: "goroutines", scale: 1, share: 0.2, least: 40}
	for name, c := range map[string]struct {
		f  func(float64) float64
		ok bool
	}{
		"flat":                        {func(float64) float64 { return 100 }, true},
		"flat and noisy":              {func(float64) float64 { return 100 + noise(60) }, true},
		"a growth within the margin":  {func(at float64) float64 { return 100 + at/12 }, true},
		"a leak":                      {func(at float64) float64 { return 100 + at/2 }, false},
		"a noisy leak":                {func(at float64) float64 { return 100 + at/2 + noise(60) }, false},
		"a leak that is reset":        {func(at float64) float64 { return 100 + math.Mod(at, 80) }, true},
		"one that outlives resets":    {func(at float64) float64 { return 100 + math.Mod(at, 80)/4 + at/2 }, false},
		"a steep warm-up":             {func(at float64) float64 { return 500 * min(1, at/100) }, true},
		"spikes":                      {func(at float64) float64 { return 100 + 5000*math.Floor(math.Mod(at, 40)/30) }, true},
		"one spike at the end":        {func(at float64) float64 { return 100 + 900*math.Floor(at/350) }, true},
		"a stair up":                  {func(at float64) float64 { return 100 + 80*math.Floor(at/100) }, false},
		"falling":                     {func(at float64) float64 { return 1000 - at }, true},
		"nothing at all in a quarter": {func(at float64) float64 { return onlyUntil(at, 250) }, false},
	} {
		f := made("goroutines.n1", c.f).flat("goroutines.n1", u, nil)
		if f.ok != c.ok {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// onlyUntil is 100 up to a time, and not measured from then on.
func onlyUntil(at, end float64) float64 {
	if at > end {
		return math.NaN()
	}
	return 100
}

// TestKnownCosts: memory that the log is known to need is no leak, more of it is,
// and it is none for a process that does not keep the log.
func TestKnownCosts(t *testing.T) {
	subjects := func(at float64) float64 { return at * 4000 }
	for _, c := range []struct {
		each   float64
		keeper bool
		ok     bool
	}{{subjectBytes, true, true}, {3 * subjectBytes, true, false}, {subjectBytes, false, false}} {
		r := made("rss.s1", func(at float64) float64 { return 50<<20 + c.each*subjects(at) })
		for i, s := range r.samples {
			r.samples[i].values[figSubjects+".SLUICE"] = subjects(s.at.Seconds())
		}
		var keepers []string
		if c.keeper {
			keepers = []string{"s1"}
		}
		i := slices.IndexFunc(r.judge(keepers), func(f finding) bool { return f.what == "rss.s1" })
		if f := r.judge(keepers)[i]; f.ok != c.ok {
			t.Errorf("%+v: %v", c, f)
		}
	}
}

func TestRested(t *testing.T) {
	u := rule{figure: "files", scale: 1, share: 0.2, least: 15}
	for name, c := range map[string]struct {
		after float64
		ok    bool
	}{"came back": {42, true}, "a little more": {55, true}, "stayed": {90, false}, "not measured": {math.NaN(), false}} {
		r := made("files.n1", func(at float64) float64 {
			switch {
			case at < 40:
				return 40
			case at > 360:
				return c.after
			}
			return 200
		})
		if f := r.rested("files.n1", u); f.ok != c.ok {
			t.Errorf("%s: %v", name, f)
		}
	}
}

func TestEmptied(t *testing.T) {
	r := made(lagRead, func(float64) float64 { return 0 })
	last := r.samples[len(r.samples)-1].values
	maps.Copy(last, map[string]float64{"messages.SLUICE_TURNS": 0, timersSet: 0, "turns.n1": 0})
	if bad := failed(r.emptied()); len(bad) != 0 {
		t.Errorf("%v", bad)
	}
	for _, name := range []string{"messages.SLUICE_TURNS", timersSet, lagRead, "turns.n1"} {
		was := last[name]
		last[name] = 3
		if bad := failed(r.emptied()); !slices.Equal(bad, []string{name}) {
			t.Errorf("3 of %s: %v", name, bad)
		}
		last[name] = was
	}
	last[timersSet], r.marks = 2, []mark{{kind: "kill a node"}, {kind: "pause a node"}, {kind: "kill a leader"}}
	if bad := failed(r.emptied()); len(bad) != 0 || r.drained() {
		t.Errorf("two timers behind two kills: %v, drained: %v", bad, r.drained())
	}
	delete(last, timersSet)
	if bad := failed(r.emptied()); !slices.Equal(bad, []string{timersSet}) {
		t.Errorf("never measured: %v", bad)
	}
}

// lawful is what a soak finds when all is right.
func lawful() *outcome {
	return &outcome{
		calls:     map[string]string{"a/t/0": "charge", "a/t/1": "echo", "b/t/0": "charge", "c/t/0": "approve_me"},
		terminals: map[string]int{"a/t/0": 1, "a/t/1": 1, "b/t/0": 1, "c/t/0": 1},
		answers: map[string]answer{
			"a/t/0": {"completed", "done"}, "a/t/1": {"completed", "none"}, "b/t/0": {"deduplicated", "done"}, "c/t/0": {"denied", "none"},
		},
		ledger:   []effect{{"charge", "a/t/0", "k"}, {"reserve", "x", ""}, {"reserve", "x", ""}},
		verified: true,
	}
}

func TestAccount(t *testing.T) {
	if bad := failed(lawful().account()); len(bad) != 0 {
		t.Fatalf("all is right, and it says %v", lawful().account())
	}
	for name, c := range map[string]struct {
		spoil func(*outcome)
		what  string
		says  string
	}{
		"no end":             {func(o *outcome) { delete(o.terminals, "a/t/1") }, "terminals", "a/t/1 has 0 terminals"},
		"two ends":           {func(o *outcome) { o.terminals["a/t/1"] = 2 }, "terminals", "a/t/1 has 2 terminals"},
		"nobody's call":      {func(o *outcome) { o.terminals["z/t/0"] = 1 }, "terminals", "z/t/0 was never submitted"},
		"a turn that is on":  {func(o *outcome) { o.unended = []string{"a/t has not ended"} }, "terminals", "a/t has not ended"},
		"a call twice":       {func(o *outcome) { o.ledger = append(o.ledger, effect{"charge", "a/t/0", "k2"}) }, "ledger", "call a/t/0: 2 times"},
		"a key twice":        {func(o *outcome) { o.ledger = append(o.ledger, effect{"charge", "b/t/0", "k"}) }, "ledger", "key k: 2 times"},
		"a charge denied":    {func(o *outcome) { o.answers["a/t/0"] = answer{"failed", "none"} }, "answers", "says failed without effects"},
		"a charge made up":   {func(o *outcome) { o.ledger = o.ledger[1:] }, "answers", "never happened"},
		"a refusal":          {func(o *outcome) { o.refused = []string{"422"} }, "requests", "422"},
		"a node that stays":  {func(o *outcome) { o.broken = []string{"n1 does not start"} }, "injector", "n1"},
		"a law that broke":   {func(o *outcome) { o.verified, o.verify = false, "L2" }, "verify", "L2"},
		"seven, five listed": {func(o *outcome) { o.refused = strings.Fields("1 2 3 4 5 6 7") }, "requests", "and 2 more"},
	} {
		o := lawful()
		c.spoil(o)
		all := o.account()
		if bad := failed(all); !slices.Equal(bad, []string{c.what}) {
			t.Errorf("%s: %v", name, all)
		}
		if !slices.ContainsFunc(all, func(f finding) bool { return !f.ok && strings.Contains(f.says, c.says) }) {
			t.Errorf("%s: nothing says %q: %v", name, c.says, all)
		}
	}
}

func TestSlopeIgnoresAQuarter(t *testing.T) {
	var xs, ys []float64
	for i := range 2000 { // more than maxPairs
		x := float64(i)
		y := 7 + x/4
		if i%5 == 0 {
			y = 1e6
		}
		xs, ys = append(xs, x), append(ys, y)
	}
	if got := slope(xs, ys); math.Abs(got-0.25) > 0.01 {
		t.Errorf("slope %g", got)
	}
	if got := slope([]float64{1, 1}, []float64{1, 2}); !math.IsNaN(got) {
		t.Errorf("of one x: %g", got)
	}
}

func TestPlansComeFromTheSeed(t *testing.T) {
	seen := map[string]int{}
	for n := range 2000 {
		p, q := mix{5}.plan(n), mix{5}.plan(n)
		if p.kind != q.kind || p.key() != q.key() || len(p.Calls) != len(q.Calls) || len(p.Calls) == 0 || p.cancel != q.cancel {
			t.Fatalf("turn %d: %+v and %+v", n, p, q)
		}
		if got, ours := (mix{5}).number(p.Trace, p.Turn); !ours || got != n {
			t.Fatalf("turn %d is known as %d, %v", n, got, ours)
		}
		seen[p.kind]++
	}
	if _, ours := (mix{6}).number((mix{5}).plan(1).Trace, "t1"); ours {
		t.Error("the turn of another seed counts as ours")
	}
	if len(seen) != len(kinds) {
		t.Errorf("%v of %d kinds", seen, len(kinds))
	}
	for _, k := range kinds {
		if got, want := float64(seen[k.name])/2000, float64(k.share)/float64(total()); got < want/2 || got > want*2 {
			t.Errorf("%s: %.3f of all, want %.3f", k.name, got, want)
		}
	}
}

// TestKeepersHaveBlocks: what a server may take for the newest blocks of its
// streams is too much for a node that keeps no log.
func TestKeepersHaveBlocks(t *testing.T) {
	r := made("rss.n1", func(at float64) float64 { return 50<<20 + at*(1<<20)/4 }) // 40 MiB between the quarters' middles
	for keeper, ok := range map[string]bool{"n1": true, "s1": false} {
		i := slices.IndexFunc(r.judge([]string{keeper}), func(f finding) bool { return f.what == "rss.n1" })
		if f := r.judge([]string{keeper})[i]; f.ok != ok {
			t.Errorf("%s keeps the log: %v", keeper, f)
		}
	}
}

func TestStill(t *testing.T) {
	for gap, ok := range map[float64]bool{2: true, 50: true, 70: false, 400: false} {
		r := made(loadEnded, func(at float64) float64 {
			if at > 100 && at < 100+gap {
				return 0
			}
			return 3
		})
		f := r.still()
		if f.ok != ok || gap < 400 && !strings.Contains(f.says, fmt.Sprintf("at most %.0f s", gap)) {
			t.Errorf("%.0f s: %v", gap, f)
		}
	}
}
