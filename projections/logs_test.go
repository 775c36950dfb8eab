package projections

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

// place gives records their places: each in a commit of its own, one millisecond
// after the other, numbered a call and a turn.
func place(turn string, records ...events.Record) []Event {
	seqs := map[int]uint32{}
	out := make([]Event, len(records))
	for i, r := range records {
		seqs[r.Call]++
		r.Seq = seqs[r.Call]
		out[i] = Event{
			Pos: events.Position{Generation: 1, Seq: uint64(i + 1)}, Turn: events.TurnKey{Trace: "trace", Turn: turn},
			At: noon.Add(time.Duration(i) * time.Millisecond), Commit: fmt.Sprint(turn, i), Record: r,
		}
	}
	return out
}

// reseq numbers merged events in the order in which they stand.
func reseq(evs []Event) []Event {
	for i := range evs {
		evs[i].Pos.Seq = uint64(i + 1)
	}
	return evs
}

func on(call int, e events.Event) events.Record { return events.Record{Call: call, Event: e} }

func ofTurn(e events.Event) events.Record { return on(events.TurnEvent, e) }

func call(id, tool string) events.RawCall {
	return events.RawCall{ProviderID: id, Tool: tool, Args: events.Body{Text: "{}"}}
}

func outcome(effects events.Effects, text string) events.Outcome {
	return events.Outcome{
		Attempt: 1, Class: events.ClassOK, Effects: effects, Output: int64(len(text)), Stages: events.Stages{Run: 1500},
		Result: events.Result{Status: events.Success, Text: events.Body{Text: text}},
	}
}

func verdict(tier events.Tier) events.Verdict {
	return events.Verdict{Tier: tier, Operation: events.Operation{Class: events.OpExecute}, Policies: []string{"p1"}}
}

// whole is a turn in which most things happen: one call completes after a retry, one is
// asked about and approved, one is denied, one ends unknown and is resolved later.
func whole() []Event {
	person := events.Principal{ID: "ann", Kind: "person"}
	owner := events.Owner{Boot: "boot", Epoch: 1}
	return place("whole",
		ofTurn(&events.ModelStarted{Model: "m"}),
		ofTurn(&events.TurnSubmitted{
			Principal: events.Principal{ID: "agent"}, Format: "openai", Limits: events.Limits{CallBytes: 9000},
			Calls: []events.RawCall{call("a", "fetch"), call("b", "charge"), call("b", "bash"), call("", "write")},
		}),
		ofTurn(&events.ModelCompleted{Model: "m", Input: 10, Output: 20}),
		ofTurn(&events.TurnClaimed{Owner: owner, Why: events.ClaimNew, Node: "n1"}),
		on(0, &events.Requested{Tool: "fetch", Args: events.Body{Text: `{"url":"x"}`}}),
		on(1, &events.Requested{Tool: "charge"}), on(2, &events.Requested{Tool: "bash"}), on(3, &events.Requested{Tool: "write"}),
		on(2, &events.Denied{Gate: "authorize", Code: events.PermissionDenied, Reason: "Not allowed.", Path: "/command"}),
		on(1, &events.ApprovalRequested{Asks: "pay 10", Why: "tier", Hash: "h", Expires: noon.Add(time.Hour), Verdict: verdict(events.Approval)}),
		ofTurn(&events.TurnPlanned{Batches: [][]int{{0}, {1}, {2}, {3}}}),
		on(0, &events.Authorized{Verdict: verdict(events.Readonly), Decision: "allow"}),
		on(0, &events.Started{Attempt: 1, Owner: owner, Deadline: noon.Add(time.Minute)}),
		on(0, &events.Progress{Attempt: 1, Text: "half"}),
		on(0, &events.Retrying{Attempt: 1, Class: events.ClassUnavailable, Error: &events.Error{Code: events.MCPNetworkError, Message: "gone"}}),
		on(0, &events.Started{Attempt: 2, Owner: owner}),
		on(0, &events.Completed{Outcome: outcome(events.EffectsNone, "page")}),
		ofTurn(&events.TurnParked{Waiting: []int{1}}),
		on(1, &events.Approved{By: person, Scope: events.ScopeCall, Hash: "h"}),
		ofTurn(&events.TurnClaimed{Owner: owner, Why: events.ClaimWoken}),
		on(1, &events.Authorized{Verdict: verdict(events.Approval), Decision: "approved"}),
		on(1, &events.Started{Attempt: 1, Owner: owner}),
		on(1, &events.Completed{Outcome: outcome(events.EffectsDone, "paid")}),
		on(3, &events.Authorized{Verdict: verdict(events.Reversible)}),
		on(3, &events.Started{Attempt: 1, Owner: owner}),
		on(3, &events.CancelRequested{By: person, Reason: "too slow"}),
		on(3, &events.Recovered{LastStage: events.KindStarted, Attempt: 1, ToolStarted: true, Action: events.RecoverUnknown, Reason: "no probe"}),
		on(3, &events.Unknown{Outcome: outcome(events.EffectsPossible, ""), Why: events.UnknownOwnerLost}),
		ofTurn(&events.TurnCompleted{Counts: map[events.Kind]int{events.KindCompleted: 2}}),
		on(3, &events.LateResult{Outcome: outcome(events.EffectsDone, "written")}),
		on(3, &events.Resolved{By: person, Effects: events.EffectsDone, Result: &events.Result{Text: events.Body{Text: "written"}}}),
		on(1, &events.Compensated{By: person}),
	)
}

// abandoned is a turn that nobody could run to its end.
func abandoned() []Event {
	return place("abandoned",
		ofTurn(&events.TurnSubmitted{Calls: []events.RawCall{call("a", "bash"), call("b", "bash"), call("c", "read"), call("d", "bash")}}),
		on(0, &events.Requested{}), on(0, &events.Authorized{Verdict: verdict(events.Irreversible)}), on(0, &events.Started{Attempt: 1}),
		on(1, &events.Requested{}), on(1, &events.ApprovalRequested{Asks: "x"}),
		on(2, &events.Requested{}), on(2, &events.Authorized{Verdict: verdict(events.Readonly)}), on(2, &events.Started{Attempt: 1}),
		on(3, &events.Deduplicated{Of: "trace/whole/1", As: events.KindCompleted, Outcome: outcome(events.EffectsDone, "paid")}),
		ofTurn(&events.TurnAbandoned{Reason: "it kills its node"}),
	)
}

// odd is a log that no release wrote: the folds must bear it.
func odd() []Event {
	return place("odd",
		on(0, &events.Completed{}), ofTurn(&events.TurnCompleted{}),
		ofTurn(&events.TurnSubmitted{Calls: []events.RawCall{call("a", "t")}}),
		ofTurn(&events.TurnSubmitted{Calls: []events.RawCall{call("a", "t"), call("b", "t")}}),
		on(7, &events.Completed{}), on(-5, &events.ApprovalRequested{}), on(9, &events.ApprovalRequested{}),
		ofTurn(events.Foreign{Name: "turn_dreamt", Version: 1}), on(0, events.Foreign{Name: events.KindRetrying, Version: 9}),
		on(0, &events.Failed{}), on(0, &events.Completed{Outcome: outcome(events.EffectsDone, "never shown")}),
		ofTurn(&events.TurnAbandoned{}), ofTurn(&events.TurnCompleted{}), ofTurn(&events.TurnClaimed{}),
	)
}

// corpus are logs worth keeping right.
func corpus() map[string][]Event {
	a, b := whole(), abandoned()
	var mixed []Event
	for len(a)+len(b) > 0 {
		if n := min(len(a), 3); n > 0 {
			mixed, a = append(mixed, a[:n]...), a[n:]
		}
		if n := min(len(b), 1); n > 0 {
			mixed, b = append(mixed, b[:n]...), b[n:]
		}
	}
	return map[string][]Event{
		"whole": whole(), "abandoned": abandoned(), "odd": odd(), "mixed": reseq(mixed),
		"one after the other": reseq(slices.Concat(whole(), abandoned(), odd())),
	}
}

// drawLog is any events in any order.
func drawLog(t *rapid.T) []Event {
	pool := slices.Concat(whole(), abandoned(), odd())
	n := rapid.IntRange(1, 40).Draw(t, "events")
	out := make([]Event, n)
	for i := range out {
		out[i] = rapid.SampledFrom(pool).Draw(t, "event")
		out[i].Turn.Turn = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "turn")
	}
	return reseq(out)
}
