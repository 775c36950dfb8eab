package archive

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"sort"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Generation is the highest one that the archive has a position of; 1 if it has none.
func (r *Reader) Generation() uint32 {
	p, err := events.ParsePosition(r.man.Last)
	if err != nil {
		return 1
	}
	return max(p.Generation, 1)
}

// Read is bus.Tail's: it yields the commits in the order of the sequences that they had
// in the log, from a sequence on. A trace or a turn in f is found by the index. A commit
// that cannot be read or decoded is a *bus.Unreadable, and a Read from the sequence
// behind it goes on; where the file as a whole is damaged, that is the error at the
// end, once everything else was yielded. An archive does not grow: follow changes
// nothing.
func (r *Reader) Read(ctx context.Context, from events.Position, f bus.Filter, _ bool, yield func(bus.Stored) error) error {
	first := true
	return r.ReadBodies(ctx, from, f, func(at events.Position, turn events.TurnKey, body []byte) error {
		c, err := events.Decode(body)
		if err == nil && c.Turn != turn {
			err = fmt.Errorf("%w: it says that it is of turn %s", events.ErrFormat, c.Turn)
		}
		if err != nil {
			return &bus.Unreadable{Seq: at.Seq, Err: fmt.Errorf("turn %s: %w", turn, err)}
		}
		skip := first && at.Seq == from.Seq && from.Index >= len(c.Records)
		if first = false; skip {
			return nil
		}
		return yield(bus.Stored{Generation: at.Generation, Seq: at.Seq, Commit: c})
	})
}

// ReadBodies is Read of the commits as they are stored, also those that cannot be
// decoded. The body is read only.
func (r *Reader) ReadBodies(ctx context.Context, from events.Position, f bus.Filter, yield func(at events.Position, turn events.TurnKey, body []byte) error) error {
	missing, err := r.read(ctx, from, f, yield)
	if err != nil {
		return err
	}
	return errors.Join(r.damage, missing)
}

// read is ReadBodies, with what is missing of what was asked for apart from the error.
func (r *Reader) read(ctx context.Context, from events.Position, f bus.Filter, yield func(at events.Position, turn events.TurnKey, body []byte) error) (missing, err error) {
	m := &merge{r: r, from: from.Seq, torn: map[int64]*hole{}, seen: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
	if f.Trace == "" {
		m.walk = r.walker()
	} else if err := m.only(ctx, f.Trace); err != nil {
		return nil, err
	}
	for {
		c, err := m.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return m.verdict(), nil
		case err != nil:
			return nil, err
		case f.Turn != "" && c.Turn.Turn != f.Turn:
			continue
		}
		if err := yield(c.At, c.Turn, c.Body); err != nil {
			return nil, err
		}
	}
}

// merge brings the traces of an archive, which stand one behind the other, into the
// order of the log. It opens a trace when the log comes to its first commit.
type merge struct {
	r     *Reader
	from  uint64  // sequence
	walk  *walker // to the traces that were not opened yet; nil: there are none
	ahead *piece  // the first piece of the next one
	at    uint64  // sequence of the last commit that was given
	last  uint64  // sequence of the first commit of the trace that was opened last
	open  streams
	held  int // bytes of the streams' blocks
	holes error
	noted int                 // how much was missing
	torn  map[int64]*hole     // between traces, or in one that has not come there yet
	seen  map[uint64]struct{} // hashes of the traces that were opened
	seed  maphash.Seed
}

// heldBytes bounds the unpacked blocks of all open traces. Beyond it the block that is
// needed last is dropped, and unpacked again.
const heldBytes = 64 << 20

// only opens one trace.
func (m *merge) only(ctx context.Context, trace string) error {
	e, err := m.r.entryOf(ctx, trace)
	if err != nil || e == nil {
		return err
	}
	i := sort.Search(len(e.Blocks), func(i int) bool { return e.Blocks[i].first() > m.from })
	s := &stream{trace: trace, walk: m.r.walkerAt(e.Blocks[max(i-1, 0)].at())}
	if i > 1 {
		s.nth = -1 // whichever that block begins with
	}
	return m.start(ctx, s)
}

// next is the next commit, or io.EOF.
func (m *merge) next(ctx context.Context) (Commit, error) {
	if err := m.advance(ctx); err != nil {
		return Commit{}, err
	}
	if len(m.open) == 0 {
		return Commit{}, io.EOF
	}
	s := m.open[0]
	if err := m.load(s); err != nil {
		return Commit{}, err
	}
	var c Commit
	if s.bad == nil {
		c = s.commit()
	}
	bad, seq := s.bad, s.seq
	if seq < m.at {
		return Commit{}, fmt.Errorf("%w: sequence %d of trace %s comes behind %d", ErrHostile, seq, s.trace, m.at)
	}
	m.at = seq
	if err := m.step(ctx, s); err != nil {
		return Commit{}, err
	}
	if bad != nil {
		return Commit{}, &bus.Unreadable{Seq: seq, Err: bad}
	}
	return c, nil
}

// advance opens the traces that begin before what is open goes on.
func (m *merge) advance(ctx context.Context) error {
	for m.walk != nil || m.ahead != nil {
		if m.ahead == nil {
			if err := m.look(ctx); err != nil {
				return err
			}
			continue
		}
		headless := m.ahead.Nth > 0 // where it began, in the log's order, cannot be told
		if len(m.open) > 0 && m.ahead.First > m.open[0].seq && !headless {
			return nil
		}
		p := m.ahead
		m.ahead = nil
		h := maphash.String(m.seed, p.Trace)
		if _, twice := m.seen[h]; twice {
			return fmt.Errorf("%w: trace %s is in it twice", ErrHostile, p.Trace)
		}
		m.seen[h] = struct{}{}
		switch {
		case headless:
		case p.First <= m.last:
			return fmt.Errorf("%w: trace %s stands behind one that began later", ErrHostile, p.Trace)
		default:
			m.last = p.First
		}
		if err := m.start(ctx, &stream{trace: p.Trace, walk: m.r.walkerAt(p.at)}); err != nil {
			return err
		}
		if err := m.pass(ctx, p.Trace); err != nil {
			return err
		}
	}
	return nil
}

// note keeps what is missing of a trace: the first of it is told at the end.
func (m *merge) note(err error) {
	var h *hole
	if errors.As(err, &h) {
		delete(m.torn, h.from) // told with what it took
	}
	const most = 20
	if m.noted++; m.noted <= most {
		m.holes = errors.Join(m.holes, err)
	}
}

// verdict is what is missing, once everything was read.
func (m *merge) verdict() error {
	for _, from := range slices.Sorted(maps.Keys(m.torn)) {
		m.note(m.torn[from])
	}
	return m.holes
}

// look finds the first piece of the next trace.
func (m *merge) look(ctx context.Context) error {
	p, err := m.walk.next(ctx)
	var h *hole
	switch {
	case errors.Is(err, io.EOF):
		m.walk = nil
		return nil
	case errors.As(err, &h):
		m.torn[h.from] = h
		return nil
	case err != nil:
		return err
	}
	if p.Kind == pieceCommits {
		m.ahead = &p
	}
	return nil
}

// pass goes over the rest of a trace.
func (m *merge) pass(ctx context.Context, trace string) error {
	for m.walk != nil && m.ahead == nil {
		if err := m.look(ctx); err != nil {
			return err
		}
		if m.ahead != nil && m.ahead.Trace == trace {
			m.ahead = nil
		}
	}
	return nil
}

// start opens a trace and comes to its first commit from the sequence on.
func (m *merge) start(ctx context.Context, s *stream) error {
	if err := m.fill(ctx, s); err != nil || s.done {
		return err
	}
	heap.Push(&m.open, s)
	return nil
}

// step goes on in the stream at the top.
func (m *merge) step(ctx context.Context, s *stream) error {
	s.pass()
	if err := m.fill(ctx, s); err != nil {
		return err
	}
	if s.done {
		m.drop(s)
		heap.Pop(&m.open)
	} else {
		heap.Fix(&m.open, 0)
	}
	return nil
}

// fill has the stream stand before a commit, or something that is wrong, that is not
// before the merge's beginning; or done.
func (m *merge) fill(ctx context.Context, s *stream) error {
	for !s.done {
		switch {
		case s.bad == nil && s.left == 0:
			m.drop(s)
			if err := s.turnOver(ctx, m.r, m.from, m.note); err != nil {
				return err
			}
			continue
		case s.bad == nil:
			if err := m.load(s); err != nil {
				return err
			}
			s.peek()
		}
		if s.seq >= m.from {
			return nil
		}
		s.pass()
	}
	return nil
}

// load unpacks the stream's block, if it is not in memory.
func (m *merge) load(s *stream) error {
	if s.raw != nil || s.bad != nil {
		return nil
	}
	raw, err := m.r.frameAt(s.block.head, s.block.frame)
	switch {
	case errors.Is(err, ErrDamaged):
		s.broken(err)
		return nil
	case err != nil:
		return err
	}
	s.raw = raw
	m.held += len(raw)
	for m.held > heldBytes {
		if !m.evict(s) {
			break
		}
	}
	return nil
}

// evict drops the block that is needed last, but for that of keep.
func (m *merge) evict(keep *stream) bool {
	var last *stream
	for _, s := range m.open {
		if s != keep && s.raw != nil && (last == nil || s.seq > last.seq) {
			last = s
		}
	}
	if last == nil {
		return false
	}
	m.drop(last)
	return true
}

func (m *merge) drop(s *stream) {
	m.held -= len(s.raw)
	s.raw = nil
}
