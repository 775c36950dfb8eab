package deciders

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run only this seed, and print what happens")
	seedsFlag = flag.Int("seeds", 300, "how many seeds to run, from 1")
)

// TestDeciders runs seeds until one breaks a law.
func TestDeciders(t *testing.T) {
	if *seedFlag != 0 {
		s := newSim(*seedFlag)
		s.tracing = true
		err := s.run()
		t.Logf("seed %d:\n%s", *seedFlag, strings.Join(s.trace, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	seeds := *seedsFlag
	if testing.Short() {
		seeds = min(seeds, 200)
	}
	var next, steps atomic.Uint64
	t.Run("seeds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1); seed <= uint64(seeds) && !t.Failed(); seed = next.Add(1) {
					s := newSim(seed)
					if err := s.run(); err != nil {
						t.Errorf("%v\nreproduce: go test ./test/sim/deciders -run Deciders -seed=%d", err, seed)
					}
					steps.Add(uint64(s.steps))
				}
			})
		}
	})
	t.Logf("seeds 1 to %d, %d steps", seeds, steps.Load())
}

// TestSeedDecidesAll: one seed is one run, to the last step.
func TestSeedDecidesAll(t *testing.T) {
	for seed := range uint64(20) {
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
	var all counts
	for seed := range uint64(300) {
		s := newSim(seed + 1)
		if err := s.run(); err != nil {
			t.Fatalf("seed %d: %v", seed+1, err)
		}
		all.add(&s.counts)
	}
	for _, what := range all.missing() {
		t.Errorf("in 300 seeds there was no %s", what)
	}
	if testing.Verbose() {
		fmt.Fprintln(os.Stderr, all.String())
	}
}
