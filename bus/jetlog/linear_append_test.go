package jetlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
)

// appends of several nodes to several turns, all of a round at one expectation.
type appendRun struct {
	t     *testing.T
	ctx   context.Context
	buses []*jetlog.Bus
	h     *history
	begun atomic.Int64 // rounds, of all turns
	tried sync.Map     // commit id: the expectation it was sent with
}

const (
	linearTurns   = 3   // at a time
	linearWriters = 4   // of each
	linearRounds  = 150 // of a turn
)

// run has every turn go through its rounds, and checks what the writers were told.
// disturb is called again and again, a few rounds apart, until they are over.
func (r *appendRun) run(rnd *rand.Rand, disturb func(n int)) {
	seeds := make([]uint64, linearTurns)
	for i := range seeds {
		seeds[i] = rnd.Uint64()
	}
	var wg sync.WaitGroup
	over := make(chan struct{})
	for i, seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 2))
		wg.Go(func() {
			for n := range *linearTimes {
				r.turn(i, turn("linear", fmt.Sprintf("%d-%d", i, n)), rnd)
			}
		})
	}
	go func() { wg.Wait(); close(over) }()
	r.disturbed(over, disturb)
	checkLinear(r.t, appendModel(), r.h.ops)
	for i := range linearTurns * *linearTimes {
		r.checkLog(turn("linear", fmt.Sprintf("%d-%d", i%linearTurns, i/linearTurns)))
	}
}

// disturbed calls disturb each time a tenth of a turn's rounds has passed.
func (r *appendRun) disturbed(over <-chan struct{}, disturb func(n int)) {
	const step = linearTurns * linearRounds / 10
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		if r.begun.Load() > int64(n+1)*step {
			disturb(n)
			n++
		}
	}
}

// turn is one turn's rounds: writers who all expect the same, some of whom have
// little patience, and now and then somebody who looks.
func (r *appendRun) turn(i int, k events.TurnKey, rnd *rand.Rand) {
	at := uint64(0)
	for round := range linearRounds {
		r.begun.Add(1)
		outs := make([]appendOut, linearWriters)
		go1 := make(chan struct{})
		var wg sync.WaitGroup
		for w := range outs {
			patience := time.Minute
			if rnd.IntN(12) == 0 {
				patience = time.Duration(rnd.IntN(3000)) * time.Microsecond
			}
			repeat := rnd.IntN(2) == 0
			wg.Go(func() {
				<-go1
				id := fmt.Sprintf("%s-%d-%d", k.Turn, round, w)
				outs[w] = r.append(i*linearWriters+w, k, id, at, patience, repeat)
			})
		}
		close(go1)
		wg.Wait()
		vague := false
		for _, out := range outs {
			vague = vague || out.kind == wasUnsure || out.kind == wasUnsent
			if out.kind == wasKept || out.kind == wasMoved {
				at = max(at, out.seq)
			}
		}
		if vague || rnd.IntN(20) == 0 || round == linearRounds-1 {
			at = r.look(i*linearWriters, k)
		}
		if r.t.Failed() {
			return
		}
	}
}

// append appends once or, with repeat, until the answer is clear, and records it
// as one operation.
func (r *appendRun) append(client int, k events.TurnKey, id string, at uint64, patience time.Duration, repeat bool) appendOut {
	b := r.buses[client%len(r.buses)]
	r.tried.Store(id, at)
	op := porcupine.Operation{ClientId: client, Input: appendIn{k, id, at}, Call: r.h.now()}
	var out appendOut
	sent := false
	for {
		ctx, stop := context.WithTimeout(r.ctx, patience)
		s, err := b.Append(ctx, note(k, id, 1), at)
		stop()
		if out, err = answerOf(s, err); err != nil {
			r.t.Errorf("append %s behind %d: %v", id, at, err)
			return out
		}
		sent = sent || out.kind == wasUnsure
		if !repeat || out.kind == wasKept || out.kind == wasMoved || r.ctx.Err() != nil {
			break
		}
		patience = 2*patience + time.Millisecond
	}
	if sent && out.kind == wasUnsent { // an earlier try of it may have been kept
		out.kind = wasUnsure
	}
	if op.Output, op.Return = out, r.h.now(); out.kind == wasUnsure {
		op.Return = never
	}
	r.h.add(op)
	return out
}

// look reads the turn as it is now, and returns its last sequence.
func (r *appendRun) look(client int, k events.TurnKey) uint64 {
	b := r.buses[client%len(r.buses)]
	op := porcupine.Operation{ClientId: client, Input: appendIn{turn: k}, Call: r.h.now()}
	stored, err := now(r.ctx, b, k)
	if err != nil {
		r.t.Errorf("read turn %s: %v", k, err)
		return 0
	}
	out := appendOut{kind: wasRead}
	if len(stored) > 0 {
		last := stored[len(stored)-1]
		out.seq, out.id = last.Seq, last.Commit.ID
	}
	op.Output, op.Return = out, r.h.now()
	r.h.add(op)
	return out.seq
}

// now is the turn as the log has it, not as the mirror may still have it.
func now(ctx context.Context, b *jetlog.Bus, k events.TurnKey) ([]bus.Stored, error) {
	for {
		stored, err := nowWithin(ctx, b, k)
		if err == nil || ctx.Err() != nil {
			return stored, err
		}
		if !errors.Is(err, bus.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
	}
}

// nowWithin asks once: a question to a leader that is going may have no answer.
func nowWithin(ctx context.Context, b *jetlog.Bus, k events.TurnKey) ([]bus.Stored, error) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	head, err := b.Head(ctx)
	if err != nil {
		return nil, err
	}
	return b.Load(ctx, k, head.Seq-1)
}

// checkLog compares the turn's history with all that was answered: what was kept
// is there once, behind what its writer expected; what was refused or not sent is
// not there, and nothing is that nobody sent.
func (r *appendRun) checkLog(k events.TurnKey) {
	answers := map[string]appendOut{}
	for _, op := range r.h.ops {
		if in := op.Input.(appendIn); in.turn == k && in.id != "" {
			answers[in.id] = op.Output.(appendOut)
		}
	}
	stored, err := now(r.ctx, r.buses[0], k)
	if err != nil {
		r.t.Error(err)
		return
	}
	previous := uint64(0)
	for _, s := range stored {
		id := s.Commit.ID
		at, sent := r.tried.Load(id)
		out, once := answers[id]
		delete(answers, id)
		switch {
		case !sent:
			r.t.Errorf("turn %s at %d: nobody sent commit %s", k, s.Seq, id)
		case !once:
			r.t.Errorf("turn %s at %d: commit %s stands there twice", k, s.Seq, id)
		case at.(uint64) != previous:
			r.t.Errorf("turn %s at %d: commit %s was to stand behind %d, and stands behind %d", k, s.Seq, id, at, previous)
		case out.kind == wasKept && out.seq != s.Seq, out.kind == wasMoved, out.kind == wasUnsent:
			r.t.Errorf("turn %s at %d: commit %s is there, its writer heard %s %d", k, s.Seq, id, out.kind, out.seq)
		}
		previous = s.Seq
	}
	clear := 0
	for id, out := range answers {
		if out.kind == wasKept {
			r.t.Errorf("turn %s: commit %s was kept at %d, and is not there", k, id, out.seq)
		}
		if out.kind != wasUnsure {
			clear++
		}
	}
	r.t.Logf("turn %s: %d commits in the log, %d refused, %d in doubt and not there", k, len(stored), clear, len(answers)-clear)
}

// One server, which is stopped and started again: of the writers who expect the
// same never two are accepted.
func TestLinearAppendAlone(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	srv := jettest.Start(t)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Hour)
	defer stop()
	r := &appendRun{t: t, ctx: ctx, h: newHistory()}
	for range 3 {
		r.buses = append(r.buses, srv.Open(jetlog.Config{Connect: srv.Dial}))
	}
	restarts := 0
	r.run(rnd, func(n int) {
		if n%4 == 1 {
			srv.Stop()
			srv.Start()
			restarts++
		}
	})
	if restarts == 0 {
		t.Error("the server was never started again")
	}
}

// Three servers, whose leader steps down or is stopped: of the writers who expect
// the same never two are accepted, whichever server they ask.
func TestLinearAppendCluster(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	c := jettest.StartCluster(t)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Hour)
	defer stop()
	r := &appendRun{t: t, ctx: ctx, h: newHistory()}
	for range 3 {
		r.buses = append(r.buses, c.Open(jetlog.Config{}))
	}
	steps, restarts := 0, 0
	var away *jettest.Server
	r.run(rnd, func(n int) {
		switch {
		case away != nil:
			away.Start()
			away = nil
			c.AwaitReady()
		case n%4 == 1:
			if away = c.Leader(jetlog.StreamLog); away != nil {
				away.Stop()
				restarts++
			}
		default:
			asked, stop := context.WithTimeout(ctx, 5*time.Second) // nobody answers while there is no leader
			if c.StepDown(asked, jetlog.StreamLog) == nil {
				steps++
			}
			stop()
		}
	})
	if away != nil {
		away.Start()
	}
	t.Logf("%d step-downs, %d restarts of the leader", steps, restarts)
	if steps == 0 || restarts == 0 {
		t.Error("the leader was not disturbed")
	}
}
