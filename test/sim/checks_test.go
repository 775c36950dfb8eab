package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// look takes up what has been appended since the last time, and holds it against the
// laws.
func (s *sim) look() {
	touched := s.touched
	s.touched = nil
	for _, key := range touched {
		s.take(key)
	}
	if s.circuit {
		s.circuit = false
		s.checkCircuits()
	}
}

// take reads a turn anew, and checks the laws where it has moved on.
func (s *sim) take(key events.TurnKey) {
	was := s.seen[key]
	log := s.read(key)
	if len(log) == len(was.log) {
		return
	}
	for _, c := range log[len(was.log):] {
		s.moved = s.w.Now()
		s.counts.events(c.Commit.Records)
		s.note("%s: %s/%d: %v", key, c.Commit.By.Boot, c.Commit.By.Epoch, kinds(c.Commit.Records))
		s.checkAdmitted(c.Commit, was.turn)
		s.checkRates(c.Commit)
	}
	t := lifecycle.Fold(key, commits(log)...)
	s.seen[key] = seen{t, log}
	for _, v := range lifecycle.Laws(commits(log)) {
		s.fail("%s: %s", key, v)
	}
	if t.Broken != "" || t.Foreign {
		s.fail("%s: its history is broken: %q, foreign %t", key, t.Broken, t.Foreign)
	}
}

// effect is something that has happened to the world.
type effect struct {
	call    events.CallKey
	attempt int
	kind    kind
	key     string // the tool's name and the idempotency key; "" without one
}

// attemptOf names an attempt.
type attemptOf struct {
	call    events.CallKey
	attempt int
}

// ledger is the world outside: it counts, whatever the log says.
type ledger struct {
	effects []effect
	begun   map[attemptOf]kind
}

// begin notes that a tool has begun an attempt.
func (l *ledger) begin(s *sim, a *attempt) {
	of := attemptOf{a.call, a.attempt}
	if _, before := l.begun[of]; before {
		s.fail("hands: attempt %d of %s was run twice", a.attempt, a.call)
	}
	if l.begun == nil {
		l.begun = map[attemptOf]kind{}
	}
	l.begun[of] = a.kind
	s.started(a.call, a.attempt)
}

// add notes an effect, and holds it against what came before.
func (l *ledger) add(s *sim, a *attempt) {
	e := effect{call: a.call, attempt: a.attempt, kind: a.kind}
	if a.key != "" {
		e.key = a.tool + " " + a.key
	}
	s.note("%s: the effect of attempt %d happens", a.call, a.attempt)
	s.agreed(a)
	for _, o := range l.effects {
		again := o.call == e.call
		switch {
		case again && e.kind.honours && e.key == o.key && e.key != "":
			// It is the tool's to see that it has done this already.
		case again:
			s.fail("L6: %s of %s happened twice: attempts %d and %d", e.call, a.tool, o.attempt, e.attempt)
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

// started checks L4: the start of what a tool does is in the log.
func (s *sim) started(call events.CallKey, attempt int) {
	if !s.hasStart(call, attempt) {
		s.fail("L4: attempt %d of %s was begun, and its start is not in the log", attempt, call)
	}
}

func (s *sim) hasStart(call events.CallKey, attempt int) bool {
	return !s.startOf(call, attempt).IsZero()
}

// startOf is when an attempt was let begin, as the log says; zero if it does not.
func (s *sim) startOf(call events.CallKey, attempt int) time.Time {
	_, _, log := s.load(call.TurnKey())
	for _, c := range log {
		for _, r := range c.Commit.Records {
			if st, ok := r.Event.(*events.Started); ok && r.Call == call.Offset && st.Attempt == attempt {
				return c.Commit.At
			}
		}
	}
	return time.Time{}
}

// checkStarts checks L4 again once a tail was lost: starts above readonly were
// durable. Others may come again.
func (s *sim) checkStarts() {
	for _, of := range orderedAttempts(s.ledger.begun) {
		switch {
		case s.ledger.begun[of].tier != events.Readonly:
			s.started(of.call, of.attempt)
		case !s.hasStart(of.call, of.attempt):
			delete(s.ledger.begun, of)
		}
	}
}

func orderedAttempts(m map[attemptOf]kind) []attemptOf {
	return slices.SortedFunc(maps.Keys(m), func(a, b attemptOf) int {
		return cmp.Or(strings.Compare(a.call.String(), b.call.String()), cmp.Compare(a.attempt, b.attempt))
	})
}

// agreed checks that a person has agreed to what only a person may allow.
func (s *sim) agreed(e *attempt) {
	if !e.kind.asks && e.kind.tier != events.Approval {
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

// leased checks that what runs under an exclusive lease runs alone, as long as
// everybody's nodes are well.
func (s *sim) leased(a *attempt) {
	for _, o := range s.attempts {
		if o == a || !o.running || o.disturbed || a.disturbed {
			continue
		}
		for _, mine := range a.locks {
			for _, other := range o.locks {
				if mine.Resource == other.Resource && (mine.Exclusive || other.Exclusive) && o.call != a.call {
					s.fail("lock: %s and %s both run with %s", o.call, a.call, mine.Resource)
				}
			}
		}
	}
}

// circuit is a breaker's cell as it was last seen.
type circuit struct {
	rev    uint64
	is     lifecycle.Breaker
	since  time.Time // its probe was admitted
	opened time.Time // it is open; zero: closed
}

// checkAdmitted checks that a probe is what the cell says it is, and that nobody
// believes in a breaker that is closed when it has been open for longer than news take.
func (s *sim) checkAdmitted(c events.Commit, t lifecycle.Turn) {
	n := s.nodeOf(c.By.Boot)
	if slices.ContainsFunc(c.Records, func(r events.Record) bool { return r.Event.Kind() == events.KindStarted }) {
		s.checkCircuits() // those that nobody has asked for in an hour have gone by themselves
	}
	for _, r := range c.Records {
		st, ok := r.Event.(*events.Started)
		if d, denied := r.Event.(*events.Denied); denied {
			s.checkDenied(c.Turn, r.Call, d)
		}
		if !ok || r.Call >= len(t.Calls) {
			continue
		}
		of := s.belongs(t.Calls[r.Call])
		if st.Breaker.Circuit != of.Of {
			s.fail("breaker: %s/%d is started by the circuit %q, and belongs to %s", c.Turn, r.Call, st.Breaker.Circuit, of)
		}
		if n == nil {
			continue
		}
		is, whole := s.circuits[of], s.circuits[of.Own()]
		if st.Breaker.Probe && callOf(s.admitted[st.Breaker.Revision]) != c.Turn.Call(r.Call).String() {
			s.fail("breaker: %s/%d is started as a probe, and at revision %d that was %q", c.Turn, r.Call, st.Breaker.Revision, s.admitted[st.Breaker.Revision])
		}
		stale := s.w.Now().Sub(n.unwell) < newsTake
		if st.Breaker.State == string(lifecycle.BreakerClosed) && !stale && !is.opened.IsZero() && s.w.Now().Sub(is.opened) > newsTake {
			s.fail("breaker: %s/%d is started as if nothing were the matter, and %s is open since %s", c.Turn, r.Call, of, is.opened)
		}
		if whole.is.State(breakers, s.w.Now()) == lifecycle.BreakerOpen && of.Of != "" && !stale && s.w.Now().Sub(whole.opened) > newsTake {
			s.fail("breaker: %s/%d is started, and its tool is open as a whole since %s", c.Turn, r.Call, whole.opened)
		}
	}
}

// belongs is the circuit of a call.
func (s *sim) belongs(c *lifecycle.Call) lifecycle.Circuit {
	args, _ := lifecycle.Parse(c.Args.Text)
	return circuitOf(c.Tool, args.JSON)
}

// checkDenied checks that a call is denied for its own circuit, or its tool's, and that
// somebody has said so: what happens to one host is no other's.
func (s *sim) checkDenied(turn events.TurnKey, call int, d *events.Denied) {
	if d.Code != events.CircuitOpen {
		return
	}
	t := lifecycle.Fold(turn, commits(s.read(turn))...)
	of := s.belongs(t.Calls[call])
	if d.Circuit != "" && d.Circuit != of.Of {
		s.fail("breaker: %s/%d is denied for the circuit %q, and belongs to %s", turn, call, d.Circuit, of)
	}
	if of.Of = d.Circuit; s.evidence[of] < breakers.Failures {
		s.fail("breaker: %s/%d is denied, and %s has failed %d times", turn, call, of, s.evidence[of])
	}
	if d.Circuit != "" {
		s.counts.mark("denied for its host")
	}
}

// callOf is the call that a probe is: its next owner goes on as the probe.
func callOf(probe string) string {
	call, _, _ := strings.Cut(probe, " ")
	return call
}

// newsTake is how long a node may go by what was.
const newsTake = 20 * time.Second

// nodeOf is the live node of a boot, or nil.
func (s *sim) nodeOf(boot string) *node {
	for _, n := range s.nodes {
		if n.m.Name() == boot {
			return n
		}
	}
	return nil
}

// checkCircuits checks that what was down has one probe in the cluster, and that nothing
// is down without evidence.
func (s *sim) checkCircuits() {
	for _, of := range allCircuits() {
		cell, err := s.door.Cells().Get(ctx, bus.BucketBreaker, actors.BreakerCell(of))
		was := s.circuits[of]
		if errors.Is(err, bus.ErrNotFound) { // it has gone by itself, or there never was one
			delete(s.circuits, of)
		}
		if err != nil || cell.Revision == was.rev {
			continue
		}
		now := circuit{rev: cell.Revision, since: was.since, opened: was.opened}
		if err := json.Unmarshal(cell.Value, &now.is); err != nil {
			s.fail("breaker: the cell of %s: %v", of, err)
		}
		if now.is.Failures > s.evidence[of] {
			s.fail("breaker: the cell of %s counts %d failures, and there were %d", of, now.is.Failures, s.evidence[of])
		}
		s.admitted[cell.Revision] = now.is.Probe
		if now.is.Probe != was.is.Probe {
			now.since = s.w.Now()
		}
		switch {
		case now.is.OpenedAt.IsZero():
			now.opened = time.Time{}
		case was.opened.IsZero():
			now.opened = s.w.Now()
		}
		if now.is.Probe != "" && now.is.Probe != was.is.Probe {
			s.counts.mark("probe admitted")
			if was.is.Probe != "" && callOf(was.is.Probe) != callOf(now.is.Probe) && s.w.Now().Sub(was.since) < breakers.Lease {
				s.fail("breaker: %s probes %s while %s does, for %s", now.is.Probe, of, was.is.Probe, s.w.Now().Sub(was.since))
			}
		}
		s.circuits[of] = now
	}
}

// finalChecks look at what has come of it all.
func (s *sim) finalChecks() {
	for i := 0; s.err == nil && len(s.attempts) > 0; i++ { // whatever is still on its way arrives
		if i == calmSteps {
			s.fail("rest: attempts without an end: %d", len(s.attempts))
		}
		s.step(s.work)
	}
	for _, c := range s.clients {
		if s.err != nil {
			return
		}
		s.checkTurn(c)
	}
	s.checkStarts()
	s.settle()
}

// settle lets everything come to rest, and sees what is left; then the nodes stop.
func (s *sim) settle() {
	until := s.w.Now().Add(2 * rest) // a client may have queued its turn again just now
	for s.err == nil && s.w.Now().Before(until) {
		s.step(s.work)
	}
	s.closing = true
	for _, n := range slices.Clone(s.nodes) {
		if !n.draining {
			s.note("%s is stopped", n.m.Name())
			s.leave(n)
		}
	}
	for i := 0; s.err == nil && len(s.nodes) > 0; i++ {
		if i == calmSteps {
			s.fail("stop: nodes that do not stop:\n%s", s.w)
		}
		s.step(s.work)
	}
	if left := s.log.Queued(); s.err == nil && len(left) > 0 {
		s.fail("rest: messages that nobody has acked: %v", left)
	}
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
