package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// block is one result in an Anthropic message.
type block struct {
	Type    string
	ID      string `json:"tool_use_id"`
	IsError bool   `json:"is_error"`
	Content json.RawMessage
}

// anthropic reads the one user message that answers a turn.
func anthropic(t *testing.T, messages []json.RawMessage) []block {
	t.Helper()
	var m struct {
		Role    string
		Content []block
	}
	if len(messages) != 1 || json.Unmarshal(messages[0], &m) != nil || m.Role != "user" {
		t.Fatalf("not one user message: %s", messages)
	}
	return m.Content
}

// toolMessage is an answer in OpenAI's form.
type toolMessage struct {
	Role, Content string
	ID            string `json:"tool_call_id"`
}

func openai(t *testing.T, messages []json.RawMessage) []toolMessage {
	t.Helper()
	out := make([]toolMessage, len(messages))
	for i, m := range messages {
		if err := json.Unmarshal(m, &out[i]); err != nil || out[i].Role != "tool" {
			t.Fatalf("message %d is no tool message: %s, %v", i, m, err)
		}
	}
	return out
}

// TestEveryIDIsAnsweredOnceInPlace is about the history that a model sees.
func TestEveryIDIsAnsweredOnceInPlace(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	for _, c := range []struct {
		name string
		test func(*testing.T, *place, *node)
	}{
		{"a turn that is interrupted", interrupted},
		{"a turn that still runs", stillRuns},
		{"many calls that end in many ways", manyWays},
		{"a command that fails, beside others", commandFails},
		{"results stand in request order, events in completion order", completionOrder},
		{"writes to one file keep their order", strictOrder},
		{"a long read blocks no write elsewhere", longReadBlocksNobody},
		{"batches are of neighbours", batches},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := *n
			at.api = &api{t: t, base: n.base}
			c.test(t, p, &at)
		})
	}
}

func interrupted(t *testing.T, _ *place, n *node) {
	v := n.submit(turn{Calls: []call{{ID: "a", Tool: "echo", Args: args{"v": "done"}}, {ID: "b", Tool: "sleep", Args: args{"ms": forever}}}})
	n.until(v.Trace, v.Turn, "completed", "0")
	n.until(v.Trace, v.Turn, "started", "1")
	n.post("/v1/turns/"+v.Trace+"/"+v.Turn+"/cancel", nil)
	n.end(v.Trace, v.Turn)
	blocks := anthropic(t, n.messages(v.Trace, v.Turn, "anthropic"))
	if len(blocks) != 2 || blocks[0].ID != "a" || blocks[1].ID != "b" || blocks[0].IsError || !blocks[1].IsError {
		t.Errorf("%+v", blocks)
	}
	tools := openai(t, n.messages(v.Trace, v.Turn, "openai"))
	if len(tools) != 2 || tools[0].ID != "a" || tools[1].ID != "b" || !strings.Contains(tools[1].Content, "CANCELLED") {
		t.Errorf("%+v", tools)
	}
}

func stillRuns(t *testing.T, _ *place, n *node) {
	v := n.submit(turn{Calls: []call{{ID: "a", Tool: "sleep", Args: args{"ms": forever}}, {ID: "b", Tool: "echo", Args: args{"v": "done"}}, {ID: "c", Tool: "charge", Args: args{"order": "after", "amount": 1}}}})
	n.until(v.Trace, v.Turn, "completed", "1")
	got := answers(t, n.messages(v.Trace, v.Turn, "json"))
	if len(got) != 3 || got[0].Answer != "open" || got[1].Answer != "success" || got[2].Answer != "open" {
		t.Errorf("%+v", got)
	}
	blocks := anthropic(t, n.messages(v.Trace, v.Turn, "anthropic"))
	if len(blocks) != 3 || blocks[0].ID != "a" || blocks[2].ID != "c" || !bytes.Equal(blocks[0].Content, blocks[2].Content) {
		t.Errorf("open calls have no fixed placeholder: %+v", blocks)
	}
	if tools := openai(t, n.messages(v.Trace, v.Turn, "openai")); len(tools) != 3 {
		t.Errorf("%+v", tools)
	}
	n.post("/v1/turns/"+v.Trace+"/"+v.Turn+"/cancel", nil)
	n.end(v.Trace, v.Turn)
}

func manyWays(t *testing.T, _ *place, n *node) {
	v := n.run(turn{Limits: map[string]int{"call_deadline_ms": 3_000, "max_concurrency": 8}, Calls: []call{
		{Tool: "echo", Args: args{"v": "0"}},
		{Tool: "panic"},
		{Tool: "nil"},
		{Tool: "sleep", Args: args{"ms": forever}},
		{Tool: "deaf_sleep", Args: args{"ms": 4_500}},
		{Tool: "read", Args: args{"path": "missing.txt"}},
		{Tool: "blob", Args: args{"bytes": 10, "kind": "text"}},
		{Tool: "echo", Args: args{"v": nil}},
	}})
	got := answers(t, v.Messages)
	if len(v.Batches) != 1 || len(got) != 8 {
		t.Fatalf("batches %v, %d answers", v.Batches, len(got))
	}
	for i, want := range []string{"completed", "failed", "completed", "timed_out", "", "failed", "completed", "completed"} {
		if got[i].Call != i {
			t.Errorf("answer %d is for call %d", i, got[i].Call)
		}
		if want != "" {
			v.Calls[i].is(t, want, "", "")
		}
	}
	if s := v.Calls[4].State; s != "unknown" && s != "timed_out" {
		t.Errorf("the deaf one: %+v", v.Calls[4])
	}
	for _, i := range []int{2, 7} {
		if got[i].Content.Text == "" {
			t.Errorf("an empty result reads as if it were still to come: %s", v.Messages[i])
		}
	}
}

func commandFails(t *testing.T, _ *place, n *node) {
	v := n.submit(turn{CanAsk: true, Calls: []call{
		{Tool: "bash", Args: args{"command": "exit 3"}}, {Tool: "panic"}, {Tool: "Bash", Args: args{"command": "ls missing-file"}}, {Tool: "echo", Args: args{"v": "on"}},
	}})
	end := v
	poll(t, "the turn ends or asks", func() bool {
		end = n.look(v.Trace, v.Turn)
		return end.State == "completed" || end.Calls[0].State == "asking" || end.Calls[0].State == "approval_requested"
	})
	if end.State != "completed" {
		n.post("/v1/turns/"+v.Trace+"/"+v.Turn+"/calls/0/approve", nil)
	}
	end = n.end(v.Trace, v.Turn)
	end.Calls[0].is(t, "failed", "EXECUTION_ERROR", "")
	end.Calls[1].is(t, "failed", "EXECUTION_ERROR", "none")
	end.Calls[2].is(t, "failed", "EXECUTION_ERROR", "none")
	end.Calls[3].is(t, "completed", "", "")
	if b := anthropic(t, n.messages(v.Trace, v.Turn, "anthropic")); !b[0].IsError || !b[1].IsError || !b[2].IsError || b[3].IsError {
		t.Errorf("%+v", b)
	}
	if e := of(n.events(v.Trace, v.Turn), "failed", "0"); len(e) != 1 || e[0].field("exit_status") != "3" {
		t.Errorf("the exit status: %+v", e)
	}
}

func completionOrder(t *testing.T, p *place, n *node) {
	v := n.submit(turn{Calls: []call{
		{ID: "slow", Tool: "sleep", Args: args{"ms": forever, "until": "mid"}},
		{ID: "mid", Tool: "sleep", Args: args{"ms": forever, "until": "fast"}},
		{ID: "fast", Tool: "sleep", Args: args{"ms": 1}},
	}})
	for i, file := range []string{"fast", "mid"} { // each goes on once the one behind it has ended
		n.until(v.Trace, v.Turn, "completed", fmt.Sprint(2-i))
		p.write(file, "")
	}
	v = n.end(v.Trace, v.Turn)
	var ended []string
	for _, e := range of(n.events(v.Trace, v.Turn), "completed", "") {
		ended = append(ended, e.Subject[len(e.Subject)-1:])
	}
	if fmt.Sprint(ended) != "[2 1 0]" {
		t.Errorf("they completed in the order %v", ended)
	}
	got := answers(t, v.Messages)
	if len(got) != 3 || got[0].ID != "slow" || got[1].ID != "mid" || got[2].ID != "fast" {
		t.Errorf("%+v", got)
	}
}

func strictOrder(t *testing.T, p *place, n *node) {
	for _, disjoint := range []bool{false, true} {
		v := n.run(turn{Disjoint: disjoint, Calls: []call{
			{Tool: "write", Args: args{"path": "order-a.txt", "text": "first"}},
			{Tool: "write", Args: args{"path": "order-a.txt", "text": "second"}},
			{Tool: "read", Args: args{"path": "order-a.txt"}},
			{Tool: "write", Args: args{"path": "order-b.txt", "text": "b"}},
			{Tool: "Read", Args: args{"path": "order-a.txt"}},
		}})
		for _, c := range v.Calls {
			c.is(t, "completed", "", "")
		}
		got := answers(t, v.Messages)
		if got[2].Content.Text != "second" || !strings.Contains(got[4].Content.Text, "second") || p.read("order-a.txt") != "second" {
			t.Errorf("disjoint %v: read %q and %q", disjoint, got[2].Content.Text, got[4].Content.Text)
		}
		list := n.events(v.Trace, v.Turn)
		if one, two := of(list, "completed", "0")[0].Position, of(list, "started", "1")[0].Position; !before(t, one, two) {
			t.Errorf("disjoint %v: the second write began (%s) before the first had ended (%s)", disjoint, two, one)
		}
	}
}

// before says whether a position stands before another one of its generation.
func before(t *testing.T, a, b string) bool {
	t.Helper()
	return slices.Compare(numbers(t, a), numbers(t, b)) < 0
}

// numbers are the parts of a position.
func numbers(t *testing.T, position string) []int {
	t.Helper()
	at := make([]int, 3)
	if _, err := fmt.Sscanf(position, "%d.%d.%d", &at[0], &at[1], &at[2]); err != nil {
		t.Fatalf("position %q: %v", position, err)
	}
	return at
}

func longReadBlocksNobody(t *testing.T, p *place, n *node) {
	long := n.submit(turn{Trace: "session", Calls: []call{{Tool: "sleep", Args: args{"ms": forever}}, {Tool: "read", Args: args{"path": "order-a.txt"}}}})
	n.until(long.Trace, long.Turn, "started", "0")
	v := n.run(turn{Trace: "session", Calls: []call{{Tool: "write", Args: args{"path": "other.txt", "text": "x"}}}})
	v.Calls[0].is(t, "completed", "", "done")
	if s := n.look(long.Trace, long.Turn); s.State != "running" {
		t.Errorf("the long read has ended: %+v", s)
	}
	n.post("/v1/turns/"+long.Trace+"/"+long.Turn+"/cancel", nil)
	n.end(long.Trace, long.Turn)
}

func batches(t *testing.T, p *place, n *node) {
	p.write("batch.txt", "one two\n")
	read := call{Tool: "Read", Args: args{"path": "batch.txt"}}
	grep := call{Tool: "Grep", Args: args{"pattern": "one"}}
	edit := func(from, to string) call {
		return call{Tool: "Edit", Args: args{"path": "batch.txt", "old_string": from, "new_string": to}}
	}
	v := n.run(turn{Calls: []call{read, read, edit("one", "1"), grep, grep, edit("two", "2"), read, {Tool: "Bash", Args: args{"command": "rm -rf /"}}, {Tool: "nobody"}}})
	if got := fmt.Sprint(v.Batches); got != "[[0 1] [2] [3 4] [5] [6] [7] [8]]" {
		t.Errorf("batches %s", got)
	}
	for i, want := range []string{"completed", "completed", "completed", "completed", "completed", "completed", "completed", "denied", "denied"} {
		v.Calls[i].is(t, want, "", "")
	}
	if p.read("batch.txt") != "1 2\n" {
		t.Errorf("the file: %q", p.read("batch.txt"))
	}
}

// TestMessagesAreTheSameBytesEveryTime: whatever the order in which calls ended,
// and whoever is asked, also where the tools are not there any more.
func TestMessagesAreTheSameBytesEveryTime(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	tu := turn{Calls: []call{
		{ID: "a", Tool: "sleep", Args: args{"ms": 3}},
		{ID: "b", Tool: "sleep", Args: args{"ms": 2}},
		{ID: "c", Tool: "echo", Args: args{"v": args{"z": 1, "a": 9007199254740993}}},
		{ID: "d", Tool: "read", Args: args{"path": "missing.txt"}},
		{ID: "e", Tool: "blob", Args: args{"bytes": 60_000, "kind": "utf8"}},
	}}
	formats := []string{"openai", "anthropic", "json"}
	want := map[string]string{}
	for i := range 20 {
		tu.Trace, tu.Turn = fmt.Sprintf("same-%d", i), "t"
		n.run(tu)
		for _, f := range formats {
			got := fmt.Sprintf("%s", n.messages(tu.Trace, tu.Turn, f))
			if want[f] == "" {
				want[f] = got
			} else if got != want[f] {
				t.Fatalf("%s, run %d:\n%s\nand before\n%s", f, i, got, want[f])
			}
		}
	}
	if code := n.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	n = p.serve("--fixtures=false")
	if n.tools()["echo"] {
		t.Fatal("the fixtures are still there")
	}
	for _, f := range formats {
		if got := fmt.Sprintf("%s", n.messages("same-7", "t", f)); got != want[f] {
			t.Errorf("%s, without the tools:\n%s\nand before\n%s", f, got, want[f])
		}
	}
}

// TestABigIntegerKeepsItsDigits from the message to the tool and back.
func TestABigIntegerKeepsItsDigits(t *testing.T) {
	n := newPlace(t).serve()
	for _, digits := range []string{"9007199254740993", "10000000000000001", "1234567890123456789", `"1234567890123456789"`, "1e3", "0.1000000000000000055511151231257827"} {
		body := fmt.Sprintf(`{"wait_ms":30000,"message":{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"echo","arguments":%q}}]}}`, `{"v":`+digits+`}`)
		status, out := n.ask(http.MethodPost, "/v1/turns", []byte(body))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, out)
		}
		if plain := strings.Trim(digits, `"`); !strings.Contains(string(out), plain) {
			t.Errorf("%s became %s", digits, out)
		}
	}
}
