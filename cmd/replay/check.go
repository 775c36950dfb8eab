package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// checker checks turns. It may be used from many goroutines at once.
type checker struct {
	blobs    bus.Blobs // nil: what stands outside the log is not looked at
	headless bool      // the log has lost its beginning to retention
}

// verdict is what was found of a turn.
type verdict struct {
	problems []problem
	open     bool
	headless bool // its beginning is gone, so that nothing can be said of it
}

// checking is the check of one turn.
type checking struct {
	key     events.TurnKey
	commits []bus.Stored
	found   []problem
	newer   events.Position // of the first event of a newer release
}

// turn checks all commits of a turn. An error is not about the turn.
func (c *checker) turn(ctx context.Context, key events.TurnKey, commits []bus.Stored) (verdict, error) {
	k := &checking{key: key, commits: commits, newer: end}
	if _, first := commits[0].Commit.Records[0].Event.(*events.TurnSubmitted); !first && c.headless {
		return verdict{headless: true}, nil
	}
	k.foreign()
	k.laws()
	t := k.folds()
	if t.Submitted != nil && !t.Foreign && t.Broken == "" {
		k.renderings()
	}
	if c.blobs != nil {
		if err := k.references(ctx, c.blobs); err != nil {
			return verdict{}, err
		}
	}
	return verdict{problems: k.found, open: t.Ended == nil}, nil
}

func (k *checking) fail(at events.Position, call int, law, format string, args ...any) {
	of := k.key.String()
	if call != events.TurnEvent {
		of = k.key.Call(call).String()
	}
	k.found = append(k.found, problem{at, law, of, fmt.Sprintf(format, args...)})
}

// each calls do for every event, in order.
func (k *checking) each(do func(projections.Event)) {
	for _, s := range k.commits {
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			do(e)
		}
	}
}

// foreign names the events of newer releases. What follows the first of them
// cannot be judged.
func (k *checking) foreign() {
	k.each(func(e projections.Event) {
		f, ok := e.Event.(events.Foreign)
		if !ok {
			return
		}
		if k.newer == end {
			k.newer = e.Pos
		}
		k.fail(e.Pos, e.Call, lawNewer, "%s version %d is of a newer release: this one can show it, and cannot verify what follows", f.Name, f.Version)
	})
}

func (k *checking) laws() {
	plain := make([]events.Commit, len(k.commits))
	for i, s := range k.commits {
		plain[i] = s.Commit
	}
	for _, v := range lifecycle.Laws(plain) {
		if at := k.commits[v.Commit].Position(v.Index); at.Compare(k.newer) < 0 {
			k.fail(at, v.Call, v.Law, "%s", v.Why)
		}
	}
}

// folds compares what the decider's fold and the answers' fold make of the turn,
// and the fold of what is stored with the fold of the same stored once more.
func (k *checking) folds() lifecycle.Turn {
	t, conv := lifecycle.Turn{Key: k.key}, projections.Answers.Init()
	lawful := len(k.found) == 0
	k.each(func(e projections.Event) {
		was := t.Broken
		t = lifecycle.Evolve(t, lifecycle.Meta{At: e.At, By: e.By}, e.Record)
		conv = projections.Answers.Apply(conv, e)
		if was == "" && t.Broken != "" && lawful {
			k.fail(e.Pos, e.Call, "life", "%s", t.Broken)
		}
		if done, ok := e.Event.(*events.TurnCompleted); ok && !t.Foreign {
			k.counts(e.Pos, t, done)
		}
	})
	if t.Foreign || t.Broken != "" {
		return t
	}
	last := k.last()
	if a := conv.Turn(k.key); a == nil {
		k.fail(last, events.TurnEvent, lawFold, "the answers have no such turn")
	} else {
		k.sameTerminals(last, t, a)
	}
	if again, err := k.storedAgain(); err != nil {
		k.fail(last, events.TurnEvent, "L9", "what was read cannot be stored again: %v", err)
	} else if !reflect.DeepEqual(t, again) {
		k.fail(last, events.TurnEvent, "L9", "stored and read once more, the history folds to another state")
	}
	return t
}

func (k *checking) last() events.Position {
	s := k.commits[len(k.commits)-1]
	return s.Position(len(s.Commit.Records) - 1)
}

// counts compares the turn's own count with its calls.
func (k *checking) counts(at events.Position, t lifecycle.Turn, done *events.TurnCompleted) {
	have := make(map[events.Kind]int)
	for _, c := range t.Calls {
		if c.Terminal != nil {
			have[c.Terminal.Kind()]++
		}
	}
	for _, kind := range show.Endings {
		if have[kind] != done.Counts[kind] {
			k.fail(at, events.TurnEvent, lawCounts, "it counts %d %s, and its calls have %d", done.Counts[kind], kind, have[kind])
		}
	}
}

func (k *checking) sameTerminals(at events.Position, t lifecycle.Turn, a *projections.Turn) {
	var ended events.Kind
	if t.Ended != nil {
		ended = t.Ended.Kind()
	}
	if a.Ended != ended {
		k.fail(at, events.TurnEvent, lawFold, "the decider's turn has %q for its end, the answers' %q", ended, a.Ended)
	}
	for i, c := range t.Calls {
		var terminal events.Kind
		if c.Terminal != nil {
			terminal = c.Terminal.Kind()
		}
		if got := a.Calls[i].Answer.Terminal; got != terminal {
			k.fail(at, i, lawFold, "the decider's call ended %q, and its answer is of %q", terminal, got)
		}
	}
}

// storedAgain is the fold of the history after one more trip through its stored form.
func (k *checking) storedAgain() (lifecycle.Turn, error) {
	t := lifecycle.Turn{Key: k.key}
	for _, s := range k.commits {
		b, err := events.Encode(s.Commit)
		if err != nil {
			return t, err
		}
		c, err := events.Decode(b)
		if err != nil {
			return t, err
		}
		t = lifecycle.FoldOn(t, c)
	}
	return t, nil
}

// mostPlaces is at how many places the messages of one turn are rendered. Between
// two changes they are the same; of more changes it is the first and last eight,
// and sixteen between.
const mostPlaces = 32

// changes folds the answers, and calls do wherever what the model is told has
// changed.
func (k *checking) changes(do func(at events.Position, turns []*projections.Turn)) {
	conv := projections.Answers.Init()
	k.each(func(e projections.Event) {
		conv = projections.Answers.Apply(conv, e)
		if t := conv.Turn(k.key); t != nil && t.Last == e.Pos {
			do(e.Pos, conv.Turns)
		}
	})
}

// places chooses among n changes: all of few, else mostPlaces of them.
func places(n int) map[int]bool {
	out := make(map[int]bool, min(n, mostPlaces))
	edge := mostPlaces / 4
	for i := range n {
		if n <= mostPlaces || i < edge || i >= n-edge {
			out[i] = true
		}
	}
	if n > mostPlaces {
		for i := range mostPlaces / 2 {
			out[edge+i*(n-2*edge)/(mostPlaces/2)] = true
		}
	}
	return out
}

// renderings renders the turn's messages for each provider wherever an answer
// changes, and holds them against the provider's rules: L7.
func (k *checking) renderings() {
	n := 0
	k.changes(func(events.Position, []*projections.Turn) { n++ })
	chosen, i := places(n), 0
	k.changes(func(at events.Position, turns []*projections.Turn) {
		if chosen[i] {
			if err := valid(turns); err != nil {
				k.fail(at, events.TurnEvent, lawRules, "%v", err)
			}
		}
		i++
	})
}

// valid says what a provider would not accept of the conversation of turns.
func valid(turns []*projections.Turn) error {
	list := make([]codec.Turn, len(turns))
	for i, t := range turns {
		answers, _ := t.Answers(nil) // what stands outside the log changes no rule
		calls, _ := t.Requests(nil)
		list[i] = codec.Turn{Calls: calls, Answers: answers, CallBytes: t.Limits.CallBytes, TurnBytes: t.Limits.TurnBytes}
	}
	for _, f := range codec.Formats() {
		messages, err := codec.Conversation(f, list, 0)
		if err == nil {
			err = codec.Validate(f, messages)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	return nil
}

// conversation checks the messages of all turns of a trace together.
func (c *checker) conversation(ctx context.Context, log source, trace string, r *report) error {
	conv := projections.Answers.Init()
	var last events.Position
	err := scan(ctx, log, bus.Filter{Trace: trace}, func(damage) {}, func(s bus.Stored) error {
		conv = foldAnswers(conv, s)
		last = s.Position(len(s.Commit.Records) - 1)
		return nil
	})
	if err != nil && !errors.Is(err, archive.ErrDamaged) {
		return err
	}
	if err := valid(conv.Turns); err != nil {
		r.add(problem{last, lawRules, trace, err.Error()})
	}
	return nil
}

// references reads what the turn refers to.
func (k *checking) references(ctx context.Context, blobs bus.Blobs) error {
	seen := make(map[string]bool)
	var failed error
	k.each(func(e projections.Event) {
		for _, ref := range archive.References(e.Event) {
			if seen[ref.Digest] || failed != nil {
				continue
			}
			seen[ref.Digest] = true
			_, err := blobs.Get(ctx, ref)
			switch {
			case err == nil:
			case ctx.Err() != nil, errors.Is(err, bus.ErrUnavailable):
				failed = err
			default:
				k.fail(e.Pos, e.Call, lawBlob, "%s, %d bytes: %v", ref.Digest, ref.Size, err)
			}
		}
	})
	return failed
}
