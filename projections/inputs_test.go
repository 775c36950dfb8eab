package projections

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
)

// TestInputsWaitAmongApprovals: what a tool asks is listed, answered, expires and is
// withdrawn, and its page shows what is the tool's behind marks of the page's own.
func TestInputsWaitAmongApprovals(t *testing.T) {
	submitted := ofTurn(&events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"}, CanAsk: true, Calls: []events.RawCall{{Tool: "sign", Args: events.Body{Text: `{"v":1}`}}},
	})
	asks := func(round int, change ...func(*events.InputRequested)) *events.InputRequested {
		e := &events.InputRequested{
			Attempt: round, Round: round, State: "secret state", Effects: events.EffectsPossible, Expires: noon.Add(time.Hour),
			Requests: []events.InputRequest{
				{
					ID: "q", Kind: events.InputForm, Message: "who?\x1b[2K\n  name: string, required", Raw: json.RawMessage(`{"raw":1}`),
					Schema: json.RawMessage(`{"properties":{"na\u202eme":{"type":"string","title":"your\nname"},"pin":{"type":"string","format":"password"}}}`),
				},
				{ID: "p", Kind: events.InputURL, URL: "http://xn--80ak6aa92e.example/"},
			},
		}
		for _, c := range change {
			c(e)
		}
		return e
	}
	by := events.Principal{ID: "ann", Kind: "person"}
	given := func(round int) *events.InputGiven {
		return &events.InputGiven{Round: round, By: &by, Answers: []events.InputAnswer{{ID: "q", Action: events.InputDecline}, {ID: "p", Action: events.InputAccept}}}
	}
	w := Inbox.Fold(slices.Values(place("t", submitted, on(0, asks(1)))))
	list := w.List()
	if len(list) != 1 || list[0].Kind != PendingInput || list[0].IDOf() != "trace/t/0@i1" || list[0].Tool != "sign" || len(list[0].Requests) != 2 || list[0].Requests[0].Raw != nil || len(list[0].Requests[0].Fields) != 2 {
		t.Fatalf("%+v", list)
	}
	page := PageOf(list[0], ApprovalOpen, nil, Whole{}, noon)
	for _, part := range []string{"  | > who?\\u001b[2K", "  | >   name: string, required", `na\u202eme: string, may be left out; your\u000aname`, "  |   visit http://xn--80ak6aa92e.example/", "not encrypted", "beyond ASCII", "it wants a secret (pin)"} {
		if !strings.Contains(page.Visible, part) {
			t.Errorf("the page lacks %q:\n%s", part, page.Visible)
		}
	}
	if strings.ContainsAny(page.Visible+page.Brief(), "\x1b\u202e") || strings.Contains(page.Visible, "secret state") {
		t.Errorf("%s", page.Visible)
	}
	for name, c := range map[string]struct {
		events []events.Record
		states string
	}{
		"answered, and asked again": {[]events.Record{on(0, asks(1)), on(0, given(1)), on(0, asks(2))}, "answered open"},
		"nobody answered":           {[]events.Record{on(0, asks(1)), on(0, &events.InputGiven{Round: 1})}, "expired"},
		"withdrawn":                 {[]events.Record{on(0, asks(1)), on(0, &events.CancelRequested{})}, "withdrawn"},
		"nobody is asked":           {[]events.Record{on(0, asks(1, func(e *events.InputRequested) { e.Why = "nobody can be asked" })), on(0, &events.InputGiven{Round: 1})}, ""},
	} {
		all := place("t", append([]events.Record{submitted}, c.events...)...)
		var states []string
		for _, a := range Askings(slices.Values(all)) {
			states = append(states, a.State)
		}
		if got := strings.Join(states, " "); got != c.states {
			t.Errorf("%s: %s, want %s", name, got, c.states)
		}
		if open := len(Inbox.Fold(slices.Values(all)).List()); open != strings.Count(c.states, "open") {
			t.Errorf("%s: %d wait", name, open)
		}
	}
}
