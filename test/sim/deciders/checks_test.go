package deciders

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// effect is something that has happened to the world.
type effect struct {
	call    events.CallKey
	attempt int
	tool    tool
	key     string // the tool's name and the idempotency key; "" without one
}

// ledger is the world outside: it counts, whatever the log says.
type ledger struct{ effects []effect }

// add notes an effect, and holds it against what came before.
func (l *ledger) add(s *sim, r *run) {
	e := effect{call: r.call, attempt: r.attempt, tool: r.tool}
	if r.key != "" {
		e.key = toolOf(s, r.call) + " " + r.key
	}
	s.note("%s: the effect of attempt %d happens", r.call, r.attempt)
	s.started(e)
	s.agreed(e)
	for _, o := range l.effects {
		again := o.call == e.call
		switch {
		case e.tool.tier == events.Readonly:
		case again && e.tool.honours && e.key == o.key && e.key != "":
			// It is the tool's to see that it has done this already.
		case again:
			s.fail("L6: %s of %s happened twice: attempts %d and %d", e.call, toolOf(s, e.call), o.attempt, e.attempt)
		case e.key != "" && e.key == o.key:
			s.fail("key: %s and %s both happened under key %q", o.call, e.call, e.key)
		}
	}
	l.effects = append(l.effects, e)
}

// of is how many effects a call has had.
func (l *ledger) of(call events.CallKey) int {
	n := 0
	for _, e := range l.effects {
		if e.call == call {
			n++
		}
	}
	return n
}

// known is what a person who looks can find out, and whether it is certain: nothing
// of the call is on its way any more.
func (l *ledger) known(s *sim, call events.CallKey) (e events.Effects, certain bool) {
	if l.of(call) > 0 {
		return events.EffectsDone, true
	}
	for _, r := range s.runs {
		if r.call == call && !r.effectAt.IsZero() {
			return "", false
		}
	}
	return events.EffectsNone, true
}

// locked checks that an exclusive holder is alone.
func (l *ledger) locked(s *sim, u events.ResourceUse, state lifecycle.LockState) {
	held, exclusive := 0, false
	for _, h := range state.Holds {
		if s.now.Before(h.Until) {
			held++
			exclusive = exclusive || h.Exclusive
		}
	}
	if exclusive && held > 1 {
		s.fail("lock: %s is held by %d, one of them alone", u.Name, held)
	}
}

// started checks L4: the start of what has an effect is in the log.
func (s *sim) started(e effect) {
	_, _, log := s.load(e.call.TurnKey())
	for _, c := range log {
		for _, r := range c.Commit.Records {
			if st, ok := r.Event.(*events.Started); ok && r.Call == e.call.Offset && st.Attempt == e.attempt {
				return
			}
		}
	}
	s.fail("L4: %s has had an effect, and the start of attempt %d is not in the log", e.call, e.attempt)
}

// agreed checks that a person has agreed to what only a person may allow.
func (s *sim) agreed(e effect) {
	if !e.tool.asks && e.tool.tier != events.Approval {
		return
	}
	t, _, log := s.load(e.call.TurnKey())
	for _, c := range log {
		for _, r := range c.Commit.Records {
			if a, ok := r.Event.(*events.Approved); ok && r.Call == e.call.Offset && a.Hash == t.Calls[r.Call].Hash {
				return
			}
		}
	}
	c := t.Calls[e.call.Offset]
	if t.Planned == nil || !slices.ContainsFunc(t.Planned.Inherited.Session, func(y events.SessionYes) bool { return y.Tool == c.Tool && y.Hash == c.Hash }) {
		s.fail("L3: %s has had an effect, and nobody has agreed to it", e.call)
	}
}

// checkStarts checks L4 again once a tail was lost: starts above readonly were
// durable.
func (s *sim) checkStarts() {
	for _, e := range s.ledger.effects {
		if e.tool.tier != events.Readonly {
			s.started(e)
		}
	}
}

// checkLaws checks every turn's history.
func (s *sim) checkLaws() {
	for _, c := range s.clients {
		t, _, log := s.load(c.key)
		if len(log) == 0 {
			continue
		}
		for _, v := range lifecycle.Laws(commits(log)) {
			s.fail("%s: %s", c.key, v)
		}
		if t.Broken != "" || t.Foreign {
			s.fail("%s: broken %q, foreign %t", c.key, t.Broken, t.Foreign)
		}
	}
}

// finalChecks look at what has come of it all.
func (s *sim) finalChecks() {
	if s.err == nil {
		s.pass(2 * long) // whatever is still on its way arrives
	}
	s.checkLaws()
	for _, c := range s.clients {
		if s.err != nil {
			return
		}
		s.checkTurn(c)
	}
	s.checkStarts()
}

func (s *sim) checkTurn(c *client) {
	t, _, log := s.load(c.key)
	terminals := make([]int, len(t.Calls))
	for _, stored := range log {
		for _, r := range stored.Commit.Records {
			if events.IsTerminal(r.Event.Kind()) {
				terminals[r.Call]++
			}
		}
	}
	for i, n := range terminals {
		if n != 1 {
			s.fail("L2: %s/%d has %d terminals", c.key, i, n)
		}
	}
	if len(c.told) != len(c.sub.Calls) {
		s.fail("L7: %s was told %d answers for %d calls", c.key, len(c.told), len(c.sub.Calls))
	}
	if now := answers(t); !slices.Equal(now, c.told) {
		s.fail("durability: %s was told %q, and it is %q now", c.key, c.told, now)
	}
	for _, call := range t.Calls {
		s.checkReuse(c, call)
		s.checkAnswer(c, call)
		s.checkEffects(c.key.Call(call.Offset), call)
	}
}

// checkReuse checks that a duplicate asked for what its holder did.
func (s *sim) checkReuse(c *client, call *lifecycle.Call) {
	d, ok := call.Terminal.(*events.Deduplicated)
	if !ok {
		return
	}
	of, err := events.ParseCallKey(d.Of)
	if err != nil {
		s.fail("key: %s/%d is a duplicate of %q", c.key, call.Offset, d.Of)
		return
	}
	holder, _, _ := s.load(of.TurnKey())
	if h := holder.Call(of.Offset); h == nil || h.Open() || h.Hash != call.Hash || h.Tool != call.Tool {
		s.fail("key: %s/%d has the result of %s, which is not what it asked for", c.key, call.Offset, of)
	}
}

// checkAnswer checks L5: a success is the answer of the attempt that it names.
func (s *sim) checkAnswer(c *client, call *lifecycle.Call) {
	done, ok := call.Terminal.(*events.Completed)
	if !ok || done.Result.Text.Text == found.Text.Text {
		return
	}
	if want := answer(c.key.Call(call.Offset), done.Attempt); done.Result.Text.Text != want.Text.Text {
		s.fail("L5: %s/%d completed by attempt %d with %q", c.key, call.Offset, done.Attempt, done.Result.Text.Text)
	}
}

// checkEffects holds what a terminal says of effects against the ledger.
func (s *sim) checkEffects(key events.CallKey, c *lifecycle.Call) {
	says := events.EffectsNone
	if c.Outcome != nil && c.Last != events.KindDeduplicated {
		says = c.Outcome.Effects
	}
	if c.Resolved != nil {
		says = c.Resolved.Effects
	}
	n := s.ledger.of(key)
	switch {
	case c.Last == events.KindDenied && n > 0:
		s.fail("L10: %s was denied, and had %d effects", key, n)
	case c.Verdict != nil && c.Verdict.Tier == events.Readonly:
	case says == events.EffectsNone && n > 0:
		s.fail("effects: %s ended as %s with effects none, and had %d", key, c.Last, n)
	case says == events.EffectsDone && n == 0:
		s.fail("effects: %s ended as %s with effects done, and had none", key, c.Last)
	}
}

// counts is how often everything came up.
type counts map[string]int

func (c *counts) mark(format string, args ...any) { c.more(fmt.Sprintf(format, args...), 1) }

func (c *counts) more(what string, n int) {
	if *c == nil {
		*c = counts{}
	}
	(*c)[what] += n
}

func (c *counts) events(records []events.Record) {
	for _, r := range records {
		switch e := r.Event.(type) {
		case *events.Recovered:
			c.more("recovered: "+e.Action, 1)
		case *events.TurnClaimed:
			c.more("claimed: "+e.Why, 1)
		default:
			c.more(string(r.Event.Kind()), 1)
		}
	}
}

func (c *counts) add(other *counts) {
	for what, n := range *other {
		c.more(what, n)
	}
}

func (c counts) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%8d %s\n", c[what], what)
	}
	return b.String()
}

// missing are the things that a simulator worth its name brings about.
func (c counts) missing() []string {
	want := []string{
		"crash", "zombie", "conflict", "redelivery", "actor restart", "lost tail", "late answer", "wait for a lock", "parked for a key", "bomb",
		"append uncertain, kept true", "append uncertain, kept false", "put uncertain, kept true", "push uncertain, kept false",
		"probe, found true", "probe, found false",
		"key take", "key mine", "key reuse", "key wait", "key blocked", "key conflict",
		"breaker open, admitted false", "breaker half_open, admitted true",
		"claimed: new", "claimed: woken", "claimed: drained", "claimed: taken_over",
		"recovered: continue", "recovered: restart", "recovered: probe", "recovered: unknown",
	}
	for _, row := range events.Kinds {
		switch row.Kind {
		case events.KindRecovered, events.KindTurnClaimed: // by their reasons, above
		case events.KindProgress, events.KindCompensated, events.KindModelStarted, events.KindModelCompleted: // beside the way
		default:
			want = append(want, string(row.Kind))
		}
	}
	return slices.DeleteFunc(want, func(what string) bool { return c[what] > 0 })
}
