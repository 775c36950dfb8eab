package gateway

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/bus/vault"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

const whoForm = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":18},"pin":{"type":"string","format":"password"}},"required":["name"]}`

// form is one that asks who somebody is.
func form(id string) events.InputRequest {
	return events.InputRequest{ID: id, Kind: events.InputForm, Message: "who?\x1b[2K", Schema: json.RawMessage(whoForm)}
}

// input has a call's attempt end as its tool asks a person.
func (o *owner) input(call int, expire time.Duration, requests ...events.InputRequest) {
	o.t.Helper()
	c := o.v.Turn.Calls[call]
	o.do(lifecycle.Settle{
		Call: call, Attempt: c.Attempt, Class: events.ClassInput, Answered: true, Confirmed: true,
		Asks: &lifecycle.Asks{Requests: requests, State: "the tool's own", Expire: expire},
	})
}

// running has a turn of some calls whose attempts are open.
func running(t *testing.T, d *Desk, o *owner, key events.TurnKey, args ...string) {
	t.Helper()
	s := echo(args...)
	s.Disjoint = true
	_, err := d.Submit(within(t), key, s)
	must(t, err)
	o.take()
	for i := range args {
		o.judge(i, events.Readonly)
	}
}

// TestAnswerOverHTTP is the way of an answer: the list, the page, each refusal with its
// fields, and whose answer counts.
func TestAnswerOverHTTP(t *testing.T) {
	d := newDoor(t, nil)
	o := newOwner(t, d.log.View("node"))
	key := events.TurnKey{Trace: "tr", Turn: "tu"}
	running(t, d.desk, o, key, `{"v":1}`)
	o.start(0)
	const path = "/v1/turns/tr/tu/calls/0/answer"
	d.want(409, "problem:no-input", "POST", path, `{"action":"decline"}`)
	o.input(0, time.Hour, form("q"))
	out := d.want(200, `"kind":"input"`, "GET", "/v1/approvals", "")
	for _, part := range []string{`"id":"tr/tu/0@i1"`, `"requests":[{"id":"q"`, `"secret":true`, `"message":"who?\u001b[2K"`, `"effects":"none"`} {
		if !strings.Contains(out, part) {
			t.Errorf("the list lacks %s: %s", part, out)
		}
	}
	if strings.Contains(out, "the tool's own") {
		t.Errorf("the tool's state is told: %s", out)
	}
	page := d.want(200, `"state":"open"`, "GET", "/v1/approvals/tr/tu/0?asking=1&kind=input", "")
	if !strings.Contains(page, `name: string, required`) || !strings.Contains(page, "it wants a secret (pin)") {
		t.Errorf("%s", page)
	}
	d.want(404, "no-approval", "GET", "/v1/approvals/tr/tu/0?asking=1", "")
	d.want(400, "kind", "GET", "/v1/approvals/tr/tu/0?kind=x", "")
	for body, part := range map[string]string{
		`{}`: "one action", `{"action":"accept","answers":[{"id":"q","action":"accept"}]}`: "one action",
		`{"answers":[{"id":"q","action":"accept"}],"content":{}}`:                        "belongs to",
		`{"action":"accept","content":{"name":"ann"}}`:                                   "accept, and no asking",
		`{"answers":[{"id":"q","action":"accept"}]}`:                                     "accept, and no asking",
		`{"action":"decline","asking":-1}`:                                               "asking -1",
		`{"answers":[{"id":"q","action":"accept","secrets":[{"id":"x"}]}]}`:              "unknown field",
		`{"answers":[` + strings.Repeat(`{"id":"q","action":"decline"},`, 16) + `null]}`: "17 answers",
	} {
		d.want(400, part, "POST", path, body)
	}
	wrong := d.want(422, "problem:answers-refused", "POST", path, `{"asking":1,"action":"accept","content":{"age":17,"who":1,"pin":"x"}}`)
	var p Problem
	must(t, json.Unmarshal([]byte(wrong), &p))
	if len(p.Fields) != 3 || p.Fields[0] != (FieldProblem{"q", "name", "it is required"}) || p.Fields[1].Field != "age" || p.Fields[2].Why != "the form has no such field" {
		t.Errorf("%+v", p.Fields)
	}
	d.want(422, "nothing is asked as", "POST", path, `{"asking":1,"answers":[{"id":"q","action":"accept","content":{"name":"a"}},{"id":"x","action":"decline"}]}`)
	d.want(422, "there is none to", "POST", path, `{"answers":[{"id":"x","action":"decline"}]}`)
	d.want(422, "no JSON object", "POST", path, `{"asking":1,"action":"accept","content":[1]}`)
	d.want(422, "perhaps", "POST", path, `{"action":"perhaps"}`)
	d.want(422, "nowhere to keep it", "POST", path, `{"asking":1,"action":"accept","content":{"name":"a","pin":"hunter22"}}`)
	d.want(403, "may-not-decide", "POST", path, `{"principal":{"id":"bot","kind":"agent"},"action":"decline"}`)
	d.want(409, "problem:no-input", "POST", path, `{"asking":2,"action":"decline"}`)
	d.want(409, "not-asking", "POST", "/v1/turns/tr/tu/calls/0/approve", `{}`)
	d.want(404, "no-call", "POST", "/v1/turns/tr/tu/calls/9/answer", `{"action":"decline"}`)
	const good = `{"principal":"ann","asking":1,"answers":[{"id":"q","action":"accept","content":{"name":"ann","age":18.0}}],"note":"sure"}`
	d.want(200, `"status":"answered","id":"tr/tu/0@i1","tool":"echo","by":{"id":"ann","kind":"person","via":"loopback"}`, "POST", path, good)
	d.want(200, `"status":"already_answered"`, "POST", path, good)
	d.want(200, `"status":"already_answered","id":"tr/tu/0@i1","tool":"echo","by":{"id":"ann"`, "POST", path, strings.Replace(good, "ann", "bob", 1))
	d.want(200, `"status":"already_answered"`, "POST", path, `{"principal":"ann","asking":1,"action":"accept","content":{ "age": 18, "n\u0061me":"ann"}}`)
	d.want(409, "ann has answered already", "POST", path, `{"principal":"ann","asking":1,"action":"accept","content":{"name":"ann","age":19}}`)
	d.want(409, "ann has answered already", "POST", path, `{"principal":"bob","action":"decline"}`)
	d.want(200, `"approvals":[]`, "GET", "/v1/approvals", "")
	d.want(200, `"answers":[{"id":"q","action":"accept","content":{"name":"ann","age":18.0}}]`, "GET", "/v1/approvals/tr/tu/0", "")
	o.load(key)
	if g := o.v.Turn.Calls[0].Answered; g == nil || g.By.ID != "ann" || string(g.Answers[0].Content) != `{"name":"ann","age":18.0}` || g.Note != "sure" {
		t.Errorf("%+v", g)
	}
}

// TestAnswerOverNATS: the same bodies, and the user of the subject answers.
func TestAnswerOverNATS(t *testing.T) {
	d := newNATSDoor(t)
	o := newOwner(t, d.log.View("node"))
	key := events.TurnKey{Trace: "tr", Turn: "tu"}
	running(t, d.desk, o, key, `{"v":1}`)
	o.start(0)
	o.input(0, time.Hour, form("q"))
	const call = `{"trace":"tr","turn":"tu","call":0`
	d.want(200, `"id":"tr/tu/0@i1"`, "obs", "inbox", "")
	d.want(200, `"state":"open"`, "obs", "approval", call+`,"asking":1,"kind":"input"}`)
	d.want(404, "no-approval", "obs", "approval", call+`,"asking":1}`)
	d.want(403, "problem:role", "sub", "answer", call+`,"action":"decline"}`)
	d.want(403, "other-name", "app", "answer", call+`,"action":"decline","principal":"ope"}`)
	d.want(422, "answers-refused", "app", "answer", call+`,"asking":1,"action":"accept","content":{}}`)
	d.want(400, "accept, and no asking", "app", "answer", call+`,"action":"accept","content":{}}`)
	d.want(200, `"by":{"id":"app"`, "app", "answer", call+`,"asking":1,"action":"decline"}`)
}

// TestSeveralRequestsAreAnsweredTogether: each by its id, in any order, and what is said
// for all of them.
func TestSeveralRequestsAreAnsweredTogether(t *testing.T) {
	d, log := newDesk(t)
	o := newOwner(t, log.View("node"))
	running(t, d, o, key1, `{"v":1}`)
	o.start(0)
	page := events.InputRequest{ID: "p", Kind: events.InputURL, URL: "https://example.com/sign"}
	free := events.InputRequest{ID: "f", Kind: "sampling/createMessage", Raw: json.RawMessage(`{"messages":[]}`)}
	o.input(0, time.Hour, form("q"), page, free)
	id := ApprovalID{Call: key1.Call(0), Input: true}
	_, err := d.Answer(within(t), id, Answering{Action: events.InputAccept, Content: json.RawMessage(`{"name":"x"}`)})
	if !errors.Is(err, lifecycle.ErrAnswers) || !strings.Contains(err.Error(), "by its id") {
		t.Errorf("one content for three: %v", err)
	}
	out, err := d.Answer(within(t), id, Answering{Answers: []events.InputAnswer{
		{ID: "f", Action: events.InputAccept, Content: json.RawMessage(`{"any":["thing",{"deep":1}]}`)},
		{ID: "p", Action: events.InputAccept},
		{ID: "q", Action: events.InputDecline},
	}})
	must(t, err)
	if got := out.Answers; len(got) != 3 || got[0].ID != "q" || got[1].ID != "p" || got[2].ID != "f" || string(got[2].Content) != `{"any":["thing",{"deep":1}]}` {
		t.Errorf("%+v", out)
	}
}

// TestASecretAnswerIsSealed: what a form asks for as a password, and what looks like a
// secret, is in the vault and not in the log.
func TestASecretAnswerIsSealed(t *testing.T) {
	log := memlog.New(memlog.Config{})
	v, err := vault.New(vault.Config{})
	must(t, err)
	d := NewDesk(DeskConfig{Bus: log.View("door"), Vault: v})
	o := newOwner(t, log.View("node"))
	running(t, d, o, key1, `{"v":1}`)
	o.start(0)
	o.input(0, time.Hour, form("q"))
	const pin, token = "correct horse", "sk-AAAAAAAAAAAAAAAAAAAAAAAA"
	content := json.RawMessage(`{"name":"my key is ` + token + `","pin":"` + pin + `"}`)
	out, err := d.Answer(within(t), ApprovalID{Call: key1.Call(0)}, Answering{Action: events.InputAccept, Content: content})
	must(t, err)
	told, err := json.Marshal(out)
	must(t, err)
	o.load(key1)
	given := o.v.Turn.Calls[0].Answered.Answers[0]
	stored, err := events.Encode(o.v.Commits[len(o.v.Commits)-1].Commit)
	must(t, err)
	for _, secret := range []string{pin, token} {
		if strings.Contains(string(stored), secret) || strings.Contains(string(told), secret) {
			t.Errorf("%q is in the clear: %s", secret, told)
		}
	}
	if len(given.Secrets) != 2 {
		t.Fatalf("%+v", given)
	}
	values, err := v.Open(within(t), key1.Call(0), given.Secrets)
	must(t, err)
	for _, r := range given.Secrets {
		if got := values[r.ID].Text(); r.Path == "/pin" && got != pin || r.Path == "/name" && got != token {
			t.Errorf("%s is %q", r.Path, got)
		}
	}
}

// TestWebhookTellsOfInputs: what is asked, and how it was answered, expired or withdrawn.
func TestWebhookTellsOfInputs(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	running(t, d, o, turnKey("before"), `{"v":1}`)
	o.start(0)
	o.input(0, time.Hour, form("q"))
	r := newReceiver(t, nil)
	hooked(t, d, r)
	r.want(t, "run.sluice.input.requested hook/before/0@i1")
	answer := func(turn string) {
		t.Helper()
		_, err := d.Answer(within(t), ApprovalID{Call: turnKey(turn).Call(0)}, Answering{By: events.Principal{ID: "ann"}, Action: events.InputDecline})
		must(t, err)
		o.load(turnKey(turn))
	}
	answer("before")
	o.start(0)
	o.input(0, time.Microsecond, form("q"))
	poll(t, "it has expired", func() bool { return !time.Now().Before(o.v.Turn.Calls[0].Input.Expires) })
	o.do(lifecycle.Expire{Call: 0})
	o.start(0)
	o.input(0, time.Hour, form("q"))
	_, err := d.CancelTurn(within(t), turnKey("before"), events.Principal{}, "enough")
	must(t, err)
	o.load(turnKey("before"))
	o.do(lifecycle.Advance{})
	r.want(t, "run.sluice.input.requested hook/before/0@i1", "run.sluice.input.answered hook/before/0@i1",
		"run.sluice.input.requested hook/before/0@i2", "run.sluice.input.expired hook/before/0@i2",
		"run.sluice.input.requested hook/before/0@i3", "run.sluice.input.withdrawn hook/before/0@i3")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.got {
		if strings.ContainsAny(e.Data.Visible, "\x1b") || e.Data.Kind != projections.PendingInput {
			t.Errorf("%+v", e.Data)
		}
	}
}
