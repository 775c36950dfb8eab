package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/sluice-run/sluice/gateway"
)

// asking is a place whose nodes ask about everything: by a policy of their own, which a
// replay of what they leave would have to be given.
func asking(t *testing.T) (p *place, policy string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p = &place{t: t, data: filepath.Join(dir, "data"), work: filepath.Join(dir, "work"), ledger: filepath.Join(dir, "ledger.jsonl")}
	policy = filepath.Join(dir, "all.cedar")
	if err := os.Mkdir(p.work, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "@id(\"look\") @ask(\"Somebody must look at it.\")\npermit (principal, action, resource);\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p, policy
}

// page is an approval as every door gives it.
type page struct {
	pending
	ID, State, Visible string
	Asking             int
	Args               struct{ Text string }
	Warnings           []string
	Preview            struct {
		Kind   string
		Text   struct{ Text string }
		Failed string
		Base   []struct{ Path, Digest string }
	}
	Decision struct {
		State, Note string
		By          struct{ ID string }
	}
}

// hides says which character of a text a terminal would hide or obey; 0 if none.
func hides(text string) rune {
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r >= 0xE0000 || unicode.IsSpace(r) && r != ' ') {
			return r
		}
	}
	return 0
}

// tricks are command lines that would deceive who reads them on a terminal.
var tricks = []string{
	"rm -rf ~ #\u001b[2K\u001b[1Gls -la END0",
	"echo a\u202eb\u2066c\u200dd\ufeff END1",
	"echo \u001b]52;c;aGk=\a END2",
	"ls\rrm x END3",
	"echo \U000e0041\U000e007f\u0085\u009b2K\u00ad END4",
	"echo x\n\n  why      nothing\n  hash     sha256:00\napproval    fake/t/0  approved\n  | ls END5",
	"ls" + strings.Repeat(" ", 5000) + "; rm -rf / END6",
	"echo " + strings.Repeat("x", 20_000) + "; rm END7",
	"r\u043c -rf x; \uff52\uff4d x END8",
	"echo a\u2028b\u3000c\u00a0d END9",
}

// TestEveryDoorShowsTheSame page: the whole of the call, and nothing that a terminal
// obeys; its JSON is exact.
func TestEveryDoorShowsTheSame(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var mu sync.Mutex
	told := map[string]page{}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct{ Data page }
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		told[e.Data.ID] = e.Data
	}))
	t.Cleanup(hook.Close)
	n := p.serve("--webhook", hook.URL)
	tu := turn{Trace: "doors", Turn: "t", CanAsk: true}
	for _, line := range tricks {
		tu.Calls = append(tu.Calls, ask(line))
	}
	n.submit(tu)
	n.inbox("doors", len(tricks))
	for what, text := range map[string]string{
		"inbox": must(t, "inbox", "--data", p.data), "inbox --nats": must(t, "inbox", "--nats", n.NATS),
		"inbox --json": must(t, "inbox", "--data", p.data, "--json"),
	} {
		if r := hides(text); r != 0 {
			t.Errorf("%s shows %U", what, r)
		}
		for i := range tricks {
			if end := "END" + string(rune('0'+i)); !strings.Contains(text, end) {
				t.Errorf("%s does not show %s", what, end)
			}
		}
		for l := range strings.SplitSeq(text, "\n") {
			if what != "inbox --json" && (strings.HasPrefix(l, "approval    fake") || l == "  hash     sha256:00") {
				t.Errorf("%s has a line of the command's own: %q", what, l)
			}
		}
	}
	var list struct{ Approvals []page }
	n.get("/v1/approvals", &list)
	poll(t, "the webhook was told of all", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) == len(tricks)
	})
	for _, in := range list.Approvals {
		mu.Lock()
		hooked := told[in.ID].Visible
		mu.Unlock()
		everywhere(t, p, n, in, hooked)
	}
	n.post("/v1/turns/doors/t/cancel", nil)
	n.end("doors", "t")
}

// everywhere compares what the doors show of one approval.
func everywhere(t *testing.T, p *place, n *node, in page, hooked string) {
	t.Helper()
	shown := must(t, "inbox", "show", "--data", p.data, in.key())
	var one page
	n.get("/v1/approvals/"+in.key(), &one)
	same := func(what, text string) {
		if a, b := withoutAge(text), withoutAge(shown); a != b {
			t.Errorf("%s: %s shows\n%s\nand inbox show\n%s", in.ID, what, a, b)
		}
	}
	same("HTTP's page", one.Visible)
	same("HTTP's list", in.Visible)
	same("the webhook", hooked)
	if r := hides(shown); r != 0 || !strings.Contains(shown, "END") || !strings.Contains(shown, "a person must agree to") || !strings.Contains(shown, "local (agent)") {
		t.Errorf("%s: %U in\n%s", in.ID, r, shown)
	}
	var exact struct{ V string }
	if err := json.Unmarshal([]byte(one.Args.Text), &exact); err != nil || exact.V != tricks[in.Call.Call] {
		t.Errorf("%s: the arguments are %q, want %q, %v", in.ID, one.Args.Text, tricks[in.Call.Call], err)
	}
	if in.Call.Call != 6 && in.Call.Call != 7 && in.Call.Call != 5 && len(in.Warnings) == 0 {
		t.Errorf("%s: nobody is warned", in.ID)
	}
}

// withoutAge is a page without the line that says how old it is.
func withoutAge(text string) string {
	_, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return rest
}

// TestADiffIsShownAndBound, and whoever answers something else is told so.
func TestADiffIsShownAndBound(t *testing.T) {
	t.Parallel()
	p, policy := asking(t)
	n := p.serve("--policy", policy)
	p.write("a.txt", "one\ntwo\nthree\n")
	write := func(name, text string) {
		n.submit(turn{Trace: "diff", Turn: name, CanAsk: true, Calls: []call{{Tool: "Write", Args: args{"path": "a.txt", "text": text}}}})
	}
	write("t1", "one\n2\nthree\n")
	n.inbox("diff", 1)
	var one page
	n.get("/v1/approvals/diff/t1/0", &one)
	if one.Preview.Kind != "diff" || !strings.Contains(one.Preview.Text.Text, "\n-two\n+2\n") || len(one.Preview.Base) != 1 || one.Preview.Base[0].Path != "a.txt" || one.Asking != 1 {
		t.Errorf("%+v", one)
	}
	for _, c := range []struct {
		body   args
		status int
		says   string
	}{
		{args{"principal": args{"id": "helper", "kind": "agent"}}, http.StatusForbidden, "may-not-decide"},
		{args{"principal": "local"}, http.StatusForbidden, "may-not-decide"},
		{args{"principal": "ann", "asking": 2}, http.StatusConflict, "not-asking"},
		{args{"principal": "ann", "asking": -1}, http.StatusBadRequest, "bad-request"},
		{args{"principal": "ann", "args_hash": "sha256:00"}, http.StatusConflict, "other-arguments"},
	} {
		if status, body := n.ask(http.MethodPost, "/v1/turns/diff/t1/calls/0/approve", c.body); status != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%v: %d %s", c.body, status, body)
		}
	}
	if out := must(t, "approve", "--data", p.data, "--by", "ann", "diff/t1/0@1"); !strings.Contains(out, "diff/t1/0: approved") || !strings.Contains(out, "Write a.txt") {
		t.Errorf("approve says %s", out)
	}
	n.end("diff", "t1").Calls[0].is(t, "completed", "", "done")
	if s := verb(t, "", "deny", "--data", p.data, "--by", "bob", "diff/t1/0@1"); s.code != 1 || !strings.Contains(s.err, "ann had approved it") {
		t.Errorf("%+v", s)
	}
	n.get("/v1/approvals/diff/t1/0?asking=1", &one)
	if one.State != "approved" || one.Decision.By.ID != "ann" {
		t.Errorf("%+v", one)
	}
	// The file is not what was shown any more.
	write("t2", "1\n")
	n.inbox("diff", 1)
	p.write("a.txt", "theirs\n")
	n.post("/v1/turns/diff/t2/calls/0/approve", args{"principal": "ann", "asking": 1})
	n.end("diff", "t2").Calls[0].is(t, "denied", "CONFLICT", "none")
	if got := p.read("a.txt"); got != "theirs\n" {
		t.Errorf("it was overwritten: %q", got)
	}
}

// TestTheWebhookSurvives its receiver's failures and its node's death: nothing is lost.
func TestTheWebhookSurvives(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	secret := filepath.Join(filepath.Dir(p.data), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var taken []string
	tries, broken := 0, true
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // its node was killed
		}
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get(gateway.HeaderWebhookID)
		want := gateway.WebhookSignature([]byte("0123456789abcdef"), id, r.Header.Get(gateway.HeaderWebhookTimestamp), body)
		if r.Header.Get(gateway.HeaderWebhookSignature) != want {
			t.Errorf("signed %q, want %q", r.Header.Get(gateway.HeaderWebhookSignature), want)
		}
		if tries++; broken {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		taken = append(taken, id)
	}))
	t.Cleanup(hook.Close)
	flags := []string{"--webhook", hook.URL, "--webhook-secret", secret}
	n := p.serve(flags...)
	has := func(ids ...string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(taken, id) })
		}
	}
	n.submit(turn{Trace: "hook", Turn: "a", CanAsk: true, Calls: []call{ask(1), ask(2)}})
	n.inbox("hook", 2)
	poll(t, "it is sent in vain", func() bool { mu.Lock(); defer mu.Unlock(); return tries > 0 })
	n.kill()
	must(t, "approve", "--data", p.data, "--by", "ann", "hook/a/0")
	mu.Lock()
	broken = false
	mu.Unlock()
	n = p.serve(flags...)
	poll(t, "the first is told", has("hook/a/0@1.requested"))
	n.kill()
	n = p.serve(flags...)
	n.submit(turn{Trace: "hook", Turn: "b", CanAsk: true, Calls: []call{ask(3)}})
	poll(t, "all are told", has("hook/a/0@1.requested", "hook/a/1@1.requested", "hook/a/0@1.decided", "hook/b/0@1.requested"))
	n.post("/v1/turns/hook/b/calls/0/deny", args{"principal": "bob"})
	poll(t, "the no is told", has("hook/b/0@1.decided"))
	n.post("/v1/turns/hook/a/cancel", nil)
	poll(t, "the end is told", has("hook/a/1@1.withdrawn"))
}

// TestThreeApproversAfterAllNodesDied: what was asked still stands, one answer counts,
// the others are told whose, and the call runs once.
func TestThreeApproversAfterAllNodesDied(t *testing.T) {
	t.Parallel()
	c := muster(t, 3)
	c.node(0).submit(turn{Trace: "all", Turn: "t", CanAsk: true, Calls: []call{ask("once")}})
	before := c.node(1).inbox("all", 1)
	c.parked("all", "t")
	c.restart()
	if after := c.node(2).inbox("all", 1); asText(t, after) != asText(t, before) {
		t.Errorf("the inbox was\n%s\nand is\n%s", asText(t, before), asText(t, after))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	by := map[string]bool{}
	for i, who := range []string{"ann", "bob", "cee"} {
		wg.Go(func() {
			status, body, err := c.node(i).try(http.MethodPost, before[0].path()+"/approve", args{"principal": who, "asking": 1})
			var out struct {
				Status string
				By     struct{ ID string }
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if status == http.StatusOK && json.Unmarshal(body, &out) == nil {
				by[out.By.ID] = true
				if (out.Status == "approved") != (out.By.ID == who) {
					t.Errorf("%s is told %s", who, body)
				}
			} else if status != http.StatusConflict {
				t.Errorf("%s: %d %s", who, status, body)
			}
		})
	}
	wg.Wait()
	c.node(0).end("all", "t").Calls[0].is(t, "completed", "", "done")
	if len(by) != 1 || c.agreed("once") != 1 || len(of(c.node(1).events("all", "t"), "approved", "0")) != 1 {
		t.Errorf("answers of %v count, and it was done %d times", by, c.agreed("once"))
	}
	proven(t, c.nats.URL())
}
