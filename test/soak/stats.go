package main

import (
	"math"
	"slices"
	"time"
)

// point is one value of a figure at its time.
type point struct {
	at time.Duration
	v  float64
}

// within are the points from a time on, BEFORE another one.
func within(all []point, from, to time.Duration) []point {
	var out []point
	for _, p := range all {
		if p.at >= from && p.at < to {
			out = append(out, p)
		}
	}
	return out
}

// median is the middle value; NaN of none.
func median(all []point) float64 {
	vs := make([]float64, len(all))
	for i, p := range all {
		vs[i] = p.v
	}
	return quantile(vs, 0.5)
}

// quantile is the value that a share of all stays at or below; NaN of none. It
// changes the order of vs.
func quantile(vs []float64, share float64) float64 {
	if len(vs) == 0 {
		return math.NaN()
	}
	slices.Sort(vs)
	i := share * float64(len(vs)-1)
	low := int(i)
	if low == len(vs)-1 {
		return vs[low]
	}
	return vs[low] + (i-float64(low))*(vs[low+1]-vs[low])
}

// maxPairs is how many points a slope is taken over: their pairs are sorted.
const maxPairs = 600

// slope is the median of the slopes between all pairs of points: up to a quarter
// of them may be anything, and it stays. y a unit of x; NaN where there are no
// two different x.
func slope(xs, ys []float64) float64 {
	step := (len(xs) + maxPairs - 1) / maxPairs
	var all []float64
	for i := 0; i < len(xs); i += step {
		for j := i + step; j < len(xs); j += step {
			if xs[i] != xs[j] {
				all = append(all, (ys[j]-ys[i])/(xs[j]-xs[i]))
			}
		}
	}
	return quantile(all, 0.5)
}

// drift is the slope of points over time, a second.
func drift(all []point) float64 {
	xs, ys := make([]float64, len(all)), make([]float64, len(all))
	for i, p := range all {
		xs[i], ys[i] = p.at.Seconds(), p.v
	}
	return slope(xs, ys)
}
