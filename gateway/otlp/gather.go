package otlp

import (
	"container/list"
	"context"
	"errors"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/projections"
)

// Bounds of a batch, beside Config.Batch.
const (
	batchBytes   = 1 << 20 // of spans; the last commit may go over it
	batchCommits = 5000
)

// batch is what was read of the log, whole commits.
type batch struct {
	spans []*tracepb.Span
	bytes int
	next  events.Position // behind the last commit
	head  events.Position // of the log, as it was looked at
	more  bool            // there is more behind it
}

var errEnough = errors.New("enough for now")

// gather reads the spans that have ended from a place on, up to at.until if that is set.
func (x *Exporter) gather(ctx context.Context, at place) (batch, error) {
	b := batch{next: at.next}
	head, err := x.Bus.Head(ctx)
	if b.head = head; err != nil || head == at.next {
		return b, err
	}
	commits, seen := 0, bus.Stored{}
	err = x.Desk.Events(ctx, at.next, gateway.FeedFilter{}, false, func(e gateway.FeedEvent) error {
		switch {
		case e.Notice != "":
			x.heed(e)
			b.next = e.Position
			return nil
		case e.Stored.Seq == seen.Seq && e.Stored.Generation == seen.Generation:
			return nil
		case len(b.spans) >= x.Batch || b.bytes >= batchBytes || commits >= batchCommits,
			at.until != (events.Position{}) && e.Position.Compare(at.until) >= 0 && len(b.spans) > 0:
			return errEnough
		}
		seen = e.Stored
		commits++
		x.counts.reading(e.Stored.Commit.At)
		done, err := x.folds.add(ctx, e.Stored)
		if err != nil {
			return err
		}
		x.collect(&b, done)
		b.next = events.Position{Generation: e.Stored.Generation, Seq: e.Stored.Seq + 1}
		return nil
	})
	if errors.Is(err, errEnough) {
		b.more, err = true, nil
	}
	return b, err
}

// collect adds spans to a batch, but those of traces that their callers do not record.
func (x *Exporter) collect(b *batch, done []projections.Span) {
	for _, s := range done {
		if s.Flags&events.FlagSampled == 0 {
			x.counts.spans("unsampled", 1)
			continue
		}
		p := spanOf(s)
		b.spans, b.bytes = append(b.spans, p), b.bytes+proto.Size(p)
	}
}

// heed takes a notice about the log itself.
func (x *Exporter) heed(e gateway.FeedEvent) {
	switch e.Notice {
	case gateway.NoticeRewound:
		x.folds.clear()
		x.Log.Warn("the log has lost its tail: spans of what was lost may have been exported", "position", e.Position.String())
	case gateway.NoticeGap:
		x.counts.gap()
		x.Log.Warn("commits left the log before their spans were exported: a longer retention, or a collector that is there, keeps them",
			"from", e.From.String(), "position", e.Position.String())
	case gateway.NoticeUnreadable:
		x.folds.clear() // one of them lacks an event
		x.Log.Warn("a commit cannot be read, and its spans are not exported", "position", e.From.String(), "err", e.Err)
	}
}

// foldBytes bounds what is remembered of turns that have not ended, about.
const foldBytes = 32 << 20

// folds are the folds of turns that have not ended. One that is not there any more is
// read from the log again.
type folds struct {
	log     bus.Log
	content bool
	byKey   map[events.TurnKey]*list.Element
	order   *list.List // of *fold, the one used last first
	bytes   int
	max     int
}

type fold struct {
	key   events.TurnKey
	state projections.Traced
	bytes int
}

func newFolds(log bus.Log, content bool) *folds {
	f := &folds{log: log, content: content, max: foldBytes}
	f.clear()
	return f
}

func (f *folds) clear() {
	f.byKey, f.order, f.bytes = make(map[events.TurnKey]*list.Element), list.New(), 0
}

// add folds a commit, and returns the spans that it ends. Commits of a turn come in
// order.
func (f *folds) add(ctx context.Context, s bus.Stored) ([]projections.Span, error) {
	one, err := f.of(ctx, s)
	if err != nil {
		return nil, err
	}
	ends := false
	for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
		one.state = projections.Spans.Apply(one.state, e)
		ends = ends || events.EndsTurn(e.Kind())
	}
	done := one.state.Done
	one.state.Done = nil
	f.weigh(one, ends)
	return done, nil
}

// of is the fold of a turn up to a commit of it.
func (f *folds) of(ctx context.Context, s bus.Stored) (*fold, error) {
	if at := f.byKey[s.Commit.Turn]; at != nil {
		f.order.MoveToFront(at)
		return at.Value.(*fold), nil
	}
	one := &fold{key: s.Commit.Turn, state: projections.Spans.Init()}
	one.state.Content = f.content
	if first := s.Commit.Records[0]; first.Call != events.TurnEvent || first.Seq != 1 {
		commits, err := f.log.Load(ctx, s.Commit.Turn, s.Seq)
		var bad *bus.Unreadable
		if err != nil && !errors.As(err, &bad) { // of a turn that cannot be read there are no spans
			return nil, err
		}
		for _, c := range commits {
			if c.Seq >= s.Seq {
				break
			}
			for e := range projections.Events(c.Generation, c.Seq, c.Commit) {
				one.state = projections.Spans.Apply(one.state, e)
			}
			one.state.Done = nil
		}
	}
	f.byKey[one.key] = f.order.PushFront(one)
	return one, nil
}

// weigh notes how large a fold has become, and forgets it if its turn has ended, else
// those that were not used for longest where all together are too large.
func (f *folds) weigh(one *fold, ends bool) {
	f.bytes -= one.bytes
	one.bytes = 512
	for _, t := range one.state.Turns {
		one.bytes += 512 + len(t.Events)*256
		for _, c := range t.Calls {
			one.bytes += 512 + len(c.Tool) + len(c.ID) + len(c.Args) + len(c.Events)*256
		}
	}
	f.bytes += one.bytes
	if ends {
		f.drop(f.byKey[one.key])
	}
	for f.bytes > f.max && f.order.Len() > 1 {
		f.drop(f.order.Back())
	}
}

func (f *folds) drop(at *list.Element) {
	one := f.order.Remove(at).(*fold)
	delete(f.byKey, one.key)
	f.bytes -= one.bytes
}
