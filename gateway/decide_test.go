package gateway

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

func TestParseApprovalID(t *testing.T) {
	for text, want := range map[string]ApprovalID{
		"a/b/0":    {Call: events.CallKey{Trace: "a", Turn: "b"}},
		"a/b/3@2":  {Call: events.CallKey{Trace: "a", Turn: "b", Offset: 3}, Asking: 2},
		"a/b/3@i2": {Call: events.CallKey{Trace: "a", Turn: "b", Offset: 3}, Asking: 2, Input: true},
	} {
		if id, err := ParseApprovalID(text); err != nil || id != want || id.String() != text {
			t.Errorf("%q: %+v, %v", text, id, err)
		}
	}
	for _, text := range []string{"", "a/b", "a/b/0@", "a/b/0@0", "a/b/0@-1", "a/b/0@01", "a/b/0@1@2", "a/b/-1", "a/b/0@x", "a/b/0@i", "a/b/0@i0", "a/b/0@ii1", "a/b/0@i01", "a b/c/0", "a/b/0@99999999999999999999"} {
		if id, err := ParseApprovalID(text); err == nil {
			t.Errorf("%q is %+v", text, id)
		}
	}
}

// TestDecideSaysWhoseAnswerCounts, whoever answers, and refuses who may not.
func TestDecideSaysWhoseAnswerCounts(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	asks(t, d, o, key1, `{"v":1}`, `{"v":2}`, `{"v":3}`)
	ann, bob := events.Principal{ID: "ann"}, events.Principal{ID: "bob", Kind: "person"}
	id := func(call, asking int) ApprovalID { return ApprovalID{Call: key1.Call(call), Asking: asking} }
	changed := `{"v":9}`
	d.refuses = func(turn lifecycle.Turn, call int, args lifecycle.Args) string {
		if turn.Key == key1 && call == 2 && strings.Contains(string(args.JSON), "rm") {
			return "Nothing is removed here."
		}
		return ""
	}
	for _, c := range []struct {
		name string
		id   ApprovalID
		a    Decision
		want string // status and whose, or the error
		is   error
	}{
		{"an agent", id(0, 1), Decision{Yes: true, By: events.Principal{ID: "x", Kind: "agent"}}, "", lifecycle.ErrDecider},
		{"who asks", id(0, 1), Decision{Yes: true, By: events.Principal{ID: "agent"}}, "", lifecycle.ErrDecider},
		{"an agent's no", id(0, 1), Decision{By: events.Principal{ID: "x", Kind: "agent"}}, "", lifecycle.ErrDecider},
		{"an asking that was not made", id(0, 2), Decision{Yes: true, By: ann}, "", lifecycle.ErrNotAsking},
		{"another hash", id(0, 1), Decision{Yes: true, By: ann, Hash: "sha256:0"}, "", lifecycle.ErrHash},
		{"no object", id(0, 1), Decision{Yes: true, By: ann, Args: ptr("[1]")}, "", lifecycle.ErrArgs},
		{"a yes", id(0, 1), Decision{Yes: true, By: ann, Note: "fine"}, "approved ann", nil},
		{"the same again", id(0, 1), Decision{Yes: true, By: ann}, "already_approved ann", nil},
		{"of somebody else", id(0, 0), Decision{Yes: true, By: bob}, "already_approved ann", nil},
		{"a no, then", id(0, 1), Decision{By: bob}, "", lifecycle.ErrNotAsking},
		{"a no", id(1, 0), Decision{By: bob, Note: "no"}, "denied bob", nil},
		{"a no of somebody else", id(1, 1), Decision{By: ann}, "already_denied bob", nil},
		{"a yes, then", id(1, 1), Decision{Yes: true, By: ann}, "", lifecycle.ErrEnded},
		{"arguments that the gates refuse", id(2, 1), Decision{Yes: true, By: ann, Args: ptr(`{"v":"rm x"}`)}, "", lifecycle.ErrArgs},
		{"the same by an agent", id(2, 1), Decision{Yes: true, By: events.Principal{ID: "x", Kind: "agent"}, Args: ptr(`{"v":"rm x"}`)}, "", lifecycle.ErrDecider},
		{"the same, for another asking", id(2, 2), Decision{Yes: true, By: ann, Args: ptr(`{"v":"rm x"}`)}, "", lifecycle.ErrNotAsking},
		{"with other arguments, at last", id(2, 1), Decision{Yes: true, By: ann, Args: &changed}, "approved ann", nil},
		{"no such call", id(7, 0), Decision{Yes: true, By: ann}, "", lifecycle.ErrNoCall},
	} {
		out, err := d.Decide(within(t), c.id, c.a)
		if got := out.Status + " " + out.By.ID; c.is == nil && (err != nil || got != c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
		if c.name == "a no of somebody else" && out.Note != "no" {
			t.Errorf("the note of the no is %q", out.Note)
		}
		if c.is == nil && (out.ID != projections.PendingID(c.id.Call, 1) || out.Tool != "echo") {
			t.Errorf("%s: %+v", c.name, out)
		}
	}
	if page, err := d.Approval(within(t), id(1, 0)); err != nil || page.Decision == nil || page.Decision.Note != "no" {
		t.Errorf("the page of a no: %+v, %v", page.Decision, err)
	}
	page, err := d.Approval(within(t), id(2, 0))
	if err != nil || page.Decision == nil || page.Decision.Args == nil || page.Decision.Args.Text != changed || !strings.Contains(page.Visible, "approved by ann (person)") || !strings.Contains(page.Visible, "with other arguments") {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := d.Approval(within(t), id(2, 3)); !errors.Is(err, ErrNoApproval) {
		t.Errorf("an asking that was not made has a page: %v", err)
	}
	if _, err := d.Approval(within(t), ApprovalID{Call: turnKey("none").Call(0)}); !errors.Is(err, lifecycle.ErrNoTurn) {
		t.Errorf("a turn that is not there: %v", err)
	}
}

func ptr(s string) *string { return &s }

// TestLargeArgumentsHaveAPage: the list names them by digest, and the page of the one shows them.
func TestLargeArgumentsHaveAPage(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	long := `{"v":"` + strings.Repeat("x", 100_000) + ` THE END"}`
	_, err := d.Submit(within(t), key1, echo(long))
	must(t, err)
	o.take()
	findings := make([]lifecycle.Finding, len(lifecycle.PlanGates))
	for i, g := range lifecycle.PlanGates {
		findings[i] = lifecycle.Finding{Gate: g}
	}
	o.do(lifecycle.Judge{Call: 0, Findings: findings, Asks: "do it", Verdict: events.Verdict{Tier: events.Approval, Hash: o.v.Turn.Calls[0].Hash}})
	list, err := d.Approvals(within(t))
	if err != nil || len(list) != 1 || list[0].Args.Ref == nil || !strings.Contains(list[0].Visible, list[0].Args.Ref.Digest) {
		t.Fatalf("%+v, %v", list, err)
	}
	page, err := d.Approval(within(t), ApprovalID{Call: key1.Call(0)})
	if err != nil || !strings.Contains(page.Visible, "THE END") {
		t.Errorf("the end is not shown, %v", err)
	}
}

// TestYesAgainAfterTheEnd: who did not hear that a yes was taken says it again, another
// says the same, and the call may have run meanwhile. Another answer comes too late.
func TestYesAgainAfterTheEnd(t *testing.T) {
	d, log := newDesk(t)
	_, err := d.Submit(within(t), key1, echo(`{"v":1}`))
	must(t, err)
	o := newOwner(t, log.View("node"))
	o.take()
	o.judge(0, events.Approval)
	asked := o.v.Turn.Calls[0].Asked.Hash
	ann := events.Principal{ID: "ann", Kind: "person"}
	id := ApprovalID{Call: key1.Call(0), Asking: 1}
	first, err := d.Decide(within(t), id, Decision{Yes: true, By: ann, Hash: asked, Note: "fine"})
	must(t, err)
	o.load(key1)
	o.start(0)
	o.settle(0, "done")
	for _, again := range []Decision{
		{Yes: true, By: ann, Hash: asked, Note: "fine"},
		{Yes: true, By: ann},
		{Yes: true, By: ann, Scope: events.ScopeCall},
		{Yes: true, By: events.Principal{ID: "bob", Kind: "person"}},
		{Yes: true, By: events.Principal{ID: "ann", Kind: "service"}, Hash: asked},
	} {
		if got, err := d.Decide(within(t), id, again); err != nil || got.Status != DecidedAlreadyApproved || got.By.ID != first.By.ID || got.At != first.At || got.Hash != first.Hash {
			t.Errorf("%+v: %+v, %v", again, got, err)
		}
	}
	other := `{"v":2}`
	for name, late := range map[string]Decision{
		"for more": {Yes: true, By: ann, Scope: events.ScopeSession}, "to other arguments": {Yes: true, By: ann, Hash: "sha256:00"},
		"with other arguments": {Yes: true, By: ann, Args: &other}, "a no": {By: ann},
	} {
		if got, err := d.Decide(within(t), id, late); !errors.Is(err, lifecycle.ErrEnded) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := d.Decide(within(t), ApprovalID{Call: key1.Call(0), Asking: 2}, Decision{Yes: true, By: ann}); err == nil {
		t.Error("a yes to an asking that never was")
	}
}
