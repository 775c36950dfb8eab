package main

import (
	"slices"
	"strings"
	"time"
)

// The phases of a soak, in their order.
const (
	phaseIdle  = "idle"  // nothing is asked of the nodes yet
	phaseLoad  = "load"  // turns come in, and faults
	phaseCalm  = "calm"  // no more of either: what is open ends
	phaseQuiet = "quiet" // everything has ended
)

// Figures that are measured. A value's name is the figure, a dot, and of what.
const (
	figRSS        = "rss"         // bytes; of a process
	figHeap       = "heap"        // bytes; of a node
	figGoroutines = "goroutines"  // of a process
	figFiles      = "files"       // open descriptors; of a process
	figTurns      = "turns"       // in memory; of a node
	figAttempts   = "attempts"    // that run; of a node
	figMessages   = "messages"    // of a stream
	figBytes      = "bytes"       // of a stream
	figSubjects   = "subjects"    // of a stream
	figPending    = "pending"     // of a consumer of the queue
	figUnacked    = "unacked"     // of a consumer of the queue
	lagRead       = "lag.read"    // messages that the mirror is behind the log
	timersSet     = "timers.set"  // that have not fired
	loadOpen      = "load.open"   // turns that were submitted and have not ended
	loadEnded     = "load.ended"  // calls that ended since the last sample
	loadRate      = "load.rate"   // the same, a second
	loadP50       = "load.p50"    // seconds from a turn's submission to its end, of those since the last sample
	loadP99       = "load.p99"    // the same
	loadErrors    = "load.errors" // requests that had to be repeated, since the last sample
	loadUnknown   = "load.unknown"
	loadRetained  = "load.retained" // calls that have ended, all told
)

// sample is what was measured at one moment. What could not be is missing.
type sample struct {
	at     time.Duration // since the beginning
	phase  string
	values map[string]float64 // by figure and of what, such as rss.n1
}

// mark is one fault.
type mark struct {
	kind, target string
	from, to     time.Duration
}

// record is a soak, as it was measured.
type record struct {
	title      string // seed, duration, commit
	samples    []sample
	marks      []mark
	begin, end time.Duration // of the load
}

// series is one value over all samples.
func (r *record) series(name string) []point {
	var out []point
	for _, s := range r.samples {
		if v, ok := s.values[name]; ok {
			out = append(out, point{s.at, v})
		}
	}
	return out
}

// during are a value's points in one phase.
func (r *record) during(name, phase string) []point {
	var out []point
	for _, s := range r.samples {
		if v, ok := s.values[name]; ok && s.phase == phase {
			out = append(out, point{s.at, v})
		}
	}
	return out
}

// names are all values that were ever measured, in the order of their names.
func (r *record) names() []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range r.samples {
		for n := range s.values {
			if !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out
}

// of are the names of what a figure was measured of.
func (r *record) of(figure string) []string {
	var out []string
	for _, n := range r.names() {
		if rest, ok := strings.CutPrefix(n, figure+"."); ok {
			out = append(out, rest)
		}
	}
	return out
}

// last is a value of the last sample that has it.
func (r *record) last(name string) (float64, bool) {
	for _, s := range slices.Backward(r.samples) {
		if v, ok := s.values[name]; ok {
			return v, true
		}
	}
	return 0, false
}
