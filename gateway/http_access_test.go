package gateway

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/policy/access"
)

var rewriteAccess = flag.Bool("rewrite", false, "write testdata/access.txt anew")

// tokenOf is the token of a principal of a test.
func tokenOf(id string) string { return "sluice_test-token-of-" + id }

// someone is an entry for a file of principals.
func someone(id, kind string, roles ...access.Role) keys.Principal {
	return keys.Principal{ID: id, Kind: kind, Roles: roles, Tokens: []keys.Token{{SHA256: keys.Digest(tokenOf(id))}}}
}

// everyone is somebody of each role, and two agents.
func everyone() []keys.Principal {
	return []keys.Principal{
		someone("sub", "", access.Submitter), someone("sub2", "agent", access.Submitter), someone("obs", "service", access.Observer),
		someone("mon", "service", access.Monitor), someone("app", "person", access.Approver), someone("ope", "person", access.Operator), someone("adm", "person", access.Admin),
	}
}

func ringOf(t *testing.T, p ...keys.Principal) *keys.Ring {
	t.Helper()
	r, err := keys.File{Principals: p}.Ring()
	must(t, err)
	return r
}

// newGuarded is a door where everybody has to say who they are.
func newGuarded(t *testing.T, change func(*APIConfig)) *door {
	t.Helper()
	ring := ringOf(t, everyone()...)
	return newDoor(t, func(c *APIConfig) {
		c.Keys = func() *keys.Ring { return ring }
		c.Policy = &policyTrial{}
		if change != nil {
			change(c)
		}
	})
}

// policyTrial is a policy that notes who has it read anew.
type policyTrial struct {
	by   []events.Principal
	fail error
}

func (p *policyTrial) PolicyState() json.RawMessage { return json.RawMessage(`{"version":"v1"}`) }

func (p *policyTrial) ReloadPolicy(by events.Principal) (json.RawMessage, error) {
	p.by = append(p.by, by)
	return json.RawMessage(`{"version":"v2"}`), p.fail
}

// as is the header that says who comes.
func as(id string) []string { return []string{"Authorization", "Bearer " + tokenOf(id)} }

// plainRoute is a route's method and a path that fits it, about a turn.
func plainRoute(rt route, turn string) (method, path string) {
	method, path, _ = strings.Cut(rt.pattern, " ")
	return method, strings.NewReplacer("{trace}", "tr", "{turn}", turn, "{call}", "0", "{tool}", "echo",
		"{digest}", "sha256:"+strings.Repeat("0", 64)).Replace(path)
}

// asked is a door with a turn of sub's, and one of sub2's, which both ask.
func asked(t *testing.T) *door {
	t.Helper()
	d := newGuarded(t, nil)
	for _, id := range []string{"sub", "sub2"} {
		d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"`+id+`","can_ask":true,"calls":[{"tool":"echo"}]}`, as(id)...)
		o := newOwner(t, d.log.View("node"))
		o.take()
		o.judge(0, events.Approval)
	}
	return d
}

// TestHTTPAccessTable is who may go which way: each route, tried by each role.
func TestHTTPAccessTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Who may go which way. own: by turns of one's own only; all: by any; yes: no turn is in it. Written by: go test ./gateway -run TestHTTPAccessTable -rewrite\n")
	for _, rt := range NewAPI(APIConfig{Desk: asked(t).desk}).routes() {
		if rt.verb == "" && rt.pattern != healthRoute && rt.pattern != openAPIRoute && rt.pattern != "GET /v1/whoami" {
			t.Errorf("%s has no verb: say who may go that way", rt.pattern)
		}
		fmt.Fprintf(&b, "%s", rt.pattern)
		for _, id := range []string{"", "mon", "sub", "obs", "app", "ope", "adm"} {
			d := asked(t) // what one has done, the next finds undone
			reach := "-"
			for _, turn := range []string{"sub", "sub2"} {
				method, path := plainRoute(rt, turn)
				var headers []string
				if id != "" {
					headers = as(id)
				}
				if rt.pattern == "GET /v1/events" {
					path += "?follow=false&from=start"
				}
				switch status, body := d.do(method, path, "", headers...); {
				case status == http.StatusUnauthorized && id == "":
				case status == http.StatusForbidden && strings.Contains(body, `"type":"urn:sluice:problem:role"`) && id != "":
				case status == http.StatusUnauthorized || status == http.StatusForbidden:
					t.Errorf("%s of %s by %q: %d %s", rt.pattern, turn, id, status, body)
				case turn == "sub":
					reach = "own"
				case reach == "own" && !strings.Contains(rt.pattern, "{turn}"):
					reach = "yes"
				case reach == "own":
					reach = "all"
				default:
					t.Errorf("%s: %q may reach another's turn, and not its own", rt.pattern, id)
				}
			}
			if id == "" {
				id = "nobody"
			}
			fmt.Fprintf(&b, " %s:%s", id, reach)
		}
		b.WriteByte('\n')
	}
	const golden = "testdata/access.txt"
	if *rewriteAccess {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if b.String() != string(want) {
		t.Errorf("who may go which way has changed: look at it, and if it is right run this with -rewrite\n%s", b.String())
	}
}

// TestHTTPAccessIsDocumented: the page's table is the one that holds.
func TestHTTPAccessIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/access.md")
	must(t, err)
	table, err := os.ReadFile("testdata/access.txt")
	must(t, err)
	rows := 0
	for line := range strings.Lines(string(table)) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		row := "| `" + words[0] + " " + words[1] + "` |"
		for _, w := range words[3:] { // without nobody
			_, reach, _ := strings.Cut(w, ":")
			row += " " + strings.TrimSuffix(reach+" ", "- ")
			row = strings.TrimSuffix(row, " ") + " |"
		}
		if rows++; !strings.Contains(string(page), row+"\n") {
			t.Errorf("docs/access.md has no row\n%s", row)
		}
	}
	if rows < 30 {
		t.Errorf("%d rows", rows)
	}
	for _, r := range access.Roles() {
		if !strings.Contains(string(page), "`"+string(r)+"`") {
			t.Errorf("docs/access.md does not tell of the role %s", r)
		}
	}
}

func TestHTTPNobodySubmitsInAnothersName(t *testing.T) {
	d := newGuarded(t, func(c *APIConfig) { c.Known = func(id string) bool { return id == "nat" } })
	n := 0
	submit := func(status int, part, principal string) events.Principal {
		t.Helper()
		n++
		turn := fmt.Sprintf("t%d", n)
		d.want(status, part, "POST", "/v1/turns", `{"trace":"tr","turn":"`+turn+`"`+principal+`,"calls":[{"tool":"echo"}]}`, as("sub")...)
		if status != 202 {
			d.want(404, "no-turn", "GET", "/v1/turns/tr/"+turn, "", as("obs")...)
			return events.Principal{}
		}
		v, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: turn})
		must(t, err)
		return v.Turn.Submitted.Principal
	}
	for said, want := range map[string]string{
		``:                          `{"id":"sub","kind":"agent"}`,
		`,"principal":"sub"`:        `{"id":"sub","kind":"agent"}`,
		`,"principal":{"id":"sub"}`: `{"id":"sub","kind":"agent"}`,
		`,"principal":null`:         `{"id":"sub","kind":"agent"}`,
		`,"principal":"child"`:      `{"id":"child","kind":"agent","parents":["sub"]}`,
		`,"principal":{"id":"child","parents":["sub"]}`:         `{"id":"child","kind":"agent","parents":["sub"]}`,
		`,"principal":{"id":"child","kind":"agent"}`:            `{"id":"child","kind":"agent","parents":["sub"]}`,
		`,"principal":{"id":"c","parents":["b","sub"]}`:         `{"id":"c","kind":"agent","parents":["b","sub"]}`,
		`,"principal":{"id":"c","parents":["b"]}`:               `{"id":"c","kind":"agent","parents":["b","sub"]}`,
		`,"principal":{"id":"sub","kind":"agent","parents":[]}`: `{"id":"sub","kind":"agent"}`,
	} {
		got, err := json.Marshal(submit(202, "", said))
		must(t, err)
		if string(got) != want {
			t.Errorf("%s became %s, want %s", said, got, want)
		}
	}
	for _, said := range []string{
		`"sub2"`, `"adm"`, `"nat"`, `{"id":"c","parents":["nat"]}`, `{"id":"sub","kind":"person"}`, `{"id":"sub","parents":["adm"]}`, `{"id":"child","kind":"person"}`,
		`{"id":"child","kind":"service"}`, `{"kind":"person"}`, `{"parents":["adm"]}`, `{"id":"sub2","parents":["sub"]}`,
		`{"id":"c","parents":["sub2","sub"]}`, `{"id":"c","parents":["sub","adm"]}`, `{"id":"c","parents":["c"]}`, `{"id":"c","parents":["b","b"]}`,
		`"su\u0062 "`, `"sub\u0000"`, `"\u0455ub"`, `"a\r\nb"`, `"ann\u202e"`, `"` + strings.Repeat("a", 200) + `"`,
		`{"id":"c","parents":["a","b","d","e","f","g","h","i","j","k","l","m","n","o","p","q"]}`,
	} {
		submit(403, "other-name", `,"principal":`+said)
	}
}

// TestHTTPActsAreTheCallers: whoever acts is who came in, and a body that says another is
// refused before anything happens.
func TestHTTPActsAreTheCallers(t *testing.T) {
	for _, c := range []struct {
		id, path, body, in string
		done               func(*testing.T, *owner) events.Principal
	}{
		{"app", "/v1/turns/tr/sub/calls/0/approve", `{%s}`, "approve", func(t *testing.T, o *owner) events.Principal { return o.v.Turn.Calls[0].Approved.By }},
		{"sub", "/v1/turns/tr/sub/calls/0/cancel", `{%s}`, "cancel", func(t *testing.T, o *owner) events.Principal { return o.v.Turn.Calls[0].Cancel.By }},
		{"ope", "/v1/turns/tr/sub/cancel", `{%s}`, "cancel", func(t *testing.T, o *owner) events.Principal { return o.v.Turn.Cancel.By }},
	} {
		t.Run(c.in+" by "+c.id, func(t *testing.T) {
			d := asked(t)
			for _, forged := range []string{`"principal":"ann"`, `"principal":"adm"`, `"principal":{"id":"` + c.id + `","parents":["x"]}`, `"principal":{"kind":"service"}`} {
				d.want(403, "other-name", "POST", c.path, fmt.Sprintf(c.body, forged), as(c.id)...)
			}
			d.want(400, "by", "POST", c.path, `{"by":"ann"}`, as(c.id)...)
			o := newOwner(t, d.log.View("node"))
			o.load(events.TurnKey{Trace: "tr", Turn: "sub"})
			if o.v.Turn.Calls[0].Approved != nil || o.v.Turn.Calls[0].Cancel != nil || o.v.Turn.Cancel != nil {
				t.Fatal("a forged act is in the log")
			}
			status, body := d.do("POST", c.path, fmt.Sprintf(c.body, `"principal":"`+c.id+`"`), as(c.id)...)
			if status != 200 && status != 202 {
				t.Fatalf("%d %s", status, body)
			}
			o.load(events.TurnKey{Trace: "tr", Turn: "sub"})
			if by := c.done(t, o); by.ID != c.id {
				t.Errorf("done by %+v", by)
			}
		})
	}
	d := asked(t)
	d.want(403, "other-name", "POST", "/v1/turns/tr/sub/calls/0/deny", `{"principal":"adm"}`, as("app")...)
	d.want(200, "denied", "POST", "/v1/turns/tr/sub/calls/0/deny", `{"note":"no"}`, as("app")...)
	d.want(403, "other-name", "POST", "/v1/breakers/echo/open", `{"for_ms":60000,"principal":"ann"}`, as("ope")...)
	d.want(200, `"status":"open"`, "POST", "/v1/breakers/echo/open", `{"for_ms":60000}`, as("ope")...)
	d.want(200, `"opened_by":"ope"`, "GET", "/v1/breakers/echo", "", as("obs")...)
}

func TestHTTPSubmittersSeeTheirOwn(t *testing.T) {
	d := asked(t)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"kid","principal":"kid","calls":[{"tool":"echo"}]}`, as("sub")...)
	for _, path := range []string{"", "/messages", "/events"} {
		d.want(200, "", "GET", "/v1/turns/tr/sub"+path, "", as("sub")...)
		d.want(200, "", "GET", "/v1/turns/tr/kid"+path, "", as("sub")...)
		d.want(403, `"roles":["observer","approver","operator","admin"]`, "GET", "/v1/turns/tr/sub2"+path, "", as("sub")...)
		d.want(404, "no-turn", "GET", "/v1/turns/tr/none"+path, "", as("sub")...)
	}
	d.want(403, "role", "POST", "/v1/turns/tr/sub2/cancel", "", as("sub")...)
	d.want(202, "accepted", "POST", "/v1/turns/tr/kid/cancel", "", as("sub")...)
	for id, n := range map[string]int{"sub": 1, "sub2": 1, "obs": 2, "app": 2} {
		if out := d.want(200, "", "GET", "/v1/approvals", "", as(id)...); strings.Count(out, `"args_hash"`) != n {
			t.Errorf("%s sees %s", id, out)
		}
	}
	d.want(200, "turn_submitted", "GET", "/v1/events?follow=false&from=start&trace=tr&turn=sub", "", as("sub")...)
	d.want(403, "role", "GET", "/v1/events?follow=false&from=start&trace=tr&turn=sub2", "", as("sub")...)
	d.want(403, "observer", "GET", "/v1/events?follow=false&from=start&trace=tr", "", as("sub")...)
	// The same ids as another's turn: neither attached to, nor read.
	d.want(409, "turn-exists", "POST", "/v1/turns", `{"trace":"tr","turn":"sub2","can_ask":true,"wait_ms":1,"calls":[{"tool":"echo"}]}`, as("sub")...)
}

// TestHTTPTurnsRunInTheirWorkspaces: in no folder but those of the caller, by whatever name.
func TestHTTPTurnsRunInTheirWorkspaces(t *testing.T) {
	p := someone("sub", "", access.Submitter)
	p.Workspaces = []string{"/srv/a", "/srv/b"}
	ring := ringOf(t, p)
	d := newDoor(t, func(c *APIConfig) { c.Keys = func() *keys.Ring { return ring } })
	n := 0
	submit := func(status int, part, dir, want string) {
		t.Helper()
		n++
		d.want(status, part, "POST", "/v1/turns", fmt.Sprintf(`{"trace":"tr","turn":"t%d"%s,"calls":[{"tool":"echo"}]}`, n, dir), as("sub")...)
		if status == 202 {
			d.want(200, `"workspace":"`+want+`"`, "GET", fmt.Sprintf("/v1/turns/tr/t%d", n), "", as("sub")...)
		}
	}
	submit(202, "", ``, "/srv/a")
	submit(202, "", `,"workspace":"/srv/b"`, "/srv/b")
	for _, dir := range []string{"/", "/etc", "/srv", "/srv/a/", "/srv/a/x", "/srv/a/../c", "/srv//a", "/srv/ab", "/SRV/a", `/srv\/a\/x`} {
		submit(403, "problem:workspace", `,"workspace":"`+dir+`"`, "")
	}
	submit(400, "control characters", `,"workspace":"/srv/a\u0000"`, "")
	submit(403, "problem:workspace", `,"principal":"kid","workspace":"/etc"`, "")
	submit(202, "", `,"principal":"kid","workspace":"/srv/b"`, "/srv/b")

	d = newDoor(t, func(c *APIConfig) {
		ring := ringOf(t, someone("sub", "", access.Submitter))
		c.Keys = func() *keys.Ring { return ring }
	})
	for _, dir := range []string{"/", "/etc", "/srv"} { // who has none of his own runs in the node's
		submit(403, "leave it out", `,"workspace":"`+dir+`"`, "")
	}
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"own","calls":[{"tool":"echo"}]}`, as("sub")...)
}

// TestHTTPSubmittersUndoTheirOwn: the tool that undoes looks no further than a trace, and
// a trace is open to whoever knows its id.
func TestHTTPSubmittersUndoTheirOwn(t *testing.T) {
	d := asked(t)
	n := 0
	undo := func(status int, part, id, args string) {
		t.Helper()
		n++
		d.want(status, part, "POST", "/v1/turns", fmt.Sprintf(`{"trace":"tr","turn":"u%d","allow":["compensate"],"calls":[{"tool":"echo"},{"tool":"compensate","args":%s}]}`, n, args), as(id)...)
		if _, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: fmt.Sprintf("u%d", n)}); (err == nil) != (status == 202) {
			t.Errorf("%d, and the turn: %v", status, err)
		}
	}
	undo(202, "", "sub", `{"call":"tr/sub/0"}`)
	undo(403, `"roles":["operator","admin"]`, "sub", `{"call":"tr/sub2/0"}`)
	undo(403, "role", "sub", `"{\"call\":\"tr/sub2/0\"}"`)
	undo(404, "no-turn", "sub", `{"call":"tr/none/0"}`)
	undo(202, "", "sub", `{"cull":"tr/sub2/0"}`) // what the tool refuses
	undo(202, "", "adm", `{"call":"tr/sub2/0"}`)
}

func TestHTTPBlobsOfOwnTurns(t *testing.T) {
	d := newGuarded(t, nil)
	large := `{"v":"` + strings.Repeat("x", 80<<10) + `"}`
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"mine","calls":[{"tool":"echo","args":`+large+`}]}`, as("sub")...)
	v, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: "mine"})
	must(t, err)
	ref := v.Turn.Submitted.Calls[0].Args.Ref
	if ref == nil {
		t.Fatal("the arguments were kept in the commit")
	}
	at := "/v1/blobs/" + ref.Digest
	d.want(200, "xxx", "GET", at, "", as("obs")...)
	d.want(200, "xxx", "GET", at+"?trace=tr&turn=mine", "", as("sub")...)
	d.want(400, "?trace=", "GET", at, "", as("sub")...)
	d.want(403, "role", "GET", at+"?trace=tr&turn=mine", "", as("sub2")...)
	// A turn whose arguments only look like a reference does not open it.
	lie := fmt.Sprintf(`{"digest":%q,"ref":{"digest":%q,"size":1},"whole":{"digest":%q}}`, ref.Digest, ref.Digest, ref.Digest)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"lie","calls":[{"id":"`+ref.Digest+`","tool":"echo","args":`+lie+`}]}`, as("sub2")...)
	d.want(404, "not-found", "GET", at+"?trace=tr&turn=lie", "", as("sub2")...)
}

func TestHTTPWhoami(t *testing.T) {
	d := newGuarded(t, nil)
	d.want(200, `{"principal":{"id":"sub","kind":"agent"},"roles":["submitter"],"via":"token","may":{"cancel":"own","read":"own","submit":"own"}}`, "GET", "/v1/whoami", "", as("sub")...)
	d.want(200, `"approve":"all"`, "GET", "/v1/whoami", "", as("app")...)
	d.want(401, "unauthenticated", "GET", "/v1/whoami", "")
	newDoor(t, nil).want(200, `{"via":"loopback","workspaces":["*"],"may":{"approve":"all"`, "GET", "/v1/whoami", "")
}

// TestWhoamiTellsWhereTurnsRun: the same as where they do run, of which the first is where
// one goes that names none.
func TestWhoamiTellsWhereTurnsRun(t *testing.T) {
	sub := func(dirs ...string) access.Identity {
		return access.Identity{Principal: events.Principal{ID: "sub", Kind: access.KindAgent}, Roles: []access.Role{access.Submitter}, Workspaces: dirs}
	}
	seen := sub("/srv/a")
	seen.Roles = []access.Role{access.Observer}
	for name, c := range map[string]struct {
		id   access.Identity
		want []string
	}{
		"without any":          {sub(), []string{"/srv/own"}},
		"its own":              {sub("/srv/a", "/srv/b"), []string{"/srv/a", "/srv/b"}},
		"anywhere":             {sub("*"), []string{"/srv/own", "*"}},
		"its own and anywhere": {sub("*", "/srv/a"), []string{"/srv/a", "*"}},
		"believed":             {access.Identity{Trusted: true}, []string{"/srv/own", "*"}},
		"who submits nothing":  {seen, nil},
	} {
		got := NewDesk(DeskConfig{Workspace: "/srv/own"}).whoIs(c.id).Workspaces
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		for i, dir := range got {
			if i == 0 {
				if in, err := c.id.Works("", "/srv/own"); err != nil || in != "" && in != dir || in == "" && dir != "/srv/own" {
					t.Errorf("%s: a turn that names none runs in %q, %v", name, in, err)
				}
			}
			if dir == access.Anywhere {
				dir = "/elsewhere"
			}
			if in, err := c.id.Works(dir, "/srv/own"); err != nil || in != dir {
				t.Errorf("%s: %s: %q, %v", name, dir, in, err)
			}
		}
	}
	if got := NewDesk(DeskConfig{}).whoIs(sub()).Workspaces; got != nil {
		t.Errorf("a door without a node says %q", got)
	}
}

func TestHTTPPolicy(t *testing.T) {
	p := new(policyTrial)
	d := newGuarded(t, func(c *APIConfig) { c.Policy = p })
	d.want(200, `"version":"v1"`, "GET", "/v1/policy", "", as("obs")...)
	d.want(403, "operator", "POST", "/v1/policy/reload", "", as("obs")...)
	d.want(403, "other-name", "POST", "/v1/policy/reload", `{"principal":"adm"}`, as("ope")...)
	if len(p.by) != 0 {
		t.Fatalf("reloaded by %v", p.by)
	}
	d.want(200, `"version":"v2"`, "POST", "/v1/policy/reload", "", as("ope")...)
	p.fail = errors.New("a.cedar:1:2: no policy\nb.cedar:3:4: none")
	d.want(422, `a.cedar:1:2: no policy\nb.cedar`, "POST", "/v1/policy/reload", `{"principal":"ope"}`, as("ope")...)
	if len(p.by) != 2 || p.by[0].ID != "ope" {
		t.Errorf("reloaded by %v", p.by)
	}
	newDoor(t, nil).want(404, "no-policy", "GET", "/v1/policy", "")
}
