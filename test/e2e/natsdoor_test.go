package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"
)

// natsPeople are the users of the tests: somebody of each role, whose password is the
// name behind pw-.
var natsPeople = []struct{ name, kind, roles string }{
	{"planner", "agent", "submitter"},
	{"other", "agent", "submitter"},
	{"ann", "person", "approver"},
	{"bob", "person", "approver, operator"},
	{"eye", "service", "observer"},
	{"ops", "person", "operator"},
	{"n1", "service", "node"},
}

// natsUsers writes the file of users, without those that are left out.
func (p *place) natsUsers(without ...string) string {
	p.t.Helper()
	var b strings.Builder
	b.WriteString("users:\n")
	for _, u := range natsPeople {
		hash, err := bcrypt.GenerateFromPassword([]byte("pw-"+u.name), bcrypt.MinCost)
		if err != nil {
			p.t.Fatal(err)
		}
		if !strings.Contains(" "+strings.Join(without, " ")+" ", " "+u.name+" ") {
			fmt.Fprintf(&b, "  - {name: %s, kind: %s, roles: [%s], password: %q}\n", u.name, u.kind, u.roles, hash)
		}
	}
	path := filepath.Join(filepath.Dir(p.work), "nats-users.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// natsURL is a node's address with somebody's credentials.
func (n *node) natsURL(user string) string {
	return strings.Replace(n.NATS, "nats://", "nats://"+user+":pw-"+user+"@", 1)
}

// guest is somebody at the NATS door.
type guest struct {
	t    *testing.T
	nc   *nats.Conn
	name string
}

func (n *node) guest(user string) *guest {
	n.place.t.Helper()
	nc, err := nats.Connect(n.natsURL(user), nats.CustomInboxPrefix("_INBOX."+user), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		n.place.t.Fatalf("connect as %s: %v", user, err)
	}
	n.place.t.Cleanup(nc.Close)
	return &guest{n.place.t, nc, user}
}

// ask asks at the door, once it is open, and returns the answer and its status.
func (g *guest) ask(verb string, body any) (status string, answer []byte) {
	g.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		g.t.Fatal(err)
	}
	poll(g.t, "the door answers "+g.name, func() bool {
		var m *nats.Msg
		m, err = g.nc.Request("sluice.api."+g.name+"."+verb, text, patience)
		if errors.Is(err, nats.ErrNoResponders) {
			return false
		}
		if err != nil {
			g.t.Fatalf("%s asks for %s: %v", g.name, verb, err)
		}
		status, answer = m.Header.Get("Sluice-Status"), m.Data
		if code := m.Header.Get("Nats-Service-Error-Code"); code != "" && code != status {
			g.t.Errorf("status %s and error code %s", status, code)
		}
		return true
	})
	return status, answer
}

func (g *guest) want(status, part, verb string, body any) []byte {
	g.t.Helper()
	got, out := g.ask(verb, body)
	if got != status || !strings.Contains(string(out), part) {
		g.t.Errorf("%s %s %v: %s %s, want %s %s", g.name, verb, body, got, out, status, part)
	}
	return out
}

// ofCall is a body about the first call of a turn.
func ofCall(trace string, more ...any) args {
	out := args{"trace": trace, "turn": "t1", "call": 0}
	for i := 0; i+1 < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// head is where the log ends.
func (n *node) head() string {
	n.place.t.Helper()
	var page struct{ Next string }
	if err := json.Unmarshal(n.guest("eye").want("200", `"next":"`, "events", nil), &page); err != nil {
		n.place.t.Fatal(err)
	}
	return page.Next
}

// TestNATSDoor: who may, over NATS, what over HTTP somebody of that role may, in its own
// name only; and what was approved there ran.
func TestNATSDoor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--nats-users", p.natsUsers())
	planner, ann, bob, eye := n.guest("planner"), n.guest("ann"), n.guest("bob"), n.guest("eye")
	planner.want("202", `"state":"submitted"`, "submit", args{"trace": "door", "turn": "t1", "can_ask": true, "calls": []call{ask("yes")}})
	n.inbox("door", 1)
	planner.want("403", "problem:role", "approve", ofCall("door"))
	eye.want("403", "problem:role", "approve", ofCall("door"))
	ann.want("403", "problem:other-name", "approve", ofCall("door", "principal", "bob"))
	ann.want("400", "unknown field", "approve", ofCall("door", "by", "bob"))
	ann.want("200", `"id":"door/t1/0@1"`, "inbox", nil)
	ann.want("200", `"status":"approved"`, "approve", ofCall("door", "note", "go on"))
	if status, out := bob.ask("approve", ofCall("door")); !strings.Contains(string(out), "already_approved") && !strings.Contains(string(out), "after ann had approved it") {
		t.Errorf("the second one was told %s %s", status, out)
	}
	poll(t, "the approved call runs once", func() bool { return p.agreed("yes") == 1 })
	approved := ""
	for _, e := range n.events("door", "t1") {
		if e.kind() == "approved" {
			approved = e.field("by")
		}
	}
	if !strings.Contains(approved, "ann") || strings.Contains(approved, "bob") {
		t.Errorf("approved by %s", approved)
	}
	planner.want("200", `"state":"completed"`, "submit", args{"trace": "door", "turn": "t2", "wait_ms": 60000, "format": "openai", "message": args{
		"role":       "assistant",
		"tool_calls": []args{{"id": "c1", "type": "function", "function": args{"name": "echo", "arguments": `{"v":1}`}}},
	}})
	n.guest("other").want("403", "its own turns", "turn", args{"trace": "door", "turn": "t1"})
	planner.want("403", "problem:other-name", "submit", args{"principal": "other", "calls": []call{{Tool: "echo"}}})
	eye.want("200", `"next":"`, "events", args{"from": "start", "limit": 1000})
	if list, err := eye.nc.Request("$SRV.PING", nil, patience); err != nil || !strings.Contains(string(list.Data), `"name":"sluice"`) {
		t.Errorf("the service is not found: %v", err)
	}
}

// TestNATSDoorAnswersNowhereElse: a reply subject that is not the asker's own inbox is no
// way to write to the log, to ask in another's name, or to be heard by others.
func TestNATSDoorAnswersNowhereElse(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--nats-users", p.natsUsers())
	planner, ann := n.guest("planner"), n.guest("ann")
	planner.want("202", "", "submit", args{"trace": "deputy", "turn": "t1", "can_ask": true, "calls": []call{ask("no")}})
	n.inbox("deputy", 1)
	before := n.head()
	root, err := nats.Connect(n.NATS, nats.Token(p.token()), nats.CustomInboxPrefix("_INBOX.root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	heard, err := root.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(ofCall("deputy"))
	for _, reply := range []string{
		"", "sluice.ev.deputy.t1", "sluice.ev.x.y", "sluice.wake.deputy.t1", "sluice.turns.default", "sluice.timer.x", "sluice.ask.x", "sluice.api.bob.approve",
		"sluice.api.ann.approve", "$KV.SLUICE_lock.x", "$O.SLUICE_BLOBS.C.x", "_INBOX.bob.x", "_INBOX._node.x", "_INBOX.ann", "_INBOX.ann.", "_INBOX.ann.*", "_INBOX.ann.>",
		"_INBOX.ann..x", "_INBOX.annx.y", "inbox.ann.x", "_INBOX.ann." + strings.Repeat("x", 300), "_INBOX.ann.\u00e4",
	} {
		if err := ann.nc.PublishRequest("sluice.api.ann.approve", reply, body); err != nil {
			t.Logf("the client refuses reply %q: %v", reply, err)
		}
	}
	for _, verb := range []string{"PING", "INFO", "STATS"} { // from a user that may look: an answer in the log would be garbage in it
		if err := n.guest("eye").nc.PublishRequest("$SRV."+verb, "sluice.ev.x.y", nil); err != nil {
			t.Fatal(err)
		}
	}
	traced := &nats.Msg{Subject: "sluice.api.ann.whoami", Header: nats.Header{"Nats-Trace-Dest": {"sluice.ev.x.y"}}}
	if err := ann.nc.PublishMsg(traced); err != nil { // the server itself would tell there what becomes of it
		t.Fatal(err)
	}
	ann.want("200", "", "whoami", nil) // it is heard behind them
	n.guest("eye").want("200", "", "whoami", nil)
	if after := n.head(); after != before {
		t.Errorf("the log went from %s to %s", before, after)
	}
	if list := n.inbox("deputy", 1); len(list) != 1 {
		t.Error("the call was answered")
	}
	if err := root.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := heard.NextMsg(10 * time.Millisecond)
		if err != nil {
			break
		}
		mine := strings.HasPrefix(m.Subject, "_INBOX.ann.") && !strings.HasSuffix(m.Subject, ".") || strings.HasPrefix(m.Subject, "_INBOX.eye.")
		if m.Header.Get("Sluice-Status") != "" && !mine {
			t.Errorf("an answer came on %s", m.Subject)
		}
	}
	if !strings.Contains(n.log.String(), "a request was dropped") {
		t.Error("the node's log does not say that requests were dropped")
	}
}

// token is what this user's own programs find a node by.
func (p *place) token() string {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.data, "sluice.run"))
	if err != nil {
		p.t.Fatal(err)
	}
	var r struct{ Token string }
	if err := json.Unmarshal(b, &r); err != nil || r.Token == "" {
		p.t.Fatalf("no token in the run file: %v", err)
	}
	return r.Token
}

// TestNATSNodeOfItsOwn: a second node whose only right is its role's runs turns, and is
// refused nothing.
func TestNATSNodeOfItsOwn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	users := p.natsUsers()
	first := p.serve("--nats-users", users, "--placements", "elsewhere")
	second := p.join(first.natsURL("n1"), "--nats-users", users)
	ann, planner := first.guest("ann"), first.guest("planner")
	planner.want("202", "", "submit", args{"trace": "far", "turn": "t1", "can_ask": true, "calls": []call{
		ask("far"), {Tool: "charge", Args: args{"amount": 5, "order": "7"}, Key: "k1"}, {Tool: "blob", Args: args{"size": 300_000}},
	}})
	second.inbox("far", 1)
	ann.want("200", "approved", "approve", ofCall("far"))
	second.end("far", "t1")
	planner.want("200", `"state":"completed"`, "turn", args{"trace": "far", "turn": "t1"})
	if p.agreed("far") != 1 {
		t.Errorf("it ran %d times", p.agreed("far"))
	}
	if code := second.stop(); code != 0 {
		t.Errorf("the second node ended with %d", code)
	}
	if log := second.log.String(); strings.Contains(strings.ToLower(log), "permissions violation") {
		t.Errorf("the node was refused something:\n%s", log)
	}
	for user, args := range map[string][]string{
		"ann": {"approve", "far/t1/0"}, "eye": {"tail", "--from", "start", "--follow=false"}, "ops": {"nodes"}, "planner": {"inbox"},
	} {
		if out := verb(t, "", append(args, "--nats", first.natsURL(user))...); out.code != 3 || !strings.Contains(out.err, "--as") {
			t.Errorf("%v with the credentials of %s opens the log: %d %s %s", args, user, out.code, out.out, out.err)
		}
	}
}

// TestNATSThrough: who has only an approver's rights answers on the command line.
func TestNATSThrough(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--nats-users", p.natsUsers())
	as := func(user string, args ...string) []string {
		return append(args, "--as", user, "--nats", n.natsURL(user))
	}
	run := func(code int, part, in string, args ...string) {
		t.Helper()
		got := verb(t, in, args...)
		if got.code != code || !strings.Contains(got.out+got.err, part) {
			t.Errorf("%v: %d %s %s, want %d %s", args, got.code, got.out, got.err, code, part)
		}
	}
	calls := `{"calls":[{"id":"a","tool":"approve_me","args":{"v":"cli"}},{"id":"b","tool":"approve_me","args":{"v":"not"}},{"id":"c","tool":"sleep","args":{"ms":600000}}]}`
	run(0, "cli/t1", calls, as("planner", "submit", "-", "--trace", "cli", "--turn", "t1", "--can-ask", "--wait=false")...)
	n.inbox("cli", 2)
	run(0, `"planner"`, "", as("planner", "whoami")...)
	run(0, "cli/t1/0", "", as("ann", "inbox")...)
	run(0, "cli/t1/1@1", "", as("ann", "inbox", "show", "cli/t1/1")...)
	run(1, "role approver", "", as("planner", "approve", "cli/t1/0")...)
	run(2, "--by", "", as("ann", "approve", "cli/t1/0", "--by", "bob")...)
	run(1, "does not let this user", "", "approve", "cli/t1/0", "--as", "bob", "--nats", n.natsURL("ann"))
	run(3, "refuses the credentials", "", "approve", "cli/t1/0", "--as", "ann", "--nats", strings.Replace(n.natsURL("ann"), "pw-ann", "pw-bob", 1))
	run(0, "approved", "", as("ann", "approve", "cli/t1/0", "--note", "fine")...)
	run(0, "denied", "", as("bob", "deny", "cli/t1/1", "--note", "no")...)
	run(1, "", "", as("ann", "deny", "cli/t1/0")...)
	run(1, "role", "", as("ann", "cancel", "cli/t1")...)
	run(0, "accepted", "", as("ops", "cancel", "cli/t1/2", "--reason", "enough")...)
	run(1, "nothing", "", as("ops", "resolve", "cli/t1/0", "none")...)
	run(2, "want trace/turn", "", as("ops", "cancel", "x")...)
	run(0, `"status":"success"`, `{"calls":[{"tool":"reserve","args":{"item":"seat 4"}}]}`, as("planner", "submit", "-", "--trace", "cli", "--turn", "t4")...)
	run(1, "role", "", as("planner", "compensate", "cli/t4/0")...)
	run(0, "compensated by ops", "", as("ops", "compensate", "cli/t4/0", "--reason", "wrong seat")...)
	run(0, "compensated already, by ops", "", as("ops", "compensate", "cli/t4/0")...)
	run(1, "cannot be undone", "", as("ops", "compensate", "cli/t1/0")...)
	run(2, "settings of its own", "", as("ops", "compensate", "cli/t4/0", "--room", "3")...)
	n.end("cli", "t1")
	run(0, `"status":"success"`, `{"calls":[{"tool":"echo","args":{"v":4711}}]}`, as("planner", "submit", "-", "--trace", "cli", "--turn", "t2")...)
	run(4, "has not ended", `{"calls":[{"tool":"sleep","args":{"ms":600000}}]}`, as("planner", "submit", "-", "--trace", "cli", "--turn", "t3", "--timeout", "50ms")...)
	run(0, "accepted", "", as("planner", "cancel", "cli/t3")...)
	run(2, "settings of its own", `{"calls":[{"tool":"echo"}]}`, as("planner", "submit", "-", "--room", "3")...)
	if p.agreed("cli") != 1 || p.agreed("not") != 0 {
		t.Errorf("agreed %d times to cli, and %d times to not", p.agreed("cli"), p.agreed("not"))
	}
	run(0, "cli/t1", "", "tail", "--data", p.data, "--from", "start", "--follow=false") // this user's own programs need no door
}

// TestNATSThroughOperates: who has only an operator's rights operates on the command line.
func TestNATSThroughOperates(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--nats-users", p.natsUsers())
	for _, c := range []struct {
		user string
		code int
		part string
		args []string
	}{
		{"ops", 0, "every circuit is closed", []string{"breaker"}},
		{"ops", 0, "echo: open for 10m0s; it was closed", []string{"breaker", "open", "echo", "--for", "10m", "--reason", "it lies"}},
		{"ops", 0, "switched off by ops: it lies", []string{"breaker", "list"}},
		{"ops", 0, "state     open", []string{"breaker", "show", "echo"}},
		{"ops", 0, "echo: closed; it was open", []string{"breaker", "reset", "echo"}},
		{"ops", 2, "--for is missing", []string{"breaker", "open", "echo"}},
		{"ops", 2, "--by", []string{"breaker", "open", "echo", "--for", "1m", "--by", "ann"}},
		{"ops", 1, `no node knows such a tool: "Ecko": is echo meant?`, []string{"breaker", "open", "Ecko", "--for", "10m"}},
		{"ops", 0, "Ecko: open for 10m0s", []string{"breaker", "open", "Ecko", "--for", "10m", "--force"}},
		{"ops", 0, `note: no node knows such a tool: "Ecko"`, []string{"breaker", "show", "Ecko"}},
		{"ops", 0, `note: no node knows such a tool: "Ecko"`, []string{"breaker", "reset", "Ecko"}},
		{"planner", 1, "role", []string{"breaker"}},
		{"ann", 1, "role", []string{"breaker", "open", "echo", "--for", "10m"}},
		{"ops", 0, "live", []string{"nodes"}},
		{"ops", 0, `"nodes":[`, []string{"nodes", "--json", "--log=false"}},
		{"ops", 2, "--turns and --log=false", []string{"nodes", "--turns", "--log=false"}},
		{"ops", 0, "no worker announces a tool", []string{"workers"}},
		{"ops", 0, "there are no limits here", []string{"limits"}},
		{"ops", 2, "--limits with --as", []string{"limits", "list", "--limits", "none.yaml"}},
		{"ops", 0, "state      following", []string{"readstore"}},
		{"ops", 2, "--wait with --as", []string{"readstore", "rebuild", "--wait=false"}},
		{"ops", 0, "on the node that answered", []string{"readstore", "rebuild"}},
		{"ann", 1, "role", []string{"policy", "reload"}},
		{"ops", 2, "no --policy", []string{"policy", "reload"}},
		{"planner", 1, "role", []string{"nodes"}},
	} {
		args := append(c.args, "--as", c.user, "--nats", n.natsURL(c.user))
		if got := verb(t, "", args...); got.code != c.code || !strings.Contains(got.out+got.err, c.part) {
			t.Errorf("%v: %d %s %s, want %d %s", args, got.code, got.out, got.err, c.code, c.part)
		}
	}
}

// TestNATSInboxIsFollowed: who may answer follows what waits through the door.
func TestNATSInboxIsFollowed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--nats-users", p.natsUsers())
	submit := func(turn string) {
		n.guest("planner").want("202", "", "submit", args{"trace": "f", "turn": turn, "can_ask": true, "calls": []call{ask(turn)}})
	}
	submit("a")
	n.inbox("f", 1)
	w := launch(t, nil, true, filepath.Join(bin, "sluice-node"), "inbox", "--follow", "--json", "--as", "ann", "--nats", n.natsURL("ann"))
	lines := bufio.NewScanner(w.out)
	lines.Buffer(nil, 1<<20)
	want := func(id, state string) {
		t.Helper()
		var got page
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil || got.ID != id || got.State != state {
			t.Fatalf("followed %s, want %s %s: %s", lines.Text(), id, state, w.log.String())
		}
	}
	want("f/a/0@1", "open")
	submit("b")
	want("f/b/0@1", "open")
	n.guest("ann").want("200", "approved", "approve", args{"trace": "f", "turn": "a", "call": 0})
	want("f/a/0@1", "approved")
	n.guest("ann").want("200", "denied", "deny", args{"trace": "f", "turn": "b", "call": 0})
	want("f/b/0@1", "denied")
	w.signal(syscall.SIGINT)
	if code := w.wait(t); code != 0 {
		t.Errorf("exit %d: %s", code, w.log.String())
	}
}

// TestNATSUsersAnew: SIGHUP takes somebody out, and a file that is wrong changes nothing.
func TestNATSUsersAnew(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	path := p.natsUsers()
	n := p.serve("--nats-users", path)
	ann, bob := n.guest("ann"), n.guest("bob")
	ann.want("200", "", "whoami", nil)
	said := func(what string) {
		t.Helper()
		n.signal(syscall.SIGHUP)
		poll(t, "the node says "+what, func() bool { return strings.Contains(n.log.String(), what) })
	}
	if err := os.WriteFile(path, []byte("users:\n  - {name: ann, roles: [king]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said("were not read anew")
	ann.want("200", "", "whoami", nil)
	p.natsUsers("ann")
	said("were read anew")
	poll(t, "ann is cut off", func() bool { return !ann.nc.IsConnected() })
	bob.want("200", `"approver"`, "whoami", nil)
}

// TestNATSRefusesToStart: users that would let in whom nobody means are no users.
func TestNATSRefusesToStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	good, err := os.ReadFile(p.natsUsers())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(p.work), "wrong.yaml")
	refused := func(part string, mode os.FileMode, text string, more ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		got := verb(t, "", p.args(append([]string{"--nats-users", path}, more...)...)...)
		if got.code != 2 && got.code != 3 || !strings.Contains(got.err, part) || !strings.Contains(got.err, "hint:") && got.code == 2 {
			t.Errorf("%.80s %v: %d %s, want %s", text, more, got.code, got.err, part)
		}
	}
	refused("chmod", 0o666, string(good))
	refused("names no user", 0o600, "")
	refused("role", 0o600, "users:\n  - {name: ann, roles: [king], password: x}\n")
	refused("agent", 0o600, "users:\n  - {name: ann, roles: [approver], password: x}\n")
	refused("bcrypt", 0o600, "users:\n  - {name: ann, kind: person, roles: [approver], password: secret}\n")
	refused("has the role node and others", 0o600, "users:\n  - {name: ann, kind: person, roles: [node, approver], password: x}\n")
	refused("nats_password", 0o600, "users:\n  - {name: ann, roles: [submitter], nats_password: x}\n")
	refused("--listen-nats none", 0o600, string(good), "--listen-nats", "none")
	got := verb(t, "", p.args("--listen-nats", "0.0.0.0:0")...)
	if got.code != 2 || !strings.Contains(got.err, "whoever can connect could write the log") || !strings.Contains(got.err, "--nats-users") {
		t.Errorf("NATS for everybody: %d %s", got.code, got.err)
	}
}

// TestNATSWithoutUsersHasNoDoor: where nothing says who may come in, nobody answers.
func TestNATSWithoutUsersHasNoDoor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve()
	nc, err := nats.Connect(n.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if status, _ := n.ask(http.MethodGet, "/healthz", nil); status != http.StatusOK {
		t.Errorf("health %d", status)
	}
	if _, err := nc.Request("sluice.api.ann.whoami", nil, patience); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("somebody answers: %v", err)
	}
}

// TestNATSOverTLS: with a certificate nobody is heard without TLS, and this user's own
// verbs find their way by themselves.
func TestNATSOverTLS(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cert, key, _ := certificates(t, filepath.Dir(p.work))
	n := p.serve("--nats-users", p.natsUsers(), "--nats-cert", cert, "--nats-key", key)
	if !strings.HasPrefix(n.NATS, "tls://") {
		t.Errorf("the node is at %s", n.NATS)
	}
	url := strings.Replace(n.NATS, "tls://", "tls://planner:pw-planner@", 1)
	if nc, err := nats.Connect(url, nats.NoReconnect()); err == nil {
		nc.Close()
		t.Error("a certificate of nobody is believed")
	}
	run := func(code int, part, in string, args ...string) {
		t.Helper()
		got := verb(t, in, args...)
		if got.code != code || !strings.Contains(got.out+got.err, part) {
			t.Errorf("%v: %d %s %s, want %d %s", args, got.code, got.out, got.err, code, part)
		}
	}
	run(0, `\"status\":\"success\"`, `{"calls":[{"tool":"echo","args":{"v":1}}]}`, "submit", "-", "--as", "planner", "--nats", url, "--tls-ca", cert, "--trace", "tls", "--turn", "t1", "--format", "openai")
	run(3, "", `{"calls":[{"tool":"echo","args":{"v":1}}]}`, "submit", "-", "--as", "planner", "--nats", url)
	run(0, "tls/t1", "", "tail", "--data", p.data, "--from", "start", "--follow=false")
	run(2, "go together", "", p.args("--nats-cert", cert, "--data", p.data+"2")...)
}
