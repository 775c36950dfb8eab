package memlog

import (
	"context"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// batch is how many commits a reader takes at a time.
const batch = 256

// placed is an entry at its sequence.
type placed struct {
	seq uint64
	entry
}

// Read is bus.Tail's. It takes the barrier itself for what is not past it.
func (v *View) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	head, err := v.Head(ctx)
	if err != nil {
		return err
	}
	if from == (events.Position{}) {
		from = events.Position{Generation: v.log.first(), Seq: 1}
	}
	skip := from.Index
	for {
		got, rewound, err := v.next(ctx, from, head, follow)
		switch {
		case err != nil:
			return err
		case rewound:
			return bus.ErrRewound
		case len(got) == 0:
			return nil
		}
		if got[0].seq != from.Seq {
			skip = 0 // retention has taken it
		}
		last := got[len(got)-1]
		if there, err := v.log.cover(last); err != nil {
			return err
		} else if !there {
			continue // lost before the barrier: look again
		}
		if err := v.hand(got, f, skip, yield); err != nil {
			return err
		}
		from, skip = events.Position{Generation: last.generation, Seq: last.seq + 1}, 0
	}
}

func (l *Log) first() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spans[0].generation
}

// next returns the next entries from a position on, waiting for one if follow,
// and none if the head was reached. rewound says that the position is gone.
func (v *View) next(ctx context.Context, from, head events.Position, follow bool) (got []placed, rewound bool, err error) {
	err = v.wait(ctx, func() bool {
		if !v.log.holds(from) {
			rewound = true
			return true
		}
		to := uint64(len(v.log.entries))
		if !follow {
			to = min(to, head.Seq-1)
		}
		for seq := max(from.Seq, v.log.begin); seq <= to && len(got) < batch; seq++ {
			got = append(got, placed{seq, v.log.entries[seq-1]})
		}
		return len(got) > 0 || !follow
	})
	return got, rewound, err
}

// cover takes the barrier if an entry is not past it, and says whether the
// entry is still in the log.
func (l *Log) cover(p placed) (there bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.seq > uint64(l.durable) {
		l.mu.Unlock()
		err = l.sync()
		l.mu.Lock()
	}
	return p.seq <= uint64(len(l.entries)) && l.entries[p.seq-1].generation == p.generation, err
}

// holds says whether everything before a position is still in the log, as it
// was when that position was seen. The lock is held.
func (l *Log) holds(p events.Position) bool {
	end := uint64(len(l.entries)) + 1
	known := false
	for _, s := range l.spans {
		if s.generation > p.Generation {
			end = s.first // where the next generation took over
			break
		}
		known = known || s.generation == p.Generation
	}
	return known && (p.Seq < end || p.Seq == end && p.Index == 0)
}

// hand yields the entries that pass the filter; of the first one, only if it
// has an event at index skip or later.
func (v *View) hand(got []placed, f bus.Filter, skip int, yield func(bus.Stored) error) error {
	for i, p := range got {
		if f.Trace != "" && (p.turn.Trace != f.Trace || f.Turn != "" && p.turn.Turn != f.Turn) {
			continue
		}
		s, err := p.stored(p.seq)
		if err != nil {
			return err
		}
		if i == 0 && skip >= len(s.Commit.Records) {
			continue
		}
		if err := yield(s); err != nil {
			return err
		}
	}
	return nil
}
