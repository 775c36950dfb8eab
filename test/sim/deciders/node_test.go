package deciders

import (
	"errors"
	"slices"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// room is how many turns a node takes.
const room = 3

// node is one start of one process.
type node struct {
	s      *sim
	boot   string
	view   *memlog.View
	cut    bool
	dead   bool
	shells []*shell
}

func (n *node) shell(key events.TurnKey) *shell {
	for _, sh := range n.shells {
		if sh.key == key {
			return sh
		}
	}
	return nil
}

// step does one thing, and says whether there was one to do.
func (n *node) step() bool {
	if n.reap() {
		return true
	}
	at := n.s.rng.IntN(len(n.shells) + 2)
	for i := range len(n.shells) + 2 {
		var did bool
		switch j := (at + i) % (len(n.shells) + 2); j {
		case len(n.shells):
			did = len(n.shells) < room && n.pull()
		case len(n.shells) + 1:
			did = n.hear()
		default:
			did = n.shells[j].step()
		}
		if did {
			return true
		}
	}
	return false
}

// beat extends the claims of this node.
func (n *node) beat() {
	if n.s.unlucky(0.05) {
		return
	}
	for _, sh := range n.shells {
		if sh.delivery != nil {
			_ = sh.delivery.Extend() // lost: AckWait brings it back
		}
	}
	n.renewLocks()
}

// pull takes a turn from the queue.
func (n *node) pull() bool {
	d, ok := n.view.TryPull([]string{events.DefaultPlacement})
	if !ok {
		return false
	}
	log, err := n.view.Load(ctx, d.Item().Turn, d.Item().Seq)
	if err != nil {
		_ = d.Nak(time.Second)
		return true
	}
	t := lifecycle.Fold(d.Item().Turn, commits(log)...)
	switch {
	case len(log) == 0 || t.Ended != nil:
		n.s.note("%s on %s: acked, it has ended", d.Item().Turn, n.boot)
		if n.barrier() {
			_ = d.Ack()
		}
	case n.shell(t.Key) != nil: // "mine": a copy
		if sh := n.shell(t.Key); sh.delivery == nil || sh.delivery.Reply() != d.Reply() {
			_ = d.Ack()
		}
	case t.Owner.Boot == "" || t.Parked != nil || !n.cared(t, d):
		n.claim(t, log, d)
	default:
		n.s.note("%s on %s: nakked, %s has it", t.Key, n.boot, t.Owner.Boot)
		_ = d.Nak(2 * time.Second)
	}
	return true
}

// cared asks the owner's boot whether the turn is its own. Silence counts against
// it once its message has come back.
func (n *node) cared(t lifecycle.Turn, d bus.Delivery) bool {
	owner := n.s.nodeOf(t.Owner.Boot)
	switch {
	case owner == nil:
		return false
	case owner.cut:
		return d.Deliveries() == 1 && !n.s.chance(0.3)
	}
	return owner.shell(t.Key) != nil
}

// hear takes a wake-up: it is told to the owner, or passed to the queue.
func (n *node) hear() bool {
	d, ok := n.view.TryPullWake()
	if !ok {
		return false
	}
	it := d.Item()
	log, err := n.view.Load(ctx, it.Turn, it.Seq)
	if err != nil {
		_ = d.Nak(time.Second)
		return true
	}
	t := lifecycle.Fold(it.Turn, commits(log)...)
	owner := n.s.nodeOf(t.Owner.Boot)
	switch {
	case len(log) == 0 || t.Ended != nil:
	case owner != nil && !owner.cut && owner.shell(t.Key) != nil:
		owner.shell(t.Key).reload(it.Seq)
	default:
		if err := n.view.Push(ctx, bus.Item{ID: it.ID, Turn: it.Turn, Seq: it.Seq}); err != nil {
			_ = d.Nak(time.Second)
			return true
		}
	}
	n.s.note("%s: heard on %s", it.Turn, n.boot)
	_ = d.Ack()
	return true
}

// claim makes a shell whose first command is the claim.
func (n *node) claim(t lifecycle.Turn, log []bus.Stored, d bus.Delivery) {
	sh := &shell{n: n, key: t.Key, state: t, delivery: d, at: log[len(log)-1].Seq}
	n.shells = append(n.shells, sh)
	sh.command(lifecycle.Claim{
		Boot: n.boot, Reply: d.Reply(), Drained: n.s.drained[t.Owner.Boot] && n.s.nodeOf(t.Owner.Boot) == nil,
	}, nobody)
}

// drop lets a turn go, and orphans what runs for it.
func (n *node) drop(sh *shell) {
	i := slices.Index(n.shells, sh)
	if i < 0 {
		return
	}
	n.shells = slices.Delete(n.shells, i, i+1)
	for _, r := range n.s.runs {
		if r.n == n && r.call.TurnKey() == sh.key {
			r.unwanted = true
		}
	}
}

// reap notes the answers of attempts that can settle nothing any more.
func (n *node) reap() bool {
	for _, r := range n.s.runs {
		if r.n != n || !r.unwanted || !r.ready() || n.cut {
			continue
		}
		n.s.finish(r)
		for _, o := range n.s.nodes { // hands that do not know that the attempt is over
			if sh := o.shell(r.call.TurnKey()); sh != nil && sh.pending == nil && n.s.chance(0.5) {
				sh.stale(r)
			}
		}
		if r.answered {
			n.s.counts.mark("late answer")
			n.s.say(r.call.TurnKey(), events.Owner{}, lifecycle.Late{
				Call: r.call.Offset, Owner: r.owner, Outcome: lifecycle.OutcomeOf(r.settle()),
			})
		}
		return true
	}
	return false
}

// stale reports an attempt that is over: whoever decides must refuse it.
func (sh *shell) stale(r *run) {
	_, err := lifecycle.Decide(sh.state, lifecycle.Env{Now: sh.n.s.now, Owner: sh.owner}, r.settle())
	sh.n.s.counts.mark("stale answer refused: %t", err != nil)
	if err == nil {
		sh.command(r.settle(), nobody)
	}
}

// barrier waits until what was written is durable; a node without it must stop.
func (n *node) barrier() bool {
	return n.view.Barrier().Wait(ctx) == nil
}

// shell is a node's part in one turn: it decides, appends, folds what was written,
// and pays what is due.
type shell struct {
	n        *node
	key      events.TurnKey
	state    lifecycle.Turn
	at       uint64
	owner    events.Owner
	delivery bus.Delivery
	pending  *pending
	waits    []wait
}

// pending is a decision that is not known to be in the log yet.
type pending struct {
	cmd     lifecycle.Command
	commits []events.Commit // what is left to append
	begun   bool            // the first of them is in the log: what is left, if it gets lost, is due again
	done    func(accepted bool)
}

// wait is a call whose gates said: not now.
type wait struct {
	call  int
	until time.Time
	key   bool // another call holds its key
}

// nobody waits to hear whether a command was accepted.
func nobody(bool) {}

// command decides and appends. done hears whether the command was accepted.
func (sh *shell) command(cmd lifecycle.Command, done func(bool)) {
	s := sh.n.s
	records, err := lifecycle.Decide(sh.state, lifecycle.Env{Now: s.now, Owner: sh.owner}, cmd)
	if err != nil {
		s.note("%s on %s: %T refused: %v", sh.key, sh.n.boot, cmd, err)
		s.counts.mark("refused %T", cmd)
		done(false)
		if errors.Is(err, lifecycle.ErrNotOwner) || errors.Is(err, lifecycle.ErrEnded) && sh.state.Ended != nil || sh.owner.Boot == "" {
			sh.n.drop(sh)
		}
		return
	}
	if len(records) == 0 {
		s.note("%s on %s: %T: nothing", sh.key, sh.n.boot, cmd)
		done(true)
		if c, ok := cmd.(lifecycle.Claim); ok && sh.state.Owner.Boot == c.Boot { // already its own
			sh.owner = sh.state.Owner
		}
		return
	}
	by := sh.owner
	if c, ok := records[0].Event.(*events.TurnClaimed); ok {
		by = c.Owner
	}
	sh.pending = &pending{cmd: cmd, done: done}
	for _, part := range s.parts(records) {
		sh.pending.commits = append(sh.pending.commits, events.Commit{ID: s.id("c"), Turn: sh.key, At: s.now, By: by, Records: part})
	}
	sh.push()
}

// parts are the commits of a decision: one, or one for every event.
func (s *sim) parts(records []events.Record) [][]events.Record {
	if !s.single {
		return [][]events.Record{records}
	}
	var out [][]events.Record
	for _, r := range records {
		out = append(out, []events.Record{r})
	}
	return out
}

// push appends what is pending, as far as it comes.
func (sh *shell) push() {
	s := sh.n.s
	for sh.pending != nil && len(sh.pending.commits) > 0 {
		p := sh.pending
		stored, err := sh.n.view.Append(ctx, p.commits[0], sh.at)
		s.note("%s on %s: %T: %s %v", sh.key, sh.n.boot, p.cmd, kinds(p.commits[0].Records), err)
		var conflict *bus.Conflict
		switch {
		case errors.As(err, &conflict):
			s.counts.mark("conflict")
			sh.reload(conflict.Last)
			return
		case err != nil:
			return // it may be kept: the same again, later
		}
		p.commits, p.begun = p.commits[1:], true
		sh.fold(stored)
		if len(p.commits) > 0 && s.unlucky(0.2) {
			return // time for a crash between two events
		}
	}
	sh.finish()
}

// finish is the end of what was pending.
func (sh *shell) finish() {
	if p := sh.pending; p != nil {
		sh.pending = nil
		p.done(true)
		sh.settled()
	}
}

// giveUp lets a turn go that somebody else has claimed.
func (sh *shell) giveUp() {
	sh.n.drop(sh)
	_ = sh.delivery.Nak(time.Second)
}

func (sh *shell) fold(c bus.Stored) {
	sh.state, sh.at = lifecycle.FoldOn(sh.state, c.Commit), c.Seq
	sh.n.s.counts.events(c.Commit.Records)
	if claimed, ok := c.Commit.Records[0].Event.(*events.TurnClaimed); ok && claimed.Owner.Boot == sh.n.boot {
		sh.owner = claimed.Owner
	}
	if sh.state.Broken != "" {
		sh.n.s.fail("%s: its history is broken: %s", sh.key, sh.state.Broken)
	}
}

// reload folds the log again, at least to a sequence that is known to be there. What
// was pending is in it, or is decided again.
func (sh *shell) reload(atLeast uint64) {
	log, err := sh.n.view.Load(ctx, sh.key, max(atLeast, sh.at))
	if err != nil || len(log) == 0 {
		return
	}
	before := sh.at
	sh.state, sh.at = lifecycle.Fold(sh.key, commits(log)...), log[len(log)-1].Seq
	p := sh.pending
	if p == nil || sh.at == before {
		return
	}
	for len(p.commits) > 0 && slices.ContainsFunc(log, func(c bus.Stored) bool { return c.Commit.ID == p.commits[0].ID }) {
		if c, ok := p.commits[0].Records[0].Event.(*events.TurnClaimed); ok {
			sh.owner = c.Owner
		}
		p.commits, p.begun = p.commits[1:], true
	}
	switch _, claims := p.cmd.(lifecycle.Claim); {
	case p.begun:
		sh.finish()
	case claims:
		sh.pending = nil
		sh.giveUp()
	default:
		sh.pending = nil
		sh.command(p.cmd, p.done)
	}
}

// settled looks at what a commit has led to: ends are acked, and what calls held is
// given back.
func (sh *shell) settled() {
	sh.release()
	if sh.state.Ended == nil && sh.state.Parked == nil || !sh.n.barrier() {
		return
	}
	sh.n.drop(sh)
	if sh.delivery != nil {
		_ = sh.delivery.Ack()
	}
}

// step pays one debt, and says whether there was one that could be paid.
func (sh *shell) step() bool {
	if sh.pending != nil {
		if sh.n.cut {
			return false
		}
		sh.push()
		return true
	}
	if sh.state.Owner != sh.owner || sh.state.Ended != nil || sh.state.Parked != nil {
		sh.n.s.note("%s on %s: it is not its own any more", sh.key, sh.n.boot)
		sh.n.drop(sh)
		return true
	}
	due := lifecycle.Due(sh.state)
	if len(due) == 0 {
		sh.n.s.fail("%s: owned by %s and open, and nothing is due", sh.key, sh.owner.Boot)
		return false
	}
	sh.unwanted(due)
	at := sh.n.s.rng.IntN(len(due))
	for i := range due {
		if e := due[(at+i)%len(due)]; sh.pay(e, due) || sh.n.dead {
			return true
		}
	}
	return sh.parkForKeys(due)
}

// unwanted marks the attempts of this turn that nobody wants any more.
func (sh *shell) unwanted(due []lifecycle.Effect) {
	for _, r := range sh.n.s.runs {
		if r.n != sh.n || r.call.TurnKey() != sh.key {
			continue
		}
		want := lifecycle.Effect{Do: lifecycle.DoPerform, Call: r.call.Offset, Attempt: r.attempt}
		r.unwanted = !slices.Contains(due, want)
	}
}
