package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// FeedFilter says which events a feed yields; its zero value yields all.
type FeedFilter struct {
	Trace string        // "" means every trace
	Turn  string        // "" means every turn; needs Trace
	Kinds []events.Kind // empty means every kind
	Tools []string      // empty means every tool; events of turns have none
}

func (f FeedFilter) passes(k events.Kind, tool string) bool {
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, k)) && (len(f.Tools) == 0 || slices.Contains(f.Tools, tool))
}

// FeedEvent is one event at its place, or a notice about the feed.
type FeedEvent struct {
	Position events.Position
	Stored   bus.Stored
	Index    int    // of the event in Stored.Commit.Records
	Tool     string // of the event's call; "" for an event of the turn
	Notice   Notice // "" for an event
	From     events.Position
	Err      error // of NoticeUnreadable: why it cannot be read
}

// Notice is something that a reader of the feed must hear about the feed itself.
type Notice string

// The notices. All name the positions From, from which on something is not as
// the reader may think, and Position, where the feed goes on.
const (
	NoticeGap        Notice = "gap"        // what stood between is not in this feed: it is too old, or the reader was too slow
	NoticeRewound    Notice = "rewound"    // the log lost its tail: drop what was read from From on
	NoticeUnreadable Notice = "unreadable" // the commit at From cannot be read; what is behind it follows
)

// CloudEvent is the event as a CloudEvent in structured JSON form.
func (e FeedEvent) CloudEvent() ([]byte, error) { return bus.CloudEvent(e.Stored, e.Index, e.Tool) }

// Record is the event itself.
func (e FeedEvent) Record() events.Record { return e.Stored.Commit.Records[e.Index] }

// Events calls yield for each event from the position on, in the log's order,
// until it has seen the head at the time of the call, or for ever if follow.
// The zero position is the log's beginning. Notices come in their place. It
// returns what yield returned, ctx's error, or those of bus.Log.
func (d *Desk) Events(ctx context.Context, from events.Position, f FeedFilter, follow bool, yield func(FeedEvent) error) error {
	r := &feed{desk: d, at: from, filter: f, yield: yield}
	for {
		err := d.bus.Read(ctx, r.at, bus.Filter{Trace: f.Trace, Turn: f.Turn}, follow, func(s bus.Stored) error {
			return r.commit(ctx, s)
		})
		var bad *bus.Unreadable
		switch {
		case errors.Is(err, bus.ErrRewound):
			err = r.rewound(ctx)
		case errors.As(err, &bad):
			err = r.unreadable(ctx, bad)
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// feed is one reader's place.
type feed struct {
	desk   *Desk
	at     events.Position // the next event to yield
	filter FeedFilter
	yield  func(FeedEvent) error
}

func (r *feed) commit(ctx context.Context, s bus.Stored) error {
	if r.missed(s) {
		if err := r.yield(FeedEvent{Notice: NoticeGap, From: r.at, Position: s.Position(0)}); err != nil {
			return err
		}
	}
	tools, err := r.desk.names.of(ctx, r.desk.bus, s)
	if err != nil {
		return err
	}
	for i, rec := range s.Commit.Records {
		p := s.Position(i)
		tool := ""
		if rec.Call >= 0 && rec.Call < len(tools) {
			tool = tools[rec.Call]
		}
		if p.Compare(r.at) < 0 || !r.filter.passes(rec.Event.Kind(), tool) {
			continue
		}
		if err := r.yield(FeedEvent{Position: p, Stored: s, Index: i, Tool: tool}); err != nil {
			return err
		}
		r.at = events.Position{Generation: p.Generation, Seq: p.Seq, Index: i + 1}
	}
	r.at = events.Position{Generation: s.Generation, Seq: s.Seq + 1}
	return nil
}

// missed says whether commits are missing before s: they are too old.
func (r *feed) missed(s bus.Stored) bool {
	next := r.at.Seq
	if r.at.Index > 0 {
		next++ // all of that commit may have been read
	}
	return r.filter.Trace == "" && r.at.Seq > 0 && s.Seq > next && s.Generation == r.at.Generation
}

// unreadable tells of a commit that cannot be read, and goes on behind it: one lost
// commit is no reason to show nothing that came later.
func (r *feed) unreadable(ctx context.Context, bad *bus.Unreadable) error {
	next, err := r.desk.behind(ctx, r.at.Generation, bad.Seq)
	if err != nil {
		return err
	}
	from := events.Position{Generation: next.Generation, Seq: bad.Seq}
	r.at = next
	return r.yield(FeedEvent{Notice: NoticeUnreadable, From: from, Position: next, Err: bad.Err})
}

// behind is the position behind a commit that cannot be read, and so does not say of
// which generation it is, at least from: it is the first one in which that is a place.
func (d *Desk) behind(ctx context.Context, from uint32, seq uint64) (events.Position, error) {
	next := events.Position{Generation: max(from, 1), Seq: seq + 1}
	for ; next.Generation < d.bus.Generation(); next.Generation++ {
		if there, err := d.holds(ctx, next); err != nil || there {
			return next, err
		}
	}
	return next, nil
}

// rewound finds where this log took another way than the one that the reader
// had followed, and goes on from there.
func (r *feed) rewound(ctx context.Context) error {
	old := r.at
	fork, err := r.desk.fork(ctx, old)
	if err != nil {
		return err
	}
	now := r.desk.bus.Generation()
	if fork.Seq == r.at.Seq && r.at.Index == 0 && r.at.Generation != now {
		r.at.Generation = now // a new generation, and nothing of what was read is gone
		return nil
	}
	r.at = fork
	return r.yield(FeedEvent{Notice: NoticeRewound, From: fork, Position: fork})
}

var errSeen = errors.New("seen")

// holds says whether everything before a position is still in the log, as it was when
// the position was seen.
func (d *Desk) holds(ctx context.Context, at events.Position) (bool, error) {
	var bad *bus.Unreadable
	err := d.bus.Read(ctx, at, bus.Filter{}, false, func(bus.Stored) error { return errSeen })
	switch {
	case err == nil, errors.Is(err, errSeen), errors.As(err, &bad):
		return true, nil
	case errors.Is(err, bus.ErrRewound):
		return false, nil
	}
	return false, err
}

// fork is the last position up to which the log still is what a reader at p
// has read; the zero position where nothing of it is left.
func (d *Desk) fork(ctx context.Context, p events.Position) (events.Position, error) {
	holds := func(seq uint64) (bool, error) {
		return d.holds(ctx, events.Position{Generation: p.Generation, Seq: seq})
	}
	if ok, err := holds(1); err != nil || !ok {
		return events.Position{}, err
	}
	low, high := uint64(1), p.Seq // low holds, high may not
	for low < high {
		mid := low + (high-low+1)/2
		ok, err := holds(mid)
		if err != nil {
			return events.Position{}, err
		}
		if ok {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return events.Position{Generation: p.Generation, Seq: low}, nil
}

// maxNamed is how many turns' tool names are remembered.
const maxNamed = 4096

// names remembers the tools of turns by offset: most events do not say them.
type names struct {
	mu    sync.Mutex
	byKey map[events.TurnKey][]string
	order []events.TurnKey // oldest first
}

// of is the tools of the commit's turn, read from its submission if it is not known.
func (n *names) of(ctx context.Context, log bus.Bus, s bus.Stored) ([]string, error) {
	for _, r := range s.Commit.Records {
		if e, ok := r.Event.(*events.TurnSubmitted); ok {
			return n.keep(s.Commit.Turn, e), nil
		}
	}
	n.mu.Lock()
	tools, ok := n.byKey[s.Commit.Turn]
	n.mu.Unlock()
	if ok {
		return tools, nil
	}
	commits, err := log.Load(ctx, s.Commit.Turn, 0)
	var bad *bus.Unreadable
	if errors.As(err, &bad) { // of a turn that cannot be loaded the beginning may still be there
		commits, err = beginning(ctx, log, s.Commit.Turn)
	}
	if err != nil {
		return nil, err
	}
	for _, c := range commits {
		for _, r := range c.Commit.Records {
			if e, ok := r.Event.(*events.TurnSubmitted); ok {
				return n.keep(s.Commit.Turn, e), nil
			}
		}
	}
	return nil, nil
}

// beginning is the first commit of a turn; none where that one cannot be read.
func beginning(ctx context.Context, log bus.Tail, key events.TurnKey) (out []bus.Stored, err error) {
	err = log.Read(ctx, events.Position{}, bus.Filter{Trace: key.Trace, Turn: key.Turn}, false, func(s bus.Stored) error {
		out = append(out, s)
		return errSeen
	})
	var bad *bus.Unreadable
	if errors.Is(err, errSeen) || errors.As(err, &bad) {
		err = nil
	}
	return out, err
}

func (n *names) keep(key events.TurnKey, e *events.TurnSubmitted) []string {
	tools := make([]string, len(e.Calls))
	for i, c := range e.Calls {
		tools[i] = c.Tool
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byKey == nil {
		n.byKey = make(map[events.TurnKey][]string)
	}
	if _, ok := n.byKey[key]; !ok {
		n.order = append(n.order, key)
	}
	n.byKey[key] = tools
	if len(n.order) > maxNamed {
		delete(n.byKey, n.order[0])
		n.order = n.order[1:]
	}
	return tools
}
