package again_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
)

// survey asks a policy about the calls of a log.
func survey(c again.Config, sel again.Selection, log ...bus.Stored) again.Summary {
	s := again.NewSurvey(c, sel)
	for _, c := range log {
		s.Add(c)
	}
	for _, k := range s.Again() {
		for _, c := range log {
			if c.Commit.Turn == k {
				s.Add(c)
			}
		}
	}
	return s.End()
}

// whole sees that every call is counted once.
func whole(t *testing.T, s again.Summary) {
	t.Helper()
	if sum := s.Same + s.Changed + s.Broken + s.NotJudged + s.Early; sum != s.Calls {
		t.Errorf("%d calls, and %d are counted: %+v", s.Calls, sum, s)
	}
	in := 0
	for _, g := range s.Groups {
		in += g.Count
	}
	if in != s.Changed+s.Broken {
		t.Errorf("%d changes, and %d are in groups", s.Changed+s.Broken, in)
	}
	in = 0
	for _, u := range s.Unjudged {
		in += u.Count
	}
	if in != s.NotJudged+s.Early {
		t.Errorf("%d were not judged, and %d are told of", s.NotJudged+s.Early, in)
	}
}

func (h *house) all() []bus.Stored {
	h.t.Helper()
	var out []bus.Stored
	err := h.view.Read(h.t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		out = append(out, s)
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// groupsOf are groups in a line each.
func groupsOf(s again.Summary) string {
	var out []string
	for _, g := range s.Groups {
		out = append(out, fmt.Sprintf("%d %s %s->%s %v %q", g.Count, g.Tool, g.From, g.To, g.Policies, g.Reason))
	}
	return strings.Join(out, "\n")
}

func surveyed(t *testing.T, h *house) {
	log := h.all()
	conf := again.Config{Policy: policy.Default(), Settings: again.Settings{Body: h.body, Workspace: h.dir}}
	s := survey(conf, again.Selection{}, log...)
	whole(t, s)
	if s.Turns != 10 || s.Calls != 39 || s.Assumed != 2 || s.Changed != 0 || s.NotJudged != 0 || s.Passed != 0 {
		t.Errorf("the policy that a node had: %+v", s)
	}
	conf.Policy = noCharge("charge")
	s = survey(conf, again.Selection{}, log...)
	whole(t, s)
	if got := groupsOf(s); got != `1 charge allowed->denied [test.off] "It is off this week."` {
		t.Errorf("%s", got)
	}
	if ex := s.Groups[0].Examples[0]; ex.Call.String() != "w2/t5/3" || ex.Position == (events.Position{}) || s.Groups[0].Code != events.PermissionDenied {
		t.Errorf("%+v", s.Groups[0])
	}
	conf.Policy = open{}
	s = survey(conf, again.Selection{To: []again.Ruling{again.Denied}}, log...)
	whole(t, s)
	if s.Changed != 0 || s.Unwanted == 0 {
		t.Errorf("a policy that allows everything denies: %+v", s)
	}
	s = survey(conf, again.Selection{Tools: []string{"Bash"}}, log...)
	whole(t, s)
	if s.Changed != 7 || s.Passed == 0 { // rm, curl and one where nobody could be asked, and four that a person was asked about, two of them for the session
		t.Errorf("%d\n%s", s.Changed, groupsOf(s))
	}
}

// open allows everything.
type open struct{}

func (open) Authorize(policy.Request) policy.Verdict {
	return policy.Verdict{Decision: policy.Allow, Reason: "Why not.", Policies: []string{"open"}, Version: "open"}
}
func (open) Version() string { return "open" }

// shut denies everything, for a reason of each call's own.
type shut struct{ faulted bool }

func (shut) Authorize(r policy.Request) policy.Verdict {
	return policy.Verdict{Decision: policy.Deny, Code: events.PermissionDenied, Reason: "Not " + r.Tool + " " + string(r.Args) + ".", Policies: []string{"shut"}}
}
func (shut) Version() string               { return "shut" }
func (s shut) Faulted(policy.Verdict) bool { return s.faulted }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// simple is a turn whose calls were all let through, without any end.
func simple(n int, calls ...events.RawCall) []bus.Stored {
	key := events.TurnKey{Trace: "s", Turn: fmt.Sprint("t", n)}
	owner := events.Owner{Boot: "b", Epoch: 1}
	at := epoch.Add(time.Duration(n) * time.Second)
	var let []events.Record
	for i, c := range calls {
		v := events.Verdict{Operation: events.Operation{Class: events.OpExecute}, Tier: events.Irreversible, Hash: "h"}
		let = append(let, events.Record{Call: i, Seq: 1, Event: &events.Requested{Tool: c.Tool, Args: c.Args}}, events.Record{Call: i, Seq: 2, Event: &events.Authorized{Verdict: v, Decision: "allow"}})
	}
	return []bus.Stored{
		{Generation: 1, Seq: uint64(2*n + 1), Commit: events.Commit{Turn: key, At: at, Records: []events.Record{{Call: events.TurnEvent, Seq: 1, Event: &events.TurnSubmitted{
			Principal: events.Principal{ID: "agent", Parents: []string{"boss"}}, Calls: calls,
		}}}}},
		{Generation: 1, Seq: uint64(2*n + 2), Commit: events.Commit{Turn: key, At: at, By: owner, Records: let}},
	}
}

func TestGroupsAreBounded(t *testing.T) {
	off := false
	s := again.NewSurvey(again.Config{Policy: shut{}, Settings: again.Settings{Network: &off}}, again.Selection{})
	const n = 100_000
	for i := range n {
		for _, c := range simple(i, raw(fmt.Sprint("tool", i%3000), fmt.Sprintf(`{"v":%d}`, i))) {
			s.Add(c)
		}
	}
	sum := s.End()
	whole(t, sum)
	if sum.Changed != n || len(sum.Groups) > again.MaxGroups*5/4+1 || sum.Folded == 0 {
		t.Errorf("%d changes in %d groups, %d folded", sum.Changed, len(sum.Groups), sum.Folded)
	}
	if first := sum.Groups[0]; first.Tool != "" || first.Reason != "" || len(first.Examples) != again.MaxExamples {
		t.Errorf("what is beyond the bound: %+v", first)
	}
}

func TestASelectionOfCalls(t *testing.T) {
	var log []bus.Stored
	for i := range 10 {
		log = append(log, simple(i, raw("a", "{}"), raw("b", "{}"))...)
	}
	for _, c := range []struct {
		name  string
		sel   again.Selection
		calls int
	}{
		{"all", again.Selection{}, 20},
		{"since", again.Selection{Since: epoch.Add(8 * time.Second)}, 4},
		{"until", again.Selection{Until: epoch.Add(8 * time.Second)}, 16},
		{"tool", again.Selection{Tools: []string{"b"}}, 10},
		{"a parent", again.Selection{Principals: []string{"boss"}}, 20},
		{"somebody else", again.Selection{Principals: []string{"other"}}, 0},
		{"all of it", again.Selection{Since: epoch.Add(2 * time.Second), Until: epoch.Add(3 * time.Second), Tools: []string{"a"}}, 1},
	} {
		s := survey(again.Config{Policy: shut{}}, c.sel, log...)
		whole(t, s)
		if s.Calls != c.calls || s.Calls+s.Passed != 20 || s.Changed != c.calls {
			t.Errorf("%s: %d calls, %d passed over", c.name, s.Calls, s.Passed)
		}
	}
}

func TestWhatCannotBeJudgedIsCounted(t *testing.T) {
	imported := func(tool, args string) bus.Stored {
		return bus.Stored{Generation: 1, Seq: 1, Commit: events.Commit{Turn: events.TurnKey{Trace: "i", Turn: tool}, At: epoch, Records: []events.Record{
			{Call: events.TurnEvent, Seq: 1, Event: &events.TurnSubmitted{Principal: events.Principal{ID: "x"}, Imported: "f:1", Calls: []events.RawCall{raw(tool, args)}}},
		}}}
	}
	off := events.Body{Ref: &events.BlobRef{Digest: "sha256:0", Size: 9}}
	far := simple(1, events.RawCall{Tool: "Read", Args: off})
	_, sealed := judged(t, one(events.RawCall{Tool: "charge", Args: events.Body{Text: "{}"}, Secrets: []events.SecretRef{{ID: "0", Path: "/x"}}}),
		lifecycle.Finding{Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Deny, Code: events.AccessDenied, Reason: "No."}, events.Verdict{})
	for _, c := range []struct {
		name string
		conf again.Config
		log  []bus.Stored
		why  string // "" is judged
	}{
		{"a stranger's tool", again.Config{Policy: shut{}}, []bus.Stored{imported("fly", "{}")}, "only its tool can say"},
		{"a stranger's tool of a tier", again.Config{Policy: shut{}, Settings: again.Settings{Tiers: map[string]events.Tier{"*": events.Readonly}}}, []bus.Stored{imported("fly", "{}")}, ""},
		{"a shell line", again.Config{Policy: shut{}}, []bus.Stored{imported("Bash", `{"command":"ls"}`)}, ""},
		{"no JSON", again.Config{Policy: shut{}}, []bus.Stored{imported("Bash", `{"command":`)}, "do not parse"},
		{"arguments elsewhere", again.Config{Policy: shut{}}, far, "outside the log"},
		{"arguments at hand", again.Config{Policy: shut{}, Settings: again.Settings{Body: func(events.BlobRef) (string, bool) { return "{}", true }}}, far, ""},
		{"redacted", again.Config{Policy: shut{}, Settings: again.Settings{Redacted: true}}, simple(1, raw("a", redactedArgs)), "redacted"},
		{"refused for its secret", again.Config{Policy: open{}}, sealed, "for a secret in it"},
		{"still open", again.Config{Policy: shut{}}, simple(1, raw("a", "{}"))[:1], "not come to a policy yet"},
	} {
		s := survey(c.conf, again.Selection{}, c.log...)
		whole(t, s)
		switch {
		case c.why == "" && s.Changed == 1 && s.Calls == 1:
		case c.why != "" && len(s.Unjudged) == 1 && strings.Contains(s.Unjudged[0].Why, c.why) && len(s.Unjudged[0].Examples) == 1:
		default:
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	if s := survey(again.Config{Policy: shut{}}, again.Selection{}, simple(1, raw("a", "{}"))[1:]...); s.Headless != 1 || s.Calls != 0 {
		t.Errorf("without a beginning: %+v", s)
	}
	if s := survey(again.Config{Policy: shut{faulted: true}}, again.Selection{}, simple(1, raw("a", "{}"))...); s.Broken != 1 || s.Changed != 0 || len(s.Groups) != 1 {
		t.Errorf("a policy that breaks: %+v", s)
	}
}

func TestManyOpenTurnsAreReadAgain(t *testing.T) {
	big := strings.Repeat("x", 500)
	var log []bus.Stored
	const n = 1000
	for i := range n { // all begin before any is decided
		log = append(log, simple(i, raw("a", fmt.Sprintf(`{"v":"%s"}`, big)), raw("b", "{}"))[0])
	}
	for i := range n {
		log = append(log, simple(i, raw("a", fmt.Sprintf(`{"v":"%s"}`, big)), raw("b", "{}"))[1])
	}
	s := again.NewSurvey(again.Config{Policy: open{}}, again.Selection{})
	s.SetLimit(500 << 10)
	for _, c := range log {
		s.Add(c)
	}
	late := s.Again()
	if len(late) == 0 || len(late) == n {
		t.Errorf("%d of %d turns are to be read again", len(late), n)
	}
	of := map[events.TurnKey][]bus.Stored{}
	for _, c := range log {
		of[c.Commit.Turn] = append(of[c.Commit.Turn], c)
	}
	for _, k := range late {
		for _, c := range of[k] {
			s.Add(c)
		}
	}
	sum := s.End()
	whole(t, sum)
	if sum.Turns != n || sum.Calls != 2*n || sum.Same != 2*n {
		t.Errorf("%+v", sum)
	}
}

// TestSurveyIgnoresTheOrderOfTurns: turns may stand in each other's way in the log.
func TestSurveyIgnoresTheOrderOfTurns(t *testing.T) {
	a, b := simple(1, raw("a", "{}")), simple(2, raw("b", "{}"))
	one := survey(again.Config{Policy: shut{}}, again.Selection{}, a[0], a[1], b[0], b[1])
	two := survey(again.Config{Policy: shut{}}, again.Selection{}, b[0], a[0], b[1], a[1])
	if groupsOf(one) != groupsOf(two) || one.Changed != 2 {
		t.Errorf("%s\n%s", groupsOf(one), groupsOf(two))
	}
}
