package sim

import (
	"fmt"
	"strings"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Days are what a run is mostly about.
const (
	anyDay    = iota
	keyDay    // the same keys, again and again
	fetchDay  // a server that is down
	bombDay   // a call that kills its node
	busyDay   // nothing in particular, more of it
	otherDays // how many there are
)

// newClient submits a turn that nobody has thought of before.
func (s *sim) newClient() {
	key := events.TurnKey{Trace: "t", Turn: fmt.Sprint(len(s.clients) + 1)}
	sub := events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"}, CanAsk: s.chance(0.85), Disjoint: s.chance(0.4),
		Limits: events.Limits{Concurrency: s.rng.IntN(4)},
	}
	if s.chance(0.1) {
		sub.Placement = far
	}
	if s.chance(0.2) {
		sub.OnError = events.OnErrorAbortRest
	}
	if s.chance(0.15) {
		sub.Limits.DeadlineMS = 1000 + s.rng.Int64N(60_000)
	}
	for i := range 1 + s.rng.IntN(5) {
		sub.Calls = append(sub.Calls, s.newCall(i))
	}
	s.clients = append(s.clients, &client{key: key, sub: sub})
	s.submit(s.clients[len(s.clients)-1])
}

func (s *sim) newCall(i int) events.RawCall {
	c := events.RawCall{ProviderID: "id", Tool: kindNames[s.rng.IntN(len(kindNames))]}
	switch {
	case s.day == keyDay && s.chance(0.7):
		c.Tool = []string{"pay", "charge", "upsert"}[s.rng.IntN(3)]
		c.Key = fmt.Sprint("k", s.rng.IntN(2))
		c.Args.Text = fmt.Sprintf(`{"n":%d}`, min(s.rng.IntN(6), 1))
		return c
	case s.day == fetchDay && s.chance(0.7):
		c.Tool = []string{"fetch", "browse"}[s.rng.IntN(2)]
	case s.day == bombDay && i == 1:
		c.Tool = "bomb"
	}
	args := fmt.Sprintf(`{"n":%d`, s.rng.IntN(2)) // often the same as another call's
	if s.chance(0.5) {
		args += fmt.Sprintf(`,"on":"%c"`, 'a'+s.rng.IntN(3))
	}
	c.Args.Text = args + "}"
	switch s.rng.IntN(20) {
	case 0:
		c.Tool = "nosuch"
	case 1:
		c.Args.Text = args
	case 2:
		c.Refused = &events.Refusal{Code: events.TruncatedByModel, Reason: "cut"}
	}
	if k := callKinds[c.Tool]; k.tier != events.Readonly && s.chance(0.3) || k.honours {
		c.Key = fmt.Sprint("k", s.rng.IntN(3))
		if k.honours && s.chance(0.7) {
			c.Key = fmt.Sprint("own", len(s.clients), ".", i)
		}
	}
	return c
}

// submit is what a client does until it is told that its turn is kept. The same
// again attaches.
func (s *sim) submit(c *client) {
	t, at, log := s.load(c.key)
	now := s.now()
	records, err := lifecycle.Decide(t, lifecycle.Env{Now: now}, lifecycle.Submit{Turn: c.sub})
	if err != nil {
		s.fail("%s: submitted again: %v", c.key, err)
		return
	}
	it := bus.Item{ID: s.id("new."), Turn: c.key, Placement: c.sub.Placement}
	if len(records) > 0 {
		stored, err := s.door.Append(ctx, events.Commit{ID: "submit." + c.key.Turn, Turn: c.key, At: now, Records: records}, at)
		s.note("%s: submitted: %v", c.key, err)
		if err != nil {
			return
		}
		it.Seq = stored.Seq
		if s.chance(0.5) {
			if it.Commit, err = events.Encode(stored.Commit); err != nil {
				s.fail("%s: %v", c.key, err)
			}
		}
	} else {
		it.Seq = log[0].Seq
	}
	if s.swept && s.unlucky(0.05) {
		s.counts.mark("door died before its push")
		c.acked = s.door.Barrier().Wait(ctx) == nil
		return // a sweep finds it
	}
	if s.door.Push(ctx, it) != nil {
		return
	}
	c.acked = s.door.Barrier().Wait(ctx) == nil
}

// ask is a client that looks for its answers.
func (s *sim) ask() {
	c := s.clients[s.rng.IntN(len(s.clients))]
	if !c.acked {
		s.submit(c)
		return
	}
	if c.told != nil {
		return
	}
	if s.chance(0.5) {
		s.await(c)
		return
	}
	t, _, log := s.load(c.key)
	if len(log) == 0 {
		s.fail("L4: %s was acknowledged, and is not in the log", c.key)
		return
	}
	if t.Ended == nil || s.door.Barrier().Wait(ctx) != nil {
		return
	}
	s.tell(c, t)
}

// tell gives a client its answers. They never change after that.
func (s *sim) tell(c *client, t lifecycle.Turn) {
	if c.told == nil {
		c.told = answers(t)
		s.note("%s: told %s", c.key, strings.Join(c.told, "; "))
	}
}

// hear tells the clients who wait at a node what it has brought to an end.
func (s *sim) hear() {
	for _, c := range s.clients {
		if c.waits == nil {
			continue
		}
		select {
		case f := <-c.waits:
			c.waits = nil
			s.counts.mark("told by a node")
			s.tell(c, f.Turn)
		default:
		}
	}
}

// await has a client wait at a node.
func (s *sim) await(c *client) {
	if n := s.any(); n != nil && c.told == nil && c.acked {
		c.waits, _ = n.Watch(c.key)
	}
}

// answers are what the model is told of each call.
func answers(t lifecycle.Turn) []string {
	out := make([]string, len(t.Calls))
	for i, c := range t.Calls {
		a := lifecycle.AnswerOf(i, t.Submitted.Calls[i], c.Terminal)
		out[i] = string(lifecycle.Envelope(a))
	}
	return out
}

// over says whether every turn has ended, and every client was told.
func (s *sim) over() bool {
	for _, c := range s.clients {
		if c.told == nil {
			return false
		}
	}
	return true
}

// open describes what has not ended, for a failure.
func (s *sim) open() string {
	var out []string
	for _, c := range s.clients {
		if t, _, _ := s.load(c.key); t.Ended == nil {
			line := fmt.Sprintf("%s owned by %s/%d, parked %t:", c.key, t.Owner.Boot, t.Owner.Epoch, t.Parked != nil)
			for _, call := range t.Calls {
				line += fmt.Sprintf(" %d %s %s", call.Offset, call.Tool, call.Phase)
			}
			out = append(out, line+fmt.Sprint(" due ", lifecycle.Due(t)))
		}
	}
	return fmt.Sprintf("%s\nqueued: %v\n%s", strings.Join(out, "; "), s.log.Queued(), s.w)
}

var ann = events.Principal{ID: "ann", Kind: "person"}

// person does something to a turn that a person may do.
func (s *sim) person() {
	c := s.clients[s.rng.IntN(len(s.clients))]
	t, _, _ := s.load(c.key)
	if t.Submitted == nil {
		return
	}
	i := s.rng.IntN(len(t.Calls))
	for j, call := range t.Calls { // rather one that waits for a person, or for a tool to remember
		if (call.Phase == lifecycle.PhaseAsking || call.Phase == lifecycle.PhaseInput) && s.chance(0.7) || call.Phase == lifecycle.PhaseProbing || call.Phase == lifecycle.PhaseGiven {
			i = j
		}
	}
	if call := t.Calls[i]; call.Phase == lifecycle.PhaseInput && s.chance(0.6) || call.Input != nil && s.chance(0.2) { // or too late
		s.say(c.key, s.input(t, i))
		return
	}
	var cmd lifecycle.Command
	switch x := s.rng.IntN(100); {
	case x < 45:
		cmd = s.approval(t, i)
	case x < 60:
		cmd = lifecycle.Reject{Call: i, By: ann}
	case x < 75 || x < 90 && (t.Calls[i].Phase == lifecycle.PhaseProbing || t.Calls[i].Phase == lifecycle.PhaseGiven): // which is over soon
		cmd = lifecycle.CancelCall{Call: i, By: ann}
	case x < 77:
		cmd = lifecycle.CancelTurn{By: ann}
	default:
		effects, certain := s.known(t, i)
		if !certain {
			return
		}
		cmd = lifecycle.Resolve{Call: i, By: ann, Effects: effects}
	}
	s.say(c.key, cmd)
}

func (s *sim) approval(t lifecycle.Turn, i int) lifecycle.Command {
	cmd := lifecycle.Approve{Call: i, By: ann}
	if s.chance(0.2) {
		a, err := lifecycle.Parse(`{"n":7}`)
		if err != nil {
			s.fail("%v", err)
		}
		cmd.Args = &a
	}
	if s.chance(0.3) {
		cmd.Scope = events.ScopeSession
	}
	if c := t.Calls[i]; c.Asked != nil && s.chance(0.3) {
		cmd.Hash = c.Asked.Hash
	}
	if c := t.Calls[i]; c.Asked != nil {
		cmd.Asking = c.Asked.Number() - int(t.Seq%2) // the last one, or the one before, or any
	}
	return cmd
}

// known is what a person who looks can find out, and whether it is certain: nothing
// of the call is on its way any more, and no process that was told to run it may
// still begin.
func (s *sim) known(t lifecycle.Turn, call int) (e events.Effects, certain bool) {
	key := t.Key.Call(call)
	if t.Calls[call].Last == events.KindDeduplicated {
		return "", false // it is its holder that a person looks at
	}
	if s.ledger.of(key) > 0 {
		return events.EffectsDone, true
	}
	for _, a := range s.attempts {
		if a.call == key {
			return "", false
		}
	}
	if st := t.Calls[call].Started; st != nil {
		for _, n := range s.nodes {
			if _, begun := s.ledger.begun[attemptOf{key, st.Attempt}]; !begun && n.m.Name() == st.Owner.Boot {
				return "", false
			}
		}
	}
	return events.EffectsNone, true
}
