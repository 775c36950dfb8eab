package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/fault"
	"github.com/sluice-run/sluice/cmd/replay/picture"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// about tells what is to be known of a turn before faults are put into it.
func (f *faulting) about(t *fault.Turn) {
	f.unlike += len(t.Differs)
	f.broken += len(t.Failures)
	if f.app.json {
		return
	}
	few := f.target.trace != ""
	for _, n := range t.Script.Notes {
		if few {
			f.app.note("%s: %s", t.Script.Key, n)
		}
	}
	for _, d := range t.Differs {
		if few {
			f.app.note("%s, call %d: %s; recorded: %s; now: %s", t.Script.Key, d.Call, d.Policy, d.Recorded, d.Now)
		}
	}
	for _, x := range t.Failures {
		f.app.complain(fmt.Errorf("%s, without any fault: %s", t.Script.Key, x))
	}
}

// tell prints what came of it all.
func (f *faulting) tell() error {
	switch {
	case f.app.json:
		return f.app.printJSON(f.total())
	case f.seeded:
		f.tellRounds()
		return nil
	case len(f.results) > 0:
		for i, r := range f.results {
			if i > 0 {
				f.app.print("\n")
			}
			f.tellCell(r)
		}
		f.app.print("\n")
	default:
		f.tellTable()
	}
	f.tellEnd()
	return nil
}

// faultSum is the last line of --json.
type faultSum struct {
	Traces       int              `json:"traces"`
	Turns        int              `json:"turns"`
	Cells        int              `json:"cells,omitempty"`
	Counts       *fault.Counts    `json:"counts,omitempty"`
	Seed         uint64           `json:"seed,omitempty"`
	Rounds       map[string]int   `json:"rounds,omitempty"`
	Laws         map[string]int   `json:"failures,omitempty"`
	Policy       []fault.Sentence `json:"differences,omitempty"`
	Unlike       int              `json:"unlike_recorded"`
	Unplayable   int              `json:"unplayable"`
	Milliseconds int64            `json:"took_ms"`
}

func (f *faulting) total() any {
	s := faultSum{
		Traces: f.traces, Turns: f.turns, Laws: f.tally.Laws, Policy: f.tally.Sentences(), Unlike: f.unlike, Unplayable: f.gone,
		Milliseconds: time.Since(f.began).Milliseconds(),
	}
	if f.seeded {
		s.Seed, s.Rounds = f.seed, f.sum
	} else {
		c := f.tally.Total
		s.Cells, s.Counts = c.Played()+c.NotApplicable, &c
	}
	return struct {
		Total faultSum `json:"total"`
	}{s}
}

// groups are the kinds as the table has them side by side: what fits a terminal.
func groups() [][]int {
	var runtime, tool, others []int
	for i, k := range fault.Kinds {
		switch {
		case k.OfTool():
			tool = append(tool, i)
		case k.Kind == fault.Cancel || k.Kind == fault.BreakerOpen || k.Kind == fault.Expiry:
			others = append(others, i)
		default:
			runtime = append(runtime, i)
		}
	}
	return [][]int{runtime, tool, others}
}

// tellTable prints the stages by the kinds.
func (f *faulting) tellTable() {
	rows := f.tally.Rows()
	for _, group := range groups() {
		f.tellGroup(rows, group)
	}
	f.app.print("= the model is told the same   ~ it is told something else, as policy says   ! failed   · cannot occur there\n\n")
	f.tellPolicy()
}

// tellGroup prints the columns of some kinds, and the rows in which one of them can occur.
func (f *faulting) tellGroup(rows []fault.Row, group []int) {
	group = slices.DeleteFunc(slices.Clone(group), func(k int) bool {
		return !slices.ContainsFunc(rows, func(r fault.Row) bool { return r.Kinds[k] != (fault.Counts{}) })
	})
	lines := [][]string{{""}, {"between"}}
	for _, k := range group {
		one, two := cutHead(string(fault.Kinds[k].Kind))
		lines[0], lines[1] = append(lines[0], one), append(lines[1], two)
	}
	for _, r := range rows {
		line, some := []string{r.Label()}, false
		for _, k := range group {
			line = append(line, marks(r.Kinds[k]))
			some = some || r.Kinds[k].Played() > 0
		}
		if some {
			lines = append(lines, line)
		}
	}
	if len(lines) == 2 || len(group) == 0 {
		return
	}
	f.app.print("%s\n", columns(lines))
}

// cutHead is a kind's name on two lines.
func cutHead(s string) (one, two string) {
	if i := strings.LastIndexByte(s, '-'); i > 0 {
		return s[:i+1], s[i+1:]
	}
	return "", s
}

// marks is what a cell of the table says.
func marks(c fault.Counts) string {
	var out []string
	add := func(n int, sign string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%s%d", sign, n))
		}
	}
	add(c.Same, "=")
	add(c.Differs, "~")
	add(c.Failed(), "!")
	switch {
	case c.Played() == 1:
		return out[0][:1]
	case len(out) > 0:
		return strings.Join(out, " ")
	case c.NotApplicable > 0:
		return "·"
	}
	return ""
}

// columns are lines of cells, side by side.
func columns(lines [][]string) string {
	var widths []int
	for _, l := range lines {
		for i, c := range l {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(c)))
		}
	}
	var b strings.Builder
	for _, l := range lines {
		line := ""
		for i, c := range l {
			line += c + strings.Repeat(" ", widths[i]-len([]rune(c))+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// mostPolicy is how many sentences of policy are shown.
const mostPolicy = 20

// tellPolicy prints what policy says where the model is told something else.
func (f *faulting) tellPolicy() {
	all := f.tally.Sentences()
	if len(all) == 0 {
		return
	}
	f.app.print("Where the model is told something else:\n")
	for _, s := range all[:min(len(all), mostPolicy)] {
		f.app.print("%7d × %s instead of %s: %s\n", s.Cells, tools.Visible(s.Now), tools.Visible(s.Recorded), s.Policy)
	}
	if more := len(all) - mostPolicy; more > 0 {
		f.app.print("        and %s more; --json has all\n", count(more, "sentence"))
	}
	f.app.print("\n")
}

// tellEnd prints the failures in full, and the totals.
func (f *faulting) tellEnd() {
	if len(f.results) == 0 {
		for _, r := range f.failed {
			f.tellCell(r)
			f.app.print("\n")
		}
		if more := f.tally.Total.Failed() - len(f.failed); more > 0 {
			f.app.print("and %s more that failed; --json has all\n\n", count(more, "cell"))
		}
	}
	c := f.tally.Total
	f.app.print("%s of %s in %s: %s\n", count(c.Played()+c.NotApplicable, "cell"), count(f.turns, "turn"), count(f.traces, "trace"), c)
	f.app.print("%s of scripted tools, with %s; %s\n", count(f.tally.Runs, "run"), count(f.tally.Effects, "effect"), f.laws())
	if f.unlike > 0 {
		f.app.print("without any fault %s told something else than was recorded\n", isAre(f.unlike, "call"))
	}
	f.app.print("took %s\n", took(time.Since(f.began)))
}

func isAre(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

// laws says what broke.
func (f *faulting) laws() string {
	if len(f.tally.Laws) == 0 {
		return "every question has its answer, and no law broke"
	}
	var out []string
	for _, law := range slices.Sorted(maps.Keys(f.tally.Laws)) {
		out = append(out, fmt.Sprintf("%s %s", law, times(f.tally.Laws[law])))
	}
	return "broken: " + strings.Join(out, ", ")
}

// tellCell prints one cell in full.
func (f *faulting) tellCell(r fault.Result) {
	of := r.Trace + "/" + r.Turn
	if r.Pair.Call != events.TurnEvent {
		of += fmt.Sprintf("/%d", r.Pair.Call)
	}
	f.app.print("%s  %s → %s  %s: %s\n", of, r.Pair.From, r.Pair.To, r.Kind, r.Verdict)
	if r.Verdict == fault.NotApplicable {
		f.app.print("  %s\n", r.Why)
		return
	}
	if i := slices.IndexFunc(fault.Kinds, func(k fault.KindRow) bool { return k.Kind == r.Kind }); i >= 0 {
		f.app.print("  %s\n", fault.Kinds[i].About)
	}
	f.tellAnswers(r.Answers)
	f.tellEffects(r.Effects)
	if len(r.Differences) == 0 && len(r.Failures) == 0 {
		f.app.print("  messages    the same as without the fault\n")
	}
	f.tellDifferences(r.Differences)
	f.tellFailures(r.Failures)
	for _, line := range r.Story {
		f.app.print("    %s\n", show.Short(line, 400))
	}
}

func (f *faulting) tellAnswers(a *fault.Answers) {
	if a == nil {
		return
	}
	if a.Events == 0 {
		f.app.print("  durable     nothing: the turn was not in the log\n")
	} else {
		f.app.print("  durable     %s, event %d of the turn\n", a.Durable, a.Events)
	}
	started := "no"
	switch {
	case a.Started && a.Began:
		started = "yes, and it had begun"
	case a.Started:
		started = "it may have been: its start is durable; it had not begun yet"
	case a.Began:
		started = "not that the log knows: its start was lost, which harms nobody, since it is readonly"
	}
	f.app.print("  started     %s\n", started)
	complete := "no"
	switch {
	case a.Complete:
		complete = "yes"
	case a.Answered:
		complete = "no: its tool had answered, and that was not durable"
	}
	f.app.print("  complete    %s\n", complete)
	if x := a.Finding; x != nil {
		f.app.print("  next owner  found %s durable, the tool started: %s, the result complete: %s; %s: %s\n",
			x.LastStage, yesNo(x.ToolStarted), yesNo(x.Complete), x.Action, tools.Visible(x.Reason))
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (f *faulting) tellEffects(list []fault.Count) {
	for _, e := range list {
		happened := "has no effects"
		if e.Tier != events.Readonly {
			happened = "its effect happened " + times(e.Effects)
		}
		f.app.print("  effects     call %d, %s, %s: run %s, %s\n", e.Call, tools.Visible(e.Tool), e.Tier, times(e.Runs), happened)
	}
}

func (f *faulting) tellDifferences(list []fault.Difference) {
	for _, d := range list {
		f.app.print("  messages    call %d is told %s, and without the fault it is told %s\n", d.Call, show.Short(d.Now, 240), show.Short(d.Recorded, 240))
		f.app.print("    policy    %s\n", d.Policy)
		if d.Reason != "" {
			f.app.print("    the log   %s\n", show.Short(d.Reason, 400))
		}
	}
}

func (f *faulting) tellFailures(list []fault.Failure) {
	for _, x := range list {
		f.app.print("  FAILED      %s\n", tools.Visible(x.String()))
	}
}

// tellRounds prints what came of rounds with several faults.
func (f *faulting) tellRounds() {
	for _, r := range f.lost {
		f.app.print("seed %d  %s/%s: %s\n", r.Seed, r.Trace, r.Turn, r.Verdict)
		for _, d := range r.Faults {
			struck := ""
			if !d.Struck {
				struck = ", which the turn never came to"
			}
			of := "the turn"
			if d.Pair.Call != events.TurnEvent {
				of = fmt.Sprintf("call %d", d.Pair.Call)
			}
			f.app.print("  fault       %s between %s and %s of %s%s\n", d.Kind, d.Pair.From, d.Pair.To, of, struck)
		}
		f.tellEffects(r.Effects)
		f.tellDifferences(r.Differences)
		f.tellFailures(r.Failures)
		for _, line := range r.Story {
			f.app.print("    %s\n", show.Short(line, 400))
		}
		f.app.print("  again with  --seed %d --rounds 1\n\n", r.Seed)
	}
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(f.struck)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, f.struck[k]))
	}
	f.app.print("faults that struck: %s\n", strings.Join(kinds, ", "))
	f.app.print("%s from seed %d over %s: %d with the same messages, %d with others, %d failed; took %s\n",
		count(f.rounds, "round"), f.seed, count(f.turns, "turn"), f.sum[string(fault.Same)], f.sum[string(fault.Differs)], f.sum[string(fault.Failed)], took(time.Since(f.began)))
}

// matrix is the table as a picture.
func (f *faulting) matrix() picture.Matrix {
	c := f.tally.Total
	m := picture.Matrix{
		Title:    "Faults between the stages of " + cmp.Or(f.target.trace+strings.TrimSuffix("/"+f.turn, "/"), f.target.String()),
		Subtitle: fmt.Sprintf("%s of %s: %s", count(c.Played()+c.NotApplicable, "cell"), count(f.turns, "turn"), c),
	}
	if f.target.trace == "" {
		m.Title = "Faults between the stages of " + count(f.traces, "trace")
	}
	for _, k := range fault.Kinds {
		m.Columns = append(m.Columns, string(k.Kind))
	}
	for _, r := range f.tally.Rows() {
		m.Rows = append(m.Rows, r.Label())
		var row []picture.Cell
		for _, n := range r.Kinds {
			row = append(row, picture.Cell{Counts: picture.Counts{
				Same: n.Same, Differs: n.Differs, NotApplicable: n.NotApplicable, Unanswered: n.Unanswered, Broken: n.Broken,
			}})
		}
		m.Cells = append(m.Cells, row)
	}
	for _, s := range f.tally.Sentences()[:min(len(f.tally.Sentences()), 6)] {
		m.Notes = append(m.Notes, fmt.Sprintf("%d × %s instead of %s: %s", s.Cells, s.Now, s.Recorded, s.Policy))
	}
	return m
}
