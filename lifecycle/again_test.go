package lifecycle_test

import (
	"errors"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

func mustParse(t *testing.T, text string) *lifecycle.Args {
	t.Helper()
	a, err := lifecycle.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

// TestASecondYes is no error where it says the same, and is told where it does not:
// the first one is what runs.
func TestASecondYes(t *testing.T) {
	w := newWorld()
	sp := &speaker{world: w}
	for _, line := range []string{"submit pay can_ask", "claim n1", "plan", "judge 0 ask=authorize"} {
		sp.line(t, line)
	}
	if w.turn.Calls[0].Phase != lifecycle.PhaseAsking {
		t.Fatalf("the call is %s", w.turn.Calls[0].Phase)
	}
	asked := w.turn.Calls[0].Asked.Hash
	changed := mustParse(t, `{"order":"o","amount":2}`)
	bob := events.Principal{ID: "bob", Kind: "person"}
	first := lifecycle.Approve{By: person, Args: changed}
	decide := func(c lifecycle.Approve) (int, error) {
		recs, err := lifecycle.Decide(w.turn, lifecycle.Env{Now: w.now}, c)
		return len(recs), err
	}
	if n, err := decide(first); n != 1 || err != nil {
		t.Fatalf("the first yes: %d events, %v", n, err)
	}
	if _, err := w.do(events.Owner{}, first); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		yes  lifecycle.Approve
		want error
	}{
		"the same":                     {first, nil},
		"the same, of somebody else":   {lifecycle.Approve{By: bob, Args: mustParse(t, `{"amount":2.0, "order":"o"}`)}, nil},
		"as it was asked":              {lifecycle.Approve{By: bob}, lifecycle.ErrNotAsking},
		"with the hash that was asked": {lifecycle.Approve{By: bob, Hash: asked}, lifecycle.ErrNotAsking},
		"with the hash agreed to":      {lifecycle.Approve{By: bob, Hash: changed.Hash}, nil},
		"with other arguments":         {lifecycle.Approve{By: bob, Args: mustParse(t, `{"order":"o","amount":3}`)}, lifecycle.ErrNotAsking},
		"for the session":              {lifecycle.Approve{By: bob, Args: changed, Scope: events.ScopeSession}, lifecycle.ErrNotAsking},
	} {
		if n, err := decide(c.yes); n != 0 || !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %d events, %v; want %v", name, n, err, c.want)
		}
	}
}

// TestASubmissionAgain is the same whatever the order of its members and the form of
// its numbers, and another one in everything else.
func TestASubmissionAgain(t *testing.T) {
	submission := func(text string) lifecycle.Submit {
		return lifecycle.Submit{Turn: events.TurnSubmitted{Principal: events.Principal{ID: "ann"}, Calls: []events.RawCall{
			{ProviderID: "c0", Tool: "pay", Args: events.Body{Text: text}}, {Tool: "read", Args: events.Body{Text: `{"cut off`}},
		}}}
	}
	w := newWorld()
	if _, err := w.do(events.Owner{}, submission(`{"order":"o","amount":1,"big":9007199254740993}`)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		again lifecycle.Submit
		want  error
	}{
		"the same":            {submission(`{"order":"o","amount":1,"big":9007199254740993}`), nil},
		"another order":       {submission(`{"big":9007199254740993,"amount":1,"order":"o"}`), nil},
		"another form":        {submission("{ \"order\" : \"\\u006f\",\n\"amount\":1.00,\"big\":9007199254740993e0 }"), nil},
		"another number":      {submission(`{"order":"o","amount":1,"big":9007199254740992}`), lifecycle.ErrDifferent},
		"a string":            {submission(`{"order":"o","amount":"1","big":9007199254740993}`), lifecycle.ErrDifferent},
		"a member more":       {submission(`{"order":"o","amount":1,"big":9007199254740993,"x":null}`), lifecycle.ErrDifferent},
		"what does not parse": {submission(`{"order":"o","amount":1,"big":9007199254740993`), lifecycle.ErrDifferent},
	} {
		recs, err := lifecycle.Decide(w.turn, lifecycle.Env{Now: w.now}, c.again)
		if len(recs) != 0 || !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %d events, %v; want %v", name, len(recs), err, c.want)
		}
	}
	other := submission(`{"order":"o","amount":1,"big":9007199254740993}`)
	other.Turn.Calls[1].Args.Text = `{"cut of`
	if _, err := lifecycle.Decide(w.turn, lifecycle.Env{Now: w.now}, other); !errors.Is(err, lifecycle.ErrDifferent) {
		t.Errorf("another text that does not parse: %v", err)
	}
}
