package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
)

// TestWorkerRows: a worker that has fallen silent is shown as silent, and what a process
// runs is said once.
func TestWorkerRows(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	seat := func(name, status string, ago time.Duration) bus.WorkerSeat {
		return bus.WorkerSeat{Worker: name, Status: status, Definition: "d", Heard: at.Add(-ago), Running: 2, Room: 16}
	}
	rows := workerRows(bus.WorkerTools{At: at, Tools: []bus.WorkerView{
		{Tool: "order", Status: "serving", Tier: "irreversible", Declared: "irreversible", Workers: []bus.WorkerSeat{
			seat("u.dead", "serving", 14*time.Second), seat("u.well", "serving", 2*time.Second), seat("u.odd", "refused", 14*time.Second),
		}},
		{Tool: "sum", Status: "serving", Tier: "readonly", Declared: "irreversible", Workers: []bus.WorkerSeat{seat("u.well", "serving", 2*time.Second)}},
		{Tool: "away", Status: "waiting", Tier: "readonly", Declared: "readonly"},
	}})
	var got []string
	for _, row := range rows[1:] {
		got = append(got, strings.Join(row, "|"))
	}
	want := []string{
		"order|silent|irreversible|d|u.dead|2 of 16|14s ago|",
		"order|serving|irreversible|d|u.well|2 of 16|2s ago|",
		"order|refused|irreversible|d|u.odd|2 of 16|14s ago|",
		"sum|serving|readonly (declared irreversible)|d|u.well|(see above)|2s ago|",
		"away|waiting|readonly|-|-|-|-|-",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}
