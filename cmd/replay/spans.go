package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// What a call's time goes by.
const (
	spanQueue    = "queue"    // submitted, and not yet looked at
	spanGates    = "gates"    // being judged
	spanKey      = "key"      // waiting for the call that holds its key
	spanApproval = "approval" // waiting for a person
	spanInput    = "input"    // its tool waits for a person's answers
	spanBatch    = "batch"    // waiting for the batches before
	spanLock     = "lock"     // the same, where locks were taken
	spanStart    = "wait"     // what is asked before a start, where no lock was taken
	spanRun      = "run"      // an attempt
	spanStop     = "stop"     // an attempt whose end has been asked for
	spanRetry    = "retry"    // the delay before another attempt
	spanProbe    = "probe"    // its owner was lost, and the tool is asked
	spanLost     = "lost"     // of a turn: its owner was gone, and nobody had found that yet
	spanParked   = "parked"   // of a turn: nothing of it is in memory
)

// span is a stretch of a call's time. An open one has no end yet.
type span struct {
	what    string
	attempt int // of run and stop
	from    time.Time
	to      time.Time // zero: it lasts
	lost    bool      // its owner was lost in it
}

// open begins a stretch, and ends the one before.
func (t *tale) open(what string, attempt int, at time.Time) {
	t.close(at)
	t.spans = append(t.spans, span{what: what, attempt: attempt, from: at})
}

// close ends the stretch that lasts.
func (t *tale) close(at time.Time) *span {
	if len(t.spans) == 0 {
		return nil
	}
	last := &t.spans[len(t.spans)-1]
	if last.to.IsZero() {
		last.to = at
		if at.Before(last.from) {
			last.to = last.from // two clocks do not agree
		}
	}
	return last
}

// lasting is what the call is at now, "" if nothing.
func (t *tale) lasting() string {
	if n := len(t.spans); n > 0 && t.spans[n-1].to.IsZero() {
		return t.spans[n-1].what
	}
	return ""
}

// turnSpans are what an event of the turn means for its time and that of its calls.
// lastSign is when the turn's event before it was.
func (st *story) turnSpans(e projections.Event, lastSign time.Time) {
	switch v := e.Event.(type) {
	case *events.TurnSubmitted:
		st.spans = append(st.spans, span{what: spanQueue, from: e.At})
		for i := range st.turn.Calls {
			st.tale(i).open(spanQueue, 0, e.At)
		}
	case *events.TurnClaimed:
		st.closeOwn(e.At)
		if v.Why == events.ClaimTakenOver && !lastSign.IsZero() {
			st.spans = append(st.spans, span{what: spanLost, from: lastSign, to: e.At, lost: true})
		}
		for _, t := range st.calls {
			if t.lasting() == spanQueue {
				t.close(e.At)
			}
		}
	case *events.TurnParked:
		st.closeOwn(e.At)
		st.spans = append(st.spans, span{what: spanParked, from: e.At})
	case *events.TurnCancelRequested:
		for _, t := range st.calls {
			t.cancel(e.At)
		}
	case *events.TurnCompleted, *events.TurnAbandoned:
		st.closeOwn(e.At)
		for _, t := range st.calls {
			t.close(e.At)
		}
	}
}

// closeOwn ends the turn's own stretch that lasts.
func (st *story) closeOwn(at time.Time) {
	if n := len(st.spans); n > 0 && st.spans[n-1].to.IsZero() {
		st.spans[n-1].to = at
	}
}

// cancel notes that the end of the call was asked for.
func (t *tale) cancel(at time.Time) {
	if t.lasting() == spanRun {
		t.open(spanStop, t.spans[len(t.spans)-1].attempt, at)
	}
}

// callSpans are what an event of a call means for its time.
func (st *story) callSpans(t *tale, e projections.Event) {
	switch v := e.Event.(type) {
	case *events.Requested, *events.Approved:
		t.open(spanGates, 0, e.At)
	case *events.ApprovalRequested:
		t.open(spanApproval, 0, e.At)
	case *events.InputRequested:
		t.open(spanInput, 0, e.At)
	case *events.Authorized, *events.InputGiven:
		t.open(spanStart, 0, e.At)
	case *events.Started:
		st.started(t, v, e)
	case *events.CancelRequested:
		t.cancel(e.At)
	case *events.Retrying:
		t.open(spanRetry, 0, e.At)
	case *events.Recovered:
		t.recovered(v, e.At)
	case *events.Deduplicated:
		if last := t.close(e.At); last != nil && last.what == spanGates {
			last.what = spanKey
		}
		st.ended[e.Call] = e.At
	default:
		if events.IsTerminal(e.Kind()) {
			t.close(e.At)
			st.ended[e.Call] = e.At
		}
	}
}

// recovered ends what the lost owner was at, and begins what is done about it.
func (t *tale) recovered(e *events.Recovered, at time.Time) {
	was := t.lasting()
	if last := t.close(at); last != nil {
		last.lost = was == spanRun || was == spanStop
	}
	switch e.Action {
	case events.RecoverProbe:
		t.open(spanProbe, 0, at)
	case events.RecoverRestart:
		t.open(spanStart, 0, at)
	case events.RecoverContinue:
		if was != "" {
			t.open(was, 0, at)
		}
	}
}

// started begins an attempt. The wait before a first one was for the batches before
// as long as those had not ended.
func (st *story) started(t *tale, v *events.Started, e projections.Event) {
	if last := t.close(e.At); last != nil && last.what == spanStart {
		rest := spanStart
		if len(v.Locks) > 0 {
			rest = spanLock
		}
		last.what = rest
		if began := st.batchBegan(e.Call); began.After(last.from) && !began.After(last.to) {
			last.what, last.to = spanBatch, began
			t.spans = append(t.spans, span{what: rest, from: began, to: e.At})
		}
	}
	t.open(spanRun, v.Attempt, e.At)
}

// batchBegan is when every call of the batches before the call's had ended; zero
// where there is none.
func (st *story) batchBegan(call int) time.Time {
	var last time.Time
	if st.turn.Planned == nil {
		return last
	}
	for _, batch := range st.turn.Planned.Batches {
		if slices.Contains(batch, call) {
			return last
		}
		for _, other := range batch {
			if at := st.ended[other]; at.After(last) {
				last = at
			}
		}
	}
	return time.Time{}
}

// spanOrder is the order in which a call's time is summed up.
var spanOrder = []string{spanQueue, spanGates, spanKey, spanApproval, spanBatch, spanLock, spanStart, spanRun, spanStop, spanInput, spanRetry, spanProbe}

// stages are how long the call spent where, in all. Of a single attempt it is what
// the node has measured, where that is on record: its events' times hold the
// appends, too.
func (t *tale) stages(measured time.Duration) string {
	sum, n := make(map[string]time.Duration), make(map[string]int)
	lost := 0
	for _, s := range t.spans {
		if s.to.IsZero() {
			continue
		}
		if s.lost {
			lost++
		}
		sum[s.what] += s.to.Sub(s.from)
		n[s.what]++
	}
	if n[spanRun] == 1 && n[spanStop] == 0 && measured > 0 {
		sum[spanRun] = measured
	}
	var parts []string
	for _, what := range spanOrder {
		if sum[what] == 0 {
			continue
		}
		part := what + " " + took(sum[what])
		switch {
		case n[what] > 1 && what == spanRun:
			part += fmt.Sprintf(" in %d attempts", n[what])
		case n[what] > 1 && what == spanRetry:
			part += fmt.Sprintf(" in %d waits", n[what])
		}
		switch {
		case what != spanRun || lost == 0:
		case n[what] > 1:
			part += fmt.Sprintf(", %d of them until its owner was found lost", lost)
		default:
			part += " until its owner was found lost"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
