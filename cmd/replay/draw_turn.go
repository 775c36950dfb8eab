package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/cmd/replay/picture"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// drawing is a turn as a picture's values.
func (st *story) drawing(c choice, details bool) picture.Turn {
	out := picture.Turn{Name: st.key.Turn, State: st.state(), Status: st.standing(), Start: st.first, End: st.until(), About: st.about()}
	for _, s := range st.spans {
		out.Segments = append(out.Segments, segment(s))
	}
	for _, e := range st.events {
		if m, ok := signOf(e); ok {
			out.Marks = append(out.Marks, m)
		}
	}
	if details && c.call == noCall {
		out.Events = lines(st.events)
	}
	in := make(map[int]bool)
	if st.turn.Planned != nil {
		for _, batch := range st.turn.Planned.Batches {
			if calls := st.drawnCalls(batch, c, details, in); len(calls) > 0 {
				out.Batches = append(out.Batches, picture.Batch{Calls: calls})
			}
		}
	}
	var rest []int
	for _, n := range sortedKeys(st.calls) {
		if !in[n] {
			rest = append(rest, n)
		}
	}
	if calls := st.drawnCalls(rest, c, details, in); len(calls) > 0 {
		out.Batches = append(out.Batches, picture.Batch{Loose: true, Calls: calls})
	}
	return out
}

// drawnCalls are calls as a picture's values. in notes which were drawn.
func (st *story) drawnCalls(offsets []int, c choice, details bool, in map[int]bool) []picture.Call {
	var out []picture.Call
	for _, n := range offsets {
		if in[n] || c.call != noCall && c.call != n || !st.onPage(n) {
			continue
		}
		in[n] = true
		out = append(out, st.drawnCall(n, details))
	}
	return out
}

func (st *story) drawnCall(n int, details bool) picture.Call {
	t := st.tale(n)
	out := picture.Call{Number: n}
	for _, s := range t.spans {
		if s.what != spanQueue { // the turn has it
			out.Segments = append(out.Segments, segment(s))
		}
	}
	for _, e := range t.events {
		if m, ok := signOf(e); ok {
			out.Marks = append(out.Marks, m)
		}
	}
	if details {
		out.Events = lines(t.events)
	}
	call := st.turn.Call(n)
	if call == nil {
		out.Status = "is not in the submission"
		return out
	}
	out.Tool, out.Hint, out.State = call.Tool, body(call.Args), callState(call)
	out.Status, out.Effects = status(call), strings.Replace(effects(call), "resolved: effects ", "resolved: ", 1)
	if d, ok := call.Terminal.(*events.Denied); ok {
		out.Status += ": " + string(d.Code)
	}
	if details {
		for _, f := range st.facts(call) {
			out.Facts = append(out.Facts, picture.Fact{Name: f.name, Text: f.text})
		}
	}
	return out
}

// lines are events as a page has them.
func lines(list []told) []picture.Event {
	out := make([]picture.Event, len(list))
	for i, e := range list {
		out[i] = picture.Event{Position: e.ev.Pos.String(), At: e.ev.At, Kind: string(e.ev.Kind()), Text: describe(e)}
		if e.ev.Seq > 1 {
			out[i].After = "+" + took(e.after)
		}
	}
	return out
}

// segments are what a span is drawn as, and how it is said.
var segments = map[string]struct {
	kind picture.Kind
	says string
}{
	spanQueue:    {picture.Queue, "waits for a node"},
	spanGates:    {picture.Gates, "is judged; a wait for the call that holds its key may be a part of it"},
	spanKey:      {picture.Holding, "waits for the call that holds its key"},
	spanApproval: {picture.Asking, "waits for a person"},
	spanInput:    {picture.Asking, "its tool waits for a person's answers"},
	spanBatch:    {picture.Holding, "waits for the batches before"},
	spanLock:     {picture.Holding, "waits for its locks"},
	spanStart:    {picture.Holding, "waits for its start"},
	spanRun:      {picture.Attempt, "runs"},
	spanStop:     {picture.Ending, "its end was asked for"},
	spanRetry:    {picture.Delay, "waits before another attempt"},
	spanProbe:    {picture.Recovery, "the tool is asked what has happened"},
	spanLost:     {picture.Lost, "has no owner, and nobody has found that yet"},
	spanParked:   {picture.Parked, "parked: nothing of it is in memory"},
}

func segment(s span) picture.Segment {
	look := segments[s.what]
	out := picture.Segment{Kind: look.kind, Start: s.from, End: s.to, Title: look.says}
	switch {
	case s.attempt > 0 && s.lost:
		out.Kind, out.Label = picture.Lost, fmt.Sprintf("attempt %d, owner lost", s.attempt)
		out.Title = fmt.Sprintf("attempt %d: its owner was lost, and whether it ran to its end is not known", s.attempt)
	case s.attempt > 0:
		out.Label = fmt.Sprintf("attempt %d", s.attempt)
		out.Title = out.Label + " " + look.says
	}
	if !s.to.IsZero() {
		out.Title += ", " + took(s.to.Sub(s.from))
	}
	return out
}

// signOf is the sign of an event, where it has one.
func signOf(e told) (picture.Mark, bool) {
	out := picture.Mark{At: e.ev.At, Title: string(e.ev.Kind()) + " " + describe(e)}
	switch v := e.ev.Event.(type) {
	case *events.CancelRequested, *events.TurnCancelRequested:
		out.Sign = picture.Cancel
	case *events.Approved:
		out.Sign = picture.Yes
	case *events.InputGiven:
		out.Sign = picture.Yes
		if v.By == nil || !slices.ContainsFunc(v.Answers, func(a events.InputAnswer) bool { return a.Action == events.InputAccept }) {
			out.Sign = picture.No
		}
	case *events.Denied:
		if v.By == nil {
			return out, false
		}
		out.Sign = picture.No
	case *events.Recovered:
		out.Sign = picture.TakenOver
	case *events.TurnClaimed:
		out.Sign = picture.Note
		if v.Why == events.ClaimTakenOver {
			out.Sign = picture.TakenOver
		}
	case *events.LateResult:
		out.Sign = picture.Late
	case *events.Resolved:
		out.Sign = picture.Settled
	case *events.Compensated:
		out.Sign = picture.Undone
	case *events.Progress, events.Foreign:
		out.Sign = picture.Note
	default:
		return out, false
	}
	return out, true
}

// states are the terminals of calls as pictures show them.
var states = map[events.Kind]picture.State{
	events.KindCompleted: picture.Completed, events.KindFailed: picture.Failed, events.KindDenied: picture.Denied,
	events.KindTimedOut: picture.TimedOut, events.KindCancelled: picture.Cancelled, events.KindUnknown: picture.Unknown,
	events.KindDeduplicated: picture.Deduplicated,
}

// stateOf is a terminal's state; that of none is open.
func stateOf(k events.Kind) picture.State { return states[k] }

func callState(c *lifecycle.Call) picture.State {
	switch {
	case c.Terminal != nil:
		return stateOf(c.Terminal.Kind())
	case c.Phase == lifecycle.PhaseAsking, c.Phase == lifecycle.PhaseRetrying, c.Phase == lifecycle.PhaseInput:
		return picture.Waiting
	}
	return picture.Open
}

func (st *story) state() picture.State {
	switch {
	case st.turn.Ended != nil && st.turn.Ended.Kind() == events.KindTurnAbandoned:
		return picture.Failed
	case st.turn.Ended != nil:
		return picture.Completed
	case st.turn.Parked != nil:
		return picture.Waiting
	}
	return picture.Open
}
