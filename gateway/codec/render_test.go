package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
	"pgregory.net/rapid"
)

func completed(text string) events.Event {
	return &events.Completed{Outcome: events.Outcome{Effects: events.EffectsDone, Result: events.Result{Text: events.Body{Text: text}}}}
}

func render(t testing.TB, f Format, answers []events.Answer, o Options) string {
	t.Helper()
	m, err := Render(f, answers, o)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.Join(rawAll(m), []byte("\n")))
}

func rawAll(m []json.RawMessage) [][]byte {
	out := make([][]byte, len(m))
	for i := range m {
		out[i] = m[i]
	}
	return out
}

// 16, 19: whatever became of a call, its id gets an answer in its place.
func TestRenderEveryEnd(t *testing.T) {
	none, possible := events.EffectsNone, events.EffectsPossible
	ends := []events.Event{
		completed("one <1>"),
		&events.Cancelled{Outcome: events.Outcome{Effects: none}, Reason: "stop"},
		&events.Failed{Outcome: events.Outcome{Effects: none, Result: events.Result{Text: events.Body{Text: "out"}, Error: &events.Error{Code: events.ExecutionError, Message: "Exit status 3."}}}},
		&events.Denied{Gate: "validate", Code: events.InvalidParam, Reason: "v is missing.", Path: "/v"},
		&events.TimedOut{Outcome: events.Outcome{Effects: possible}},
		&events.Deduplicated{Of: "a/b/0", As: events.KindCompleted},
		nil,
	}
	answers := make([]events.Answer, len(ends))
	for i, e := range ends {
		answers[i] = lifecycle.AnswerOf(i, events.RawCall{ProviderID: fmt.Sprint("c", i), Tool: "mcp:old_name"}, e)
		answers[i].Verbatim = e == nil // imported, and nothing was recorded: told like any open call
	}
	contents := []string{
		`{"status":"success","text":"one <1>"}`,
		`{"status":"error","error":{"code":"CANCELLED","message":"The call was cancelled: stop"}}`,
		`{"status":"error","text":"out","error":{"code":"EXECUTION_ERROR","message":"Exit status 3."}}`,
		`{"status":"denied","error":{"code":"INVALID_PARAM","message":"v is missing.","path":"/v"}}`,
		`{"status":"unknown","error":{"code":"UNKNOWN_OUTCOME","message":"` + lifecycle.UnknownSentence + ` (TIMEOUT: The call ran out of time.)"}}`,
		`{"status":"success","text":"(no output)","deduplicated_from":"a/b/0"}`,
		`{"status":"open","text":"(no answer yet: this call has not ended)"}`,
	}
	var openai, responses, anthropic, gemini, neutral []string
	for i, c := range contents {
		q := string(marshal(c))
		isError, said := "", "output"
		if i >= 1 && i <= 4 {
			isError, said = `,"is_error":true`, "error"
		}
		responses = append(responses, fmt.Sprintf(`{"type":"function_call_output","call_id":"c%d","output":%s}`, i, q))
		gemini = append(gemini, fmt.Sprintf(`{"functionResponse":{"id":"c%d","name":"mcp:old_name","response":{%q:%s}}}`, i, said, q))
		openai = append(openai, fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","name":"mcp:old_name","content":%s}`, i, q))
		anthropic = append(anthropic, fmt.Sprintf(`{"type":"tool_result","tool_use_id":"c%d","content":%s%s}`, i, q, isError))
		neutral = append(neutral, fmt.Sprintf(`{"call":%d,"id":"c%d","tool":"mcp:old_name","answer":%q,"content":%s}`, i, i, answers[i].Standing, c))
	}
	for f, want := range map[Format]string{
		OpenAI:    strings.Join(openai, "\n"),
		Anthropic: `{"role":"user","content":[` + strings.Join(anthropic, ",") + `]}`,
		Neutral:   strings.Join(neutral, "\n"),
		Responses: strings.Join(responses, "\n"),
		Gemini:    `{"role":"user","parts":[` + strings.Join(gemini, ",") + `]}`,
	} {
		if diff := cmp.Diff(want, render(t, f, answers, Options{})); diff != "" {
			t.Errorf("%s: %s", f, diff)
		}
	}
	if m, err := Render(OpenAI, nil, Options{}); m != nil || err != nil {
		t.Errorf("no answers: %s, %v", m, err)
	}
	if _, err := Render("gopher", answers, Options{}); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// 8: what is no object is never echoed as one that the model did not write.
func TestRenderCalls(t *testing.T) {
	calls := []events.RawCall{
		rawCall("a", "echo", `{"v": 9007199254740993, "w": "<&>"}`),
		rawCall("b", "mcp:x", ""),
		rawCall("", "", " null "),
		rawCall("d", strings.Repeat("n", 80), `{"path":"a"`),
		rawCall("e", "t", `[1]`),
	}
	long := strings.Repeat("n", 55) + "-" + shortHash(calls[3].Tool)
	want := `{"role":"assistant","content":null,"tool_calls":[` +
		`{"id":"a","type":"function","function":{"name":"echo","arguments":"{\"v\": 9007199254740993, \"w\": \"<&>\"}"}},` +
		`{"id":"b","type":"function","function":{"name":"mcp_x","arguments":"{}"}},` +
		`{"id":"call_2","type":"function","function":{"name":"_","arguments":"{}"}},` +
		`{"id":"d","type":"function","function":{"name":"` + long + `","arguments":"{\"invalid_json\":\"{\\\"path\\\":\\\"a\\\"\"}"}},` +
		`{"id":"e","type":"function","function":{"name":"t","arguments":"{\"invalid_json\":\"[1]\"}"}}]}`
	got, err := RenderCalls(OpenAI, calls, Options{})
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	want = `{"role":"assistant","content":[` +
		`{"type":"tool_use","id":"a","name":"echo","input":{"v":9007199254740993,"w":"<&>"}},` +
		`{"type":"tool_use","id":"b","name":"mcp_x","input":{}},` +
		`{"type":"tool_use","id":"call_2","name":"_","input":{}},` +
		`{"type":"tool_use","id":"d","name":"` + long + `","input":{"invalid_json":"{\"path\":\"a\""}},` +
		`{"type":"tool_use","id":"e","name":"t","input":{"invalid_json":"[1]"}}]}`
	deep := `{"a":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + "}"
	if b, err := RenderCalls(Anthropic, []events.RawCall{rawCall("a", "t", deep)}, Options{}); err != nil || !strings.Contains(string(b), "invalid_json") {
		t.Errorf("deeper than may be read: %s, %v", b, err)
	}
	got, err = RenderCalls(Anthropic, calls, Options{})
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	want = `[{"type":"function_call","call_id":"a","name":"echo","arguments":"{\"v\": 9007199254740993, \"w\": \"<&>\"}"},` +
		`{"type":"function_call","call_id":"b","name":"mcp_x","arguments":"{}"},` +
		`{"type":"function_call","call_id":"call_2","name":"_","arguments":"{}"},` +
		`{"type":"function_call","call_id":"d","name":"` + long + `","arguments":"{\"invalid_json\":\"{\\\"path\\\":\\\"a\\\"\"}"},` +
		`{"type":"function_call","call_id":"e","name":"t","arguments":"{\"invalid_json\":\"[1]\"}"}]`
	got, err = RenderCalls(Responses, calls, Options{})
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	want = `{"role":"model","parts":[{"functionCall":{"id":"a","name":"echo","args":{"v":9007199254740993,"w":"<&>"}},"thoughtSignature":"skip_thought_signature_validator"},` +
		`{"functionCall":{"id":"b","name":"mcp:x","args":{}}},{"functionCall":{"name":"_","args":{}}},` +
		`{"functionCall":{"id":"d","name":"` + strings.Repeat("n", 20) + "-" + shortHash(calls[3].Tool) + `","args":{"invalid_json":"{\"path\":\"a\""}}},` +
		`{"functionCall":{"id":"e","name":"t","args":{"invalid_json":"[1]"}}}]}`
	got, err = RenderCalls(Gemini, calls, Options{})
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for f, want := range map[Format]string{Responses: `[]`, OpenAI: `{"role":"assistant","content":null}`} {
		if got, err := RenderCalls(f, nil, Options{}); string(got) != want || err != nil {
			t.Errorf("%s: no calls: %s, %v", f, got, err)
		}
	}
}

// A call that is free text is one for its providers, and answered as one.
func TestRenderCustomCalls(t *testing.T) {
	calls := []events.RawCall{custom(rawCall("a", "patch", `{"input":"*** <Begin>\n"}`)), custom(rawCall("b", "patch", "")), custom(rawCall("c", "patch", `{"input":7}`))}
	answers := answersTo(calls)
	for f, want := range map[Format]string{
		OpenAI: `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"custom","custom":{"name":"patch","input":"*** <Begin>\n"}},` +
			`{"id":"b","type":"custom","custom":{"name":"patch","input":""}},{"id":"c","type":"custom","custom":{"name":"patch","input":"{\"input\":7}"}}]}`,
		Responses: `[{"type":"custom_tool_call","call_id":"a","name":"patch","input":"*** <Begin>\n"},{"type":"custom_tool_call","call_id":"b","name":"patch","input":""},` +
			`{"type":"custom_tool_call","call_id":"c","name":"patch","input":"{\"input\":7}"}]`,
		Anthropic: `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"patch","input":{"input":"*** <Begin>\n"}},{"type":"tool_use","id":"b","name":"patch","input":{}},` +
			`{"type":"tool_use","id":"c","name":"patch","input":{"input":7}}]}`,
	} {
		got, err := RenderCalls(f, calls, Options{})
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Error(err, diff)
		}
		asked, err := Asked(f, calls, Options{})
		told, err2 := Render(f, answers, Options{})
		if err := errors.Join(err, err2, Validate(f, append(asked, told...))); err != nil {
			t.Error(f, err)
		}
	}
	if got := render(t, Responses, answers[:1], Options{}); got != `{"type":"custom_tool_call_output","call_id":"a","output":"{\"status\":\"success\",\"text\":\"ok\"}"}` {
		t.Error(got)
	}
}

// 11, 12: ids that repeat are told apart, in the message for one provider and in the
// conversation for the other, and everything else stays as it is.
func TestIDs(t *testing.T) {
	longest := strings.Repeat("l", maxCallID)
	for _, c := range []struct {
		f    Format
		seen []string
		ids  []string
		want []string
	}{
		{OpenAI, nil, []string{"a", "b"}, []string{"a", "b"}},
		{OpenAI, []string{"a"}, []string{"a", "b"}, []string{"a", "b"}},
		{OpenAI, nil, []string{"edit:22", "edit:22", "edit:22"}, []string{"edit:22", "edit:22-2", "edit:22-3"}},
		{OpenAI, nil, []string{"a", "a", "a-2", "a"}, []string{"a", "a-3", "a-2", "a-4"}},
		{OpenAI, nil, []string{"", "call_0", ""}, []string{"call_0-2", "call_0", "call_2"}},
		{Anthropic, []string{"call_0", "call_0-2"}, []string{"call_0", "call_1"}, []string{"call_0-3", "call_1"}},
		{Anthropic, nil, []string{"edit:22", "edit_22", "é"}, []string{"edit_22-2", "edit_22", "__"}},
		{Neutral, []string{"a"}, []string{"a", "a", ""}, []string{"a", "a", "call_2"}},
		{Responses, []string{"call_0", "call_0-2"}, []string{"call_0", "call_1", "é"}, []string{"call_0-3", "call_1", "é"}},
		{Responses, nil, []string{longest, longest, longest + "x"}, []string{longest, longest[:62] + "-2", longest[:32] + "-" + shortHash(longest+"x")}},
		{Gemini, []string{"a"}, []string{"a", "", "a", "a", ""}, []string{"a", "", "a-2", "a-3", ""}},
	} {
		calls := make([]events.RawCall, len(c.ids))
		for i, id := range c.ids {
			calls[i] = rawCall(id, "t", "")
		}
		got, err := IDs(c.f, calls, Options{Seen: c.seen})
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s %q after %q: %v %s", c.f, c.ids, c.seen, err, diff)
		}
	}
}

// TestLongIDs: an id in which a router keeps a signature comes back as it is, where the format
// allows it; where the ids of a turn would take all the room that answers have, they are
// shortened, and stay apart.
func TestLongIDs(t *testing.T) {
	long := "call_1__thought__" + strings.Repeat("Eu", 2500)
	for f, verbatim := range map[Format]bool{OpenAI: true, Responses: false, Anthropic: true, Gemini: true, AISDK: true, Neutral: true} {
		ids, err := IDs(f, []events.RawCall{rawCall(long, "t", ""), rawCall("b", "t", "")}, Options{})
		if err != nil || (ids[0] == long) != verbatim || ids[1] != "b" {
			t.Errorf("%s: %d bytes, %v", f, len(ids[0]), err)
		}
		many := make([]events.RawCall, 20)
		for i := range many {
			many[i] = rawCall(fmt.Sprint(long, i), "t", "")
		}
		many[19].ProviderID = "short"
		ids, err = IDs(f, many, Options{})
		if err != nil || ids[19] != "short" || len(ids[0]) > 64 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 20 {
			t.Errorf("%s: %q %v", f, ids, err)
		}
	}
	monster := []events.RawCall{rawCall(strings.Repeat("\x00", MaxID), "t", "")}
	for _, f := range []Format{OpenAI, Responses, Anthropic, Gemini} {
		if ids, err := IDs(f, monster, Options{}); err != nil || len(marshal(ids[0])) > lifecycle.MaxShownID {
			t.Errorf("%s: %q %v", f, ids, err)
		}
	}
}

// drawTurn is the events of a turn whose calls come to whatever end, in any order.
func drawTurn(t *rapid.T, n int) []events.Record {
	ids := rapid.SliceOfN(rapid.SampledFrom([]string{"", "call_0", "call_1", "edit:22", "toolu_1", "é", strings.Repeat("l", 200)}), 1, 5).Draw(t, "ids")
	calls := make([]events.RawCall, len(ids))
	var queues [][]events.Event
	for i, id := range ids {
		calls[i] = rawCall(id, rapid.SampledFrom([]string{"echo", "mcp:gone", "", strings.Repeat("n", 100)}).Draw(t, "tool"),
			rapid.SampledFrom([]string{"", "{}", `{"v":1}`, `{"v"`, "[]"}).Draw(t, "args"))
		queues = append(queues, drawCall(t))
	}
	turn := []events.Event{&events.TurnClaimed{}}
	switch rapid.SampledFrom([]string{"open", "completed", "abandoned"}).Draw(t, "turn ends") {
	case "completed":
		turn = append(turn, &events.TurnCompleted{})
	case "abandoned":
		turn = append(turn, &events.TurnAbandoned{Reason: "it kills every node"})
	}
	queues = append(queues, turn)
	out := []events.Record{{Call: events.TurnEvent, Event: &events.TurnSubmitted{Calls: calls, Principal: events.Principal{ID: fmt.Sprint(n)}}}}
	for {
		var ready []int
		for i, q := range queues {
			if len(q) > 0 {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 {
			return out
		}
		i := rapid.SampledFrom(ready).Draw(t, "next")
		call := i
		if i == len(calls) {
			call = events.TurnEvent
		}
		out = append(out, events.Record{Call: call, Event: queues[i][0]})
		queues[i] = queues[i][1:]
	}
}

func drawCall(t *rapid.T) []events.Event {
	o := events.Outcome{Effects: rapid.SampledFrom([]events.Effects{events.EffectsNone, events.EffectsPossible, events.EffectsDone}).Draw(t, "effects")}
	o.Result.Text.Text = rapid.SampledFrom([]string{"", "ok", "\x00\xff", strings.Repeat("x", 600)}).Draw(t, "text")
	path := []events.Event{&events.Requested{}, &events.Authorized{Verdict: events.Verdict{Tier: events.Readonly}}, &events.Started{Attempt: 1}}
	switch rapid.SampledFrom([]string{"open", "denied", "completed", "failed", "cancelled", "unknown"}).Draw(t, "end") {
	case "denied":
		return []events.Event{path[0], &events.Denied{Code: events.UnknownTool, Reason: "There is no such tool."}}
	case "completed":
		return append(path, &events.Completed{Outcome: o}, &events.LateResult{Outcome: o})
	case "failed":
		return append(path, &events.Failed{Outcome: o})
	case "cancelled":
		return append(path, &events.CancelRequested{}, &events.Cancelled{Outcome: o})
	case "unknown":
		return append(path, &events.Unknown{Outcome: o}, &events.Resolved{Effects: events.EffectsDone})
	}
	return path[:rapid.IntRange(0, 3).Draw(t, "gets to")]
}

// L7 and 16, 18, 21, 23: every rendering of every prefix, and of every window of
// it, answers each call once, in place and in order, for each provider.
func TestEveryPrefixAndEveryWindowIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log []projections.Event
		turns := make([][]events.Record, rapid.IntRange(1, 3).Draw(t, "turns"))
		for i := range turns {
			turns[i] = drawTurn(t, i)
		}
		for seq := uint64(1); ; seq++ { // turns of a trace may overlap
			i := slices.IndexFunc(turns, func(r []events.Record) bool { return len(r) > 0 })
			if i < 0 {
				break
			}
			if i+1 < len(turns) && len(turns[i+1]) > 0 && rapid.Bool().Draw(t, "the next turn") {
				i++
			}
			log = append(log, projections.Event{
				Pos: events.Position{Generation: 1, Seq: seq}, Turn: events.TurnKey{Trace: "t", Turn: fmt.Sprint(i)}, Record: turns[i][0],
			})
			turns[i] = turns[i][1:]
		}
		f := rapid.SampledFrom(Formats()).Draw(t, "format")
		c := projections.Answers.Init()
		for i, e := range log {
			c = projections.Answers.Apply(c, e)
			since := 0
			if i%3 == 0 || i+1 == len(log) { // every third of them, since each costs as much as the whole
				since = rapid.IntRange(0, i).Draw(t, "since")
			}
			checkWindow(t, f, c, log[since:i+1], log[since].Pos)
		}
	})
}

// checkWindow renders the whole and the window, and looks whether the window holds
// every turn that an event in it changed.
func checkWindow(t *rapid.T, f Format, c projections.Conversation, tail []projections.Event, from events.Position) {
	t.Helper()
	in := make([]Turn, len(c.Turns))
	for i, p := range c.Turns {
		calls, _ := p.Requests(nil)
		answers, _ := p.Answers(nil)
		if len(answers) != len(calls) {
			t.Fatalf("turn %s: %d answers to %d calls", p.Key, len(answers), len(calls))
		}
		in[i] = Turn{Calls: calls, Answers: answers}
	}
	since := c.Since(from)
	whole, err := Conversation(f, in, 0)
	if err != nil {
		t.Fatal(err)
	}
	if since == 0 {
		if err := Validate(f, whole); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		return
	}
	window, err := Conversation(f, in, since)
	if err != nil {
		t.Fatal(err)
	}
	for _, messages := range [][]json.RawMessage{whole, window} {
		if err := Validate(f, messages); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	if end := rawAll(whole[len(whole)-len(window):]); !slices.EqualFunc(end, rawAll(window), bytes.Equal) {
		t.Fatalf("%s: the window since %s is not the end of the whole", f, from)
	}
	for _, e := range tail {
		changed := events.IsTerminal(e.Kind()) || e.Kind() == events.KindTurnSubmitted
		if changed && !slices.ContainsFunc(c.Turns[since:], func(p *projections.Turn) bool { return p.Key == e.Turn }) {
			t.Fatalf("%s of turn %s is not in the window since %s", e.Kind(), e.Turn, from)
		}
	}
}

// 25, 27: the order of completion leaves no trace in the messages.
func TestSameBytesWhateverEndsFirst(t *testing.T) {
	key := events.TurnKey{Trace: "t", Turn: "1"}
	calls := []events.RawCall{rawCall("a", "sleep", ""), rawCall("b", "sleep", ""), rawCall("c", "sleep", "")}
	want := map[Format]string{}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}} {
		records := []events.Record{{Call: events.TurnEvent, Event: &events.TurnSubmitted{Calls: calls}}}
		for _, i := range order {
			done := completed(fmt.Sprint("slept ", i)).(*events.Completed)
			done.Stages.Run, done.Result.Stats.Bytes = int64(100+i), 7
			done.Result.Data = json.RawMessage(`{"b":1,"a":2}`)
			records = append(records, events.Record{Call: i, Event: done})
		}
		c := projections.Answers.Fold(projections.Events(1, 1, events.Commit{Turn: key, Records: records}))
		answers, err := c.Turn(key).Answers(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Formats() {
			got := render(t, f, answers, Options{})
			if want[f] == "" {
				want[f] = got
			}
			if got != want[f] || !strings.Contains(got, `\"data\":{\"b\":1,\"a\":2}`) && f != Neutral {
				t.Errorf("%s, %v: %s", f, order, got)
			}
		}
	}
}

func BenchmarkRender(b *testing.B) {
	answers := make([]events.Answer, 4)
	for i := range answers {
		answers[i] = lifecycle.AnswerOf(i, rawCall("call_0", "echo", ""), completed("hello"))
	}
	for _, f := range Formats() {
		b.Run(string(f), func(b *testing.B) {
			for b.Loop() {
				if _, err := Render(f, answers, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
