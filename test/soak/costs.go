package main

import (
	"fmt"
	"math"
)

// costs says what each call that is kept has cost: on disk, and in the memory of
// the processes that keep the log.
func (r *record) costs(keepers []string) []string {
	var out []string
	for _, c := range r.perCall() {
		if n := len(c.points); n > 0 {
			out = append(out, fmt.Sprintf("     %-24s %.1f KiB on disk for each call kept, on each server", c.name, c.points[n-1].v))
		}
	}
	calls := r.series(loadRetained)
	for _, k := range keepers {
		each := slopeOf(r.warm(calls), r.warm(r.series(figRSS+"."+k)))
		kept, _ := r.last(loadRetained)
		if math.IsNaN(each) {
			continue
		}
		out = append(out, fmt.Sprintf("     %-24s %+.0f B resident for each call kept, by the slope over %.0f calls; the newest blocks of the streams are in it", k, each, kept))
	}
	if all := r.subjects(); len(all) > 0 {
		last := all[len(all)-1].v
		out = append(out, fmt.Sprintf("     %-24s %.0f at the end, %d B each allowed for: %.1f MiB", "subjects", last, subjectBytes, last*subjectBytes/(1<<20)))
	}
	return out
}

// slopeOf is the slope of one value over another one that was measured with it.
func slopeOf(over, of []point) float64 {
	var xs, ys []float64
	i := 0
	for _, p := range of {
		for i < len(over) && over[i].at < p.at {
			i++
		}
		if i < len(over) && over[i].at == p.at {
			xs, ys = append(xs, over[i].v), append(ys, p.v)
		}
	}
	return slope(xs, ys)
}
