package main

import (
	"strings"
	"time"
)

// panel is one plot of the picture.
type panel struct {
	title  string
	unit   string // of the vertical axis
	log    bool   // the axis is logarithmic
	curves []curve
}

// curve is one line of a panel.
type curve struct {
	name   string
	points []point
}

// panels are the plots, in reading order; two stand in a row. The last place is
// left for the faults.
func (r *record) panels() []panel {
	return []panel{
		{title: "Resident memory", unit: "MiB", curves: r.each(figRSS, 1<<20)},
		{title: "Heap of the nodes", unit: "MiB", curves: r.each(figHeap, 1<<20)},
		{title: "Goroutines", unit: "goroutines", curves: r.each(figGoroutines, 1)},
		{title: "Open files and connections", unit: "descriptors", curves: r.each(figFiles, 1)},
		{title: "Messages kept", unit: "thousand messages", curves: r.streams(figMessages, 1000, kept)},
		{title: "Bytes kept", unit: "MiB", curves: r.streams(figBytes, 1<<20, kept)},
		{title: "What waits", unit: "messages", curves: append(append(r.streams(figMessages, 1, waiting),
			append(r.each(figPending, 1), r.each(figUnacked, 1)...)...),
			curve{"mirror's lag", r.series(lagRead)}, curve{"timers set", r.series(timersSet)})},
		{title: "Turns in memory, and open ones", unit: "turns", curves: append(r.each(figTurns, 1), curve{"open", r.series(loadOpen)})},
		{title: "Calls that ended", unit: "calls/s", curves: []curve{
			{"ended", r.series(loadRate)}, {"unknown", r.perSecond(loadUnknown)}, {"repeated requests", r.perSecond(loadErrors)},
		}},
		{title: "From a turn's submission to its end", unit: "seconds", log: true, curves: []curve{
			{"p50", r.series(loadP50)}, {"p99", r.series(loadP99)},
		}},
		{title: "Store per call kept", unit: "KiB a call", curves: r.perCall()},
	}
}

// Streams whose messages stay, and those whose messages are to go.
var (
	kept    = []string{"SLUICE", "SLUICE_READ", "OBJ_SLUICE_BLOBS", "KV_SLUICE_keys", "SLUICE_TIMERS"}
	waiting = []string{"SLUICE_TURNS", "KV_SLUICE_lock", "KV_SLUICE_presence"}
)

// each is one curve for everything that a figure was measured of.
func (r *record) each(figure string, scale float64) []curve {
	var out []curve
	for _, of := range r.of(figure) {
		name := of
		if figure == figPending || figure == figUnacked {
			name = of + " " + figure
		}
		out = append(out, curve{name, scaled(r.series(figure+"."+of), scale)})
	}
	return out
}

func (r *record) streams(figure string, scale float64, names []string) []curve {
	var out []curve
	for _, n := range names {
		if all := r.series(figure + "." + n); len(all) > 0 {
			out = append(out, curve{short(n), scaled(all, scale)})
		}
	}
	return out
}

// short is a stream's name without what they all begin with.
func short(stream string) string {
	s := strings.NewReplacer("KV_SLUICE_", "kv ", "OBJ_SLUICE_", "", "SLUICE_", "").Replace(stream)
	return strings.ToLower(strings.Replace(s, "SLUICE", "log", 1))
}

func scaled(all []point, by float64) []point {
	out := make([]point, len(all))
	for i, p := range all {
		out[i] = point{p.at, p.v / by}
	}
	return out
}

// perSecond makes a rate of what was counted since the sample before.
func (r *record) perSecond(name string) []point {
	var out []point
	before := time.Duration(0)
	for _, p := range r.series(name) {
		if span := (p.at - before).Seconds(); span > 0 {
			out = append(out, point{p.at, p.v / span})
		}
		before = p.at
	}
	return out
}

// perCall is what the log alone, and all streams together, keep for each call.
func (r *record) perCall() []curve {
	names := []string{"SLUICE"}
	all := r.of(figBytes)
	one := func(streams []string) []point {
		var out []point
		for _, s := range r.samples {
			sum, whole := 0.0, len(streams) > 0
			for _, st := range streams {
				v, ok := s.values[figBytes+"."+st]
				sum, whole = sum+v, whole && ok
			}
			if calls := s.values[loadRetained]; whole && calls >= 20 { // of a few it says nothing
				out = append(out, point{s.at, sum / 1024 / calls})
			}
		}
		return out
	}
	return []curve{{"log", one(names)}, {"all streams", one(all)}}
}
