package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
)

// rendered are the messages that the verb prints of a trace on a shelf, and what it
// complains of.
func rendered(t interface {
	Helper()
	Fatal(...any)
}, log source, f codec.Format, change func(*renderer),
) ([]json.RawMessage, string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := quietApp(&out)
	a.err, a.json = &errs, true
	m := &renderer{app: a, format: f, at: end, log: &reading{source: log, blobs: memlog.New(memlog.Config{}).View("r").Blobs()}}
	if change != nil {
		change(m)
	}
	err := m.one(context.Background(), target{trace: traceOf(log), call: noCall})
	a.out.Flush()
	var line struct{ Messages []json.RawMessage }
	if err != nil && !errors.Is(err, errSaid) {
		errs.WriteString(err.Error())
	} else if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	return line.Messages, errs.String()
}

// joined are messages in one text.
func joined(list []json.RawMessage) string {
	var b strings.Builder
	for _, m := range list {
		b.Write(m)
	}
	return b.String()
}

func traceOf(log source) string { return log.(*shelf).commits[0].Commit.Turn.Trace }

// stoppedTurn is a turn of two calls of which one has completed when it is cancelled.
func stoppedTurn() []events.Commit {
	c := compose("stopped", "t1")
	c.begin(events.Readonly, rawCalls("sleep", 2)...)
	c.start(0, 1)
	c.add(0, &events.Completed{Outcome: outcome(1, events.ClassOK, "slept")})
	c.add(events.TurnEvent, &events.TurnCancelRequested{By: events.Principal{ID: "mira"}, Reason: "enough"})
	c.add(1, &events.Cancelled{Outcome: events.Outcome{Class: events.ClassCancelled, Effects: events.EffectsNone, Result: events.Result{
		Status: events.Failure, Error: &events.Error{Code: events.CodeCancelled, Message: "it was cancelled before it had run"},
	}}, Reason: "enough"})
	return c.end()
}

// TestAnInterruptedTurnAnswersEveryCall: in request order, one Anthropic message with
// two results, two messages of OpenAI.
func TestAnInterruptedTurnAnswersEveryCall(t *testing.T) {
	log := (&shelf{}).place(stoppedTurn()...)
	list, _ := rendered(t, log, codec.OpenAI, nil)
	if len(list) != 2 || !bytes.Contains(list[0], []byte(`"tool_call_id":"a"`)) || !bytes.Contains(list[1], []byte(`"tool_call_id":"b"`)) || !bytes.Contains(list[1], []byte("CANCELLED")) {
		t.Errorf("openai: %s", list)
	}
	list, _ = rendered(t, log, codec.Anthropic, nil)
	if len(list) != 1 {
		t.Fatalf("anthropic: %s", list)
	}
	var m struct {
		Role    string
		Content []struct {
			Type  string
			ID    string `json:"tool_use_id"`
			Error bool   `json:"is_error"`
		}
	}
	if err := json.Unmarshal(list[0], &m); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m); got != "{user [{tool_result a false} {tool_result b true}]}" {
		t.Errorf("anthropic: %s", got)
	}
}

// TestEightParallelCallsHaveEightAnswers: though one panics, one gives nothing, one
// answers after its deadline and one after the batch was cut off.
func TestEightParallelCallsHaveEightAnswers(t *testing.T) {
	c := compose("eight", "t1")
	c.begin(events.Readonly, rawCalls("Read", 8)...)
	for i := range 8 {
		c.start(i, 1)
	}
	c.add(3, &events.Failed{Outcome: outcome(1, events.ClassPanic, "the tool's code broke: index out of range")})
	c.add(5, &events.Completed{Outcome: events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsNone, Result: events.Result{Status: events.Success}}})
	c.add(6, &events.TimedOut{Outcome: outcome(1, events.ClassTimeout, "no answer in 30 s")})
	for _, i := range []int{7, 2, 0, 4, 1} {
		c.add(i, &events.Completed{Outcome: outcome(1, events.ClassOK, fmt.Sprintf("file %d", i))})
	}
	commits := c.end()
	c.add(6, &events.LateResult{Owner: c.by, Outcome: outcome(1, events.ClassOK, "too late")})
	log := (&shelf{}).place(commits...).place(c.out[len(commits):]...)
	for f, want := range map[codec.Format]int{codec.OpenAI: 8, codec.Neutral: 8, codec.Anthropic: 1} {
		list, errs := rendered(t, log, f, func(m *renderer) { m.calls = false })
		if len(list) != want || errs != "" {
			t.Errorf("%s: %d messages: %s", f, len(list), errs)
		}
		all := joined(list)
		last := -1
		for i := range 8 {
			at := strings.Index(all, fmt.Sprintf(`id":"%c"`, 'a'+i))
			if at <= last {
				t.Errorf("%s: the answer of call %d is not in its place", f, i)
			}
			last = at
		}
		if !strings.Contains(all, "index out of range") || strings.Contains(all, "too late") {
			t.Errorf("%s: %s", f, all)
		}
	}
}

// TestAToolThatBreaksIsAnAnswer: its exit status and its panic are failures that the
// model is told of, and the calls beside it go on.
func TestAToolThatBreaksIsAnAnswer(t *testing.T) {
	c := compose("broken", "t1")
	c.begin(events.Irreversible, rawCalls("Bash", 3)...)
	three := 3
	for i := range 3 {
		c.start(i, 1)
	}
	failed := outcome(1, events.ClassTool, "the command ended with status 3")
	failed.Exit = &three
	c.add(0, &events.Failed{Outcome: failed})
	c.add(1, &events.Failed{Outcome: outcome(1, events.ClassPanic, "the tool's code broke: boom")})
	c.add(2, &events.Completed{Outcome: outcome(1, events.ClassOK, "done")})
	log := (&shelf{}).place(c.end()...)
	list, _ := rendered(t, log, codec.Anthropic, nil)
	if len(list) != 1 || bytes.Count(list[0], []byte(`"is_error":true`)) != 2 || !bytes.Contains(list[0], []byte("done")) {
		t.Errorf("%s", list)
	}
	b, err := bookOf(t.Context(), log, "broken", end, stretch)
	if err != nil {
		t.Fatal(err)
	}
	p, err := b.page(t.Context(), choice{target: target{trace: "broken", call: noCall}, at: end})
	if err != nil {
		t.Fatal(err)
	}
	if text := drawn(p); !strings.Contains(text, "attempt 1, tool, effects none, exit status 3") || !strings.Contains(text, "panic, effects none") {
		t.Error(text)
	}
}

// corpusShelves are the logs of the corpus, each on a shelf.
func corpusShelves() map[string]*shelf {
	out := make(map[string]*shelf)
	for _, name := range []string{"ends", "people", "owners", "imported"} {
		out[name] = (&shelf{}).place(corpusLog(name)...)
	}
	return out
}

// TestAWindowNeverPartsACallFromItsAnswer: from whatever event, up to whatever event, in
// every format the window is a conversation that the provider takes, and its messages
// are those that the whole has in its end.
func TestAWindowNeverPartsACallFromItsAnswer(t *testing.T) {
	logs := corpusShelves()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"ends", "people", "owners", "imported"}).Draw(t, "log")
		log := logs[name]
		somewhere := func(what string) events.Position {
			s := rapid.SampledFrom(log.commits).Draw(t, what)
			return s.Position(rapid.IntRange(0, len(s.Commit.Records)-1).Draw(t, what+" index"))
		}
		from, at := somewhere("from"), somewhere("at")
		f := rapid.SampledFrom(codec.Formats()).Draw(t, "format")
		whole, _ := rendered(t, log, f, func(m *renderer) { m.calls, m.at = true, at })
		window, _ := rendered(t, log, f, func(m *renderer) { m.calls, m.at, m.from = true, at, from })
		if err := codec.Validate(f, window); err != nil {
			t.Fatalf("%s from %s to %s: %v", f, from, at, err)
		}
		for i := range window {
			if !bytes.Equal(window[i], whole[len(whole)-len(window)+i]) {
				t.Fatalf("message %d of the window is not that of the whole:\n%s\n%s", i, window[i], whole[len(whole)-len(window)+i])
			}
		}
		if n := endsWithin(log, from, at); len(window) == 0 && n > 0 {
			t.Fatalf("nothing is in the window from %s to %s, though %d calls ended in it", from, at, n)
		}
	})
}

// endsWithin is how many calls have their first terminal between two positions.
func endsWithin(log *shelf, from, to events.Position) int {
	ended := make(map[events.CallKey]bool)
	n := 0
	for _, s := range log.commits {
		for i, r := range s.Commit.Records {
			key, p := s.Commit.Turn.Call(r.Call), s.Position(i)
			if !events.IsTerminal(r.Event.Kind()) || ended[key] {
				continue
			}
			ended[key] = true
			if p.Compare(from) >= 0 && p.Compare(to) <= 0 {
				n++
			}
		}
	}
	return n
}

// TestMessagesAreTheSameBytesWhateverTheToolsTook: twenty runs of one turn with random
// latencies, each rendered once, and one rendered twenty times.
func TestMessagesAreTheSameBytesWhateverTheToolsTook(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ran := func() *shelf {
		c := compose("same", "t1")
		calls := rawCalls("echo", 6)
		c.begin(events.Readonly, calls...)
		for i := range calls {
			c.start(i, 1)
		}
		for _, i := range r.Perm(len(calls)) {
			c.step = time.Duration(r.IntN(5000)+1) * time.Microsecond
			o := outcome(1, events.ClassOK, fmt.Sprintf("v%d", i))
			o.Result.Data = json.RawMessage(`{"b":1,"a":9007199254740993}`)
			o.Stages.Run = c.step.Microseconds()
			c.add(i, &events.Completed{Outcome: o})
		}
		return (&shelf{}).place(c.end()...)
	}
	for _, f := range codec.Formats() {
		first, _ := rendered(t, ran(), f, func(m *renderer) { m.calls = true })
		one := ran()
		for range 20 {
			for _, log := range []*shelf{one, ran()} {
				again, _ := rendered(t, log, f, func(m *renderer) { m.calls = true })
				if !slices.EqualFunc(first, again, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
					t.Fatalf("%s: %s\nand %s", f, first, again)
				}
			}
		}
	}
}

// TestATraceOfToolsThatAreGoneIsShown: nothing that is registered now is asked for.
func TestATraceOfToolsThatAreGoneIsShown(t *testing.T) {
	c := compose("old", "t1")
	c.begin(events.Irreversible, rawCalls("mcp:old_name", 2)...)
	c.start(0, 1)
	c.add(0, &events.Completed{Outcome: outcome(1, events.ClassOK, "fine")})
	c.add(1, &events.Denied{Gate: "breaker", Code: events.CircuitOpen, Reason: "it is switched off"})
	log := (&shelf{}).place(c.end()...)
	for _, f := range codec.Formats() {
		list, errs := rendered(t, log, f, nil)
		if all := joined(list); errs != "" || !strings.Contains(all, "fine") || !strings.Contains(all, "switched off") {
			t.Errorf("%s: %s %s", f, all, errs)
		}
	}
	r := &report{}
	if err := newSweeper(log, nil, r).run(t.Context(), "old"); err != nil || r.count != 0 {
		t.Errorf("%v, %v", r.first, err)
	}
}
