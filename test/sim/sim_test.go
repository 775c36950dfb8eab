package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run only this seed, and print what happens")
	fromFlag  = flag.Uint64("from", 1, "the first seed to run")
	seedsFlag = flag.Uint64("seeds", usual, "how many seeds to run")
)

// usual is how many seeds a run of the tests takes: enough that everything happens.
const usual = 300

// outcome is what has come of some seeds.
type outcome struct {
	failures []string
	steps    int
	counts   counts
}

// run runs seeds, as many at once as there are processors, until one breaks a law.
func run(from, seeds uint64) outcome {
	var (
		all  outcome
		mu   sync.Mutex
		wg   sync.WaitGroup
		next atomic.Uint64
		stop atomic.Bool
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= seeds && !stop.Load(); i = next.Add(1) {
				seed := from + i - 1
				s := newSim(seed)
				err := s.run()
				mu.Lock()
				if err != nil {
					stop.Store(true)
					all.failures = append(all.failures, fmt.Sprintf("%v\nreproduce: go test ./test/sim -run Sim -seed=%d", err, seed))
				}
				all.steps += s.steps
				all.counts.add(&s.counts)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}

// usually runs the usual seeds once, for all tests that look at what comes of them.
var usually = sync.OnceValue(func() outcome { return run(1, usual) })

// TestSim runs seeds until one breaks a law.
func TestSim(t *testing.T) {
	if *seedFlag != 0 {
		one(t, *seedFlag)
		return
	}
	var all outcome
	if *fromFlag == 1 && *seedsFlag == usual {
		all = usually()
	} else {
		all = run(*fromFlag, *seedsFlag)
	}
	for _, f := range all.failures {
		t.Error(f)
	}
	t.Logf("%d seeds from %d, %d steps", *seedsFlag, *fromFlag, all.steps)
}

// one runs a seed and prints what happens.
func one(t *testing.T, seed uint64) {
	s := newSim(seed)
	s.tracing = true
	err := s.run()
	t.Logf("seed %d:\n%s", seed, strings.Join(s.trace, "\n"))
	if err != nil {
		t.Fatal(err)
	}
}

// TestSeedDecidesAll: one seed is one run, to the last step.
func TestSeedDecidesAll(t *testing.T) {
	for seed := range uint64(12) {
		var runs [2]string
		for i := range runs {
			s := newSim(seed + 1)
			s.tracing = true
			runs[i] = fmt.Sprint(s.run(), "\n", strings.Join(s.trace, "\n"))
		}
		if runs[0] != runs[1] {
			one, two := strings.Split(runs[0], "\n"), strings.Split(runs[1], "\n")
			for i := range min(len(one), len(two)) {
				if one[i] != two[i] {
					t.Fatalf("seed %d, line %d:\n%s\n%s", seed+1, i, one[i], two[i])
				}
			}
			t.Fatalf("seed %d: %d lines and %d", seed+1, len(one), len(two))
		}
	}
}

// TestEverythingHappens: a simulator in which something never comes up does not
// look for its faults.
func TestEverythingHappens(t *testing.T) {
	all := usually()
	if len(all.failures) > 0 {
		t.Fatalf("some seeds have failed: %s", all.failures[0])
	}
	for _, what := range all.counts.missing() {
		t.Errorf("in %d seeds there was no %s", usual, what)
	}
	if testing.Verbose() {
		fmt.Fprintln(os.Stderr, all.counts.String())
	}
}
