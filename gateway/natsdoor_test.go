package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/access"
)

// natsDoor is the NATS door of a test, over a log in memory.
type natsDoor struct {
	t    *testing.T
	desk *Desk
	log  *memlog.Log
	door *NATSDoor
	view *memlog.View
}

// natsPeople are somebody of each role.
func natsPeople() map[string]access.Identity {
	out := map[string]access.Identity{}
	for _, p := range everyone() {
		kind := p.Kind
		if kind == "" {
			kind = access.KindAgent
		}
		out[p.ID] = access.Identity{Principal: events.Principal{ID: p.ID, Kind: kind}, Roles: p.Roles, Via: "nats"}
	}
	out["nod"] = access.Identity{Principal: events.Principal{ID: "nod", Kind: access.KindService}, Roles: []access.Role{access.Node}, Via: "nats"}
	return out
}

func newNATSDoor(t *testing.T) *natsDoor {
	t.Helper()
	desk, log := newDesk(t)
	people := natsPeople()
	d := &natsDoor{t: t, desk: desk, log: log, view: log.View("client")}
	d.door = NewNATSDoor(NATSDoorConfig{
		Desk: desk, Doors: log.View("door"), ID: "boot", Version: "v1.2.3",
		Who: func(user string) (access.Identity, bool) { id, ok := people[user]; return id, ok },
		Tools: func(_ context.Context, format string) (json.RawMessage, error) {
			return json.RawMessage(fmt.Sprintf(`[{"format":%q}]`, format)), nil
		},
		Explain: (&trial{}).explain,
	})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.door.Serve(ctx); err != nil {
			t.Errorf("the door ended: %v", err)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait() })
	for { // until it is open
		if _, err := d.view.Knock(within(t), bus.Knock{User: "obs", Verb: "whoami"}); err == nil {
			return d
		}
		if t.Context().Err() != nil {
			t.Fatal("the door does not open")
		}
	}
}

// ask sends a request, and returns its answer.
func (d *natsDoor) ask(user, verb, body string) bus.Answer {
	d.t.Helper()
	a, err := d.view.Knock(within(d.t), bus.Knock{User: user, Verb: verb, Body: []byte(body)})
	must(d.t, err)
	if !json.Valid(a.Body) || (a.Error == "") != (a.Status < 400) {
		d.t.Errorf("%s %s %.200s: %d %q %.200s", user, verb, body, a.Status, a.Error, a.Body)
	}
	if a.Error != "" {
		var p Problem
		must(d.t, json.Unmarshal(a.Body, &p))
		if p.Status != a.Status || p.Type == "" || p.Next == "" {
			d.t.Errorf("%s %s: problem %s", user, verb, a.Body)
		}
	}
	return a
}

// want sends a request, and checks the status and a part of the answer.
func (d *natsDoor) want(status int, part, user, verb, body string) string {
	d.t.Helper()
	a := d.ask(user, verb, body)
	if a.Status != status || !strings.Contains(string(a.Body), part) {
		d.t.Errorf("%s %s %.200s\n got %d %.600s\nwant %d %s", user, verb, body, a.Status, a.Body, status, part)
	}
	return string(a.Body)
}

// asking is a turn of somebody's that waits for a person.
func (d *natsDoor) asking(user, turn string) {
	d.t.Helper()
	d.want(202, `"state":"submitted"`, user, "submit", `{"trace":"tr","turn":"`+turn+`","can_ask":true,"calls":[{"tool":"echo"}]}`)
	o := newOwner(d.t, d.log.View("node"))
	o.take()
	o.judge(0, events.Approval)
}

// TestNATSAccess is who may ask for what, of a turn that is sub's.
func TestNATSAccess(t *testing.T) {
	const call = `{"trace":"tr","turn":"mine","call":0`
	bodies := map[string]string{
		"submit": `{"trace":"tr","turn":"new","calls":[{"tool":"echo"}]}`, "turn": `{"trace":"tr","turn":"mine"}`, "messages": `{"trace":"tr","turn":"mine"}`,
		"history": `{"trace":"tr","turn":"mine"}`, "answer": call + `,"action":"decline"}`, "trace": `{"trace":"tr"}`, "timeline": `{"trace":"tr"}`,
		"breaker": `{"tool":"echo"}`, "breaker_reset": `{"tool":"echo"}`, "breaker_open": `{"tool":"echo","for_ms":60000}`,
		"blob":   `{"digest":"sha256:` + strings.Repeat("0", 64) + `","trace":"tr","turn":"mine"}`,
		"events": `{"trace":"tr","turn":"mine","from":"start"}`, "approval": call + "}", "cancel": call + "}", "approve": call + "}", "deny": call + "}",
		"resolve": call + `,"effects":"done"}`, "compensate": call + "}", "explain": `{"tool":"echo"}`,
	}
	const (
		watches  = " traces trace timeline usage readstore nodes workers limits breakers breaker policy"
		operates = " rebuild breaker_reset breaker_open policy_reload"
	)
	allowed := map[string]string{
		"sub":  "submit turn messages history events inbox approval tools explain cancel blob whoami",
		"sub2": "submit inbox tools explain whoami",
		"obs":  "turn messages history events inbox approval tools explain blob whoami" + watches,
		"app":  "turn messages history events inbox approval tools explain approve deny answer resolve blob whoami",
		"ope":  "turn messages history events inbox approval tools explain cancel resolve compensate blob whoami" + watches + operates,
		"adm":  "submit turn messages history events inbox approval tools explain cancel approve deny answer resolve compensate blob whoami" + watches + operates,
		"nod":  "whoami",
	}
	for user, verbs := range allowed {
		may := " " + verbs + " "
		for _, v := range (&NATSDoor{}).table() {
			d := newNATSDoor(t) // what one has done, the next finds undone
			d.asking("sub", "mine")
			a := d.ask(user, v.name, bodies[v.name])
			refused := a.Status == 403 && strings.Contains(string(a.Body), "urn:sluice:problem:role")
			switch {
			case strings.Contains(may, " "+v.name+" ") == refused:
				t.Errorf("%s %s: %d %s", user, v.name, a.Status, a.Body)
			case refused || a.Status < 300:
			case a.Status == 409 && (v.name == "resolve" || v.name == "compensate" || v.name == "answer"): // there is nothing yet
			case a.Status == 404 && (strings.Contains(string(a.Body), "problem:no-store") || strings.Contains(string(a.Body), "problem:no-policy") || strings.Contains(string(a.Body), "problem:no-workers")):
			case a.Status == 404 && v.name == "blob": // nor is there such a body
			default:
				t.Errorf("%s %s: %d %s", user, v.name, a.Status, a.Body)
			}
		}
	}
	d := newNATSDoor(t)
	d.want(403, "urn:sluice:problem:no-user", "eve", "whoami", "")
	d.want(404, "there are submit, turn", "adm", "destroy", "")
}

// TestNATSNamesWhoActs: the user of the subject acts, whatever the body says.
func TestNATSNamesWhoActs(t *testing.T) {
	d := newNATSDoor(t)
	d.asking("sub", "one")
	const call = `{"trace":"tr","turn":"one","call":0`
	for _, forged := range []string{`"ope"`, `"sub"`, `{"id":"ope","kind":"person"}`, `{"id":"app","kind":"service"}`, `{"kind":"service"}`, `{"id":"app","parents":["adm"]}`} {
		for _, verb := range []string{"approve", "deny", "resolve"} {
			d.want(403, "urn:sluice:problem:other-name", "app", verb, call+`,"principal":`+forged+`}`)
		}
	}
	d.want(403, "urn:sluice:problem:other-name", "sub", "cancel", call+`,"principal":"ope"}`)
	d.want(400, `unknown field \"by\"`, "app", "approve", call+`,"by":"ope"}`)
	d.want(400, "", "app", "approve", call+`,"user":"ope"}`)
	d.want(200, `"status":"approved"`, "app", "approve", call+`,"principal":"app"}`)
	v, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: "one"})
	must(t, err)
	if c := v.Turn.Call(0); c.Approved == nil || c.Approved.By.ID != "app" || c.Approved.By.Kind != access.KindPerson {
		t.Errorf("approved by %+v", c.Approved)
	}
	d.want(202, "accepted", "sub", "cancel", call+`}`)
	if v, err = d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: "one"}); err != nil || v.Turn.Call(0).Cancel.By.ID != "sub" {
		t.Errorf("cancelled by %+v, %v", v.Turn.Call(0).Cancel, err)
	}
	for said, want := range map[string]string{
		``: `{"id":"sub","kind":"agent"}`, `,"principal":"sub"`: `{"id":"sub","kind":"agent"}`, `,"principal":"child"`: `{"id":"child","kind":"agent","parents":["sub"]}`,
		`,"principal":"sub2"`: "", `,"principal":{"id":"sub","kind":"person"}`: "", `,"principal":{"id":"x","parents":["adm","sub","more"]}`: "",
		`,"principal":{"id":"x","parents":["adm"]}`: "",
	} {
		turn := fmt.Sprintf("as%d", len(said))
		body := `{"trace":"tr","turn":"` + turn + `","calls":[{"tool":"echo"}]` + said + `}`
		if want == "" {
			d.want(403, "urn:sluice:problem:other-name", "sub", "submit", body)
			d.want(404, "no-turn", "obs", "turn", `{"trace":"tr","turn":"`+turn+`"}`)
			continue
		}
		d.want(202, "", "sub", "submit", body)
		v, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: turn})
		must(t, err)
		if got, _ := json.Marshal(v.Turn.Submitted.Principal); string(got) != want {
			t.Errorf("%s became %s, want %s", said, got, want)
		}
	}
}

// TestNATSOwnOnly: a submitter finds its own and nothing else, and a child's is its own.
func TestNATSOwnOnly(t *testing.T) {
	d := newNATSDoor(t)
	d.asking("sub", "one")
	d.asking("sub2", "two")
	d.want(202, `"next":{"messages":"sluice.api.sub.messages {\"trace\":\"tr\",\"turn\":\"kid\",\"wait_ms\":60000}","turn":"sluice.api.sub.turn {\"trace\":\"tr\",\"turn\":\"kid\"}",`,
		"sub", "submit", `{"trace":"tr","turn":"kid","principal":"kid","calls":[{"tool":"echo"}]}`)
	d.want(202, `"attached":true,"not_taken":{"can_ask":false,"limits.deadline_ms":0}`, "sub", "submit",
		`{"trace":"tr","turn":"kid","principal":"kid","can_ask":true,"limits":{"deadline_ms":1000},"calls":[{"tool":"echo"}]}`)
	d.want(200, `"principal":{"id":"kid","kind":"agent","parents":["sub"]}`, "sub", "turn", `{"trace":"tr","turn":"kid"}`)
	for _, verb := range []string{"turn", "messages", "events", "cancel"} {
		d.want(403, "urn:sluice:problem:role", "sub", verb, `{"trace":"tr","turn":"two"}`)
		d.want(403, "urn:sluice:problem:role", "sub2", verb, `{"trace":"tr","turn":"kid"}`)
	}
	d.want(403, "urn:sluice:problem:role", "sub", "events", `{"from":"start"}`)
	d.want(403, "urn:sluice:problem:role", "sub", "events", `{"trace":"tr","from":"start"}`)
	if out := d.want(200, `"turn":"one"`, "sub", "inbox", ""); strings.Contains(out, `"two"`) {
		t.Errorf("the inbox of sub holds %s", out)
	}
	if out := d.want(200, `"turn":"one"`, "app", "inbox", "{}"); !strings.Contains(out, `"turn":"two"`) {
		t.Errorf("the inbox of an approver holds %s", out)
	}
	d.want(200, `"id":"tr/one/0@1"`, "app", "approval", `{"trace":"tr","turn":"one","call":0}`)
	d.want(409, "", "sub2", "submit", `{"trace":"tr","turn":"one","can_ask":true,"calls":[{"tool":"echo"}]}`) // it does not attach to another's
}

// TestNATSBodies: what is no request is a problem that says so, and has no effect.
func TestNATSBodies(t *testing.T) {
	d := newNATSDoor(t)
	d.asking("sub", "one")
	head, err := d.desk.bus.Head(within(t))
	must(t, err)
	for _, c := range []struct{ verb, body, part string }{
		{"turn", ``, "names no turn"},
		{"turn", `{"trace":"tr"}`, "names no turn"},
		{"turn", `{"trace":"tr","turn":"one","call":0}`, "leave call out"},
		{"turn", `{"trace":"a.b","turn":"one"}`, "bad-id"},
		{"turn", `{"trace":"*","turn":">"}`, "bad-id"},
		{"approve", `{"trace":"tr","turn":"one"}`, "names no call"},
		{"approve", `{"trace":"tr","turn":"one","call":-1}`, "call -1"},
		{"approve", `{"trace":"tr","turn":"one","call":"0"}`, "cannot be a string"},
		{"approve", `{"trace":"tr","turn":"one","call":0,"scope":"world"}`, "scope"},
		{"approve", `{"trace":"tr","turn":"one","call":0,"call":1}`, "stands twice"},
		{"approve", `{"Trace":"tr","turn":"one","call":0}`, "did you mean trace?"},
		{"approve", `{"trace":"tr","turn":"one","call":0,"args":[1]}`, "arguments-refused"},
		{"approve", `{"trace":"tr","turn":"one","call":0}{}`, "stands behind"},
		{"approval", `{"trace":"tr","turn":"one","call":0,"asking":-1}`, "asking -1"},
		{"resolve", `{"trace":"tr","turn":"one","call":0,"effects":"maybe"}`, "say none or done"},
		{"compensate", `{"trace":"tr","turn":"one","call":0,"wait_ms":-1}`, "wait_ms -1"},
		{"submit", `{"calls":[]}`, "nothing-to-run"},
		{"submit", `null`, "nothing to run"},
		{"submit", `[`, "ends too early"},
		{"submit", strings.Repeat("[", 100_000), "bad-request"},
		{"events", `{"limit":1001}`, "limit 1001"},
		{"events", `{"from":"yesterday"}`, "send the next"},
		{"events", `{"kinds":["no"]}`, "is none of"},
		{"events", `{"turn":"one"}`, "turn without trace"},
		{"events", `{"wait_ms":30001}`, "wait_ms"},
		{"messages", `{"trace":"tr","turn":"one","format":"klingon"}`, "use one of"},
		{"tools", `{"format":1}`, "cannot be a number"},
		{"whoami", `{"x":1}`, "unknown field"},
		{"inbox", `"x"`, "the body is no object: string"},
		{"turn", `{"trace":1}`, `field \"trace\" cannot be a number`},
		{"cancel", `{"trace":"tr","turn":"nine"}`, "no-turn"},
		{"cancel", `{"trace":"tr","turn":"one","call":7}`, "no-call"},
	} {
		if a := d.ask("adm", c.verb, c.body); a.Status < 400 || a.Status >= 500 || !strings.Contains(string(a.Body), c.part) {
			t.Errorf("%s %.100s: %d %s, want %q", c.verb, c.body, a.Status, a.Body, c.part)
		}
	}
	now, err := d.desk.bus.Head(within(t))
	must(t, err)
	if now != head {
		t.Errorf("the log went from %s to %s", head, now)
	}
}

// TestNATSWaits: a submission can wait for its end, and the answer is HTTP's.
func TestNATSWaits(t *testing.T) {
	d := newNATSDoor(t)
	o := newOwner(t, d.log.View("node"))
	var wg sync.WaitGroup
	wg.Go(func() {
		o.take()
		o.finish("hello")
	})
	d.want(200, `"messages":[{"role":"tool","tool_call_id":"x"`, "sub", "submit",
		`{"trace":"tr","turn":"tu","wait_ms":60000,"tool_calls":[{"id":"x","function":{"name":"echo","arguments":""}}]}`)
	wg.Wait()
	d.want(202, `"state":"submitted"`, "sub", "submit", `{"wait_ms":1,"calls":[{"tool":"echo","args":{"v":1}}]}`)
	d.want(200, `"hello`, "sub", "messages", `{"trace":"tr","turn":"tu","format":"anthropic"}`)
	d.want(200, `"state":"completed"`, "sub", "turn", `{"trace":"tr","turn":"tu"}`)
	d.want(200, `[{"format":"openai"}]`, "sub", "tools", ``)
	d.want(200, `"principal":{"id":"sub","kind":"agent"},"roles":["submitter"],"via":"nats","may":{"cancel":"own","read":"own","submit":"own"}`, "sub", "whoami", "")
}

// TestNATSPages: the log page by page is the log, and gaps and lost tails are told.
func TestNATSPages(t *testing.T) {
	d := newNATSDoor(t)
	for i := range 5 {
		d.want(202, "", "sub", "submit", fmt.Sprintf(`{"trace":"tr","turn":"t%d","calls":[{"tool":"echo"},{"tool":"echo"}]}`, i))
	}
	read := func(body string) (p eventsPage) {
		t.Helper()
		a := d.ask("obs", "events", body)
		if a.Status != 200 {
			t.Fatalf("%s: %s", body, a.Body)
		}
		must(t, json.Unmarshal(a.Body, &p))
		return p
	}
	all := read(`{"from":"start"}`)
	if all.More || len(all.Events) < 5 {
		t.Fatalf("%d events, %t", len(all.Events), all.More)
	}
	var pages []json.RawMessage
	from := "start"
	for range 100 {
		p := read(`{"from":"` + from + `","limit":2}`)
		pages, from = append(pages, p.Events...), p.Next
		if !p.More {
			break
		}
	}
	if fmt.Sprint(pages) != fmt.Sprint(all.Events) || from != all.Next {
		t.Errorf("%d events in pages up to %s, %d at once up to %s", len(pages), from, len(all.Events), all.Next)
	}
	if p := read(`{"from":"` + all.Next + `"}`); len(p.Events) != 0 || p.More || p.Next != all.Next {
		t.Errorf("behind the head: %+v", p)
	}
	if p := read(``); len(p.Events) != 0 || p.Next != all.Next {
		t.Errorf("from now on: %+v", p)
	}
	if p := read(`{"from":"start","kinds":["turn_completed"]}`); len(p.Events) != 0 || p.Next != all.Next {
		t.Errorf("a filter that nothing passes: %+v", p)
	}
	if p := read(`{"from":"start","trace":"tr","turn":"t3"}`); len(p.Events) == 0 || !strings.Contains(string(p.Events[0]), "t3") {
		t.Errorf("of a turn: %s", p.Events)
	}
	ended := make(chan eventsPage, 1)
	go func() {
		a, err := d.view.Knock(within(t), bus.Knock{User: "obs", Verb: "events", Body: []byte(`{"from":"` + all.Next + `","wait_ms":30000}`)})
		var p eventsPage
		if err == nil {
			err = json.Unmarshal(a.Body, &p)
		}
		if err != nil {
			t.Error(err)
		}
		ended <- p
	}()
	d.want(202, "", "sub", "submit", `{"trace":"tr","turn":"late","calls":[{"tool":"echo"}]}`)
	if p := <-ended; len(p.Events) == 0 || !strings.Contains(string(p.Events[0]), "late") {
		t.Errorf("who waited got %+v", p)
	}
	d.log.LoseTail(-1)
	if p := read(`{"from":"1.9999.0"}`); len(p.Events) == 0 || !strings.Contains(string(p.Events[0]), `"notice":"rewound"`) {
		t.Errorf("of a log that was rewound: %s", p.Events)
	}
}

// TestNATSOfOneUser: one user cannot keep the others out.
func TestNATSOfOneUser(t *testing.T) {
	d := newNATSDoor(t)
	var wg sync.WaitGroup
	full := make(chan struct{})
	ctx, stop := context.WithCancel(within(t))
	for i := range natsEach {
		wg.Go(func() {
			_, _ = d.view.Knock(ctx, bus.Knock{User: "sub", Verb: "submit", Body: fmt.Appendf(nil, `{"trace":"w","turn":"t%d","wait_ms":3600000,"calls":[{"tool":"echo"}]}`, i)})
		})
	}
	go func() {
		for {
			d.door.mu.Lock()
			n := d.door.busy["sub"]
			d.door.mu.Unlock()
			if n == natsEach {
				close(full)
				return
			}
			pause(ctx, d.desk.poll)
		}
	}()
	<-full
	d.want(429, "too-many", "sub", "whoami", "")
	d.want(200, "", "sub2", "whoami", "")
	for i := range natsEach { // their turns end
		key := events.TurnKey{Trace: "w", Turn: fmt.Sprintf("t%d", i)}
		_, err := d.desk.CancelTurn(within(t), key, events.Principal{}, "")
		for errors.Is(err, lifecycle.ErrNoTurn) { // it is busy BEFORE its turn is there
			pause(within(t), d.desk.poll)
			_, err = d.desk.CancelTurn(within(t), key, events.Principal{}, "")
		}
		must(t, err)
		o := newOwner(t, d.log.View("node"))
		o.load(key)
		o.do(lifecycle.Claim{Boot: o.boot, Node: "test"})
	}
	wg.Wait()
	stop()
	d.want(200, "", "sub", "whoami", "")
}

// FuzzNATS throws anything at the door: it answers with JSON, without a fault of its own,
// and whom it does not know changes nothing.
func FuzzNATS(f *testing.F) {
	for _, v := range (&NATSDoor{}).table() {
		f.Add("adm", v.name, []byte(`{"trace":"tr","turn":"mine","call":0}`), "")
		f.Add("eve", v.name, []byte(`{"calls":[{"tool":"echo"}]}`), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	}
	f.Add("sub", "submit", []byte(`{"principal":{"id":"x","parents":["adm"]},"message":`+openAI+`}`), "x\r\ny: z")
	f.Add("obs", "events", []byte(`{"from":"1.1.1","limit":3,"kinds":["requested"],"tools":["echo"]}`), "")
	f.Fuzz(func(t *testing.T, user, verb string, body []byte, parent string) {
		if strings.Contains(string(body), "wait_ms") {
			return // nobody ends what would be waited for
		}
		log := memlog.New(memlog.Config{})
		defer log.Close()
		people := natsPeople()
		d := NewNATSDoor(NATSDoorConfig{
			Desk: NewDesk(DeskConfig{Bus: log.View("door")}), Doors: log.View("door"),
			Who: func(user string) (access.Identity, bool) { id, ok := people[user]; return id, ok },
		})
		a := d.Answer(t.Context(), bus.Knock{User: user, Verb: verb, Body: body, Traceparent: parent})
		switch {
		case !json.Valid(a.Body):
			t.Fatalf("%d %q", a.Status, a.Body)
		case a.Status < 200 || a.Status >= 500 && a.Status != 503 || (a.Error == "") != (a.Status < 400):
			t.Fatalf("%d %q %s", a.Status, a.Error, a.Body)
		}
		head, err := d.desk.bus.Head(t.Context())
		must(t, err)
		if _, known := people[user]; head.Seq != 1 && (!known || a.Status >= 400) {
			t.Fatalf("%q %q %q was answered %d, and the log is at %s", user, verb, body, a.Status, head)
		}
	})
}

// TestNATSIsDocumented: the page has a row for each verb, with what each role may.
func TestNATSIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/access-nats.md")
	must(t, err)
	roles := []access.Role{access.Submitter, access.Observer, access.Approver, access.Operator, access.Admin}
	for _, v := range (&NATSDoor{}).table() {
		var row string
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "| `"+v.name+"` |") {
				row = strings.TrimSpace(line)
			}
		}
		var want strings.Builder
		for _, r := range roles {
			reach := r.Reach(v.needs).String()
			switch {
			case v.needs == "":
				reach = "yes"
			case reach == access.None.String():
				reach = ""
			}
			fmt.Fprintf(&want, " %s |", reach)
		}
		plain := func(s string) string { return strings.Join(strings.Fields(s), " ") }
		if !strings.HasSuffix(plain(row), plain(want.String())) {
			t.Errorf("the row of %s is %q, and its roles are%s", v.name, row, want.String())
		}
	}
}
