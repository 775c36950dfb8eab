package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/actors/det"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// node is one start of one process of the cell.
type node struct {
	*actors.Node
	c *cell
	m *det.Machine
	l *line
}

// room is how many turns a node takes: the played one, and one more so that a message
// that comes again is looked at.
const room = 2

// boot starts a node.
func (c *cell) boot() *node {
	m := c.w.Machine(c.names())
	n := &node{c: c, m: m}
	b := m.Connect(c.log)
	n.l = &line{Bus: b, c: c, n: n}
	var log slog.Handler = slog.DiscardHandler
	if c.telling {
		log = words{n}
	}
	var err error
	n.Node, err = actors.New(actors.Config{
		Bus: n.l, Registry: c.s.registry, Authorizer: c.bench, Boot: m.Name(), Workspace: "/replay", Placements: c.s.places(),
		Room: room, Approval: c.approval, Breaker: lifecycle.BreakerConfig{Failures: c.s.failures()}, Execute: n.execute, System: c.system, Scheduler: m, Now: m.Now, Rand: func() float64 { return 0.5 },
		ID: func() string { return c.id("c") }, Seen: n, Log: slog.New(log), Vault: blind{}, ShowSecrets: true,
	})
	if err != nil {
		c.fail(lawEngine, events.TurnEvent, "no node: %v", err)
		return n
	}
	c.nodes = append(c.nodes, n)
	c.tell("node %s starts", m.Name())
	m.Go(func() {
		if err := n.Start(background); err != nil {
			c.fail(lawEngine, events.TurnEvent, "the node does not start: %v", err)
		}
	})
	return n
}

// failures is how many of a tool open its breaker: more than were recorded, and one of
// replay's. What else the cluster knew of the tool then is not in the trace: where its
// breaker was open, the call was denied.
func (s *Script) failures() int {
	n := lifecycle.BreakerFailures
	for _, k := range s.calls {
		for _, a := range k.attempts {
			if a.outcome.Class == events.ClassUnavailable || a.outcome.Class == events.ClassTimeout {
				n++
			}
		}
	}
	return n
}

// places are the placements that nodes serve: the turn's.
func (s *Script) places() []string {
	if s.place == events.DefaultPlacement {
		return nil
	}
	return []string{events.DefaultPlacement, s.place}
}

// Committed is actors.Observer's.
func (n *node) Committed(bus.Stored, map[int]string) {}

// Count is actors.Observer's.
func (n *node) Count(name string, by int) {
	if name == "actor_panics" {
		n.c.fail(lawEngine, events.TurnEvent, "an actor of the runtime panicked")
	}
}

// kill ends a node without a word.
func (c *cell) kill(n *node) {
	if n == nil || n.m.Dead() {
		return
	}
	c.tell("node %s dies", n.m.Name())
	n.m.Kill()
	_ = n.l.Bus.Close()
	c.ledger.died(n)
}

// owner is the node that owns the turn as the log says, or nil.
func (c *cell) owner() *node {
	boot := ""
	for _, s := range c.commits {
		if e, ok := s.Commit.Records[0].Event.(*events.TurnClaimed); ok {
			boot = e.Owner.Boot
		}
	}
	for _, n := range c.nodes {
		if n.m.Name() == boot {
			return n
		}
	}
	if len(c.nodes) > 0 && boot == "" {
		return c.nodes[0] // it is about to claim it
	}
	return nil
}

// words are what a node says, in the story.
type words struct{ n *node }

// Enabled is slog.Handler's.
func (words) Enabled(context.Context, slog.Level) bool { return true }

// Handle is slog.Handler's.
func (w words) Handle(_ context.Context, r slog.Record) error {
	said := r.Message
	r.Attrs(func(a slog.Attr) bool {
		said += " " + a.Key + "=" + a.Value.String()
		return true
	})
	w.n.c.tell("node %s says: %s", w.n.m.Name(), said)
	return nil
}

// WithAttrs is slog.Handler's.
func (w words) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup is slog.Handler's.
func (w words) WithGroup(string) slog.Handler { return w }

// line is a connection to the log on which every event is a commit of its own, so that
// a fault can stand between any two. One without a node is the door's: of the
// client, and of people.
type line struct {
	*det.Bus
	c    *cell
	n    *node
	view *memlog.View // of the door's
}

// Append is bus.Log's.
func (l *line) Append(ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	if c.Turn != l.c.s.Key {
		return l.raw(ctx, c, at)
	}
	out := bus.Stored{Commit: events.Commit{ID: c.ID, Turn: c.Turn, At: c.At, By: c.By, Records: make([]events.Record, 0, len(c.Records))}}
	var unheard error
	for i := range c.Records {
		part := c
		part.Records = c.Records[i : i+1 : i+1]
		if len(c.Records) > 1 {
			part.ID = c.ID + "." + strconv.Itoa(i)
		}
		s, err := l.one(context.WithValue(ctx, rest{}, i > 0 && ending(c)), part, at)
		switch {
		case errors.Is(err, errUnheard) && ending(c):
			unheard = err
		case err != nil:
			return bus.Stored{}, err
		}
		at, out.Seq, out.Generation, out.Size = s.Seq, s.Seq, s.Generation, out.Size+s.Size
		out.Commit.Records = append(out.Commit.Records, s.Commit.Records...)
		out.Commit.At = s.Commit.At
	}
	return out, unheard
}

// rest says of a context that what is appended is the rest of an ending.
type rest struct{}

// errUnheard says that an append was kept and not answered.
var errUnheard = fmt.Errorf("%w: it was kept", bus.ErrUncertain)

// ending says whether a commit claims a turn and ends it at once, as a node does for a
// turn that needs no actor. It is one message, and what is not heard of it is not heard
// of the whole.
func ending(c events.Commit) bool {
	return c.Records[0].Event.Kind() == events.KindTurnClaimed && events.EndsTurn(c.Records[len(c.Records)-1].Event.Kind())
}

// raw is an append past all faults.
func (l *line) raw(ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	if l.n == nil {
		return l.view.Append(ctx, c, at)
	}
	return l.Bus.Append(ctx, c, at)
}

// one appends one event, unless a fault stands before it.
func (l *line) one(ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	for _, x := range l.c.strikes {
		if x.before(c) {
			return x.hit(l, ctx, c, at)
		}
	}
	return l.kept(ctx, c, at)
}

// kept appends one event, and does what follows from it in the cell.
func (l *line) kept(ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	s, err := l.raw(ctx, c, at)
	if err != nil {
		return s, err
	}
	l.c.happened(l, s, c)
	if n := len(l.c.commits); n == 0 || l.c.commits[n-1].Seq < s.Seq { // the power has failed meanwhile, and whoever has appended it is not told
		return bus.Stored{}, fmt.Errorf("append: %w", bus.ErrUncertain)
	}
	return s, nil
}

// happened takes up an event that is in the log now.
func (c *cell) happened(l *line, s bus.Stored, was events.Commit) {
	if n := len(c.commits); n > 0 && c.commits[n-1].Seq >= s.Seq {
		return // it was there already: a repeated try
	}
	c.commits = append(c.commits, s)
	c.sameStored(s, was)
	c.tell("%s: %s%s", who(s.Commit), place(s.Commit.Records[0]), gist(s.Commit.Records[0].Event))
	for _, x := range c.strikes {
		x.after(l, s)
	}
	c.follow() // BEHIND the faults: what follows may be what they stand before
}

// Blobs is bus.Bus's: what the recording refers to is there.
func (l *line) Blobs() bus.Blobs { return shelf{l.Bus.Blobs(), l.c.s.blobs} }

// shelf are the blobs of a cell, over those of the recording.
type shelf struct {
	bus.Blobs
	recorded map[string][]byte
}

// Get is bus.Blobs'.
func (x shelf) Get(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	if b, ok := x.recorded[ref.Digest]; ok {
		return b, nil
	}
	return x.Blobs.Get(ctx, ref)
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a struct of plain members always has a JSON form
	}
	return b
}

var (
	_ bus.Bus         = (*line)(nil)
	_ actors.Observer = (*node)(nil)
)
