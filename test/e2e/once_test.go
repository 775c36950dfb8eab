package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// charged counts the ledger's lines for an order.
func (p *place) charged(order string) int {
	p.t.Helper()
	n := 0
	for _, e := range p.effects() {
		if e.Tool == "charge" && e.Order == order {
			n++
		}
	}
	return n
}

// TestOneKeyIsOneEffect is about idempotency keys.
func TestOneKeyIsOneEffect(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	for _, c := range []struct {
		name string
		test func(*testing.T, *place, *node)
	}{
		{"a second call names the first", secondNamesFirst},
		{"a caller's key works for any tool", callersKey},
		{"a key with other arguments is a conflict", otherArguments},
		{"calls at the same moment run once", sameMoment},
		{"turns that take keys crosswise do not block each other", crosswise},
		{"the same turn again attaches", attach},
		{"the same turn with other calls is refused", attachOther},
		{"a key is free again after a denial", freeAfterDenial},
		{"an effect whose answer came too late is not repeated", timeoutAfterCommit},
		{"keys belong to a principal", keyOfPrincipal},
		{"a provider's id that repeats is no key", repeatedIDs},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := *n
			at.api = &api{t: t, base: n.base}
			c.test(t, p, &at)
		})
	}
}

func charge(order string, amount int, more ...any) call {
	a := args{"order": order, "amount": amount}
	for i := 0; i < len(more); i += 2 {
		a[more[i].(string)] = more[i+1]
	}
	return call{Tool: "charge", Args: a}
}

func secondNamesFirst(t *testing.T, p *place, n *node) {
	first := n.run(turn{Calls: []call{charge("second", 10)}})
	first.Calls[0].is(t, "completed", "", "done")
	again := n.run(turn{Calls: []call{charge("second", 10)}})
	again.Calls[0].is(t, "deduplicated", "", "")
	want := first.Trace + "/" + first.Turn + "/0"
	if again.Calls[0].Of != want {
		t.Errorf("it names %q, want %q", again.Calls[0].Of, want)
	}
	if k := p.charged("second"); k != 1 {
		t.Errorf("charged %d times", k)
	}
	a, b := answers(t, first.Messages)[0], answers(t, again.Messages)[0]
	if a.Answer != "success" || b.Answer != "success" || a.Content.Text != b.Content.Text {
		t.Errorf("%+v and %+v", a, b)
	}
	if got := of(n.events(again.Trace, again.Turn), "started", ""); len(got) != 0 {
		t.Errorf("it was started: %+v", got)
	}
}

func callersKey(t *testing.T, p *place, n *node) {
	one := call{Tool: "Write", Args: args{"path": "key.txt", "text": "one\n"}, Key: "k-write"}
	first := n.run(turn{Calls: []call{one}})
	first.Calls[0].is(t, "completed", "", "done")
	p.write("key.txt", "changed by hand\n")
	again := n.run(turn{Calls: []call{one}})
	again.Calls[0].is(t, "deduplicated", "", "")
	if p.read("key.txt") != "changed by hand\n" {
		t.Error("it was written twice")
	}
}

func otherArguments(t *testing.T, p *place, n *node) {
	n.run(turn{Calls: []call{charge("conflict", 10, "key", "k1")}})
	v := n.run(turn{Calls: []call{charge("conflict", 11, "key", "k1"), charge("conflict", 10, "key", "k1")}})
	v.Calls[0].is(t, "denied", "IDEMPOTENCY_CONFLICT", "none")
	v.Calls[1].is(t, "deduplicated", "", "")
	if k := p.charged("conflict"); k != 1 {
		t.Errorf("charged %d times", k)
	}
}

func sameMoment(t *testing.T, p *place, n *node) {
	// Within one turn, however its calls are batched.
	v := n.run(turn{Disjoint: true, Calls: []call{charge("moment", 1, "stall_ms", 50), charge("moment", 1, "stall_ms", 50), charge("moment", 1, "stall_ms", 50)}})
	v.Calls[0].is(t, "completed", "", "done")
	for _, c := range v.Calls[1:] {
		c.is(t, "deduplicated", "", "")
		if want := v.Trace + "/" + v.Turn + "/0"; c.Of != want {
			t.Errorf("call %d names %q, want %q", c.Call, c.Of, want)
		}
	}
	// And in many turns at once.
	const turns = 12
	var all []view
	for i := range turns {
		all = append(all, n.submit(turn{Trace: fmt.Sprintf("moment-%d", i), Calls: []call{charge("moments", 1, "stall_ms", 100)}}))
	}
	completed := 0
	for _, s := range all {
		switch end := n.end(s.Trace, s.Turn); end.Calls[0].State {
		case "completed":
			completed++
		case "deduplicated":
		default:
			t.Errorf("%s: %+v", s.Trace, end.Calls[0])
		}
	}
	if completed != 1 || p.charged("moment") != 1 || p.charged("moments") != 1 {
		t.Errorf("%d turns charged; the ledger has %d and %d lines", completed, p.charged("moment"), p.charged("moments"))
	}
}

func crosswise(t *testing.T, p *place, n *node) {
	var all []view
	for i := range 10 {
		a, b := charge(fmt.Sprintf("cross-a%d", i), 1, "stall_ms", 5), charge(fmt.Sprintf("cross-b%d", i), 1, "stall_ms", 5)
		all = append(all,
			n.submit(turn{Trace: fmt.Sprintf("cross-%d-1", i), Calls: []call{a, b}}),
			n.submit(turn{Trace: fmt.Sprintf("cross-%d-2", i), Calls: []call{b, a}}))
	}
	for _, s := range all {
		for _, c := range n.end(s.Trace, s.Turn).Calls {
			if c.State != "completed" && c.State != "deduplicated" {
				t.Errorf("%s: %+v", s.Trace, c)
			}
		}
	}
	for i := range 10 {
		if a, b := p.charged(fmt.Sprintf("cross-a%d", i)), p.charged(fmt.Sprintf("cross-b%d", i)); a != 1 || b != 1 {
			t.Errorf("pair %d was charged %d and %d times", i, a, b)
		}
	}
}

func attach(t *testing.T, p *place, n *node) {
	tu := turn{Trace: "attach", Turn: "t", Calls: []call{charge("attach", 1)}}
	first := n.run(tu)
	again := n.run(tu)
	if first.Attached || !again.Attached {
		t.Errorf("attached: %v, then %v", first.Attached, again.Attached)
	}
	if fmt.Sprintf("%s", first.Messages) != fmt.Sprintf("%s", again.Messages) {
		t.Errorf("other messages: %s and %s", first.Messages, again.Messages)
	}
	if k := p.charged("attach"); k != 1 {
		t.Errorf("charged %d times", k)
	}
}

func attachOther(t *testing.T, _ *place, n *node) {
	n.run(turn{Trace: "attach2", Turn: "t", Calls: []call{{Tool: "echo", Args: args{"v": 1}}}})
	for what, other := range map[string]turn{
		"other arguments": {Trace: "attach2", Turn: "t", Calls: []call{{Tool: "echo", Args: args{"v": 2}}}},
		"other principal": {Trace: "attach2", Turn: "t", Principal: "somebody", Calls: []call{{Tool: "echo", Args: args{"v": 1}}}},
	} {
		if status, body := n.ask(http.MethodPost, "/v1/turns", other); status != http.StatusConflict {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
}

func freeAfterDenial(t *testing.T, p *place, n *node) {
	v := n.run(turn{Mode: "read_only", Calls: []call{charge("free", 1)}})
	v.Calls[0].is(t, "denied", "", "none")
	v = n.run(turn{Calls: []call{charge("free", 1)}})
	v.Calls[0].is(t, "completed", "", "done")
	if k := p.charged("free"); k != 1 {
		t.Errorf("charged %d times", k)
	}
}

// The charge is in the ledger when its deadline passes: it must not be called
// failed, nor be repeated.
func timeoutAfterCommit(t *testing.T, p *place, n *node) {
	one := turn{Calls: []call{charge("late", 1, "stall_ms", forever)}, Limits: map[string]int{"call_deadline_ms": 2_000}}
	v := n.run(one)
	if c := v.Calls[0]; c.State == "failed" || c.Effects == "none" {
		t.Errorf("%+v", c)
	}
	if a := answers(t, v.Messages)[0]; a.Answer == "failed" {
		t.Errorf("the model is told %+v", a)
	}
	again := n.run(one)
	if c := again.Calls[0]; c.State != "deduplicated" && c.State != "denied" {
		t.Errorf("again: %+v", c)
	}
	if k := p.charged("late"); k != 1 {
		t.Errorf("charged %d times", k)
	}
	if got := of(n.events(v.Trace, v.Turn), "started", "0"); len(got) != 1 {
		t.Errorf("it was started %d times", len(got))
	}
}

func keyOfPrincipal(t *testing.T, p *place, n *node) {
	n.run(turn{Principal: "ann", Calls: []call{charge("whose", 1)}}).Calls[0].is(t, "completed", "", "done")
	n.run(turn{Principal: "bob", Calls: []call{charge("whose", 1)}}).Calls[0].is(t, "completed", "", "done")
	if k := p.charged("whose"); k != 2 {
		t.Errorf("charged %d times, by two principals", k)
	}
}

func repeatedIDs(t *testing.T, _ *place, n *node) {
	echo := func(v string) call { return call{ID: "call_0", Tool: "echo", Args: args{"v": v}} }
	v := n.run(turn{Trace: "ids", Calls: []call{echo("a"), echo("b")}})
	w := n.run(turn{Trace: "ids", Calls: []call{echo("c")}})
	got := append(answers(t, v.Messages), answers(t, w.Messages)...)
	for i, want := range []string{"a", "b", "c"} {
		if got[i].Content.Text != want {
			t.Errorf("answer %d is %+v, want %s", i, got[i], want)
		}
	}
	for _, format := range []string{"openai", "anthropic"} {
		ids := map[string]bool{}
		for _, m := range n.messages(v.Trace, v.Turn, format) {
			for _, part := range strings.Split(string(m), `"tool_`)[1:] { // tool_call_id, tool_use_id
				if at := strings.Index(part, `id":"`); at >= 0 {
					id, _, _ := strings.Cut(part[at+len(`id":"`):], `"`)
					if ids[id] {
						t.Errorf("%s: id %q answers two calls", format, id)
					}
					ids[id] = true
				}
			}
		}
		if len(ids) != 2 {
			t.Errorf("%s: ids %v", format, ids)
		}
	}
}
