package lifecycle_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// asksFor ends an attempt with the how-many-th asking of the call's tool.
func asksFor(call, n, round int, change ...func(*events.InputRequested)) step {
	e := &events.InputRequested{
		Attempt: n, Round: round, Effects: events.EffectsPossible, Expires: start.Add(time.Hour),
		Requests: []events.InputRequest{{ID: "q", Kind: events.InputURL, URL: "https://example.com/"}},
	}
	for _, c := range change {
		c(e)
	}
	return of(call, e)
}

// gives answers an asking, by a person unless change says otherwise.
func gives(call, round int, change ...func(*events.InputGiven)) step {
	who := person
	e := &events.InputGiven{Round: round, By: &who, Answers: []events.InputAnswer{{ID: "q", Action: events.InputAccept}}}
	for _, c := range change {
		c(e)
	}
	return of(call, e)
}

func byNobody(e *events.InputGiven) { e.By, e.Answers[0].Action = nil, events.InputCancel }

func goesOnWith(round int) func(*events.Started) {
	return func(e *events.Started) { e.Round = round }
}

func (s step) atTime(t time.Time) step { s.at = t; return s }

// brokenInputs are the ways to break what holds where a tool asks a person.
func brokenInputs() []broken {
	waits := append(running(events.Irreversible), asksFor(0, 1, 1))
	otherKey := func(e *events.Started) { e.Key, e.Round = "other", 1 }
	return []broken{
		{"L5", "it asks, and its attempt was over", append(running(events.Readonly), retrying(0, 1), asksFor(0, 1, 1))},
		{"L6", "it goes on with another key", append(append(running(events.Irreversible, honouring), asksFor(0, 1, 1), gives(0, 1)), started(0, 2, first, otherKey))},
		{"L6", "it starts a third time without another asking", append(slices.Clone(waits), gives(0, 1), started(0, 2, first, goesOnWith(1)),
			claims(second), recovered(0, 2, events.RecoverRestart), started(0, 3, second, goesOnWith(1)))},
		{"L12", "an asking is left out", append(running(events.Readonly), asksFor(0, 1, 2))},
		{"L12", "it asks without an end", append(running(events.Readonly), manyAskings()...)},
		{"L12", "it asks for nothing", append(running(events.Readonly), asksFor(0, 1, 1, func(e *events.InputRequested) { e.Requests = nil }))},
		{"L12", "answered by an agent", append(slices.Clone(waits), gives(0, 1, func(e *events.InputGiven) { e.By.Kind = "agent" }))},
		{"L12", "answered by one of no kind", append(slices.Clone(waits), gives(0, 1, func(e *events.InputGiven) { e.By.Kind = "" }))},
		{"L12", "answered after its cancel request", append(slices.Clone(waits), cancelled(0), gives(0, 1))},
		{"L12", "answered after its time", append(slices.Clone(waits), gives(0, 1).atTime(start.Add(time.Hour)))},
		{"L12", "nobody answered, and there was time left", append(slices.Clone(waits), gives(0, 1, byNobody))},
		{"L12", "nobody answered, and nobody says so", append(slices.Clone(waits), gives(0, 1, byNobody).from(events.Owner{}).atTime(start.Add(time.Hour)))},
		{"L12", "nobody answered, and it is told yes", append(slices.Clone(waits), gives(0, 1, func(e *events.InputGiven) { e.By = nil }).atTime(start.Add(time.Hour)))},
		{"L12", "the answers to another asking", append(slices.Clone(waits), gives(0, 2))},
		{"L12", "an answer to what was not asked", append(slices.Clone(waits), gives(0, 1, func(e *events.InputGiven) { e.Answers[0].ID = "x" }))},
		{"L12", "no answer to what was asked", append(slices.Clone(waits), gives(0, 1, func(e *events.InputGiven) { e.Answers = nil }))},
		{"L12", "it goes on without the answers", append(slices.Clone(waits), gives(0, 1), started(0, 2, first))},
		{"L11", "an earlier owner asks", append(append(running(events.Readonly), claims(second)), asksFor(0, 1, 1).from(first))},
		{"L11", "nobody asks", append(running(events.Readonly), asksFor(0, 1, 1).from(events.Owner{}))},
		{"life", "an answer, and it runs", append(running(events.Readonly), asksFor(0, 1, 1), gives(0, 1), started(0, 2, first, goesOnWith(1)), asked(0, "h"))},
	}
}

// manyAskings are as many as a call may have, and one more.
func manyAskings() []step {
	var out []step
	for round := 1; ; round++ {
		out = append(out, asksFor(0, round, round))
		if round > lifecycle.MaxRounds {
			return out
		}
		out = append(out, gives(0, round), started(0, round+1, first, goesOnWith(round)))
	}
}

// TestLawsHoldWhereAToolAsks has histories that look odd and are right.
func TestLawsHoldWhereAToolAsks(t *testing.T) {
	for name, steps := range map[string][]step{
		"an irreversible call goes on": append(running(events.Irreversible), asksFor(0, 1, 1), gives(0, 1), started(0, 2, first, goesOnWith(1)), completed(0, 2)),
		"it goes on behind a take-over": append(running(events.Irreversible), asksFor(0, 1, 1), claims(second), recovered(0, 1, events.RecoverContinue),
			gives(0, 1), claims(events.Owner{Boot: "n3", Epoch: 3}), recovered(0, 1, events.RecoverContinue), started(0, 2, events.Owner{Boot: "n3", Epoch: 3}, goesOnWith(1))),
		"it asks twice": append(running(events.Irreversible), asksFor(0, 1, 1), gives(0, 1), started(0, 2, first, goesOnWith(1)),
			asksFor(0, 2, 2), gives(0, 2), started(0, 3, first, goesOnWith(2)), failed(0, 3)),
		"nobody answers": append(running(events.Irreversible), asksFor(0, 1, 1), gives(0, 1, byNobody).atTime(start.Add(time.Hour)),
			started(0, 2, first, goesOnWith(1)).atTime(start.Add(time.Hour))),
		"it was cancelled meanwhile": append(running(events.Irreversible), asksFor(0, 1, 1), cancelled(0), of(0, &events.Cancelled{Outcome: ended(1)})),
		"a readonly call is tried again with the answers": append(running(events.Readonly), asksFor(0, 1, 1), gives(0, 1), started(0, 2, first, goesOnWith(1)),
			retrying(0, 2), started(0, 3, first, goesOnWith(1))),
		"an answer to a parked turn": append(running(events.Irreversible), asksFor(0, 1, 1), turn(&events.TurnParked{}), gives(0, 1), claims(second)),
	} {
		for _, v := range lifecycle.Laws(history(steps...)) {
			t.Errorf("%s: %s", name, v)
		}
	}
}

// TestASecondAnswerIsFoundBroken: two answers to one asking, of which each by itself is one.
func TestASecondAnswerIsFoundBroken(t *testing.T) {
	steps := append(running(events.Irreversible), asksFor(0, 1, 1), gives(0, 1), gives(0, 1))
	found := lifecycle.Laws(history(steps...))
	if !slices.ContainsFunc(found, func(v lifecycle.Violation) bool { return v.Law == "L12" && strings.Contains(v.Why, "twice") }) {
		t.Errorf("%v", found)
	}
}

// TestCheckInput has what cannot be asked of a person.
func TestCheckInput(t *testing.T) {
	page := func(change func(*events.InputRequest)) []events.InputRequest {
		r := events.InputRequest{ID: "q", Kind: events.InputURL, URL: "https://example.com/a?b=c"}
		change(&r)
		return []events.InputRequest{r}
	}
	big := strings.Repeat("x", events.MaxInputRequest)
	good := page(func(*events.InputRequest) {})
	if err := events.CheckInput(good, big); err != nil {
		t.Fatal(err)
	}
	five := slices.Repeat(page(func(r *events.InputRequest) { r.Message = big[:60<<10] }), 5)
	for i := range five {
		five[i].ID = string(rune('a' + i))
	}
	for name, c := range map[string]struct {
		requests []events.InputRequest
		state    string
	}{
		"nothing":            {nil, ""},
		"seventeen":          {slices.Repeat(good, 17), ""},
		"the same id twice":  {slices.Repeat(good, 2), ""},
		"a long state":       {good, big + "x"},
		"a binary state":     {good, "\xff"},
		"no id":              {page(func(r *events.InputRequest) { r.ID = "" }), ""},
		"no kind":            {page(func(r *events.InputRequest) { r.Kind = "" }), ""},
		"a long message":     {page(func(r *events.InputRequest) { r.Message = big }), ""},
		"a binary message":   {page(func(r *events.InputRequest) { r.Message = "\xff" }), ""},
		"all together":       {five, ""},
		"no schema":          {page(func(r *events.InputRequest) { r.Kind = events.InputForm }), ""},
		"a broken schema":    {page(func(r *events.InputRequest) { r.Kind, r.Schema = events.InputForm, []byte("{") }), ""},
		"a broken request":   {page(func(r *events.InputRequest) { r.Raw = []byte("{") }), ""},
		"no address":         {page(func(r *events.InputRequest) { r.URL = "" }), ""},
		"a script":           {page(func(r *events.InputRequest) { r.URL = "javascript:alert(1)" }), ""},
		"a file":             {page(func(r *events.InputRequest) { r.URL = "file:///etc/passwd" }), ""},
		"a relative address": {page(func(r *events.InputRequest) { r.URL = "/here" }), ""},
		"no host":            {page(func(r *events.InputRequest) { r.URL = "https:///x" }), ""},
		"a user":             {page(func(r *events.InputRequest) { r.URL = "https://bank.example@evil.example/" }), ""},
	} {
		if err := events.CheckInput(c.requests, c.state); !errors.Is(err, events.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
