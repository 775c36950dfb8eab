package jetlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// state is the log's generations and last sequence, by the server's word.
func (b *Bus) state(ctx context.Context) (spans, uint64, error) {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	pause := backoff{10 * time.Millisecond, 250 * time.Millisecond}
	for {
		one, stop := context.WithTimeout(ctx, answerLimit) // a leader that goes may never answer
		info, err := b.origin.Info(one)
		stop()
		if err == nil {
			gens, err := parseSpans(info.Config.Metadata[metaGenerations])
			if err == nil {
				b.gens.Store(&gens)
				b.first.Store(max(1, info.State.FirstSeq)) // 0 is that of a log that never had one
			}
			return gens, info.State.LastSeq, err
		}
		if errors.Is(err, nats.ErrConnectionClosed) || !busy(err) && !errors.Is(readError(ctx, err), bus.ErrUnavailable) {
			return nil, 0, readError(ctx, err)
		}
		if late := pause.wait(ctx); late != nil {
			return nil, 0, readError(ctx, unavailable(err))
		}
	}
}

// tail is one reading of the log.
type tail struct {
	bus    *Bus
	filter string // subjects
	next   uint64 // sequence
	skip   int    // events of the commit at next that were seen
	yield  func(bus.Stored) error
	bodies func(raw) error // not nil: in yield's place, of what nobody has decoded
}

// Read is bus.Tail's. The zero Position is the log's beginning, or what is left
// of it.
func (b *Bus) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	pattern, err := filterSubjects(f)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	last, err := b.enter(ctx, &from)
	if err != nil {
		return fmt.Errorf("read the log from %s: %w", from, err)
	}
	t := &tail{bus: b, filter: pattern, next: max(from.Seq, 1), skip: from.Index, yield: yield}
	if err := t.upTo(ctx, last); err != nil || !follow {
		return err
	}
	return t.follow(ctx)
}

func filterSubjects(f bus.Filter) (string, error) {
	switch {
	case f.Trace == "" && f.Turn == "":
		return bus.EventPrefix + ">", nil
	case f.Turn == "":
		return bus.EventPrefix + f.Trace + ".>", events.CheckID("trace", f.Trace)
	}
	k := events.TurnKey{Trace: f.Trace, Turn: f.Turn}
	return bus.EventSubject(k), k.Check()
}

// enter checks that a position is in the log, and returns the log's last
// sequence, which the barrier covers BEFORE it returns.
func (b *Bus) enter(ctx context.Context, from *events.Position) (uint64, error) {
	began := time.Now()
	pause := backoff{20 * time.Millisecond, 250 * time.Millisecond}
	for {
		gens, last, err := b.state(ctx)
		if err != nil {
			return 0, err
		}
		if *from == (events.Position{}) {
			*from = events.Position{Generation: gens[0].Generation, Seq: 1}
		}
		if gens.holds(*from, last) {
			return last, b.Barrier().Wait(ctx)
		}
		ahead := from.Generation == gens.current() && from.Seq > last
		if b.replicas == 1 || !ahead || time.Since(began) > behindLimit {
			return 0, bus.ErrRewound
		}
		if err := pause.wait(ctx); err != nil { // a new leader may be catching up
			return 0, err
		}
	}
}

// upTo yields what stands up to a sequence that the barrier covers.
func (t *tail) upTo(ctx context.Context, last uint64) error {
	pause := backoff{200 * time.Microsecond, 50 * time.Millisecond}
	filter := t.filter
	if filter == bus.EventPrefix+">" {
		filter = "" // the same, and cheaper
	}
	for t.next <= last {
		got, more, err := t.bus.page(ctx, t.bus.scans, StreamRead, t.next, filter)
		if err != nil && !passing(err) {
			return readError(ctx, err)
		}
		for _, r := range got {
			if r.seq > last {
				return nil
			}
			if err := t.hand(r); err != nil {
				return err
			}
		}
		if err == nil && more {
			continue
		}
		if err == nil && t.next <= last {
			done, err := t.complete(ctx, filter, last)
			if done || err != nil && !passing(err) {
				t.next = max(t.next, last+1)
				return err
			}
		}
		if late := pause.wait(ctx); late != nil {
			return readError(ctx, errors.Join(late, err))
		}
	}
	return nil
}

// complete says whether everything up to a sequence that passes the filter was
// yielded, now that the mirror has no more.
func (t *tail) complete(ctx context.Context, filter string, last uint64) (bool, error) {
	if filter == "" {
		filter = ">"
	}
	want, err := t.bus.reachable(ctx, filter, last)
	return err == nil && want < t.next, err
}

// hand yields one commit.
func (t *tail) hand(r raw) error {
	if t.bodies != nil {
		t.next = r.seq + 1
		return t.bodies(r)
	}
	s, err := t.bus.stored(r.seq, r.body)
	if err != nil {
		return err
	}
	skip := t.skip
	first := r.seq == t.next
	t.next, t.skip = r.seq+1, 0
	if first && skip >= len(s.Commit.Records) {
		return nil
	}
	return t.yield(s)
}

// follow yields what comes, until ctx ends.
func (t *tail) follow(ctx context.Context) error {
	pause := backoff{5 * time.Millisecond, time.Second}
	seen := t.bus.spans().of(t.next - 1)
	for {
		err := t.listen(ctx)
		if err != nil && !errors.Is(err, errEar) {
			return readError(ctx, err)
		}
		gens, last, serr := t.bus.state(ctx)
		switch {
		case serr != nil:
			return readError(ctx, serr)
		case !gens.holds(events.Position{Generation: seen, Seq: t.next}, max(last, t.next-1)):
			return bus.ErrRewound
		}
		seen = gens.of(t.next - 1)
		if err != nil {
			t.bus.log.Debug("tail: consumer lost, making another", "seq", t.next, "err", err)
			if late := pause.wait(ctx); late != nil {
				return late
			}
			continue
		}
		pause.next = 5 * time.Millisecond
	}
}

// listen makes an ear and yields what it hears, until it is lost or silent for
// long. The mirror's word that there is a commit is covered by the barrier
// BEFORE the commit is yielded.
func (t *tail) listen(ctx context.Context) error {
	e, err := newEar(ctx, t.bus, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.next,
		FilterSubject: t.filter, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return err
	}
	defer e.close(ctx)
	for {
		got, err := e.hear(ctx)
		if err != nil || len(got) == 0 {
			return err
		}
		if err := t.bus.Barrier().Wait(ctx); err != nil {
			return err
		}
		for _, r := range got {
			if err := t.hand(r); err != nil {
				return err
			}
		}
	}
}
