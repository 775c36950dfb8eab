package npm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/model"
	"github.com/sluice-run/sluice/test/npm"
)

// digits do not fit into a double.
const digits = "9007199254740993"

// journey is a conversation with everything in it that a loop must survive. Providers whose
// ids are unique have them so.
func journey(trace string, unique bool) []model.Step {
	id := func(step, call int) string {
		if unique {
			return fmt.Sprintf("call_%d_%d", step, call)
		}
		return "call_0" // in one message and over turns, as local models number them
	}
	charge := fmt.Sprintf(`{"order":%q,"amount":%s}`, trace, digits)
	return []model.Step{
		{Text: "I look at four things — größe.", Calls: []model.Call{
			{ID: id(0, 0), Tool: "Read", Args: `{"path":"greeting.txt"}`},
			{ID: id(0, 1), Tool: "echo", Args: `{"v":` + digits + `}`},
			{ID: id(0, 2), Tool: "no_such_tool", Args: `{}`},
			{ID: id(0, 3), Tool: "charge", Args: charge},
		}},
		{Busy: 1, Calls: []model.Call{
			{ID: id(1, 0), Tool: "approve_me", Args: `{"v":"yes, ` + trace + `"}`},
			{ID: id(1, 1), Tool: "approve_me", Args: `{"v":"no, ` + trace + `"}`},
		}},
		{Text: "Now I write", Cut: true, Calls: []model.Call{{ID: id(2, 0), Tool: "write", Args: `{"path":"never.txt","text":"ha`}}},
		{Breaks: 1, Text: "And again.", Calls: []model.Call{
			{ID: id(3, 0), Tool: "echo", Args: `{"v":""}`},
			{ID: id(3, 1), Tool: "blob", Args: `{"kind":"binary","bytes":600}`},
			{ID: id(3, 2), Tool: "Read", Args: `{"path":"missing.txt"}`},
			{ID: id(3, 3), Tool: "charge", Args: charge},
		}},
		{Text: "Done, " + trace + "."},
	}
}

// told is what the model is told of a journey.
var told = []string{
	"success", "success", "denied UNKNOWN_TOOL", "success",
	"success", "denied APPROVAL_REJECTED",
	"denied TRUNCATED_BY_MODEL",
	"success", "success", "error NOT_FOUND", "success",
}

// person answers what is asked, until the test ends: yes to what says yes.
func (h *house) person(t *testing.T) {
	ann := &events.Principal{ID: "ann", Kind: "person"}
	done := make(chan struct{})
	t.Cleanup(func() { <-done }) // its context has ended by then
	go func() {
		defer close(done)
		for a, err := range h.WatchApprovals(t.Context()) {
			if err != nil {
				if t.Context().Err() == nil {
					t.Errorf("the inbox: %v", err)
				}
				return
			}
			if strings.Contains(a.Args.Text, "yes") {
				_, err = h.Approve(t.Context(), a, client.Yes{By: ann})
			} else {
				_, err = h.Deny(t.Context(), a, client.No{By: ann, Note: "not that one"})
			}
			if err != nil && t.Context().Err() == nil {
				t.Errorf("%s: %v", a.ID, err)
			}
		}
	}()
}

// TestAgents: each example goes through the whole journey, at once and streamed, against a
// model that refuses every conversation that its provider would refuse.
func TestAgents(t *testing.T) { travelAll(t, agents(t, npm.Node(t), nil)) }

// TestAgentInGo is TestAgents for the example that needs no packages.
func TestAgentInGo(t *testing.T) { travelAll(t, []agent{goAgent(t)}) }

// TestAgentInPython is TestAgents for the one that needs nothing but Python.
func TestAgentInPython(t *testing.T) { travelAll(t, []agent{pythonAgent(t)}) }

// TestNewestSDKs: the examples are the same with the SDKs' newest releases, on a newer Node.js.
func TestNewestSDKs(t *testing.T) { travelAll(t, agents(t, npm.Node22(t), newest)) }

func travelAll(t *testing.T, list []agent) {
	h := newHouse(t)
	h.write("greeting.txt", "Hello, world.\n")
	h.person(t)
	t.Run("all", func(t *testing.T) { // returns when the parallel ones have ended
		for _, a := range list {
			for _, how := range []string{"whole", "stream"} {
				t.Run(a.name+"/"+how, func(t *testing.T) {
					t.Parallel()
					travel(t, h, a, how)
				})
				t.Run(a.name+"/"+how+", cut off", func(t *testing.T) {
					t.Parallel()
					cutOff(t, h, a, how)
				})
			}
		}
	})
	if n := strings.Count(h.ledger(), `"charge"`); n != 2*len(list) {
		t.Errorf("%d charges by %d agents:\n%s", n, 2*len(list), h.ledger())
	}
	if n := strings.Count(h.ledger(), `"no, `); n != 0 {
		t.Errorf("what was denied was done:\n%s", h.ledger())
	}
}

func travel(t *testing.T, h *house, a agent, how string) {
	trace := strings.ReplaceAll(a.name, " ", "-") + "-" + how
	m := model.New(t, journey(trace, a.ids)...)
	args := []string{"--ask"}
	if how == "stream" {
		args = append(args, "--stream")
	}
	said := h.begin(t, a, m, trace, args...)()
	if !strings.Contains(said, "Done, "+trace+".") {
		t.Errorf("it says\n%s", said)
	}
	asked := m.Requests()
	var refused []string
	for _, r := range asked {
		if r.Status == 400 {
			refused = append(refused, r.Error)
		}
		if want := how == "stream"; r.Stream != want {
			t.Errorf("%s: streamed is %v", r.Path, r.Stream)
		}
	}
	if len(refused) > 0 {
		t.Fatalf("the model refused %d requests:\n%s", len(refused), strings.Join(refused, "\n"))
	}
	want := 6 // five answers, and once the model had no time
	if how == "stream" {
		want++ // and once its stream broke
	}
	if len(asked) != want {
		t.Errorf("%d requests, want %d", len(asked), want)
	}
	if last := asked[len(asked)-1]; !strings.Contains(last.Path, a.api) {
		t.Errorf("it asks at %s", last.Path)
	}
	check(t, a, asked[len(asked)-1].Messages)
	for turn, n := range map[string]int{"t1": 4, "t2": 2, "t3": 1, "t4": 4} {
		v, err := h.Get(t.Context(), events.TurnKey{Trace: trace, Turn: turn})
		if err != nil || len(v.Calls) != n || v.State != "completed" {
			t.Errorf("turn %s: %+v, %v", turn, v, err)
		}
	}
}

// cutOff has the model stop at its limit before it has asked for anything: that is no end.
func cutOff(t *testing.T, h *house, a agent, how string) {
	m := model.New(t, model.Step{Text: "I was about to", Cut: true})
	var args []string
	if how == "stream" {
		args = append(args, "--stream")
	}
	said, err := h.launch(t, a, m, strings.ReplaceAll(a.name, " ", "-")+"-cut-"+how, args...)()
	if err == nil || !strings.Contains(said, "The model was cut off") {
		t.Errorf("it ends with %v, and says\n%s", err, said)
	}
}

// check holds the answers in a conversation against what the model must have been told.
func check(t *testing.T, a agent, messages []json.RawMessage) {
	t.Helper()
	answers := answersOf(messages)
	var got []string
	for _, one := range answers {
		got = append(got, one.code())
	}
	if !slices.Equal(got, told) {
		t.Fatalf("the model was told\n%q\nwant\n%q", got, told)
	}
	if !strings.Contains(answers[0].Text, "Hello, world.") || answers[7].Text != "(no output)" {
		t.Errorf("%+v, %+v", answers[0], answers[7])
	}
	if exact := string(answers[1].Data) == digits && strings.Contains(string(answers[3].Data), digits); !exact && a.name != "gemini" {
		t.Errorf("%s became %s, and %s", digits, answers[1].Data, answers[3].Data) // Gemini's numbers are doubles, and its SDK reads them so
	}
}

// TestAgentOutlivesTheNode: the node is killed while a person is asked, while a charge runs
// and while a command does, and started again each time. The agent goes on, nothing is done twice,
// and of what nobody can know the model is told just that.
func TestAgentOutlivesTheNode(t *testing.T) {
	outliveBoth(t, agents(t, npm.Node(t), nil)[0])
}

// TestAgentInGoOutlivesTheNode is TestAgentOutlivesTheNode for Go's client.
func TestAgentInGoOutlivesTheNode(t *testing.T) { outliveBoth(t, goAgent(t)) }

// TestAgentInPythonOutlivesTheNode is TestAgentOutlivesTheNode for Python's urllib.
func TestAgentInPythonOutlivesTheNode(t *testing.T) { outliveBoth(t, pythonAgent(t)) }

func outliveBoth(t *testing.T, a agent) {
	for _, how := range []string{"whole", "stream"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			outlive(t, a, how)
		})
	}
}

func outlive(t *testing.T, a agent, how string) {
	h := newHouse(t)
	h.write("greeting.txt", "Hello, world.\n")
	m := model.New(t,
		model.Step{Calls: []model.Call{
			{ID: "a", Tool: "charge", Args: `{"order":"one","amount":1}`},
			{ID: "b", Tool: "approve_me", Args: `{"v":"yes"}`},
			{ID: "c", Tool: "Read", Args: `{"path":"greeting.txt"}`},
			{ID: "d", Tool: "stray", Args: `{}`},
		}},
		model.Step{Calls: []model.Call{{ID: "a", Tool: "charge", Args: `{"order":"two","amount":2,"stall_ms":600000}`}}},
		model.Step{Calls: []model.Call{{ID: "a", Tool: "Bash", Args: `{"command":"touch acted && sleep 600 # yes"}`}}},
		model.Step{Text: "Done."})
	args := []string{"--ask"}
	if how == "stream" {
		args = append(args, "--stream")
	}
	wait := h.begin(t, a, m, "outlive", args...)
	turn := func(n int) events.TurnKey { return events.TurnKey{Trace: "outlive", Turn: fmt.Sprintf("t%d", n)} }

	h.until("it is charged", turn(1), 0, func(c client.CallState) bool { return c.State == "completed" })
	h.until("a person is asked", turn(1), 1, func(c client.CallState) bool { return c.State == "asking" })
	h.kill()
	h.start()
	h.person(t)
	h.until("the charge stalls", turn(2), 0, func(c client.CallState) bool { return c.State == "started" && strings.Contains(h.ledger(), `"two"`) })
	h.kill()
	h.start()
	h.until("the command sleeps", turn(3), 0, func(c client.CallState) bool {
		_, err := os.Stat(filepath.Join(h.work, "acted"))
		return c.State == "started" && err == nil
	})
	h.kill()
	h.start()

	said := wait()
	if !strings.Contains(said, "Done.") {
		t.Errorf("it says\n%s", said)
	}
	var got []string
	asked := m.Requests()
	for _, one := range answersOf(asked[len(asked)-1].Messages) {
		got = append(got, one.code())
	}
	want := []string{"success", "success", "success", "denied UNKNOWN_TOOL", "success", "unknown UNKNOWN_OUTCOME"} // the charge was looked up
	if !slices.Equal(got, want) {
		t.Errorf("the model was told\n%q\nwant\n%q", got, want)
	}
	for _, order := range []string{`"one"`, `"two"`, `"yes"`} {
		if n := strings.Count(h.ledger(), order); n != 1 {
			t.Errorf("%s stands %d times in\n%s", order, n, h.ledger())
		}
	}
}

// until waits until a call of a turn is as it is wanted.
func (h *house) until(what string, turn events.TurnKey, call int, fact func(client.CallState) bool) {
	h.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if v, err := h.Get(h.t.Context(), turn); err == nil && len(v.Calls) > call && fact(v.Calls[call]) {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			h.t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// TestScriptOfTheExamples: what a newcomer runs without a provider comes to its end.
func TestScriptOfTheExamples(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "examples", "script.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	steps, err := model.ReadScript(f)
	if err != nil {
		t.Fatal(err)
	}
	h, m := newHouse(t), model.New(t, steps...)
	said := h.begin(t, goAgent(t), m, "script", "--stream")()
	asked := m.Requests()
	var got []string
	for _, one := range answersOf(asked[len(asked)-1].Messages) {
		got = append(got, one.code())
	}
	want := []string{"success", "success", "denied UNKNOWN_TOOL", "success", "denied PERMISSION_DENIED", "denied TRUNCATED_BY_MODEL"}
	if !slices.Equal(got, want) || !strings.Contains(said, "That is all.") {
		t.Errorf("got %q, want %q\n%s", got, want, said)
	}
}
