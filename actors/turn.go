package actors

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// incarnations numbers the lives of actors, so that an answer meant for an
// earlier one is known as such.
var incarnations atomic.Uint64

// turnActor is a mailbox around the decider of one turn: decide, append, fold
// what was written, hand out what is due. It has no opinions.
type turnActor struct {
	n       *Node
	key     events.TurnKey
	inc     uint64
	drained bool // the earlier owner gave the turn back on purpose
	self    *actor.PID
	panics  int

	log   []bus.Stored   // the commits that state was folded from
	at    uint64         // sequence of the last one
	state lifecycle.Turn // of what is in the log
	owner events.Owner   // as this actor has claimed it; zero before
	mine  claimed        // the last claim that this actor decided: what the log may name as its own
	was   events.Owner   // as whom it acted last: what still comes of that is evidence

	// What has been decided on top and is not in the log yet.
	spec    lifecycle.Turn
	pend    []events.Record
	cmds    []lifecycle.Command // that pend came from: decided again after a conflict
	flown   []lifecycle.Command // those of the append under way
	doubt   []lifecycle.Command // starts that were on their way into the log as this actor panicked
	flight  bool                // an append or a reload is under way
	ask     bool                // a flush is in the mailbox
	waits   bool                // a flush comes in a moment
	open    int                 // answers of call actors that will come at once
	answers []answer            // those that have come

	dueOfSpec, dueOfState []lifecycle.Effect // see specDue
	specOld, stateOld     bool

	asked   []*Asked
	calls   map[int]*actor.PID
	owed    map[int][]lifecycle.Effect // what each call actor was told last
	planing bool                       // what planning needs is being looked up
	keys    map[int]bool               // calls that wait for a key, as their gate has said last
	patient func()                     // stops the timer until a turn that waits for keys is parked; nil if there is none
	failing bool                       // and could not be had the last time
	reading bool                       // arguments outside the log are being read
	parking bool
	timer   func() // stops the timer of the turn's deadline; nil if there is none
	ending  bool
	untold  []bus.Stored
	heard   uint64       // nudges acted on
	behind  *nudge       // heard while something was under way
	claimed bool         // this actor's claim is in the log
	gone    map[int]bool // calls whose end was seen, and what they held given up
	drain   bool
	giveUp  bool
	lost    bool         // another owner has it: nothing more is done here
	over    *atomic.Bool // the same, for the actors of its calls
	back    bool         // the message is given back once the turn is out of memory

	hopeless string // why the turn has to be abandoned, "" if it need not be
}

// claimed is a claim that a turn's actor can know again: another actor of the same
// node may have come to the same epoch, and what that one began is not this one's.
type claimed struct {
	owner events.Owner
	reply string
}

func newTurnActor(n *Node, key events.TurnKey, stored []bus.Stored, drained bool) *turnActor {
	return &turnActor{
		n: n, key: key, inc: incarnations.Add(1), drained: drained, log: stored,
		calls: make(map[int]*actor.PID), owed: make(map[int][]lifecycle.Effect), gone: make(map[int]bool), keys: make(map[int]bool), over: new(atomic.Bool),
	}
}

// Receive is proto.actor's, and the actor's boundary.
func (a *turnActor) Receive(c actor.Context) {
	if p := guarded(func() { a.receive(c) }); p != nil {
		a.boundary(c, p)
	}
}

func (a *turnActor) receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.self = c.Self()
		a.begin(c)
	case *actor.Stopping:
		clear(a.calls) // they go with this actor: see terminated
	case *actor.Stopped:
		a.stopped()
	case *actor.Terminated:
		a.terminated(m)
	case appended:
		a.appended(c, m)
	case loaded:
		a.loaded(c, m)
	case planned:
		a.planned(c, m)
	case fetched:
		a.fetched(c, m)
	case answer:
		a.answered(c, m)
	case act:
		a.command(m.cmd)
		a.pump(c)
	case flush:
		if m.inc == a.inc {
			a.ask, a.waits = false, false
			a.commit()
		}
	case due:
		if m.inc == a.inc {
			a.due(c, m)
		}
	case keyHeld:
		if m.inc == a.inc {
			a.keyHeld(m)
		}
	case patience:
		if m.inc == a.inc {
			a.parkOnKeys()
		}
	case nudge:
		a.nudged(m)
	case drain:
		a.drain = true
		a.pump(c)
	case giveUp:
		a.drain, a.giveUp = true, true
		if a.flight && !a.ending {
			return // what is on its way into the log may be the answer of an effect that is done
		}
		a.handBack(c)
		c.Stop(a.self) // also where its last commit still waits for the barrier
	case settledDown:
		if m.inc == a.inc {
			a.finish(c)
		}
	case reopen:
		if m.inc == a.inc {
			a.look(nudge{}) // behind an append that is under way: what it keeps must not be unread
		}
	}
}

// begin folds what the queue's item brought, and claims.
func (a *turnActor) begin(c actor.Context) {
	a.refold(a.log)
	if had := a.state.Owner; had.Boot == a.n.cfg.Boot && a.state.Parked == nil {
		// An earlier actor of this node owned it, and nothing of that is left but what
		// the hands may still hold: it is claimed anew, like another node's.
		a.n.hands.orphan(a.key, new(atomic.Bool), a.n.evidenceOf(had))
	}
	a.claim()
	a.pump(c)
}

func (a *turnActor) claim() {
	d := a.n.delivery(a.key)
	if d == nil {
		return
	}
	a.command(lifecycle.Claim{Boot: a.n.cfg.Boot, Node: a.n.cfg.Name, Reply: d.Reply(), Drained: a.drained})
}

// refold makes the state anew from commits.
func (a *turnActor) refold(stored []bus.Stored) {
	a.log, a.at = stored, 0
	if len(stored) > 0 {
		a.at = stored[len(stored)-1].Seq
	}
	a.state = lifecycle.Fold(a.key, commits(stored)...)
	a.spec, a.pend = a.state, nil
	a.specOld, a.stateOld = true, true
	if a.owner.Boot != "" {
		a.was = a.owner
	}
	a.owner = events.Owner{}
	if a.state.Parked == nil && a.state.Claim != nil && a.mine == (claimed{a.state.Owner, a.state.Claim.Reply}) {
		a.owner = a.state.Owner
		a.claimed = a.claimed || a.owner.Boot != ""
	}
}

// command decides on top of everything decided so far. A refusal is an ordinary
// answer: the command has become pointless, or its attempt is over.
func (a *turnActor) command(cmd lifecycle.Command) {
	if a.lost || a.spec.Ended != nil {
		if b, ok := cmd.(lifecycle.Begin); ok {
			a.unstarted(b, nil)
		}
		a.refused(cmd, lifecycle.ErrStale)
		return
	}
	if _, ok := cmd.(lifecycle.Claim); ok && a.owner.Boot != "" {
		return // decided again after a reload that has found it in the log
	}
	env := lifecycle.Env{Now: a.now(), Owner: a.owner}
	recs, err := lifecycle.Decide(a.spec, env, cmd)
	if j, ok := cmd.(lifecycle.Judge); ok {
		delete(a.keys, j.Call)
	}
	if b, ok := cmd.(lifecycle.Begin); ok {
		a.unstarted(b, recs)
	}
	if err != nil {
		a.refused(cmd, err)
		return
	}
	if len(recs) == 0 {
		return
	}
	if claim, ok := cmd.(lifecycle.Claim); ok {
		a.owner = events.Owner{Boot: a.n.cfg.Boot, Epoch: a.spec.Owner.Epoch + 1}
		a.mine = claimed{a.owner, claim.Reply}
	}
	for _, r := range recs {
		a.spec = lifecycle.Evolve(a.spec, lifecycle.Meta{At: env.Now, By: a.owner}, r)
	}
	a.specOld = true
	a.pend = append(a.pend, recs...)
	a.cmds = append(a.cmds, cmd)
}

// refused notes an answer that came too late: it is evidence.
func (a *turnActor) refused(cmd lifecycle.Command, err error) {
	s, ok := cmd.(lifecycle.Settle)
	if ok && (errors.Is(err, lifecycle.ErrStale) || errors.Is(err, lifecycle.ErrEnded) || errors.Is(err, lifecycle.ErrNotOwner)) {
		a.n.late(a.key.Call(s.Call), cmp.Or(a.owner, a.was), s)
		return
	}
	if !errors.Is(err, lifecycle.ErrStale) && !errors.Is(err, lifecycle.ErrEnded) {
		a.n.log.Info("a command was refused", "turn", a.key.String(), "err", err)
	}
}

func (a *turnActor) now() time.Time { return a.n.cfg.Now().UTC().Truncate(time.Microsecond) }

// pump hands out what is due and has what was decided committed. It runs after
// every message.
func (a *turnActor) pump(c actor.Context) {
	if a.lost || a.ending {
		return
	}
	if a.state.Ended != nil && !a.flight && len(a.pend) == 0 {
		a.end(c)
		return
	}
	if a.state.Parked != nil && a.state.Owner == a.owner && !a.flight && len(a.pend) == 0 {
		a.end(c)
		return
	}
	if a.plan(c) {
		return
	}
	a.tellCalls(c)
	a.turnEffects()
	a.schedule()
	if a.drain && !a.flight && len(a.pend) == 0 {
		a.handBack(c)
	}
}

// linger is how long the end of an attempt may wait for its siblings' ends, to
// share a commit with them, while nothing else waits for it.
const linger = 200 * time.Microsecond

// schedule has what was decided committed: behind what is in the mailbox now,
// so that it joins the commit, or a moment later.
func (a *turnActor) schedule() {
	switch {
	case len(a.pend) == 0 || a.flight || a.open > 0 || a.ask:
	case !a.mayWait():
		a.ask = true
		a.n.root.Send(a.self, flush{a.inc})
	case !a.waits:
		a.waits = true
		inc := a.inc
		a.n.after(linger, func() { a.n.root.Send(a.self, flush{inc}) })
	}
}

// mayWait says whether nothing of what was decided is waited for: it only ends
// calls, and others still run that may end at any moment.
func (a *turnActor) mayWait() bool {
	for _, r := range a.pend {
		if k := r.Event.Kind(); k != events.KindProgress && !events.IsTerminal(k) {
			return false
		}
	}
	return slices.ContainsFunc(a.spec.Calls, func(c *lifecycle.Call) bool { return c.Phase == lifecycle.PhaseStarted })
}

// commit appends what has been decided.
func (a *turnActor) commit() {
	if len(a.pend) == 0 || a.flight || a.open > 0 || a.lost {
		return
	}
	a.flight = true
	recs, inc, at, state := a.pend, a.inc, a.at, a.spec
	a.pend, a.flown, a.cmds = nil, a.cmds, nil
	now := a.now()
	by := a.owner
	a.n.do(func() {
		s, err := a.n.append(a.key, at, by, now, recs, state)
		a.n.root.Send(a.self, appended{inc, s, err})
	})
}

// append makes commits of the records, stores what they refer to, and appends.
func (n *Node) append(key events.TurnKey, at uint64, by events.Owner, now time.Time, recs []events.Record, after lifecycle.Turn) ([]bus.Stored, error) {
	if recs[len(recs)-1].Event.Kind() == events.KindTurnCompleted {
		for _, w := range lifecycle.TurnWholes(after) {
			if w.Whole.Bytes == nil {
				continue
			}
			if _, err := n.putBlob(n.ctx, w.Whole.Bytes, w.Whole.Ref.Media); err != nil {
				return nil, err
			}
		}
	}
	var out []bus.Stored
	for _, c := range bus.Split(events.Commit{ID: n.cfg.ID(), Turn: key, At: now, By: by, Records: recs}) {
		s, err := n.cfg.Bus.Append(n.ctx, c, at)
		if err != nil {
			return out, err
		}
		out, at = append(out, s), s.Seq
	}
	return out, nil
}

// appended folds what was written, or starts over where history has moved on.
func (a *turnActor) appended(c actor.Context, m appended) {
	if m.inc != a.inc {
		return
	}
	a.flight = false
	switch {
	case m.err == nil:
		for _, s := range m.stored {
			a.fold(c, s)
		}
		a.flown = nil
		if len(a.pend) == 0 {
			a.spec, a.specOld = a.state, true
		}
		a.landed()
		a.pump(c)
	case a.n.ctx.Err() != nil:
		a.lost = true
		c.Stop(c.Self())
	case errors.Is(m.err, bus.ErrTooLarge) && a.hopeless != "":
		a.n.log.Error("a turn cannot even be abandoned: it comes again after a while", "turn", a.key.String(), "err", m.err)
		a.lost = true // its message is neither acked nor given back
		c.Stop(c.Self())
	case errors.Is(m.err, bus.ErrTooLarge): // to decide the same again would never end
		a.n.log.Error("an event is too large for the log: the turn is abandoned", "turn", a.key.String(), "err", m.err)
		a.hopeless = "what became of one of its calls is too large for the log"
		a.reload(a.at)
	default:
		if errors.Is(m.err, bus.ErrConflict) {
			a.n.cfg.Seen.Count("conflicts", 1)
		} else {
			a.n.log.Warn("an append failed: reading the turn anew", "turn", a.key.String(), "err", m.err)
		}
		var conflict *bus.Conflict
		last := uint64(0)
		if errors.As(m.err, &conflict) {
			last = conflict.Last
		}
		a.reload(last)
	}
}

// fold takes up a commit of this actor's own, decoded from the stored bytes.
func (a *turnActor) fold(c actor.Context, s bus.Stored) {
	a.log = append(a.log, s)
	a.at = s.Seq
	a.state = lifecycle.FoldOn(a.state, s.Commit)
	a.stateOld = true
	if !a.claimed && a.state.Owner == a.owner {
		a.claimed = true
		for _, call := range a.state.Calls { // also what ended while nobody had the turn, or with its last owner
			a.settled(c, call)
		}
	}
	tools := a.n.toolNames(a.state)
	a.n.cfg.Seen.Committed(s, tools)
	if a.state.Ended == nil {
		a.n.live.tell(s, tools, false)
	} else { // told once the turn's own barrier is past: see finish
		a.untold = append(a.untold, s)
	}
	for _, r := range s.Commit.Records {
		if r.Call != events.TurnEvent {
			a.settled(c, a.state.Calls[r.Call])
		}
	}
}

// settled lets go of what a call does not need any more, as the log stands now.
func (a *turnActor) settled(c actor.Context, call *lifecycle.Call) {
	if call.Phase != lifecycle.PhaseStarted && call.Attempt > 0 {
		a.n.hands.forget(attemptKey{a.key.Call(call.Offset), call.Attempt}, a.n.evidenceOf(call.Started.Owner))
	}
	if call.Phase == lifecycle.PhaseInput {
		a.letGo(call)
	}
	if !call.Open() && !a.gone[call.Offset] {
		a.gone[call.Offset] = true
		a.release(c, call)
	}
}

// toolNames are the tools of a turn's calls, for live subjects. What is not
// registered has no name there: a model can ask for any number of such names.
func (n *Node) toolNames(t lifecycle.Turn) map[int]string {
	m := make(map[int]string, len(t.Calls))
	for i, c := range t.Calls {
		if _, known := n.cfg.Registry.Lookup(c.Tool); known {
			m[i] = c.Tool
		}
	}
	return m
}

// reload reads the turn anew, up to a sequence that it must see: never less than
// what this actor has seen already, or an attempt whose end was folded and
// forgotten would look as if it had still to be run.
func (a *turnActor) reload(atLeast uint64) {
	a.flight = true // nothing is appended meanwhile
	atLeast = max(atLeast, a.at)
	inc := a.inc
	a.n.do(func() {
		var stored []bus.Stored
		var err error
		for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
			stored, err = a.n.load(a.n.ctx, a.key, atLeast)
			if err == nil || !a.n.pause(a.n.ctx, wait) {
				break
			}
		}
		a.n.root.Send(a.self, loaded{inc, stored, err})
	})
}

// loaded decides again what had been decided on a history that has moved on.
func (a *turnActor) loaded(c actor.Context, m loaded) {
	if m.inc != a.inc {
		return
	}
	a.flight = false
	if m.err != nil {
		a.lost = true
		c.Stop(c.Self())
		return
	}
	had := a.owner
	cmds := slices.Concat(a.doubt, a.flown, a.cmds)
	a.doubt, a.flown, a.cmds = nil, nil, nil
	a.refold(m.commits)
	if a.state.Submitted == nil { // the log has lost it: nobody was told that it is there
		a.n.log.Error("a turn has no events any more: dropped", "turn", a.key.String())
		if d := a.n.delivery(a.key); d != nil {
			a.n.ack(d)
		}
		a.lost = true
		c.Stop(c.Self())
		return
	}
	if had.Boot != "" && a.state.Owner.Epoch >= had.Epoch && a.state.Owner != had {
		a.orphan(had)
		if a.state.Ended == nil {
			a.lose(c)
			return
		}
	}
	for _, call := range a.state.Calls { // also what an append has kept whose answer was lost
		a.settled(c, call)
	}
	if a.hopeless == "" {
		for _, cmd := range cmds {
			a.command(cmd)
		}
	} else {
		for _, b := range begins(cmds) {
			a.unstarted(b, nil)
		}
	}
	if a.owner.Boot == "" && a.state.Ended == nil {
		a.claim()
	}
	switch {
	case a.owner.Boot == "":
	case a.hopeless != "":
		a.command(lifecycle.Abandon{Reason: a.hopeless})
	default:
		a.command(lifecycle.Advance{})
	}
	clear(a.owed)
	a.open, a.answers = 0, nil
	a.landed()
	a.pump(c)
}

// lose stops acting for a turn that another boot has claimed. Where this one's
// own claim never came into the log, the message goes back, to be judged on the
// whole history.
func (a *turnActor) lose(c actor.Context) {
	a.lost, a.back = true, !a.claimed
	if a.claimed {
		a.n.log.Warn("another node has claimed the turn: this one stops acting for it", "turn", a.key.String(), "owner", a.state.Owner.Boot)
	}
	c.Stop(c.Self())
}

// orphan lets go of what runs and what is held here for a turn that is not this
// actor's any more. What the attempts still answer is evidence.
func (a *turnActor) orphan(had events.Owner) {
	a.n.hands.orphan(a.key, a.over, a.n.evidenceOf(had))
	a.n.locks.drop(a.key)
}

// nudged reads the turn anew where somebody else has appended to it.
func (a *turnActor) nudged(m nudge) {
	if a.ending || a.lost || a.spec.Parked != nil {
		return // not heard: see unseat
	}
	a.heard++
	if m.heard != nil {
		m.heard()
	}
	clear(a.keys) // the gates look anew, and say so again
	for _, i := range ordered(a.calls) {
		a.n.root.Send(a.calls[i], again{a.heard})
	}
	a.look(m)
}

// look reads the turn anew where the nudge is about more than is known, once
// the append or reload under way has come back.
func (a *turnActor) look(m nudge) {
	switch {
	case m.seq != 0 && m.seq <= a.at:
	case a.flight:
		a.behind = &m
	default:
		a.behind = nil
		a.reload(m.seq)
	}
}

// landed is called when an append or a reload has come back.
func (a *turnActor) landed() {
	a.flight = false
	if m := a.behind; m != nil && !a.lost {
		a.behind = nil
		a.look(*m)
	}
}
