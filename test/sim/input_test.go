package sim

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// question is what an attempt asks a person: one form, and sometimes a page, too. Its
// state names the attempt.
func (a *attempt) question() *tools.InputRequired {
	q := &tools.InputRequired{
		State: fmt.Sprintf("asked by attempt %d of %s", a.attempt, a.call),
		Requests: []events.InputRequest{{
			ID: "q", Kind: events.InputForm, Message: "who?", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
		}},
	}
	if a.attempt%2 == 0 {
		q.Requests = append(q.Requests, events.InputRequest{ID: "p", Kind: events.InputURL, URL: "https://example.com/"})
	}
	return q
}

// checkGiven checks that an attempt goes on with what its tool has asked and a person has
// answered, as the log said by its start, and a first one with nothing.
func (s *sim) checkGiven(in tools.Invocation) {
	t, _, log := s.load(in.Call.TurnKey())
	now := lifecycle.Turn{Key: t.Key}
	for _, stored := range log {
		for _, r := range stored.Commit.Records {
			now = lifecycle.Evolve(now, lifecycle.Meta{At: stored.Commit.At, By: stored.Commit.By}, r)
			st, ok := r.Event.(*events.Started)
			if !ok || r.Call != in.Call.Offset || st.Attempt != in.Attempt {
				continue
			}
			c := now.Calls[r.Call]
			want := c.Goes()
			if !reflect.DeepEqual(in.Given, want) {
				s.fail("input: attempt %d of %s goes on with %+v, and the log says %+v", in.Attempt, in.Call, in.Given, want)
			}
			if want != nil && want.State != fmt.Sprintf("asked by attempt %d of %s", c.Input.Attempt, in.Call) {
				s.fail("input: attempt %d of %s gets the state %q", in.Attempt, in.Call, want.State)
			}
			if want != nil && c.Input.Attempt < in.Attempt-1 {
				s.counts.mark("given to a further attempt")
			}
			return
		}
	}
}

// input is what a person says to a tool that asks: mostly what fits.
func (s *sim) input(t lifecycle.Turn, i int) lifecycle.Command {
	asked := t.Calls[i].Input
	cmd := lifecycle.Answer{Call: i, By: ann, Round: asked.Round - int(t.Seq%2)} // the last one, or the one before, or any
	if s.chance(0.1) {                                                           // which is refused
		cmd.By = events.Principal{ID: "helper", Kind: "agent"}
	}
	action := []string{events.InputAccept, events.InputAccept, events.InputDecline, events.InputCancel}[s.rng.IntN(4)]
	for _, r := range asked.Requests {
		a := events.InputAnswer{ID: r.ID, Action: action}
		if action == events.InputAccept && r.Kind == events.InputForm {
			a.Content = json.RawMessage(fmt.Sprintf(`{"n":%d}`, s.rng.IntN(3)))
		}
		cmd.Answers = append(cmd.Answers, a)
	}
	return cmd
}
