package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// question is a call whose tool asks a person for a form, has its effect once it was
// answered, and then stalls.
func question(name string, more ...any) call {
	a := args{"message": "may " + name + "?", "fields": []string{"name", "pin:password?"}, "state": name}
	for i := 0; i+1 < len(more); i += 2 {
		a[more[i].(string)] = more[i+1]
	}
	return call{Tool: "ask", Args: a}
}

// answered counts the ledger's lines of a question's call.
func (p *place) answered(v view, n int) (count int) {
	p.t.Helper()
	for _, e := range p.effects() {
		if e.Tool == "ask" && e.Call == fmt.Sprintf("%s/%s/%d", v.Trace, v.Turn, n) {
			count++
		}
	}
	return count
}

// says answers the only form of a call, and returns the status.
func (a *api) says(v view, n, asking int, action string, content any) int {
	a.t.Helper()
	body := args{"principal": "ann", "asking": asking, "action": action}
	if content != nil {
		body["content"] = content
	}
	status, _ := a.ask(http.MethodPost, v.path(n)+"/answer", body)
	return status
}

// TestToolsAskAcrossDeaths: the node dies while a tool waits for a person, while nobody
// runs somebody answers, and it dies again with the answers in its hands.
func TestToolsAskAcrossDeaths(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve()
	v := n.submit(turn{Trace: "asks", Turn: "t", CanAsk: true, Disjoint: true, Limits: map[string]int{"max_concurrency": 8}, Calls: []call{
		question("alive"), question("offline"), question("stalls", "stall_ms", forever), question("reads", "readonly", true, "stall_ms", 500),
		question("no"), question("twice", "times", 2), question("cancelled"),
	}})
	for i := range 7 {
		n.until("asks", "t", "input_requested", fmt.Sprint(i))
	}
	n.kill()
	if s := verb(t, "", "answer", "--data", p.data, "--by", "bob", "asks/t/1", "--field", "name=Bob", "--field", "pin=s3cr3t-0f-b0b"); s.code != 0 {
		t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
	}
	n = p.serve()
	if list := n.inbox("asks", 6); list[0].Tool != "ask" {
		t.Errorf("%+v", list)
	}
	n.until("asks", "t", "completed", "1")
	if got := n.says(v, 0, 1, "accept", args{"nom": "x"}); got != http.StatusUnprocessableEntity {
		t.Errorf("an answer that does not fit: %d", got)
	}
	for i, action := range map[int]string{0: "accept", 2: "accept", 3: "accept", 4: "decline", 5: "accept"} {
		content := any(args{"name": fmt.Sprint("ann ", i)})
		if action != "accept" {
			content = nil
		}
		if got := n.says(v, i, 1, action, content); got != http.StatusOK {
			t.Errorf("call %d: %d", i, got)
		}
	}
	for _, i := range []string{"0", "4"} { // BEFORE the kill, which is not about them
		n.until("asks", "t", "completed", i)
	}
	poll(t, "call 2 has had its effect, and call 3 runs", func() bool {
		return p.answered(v, 2) == 1 && len(of(n.events("asks", "t"), "started", "3")) == 2
	})
	n.kill()
	n = p.serve()
	n.until("asks", "t", "unknown", "2")
	poll(t, "call 5 asks again", func() bool { return len(of(n.events("asks", "t"), "input_requested", "5")) == 2 })
	n.post(v.path(6)+"/cancel", nil)
	if got := n.says(v, 5, 2, "accept", args{"name": "ann again"}); got != http.StatusOK {
		t.Errorf("the second asking: %d", got)
	}
	askedAcrossDeaths(t, p, n)
	verified(t, p, n)
}

// askedAcrossDeaths checks what has become of the calls of TestToolsAskAcrossDeaths.
func askedAcrossDeaths(t *testing.T, p *place, n *node) {
	t.Helper()
	v := n.end("asks", "t")
	for i, want := range []struct{ state, code, effects string }{
		{"completed", "", "done"},
		{"completed", "", "done"},
		{"unknown", "UNKNOWN_OUTCOME", "possible"},
		{"completed", "", "none"},
		{"completed", "", "done"},
		{"completed", "", "done"},
		{"cancelled", "CANCELLED", "possible"},
	} {
		v.Calls[i].is(t, want.state, want.code, want.effects)
	}
	for i, want := range []int{1, 1, 1, 0, 0, 1, 0} {
		if got := p.answered(v, i); got != want {
			t.Errorf("call %d had its effect %d times, want %d", i, got, want)
		}
	}
	list := n.events("asks", "t")
	for call, want := range map[string]string{
		"0": "started 1, input_requested, input_given, started 2, completed",
		"2": "started 1, input_requested, input_given, started 2, recovered unknown, unknown",
		"4": "started 1, input_requested, input_given, started 2, completed",
		"5": "started 1, input_requested, input_given, started 2, input_requested, input_given, started 3, completed",
	} {
		got := strings.ReplaceAll(chain(list, call), "recovered continue, ", "")
		if got != want {
			t.Errorf("call %s: %s, want %s", call, got, want)
		}
	}
	if got := chain(list, "3"); !strings.Contains(got, "recovered restart, started 3, completed") && !strings.HasSuffix(got, "input_given, started 2, completed") {
		t.Errorf("call 3: %s", got)
	}
	for _, e := range list {
		if strings.Contains(string(e.Data), "s3cr3t-0f-b0b") {
			t.Errorf("%s has the password: %s", e.Type, e.Data)
		}
	}
}

// TestNobodyAnswersATool: it is told so once the time is over, also where no node lived
// by then, and at once where nobody can be asked.
func TestNobodyAnswersATool(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--approval", "2s")
	v := n.submit(turn{Trace: "silent", Turn: "t", CanAsk: true, Calls: []call{question("silent")}})
	w := n.submit(turn{Trace: "mute", Turn: "t", Calls: []call{question("mute")}})
	n.until("silent", "t", "input_requested", "0")
	n.end("mute", "t").Calls[0].is(t, "completed", "", "done")
	n.kill()
	n = p.serve("--approval", "2s")
	n.end("silent", "t").Calls[0].is(t, "completed", "", "done")
	if p.answered(v, 0) != 0 || p.answered(w, 0) != 0 {
		t.Errorf("%+v", p.effects())
	}
	if got := n.says(v, 0, 1, "decline", nil); got != http.StatusConflict {
		t.Errorf("an answer behind the end: %d", got)
	}
}

// TestAnswersUnderRandomDeaths: a random node of three dies at once behind each round of
// answers. What has had its effect has had it once, and what says that it has not, not.
func TestAnswersUnderRandomDeaths(t *testing.T) {
	t.Parallel()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("reproduce: go test ./test/e2e -run AnswersUnderRandomDeaths -seed=%d", s)
	r := rand.New(rand.NewPCG(s, 7))
	c := muster(t, 3)
	const rounds, each = 3, 4
	for i := range rounds {
		trace := fmt.Sprint("answers", i)
		var turns []view
		for k := range each {
			turns = append(turns, c.node(k).submit(turn{Trace: trace, Turn: fmt.Sprint("a", k), CanAsk: true, Calls: []call{question(fmt.Sprint(i, "-", k)), {Tool: "echo", Args: args{"v": k}}}}))
		}
		c.node(i).inbox(trace, each)
		for _, v := range turns {
			if got := c.node(r.IntN(3)).says(v, 0, 1, "accept", args{"name": "ann"}); got != http.StatusOK {
				t.Errorf("%s/%s: %d", v.Trace, v.Turn, got)
			}
		}
		at := r.IntN(3)
		c.nodes[at].kill()
		c.nodes = append(c.nodes[:at], c.nodes[at+1:]...)
		c.add()
	}
	states := map[string]int{}
	for i := range rounds {
		for k := range each {
			v := c.node(k).end(fmt.Sprint("answers", i), fmt.Sprint("a", k))
			states[v.Calls[0].State]++
			n := c.answered(v, 0)
			switch done := v.Calls[0].State == "completed"; {
			case n > 1, done && n != 1, !done && v.Calls[0].Effects != "possible":
				t.Errorf("%s/%s: %+v, done %d times", v.Trace, v.Turn, v.Calls[0], n)
			}
			v.Calls[1].is(t, "completed", "", "none")
			if list := c.node(k).events(v.Trace, v.Turn); len(of(list, "input_given", "0")) != 1 || len(of(list, "input_requested", "0")) != 1 {
				t.Errorf("%s/%s: %s", v.Trace, v.Turn, chain(list, "0"))
			}
		}
	}
	t.Logf("%v", states)
	proven(t, c.nats.URL())
}
