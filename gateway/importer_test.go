package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
)

// recorded is a conversation whose answers are as given.
func recorded(answers ...string) string {
	var m []string
	for i, a := range answers {
		content, _ := json.Marshal(a)
		m = append(m,
			fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"get","arguments":"{\"n\":%d}"}}]}`, i),
			fmt.Sprintf(`{"role":"tool","tool_call_id":"call_0","name":"get","content":%s}`, content))
	}
	return `{"messages":[{"role":"user","content":"hi"},` + strings.Join(m, ",") + `]}`
}

func TestImportIsVerbatimAndRepeatable(t *testing.T) {
	d, log := newDesk(t)
	large := strings.Repeat("界\r\n\x1b[31m", 40_000)
	doc := recorded("plain", "Error: \x00 none", large, "")
	in := doc + "\n" + recorded("other") + "\n"
	first, err := d.Import(within(t), strings.NewReader(in), "test.jsonl")
	must(t, err)
	if first.Turns != 5 || first.New != 5 || first.Calls != 5 || first.Answers != 5 || len(first.Traces) != 2 {
		t.Errorf("%+v", first)
	}
	if lost := log.LoseTail(-1); lost != 0 {
		t.Errorf("%d appends were lost after the answer", lost)
	}
	head, err := d.bus.Head(within(t))
	must(t, err)
	again, err := d.Import(within(t), strings.NewReader(in), "elsewhere.jsonl")
	must(t, err)
	if again.New != 0 || again.Turns != 5 {
		t.Errorf("again: %+v", again)
	}
	if now, err := d.bus.Head(within(t)); err != nil || now.Seq != head.Seq {
		t.Errorf("the second import appended: %v, %v", now, err)
	}
	conv, err := d.Trace(within(t), first.Traces[0])
	must(t, err)
	for i, want := range []string{"plain", "Error: \x00 none", large, ""} {
		m, err := d.Render(within(t), conv.Turns[i], codec.OpenAI)
		must(t, err)
		var got struct {
			Role, Name, Content string
			ID                  string `json:"tool_call_id"`
		}
		must(t, json.Unmarshal(m.Answered[0], &got))
		if got.Role != "tool" || got.ID != "call_0" || got.Name != "get" || got.Content != want {
			t.Errorf("turn %d: %.200s", i, m.Answered[0])
		}
	}
	v, err := d.Get(within(t), events.TurnKey{Trace: first.Traces[0], Turn: "t0001"})
	must(t, err)
	if bad := lifecycle.Laws(plainCommits(v)); len(bad) > 0 || !v.Ended() {
		t.Errorf("%v", bad)
	}
}

func plainCommits(v View) []events.Commit {
	out := make([]events.Commit, len(v.Commits))
	for i, s := range v.Commits {
		out[i] = s.Commit
	}
	return out
}

func TestImportGoesOnWhereItWasCutOff(t *testing.T) {
	var calls, answers []string
	for i := range 60 {
		args, _ := json.Marshal(fmt.Sprintf(`{"v":%q}`, strings.Repeat("x", 9_000+i)))
		content, _ := json.Marshal(strings.Repeat("y", 9_000+i))
		calls = append(calls, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"get","arguments":%s}}`, i, args))
		answers = append(answers, fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":%s}`, i, content))
	}
	doc := `[{"role":"assistant","tool_calls":[` + strings.Join(calls, ",") + `]},` + strings.Join(answers, ",") + `]`
	whole := importedTurn(t, doc, 0)
	if len(whole) < 3 {
		t.Fatalf("%d commits: it was meant to be split", len(whole))
	}
	for cut := 1; cut < len(whole); cut++ {
		got := importedTurn(t, doc, cut)
		var a, b []events.Kind
		for _, c := range whole {
			for _, r := range c.Records {
				a = append(a, r.Event.Kind())
			}
		}
		for _, c := range got {
			for _, r := range c.Records {
				b = append(b, r.Event.Kind())
			}
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("cut after %d:\n%s", cut, diff)
		}
		if bad := lifecycle.Laws(got); len(bad) > 0 {
			t.Errorf("cut after %d: %v", cut, bad)
		}
	}
}

// importedTurn imports a recording of one turn, the first time failing after
// some commits.
func importedTurn(t *testing.T, doc string, cut int) []events.Commit {
	t.Helper()
	d, log := newDesk(t)
	n := 0
	if cut > 0 {
		log.SetFaults(&memlog.Faults{Append: func(events.Commit) (bool, error) {
			if n++; n > cut {
				return false, bus.ErrUnavailable
			}
			return true, nil
		}})
		if _, err := d.Import(within(t), strings.NewReader(doc), "test"); err == nil {
			t.Fatal("the fault did not show")
		}
		log.SetFaults(nil)
	}
	r, err := d.Import(within(t), strings.NewReader(doc), "test")
	must(t, err)
	if r.New != 1 {
		t.Errorf("%+v", r)
	}
	v, err := d.Get(within(t), events.TurnKey{Trace: r.Traces[0], Turn: "t0001"})
	must(t, err)
	if !v.Ended() {
		t.Error("it has not ended")
	}
	return plainCommits(v)
}

func TestImportStopsAtWhatIsNoRecording(t *testing.T) {
	d, _ := newDesk(t)
	r, err := d.Import(within(t), strings.NewReader(recorded("a")+"\n{\"messages\": 3}\n"), "test.jsonl")
	if err == nil || r.New != 1 || !strings.Contains(err.Error(), "conversation 2") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := d.Import(within(t), bytes.NewReader([]byte{0xff, '{'}), "test.jsonl"); err == nil {
		t.Error("no error")
	}
}
