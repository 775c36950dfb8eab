package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
)

// trial is a node that notes what it was asked to judge.
type trial struct{ asked []Supposed }

func (x *trial) explain(_ context.Context, s Supposed) (Explained, error) {
	x.asked = append(x.asked, s)
	return Explained{
		Decision: policy.Ask, Gate: "authorize", Reason: "why", Policies: []string{"p"}, Policy: "v1",
		Texts: []PolicyText{{ID: "p", File: "house.cedar", Line: 3, Text: "permit (…);"}},
	}, nil
}

func (x *trial) last(t *testing.T) Supposed {
	t.Helper()
	if len(x.asked) == 0 {
		t.Fatal("nothing was judged")
	}
	return x.asked[len(x.asked)-1]
}

// TestExplainAsksAsASubmissionWould: what is judged is a submission of that one call.
func TestExplainAsksAsASubmissionWould(t *testing.T) {
	x := &trial{}
	d := newDoor(t, func(c *APIConfig) { c.Explain = x.explain })
	d.want(200, `{"decision":"ask","gate":"authorize","code":"","reason":"why","policies":["p"],"policy":"v1","texts":[{"id":"p","file":"house.cedar","line":3,"text":"permit (…);"}]}`,
		"POST", "/v1/explain", `{"tool":"files.move","args":{"to":"b"},"allow":["files:move"],"mode":"read_only","can_ask":true,"placement":"gpu","trace":"tr","workspace":"/w","time":"2026-01-31T09:00:00+01:00"}`)
	s := x.last(t)
	turn := s.Turn
	if len(turn.Calls) != 1 || turn.Calls[0].Tool != "files__move" || turn.Calls[0].Args.Text != `{"to":"b"}` {
		t.Errorf("calls %+v", turn.Calls)
	}
	if turn.Mode != events.ModeRead || !turn.CanAsk || turn.Placement != "gpu" || turn.Workspace != "/w" || turn.Principal.ID != DefaultPrincipal || turn.Allow[0] != "files__move" {
		t.Errorf("turn %+v", turn)
	}
	if s.Key != (events.TurnKey{Trace: "tr"}) || !s.At.Equal(time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)) {
		t.Errorf("key %+v at %v", s.Key, s.At)
	}
	d.want(200, "", "POST", "/v1/explain", `{"tool":"echo","args":"{\"v\":1"}`) // as a model wrote it
	if got := x.last(t); got.Turn.Calls[0].Args.Text != `{"v":1` || got.Turn.CanAsk || !got.At.IsZero() {
		t.Errorf("%+v", got)
	}
	for body, want := range map[string]string{
		``: "empty", `{}`: "names no tool", `{"tool":"x","args":[1]}`: "", `{"tool":"x","tools":1}`: `unknown field \"tools\"`,
		`{"tool":"x","workspace":"w"}`: "no absolute path", `{"tool":"x","trace":"a b"}`: "trace", `{"tool":"x","mode":"odd"}`: "mode",
		`{"tool":"x","placement":"` + strings.Repeat("p", 200) + `"}`: "placement",
	} {
		before := len(x.asked)
		status, answer := d.do("POST", "/v1/explain", body)
		if body == `{"tool":"x","args":[1]}` { // what it is, the gates say
			continue
		}
		if status != 400 && status != 422 || !strings.Contains(answer, want) || len(x.asked) != before {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	large := `{"tool":"x","args":{"v":"` + strings.Repeat("v", lifecycle.MaxArgs) + `"}}`
	if status, answer := d.do("POST", "/v1/explain", large); status != 413 {
		t.Errorf("large arguments: %d %.300s", status, answer)
	}
	newDoor(t, nil).want(404, "no-tools", "POST", "/v1/explain", `{"tool":"x"}`)
}

// TestExplainForWhom: a submitter asks about itself and its children, and does not see the
// policy's texts; who reads every turn asks about anybody.
func TestExplainForWhom(t *testing.T) {
	x := &trial{}
	d := newGuarded(t, func(c *APIConfig) { c.Explain = x.explain })
	ask := func(by, body string) (int, Explained, string) {
		t.Helper()
		status, answer := d.do("POST", "/v1/explain", body, as(by)...)
		var out Explained
		if status == 200 {
			must(t, json.Unmarshal([]byte(answer), &out))
		}
		return status, out, answer
	}
	for _, c := range []struct {
		by, body, principal string // "": it is refused
		texts               bool
	}{
		{"sub", `{"tool":"echo"}`, "sub", false},
		{"sub", `{"tool":"echo","principal":"child"}`, "child", false},
		{"sub", `{"tool":"echo","principal":"sub2"}`, "", false},
		{"sub", `{"tool":"echo","principal":{"id":"sub","kind":"person"}}`, "", false},
		{"sub", `{"tool":"echo","workspace":"/elsewhere"}`, "", false},
		{"obs", `{"tool":"echo","principal":"sub2","workspace":"/elsewhere"}`, "sub2", true},
		{"obs", `{"tool":"echo"}`, "obs", true},
		{"app", `{"tool":"echo","principal":"sub"}`, "sub", false},
		{"ope", `{"tool":"echo","principal":"sub"}`, "sub", true},
	} {
		before := len(x.asked)
		status, out, answer := ask(c.by, c.body)
		if c.principal == "" {
			if status != 403 || len(x.asked) != before {
				t.Errorf("%s of %s: %d %s", c.by, c.body, status, answer)
			}
			continue
		}
		if status != 200 || x.last(t).Turn.Principal.ID != c.principal || (len(out.Texts) > 0) != c.texts {
			t.Errorf("%s of %s: %d %s, about %+v", c.by, c.body, status, answer, x.last(t).Turn.Principal)
		}
	}
	if child := x.asked[1].Turn.Principal; len(child.Parents) != 1 || child.Parents[0] != "sub" {
		t.Errorf("the child is %+v", child)
	}
	d.want(401, "unauthenticated", "POST", "/v1/explain", `{"tool":"echo"}`)
}
