package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// finding is one thing that was looked at.
type finding struct {
	ok   bool
	what string // name of the figure or the promise
	says string
}

func (f finding) String() string {
	word := "ok  "
	if !f.ok {
		word = "FAIL"
	}
	return fmt.Sprintf("%s %-24s %s", word, f.what, f.says)
}

// rule is how much a figure may grow from the second quarter of the load to the
// last one. The first quarter is the warm-up.
type rule struct {
	figure string
	unit   string
	scale  float64 // the unit, in what is measured
	share  float64 // of the level in the second quarter
	least  float64 // what is always allowed
	// For a process that keeps the log: blocks is allowed instead of least, and known
	// is what each subject that the log retains costs, which does not count as growth.
	blocks, known float64
}

// keeping is the rule for a process that keeps the log.
func (u rule) keeping() rule {
	u.least = max(u.least, u.blocks)
	return u
}

// subjectBytes is the memory that a NATS server needs for one subject of a stream.
// A turn has one in the log and one in the mirror.
const subjectBytes = 275

// rules are the figures that have to be flat. A server keeps the newest block of
// each stream in memory, up to 8 MiB, and a Go program's heap swings by half.
var rules = []rule{
	{figure: figRSS, unit: "MiB", scale: 1 << 20, share: 0.25, least: 24 << 20, blocks: 64 << 20, known: subjectBytes},
	{figure: figHeap, unit: "MiB", scale: 1 << 20, share: 0.5, least: 16 << 20, blocks: 48 << 20, known: subjectBytes},
	{figure: figGoroutines, scale: 1, share: 0.2, least: 40},
	{figure: figFiles, scale: 1, share: 0.2, least: 15},
	{figure: figTurns, scale: 1, share: 0.5, least: 40},
	{figure: figPending, scale: 1, share: 0.5, least: 40},
	{figure: figUnacked, scale: 1, share: 0.5, least: 40},
}

// steady are the values without a process of their own that have to be flat.
var steady = []rule{
	{figure: lagRead, unit: "messages", scale: 1, share: 0.5, least: 200},
	{figure: loadOpen, unit: "turns", scale: 1, share: 0.5, least: 40},
	{figure: loadP50, unit: "s", scale: 1, share: 1, least: 0.5},
}

// quarter are the points of one quarter of the load, from 1 to 4.
func (r *record) quarter(all []point, n int) []point {
	span := r.end - r.begin
	return within(all, r.begin+span*time.Duration(n-1)/4, r.begin+span*time.Duration(n)/4)
}

// warm are the points of the load behind its first quarter.
func (r *record) warm(all []point) []point {
	return within(all, r.begin+(r.end-r.begin)/4, r.end)
}

// level is what a value comes down to between the faults: a quarter of the points
// stay below it. A leak lifts it; what a fault holds up for a while does not.
func level(all []point) float64 {
	vs := make([]float64, len(all))
	for i, p := range all {
		vs[i] = p.v
	}
	return quantile(vs, 0.25)
}

// flat judges one value. It has grown where both say so: the level of the last
// quarter against that of the second, and the slope over everything behind the
// warm-up. One outlier, or one late step back to where it was, makes neither.
func (r *record) flat(name string, u rule, retained []point) finding {
	f := finding{what: name}
	points := without(r.series(name), retained, u.known)
	second, fourth := r.quarter(points, 2), r.quarter(points, 4)
	if len(second) < 2 || len(fourth) < 2 {
		f.says = fmt.Sprintf("measured %d and %d times in the second and the last quarter: it takes two", len(second), len(fourth))
		return f
	}
	was, is := level(second), level(fourth)
	margin := max(u.least, u.share*math.Abs(was))
	steep := drift(r.warm(points)) * (r.end - r.begin).Seconds() / 2 // between the middles of the two quarters
	f.ok = is-was <= margin || steep <= margin
	f.says = fmt.Sprintf("%s → %s %s, allowed +%s; by its slope %+.*f",
		u.number(was), u.number(is), u.unit, u.number(margin), u.digits(), steep/u.scale)
	if !f.ok {
		f.says = "it grew: " + f.says
	}
	return f
}

func (u rule) digits() int {
	if u.scale == 1 && u.least >= 1 {
		return 0
	}
	return 1
}

func (u rule) number(v float64) string { return fmt.Sprintf("%.*f", u.digits(), v/u.scale) }

// without takes off what each retained subject is known to cost.
func without(all, retained []point, each float64) []point {
	if each == 0 || len(retained) == 0 {
		return all
	}
	out := make([]point, len(all))
	i := 0
	for n, p := range all {
		for i+1 < len(retained) && retained[i+1].at <= p.at {
			i++
		}
		out[n] = point{p.at, p.v - each*retained[i].v}
	}
	return out
}

// subjects is how many subjects all streams have together, over time.
func (r *record) subjects() []point {
	var out []point
	streams := r.of(figSubjects)
	for _, s := range r.samples {
		sum, all := 0.0, true
		for _, st := range streams {
			v, ok := s.values[figSubjects+"."+st]
			sum, all = sum+v, all && ok
		}
		if all && len(streams) > 0 {
			out = append(out, point{s.at, sum})
		}
	}
	return out
}

// rested says whether a value has come back, with nothing left to do, to where it
// was before there was anything.
func (r *record) rested(name string, u rule) finding {
	f := finding{what: name + " at rest"}
	before, after := r.during(name, phaseIdle), r.during(name, phaseQuiet)
	if len(before) == 0 || len(after) == 0 {
		f.says = fmt.Sprintf("measured %d times before the load and %d times behind it: it takes one", len(before), len(after))
		return f
	}
	was, is := median(before), median(after)
	margin := max(u.least, u.share*was)
	f.ok = is-was <= margin
	f.says = fmt.Sprintf("%s → %s %s, allowed +%s", u.number(was), u.number(is), u.unit, u.number(margin))
	if !f.ok {
		f.says = "it stayed: " + f.says
	}
	return f
}

// judge looks at everything that has to be flat. keepers are the processes that
// keep the log.
func (r *record) judge(keepers []string) []finding {
	var out []finding
	retained := r.subjects()
	for _, u := range rules {
		for _, of := range r.of(u.figure) {
			name, mine, kept := u.figure+"."+of, u, []point(nil)
			if slices.Contains(keepers, of) {
				mine, kept = u.keeping(), retained
			}
			out = append(out, r.flat(name, mine, kept))
		}
	}
	for _, u := range steady {
		out = append(out, r.flat(u.figure, u, nil))
	}
	for _, u := range rules {
		if u.figure != figGoroutines && u.figure != figFiles {
			continue
		}
		for _, of := range r.of(u.figure) {
			out = append(out, r.rested(u.figure+"."+of, u))
		}
	}
	return out
}
