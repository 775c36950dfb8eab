package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// stream is a trace that is being read: it stands before a commit, or before something
// that is wrong.
type stream struct {
	trace string
	walk  *walker // behind the block
	block piece
	raw   []byte // of the block; nil while it is not in memory
	off   int    // in raw, of the commit
	left  int    // commits of the block that were not passed
	size  int    // of the commit's frame
	nth   int    // of the commit in its trace; -1: not known yet
	seq   uint64 // of the commit, or of what is wrong
	last  uint64 // of the last commit
	bad   error  // what is wrong here
	done  bool
}

// streams are those that are open, the one with the lowest sequence on top.
type streams []*stream

// Len is heap.Interface's, and so are Less, Swap, Push and Pop.
func (l streams) Len() int           { return len(l) }
func (l streams) Less(i, j int) bool { return l[i].seq < l[j].seq }
func (l streams) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }

// Push is heap.Interface's.
func (l *streams) Push(s any) { *l = append(*l, s.(*stream)) }

// Pop is heap.Interface's.
func (l *streams) Pop() any {
	last := len(*l) - 1
	s := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return s
}

// commit is the commit that the stream stands before. It was peeked at.
func (s *stream) commit() Commit {
	c, _, err := nextRecord(s.trace, s.raw[s.off:])
	if err != nil {
		return Commit{} // peek has seen that there is one
	}
	return c
}

// peek looks at the next commit of the block, which is in memory.
func (s *stream) peek() {
	if s.bad != nil {
		return
	}
	c, n, err := nextRecord(s.trace, s.raw[s.off:])
	switch {
	case err != nil:
		s.broken(err)
	case c.At.Seq <= s.last || c.At.Seq < s.block.First || c.At.Seq > s.block.Last || s.left == 1 && s.off+n != len(s.raw):
		s.broken(damaged("the commits are not those that the head of their piece names"))
	default:
		s.seq, s.size = c.At.Seq, n
	}
}

// broken notes that the rest of the block cannot be read. It stands at a sequence that
// one of the lost commits has, so that nothing of another trace is passed over with it.
func (s *stream) broken(err error) {
	first := s.block.Nth + s.block.Count - s.left
	s.seq = s.block.Last
	if s.left == s.block.Count {
		s.seq = s.block.First
	}
	s.bad = s.lost(first, s.block.Nth+s.block.Count-1, err)
	s.nth += s.left
	s.left = 0
	s.last = max(s.last, s.block.Last)
}

// lost says which commits of the trace are lost, and why.
func (s *stream) lost(first, last int, why error) error {
	what := fmt.Sprintf("commit %d of trace %s", first+1, s.trace)
	if last > first {
		what = fmt.Sprintf("commits %d to %d of trace %s", first+1, last+1, s.trace)
	}
	return fmt.Errorf("%s: %w", what, why)
}

// pass goes behind what the stream stands before.
func (s *stream) pass() {
	if s.bad != nil {
		s.bad = nil
		return
	}
	s.off += s.size
	s.left--
	s.nth++
	s.last = s.seq
}

// turnOver comes to the trace's next block that has something from a sequence on. What
// is missing before it, or behind the last one, is told to note.
func (s *stream) turnOver(ctx context.Context, r *Reader, from uint64, note func(error)) error {
	var torn error
	for !s.block.Final {
		p, err := s.walk.next(ctx)
		var h *hole
		switch {
		case errors.As(err, &h):
			torn = err
			continue
		case errors.Is(err, io.EOF), err == nil && p.Kind == pieceCommits && p.Trace != s.trace:
			if torn == nil {
				torn = damaged("it is not in the file, which has %d bytes", r.size)
			}
			note(fmt.Errorf("the end of trace %s, from commit %d on: %w", s.trace, max(s.nth, 0)+1, torn))
			s.done = true
			return nil
		case err != nil:
			return err
		case p.Kind != pieceCommits || !s.follows(p, torn, note):
			continue
		}
		s.block, s.raw, s.off, s.left = p, nil, 0, p.Count
		switch {
		case p.Last < from: // nothing that is asked for
			s.nth, s.left, s.last = p.Nth+p.Count, 0, p.Last
			continue
		case p.next > r.size:
			s.broken(damaged("it is cut off at byte %d", r.size))
		}
		return nil
	}
	s.done = true
	return nil
}

// follows says whether a piece is behind what was read of the trace, and notes what is
// missing between.
func (s *stream) follows(p piece, torn error, note func(error)) bool {
	if s.nth < 0 {
		s.nth = p.Nth
	}
	switch {
	case p.Nth < s.nth:
		note(s.lost(p.Nth, p.Nth+p.Count-1, damaged("they stand in it twice")))
		return false
	case p.Nth > s.nth && torn == nil:
		torn = damaged("they are not in the file")
		fallthrough
	case p.Nth > s.nth:
		note(s.lost(s.nth, p.Nth-1, torn))
		s.nth = p.Nth
	}
	return true
}
