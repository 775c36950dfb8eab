package again

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// entry is one recorded event, with what its commit says of it.
type entry struct {
	events.Record
	pos        events.Position
	at         time.Time
	by         events.Owner
	start, end int  // of the entries that may belong to one decision
	parts      bool // of a commit that was split: the decision may lack its last events
}

// walker goes through a turn, decision by decision.
type walker struct {
	Config
	key    events.TurnKey
	all    []entry
	single bool // every event of an owner is a commit of its own: a decision may end behind any of them
	i      int  // of the next entry
	t      lifecycle.Turn
	ends   []int // where the turn is abandoned, as often as that is recorded
	report Report
}

// clockGrace is how far the clocks of nodes may be apart: a decision seems to have
// been made that much before the commit that it follows.
const clockGrace = 2 * time.Second

func newWalker(key events.TurnKey, commits []bus.Stored, c Config) *walker {
	w := &walker{
		Config: c, key: key, t: lifecycle.Turn{Key: key}, report: Report{Turn: key},
	}
	w.single = !slices.ContainsFunc(commits, func(s bus.Stored) bool { return s.Commit.By.Boot != "" && len(s.Commit.Records) != 1 })
	for _, s := range commits {
		for i, r := range s.Commit.Records {
			if r.Event.Kind() == events.KindTurnAbandoned {
				w.ends = append(w.ends, len(w.all))
			}
			w.all = append(w.all, entry{Record: r, pos: s.Position(i), at: s.Commit.At, by: s.Commit.By})
		}
	}
	w.bound(commits)
	w.report.Events = len(w.all)
	return w
}

// bound finds where decisions must end: with their commit, or where a large one was
// split, with its last part. Where every event is a commit of its own, a decision
// goes on as long as the same owner writes.
func (w *walker) bound(commits []bus.Stored) {
	at := 0
	for i := 0; i < len(commits); {
		j, n := i+1, len(commits[i].Commit.Records)
		base, part, split := partOf(commits[i].Commit.ID)
		for ; j < len(commits) && commits[j].Commit.By == commits[i].Commit.By; j++ {
			b, p, ok := partOf(commits[j].Commit.ID)
			if !w.single && !(split && ok && b == base && p == part+j-i) {
				break
			}
			n += len(commits[j].Commit.Records)
		}
		for k := range n {
			w.all[at+k].start, w.all[at+k].end, w.all[at+k].parts = at, at+n, split
		}
		i, at = j, at+n
	}
}

// partOf takes an id apart that bus.Split made: the commit's own, and which part.
func partOf(id string) (base string, part int, ok bool) {
	base, digits, ok := strings.Cut(id, ".")
	if !ok {
		return id, 0, false
	}
	n, err := strconv.Atoi(digits)
	return base, n, err == nil && n > 0 && strconv.Itoa(n) == digits
}

func (w *walker) run() {
	w.missing()
	if len(w.all) == 0 {
		return
	}
	if _, first := w.all[0].Event.(*events.TurnSubmitted); !first {
		w.stop(StopHeadless, "the beginning of the turn is not in the log: nothing can be decided of it")
		return
	}
	if s := w.all[0].Event.(*events.TurnSubmitted); s.Verbatim() {
		w.imported()
	} else if s.Archived() {
		w.all[0].Event = unmarked(s)
		w.Redacted = w.Redacted || w.misfits()
	}
	for w.i < len(w.all) && w.report.Difference == nil && w.report.Stopped == nil {
		e := w.all[w.i]
		if f, ok := e.Event.(events.Foreign); ok {
			w.stop(StopNewer, fmt.Sprintf("%s version %d is of a newer release: what stands from here on cannot be decided by this one", f.Name, f.Version))
			return
		}
		if e.Seq > w.next(e.Call) {
			why, _ := w.gap()
			w.stop(StopGap, why)
			return
		}
		if w.t.Broken != "" {
			w.stop(StopBroken, "the history is not one that any release writes: "+w.t.Broken+": look at it with verify")
			return
		}
		w.step()
	}
}

// gap finds an event that was in the log once: the next one of its call, or of the turn,
// has a later number.
func (w *walker) gap() (why string, ok bool) {
	seen := make(map[int]bool)
	for _, e := range w.all[w.i:] {
		if seq := w.next(e.Call); !seen[e.Call] && e.Seq > seq {
			return fmt.Sprintf("event %d of %s is not in the log: what stands behind it cannot be decided", seq, whose(e.Call)), true
		}
		seen[e.Call] = true
	}
	return "", false
}

// next is the number that the next event of a call, or of the turn, must have.
func (w *walker) next(call int) uint32 {
	if call == events.TurnEvent {
		return w.t.Seq + 1
	}
	if c := w.t.Call(call); c != nil {
		return c.Seq + 1
	}
	return math.MaxUint32 // it is not in the submission
}

func whose(call int) string {
	if call == events.TurnEvent {
		return "the turn"
	}
	return fmt.Sprintf("call %d", call)
}

func (w *walker) stop(kind, why string) {
	w.report.Stopped = &Stop{Position: w.all[min(w.i, len(w.all)-1)].pos, Kind: kind, Why: why}
}

func (w *walker) note(e entry, kind, format string, args ...any) {
	if len(w.report.Notes) >= MaxNotes {
		w.report.MoreNotes++
		return
	}
	w.report.Notes = append(w.report.Notes, Note{Position: e.pos, Call: e.Call, Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// missing names the tools of the turn's calls that are not registered now. One that was
// not registered then either is not missed.
func (w *walker) missing() {
	if w.Registered == nil || len(w.all) == 0 {
		return
	}
	never := make(map[int]bool)
	for _, e := range w.all {
		if d, ok := e.Event.(*events.Denied); ok && d.Code == events.UnknownTool {
			never[e.Call] = true
		}
	}
	s, ok := w.all[0].Event.(*events.TurnSubmitted)
	if !ok {
		return
	}
	for i, c := range s.Calls {
		if never[i] || slices.Contains(w.report.Missing, c.Tool) || w.Registered(c.Tool) {
			continue
		}
		w.report.Missing = append(w.report.Missing, c.Tool)
		w.note(entry{pos: w.all[0].pos, Record: events.Record{Call: i}}, NoteMissing, "the tool %s is not registered now: what is recorded of it is taken", cut(c.Tool, 128))
	}
	slices.Sort(w.report.Missing)
}

// candidate is a command that may have led to what is recorded.
type candidate struct {
	cmd     func(now time.Time) lifecycle.Command
	assumes string     // what the log does not hold and this takes for granted; "" nothing
	asked   *judgement // the policy's, where it was asked for this
}

// try is what a candidate gives.
type try struct {
	candidate
	now time.Time
	out []events.Record
	err error
	n   int  // how many of out are recorded so
	cut bool // and the rest of out is not in the log
	ok  bool // it explains n recorded events
}

// step explains the next recorded events by one decision.
func (w *walker) step() {
	var best, first *try
	for _, c := range w.propose() {
		for _, now := range w.moments() {
			t := w.decide(c, now)
			if first == nil || len(first.out) == 0 && len(t.out) > 0 {
				first = t
			}
			switch {
			case t.ok && (best == nil || !best.ok || better(t, best)):
				best = t
			case !t.ok && (best == nil || !best.ok && t.n > best.n):
				best = t
			}
			if t.ok && !t.cut {
				break // at another moment no more would follow
			}
		}
		if best != nil && best.ok && best.assumes == "" && !best.cut {
			if w.i+best.n == w.all[w.i].end || len(best.out) > 1 {
				break // nothing explains more
			}
		}
	}
	if best == nil || !best.ok {
		if best == nil || best.n == 0 {
			best = first
		}
		w.differs(best)
		return
	}
	w.accept(best)
}

// better says whether a explains more than b, or the same with less that is assumed.
func better(a, b *try) bool {
	if d := cmp.Compare(a.n, b.n); d != 0 {
		return d > 0
	}
	if a.cut != b.cut {
		return !a.cut
	}
	return a.assumes == "" && b.assumes != ""
}

// decide gives a candidate's command to the decider. Where only a time differs from
// the record, it was decided at another moment: that one is tried, too.
func (w *walker) decide(c candidate, now time.Time) *try {
	t := w.decideAt(c, now)
	if t.ok || t.n >= len(t.out) || w.i+t.n >= w.all[w.i].end {
		return t
	}
	e := w.all[w.i+t.n]
	shift, ok := timeApart(e.Event, t.out[t.n].Event)
	if !ok || shift == 0 {
		return t
	}
	low, high := w.span()
	if then := now.Add(shift); !then.Before(low) && !then.After(high) {
		if again := w.decideAt(c, then); again.ok || again.n > t.n {
			return again
		}
	}
	return t
}

func (w *walker) decideAt(c candidate, now time.Time) *try {
	t := &try{candidate: c, now: now}
	e := w.all[w.i]
	t.out, t.err = lifecycle.Decide(w.t, lifecycle.Env{Now: now, Owner: e.by}, c.cmd(now))
	for t.n < len(t.out) && w.i+t.n < e.end && w.same(w.all[w.i+t.n].Record, t.out[t.n]) {
		t.n++
	}
	switch {
	case t.n == 0:
	case t.n == len(t.out):
		t.ok = true
	case w.single || e.parts && w.i+t.n == e.end:
		t.ok, t.cut = true, true
	}
	return t
}

// span is between which times the next decision was made: not before the commit that
// it follows, and not after its own, as far as clocks agree.
func (w *walker) span() (low, high time.Time) {
	e := w.all[w.i]
	low = e.at
	if e.start > 0 && w.all[e.start-1].at.Before(low) {
		low = w.all[e.start-1].at
	}
	return low.Add(-clockGrace), e.at
}

// moments are the times at which the next decision may have been made: that of its
// commit, and where one of the times that decide lies between, those around it.
func (w *walker) moments() []time.Time {
	low, high := w.span()
	var out []time.Time
	add := func(at time.Time) {
		for _, m := range []time.Time{at.Add(-time.Microsecond), at} {
			if !at.IsZero() && m.After(low) && m.Before(high) {
				out = append(out, m)
			}
		}
	}
	add(w.t.Deadline())
	for _, c := range w.t.Calls {
		if c.Phase == lifecycle.PhaseAsking {
			add(c.Asked.Expires)
		}
		if c.Phase == lifecycle.PhaseRetrying {
			add(c.RetryAt)
		}
		if c.Phase == lifecycle.PhaseInput {
			add(c.Input.Expires)
		}
	}
	switch e := w.all[w.i].Event.(type) {
	case *events.Started:
		add(e.Deadline)
	case *events.TurnParked:
		add(e.Due)
	}
	slices.SortFunc(out, time.Time.Compare)
	return append([]time.Time{high}, slices.Compact(out)...)
}

// accept folds what a decision explains.
func (w *walker) accept(t *try) {
	e := w.all[w.i]
	if t.assumes != "" {
		if w.Strict {
			w.differs(w.plain(t))
			return
		}
		w.note(e, NoteAssumed, "%s", t.assumes)
	}
	if t.cut {
		w.note(w.all[w.i+t.n-1], NoteCut, "the decision goes on with %s, and that is not in the log: its owner was lost in between", describe(t.out[t.n].Event))
	}
	t.asked.compare(w, e, t.out[0])
	w.take(t.n)
}

// take folds the next n events.
func (w *walker) take(n int) {
	for range n {
		e := w.all[w.i]
		w.t = lifecycle.Evolve(w.t, lifecycle.Meta{At: e.at, By: e.by}, e.Record)
		w.report.Decided++
		if given(e.Event.Kind()) {
			w.report.Given++
		}
		w.i++
	}
}

// plain is what would be decided without an assumption: the first other candidate
// that decides anything.
func (w *walker) plain(t *try) *try {
	for _, c := range w.propose() {
		if c.assumes == "" {
			if p := w.decideAt(c, t.now); len(p.out) > 0 && !p.ok {
				return p
			}
		}
	}
	return t
}

// given says whether events of a kind only say what came from outside.
func given(k events.Kind) bool {
	return slices.Contains([]events.Kind{
		events.KindTurnSubmitted, events.KindProgress, events.KindLateResult, events.KindResolved, events.KindCompensated,
		events.KindCancelRequested, events.KindTurnCancelRequested, events.KindApproved, events.KindInputGiven, events.KindModelStarted, events.KindModelCompleted,
	}, k)
}

// differs reports the first difference. t is nil where no command leads to an event
// like the recorded one.
func (w *walker) differs(t *try) {
	at, from := w.i, w.all[w.i]
	if t != nil {
		at += t.n
		w.take(t.n)
	}
	if why, gap := w.gap(); gap {
		w.stop(StopGap, why)
		return
	}
	d := &Difference{Call: from.Call}
	if at < from.end {
		e := w.all[at]
		d.Position, d.Event, d.Call, d.Recorded = e.pos, at+1, e.Call, describe(e.Event)
	} else {
		d.Position, d.Event = w.all[at-1].pos, at
	}
	switch {
	case t == nil:
		d.Why = "no command leads to this event here"
	case t.n < len(t.out):
		r := t.out[t.n]
		d.Decided, d.Why = describe(r.Event), t.asked.why(r.Event)
		if d.Recorded == "" {
			d.Call = r.Call
		} else {
			d.Field, d.Was, d.Would = w.field(w.all[at].Record, r)
		}
	case t.err != nil:
		d.Why = t.err.Error()
	}
	w.report.Difference = d
}
