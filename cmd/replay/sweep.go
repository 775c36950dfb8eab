package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
)

// openBytes bounds the commits of turns that have not ended yet and are held in
// memory while the log is read once. Turns beyond it are read by themselves,
// afterwards.
const openBytes = 128 << 20

// sweep reads a trace, or the whole log, once, and has every turn checked.
func sweep(ctx context.Context, log source, blobs bus.Blobs, trace string, r *report) error {
	return newSweeper(log, blobs, r).run(ctx, trace)
}

func newSweeper(log source, blobs bus.Blobs, r *report) *sweeper {
	return &sweeper{
		log: log, report: r, limit: openBytes, checker: &checker{blobs: blobs},
		open: make(map[events.TurnKey]*pile), known: make(map[uint64]struct{}), traces: make(map[uint64]struct{}),
		again: make(map[events.TurnKey]events.Position), seed: maphash.MakeSeed(),
	}
}

func (s *sweeper) run(ctx context.Context, trace string) error {
	_, archived := s.log.(*archive.Reader) // it has what was exported, at the places where it stood
	s.whole = trace == "" && !archived
	first, err := firstOf(ctx, s.log)
	if err != nil {
		return err
	}
	s.checker.headless = first.Seq > 1
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.jobs = make(chan job)
	for range runtime.GOMAXPROCS(0) {
		s.wg.Go(func() { s.work(ctx, stop) })
	}
	err = s.read(ctx, trace)
	close(s.jobs)
	s.wg.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil && trace != "" {
		err = s.checker.conversation(ctx, s.log, trace, s.report)
	}
	if whole, ok := s.log.(*archive.Reader); ok && err == nil && trace == "" {
		err = whole.Check(ctx)
	}
	return err
}

// firstOf is the position of the log's first commit; zero for an empty log. What
// stood before it is gone.
func firstOf(ctx context.Context, log source) (events.Position, error) {
	var first events.Position
	err := scan(ctx, log, bus.Filter{}, func(d damage) {
		if first.Seq == 0 {
			first = d.Position
		}
	}, func(s bus.Stored) error {
		if first.Seq == 0 {
			first = s.Position(0)
		}
		return errEnough
	})
	return first, err
}

// sweeper sorts the log's commits by turn. A turn is handed to a worker once it
// has ended. What comes behind a turn's end is rare: such a turn is read again.
type sweeper struct {
	log     source
	whole   bool // every commit passes here, so that a missing one shows
	report  *report
	checker *checker
	jobs    chan job
	wg      sync.WaitGroup

	open  map[events.TurnKey]*pile
	size  int // bytes of the piles, about
	limit int
	seed  maphash.Seed
	// known and traces hold hashes: turns and traces are many. Two that share one
	// cost a turn that is read twice, and a trace that is not counted.
	known  map[uint64]struct{}
	traces map[uint64]struct{}
	again  map[events.TurnKey]events.Position // to be read again: problems up to there are known
	next   uint64                             // sequence; 0 before the first commit
}

// pile is the commits of a turn that has not ended yet.
type pile struct {
	commits []bus.Stored
	size    int
}

// job is a turn to be checked. Problems up to a position are known already.
type job struct {
	key     events.TurnKey
	commits []bus.Stored
	after   events.Position
	recheck bool
}

func (s *sweeper) work(ctx context.Context, stop context.CancelCauseFunc) {
	for j := range s.jobs {
		if ctx.Err() != nil {
			continue // let the reader end
		}
		if err := s.check(ctx, j); err != nil {
			stop(err)
		}
	}
}

func (s *sweeper) check(ctx context.Context, j job) error {
	v, err := s.checker.turn(ctx, j.key, j.commits)
	if err != nil {
		return err
	}
	for _, p := range v.problems {
		if p.Position.Compare(j.after) > 0 {
			s.report.add(p)
		}
	}
	if !j.recheck {
		s.report.note(v.open, v.headless)
	}
	return nil
}

func (s *sweeper) read(ctx context.Context, trace string) error {
	cutOff := scan(ctx, s.log, bus.Filter{Trace: trace}, s.damaged, func(c bus.Stored) error { return s.feed(ctx, c) })
	if cutOff != nil && !errors.Is(cutOff, archive.ErrDamaged) {
		return cutOff
	}
	for key, p := range s.open {
		if err := s.hand(ctx, job{key: key, commits: p.commits}); err != nil {
			return err
		}
	}
	for key, after := range s.again {
		var commits []bus.Stored
		err := scan(ctx, s.log, bus.Filter{Trace: key.Trace, Turn: key.Turn}, func(damage) {}, func(c bus.Stored) error {
			commits = append(commits, c)
			return nil
		})
		if err == nil {
			err = s.hand(ctx, job{key: key, commits: commits, after: after, recheck: after != events.Position{}})
		}
		if err != nil {
			return err
		}
	}
	return cutOff // and all that could be read was checked
}

func (s *sweeper) hand(ctx context.Context, j job) error {
	select {
	case s.jobs <- j:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *sweeper) damaged(d damage) {
	s.gap(d.Position)
	s.report.add(problem{Position: d.Position, Law: lawBytes, Why: d.Err.Error()})
}

// gap sees that a sequence follows the one before.
func (s *sweeper) gap(at events.Position) {
	if s.whole && s.next != 0 && at.Seq > s.next {
		p := events.Position{Generation: at.Generation, Seq: s.next}
		why := fmt.Sprintf("commit %d is not in the log", s.next)
		if at.Seq-1 > s.next {
			why = fmt.Sprintf("the commits %d to %d are not in the log", s.next, at.Seq-1)
		}
		s.report.add(problem{Position: p, Law: lawGap, Why: why})
	}
	s.next = at.Seq + 1
}

// feed sorts a commit.
func (s *sweeper) feed(ctx context.Context, c bus.Stored) error {
	s.gap(c.Position(0))
	key := c.Commit.Turn
	s.report.events += len(c.Commit.Records) // no worker counts events, turns or traces
	if h := maphash.String(s.seed, key.Trace); !s.has(s.traces, h) {
		s.traces[h] = struct{}{}
		s.report.traces++
	}
	p := s.open[key]
	if p == nil {
		h := maphash.Comparable(s.seed, key)
		if s.has(s.known, h) {
			if _, noted := s.again[key]; !noted {
				s.again[key] = events.Position{Generation: c.Generation, Seq: c.Seq - 1, Index: end.Index}
			}
			return nil
		}
		s.known[h] = struct{}{}
		s.report.turns++
		p = &pile{}
		s.open[key] = p
	}
	n := weight(c.Commit)
	p.commits, p.size, s.size = append(p.commits, c), p.size+n, s.size+n
	if slices.ContainsFunc(c.Commit.Records, func(r events.Record) bool { return events.EndsTurn(r.Event.Kind()) }) {
		s.drop(key)
		return s.hand(ctx, job{key: key, commits: p.commits})
	}
	if s.size > s.limit {
		s.spill()
	}
	return nil
}

func (s *sweeper) has(set map[uint64]struct{}, h uint64) bool {
	_, ok := set[h]
	return ok
}

func (s *sweeper) drop(key events.TurnKey) {
	s.size -= s.open[key].size
	delete(s.open, key)
}

// spill leaves the largest turns for later, until half of the room is free.
func (s *sweeper) spill() {
	keys := make([]events.TurnKey, 0, len(s.open))
	for k := range s.open {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b events.TurnKey) int { return cmp.Compare(s.open[b].size, s.open[a].size) })
	for _, k := range keys {
		if s.size <= s.limit/2 {
			return
		}
		s.again[k] = events.Position{} // nothing of it is known
		s.drop(k)
	}
}

// weight is about how many bytes a commit takes in memory.
func weight(c events.Commit) int {
	n := 512
	for _, r := range c.Records {
		n += 512
		switch e := r.Event.(type) {
		case *events.TurnSubmitted:
			for _, call := range e.Calls {
				n += 256 + len(call.Args.Text)
			}
		case *events.Requested:
			n += len(e.Args.Text)
		case events.Foreign:
			n += len(e.Body)
		case *events.Deduplicated:
			n += len(e.Outcome.Result.Text.Text) + len(e.Outcome.Result.Data)
		default:
			if o := events.OutcomeOf(e); o != nil {
				n += len(o.Result.Text.Text) + len(o.Result.Data)
			}
		}
	}
	return n
}
