package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// finding is what is wrong with a story.
type finding struct {
	doubled, silent, wrong int // effects done twice, calls without an answer, answers that are not what they have to be
	words                  []string
}

func (f *finding) say(count *int, format string, args ...any) {
	*count++
	f.words = append(f.words, fmt.Sprintf(format, args...))
}

// callPast is a call as far as a walk through the log has come.
type callPast struct {
	last     string // its last event on its way
	attempt  int
	starts   int
	terminal string
	action   string // of the last finding that was one
}

// open says that an attempt of it may be under way.
func (c callPast) open() bool {
	return c.last == "started" || c.last == "recovered" && c.action == "probe"
}

// beside are the kinds that do not move a call along.
var beside = []string{"progress", "cancel_requested", "late_result", "resolved", "compensated"}

// walk is a reading of a turn's log from the beginning.
type walk struct {
	st     *story
	f      *finding
	calls  []callPast
	owned  string // boot that owns the turn; "" for nobody, and while it is parked
	ended  bool
	deaths int        // take-overs so far
	left   []callPast // how the calls stood at the last take-over; nil where there was none
}

// check holds a story against the design.
func check(st *story) *finding {
	f := &finding{}
	w := &walk{st: st, f: f, calls: make([]callPast, len(st.cell.scene.calls))}
	w.through(st.events)
	f.kept(st)
	if w.deaths > len(st.deaths) {
		f.say(&f.wrong, "%d take-overs after %d deaths", w.deaths, len(st.deaths))
	}
	if st.state != "completed" || len(st.calls) != len(w.calls) {
		f.say(&f.wrong, "the turn is %s, with %d calls of %d", st.state, len(st.calls), len(w.calls))
		return f
	}
	if len(st.answers) != len(w.calls) {
		f.say(&f.silent, "%d answers for %d calls", len(st.answers), len(w.calls))
		return f
	}
	for i := range w.calls {
		w.outcome(i)
		w.answer(i)
		w.ledger(i)
	}
	w.keys()
	return f
}

// through walks the log, commit by commit.
func (w *walk) through(list []event) {
	for len(list) > 0 {
		n := slices.IndexFunc(list, func(e event) bool { return seqOf(e) != seqOf(list[0]) })
		if n < 0 {
			n = len(list)
		}
		w.commit(list[:n])
		list = list[n:]
	}
}

func seqOf(e event) string { return strings.Split(e.Position, ".")[1] }

// offset is the call that an event is about; -1 for the turn.
func offset(e event) int {
	parts := strings.Split(e.Subject, "/")
	if len(parts) != 3 {
		return -1
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil {
		return -1
	}
	return n
}

func (w *walk) commit(list []event) {
	if list[0].kind() == "turn_claimed" {
		w.claimed(list)
	}
	for _, e := range list {
		if i := offset(e); i >= 0 && i < len(w.calls) {
			w.called(&w.calls[i], i, e)
		}
		switch e.kind() {
		case "turn_claimed":
			w.owned = e.Boot
		case "turn_parked":
			w.owned = ""
		case "turn_completed", "turn_abandoned":
			w.ended = true
		}
	}
}

func (w *walk) called(c *callPast, i int, e event) {
	kind := e.kind()
	switch {
	case slices.Contains(beside, kind), kind == "recovered" && e.field("action") == "continue":
		return
	case terminals[kind]:
		if c.terminal != "" {
			w.f.say(&w.f.doubled, "call %d has ended twice: %s, then %s", i, c.terminal, kind)
		}
		c.terminal = kind
	case kind == "started":
		c.starts++
		c.attempt++
		if e.field("attempt") != strconv.Itoa(c.attempt) {
			w.f.say(&w.f.wrong, "call %d: attempt %s is the %dth", i, e.field("attempt"), c.attempt)
		}
	case kind == "recovered":
		c.action = e.field("action")
	}
	c.last = kind
}

// claimed holds what a new owner says of the calls against what is in the log.
func (w *walk) claimed(list []event) {
	why := list[0].field("why")
	want := "taken_over"
	switch {
	case !slices.ContainsFunc(w.st.events, func(e event) bool { return e.kind() == "turn_claimed" && earlier(e, list[0]) }):
		want = "new"
	case w.owned == "":
		want = "woken"
	}
	if why != want {
		w.f.say(&w.f.wrong, "claimed as %s, want %s", why, want)
	}
	found := map[int]event{}
	for _, e := range list {
		if e.kind() == "recovered" {
			found[offset(e)] = e
		}
	}
	if want != "taken_over" {
		if len(found) > 0 {
			w.f.say(&w.f.wrong, "claimed as %s, and %d calls recovered", why, len(found))
		}
		return
	}
	w.deaths++
	w.left = slices.Clone(w.calls)
	for i := range w.calls {
		e, ok := found[i]
		if c := w.calls[i]; ok != (c.last != "" && c.terminal == "") {
			w.f.say(&w.f.wrong, "call %d stood at %q, and recovered is there: %t", i, c.last, ok)
		} else if ok {
			w.recovered(i, c, e)
		}
	}
}

// earlier says whether an event stands before another one of the same log.
func earlier(a, b event) bool {
	x, errA := strconv.Atoi(seqOf(a))
	y, errB := strconv.Atoi(seqOf(b))
	return errA == nil && errB == nil && x < y
}

// recovered holds a finding against the truth: which event was durable, had the tool
// started, is its result complete, and what is done about it.
func (w *walk) recovered(i int, c callPast, e event) {
	attempt := strconv.Itoa(c.attempt)
	if c.attempt == 0 {
		attempt = ""
	}
	want := fmt.Sprintf("stage %s, attempt %s, started %t, complete false, %s", c.last, attempt, c.open(), w.action(i, c))
	got := fmt.Sprintf("stage %s, attempt %s, started %s, complete %s, %s",
		e.field("last_stage"), e.field("attempt"), e.field("tool_started"), e.field("result_complete"), e.field("action"))
	if got != want {
		w.f.say(&w.f.wrong, "call %d, recovered: %s; want %s", i, got, want)
	}
	if e.field("reason") == "" {
		w.f.say(&w.f.wrong, "call %d, recovered: no reason", i)
	}
	ran := 0
	for _, d := range w.st.deaths[:min(w.deaths, len(w.st.deaths))] {
		for _, p := range d.passed {
			if p.is("tool", "before") && p.Points[0].What == strconv.Itoa(i) {
				ran++
			}
		}
	}
	if ran > c.starts {
		w.f.say(&w.f.wrong, "call %d: the tool was run %d times by the dead, and started %d times", i, ran, c.starts)
	}
}

// action is what the tier's rule says about a call whose owner was lost.
func (w *walk) action(i int, c callPast) string {
	spec, asked := w.spec(i)
	switch {
	case !c.open():
		return "continue"
	case c.last == "recovered":
		return "probe"
	case spec.tier == "readonly", spec.tier == "reversible" && spec.honours && asked.key != "":
		return "restart"
	case spec.probe != "":
		return "probe"
	}
	return "unknown"
}

func (w *walk) spec(i int) (trialTool, try) {
	c := w.st.cell.scene.calls[i]
	return trialTools[c.tool], c
}

// happened is how often a call's effect was there, at a death or, for -1, at the end.
func (w *walk) happened(i, at int) int {
	list, n := w.st.effects, 0
	if at >= 0 {
		list = w.st.deaths[at].effects
	}
	for _, e := range list {
		if e.Call == fmt.Sprintf("%s/t/%d", w.st.trace, i) {
			n++
		}
	}
	return n
}

// want is how a call has to end, by the stage at which its last owner was lost.
func (w *walk) want(i int) string {
	spec, asked := w.spec(i)
	if w.stuck(i) {
		return "unknown"
	}
	if w.left == nil {
		return asked.end
	}
	c := w.left[i]
	switch {
	case c.terminal != "":
		return c.terminal
	case !c.open() || w.action(i, c) == "restart":
		return asked.end
	case spec.probe == "honest" && w.happened(i, len(w.st.deaths)-1) > 0:
		return "completed"
	case spec.probe == "honest" && spec.honours && asked.key != "":
		return asked.end
	}
	return "unknown"
}

// stuck says whether a call's owner itself has ended it while its tool stood still, for
// the hook holds the tool and nobody else: its deadline passed or its end was asked for,
// and the tool did not stop.
func (w *walk) stuck(i int) bool {
	for _, e := range of(w.st.events, "unknown", strconv.Itoa(i)) {
		for _, d := range w.st.deaths {
			if e.Boot == d.boot && strings.HasPrefix(d.point, "tool:") && e.field("why") == "termination_unconfirmed" {
				return true
			}
		}
	}
	return false
}

func (w *walk) outcome(i int) {
	want, got := w.want(i), w.st.calls[i].State
	if got != want && !w.borrows(i) {
		w.f.say(&w.f.wrong, "call %d ended as %s, want %s: %s", i, got, want, chain(w.st.events, strconv.Itoa(i)))
	}
	if w.calls[i].terminal != got {
		w.f.say(&w.f.wrong, "call %d is %s, and its log says %q", i, got, w.calls[i].terminal)
	}
}

// borrows says whether a call's end is that of another one, which has its key: see pair.
func (w *walk) borrows(i int) bool {
	_, asked := w.spec(i)
	state := w.st.calls[i].State
	first := i == 0 && w.st.rival != nil && (state == "deduplicated" || state == "denied") // it died before it had the key
	return first || asked.end == "deduplicated"
}

// answer holds what the model is told against how the call ended.
func (w *walk) answer(i int) {
	c, a := w.st.calls[i], w.st.answers[i]
	if a.Call != i || a.Answer == "" || a.Answer == "open" {
		w.f.say(&w.f.silent, "call %d is answered as %d: %q", i, a.Call, a.Answer)
		return
	}
	if w.borrows(i) {
		return
	}
	want := map[string]string{"completed": "success", "denied": "denied"}[c.State]
	if want == "" { // it failed, or was ended, or nobody knows how: what it may have done counts
		want = "unknown"
		if c.Effects == "none" {
			want = "failed"
		}
	}
	if a.Answer != want || want == "success" && a.Content.Text != "did "+w.st.name(i) {
		w.f.say(&w.f.wrong, "call %d is %s (%s), and the model is told %s %q", i, c.State, c.Effects, a.Answer, a.Content.Text)
	}
}

// name is what a call's effect is called.
func (st *story) name(i int) string {
	return st.cell.scene.calls[i].call(st.trace, i).Args.(args)["name"].(string)
}

// ledger holds what a call says of its effect against what was done.
func (w *walk) ledger(i int) {
	c, n := w.st.calls[i], w.happened(i, -1)
	spec, _ := w.spec(i)
	if spec.tier == "readonly" {
		if c.State == "completed" && n == 0 {
			w.f.say(&w.f.wrong, "call %d is completed, and never ran", i)
		}
		return
	}
	switch {
	case n > 1:
		w.f.say(&w.f.doubled, "call %d happened %d times", i, n)
	case n == 0 && (c.State == "completed" || c.Effects == "done" && c.State != "deduplicated"):
		w.f.say(&w.f.wrong, "call %d is %s (%s), and did not happen", i, c.State, c.Effects)
	case n == 1 && c.Effects == "none":
		w.f.say(&w.f.wrong, "call %d is %s without effects, and happened", i, c.State)
	}
}

// keys holds calls with one key against each other.
func (w *walk) keys() {
	for i := range w.calls {
		if _, asked := w.spec(i); asked.end == "deduplicated" {
			w.pair(w.st.calls[0], w.st.calls[i], w.st.answers[0], w.st.answers[i])
		}
	}
	if w.st.rival == nil {
		return
	}
	if w.borrows(0) {
		w.pair(*w.st.rival, w.st.calls[0], w.st.rivalSay, w.st.answers[0])
	} else {
		w.pair(w.st.calls[0], *w.st.rival, w.st.answers[0], w.st.rivalSay)
	}
}

// pair holds who had a key and who asked for it, too, against each other: one effect,
// one answer, which may be that nobody knows.
func (w *walk) pair(first, second callView, said, passed answer) {
	if n := len(w.st.effects); n > 1 {
		w.f.say(&w.f.doubled, "one key, %d effects", n)
	}
	switch first.State + " and " + second.State {
	case "completed and deduplicated":
		if said.Answer != "success" || passed.Answer != "success" || said.Content.Text != passed.Content.Text {
			w.f.say(&w.f.wrong, "one key, two answers: %+v and %+v", said, passed)
		}
	case "unknown and deduplicated": // it waited while the first one's end was found out
		if passed.Answer != "unknown" {
			w.f.say(&w.f.wrong, "the answer of an unknown call is passed on as %+v", passed)
		}
	case "unknown and denied": // it came later: the key is blocked
		if second.Code != "UNKNOWN_OUTCOME" {
			w.f.say(&w.f.wrong, "the key of an unknown call is refused with %s", second.Code)
		}
	default:
		w.f.say(&w.f.wrong, "one key: %s and %s", first.State, second.State)
	}
}

// kept holds the log against what its writers know: each commit that was kept is
// there, and none that a writer was killed before.
func (f *finding) kept(st *story) {
	log, told, pending := map[string]bool{}, map[string]bool{}, 0
	for _, e := range st.events {
		log[seqOf(e)] = true
	}
	count := func(passed []passage, fault string) {
		for _, p := range passed {
			switch {
			case p.is("append", "before"):
				if !p.at(fault) {
					pending++
				}
			case p.is("append", "refused"):
				pending--
			case p.is("append", "after"):
				pending--
				told[fmt.Sprint(p.Seq)] = true
			}
		}
	}
	for _, d := range st.deaths {
		count(d.passed, d.point)
	}
	count(st.passed, "")
	for seq := range told {
		if !log[seq] {
			f.say(&f.wrong, "the commit at %s was kept, and is not in the log", seq)
		}
	}
	if more := len(log) - len(told); more > max(pending, 0) {
		f.say(&f.wrong, "the log has %d commits that nobody has written", more)
	}
}

// takeover is how long after the last SIGKILL the turn was claimed; 0 where it was not.
func (st *story) takeover() time.Duration {
	if len(st.deaths) == 0 {
		return 0
	}
	at := st.deaths[len(st.deaths)-1].at
	for _, e := range st.events {
		claim, err := time.Parse(time.RFC3339Nano, e.Time)
		if err == nil && e.kind() == "turn_claimed" && e.field("why") == "taken_over" && e.Boot == st.heir.Boot {
			return claim.Sub(at)
		}
	}
	return 0
}
