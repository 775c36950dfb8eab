package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// TestALeaseThatIsOverDoesNotCount among those that run.
func TestALeaseThatIsOverDoesNotCount(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	a := &app{out: &sink{w: &said}, set: newSettings()}
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	held := []gateway.LimitHolder{{Call: "a/b/0", Boot: "live", Until: at}, {Call: "a/b/1", Boot: "dead", Until: at, Over: true}}
	if err := a.tellLimits([]gateway.Limit{{ID: "few", Here: true, Concurrency: 3, Buckets: []gateway.LimitBucket{{Holders: held, Waiting: 4}}}}); err != nil {
		t.Fatal(err)
	}
	is := strings.Join(strings.Fields(said.String()), " ")
	for _, want := range []string{
		"few everybody 3 at once 1 4 -", "few: a/b/0 on live, until " + clock(at),
		"few: a/b/1 on dead, whose lease ended at " + clock(at) + ": the slot is free for the next call",
	} {
		if !strings.Contains(is, want) {
			t.Errorf("no %q in %s", want, is)
		}
	}
}

// TestLimitsThatDoNotLoadChangeNothing, and are refused whole.
func TestLimitsThatDoNotLoadChangeNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	set := newSettings()
	set.limit.file = file
	writeFile(t, file, "limits: [{id: a, tool: x.y, concurrency: 2, wait: 1m}]")
	first, err := set.limits()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	s := &serving{set: set, log: slog.New(slog.NewTextHandler(&said, nil)), node: &node{limits: newLimitState(first), metrics: gateway.NewMetrics(gateway.MetricsConfig{})}}
	is := func(want string) {
		t.Helper()
		var ids []string
		for _, r := range s.node.limits.get().Rules() {
			ids = append(ids, r.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("in force are %q, want %q", got, want)
		}
	}
	if r := first.Rules()[0]; r.Tool != "x__y" || r.Wait != time.Minute || r.Concurrency != 2 {
		t.Errorf("%+v", r)
	}
	for _, bad := range []string{
		"", "limits:", "limits: [", "limits: {id: a}", "limits: [{id: b, concurrency: 1}, {id: c}]", "limits: [{id: b, concurrency: 1}]\n---\nlimits: []",
		"limits: [{id: b, concurrency: 1}]\nmore: 1", "limits: [{id: b, concurrency: many}]", "limits: [{id: b, rate: 0/s}]", "limits: [{id: b, rate: 5}]",
		"limits: [{id: b, rate: -5/s}]", "limits: [{id: b, rate: 5/s, burst: 0}]", "limits: [{id: b, concurrency: 1, wait: 5}]", "limits: [{id: b, concurrency: 257}]",
		"limits: [{id: b, rate: 99999999999999999999/s}]", "limits: [{id: b, concurrency: 1, kind: robot}]",
	} {
		writeFile(t, file, bad)
		said.Reset()
		s.rereadLimits()
		if is("a"); !strings.Contains(said.String(), "was not read anew") {
			t.Errorf("%q: %s", bad, said.String())
		}
	}
	writeFile(t, file, `{"limits": [{"id": "c", "rate": "5 per s"}, {"id": "b", "concurrency": 1, "each": true, "principal": "*"}]}`)
	s.rereadLimits()
	is("b c")
	if r := s.node.limits.get().Rules()[1]; r.Rate != (lifecycle.Rate{N: 5, Per: time.Second}) {
		t.Errorf("%+v", r)
	}
	writeFile(t, file, "limits: []") // takes all of them away
	s.rereadLimits()
	is("")
}
