package projections

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-run/sluice/events"
	"pgregory.net/rapid"
)

// told is a span in a line; names are those of all spans, by id.
func told(s Span, names map[events.SpanID]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s < %s  %d-%d", s.Name, names[s.Parent], s.Start.Sub(noon).Milliseconds(), s.End.Sub(noon).Milliseconds())
	for _, a := range s.Attrs {
		switch a.Key {
		case AttrConversation, AttrTrace, AttrTurn, AttrTool, AttrPosition, AttrBoot, AttrEpoch, AttrToolType, AttrOperation, AttrWait, AttrProviderID:
		default:
			fmt.Fprintf(&b, " %s=%s", strings.TrimPrefix(a.Key, "sluice."), valueOf(a))
		}
	}
	if s.Failed {
		fmt.Fprintf(&b, " failed %q", s.Why)
	}
	for _, e := range s.Events {
		fmt.Fprintf(&b, " [%s]", e.Name)
	}
	for _, l := range s.Links {
		fmt.Fprintf(&b, " %s(%s)", l.What, names[l.Span])
	}
	return b.String()
}

func valueOf(a Attr) string {
	switch {
	case a.Text != "":
		return a.Text
	case a.Yes:
		return "yes"
	}
	return fmt.Sprint(a.Num)
}

func namesOf(list []Span) map[events.SpanID]string {
	names := map[events.SpanID]string{{}: "-"}
	for _, s := range list {
		names[s.ID] = s.Name
	}
	return names
}

// later is a log in which a commit comes ten milliseconds after the one before.
func later(log []Event) []Event {
	for i := range log {
		log[i].At = noon.Add(time.Duration(i) * 10 * time.Millisecond)
	}
	return log
}

// TestSpansOfATurn: what each span is called, what it is part of, and how it ended.
func TestSpansOfATurn(t *testing.T) {
	done := Spans.Fold(slices.Values(later(whole()))).Done
	names, got := namesOf(done), []string{}
	for _, s := range done {
		got = append(got, told(s, names))
	}
	want := []string{
		`wait queue < turn  10-30`,
		`wait gates < call bash  60-80 call=2`,
		`call bash < turn  60-80 call=2 end=denied error.type=PERMISSION_DENIED gate=authorize failed "Not allowed."`,
		`wait gates < call charge  50-90 call=1`,
		`wait gates < call fetch  40-110 call=0`,
		`wait start < call fetch  110-120 call=0`,
		`execute_tool fetch < call fetch  120-140 call=0 attempt=1 tier=readonly end=retrying error.type=MCP_NETWORK_ERROR failed "gone"`,
		`wait retry < call fetch  140-150 call=0`,
		`execute_tool fetch < call fetch  150-160 call=0 attempt=2 tier=readonly end=completed class=ok effects=none output.bytes=4 retry_of(execute_tool fetch)`,
		`call fetch < turn  40-160 call=0 tier=readonly attempts=2 end=completed effects=none [retrying]`,
		`wait approval < call charge  90-180 call=1`,
		`wait parked < turn  170-190`,
		`wait gates < call charge  180-200 call=1`,
		`wait start < call charge  200-210 call=1`,
		`execute_tool charge < call charge  210-220 call=1 attempt=1 tier=approval end=completed class=ok effects=done output.bytes=4`,
		`call charge < turn  50-220 call=1 tier=approval attempts=1 end=completed effects=done [approval_requested] [approved]`,
		`wait gates < call write  70-230 call=3`,
		`wait start < call write  230-240 call=3`,
		`execute_tool write < call write  240-260 call=3 attempt=1 tier=reversible end=recovered error.type=lost failed "no probe"`,
		`wait recovery < call write  260-270 call=3`,
		`call write < turn  70-270 call=3 tier=reversible attempts=1 end=unknown error.type=UNKNOWN_OUTCOME effects=possible failed "owner_lost" [cancel_requested] [recovered] [unknown]`,
		`turn < -  10-280 principal=agent calls=4 gen_ai.request.model=m gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=20 end=turn_completed claims=2 calls.completed=2`,
		`late_result write < call write  290-290 call=3 attempt=1 class=ok effects=done [late_result] late_result_of()`,
		`resolved write < call write  300-300 call=3 by=ann effects=done [resolved] resolves(execute_tool write)`,
		`compensated charge < call charge  310-310 call=1 by=ann [compensated] compensates(execute_tool charge)`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestSpansOfACaller: the turn's span is a child of the caller's, everything of it is in
// the caller's trace, and the caller's flags are kept.
func TestSpansOfACaller(t *testing.T) {
	for flags, parent := range map[byte]string{
		1: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 0: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
	} {
		log := whole()
		for _, e := range log {
			if v, ok := e.Event.(*events.TurnSubmitted); ok {
				v.Traceparent = parent
			}
		}
		for _, s := range Spans.Fold(slices.Values(log)).Done {
			if s.Trace.String() != parent[3:35] || s.Flags != flags || s.Door != (s.Name == "turn") || s.Door && s.Parent.String() != parent[36:52] {
				t.Errorf("%+v", s)
			}
		}
	}
}

// TestSpansAreBounded, whatever a model or a tool says.
func TestSpansAreBounded(t *testing.T) {
	long := strings.Repeat("界", 60<<10) + "\xff"
	out := outcome(events.EffectsNone, long)
	out.Result.Error = &events.Error{Code: events.ExecutionError, Message: long}
	log := []events.Record{
		ofTurn(&events.TurnSubmitted{Calls: []events.RawCall{call(long, long)}, Principal: events.Principal{ID: long}}),
		on(0, &events.Requested{Tool: long, ProviderID: long, Args: events.Body{Text: long}}), on(0, &events.Started{Attempt: 1}),
	}
	for range 2 * MaxSpanEvents {
		log = append(log, on(0, &events.CancelRequested{Reason: long}))
	}
	log = append(log, on(0, &events.Failed{Outcome: out}), ofTurn(&events.TurnAbandoned{Reason: long}))
	s := Spans.Init()
	s.Content = true
	for _, e := range place("t", log...) {
		s = Spans.Apply(s, e)
	}
	seen := map[string]bool{}
	for _, span := range s.Done {
		seen[span.Name] = true
		if len(span.Why) > MaxSpanText || len(span.Events) > MaxSpanEvents || span.Name == "call _unknown" && span.More != MaxSpanEvents {
			t.Errorf("%s: %d bytes of why, %d events and %d more", span.Name, len(span.Why), len(span.Events), span.More)
		}
		for _, a := range span.Attrs {
			most := MaxSpanText
			if a.Key == AttrArguments || a.Key == AttrResult {
				most = MaxSpanContent
			}
			if len(a.Text) > most || !utf8.ValidString(a.Text) {
				t.Errorf("%s: %s has %d bytes", span.Name, a.Key, len(a.Text))
			}
		}
	}
	if !seen["execute_tool _unknown"] || !seen["call _unknown"] || !seen["turn"] {
		t.Errorf("%v", seen)
	}
}

// TestContentIsOptIn: arguments and results are in no span unless somebody wants them.
func TestContentIsOptIn(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		s := Spans.Init()
		s.Content = wanted
		for _, e := range whole() {
			s = Spans.Apply(s, e)
		}
		found := map[string]string{}
		for _, span := range s.Done {
			for _, a := range span.Attrs {
				if a.Key == AttrArguments || a.Key == AttrResult {
					found[a.Key+" "+span.Name] = a.Text
				}
			}
		}
		want := map[string]string{}
		if wanted {
			want = map[string]string{
				AttrArguments + " execute_tool fetch": `{"url":"x"}`, AttrResult + " execute_tool fetch": "page", AttrResult + " execute_tool charge": "paid",
			}
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("content %t: -want +got\n%s", wanted, diff)
		}
	}
}

// TestImportedTurnsHaveNoSpans: nothing of them has run here.
func TestImportedTurnsHaveNoSpans(t *testing.T) {
	log := whole()
	for _, e := range log {
		if v, ok := e.Event.(*events.TurnSubmitted); ok {
			v.Imported = "somewhere"
		}
	}
	if done := Spans.Fold(slices.Values(log)).Done; len(done) != 0 {
		t.Errorf("%d spans", len(done))
	}
}

// TestOneSpanForEachAttempt, in whatever order events come: ids are unique, none ends
// before it begins, and each attempt that has ended has one span.
func TestOneSpanForEachAttempt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := drawLog(t)
		subs := map[string]int{}
		for _, e := range log {
			if e.Kind() == events.KindTurnSubmitted {
				subs[e.Turn.Turn]++
			}
		}
		for i, e := range log { // nobody submits a turn twice, or begins an attempt twice
			if v, ok := e.Event.(*events.Started); ok {
				again := *v
				again.Attempt = i + 1
				log[i].Event = &again
			}
		}
		seen := map[events.SpanID]Span{}
		open, ended := map[string]bool{}, 0
		s := Spans.Init()
		for _, e := range log {
			if n := subs[e.Turn.Turn]; n > 1 {
				continue
			}
			key := fmt.Sprint(e.Turn, e.Call)
			if was := s.Turns[e.Turn.String()]; was != nil && e.Call >= 0 && e.Call < len(was.Calls) && !was.Calls[e.Call].Ended {
				over := events.IsTerminal(e.Kind())
				switch e.Event.(type) {
				case *events.Started:
					open[key] = true
				case *events.Retrying, *events.Recovered:
					over = true
				}
				if over && open[key] {
					open[key] = false
					ended++
				}
			}
			s = Spans.Apply(s, e)
		}
		attempts := 0
		for _, span := range s.Done {
			if was, twice := seen[span.ID]; twice && !span.Door {
				t.Fatalf("%s and %s have one id", was.Name, span.Name)
			}
			seen[span.ID] = span
			if span.End.Before(span.Start) || span.ID == (events.SpanID{}) {
				t.Fatalf("%+v", span)
			}
			if strings.HasPrefix(span.Name, "execute_tool ") {
				attempts++
			}
		}
		if attempts < ended {
			t.Fatalf("%d attempts have ended, %d spans", ended, attempts)
		}
	})
}
