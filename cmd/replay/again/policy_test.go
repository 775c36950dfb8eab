package again_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
)

// judged is a turn of one call, up to what the plan gates have come to.
func judged(t *testing.T, s events.TurnSubmitted, f lifecycle.Finding, v events.Verdict) (events.TurnKey, []bus.Stored) {
	t.Helper()
	w := &writer{tb: t, key: events.TurnKey{Trace: "p", Turn: "t"}, now: epoch}
	s.Principal.ID = "agent"
	w.do(lifecycle.Submit{Turn: s})
	a, err := lifecycle.Parse(s.Calls[0].Args.Text)
	if err != nil {
		t.Fatal(err)
	}
	v.Hash = a.Hash
	all := pass(lifecycle.PlanGates)
	if i := slices.Index(lifecycle.PlanGates, f.Gate); i >= 0 {
		all[i] = f
		if f.Ruling == lifecycle.Deny {
			all = all[:i+1]
		}
	}
	w.do(lifecycle.Claim{Boot: "b"}, lifecycle.Plan{Facts: []lifecycle.CallFacts{{Hash: a.Hash, Known: true}}}, lifecycle.Judge{Call: 0, Findings: all, Verdict: v, Expire: time.Hour, Asks: "do it?"})
	return w.key, w.log
}

const redactedArgs = `{"redacted":"[redacted 9 bytes 0123456789abcdef]"}`

func one(c events.RawCall) events.TurnSubmitted {
	return events.TurnSubmitted{Calls: []events.RawCall{c}}
}

// TestARefusalForASecretIsNotThePolicys: the value is not in the log, so that the node's
// own word stands, and is said to.
func TestARefusalForASecretIsNotThePolicys(t *testing.T) {
	sealed := one(events.RawCall{Tool: "charge", Args: events.Body{Text: "{}"}, Secrets: []events.SecretRef{{ID: "0", Path: "/x"}}})
	own := lifecycle.Finding{Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Deny, Code: events.AccessDenied, Reason: "No."}
	policys := own
	policys.Policies, policys.Policy = []string{"p"}, "v0"
	for _, c := range []struct {
		name   string
		turn   events.TurnSubmitted
		was    lifecycle.Finding
		conf   again.Config
		stands bool
	}{
		{"allowed now", sealed, own, again.Config{Policy: open{}}, true},
		{"denied now", sealed, own, again.Config{Policy: shut{}}, true},
		{"a policy had denied it", sealed, policys, again.Config{Policy: open{}}, false},
		{"it has no secret", one(raw("charge", "{}")), own, again.Config{Policy: open{}}, false},
	} {
		key, log := judged(t, c.turn, c.was, events.Verdict{Operation: events.Operation{Class: events.OpExecute}, Tier: events.Irreversible})
		r := again.Turn(key, log, c.conf)
		noted := len(r.Notes) == 1 && r.Notes[0].Kind == again.NoteUnjudged && strings.Contains(r.Notes[0].Text, "for a secret in it")
		if (r.Difference == nil) != c.stands || noted != c.stands {
			t.Errorf("%s: %v, notes %+v", c.name, r.Difference, r.Notes)
		}
	}
}

// TestAPolicyIsAskedAnew: what is recorded of a call's gates, and what is said of it now.
func TestAPolicyIsAskedAnew(t *testing.T) {
	deny := func(g lifecycle.Gate, code events.Code) lifecycle.Finding {
		return lifecycle.Finding{Gate: g, Ruling: lifecycle.Deny, Code: code, Reason: "No."}
	}
	exec := events.Verdict{Operation: events.Operation{Class: events.OpExecute}, Tier: events.Irreversible}
	asked := one(raw("charge", "{}"))
	asked.CanAsk = true
	listed := one(raw("charge", "{}"))
	listed.Allow = []string{"other"}
	nobody := func(string) []string { return []string{} }
	anybody := func(string) []string { return nil }
	long := exec
	long.Operation.Paths = []string{strings.Repeat("a", 500) + "… [77 bytes more]"}
	refused := one(events.RawCall{Tool: "charge", Args: events.Body{Text: "{}"}, Refused: &events.Refusal{Code: events.TruncatedByModel, Reason: "cut"}})
	placed := exec
	placed.Operation = events.Operation{Class: events.OpExecute, Commands: []string{"cat </w/a 2>/dev/null"}}
	for _, c := range []struct {
		name string
		sub  events.TurnSubmitted
		was  lifecycle.Finding
		v    events.Verdict
		conf again.Config
		want string // of the difference; "" none
		note string // its kind; "" none
	}{
		{"allowed, and is", one(raw("charge", "{}")), lifecycle.Finding{}, exec, again.Config{Policy: open{}}, "", again.NotePolicy},
		{"allowed, and would be denied", one(raw("charge", "{}")), lifecycle.Finding{}, exec, again.Config{Policy: shut{}}, "recorded authorized (allow), would decide denied PERMISSION_DENIED by authorize: Not charge {}.", ""},
		{"denied, and would be allowed", one(raw("charge", "{}")), deny(lifecycle.GateAuthorize, events.PermissionDenied), exec, again.Config{Policy: open{}}, "recorded denied PERMISSION_DENIED by authorize, would decide authorized (allow): Why not.", ""},
		{"denied for another code", one(raw("charge", "{}")), deny(lifecycle.GateAuthorize, events.AccessDenied), exec, again.Config{Policy: shut{}}, "recorded denied ACCESS_DENIED by authorize, would decide denied PERMISSION_DENIED by authorize", ""},
		{"asked, and would be allowed", asked, lifecycle.Finding{Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Ask, Reason: "Sure?"}, exec, again.Config{Policy: open{}}, "recorded approval_requested, would decide authorized (allow)", ""},
		{"denied by a breaker, and the policy allows", one(raw("charge", "{}")), deny(lifecycle.GatePeek, events.CircuitOpen), exec, again.Config{Policy: open{}}, "", ""},
		{"denied by a breaker, and the policy would before", one(raw("charge", "{}")), deny(lifecycle.GatePeek, events.CircuitOpen), exec, again.Config{Policy: shut{}}, "recorded denied CIRCUIT_OPEN by breaker_peek, would decide denied PERMISSION_DENIED by authorize", ""},
		{"denied by its schema, whatever the policy says", one(raw("charge", "{}")), deny(lifecycle.GateValidate, events.InvalidParam), exec, again.Config{Policy: shut{}}, "", ""},
		{"its key was taken, whatever the policy says", one(raw("charge", "{}")), deny(lifecycle.GateDedupe, events.IdempotencyConflict), exec, again.Config{Policy: shut{}}, "", ""},
		{"refused by its door", refused, lifecycle.Finding{}, exec, again.Config{Policy: shut{}}, "", ""},
		{"on no list of the turn's", listed, lifecycle.Finding{}, exec, again.Config{Policy: open{}}, "would decide denied PERMISSION_DENIED by allow", ""},
		{"an operator's list is not known", one(raw("charge", "{}")), deny(lifecycle.GateAllow, events.PermissionDenied), exec, again.Config{Policy: open{}}, "", again.NoteUnjudged},
		{"an operator's list is known, and denies", one(raw("charge", "{}")), deny(lifecycle.GateAllow, events.PermissionDenied), exec, again.Config{Policy: open{}, Settings: again.Settings{Allow: nobody}}, "", again.NotePolicy},
		{"an operator's list is known, and does not deny", one(raw("charge", "{}")), deny(lifecycle.GateAllow, events.PermissionDenied), exec, again.Config{Policy: open{}, Settings: again.Settings{Allow: anybody}}, "would decide authorized (allow)", ""},
		{"no such tool", one(raw("fly", "{}")), deny(lifecycle.GateAllow, events.UnknownTool), exec, again.Config{Policy: open{}}, "", again.NotePolicy},
		{"only its tool can say", one(raw("fly", "{}")), deny(lifecycle.GateAuthorize, events.PermissionDenied), exec, again.Config{Policy: open{}}, "", again.NoteUnjudged},
		{"its tier is given", one(raw("fly", "{}")), deny(lifecycle.GateAuthorize, events.PermissionDenied), exec, again.Config{Policy: open{}, Settings: again.Settings{Tiers: map[string]events.Tier{"fly": events.Irreversible}}}, "would decide authorized (allow)", ""},
		{"its tier wants a person", one(raw("fly", "{}")), deny(lifecycle.GateAuthorize, events.PermissionDenied), exec, again.Config{Policy: open{}, Settings: again.Settings{Tiers: map[string]events.Tier{"*": events.Approval}}}, "recorded denied PERMISSION_DENIED by authorize, would decide denied PERMISSION_DENIED by approve", ""},
		{"recorded only in part", one(raw("fly", "{}")), lifecycle.Finding{}, long, again.Config{Policy: shut{}}, "", again.NoteUnjudged},
		{"recorded only in part, and readable", one(raw("charge", "{}")), lifecycle.Finding{}, long, again.Config{Policy: shut{}}, "would decide denied", ""},
		{"its place is not known", one(raw("charge", "{}")), lifecycle.Finding{}, placed, again.Config{Policy: shut{}}, "", again.NoteUnjudged},
		{"its place is known", one(raw("charge", "{}")), lifecycle.Finding{}, placed, again.Config{Policy: shut{}, Settings: again.Settings{Workspace: "/w"}}, "would decide denied", ""},
		{"too much for a person to read", one(raw("approve_me", "{}")), deny(lifecycle.GateAuthorize, events.TooLarge), exec, again.Config{Policy: open{}}, "", ""},
		{"too much, and nobody need read it", one(raw("charge", "{}")), deny(lifecycle.GateAuthorize, events.TooLarge), exec, again.Config{Policy: open{}}, "would decide authorized (allow)", ""},
		{"redacted", one(raw("charge", redactedArgs)), lifecycle.Finding{}, exec, again.Config{Policy: shut{}, Settings: again.Settings{Redacted: true}}, "", again.NoteUnjudged},
		{"redacted, but not this one", one(raw("charge", "{}")), lifecycle.Finding{}, exec, again.Config{Policy: shut{}, Settings: again.Settings{Redacted: true}}, "would decide denied", ""},
		{"only like what is redacted", one(raw("charge", redactedArgs)), lifecycle.Finding{}, exec, again.Config{Policy: shut{}}, "would decide denied", ""},
		{"other words, strictly", one(raw("nosuch", "{}")), deny(lifecycle.GateAllow, events.UnknownTool), exec, again.Config{Policy: open{}, Strict: true}, "with /", ""},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			key, log := judged(t, c.sub, c.was, c.v)
			r := again.Turn(key, log, c.conf)
			switch {
			case c.want == "" && (r.Difference != nil || r.Decided != r.Events):
				t.Errorf("%v", r.Difference)
			case c.want != "" && (r.Difference == nil || !strings.Contains(r.Difference.String(), c.want)):
				t.Errorf("%v", r.Difference)
			case c.note == "" && len(r.Notes) > 0, c.note != "" && (len(r.Notes) != 1 || r.Notes[0].Kind != c.note):
				t.Errorf("notes: %+v", r.Notes)
			}
		})
	}
}

// TestTheNetworkIsAsTheRecordLetsThink, unless somebody says.
func TestTheNetworkIsAsTheRecordLetsThink(t *testing.T) {
	v := events.Verdict{Operation: events.Operation{Class: events.OpNetwork, Hosts: []string{"example.com"}}, Tier: events.Readonly}
	key, log := judged(t, one(raw("fetch", `{"url":"https://example.com"}`)), lifecycle.Finding{}, v)
	r := again.Turn(key, log, again.Config{Policy: policy.Default()})
	if r.Difference != nil || len(r.Notes) != 2 || r.Notes[0].Kind != again.NoteAssumed {
		t.Errorf("%v, %+v", r.Difference, r.Notes)
	}
	off := false
	if r = again.Turn(key, log, again.Config{Policy: policy.Default(), Settings: again.Settings{Network: &off}}); r.Difference == nil {
		t.Error("the network is off, and it would be reached all the same")
	}
}

// TestWhereDecidingStops: what cannot be decided is said, and where.
func TestWhereDecidingStops(t *testing.T) {
	exec := events.Verdict{Operation: events.Operation{Class: events.OpExecute}, Tier: events.Irreversible}
	key, log := judged(t, one(raw("charge", "{}")), lifecycle.Finding{}, exec)
	with := func(s bus.Stored, records ...events.Record) bus.Stored {
		s.Commit.Records = records
		return s
	}
	gone := log[1].Commit.Records
	for _, c := range []struct {
		name string
		log  []bus.Stored
		kind string
		at   string
		done int
	}{
		{"an event is missing", []bus.Stored{log[0], with(log[1], gone[0], gone[2], gone[3])}, again.StopGap, "1.2.1", 2},
		{"an event of the turn is missing", []bus.Stored{log[0], with(log[1], gone[1], gone[2], gone[3])}, again.StopGap, "1.2.0", 1},
		{"a commit is missing", []bus.Stored{log[0], with(log[1], gone[3])}, again.StopGap, "1.2.0", 1},
		{"its beginning is missing", log[1:], again.StopHeadless, "1.2.0", 0},
		{"of a newer release", []bus.Stored{log[0], with(log[1], gone[0], events.Record{Call: 0, Seq: 1, Event: events.Foreign{Name: "teleported", Version: 1}})}, again.StopNewer, "1.2.1", 2},
	} {
		r := again.Turn(key, c.log, again.Config{})
		if r.Difference != nil || r.Stopped == nil || r.Stopped.Kind != c.kind || r.Stopped.Position.String() != c.at || r.Decided != c.done {
			t.Errorf("%s: %+v, %v, %d", c.name, r.Stopped, r.Difference, r.Decided)
		}
	}
	if r := again.Turn(key, nil, again.Config{}); r.Events != 0 || r.Stopped != nil || r.Difference != nil {
		t.Errorf("nothing at all: %+v", r)
	}
}

// TestAToolThatIsGoneIsMissed, and one that never was is not.
func TestAToolThatIsGoneIsMissed(t *testing.T) {
	exec := events.Verdict{Operation: events.Operation{Class: events.OpExecute}, Tier: events.Irreversible}
	conf := again.Config{Policy: open{}, Settings: again.Settings{Registered: func(tool string) bool { return tool == "charge" }}}
	unknown := lifecycle.Finding{Gate: lifecycle.GateAllow, Ruling: lifecycle.Deny, Code: events.UnknownTool}
	for _, c := range []struct {
		tool string
		was  lifecycle.Finding
		want []string
	}{{"charge", lifecycle.Finding{}, nil}, {"old_name", lifecycle.Finding{}, []string{"old_name"}}, {"nosuch", unknown, nil}} {
		key, log := judged(t, one(raw(c.tool, "{}")), c.was, exec)
		r := again.Turn(key, log, conf)
		if r.Difference != nil || r.Decided != r.Events || !slices.Equal(r.Missing, c.want) {
			t.Errorf("%s: %v, missing %v", c.tool, r.Difference, r.Missing)
		}
		if s := survey(conf, again.Selection{}, log...); len(s.Missing) != len(c.want) || s.Calls != 1 || s.Changed != 0 {
			t.Errorf("%s: %+v", c.tool, s)
		}
	}
}
