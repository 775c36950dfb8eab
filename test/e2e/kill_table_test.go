package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// killTable counts SIGKILLs by where they hit.
type killTable struct {
	mu        sync.Mutex
	rows      map[string]map[string]int // stage → column → kills
	keepers   []string
	kills     map[string]int             // by keeper
	cells     map[string]int             // by keeper
	missed    map[string]int             // by keeper: turns that did not come by their point
	calls     map[string]int             // by keeper
	takeovers map[string][]time.Duration // by keeper, from the last SIGKILL to the claim
	ends      map[string][]time.Duration // by keeper, from there to the turn's end
	found     map[string]*finding        // by keeper
	recovered map[string]int             // by keeper
}

func newKillTable() *killTable {
	return &killTable{
		rows: map[string]map[string]int{}, kills: map[string]int{}, cells: map[string]int{}, calls: map[string]int{}, recovered: map[string]int{}, missed: map[string]int{},
		takeovers: map[string][]time.Duration{}, ends: map[string][]time.Duration{}, found: map[string]*finding{},
	}
}

// stages are the rows, in the order of a call's life: the events whose commit was cut
// off, then what is no event.
var stages = []string{
	"turn_submitted", "turn_claimed", "requested", "turn_planned", "approval_requested", "turn_parked", "approved", "authorized",
	"started", "tool", "progress", "retrying", "recovered", "probe", "cancel_requested", "turn_cancel_requested", "completed", "failed",
	"timed_out", "cancelled", "denied", "deduplicated", "unknown", "turn_completed", "ack", "push", "pull", "wake", "timer", "put", "barrier", "publish",
}

// told are the names of the rows that are no event.
var told = map[string]string{
	"tool": "in the tool, before / after its effect", "probe": "in the probe, before / after its answer", "ack": "ack of the queue's message",
	"push": "push to the queue", "pull": "a message was pulled", "wake": "push of a wake-up", "timer": "timer", "put": "key, lease or breaker cell",
	"barrier": "wait for the barrier", "publish": "live event",
}

// hit are the stages of a death, and on which side of them it was.
func (d death) hit() (list []string, side string) {
	for _, p := range d.passed {
		if !p.at(d.point) {
			continue
		}
		for _, x := range p.Points {
			stage := x.Op
			if x.Op == "append" {
				stage, _, _ = strings.Cut(x.What, ":")
			}
			if !slices.Contains(list, stage) {
				list = append(list, stage)
			}
		}
		return list, p.Points[0].Side
	}
	return nil, ""
}

// add counts a story.
func (k *killTable) add(keeper string, st *story, f *finding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.found[keeper] == nil {
		k.found[keeper] = &finding{}
		k.keepers = append(k.keepers, keeper)
	}
	for _, d := range st.deaths {
		list, side := d.hit()
		for _, s := range list {
			if k.rows[s] == nil {
				k.rows[s] = map[string]int{}
			}
			k.rows[s][side]++
			k.rows[s][keeper]++
			for _, tier := range st.tiers {
				k.rows[s][tier]++
			}
		}
	}
	k.cells[keeper]++
	if st.missed {
		k.missed[keeper]++
	}
	k.kills[keeper] += len(st.deaths)
	k.calls[keeper] += len(st.cell.scene.calls)
	if st.rival != nil {
		k.calls[keeper]++
	}
	if d := st.takeover(); d > 0 {
		k.takeovers[keeper] = append(k.takeovers[keeper], d)
	}
	if st.took > 0 {
		k.ends[keeper] = append(k.ends[keeper], st.took)
	}
	k.recovered[keeper] += len(of(st.events, "recovered", ""))
	k.found[keeper].doubled += f.doubled
	k.found[keeper].silent += f.silent
	k.found[keeper].wrong += f.wrong
}

// complete holds the selection against its purpose: every stage and every tier.
func (k *killTable) complete(t *testing.T) {
	for _, s := range stages[:slices.Index(stages, "ack")+1] {
		if k.rows[s] == nil {
			t.Errorf("nobody was killed at %s", s)
		}
	}
	for _, keeper := range k.keepers {
		if n := k.missed[keeper]; n > 0 {
			t.Errorf("%s: %d turns of the selection did not come by their points", keeper, n)
		}
	}
	for _, tier := range tiers {
		if k.rows["started"][tier] == 0 {
			t.Errorf("nobody was killed at the start of a call that is %s", tier)
		}
	}
}

// String is the table.
func (k *killTable) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.DiscardEmptyColumns)
	columns := append([]string{"before", "after"}, append(slices.Clone(tiers), k.keepers...)...)
	fmt.Fprintf(w, "killed at\t%s\t\n", strings.Join(columns, "\t"))
	for _, s := range stages {
		if k.rows[s] == nil {
			continue
		}
		fmt.Fprint(w, cmp.Or(told[s], s))
		for _, c := range columns {
			fmt.Fprintf(w, "\t%d", k.rows[s][c])
		}
		fmt.Fprint(w, "\t\n")
	}
	_ = w.Flush() // to memory
	lines := strings.SplitAfter(out.String(), "\n")
	out.Reset()
	for _, l := range lines {
		out.WriteString(leftFirst(l))
	}
	out.WriteString("A commit counts in the row of each of its events, a turn in the column of each of its tiers.\n\n" + k.sums())
	return out.String()
}

// leftFirst moves a line's first cell to the left.
func leftFirst(line string) string {
	text := strings.TrimLeft(line, " ")
	pad := len(line) - len(text)
	end := strings.Index(text, "  ")
	if end < 0 {
		return line
	}
	return text[:end] + strings.Repeat(" ", pad) + text[end:]
}

// sums are the totals by keeper.
func (k *killTable) sums() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, of func(keeper string) any) {
		fmt.Fprint(w, name)
		for _, keeper := range k.keepers {
			fmt.Fprintf(w, "\t%v", of(keeper))
		}
		fmt.Fprint(w, "\t\n")
	}
	row("in all", func(s string) any { return s })
	row("turns", func(s string) any { return k.cells[s] })
	row("SIGKILLs", func(s string) any { return k.kills[s] })
	row("turns that did not come by", func(s string) any { return k.missed[s] })
	row("calls", func(s string) any { return k.calls[s] })
	row("findings about open calls", func(s string) any { return k.recovered[s] })
	row("effects that happened twice", func(s string) any { return k.found[s].doubled })
	row("calls without an answer", func(s string) any { return k.found[s].silent })
	row("wrong answers", func(s string) any { return k.found[s].wrong })
	row("SIGKILL to take-over, median", func(s string) any { return quantile(k.takeovers[s], 0.5) })
	row("SIGKILL to take-over, worst", func(s string) any { return quantile(k.takeovers[s], 1) })
	row("SIGKILL to the turn's end, median", func(s string) any { return quantile(k.ends[s], 0.5) })
	row("SIGKILL to the turn's end, worst", func(s string) any { return quantile(k.ends[s], 1) })
	_ = w.Flush() // to memory
	lines := strings.SplitAfter(out.String(), "\n")
	out.Reset()
	for _, l := range lines {
		out.WriteString(leftFirst(l))
	}
	return out.String()
}

// quantile is one of some times; "-" where there are none.
func quantile(times []time.Duration, q float64) any {
	list := slices.Sorted(slices.Values(times))
	if len(list) == 0 {
		return "-"
	}
	return list[int(q*float64(len(list)-1))].Round(time.Millisecond)
}
