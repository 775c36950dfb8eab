package again_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fixture"
	"github.com/sluice-run/sluice/tools/fs"
	"github.com/sluice-run/sluice/tools/shell"
)

// house is a real node, with real tools, over a log in memory.
type house struct {
	t    *testing.T
	view *memlog.View
	dir  string
	keys []events.TurnKey
	now  func() time.Time
}

func newHouse(t *testing.T, network bool) *house {
	t.Helper()
	return newHouseBy(t, policy.Default(), network, time.Now)
}

// newHouseBy is one by another policy and another clock.
func newHouseBy(t *testing.T, by policy.Authorizer, network bool, now func() time.Time) *house {
	t.Helper()
	h := &house{t: t, view: memlog.New(memlog.Config{}).View("n"), dir: t.TempDir(), now: now}
	reg, err := tools.NewRegistry(realTools(t, h.dir)...)
	if err != nil {
		t.Fatal(err)
	}
	n, err := actors.New(actors.Config{
		Bus: h.view, Registry: reg, Authorizer: by, Boot: "b-" + ulid.Make().String(), Workspace: h.dir, Network: network,
		Approval: 24 * time.Hour, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer stop()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return h
}

func realTools(t *testing.T, dir string) []tools.Tool {
	t.Helper()
	list, err := fs.Tools()
	if err != nil {
		t.Fatal(err)
	}
	bash, err := shell.New(shell.Config{})
	if err != nil {
		t.Fatal(err)
	}
	more, err := fixture.Tools(fixture.Config{Ledger: filepath.Join(dir, "..", "ledger-"+filepath.Base(dir))})
	if err != nil {
		t.Fatal(err)
	}
	return append(append(list, bash), more...)
}

func raw(tool, args string) events.RawCall {
	return events.RawCall{ProviderID: "id", Tool: tool, Args: events.Body{Text: args}}
}

// say decides what anyone may, appends what follows, and wakes who must know.
func (h *house) say(key events.TurnKey, cmd lifecycle.Command) {
	h.t.Helper()
	for {
		log := h.load(key)
		at, plain := uint64(0), []events.Commit(nil)
		for _, s := range log {
			at, plain = s.Seq, append(plain, s.Commit)
		}
		now := h.now().UTC().Truncate(time.Microsecond)
		out, err := lifecycle.Decide(lifecycle.Fold(key, plain...), lifecycle.Env{Now: now}, cmd)
		if err != nil {
			h.t.Fatalf("%T: %v", cmd, err)
		}
		s, err := h.view.Append(h.t.Context(), events.Commit{ID: ulid.Make().String(), Turn: key, At: now, Records: out}, at)
		if err != nil {
			continue // its owner was quicker
		}
		it := bus.Item{ID: s.Commit.ID, Turn: key, Seq: s.Seq}
		if _, first := cmd.(lifecycle.Submit); first {
			err = h.view.Push(h.t.Context(), it)
		} else {
			err = h.view.Wake(h.t.Context(), it)
		}
		if err != nil {
			h.t.Fatal(err)
		}
		return
	}
}

func (h *house) load(key events.TurnKey) []bus.Stored {
	h.t.Helper()
	log, err := h.view.Load(h.t.Context(), key, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	return log
}

// run submits a turn.
func (h *house) run(trace string, s events.TurnSubmitted) events.TurnKey {
	h.t.Helper()
	key := events.TurnKey{Trace: trace, Turn: fmt.Sprintf("t%d", len(h.keys)+1)}
	h.keys = append(h.keys, key)
	if s.Principal.ID == "" {
		s.Principal.ID = "agent"
	}
	h.say(key, lifecycle.Submit{Turn: s})
	return key
}

// until waits for a fact of a turn.
func (h *house) until(key events.TurnKey, ok func(lifecycle.Turn) bool) {
	h.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		var plain []events.Commit
		for _, s := range h.load(key) {
			plain = append(plain, s.Commit)
		}
		turn := lifecycle.Fold(key, plain...)
		if ok(turn) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			h.t.Fatalf("%s: waited in vain: %+v", key, turn)
		}
	}
}

func ended(t lifecycle.Turn) bool { return t.Ended != nil }

var ann = events.Principal{ID: "ann", Kind: "person"}

// day is a bit of everything that one node can do.
func day(t *testing.T) *house {
	h := newHouse(t, false)
	if err := os.WriteFile(filepath.Join(h.dir, "a.txt"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reads := h.run("w1", events.TurnSubmitted{Calls: []events.RawCall{
		raw("Read", `{"path":"a.txt"}`), raw("Grep", `{"pattern":"one"}`), raw("Glob", `{"pattern":"*.txt"}`), raw("echo", `{"v":1}`), raw("Read", `{"path":"../x"}`),
	}})
	writes := h.run("w1", events.TurnSubmitted{Disjoint: true, Calls: []events.RawCall{
		raw("Write", `{"path":"b.txt","text":"x"}`), raw("Write", `{"path":"c.txt","text":"y"}`), raw("Read", `{"path":"b.txt"}`), raw("Edit", `{"path":"b.txt","old_string":"x","new_string":"z"}`),
	}})
	shells := h.run("w1", events.TurnSubmitted{Calls: []events.RawCall{
		raw("Bash", `{"command":"ls"}`), raw("Bash", `{"command":"rm -rf ."}`), raw("bash", `{"command":"exit 3"}`), raw("Bash", `{"command":"curl https://example.com"}`), raw("Bash", `{`),
	}})
	odd := h.run("w2", events.TurnSubmitted{Mode: events.ModeRead, Calls: []events.RawCall{
		raw("Write", `{"path":"d.txt","text":"x"}`), raw("nosuch", `{}`), raw("echo", `{"w":1}`), raw("fetch", `{"url":"https://example.com"}`), raw("echo", `{"v":"\u202e"}`),
		{ProviderID: "cut", Tool: "echo", Args: events.Body{Text: "{}"}, Refused: &events.Refusal{Code: events.TruncatedByModel, Reason: "cut"}},
	}})
	troubled := h.run("w2", events.TurnSubmitted{Calls: []events.RawCall{
		raw("flaky", `{"fail_n":1}`), raw("panic", `{}`), raw("nil", `{}`), raw("charge", `{"order":"o1","amount":3}`), raw("blob", `{"bytes":90000,"kind":"text"}`),
	}})
	narrow := h.run("w2", events.TurnSubmitted{Allow: []string{"echo"}, OnError: events.OnErrorAbortRest, Calls: []events.RawCall{
		raw("echo", `{"v":1}`), raw("charge", `{"order":"o2","amount":3}`), raw("echo", `{"v":2}`),
	}})
	people := h.run("w3", events.TurnSubmitted{CanAsk: true, Calls: []events.RawCall{
		raw("approve_me", `{"v":1}`), raw("Bash", `{"command":"cp a.txt e.txt"}`), raw("approve_me", `{"v":2}`), raw("Bash", `{"command":"mv a.txt f.txt"}`),
	}})
	h.until(people, func(t lifecycle.Turn) bool { return t.Parked != nil && len(t.Parked.Waiting) == 4 })
	h.say(people, lifecycle.Approve{Call: 0, By: ann})
	h.say(people, lifecycle.Approve{Call: 1, By: ann, Scope: events.ScopeSession})
	h.say(people, lifecycle.Reject{Call: 2, By: ann, Note: "not today"})
	h.say(people, lifecycle.CancelCall{Call: 3, By: ann, Reason: "enough"})
	slow := h.run("w3", events.TurnSubmitted{Calls: []events.RawCall{raw("sleep", `{"ms":600000}`), raw("echo", `{"v":1}`)}})
	h.until(slow, func(t lifecycle.Turn) bool { return t.Calls[0].Phase == lifecycle.PhaseStarted && !t.Calls[1].Open() })
	h.say(slow, lifecycle.CancelTurn{By: ann, Reason: "stop"})
	for _, k := range []events.TurnKey{reads, writes, shells, odd, troubled, narrow, people, slow} {
		h.until(k, ended)
	}
	same := h.run("w3", events.TurnSubmitted{CanAsk: true, Limits: events.Limits{DeadlineMS: 60_000}, Calls: []events.RawCall{
		raw("Bash", `{"command":"cp a.txt e.txt"}`), raw("charge", `{"order":"o1","amount":3}`), raw("down", `{"path":"a.txt"}`),
	}})
	h.until(same, ended)
	unasked := h.run("w3", events.TurnSubmitted{Calls: []events.RawCall{raw("Bash", `{"command":"cp a.txt e.txt"}`), raw("Bash", `{"command":"cp a.txt g.txt"}`)}})
	h.until(unasked, func(turn lifecycle.Turn) bool {
		if ended(turn) && (turn.Calls[0].Last != events.KindCompleted || turn.Calls[1].Last != events.KindDenied) {
			t.Errorf("a yes for the session where nobody can be asked: %s and %s", turn.Calls[0].Last, turn.Calls[1].Last)
		}
		return ended(turn)
	})
	return h
}

// TestARealNodesLog is what is found of all that a node has done.
func TestARealNodesLog(t *testing.T) {
	h := day(t)
	t.Run("is_decided_the_same", func(t *testing.T) { decidedTheSame(t, h) })
	t.Run("differs_by_another_policy", func(t *testing.T) { differsByAnotherPolicy(t, h) })
	t.Run("is_surveyed", func(t *testing.T) { surveyed(t, h) })
}

// decidedTheSame: today's deciders, and the policy that the node had, decide every event
// again as it is.
func decidedTheSame(t *testing.T, h *house) {
	kinds := map[events.Kind]bool{}
	off := false
	for _, k := range h.keys {
		log := h.load(k)
		for _, s := range log {
			for _, r := range s.Commit.Records {
				kinds[r.Event.Kind()] = true
			}
		}
		for name, c := range map[string]again.Config{
			"deciders": {Strict: true},
			"policy":   {Policy: policy.Default(), Strict: true, Settings: again.Settings{Network: &off, Workspace: h.dir}},
			"unknown":  {Policy: policy.Default()},
		} {
			for n := range len(log) { // every prefix, too: it may still run
				c.Body = h.body
				r := again.Turn(k, log[:n+1], c)
				if r.Difference != nil || r.Stopped != nil || r.Decided != r.Events {
					t.Fatalf("%s, %s, %d commits: %v, %+v", k, name, n+1, r.Difference, r.Stopped)
				}
			}
		}
	}
	for _, k := range []events.Kind{
		events.KindDenied, events.KindApprovalRequested, events.KindApproved, events.KindRetrying, events.KindFailed, events.KindCancelled,
		events.KindCompleted, events.KindTurnParked, events.KindTurnCancelRequested, events.KindTurnCompleted,
	} {
		if !kinds[k] {
			t.Errorf("the node wrote no %s: this test shows less than it means to", k)
		}
	}
}

func (h *house) body(ref events.BlobRef) (string, bool) {
	b, err := h.view.Blobs().Get(h.t.Context(), ref)
	return string(b), err == nil
}

// noCharge is the default policy, but for one tool.
func noCharge(tool string) policy.Authorizer {
	return append(policy.New(policy.Config{}), policy.Rule{ID: "test.off", Version: "1", Judge: func(r policy.Request) policy.Finding {
		if r.Tool != tool {
			return policy.Finding{}
		}
		return policy.Finding{Decision: policy.Deny, Reason: "It is off this week."}
	}})
}

func differsByAnotherPolicy(t *testing.T, h *house) {
	var found []string
	for _, k := range h.keys {
		if d := again.Turn(k, h.load(k), again.Config{Policy: noCharge("charge")}).Difference; d != nil {
			found = append(found, k.String())
			if d.Call < 0 || !strings.HasPrefix(d.Recorded, "authorized") || d.Decided != "denied PERMISSION_DENIED by authorize" || d.Why != "It is off this week." {
				t.Errorf("%s: %s", k, d)
			}
		}
	}
	if got := strings.Join(found, " "); got != "w2/t5" { // before it stand w2/t6's own allowlist, and w3/t9's key
		t.Errorf("turns with a difference: %s", got)
	}
}

// TestReadingsAreTheToolsOwn: what is read here from arguments is what the tools say.
func TestReadingsAreTheToolsOwn(t *testing.T) {
	args := []string{
		`{}`, `{"path":"a"}`, `{"path":"../a"}`, `{"path":"./a/../b"}`, `{"path":""}`, `{"path":7}`, `{"command":"ls -l"}`, `{"command":"rm x"}`, `{"command":"pwd\nrm -r x"}`,
		`{"command":"curl https://a.example/x > y"}`, `{"command":7}`, `{"url":"https://Example.COM./a"}`, `{"url":"http://a:8080/"}`, `{"url":"ftp://a/"}`, `{"url":"http://u@127.0.0.1/"}`,
		`{"url":"http://[::1]/"}`, `{"url":"http://[fe80::1%25eth0]/"}`, `{"url":"http://a b/"}`, `{"url":"http://a:0/"}`, `{"url":""}`, `{"url":"//a/b"}`, `{"url":"http:///x"}`, `{"url":"http://a:80/"}`, `{"url":"https://a:443/"}`, `{"url":"https://a:80/"}`, `{"url":"http://./"}`, `{"url":"http://a:/"}`, `{"v":1}`, `{"readonly":true}`, `{"readonly":7}`,
	}
	for _, tool := range realTools(t, t.TempDir()) {
		if !again.Readable(tool.Name) {
			t.Errorf("%s cannot be read: give it a row in readings", tool.Name)
			continue
		}
		for _, a := range args {
			op, tier := events.Operation{Class: events.OpExecute}, tool.Tier
			if tool.TierOf != nil {
				tier = tool.TierOf(json.RawMessage(a))
			}
			if tier == events.Readonly {
				op.Class = events.OpRead
			}
			if tool.Operation != nil {
				op = tool.Operation(json.RawMessage(a))
			}
			gotOp, gotTier := again.ReadCall(tool.Name, json.RawMessage(a))
			if fmt.Sprintf("%+v %s", op, tier) != fmt.Sprintf("%+v %s", gotOp, gotTier) {
				t.Errorf("%s %s: %+v %s, the tool says %+v %s", tool.Name, a, gotOp, gotTier, op, tier)
			}
		}
	}
}
