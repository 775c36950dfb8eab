package deciders

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// tool is a kind of call.
type tool struct {
	tier      events.Tier
	safe      bool
	honours   bool // one effect for one key, whatever comes twice
	probe     bool
	retries   int
	exclusive bool
	asks      bool // the policy asks a person
	down      bool // fails for want of its server, most of the time
	bomb      bool // kills its node
	input     bool // asks a person before it does anything, most of the time
}

// toolNames and tools are all of them.
var toolNames = []string{"read", "fetch", "edit", "write", "upsert", "charge", "post", "pay", "bash", "deploy", "quiz", "sign"}

// Days are what a run is mostly about.
const (
	anyDay    = iota
	keyDay    // the same keys, again and again
	fetchDay  // a server that is down
	bombDay   // a call that kills its node
	busyDay   // nothing in particular, more of it
	otherDays // how many there are
)

var tools = map[string]tool{
	"read":   {tier: events.Readonly, safe: true, retries: 2},
	"fetch":  {tier: events.Readonly, safe: true, retries: 1, down: true},
	"edit":   {tier: events.Reversible, exclusive: true, retries: 2},
	"write":  {tier: events.Reversible, exclusive: true, probe: true, retries: 2},
	"upsert": {tier: events.Reversible, honours: true, retries: 2},
	"charge": {tier: events.Irreversible, retries: 2},
	"post":   {tier: events.Irreversible, probe: true, retries: 2},
	"pay":    {tier: events.Irreversible, probe: true, honours: true, retries: 2},
	"bash":   {tier: events.Irreversible, asks: true},
	"deploy": {tier: events.Approval},
	"quiz":   {tier: events.Readonly, safe: true, input: true, retries: 2},
	"sign":   {tier: events.Irreversible, input: true},
	"bomb":   {tier: events.Readonly, bomb: true},
}

// newClient submits a turn that nobody has thought of before.
func (s *sim) newClient() {
	key := events.TurnKey{Trace: "t", Turn: fmt.Sprint(len(s.clients) + 1)}
	sub := events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"}, CanAsk: s.chance(0.85), Disjoint: s.chance(0.4),
		Limits: events.Limits{Concurrency: s.rng.IntN(4)},
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
	c := events.RawCall{ProviderID: "id", Tool: toolNames[s.rng.IntN(len(toolNames))]}
	switch {
	case s.day == keyDay && s.chance(0.7):
		c.Tool = []string{"pay", "charge", "upsert"}[s.rng.IntN(3)]
		c.Key = fmt.Sprint("k", s.rng.IntN(2))
		c.Args.Text = fmt.Sprintf(`{"n":%d}`, min(s.rng.IntN(6), 1))
		return c
	case s.day == fetchDay && s.chance(0.7):
		c.Tool = "fetch"
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
	if t := tools[c.Tool]; t.tier != events.Readonly && s.chance(0.3) || t.honours {
		c.Key = fmt.Sprint("k", s.rng.IntN(3))
		if t.honours && s.chance(0.7) {
			c.Key = fmt.Sprint("own", len(s.clients), ".", i)
		}
	}
	return c
}

// submit is what a client does until it is told that its turn is kept. The same
// again attaches.
func (s *sim) submit(c *client) {
	t, at, log := s.load(c.key)
	records, err := lifecycle.Decide(t, lifecycle.Env{Now: s.now}, lifecycle.Submit{Turn: c.sub})
	if err != nil {
		s.fail("%s: submitted again: %v", c.key, err)
		return
	}
	if len(records) > 0 {
		stored, err := s.door.Append(ctx, events.Commit{ID: "submit." + c.key.Turn, Turn: c.key, At: s.now, Records: records}, at)
		s.note("%s: submitted: %v", c.key, err)
		s.counts.events(records)
		if err != nil {
			return
		}
		at = stored.Seq
	} else {
		at = log[0].Seq
	}
	if s.door.Push(ctx, bus.Item{ID: s.id("new."), Turn: c.key, Seq: at}) != nil {
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
	t, _, log := s.load(c.key)
	if len(log) == 0 {
		s.fail("L4: %s was acknowledged, and is not in the log", c.key)
		return
	}
	if t.Ended == nil || s.door.Barrier().Wait(ctx) != nil {
		return
	}
	c.told = answers(t)
	s.note("%s: told %s", c.key, strings.Join(c.told, "; "))
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
	return strings.Join(out, "; ")
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
	for j, call := range t.Calls { // rather one that waits for a person
		if (call.Phase == lifecycle.PhaseAsking || call.Phase == lifecycle.PhaseInput) && s.chance(0.7) {
			i = j
		}
	}
	if call := t.Calls[i]; call.Phase == lifecycle.PhaseInput && s.chance(0.6) || call.Input != nil && s.chance(0.2) { // or too late
		s.say(c.key, events.Owner{}, s.input(t, i))
		return
	}
	var cmd lifecycle.Command
	switch x := s.rng.IntN(100); {
	case x < 45:
		cmd = s.approval(t, i)
	case x < 60:
		cmd = lifecycle.Reject{Call: i, By: ann}
	case x < 75:
		cmd = lifecycle.CancelCall{Call: i, By: ann}
	case x < 77:
		cmd = lifecycle.CancelTurn{By: ann}
	default:
		effects, certain := s.ledger.known(s, t.Key.Call(i))
		if !certain {
			return
		}
		cmd = lifecycle.Resolve{Call: i, By: ann, Effects: effects}
	}
	s.say(c.key, events.Owner{}, cmd)
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
	if c := t.Calls[i]; c.Asked != nil && s.chance(0.3) {
		cmd.Asking = c.Asked.Number() - s.rng.IntN(2) // 0, the last one or the one before
	}
	if s.chance(0.1) { // which is refused
		cmd.By = events.Principal{ID: "helper", Kind: "agent"}
	}
	return cmd
}

// input is what a person says to a tool that asks.
func (s *sim) input(t lifecycle.Turn, i int) lifecycle.Command {
	cmd := lifecycle.Answer{Call: i, By: ann}
	if s.chance(0.3) {
		cmd.Round = t.Calls[i].Input.Round - s.rng.IntN(2) // 0, the last one or the one before
	}
	if s.chance(0.1) { // which is refused
		cmd.By = events.Principal{ID: "helper", Kind: "agent"}
	}
	action := []string{events.InputAccept, events.InputDecline, events.InputCancel}[s.rng.IntN(3)]
	for _, r := range t.Calls[i].Input.Requests {
		cmd.Answers = append(cmd.Answers, events.InputAnswer{ID: r.ID, Action: action})
	}
	return cmd
}

// sweep queues a turn that nobody seems to look after.
func (s *sim) sweep() {
	c := s.clients[s.rng.IntN(len(s.clients))]
	t, at, _ := s.load(c.key)
	if t.Submitted == nil || t.Ended != nil {
		return
	}
	owner := s.nodeOf(t.Owner.Boot)
	cared := owner != nil && !owner.cut && owner.shell(c.key) != nil && t.Parked == nil
	if cared {
		return
	}
	if p := t.Parked; p != nil && (p.Due.IsZero() || s.now.Before(p.Due)) && !s.chance(0.2) {
		return
	}
	s.note("%s: swept", c.key)
	if err := s.door.Push(ctx, bus.Item{ID: s.id("sweep."), Turn: c.key, Seq: at}); err != nil && !errors.Is(err, bus.ErrUncertain) {
		s.note("%s: not swept: %v", c.key, err)
	}
}

// nodeOf is the live node of a boot, or nil.
func (s *sim) nodeOf(boot string) *node {
	for _, n := range s.nodes {
		if n.boot == boot {
			return n
		}
	}
	return nil
}

// long is a wait that nobody sits through.
const long = time.Hour
