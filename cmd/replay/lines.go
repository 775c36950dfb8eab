package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// liner prints the events of a target as they are read, whole, a line each.
type liner struct {
	app    *app
	want   choice
	names  map[events.TurnKey][]string
	order  []*chapter           // the turns that were seen
	states map[string]*sequence // by turn
	some   bool                 // a commit of the trace was read
	first  events.Position
	turn   bool // one of the turn that is asked for
	calls  int  // of that turn
	n      int  // printed
	wrong  bool
}

// sequence is the numbers of the last events of a turn and of its calls.
type sequence struct {
	turn  uint32
	calls map[int]uint32
}

func (l *liner) damaged(d damage) {
	l.wrong, l.some = true, true
	l.app.complain(errors.New(d.String()))
}

func (l *liner) commit(s bus.Stored) error {
	if !l.some {
		l.some, l.first = true, s.Position(0)
	}
	kept, some := upTo(s, l.want.at)
	if !some {
		return errEnough
	}
	key := kept.Commit.Turn
	if l.states[key.Turn] == nil {
		l.states[key.Turn] = &sequence{calls: make(map[int]uint32)}
		l.order = append(l.order, &chapter{key: key})
	}
	mine := l.want.turn == "" || l.want.turn == key.Turn
	l.turn = l.turn || l.want.turn == key.Turn
	for i, r := range kept.Commit.Records {
		if sub, ok := r.Event.(*events.TurnSubmitted); ok {
			l.submitted(key, sub)
		}
		if !mine {
			continue
		}
		l.numbers(kept, i)
		if l.want.call != noCall && r.Call != l.want.call || kept.Position(i).Compare(l.want.from) < 0 {
			continue
		}
		if l.want.limit > 0 && l.n == l.want.limit {
			return errEnough
		}
		ce, err := bus.CloudEvent(kept, i, l.tool(key, r.Call))
		if err != nil {
			return err
		}
		l.app.print("%s\n", ce)
		l.n++
	}
	return nil
}

func (l *liner) submitted(key events.TurnKey, sub *events.TurnSubmitted) {
	names := make([]string, len(sub.Calls))
	for n, c := range sub.Calls {
		names[n] = c.Tool
	}
	l.names[key] = names
	if key.Turn == l.want.turn {
		l.calls = len(sub.Calls)
	}
}

func (l *liner) tool(key events.TurnKey, call int) string {
	if names := l.names[key]; call >= 0 && call < len(names) {
		return names[call]
	}
	return ""
}

// numbers complains of events that should stand before one and do not.
func (l *liner) numbers(s bus.Stored, i int) {
	key, r := s.Commit.Turn, s.Commit.Records[i]
	seq := l.states[key.Turn]
	last := seq.turn
	if r.Call != events.TurnEvent {
		last = seq.calls[r.Call]
	}
	if r.Seq > last+1 {
		of := key.String()
		if r.Call != events.TurnEvent {
			of = key.Call(r.Call).String()
		}
		l.wrong = true
		l.app.complain(fmt.Errorf("%s: before %s the events %d to %d are missing", of, s.Position(i), last+1, r.Seq-1))
	}
	if r.Call == events.TurnEvent {
		seq.turn = r.Seq
	} else {
		seq.calls[r.Call] = r.Seq
	}
}

// missing is the error of a target that is not there.
func (l *liner) missing(ctx context.Context, log source) error {
	switch t := l.want; {
	case !l.some:
		return unknownTrace(ctx, log, t.trace)
	case l.first != (events.Position{}) && l.first.Compare(t.at) > 0:
		return beginsBehind(t.trace, l.first)
	case t.turn != "" && !l.turn && !l.wrong:
		return (&book{trace: t.trace, turns: l.order}).has(t.target, len(l.order))
	case t.turn != "" && l.n == 0 && !l.wrong:
		return hasCall(t.target, l.calls)
	}
	return nil
}
