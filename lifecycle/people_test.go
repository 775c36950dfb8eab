package lifecycle_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// files are what a call would run and what its preview was made from.
var (
	script = events.Seen{Path: "s.sh", Digest: "sha256:script"}
	base   = events.Seen{Path: "a.go", Digest: "sha256:base"}
)

// yesBefore is the approval for the session that an earlier turn has left to a call of
// bash whose arguments have the hash.
func yesBefore(hash string) events.SessionYes {
	return events.SessionYes{
		Tool: "bash", Hash: hash, ToolVersion: "1", Policy: "p1", Principal: events.Principal{ID: "bot", Parents: []string{"ann"}},
		Workspace: "/w", Operands: []events.Seen{script}, Base: []events.Seen{base}, By: person, From: "t/0/0",
	}
}

// What is told of a yes before the reason; of another call's or another principal's, nothing.
const (
	ran     = "asked again: the files that it would run are not those that the yes was for; "
	rewrote = "asked again: the files that it would change are not those that the yes was for; "
)

var toldOfTheYes = map[string]string{
	"the tool's version": "asked again: the tool's definition has changed since the yes; ",
	"the policy":         "asked again: the policy has changed since the yes; ",
	"the script":         ran, "the script is gone": ran, "another script": ran,
	"the file to change": rewrote, "no preview can be made": rewrote,
}

// TestASessionYesIsForExactlyThatCall: each single difference is asked about anew.
func TestASessionYesIsForExactlyThatCall(t *testing.T) {
	for name, differ := range map[string]func(*events.SessionYes, *events.TurnSubmitted, *lifecycle.Judge){
		"nothing":              nil,
		"the tool":             func(y *events.SessionYes, _ *events.TurnSubmitted, _ *lifecycle.Judge) { y.Tool = "bash2" },
		"the arguments":        func(y *events.SessionYes, _ *events.TurnSubmitted, _ *lifecycle.Judge) { y.Hash = "sha256:other" },
		"the tool's version":   func(_ *events.SessionYes, _ *events.TurnSubmitted, j *lifecycle.Judge) { j.Verdict.ToolVersion = "2" },
		"the policy":           func(_ *events.SessionYes, _ *events.TurnSubmitted, j *lifecycle.Judge) { j.Verdict.Policy = "p2" },
		"the principal":        func(_ *events.SessionYes, s *events.TurnSubmitted, _ *lifecycle.Judge) { s.Principal.ID = "other" },
		"the principal's kind": func(_ *events.SessionYes, s *events.TurnSubmitted, _ *lifecycle.Judge) { s.Principal.Kind = "person" },
		"a child": func(_ *events.SessionYes, s *events.TurnSubmitted, _ *lifecycle.Judge) {
			s.Principal = events.Principal{ID: "kid", Parents: []string{"bot", "ann"}}
		},
		"the parents":   func(_ *events.SessionYes, s *events.TurnSubmitted, _ *lifecycle.Judge) { s.Principal.Parents = nil },
		"the workspace": func(_ *events.SessionYes, s *events.TurnSubmitted, _ *lifecycle.Judge) { s.Workspace = "/v" },
		"the placement": func(_ *events.SessionYes, s *events.TurnSubmitted, _ *lifecycle.Judge) { s.Placement = "gpu" },
		"the script": func(_ *events.SessionYes, _ *events.TurnSubmitted, j *lifecycle.Judge) {
			j.Operands[0].Digest = "sha256:x"
		},
		"the script is gone":      func(_ *events.SessionYes, _ *events.TurnSubmitted, j *lifecycle.Judge) { j.Operands = nil },
		"another script":          func(_ *events.SessionYes, _ *events.TurnSubmitted, j *lifecycle.Judge) { j.Operands[0].Path = "t.sh" },
		"the file to change":      func(_ *events.SessionYes, _ *events.TurnSubmitted, j *lifecycle.Judge) { j.Preview.Base[0].Digest = "" },
		"no preview can be made":  func(_ *events.SessionYes, _ *events.TurnSubmitted, j *lifecycle.Judge) { j.Preview = nil },
		"the kind, said in words": func(_ *events.SessionYes, s *events.TurnSubmitted, _ *lifecycle.Judge) { s.Principal.Kind = "agent" },
		"the placement, in words": func(_ *events.SessionYes, s *events.TurnSubmitted, _ *lifecycle.Judge) {
			s.Placement = events.DefaultPlacement
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			sub := events.TurnSubmitted{
				Principal: events.Principal{ID: "bot", Parents: []string{"ann"}}, Workspace: "/w", CanAsk: true,
				Calls: []events.RawCall{rawCall(0, "bash", "", "")},
			}
			y, j := yesBefore(""), lifecycle.Judge{}
			j.Operands, j.Preview, j.Looked = []events.Seen{script}, &events.Preview{Kind: events.PreviewDiff, Base: []events.Seen{base}}, true
			given := lifecycle.Judge{Verdict: events.Verdict{ToolVersion: "1", Policy: "p1"}, Operands: j.Operands, Preview: j.Preview}
			if differ != nil {
				differ(&y, &sub, &given)
			}
			mustDo(t, w, events.Owner{}, lifecycle.Submit{Turn: sub})
			mustDo(t, w, events.Owner{}, lifecycle.Claim{Boot: "n1"})
			if y.Hash == "" {
				y.Hash = facts(w.turn)[0].Hash
			}
			mustDo(t, w, w.me, lifecycle.Plan{Facts: facts(w.turn), Inherited: events.Inherited{Session: []events.SessionYes{y}}, Policy: "p1"})
			judge := judged(w.turn, w.turn.Calls[0])
			judge.Verdict.ToolVersion, judge.Verdict.Policy = given.Verdict.ToolVersion, given.Verdict.Policy
			judge.Operands, judge.Preview, judge.Looked = given.Operands, given.Preview, true
			mustDo(t, w, w.me, judge)
			want := lifecycle.PhaseAsking
			if name == "nothing" || name == "the kind, said in words" || name == "the placement, in words" {
				want = lifecycle.PhaseAuthorized
			}
			if got := w.turn.Calls[0].Phase; got != want {
				t.Errorf("the call is %s, want %s", got, want)
			}
			if a := w.turn.Calls[0].Asked; a != nil && strings.TrimSuffix(a.Why, lifecycle.ReasonOf(a)) != toldOfTheYes[name] {
				t.Errorf("asked because %q, want %q before the reason", a.Why, toldOfTheYes[name])
			}
			if files, ok := lifecycle.Bound(w.turn, w.turn.Calls[0]); want == lifecycle.PhaseAuthorized && (!ok || len(files.Operands) != 1 || len(files.Base) != 1) {
				t.Errorf("it is bound to %v, %t", files, ok)
			}
			for _, v := range lifecycle.Laws(w.log) {
				t.Error(v)
			}
		})
	}
}

// TestReasonOf: what the policy says, and nothing of what is told of an earlier yes.
func TestReasonOf(t *testing.T) {
	const tool, rules = "the tool's definition has changed since the yes", "the policy has changed since the yes"
	for why, want := range map[string]string{
		"": "", "Look; twice.": "Look; twice.", "asked again: " + tool + "; Look; twice.": "Look; twice.",
		"asked again: " + tool + ", and " + rules + "; Look.": "Look.", "asked again: " + tool: "asked again: " + tool,
		"asked again: since it is Monday; Look.": "asked again: since it is Monday; Look.", "asked again: " + tool + "; ": "",
	} {
		if got := lifecycle.ReasonOf(&events.ApprovalRequested{Why: why}); got != want {
			t.Errorf("%q: %q, want %q", why, got, want)
		}
	}
}

// TestNoteOf: what a person wrote, and nothing of what the model is told besides.
func TestNoteOf(t *testing.T) {
	const said = "a person said no to this call: do not repeat it, do something else"
	for reason, want := range map[string]string{
		said: "", said + "; they said: no; they said: never": "no; they said: never", "The policy denies it; they said: x": "",
	} {
		if got := lifecycle.NoteOf(&events.Denied{Reason: reason, By: &person}); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
		if got := lifecycle.NoteOf(&events.Denied{Reason: reason}); got != "" {
			t.Errorf("%q, by nobody: %q", reason, got)
		}
	}
}

// mustDo has the turn take a command.
func mustDo(t *testing.T, w *world, by events.Owner, cmd lifecycle.Command) {
	t.Helper()
	if _, err := w.do(by, cmd); err != nil {
		t.Fatal(err)
	}
}

// TestChangedArgumentsAreShownWhereTheyChangeOtherFiles: a person who gives other
// arguments has not seen what they would run or change.
func TestChangedArgumentsAreShownWhereTheyChangeOtherFiles(t *testing.T) {
	for name, again := range map[string]struct {
		operands []events.Seen
		preview  *events.Preview
		asked    bool
	}{
		"the same files":   {[]events.Seen{script}, &events.Preview{Base: []events.Seen{base}}, false},
		"another script":   {[]events.Seen{{Path: "t.sh", Digest: "sha256:t"}}, &events.Preview{Base: []events.Seen{base}}, true},
		"no script":        {nil, &events.Preview{Base: []events.Seen{base}}, true},
		"another file":     {[]events.Seen{script}, &events.Preview{Base: []events.Seen{{Path: "b.go"}}}, true},
		"the file changed": {[]events.Seen{script}, &events.Preview{Base: []events.Seen{{Path: "a.go", Digest: "sha256:new"}}}, true},
	} {
		w := newWorld()
		sp := &speaker{world: w}
		for _, line := range []string{"submit bash", "claim n1", "plan"} {
			sp.line(t, line)
		}
		j := judged(w.turn, w.turn.Calls[0])
		j.Operands, j.Preview, j.Looked = []events.Seen{script}, &events.Preview{Kind: events.PreviewDiff, Base: []events.Seen{base}}, true
		mustDo(t, w, w.me, j)
		mustDo(t, w, events.Owner{}, lifecycle.Approve{By: person, Args: mustParse(t, `{"n":7}`)})
		j = judged(w.turn, w.turn.Calls[0])
		j.Operands, j.Preview, j.Looked = again.operands, again.preview, true
		mustDo(t, w, w.me, j)
		c := w.turn.Calls[0]
		if asked := c.Phase == lifecycle.PhaseAsking; asked != again.asked || asked && c.Asked.Number() != 2 {
			t.Errorf("%s: the call is %s", name, c.Phase)
		}
		for _, v := range lifecycle.Laws(w.log) {
			t.Errorf("%s: %s", name, v)
		}
	}
}

// TestAnAgentsYesBreaksTheLaw, whoever has kept it.
func TestAnAgentsYesBreaksTheLaw(t *testing.T) {
	w := newWorld()
	sp := &speaker{world: w}
	for _, line := range []string{"submit deploy", "claim n1", "plan", "judge 0", "approve 0"} {
		sp.line(t, line)
	}
	if v := lifecycle.Laws(w.log); len(v) > 0 {
		t.Fatal(v)
	}
	w.log[len(w.log)-1].Records[0].Event.(*events.Approved).By.Kind = "agent"
	if v := lifecycle.Laws(w.log); len(v) != 1 || v[0].Law != "L3" {
		t.Errorf("%v", v)
	}
}

// TestWhoMayDecide is the whole table.
func TestWhoMayDecide(t *testing.T) {
	agent, person := events.Principal{ID: "x"}, events.Principal{ID: "x", Kind: "person"}
	service, other := events.Principal{ID: "x", Kind: "service"}, events.Principal{ID: "y", Kind: "person"}
	for _, c := range []struct {
		by, asker events.Principal
		may       bool
	}{
		{agent, other, false},
		{events.Principal{ID: "y", Kind: "agent"}, person, false},
		{events.Principal{ID: "y", Kind: "Person"}, person, false},
		{other, agent, true},
		{other, person, true},
		{person, person, true},
		{person, agent, false},
		{service, agent, false},
		{service, person, false},
		{person, service, false},
		{service, service, false},
		{service, other, true},
		{other, events.Principal{ID: "kid", Parents: []string{"y"}}, true},
		{events.Principal{ID: "y", Kind: "service"}, events.Principal{ID: "kid", Parents: []string{"x", "y"}}, false},
		{events.Principal{ID: "z", Kind: "service", Parents: []string{"x"}}, agent, false},
		{events.Principal{ID: "z", Kind: "person", Parents: []string{"w", "x"}}, person, false},
	} {
		err := lifecycle.MayDecide(c.by, c.asker)
		if (err == nil) != c.may || err != nil && !errors.Is(err, lifecycle.ErrDecider) {
			t.Errorf("%+v about a call of %+v: %v", c.by, c.asker, err)
		}
	}
}

// TestAnswersAreRefusedWithWhoWon: the second person is told who was first, and with what.
func TestAnswersAreRefusedWithWhoWon(t *testing.T) {
	w := newWorld()
	sp := &speaker{world: w}
	for _, line := range []string{"submit deploy deploy deploy", "claim n1", "plan", "judge all", "approve 0 by=cee", "reject 1 by=dan"} {
		sp.line(t, line)
	}
	w.now = w.now.Add(2 * time.Hour)
	mustDo(t, w, w.me, lifecycle.Expire{Call: 2})
	for i, want := range []string{"cee has approved it", "dan said no", "it had expired"} {
		var err error
		if i == 0 {
			_, err = w.do(events.Owner{}, lifecycle.Reject{Call: i, By: person})
		} else {
			_, err = w.do(events.Owner{}, lifecycle.Approve{Call: i, By: person})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("call %d: %v, want %q", i, err, want)
		}
	}
}
