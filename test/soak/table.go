package main

import (
	"encoding/csv"
	"io"
	"strconv"
)

// table writes all samples as CSV: a row for each, a column for each value that
// was ever measured, empty where it could not be.
func (r *record) table(w io.Writer) error {
	out := csv.NewWriter(w)
	names := r.names()
	rows := [][]string{append([]string{"seconds", "phase", "faults"}, names...)}
	before := -1.0
	for _, s := range r.samples {
		at := s.at.Seconds()
		row := []string{strconv.FormatFloat(at, 'f', 3, 64), s.phase, r.since(before, at)}
		for _, n := range names {
			cell := ""
			if v, ok := s.values[n]; ok {
				cell = strconv.FormatFloat(v, 'g', 10, 64)
			}
			row = append(row, cell)
		}
		rows, before = append(rows, row), at
	}
	return out.WriteAll(rows)
}

// since names the faults that began after one sample, up to the next one.
func (r *record) since(from, to float64) string {
	said := ""
	for _, m := range r.marks {
		if at := m.from.Seconds(); at > from && at <= to {
			if said != "" {
				said += " "
			}
			said += m.kind + ":" + m.target
		}
	}
	return said
}
