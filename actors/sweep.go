package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// sweepCell is where the sweeping node of the cluster stands. Locks' cells have
// hexadecimal names.
const sweepCell = "sweep"

// sweepPace is how many commits a second are read while nobody has died: reading all
// of a busy log as it grows would cost a fifth of what it takes to write it.
const sweepPace = 1000

// sweepStride is how many sequences the cell may lie behind.
const sweepStride = 5000

// sweepAt is the cell's value. The role is nobody's lease: two nodes that sweep at
// once do no harm, since what they push are hints.
type sweepAt struct {
	Boot string `json:"boot"`
	From string `json:"from"` // position before which every turn has ended
}

// sweeper looks for turns that nobody has in mind: their door died before it queued
// them, or their message went with whoever had it. One node of the cluster does it. It
// reads what was appended since the last time, and remembers a few words of each turn
// that is open.
type sweeper struct {
	n      *Node
	rev    uint64
	saved  uint64 // sequence of the position in the cell
	at     events.Position
	open   map[events.TurnKey]lifecycle.Glance
	found  map[events.TurnKey]sighting
	deaths int64 // of nodes, as far as they were seen to
}

// sighting is what was found about a turn, and how often in a row.
type sighting struct {
	remedy lifecycle.Remedy
	last   uint64 // sequence of its last commit
	times  int
}

// sweeps runs for as long as the node takes turns.
func (n *Node) sweeps() {
	s := &sweeper{n: n}
	for n.pause(n.pull, n.cfg.Sweep) {
		ctx, stop := n.timeout(n.pull, max(n.cfg.Sweep, time.Minute))
		mine, err := s.mine(ctx)
		if err == nil && mine {
			err = s.sweep(ctx)
		}
		stop()
		if err != nil && n.pull.Err() == nil {
			n.log.Warn("turns that nobody has in mind could not be looked for: trying again", "err", err)
		}
	}
}

// mine says whether this node is the one that sweeps, and makes it so where the one
// that did is gone.
func (s *sweeper) mine(ctx context.Context) (bool, error) {
	cell, err := s.n.cfg.Bus.Cells().Get(ctx, bus.BucketLock, sweepCell)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return false, err
	}
	var at sweepAt
	if err == nil && json.Unmarshal(cell.Value, &at) != nil {
		at = sweepAt{} // not ours: read from the beginning
	}
	if at.Boot == s.n.cfg.Boot && s.open != nil {
		s.rev = cell.Revision
		return true, nil
	}
	if at.Boot != "" && at.Boot != s.n.cfg.Boot && !s.n.drained(at.Boot) && !s.n.departed(ctx, at.Boot) {
		s.open, s.found = nil, nil
		s.n.unserved.Store(0)
		return false, nil
	}
	from := events.Position{}
	if p, err := events.ParsePosition(at.From); err == nil {
		from = p
	}
	s.rev = cell.Revision
	err = s.save(ctx, from)
	if errors.Is(err, bus.ErrConflict) {
		return false, nil // another one was quicker
	}
	s.restart(from)
	return err == nil, err
}

func (s *sweeper) restart(from events.Position) {
	s.deaths = -1 // whoever did this before may have died
	s.at, s.open, s.found = from, make(map[events.TurnKey]lifecycle.Glance), make(map[events.TurnKey]sighting)
}

func (s *sweeper) save(ctx context.Context, from events.Position) error {
	value, err := json.Marshal(sweepAt{Boot: s.n.cfg.Boot, From: from.String()})
	if err != nil {
		return err
	}
	rev, err := s.n.cfg.Bus.Cells().Put(ctx, bus.BucketLock, sweepCell, value, s.rev, 0)
	if err == nil {
		s.rev, s.saved = rev, from.Seq
	}
	return err
}

// sweep reads on, and does something about what was found twice in a row.
func (s *sweeper) sweep(ctx context.Context) error {
	deaths := s.n.deaths.Load()
	limit := max(100, int(sweepPace*s.n.cfg.Sweep.Seconds()))
	if deaths != s.deaths { // what it had in mind may be nobody's now
		limit = math.MaxInt
	}
	err := s.read(ctx, limit)
	if errors.Is(err, errPaced) {
		return nil // what was read is old: nothing is judged by it
	}
	if err != nil {
		return err
	}
	served, err := s.n.served(ctx)
	if err != nil {
		return err
	}
	l := look{s: s, served: served, gone: make(map[string]bool), oldest: make(map[string]uint64)}
	now, unserved := s.n.cfg.Now(), int64(0)
	for _, key := range sortedTurns(s.open) {
		g := s.open[key]
		a, err := l.around(ctx, g, now)
		if err != nil {
			return err
		}
		if g.Owner == "" && !a.Served {
			unserved++
		}
		remedy := lifecycle.Stranded(g, a)
		f := s.found[key]
		if f.remedy != remedy || f.last != g.Last {
			f = sighting{remedy: remedy, last: g.Last}
		}
		f.times++
		if remedy == lifecycle.RemedyNone {
			delete(s.found, key)
			continue
		}
		if s.found[key] = f; f.times > 1 && f.times&(f.times-1) == 0 { // more and more seldom
			if err := s.push(ctx, key, g, f); err != nil {
				return err
			}
		}
	}
	s.n.unserved.Store(unserved)
	if s.idle() {
		s.deaths = deaths
	}
	return s.keep(ctx)
}

// idle says that nothing was found that has not been found twice.
func (s *sweeper) idle() bool {
	for _, f := range s.found {
		if f.times < 2 {
			return false
		}
	}
	return true
}

// errPaced ends a reading that has taken enough.
var errPaced = errors.New("enough was read for now")

// keep writes where the next one may begin, now and then.
func (s *sweeper) keep(ctx context.Context) error {
	from := s.at
	for _, g := range s.open {
		if g.First < from.Seq {
			from.Seq, from.Index = g.First, 0
		}
	}
	if from.Seq < s.saved+sweepStride {
		return nil
	}
	err := s.save(ctx, from)
	if errors.Is(err, bus.ErrConflict) {
		s.open = nil // somebody took it for gone
		return nil
	}
	return err
}

func (s *sweeper) push(ctx context.Context, key events.TurnKey, g lifecycle.Glance, f sighting) error {
	it := bus.Item{ID: fmt.Sprintf("sweep.%s.%s.%d.%d", key.Trace, key.Turn, f.last, f.times), Turn: key, Seq: g.Last, Placement: g.Placement}
	if f.remedy == lifecycle.RemedyEnd {
		it.Placement = events.EndPlacement
	}
	s.n.log.Warn("nobody has this turn in mind: it is queued again", "turn", key.String(), "placement", it.Placement, "owner", g.Owner, "parked", g.Parked)
	s.n.cfg.Seen.Count("swept", 1)
	return s.n.cfg.Bus.Push(ctx, it)
}

// read takes up what was appended since the last time.
func (s *sweeper) read(ctx context.Context, limit int) error {
	for {
		err := s.n.cfg.Bus.Read(ctx, s.at, bus.Filter{}, false, func(c bus.Stored) error {
			if limit--; limit < 0 {
				return errPaced
			}
			s.at = events.Position{Generation: c.Generation, Seq: c.Seq + 1}
			g := s.open[c.Commit.Turn].See(c.Seq, c.Commit)
			if g.Ended {
				delete(s.open, c.Commit.Turn)
				delete(s.found, c.Commit.Turn)
				return nil
			}
			s.open[c.Commit.Turn] = g
			return nil
		})
		var unreadable *bus.Unreadable
		switch {
		case errors.As(err, &unreadable): // its turn is not one that this release may act upon
			s.at.Seq = unreadable.Seq + 1
		case errors.Is(err, bus.ErrRewound):
			s.restart(events.Position{})
		default:
			return err
		}
	}
}

// look is what one sweep has found out about nodes and queues.
type look struct {
	s      *sweeper
	served map[string]bool
	gone   map[string]bool
	oldest map[string]uint64
}

func (l *look) around(ctx context.Context, g lifecycle.Glance, now time.Time) (lifecycle.Around, error) {
	n := l.s.n
	a := lifecycle.Around{Now: now, Retention: n.cfg.Retention, Served: l.served == nil || l.served[g.Placement]}
	if g.Owner != "" && !g.Parked && g.Owner != n.cfg.Boot {
		gone, known := l.gone[g.Owner]
		if !known {
			gone = n.departed(ctx, g.Owner)
			l.gone[g.Owner] = gone
		}
		a.OwnerGone = gone
	}
	if g.Owner != "" {
		return a, nil
	}
	first, known := l.oldest[g.Placement]
	if !known {
		it, err := n.cfg.Bus.Oldest(ctx, g.Placement)
		switch {
		case errors.Is(err, bus.ErrNotFound):
			first = ^uint64(0)
		case err != nil:
			return a, err
		default:
			first = it.Seq
		}
		l.oldest[g.Placement] = first
	}
	a.Passed = first > g.First
	return a, nil
}

func sortedTurns(m map[events.TurnKey]lifecycle.Glance) []events.TurnKey {
	keys := make([]events.TurnKey, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b events.TurnKey) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
