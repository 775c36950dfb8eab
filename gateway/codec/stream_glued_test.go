package codec

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// reasons are what the event that says why the model stopped holds.
var reasons = map[Format]string{
	OpenAI: `"finish_reason":"`, Anthropic: `"stop_reason":"`, Responses: `"response.completed"`, Gemini: `"finishReason":"`,
}

// TestNothingIsSaidBehindTheReason: whatever the model says behind the reason for which it
// stopped, nothing of the stream is submitted.
func TestNothingIsSaidBehindTheReason(t *testing.T) {
	for _, f := range StreamFormats() {
		t.Run(string(f), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				list := generators[f](t, wantedCalls(t))
				other := generators[f](t, wantedCalls(t))
				at := 0
				for i, e := range list {
					if strings.Contains(e, reasons[f]) {
						at = i + 1
						break
					}
				}
				var says []string // the pieces of another message
				for _, e := range other {
					if f == Anthropic { // blocks of their own
						e = strings.Replace(e, `"index":`, `"index":1`, 1)
					}
					if ofCall(e) && !strings.Contains(e, reasons[f]) {
						says = append(says, e)
					}
				}
				from, to := 0, len(says)
				if rapid.Bool().Draw(t, "some of it") {
					from = rapid.IntRange(0, len(says)-1).Draw(t, "from")
					to = rapid.IntRange(from+1, len(says)).Draw(t, "to")
				}
				all := append(append(append([]string{}, list[:at]...), says[from:to]...), list[at:]...)
				if m, err := inEvents(f, all); err == nil && !allEmpty(says[from:to]) {
					t.Fatalf("%d calls of\n%s", len(m.Calls), strings.Join(all, "\n"))
				}
			})
		})
	}
}

// ofCall says whether an event is about a call.
func ofCall(e string) bool {
	for _, word := range []string{`"tool_calls"`, `"tool_use"`, `"input_json_delta"`, `"content_block_stop"`, `"function_call"`, `"response.function_call_arguments`, `"functionCall"`} {
		if strings.Contains(e, word) {
			return true
		}
	}
	return false
}

// allEmpty says whether events bring pieces of nothing alone.
func allEmpty(list []string) bool {
	for _, e := range list {
		if !strings.Contains(e, `"partial_json":""`) && !strings.Contains(e, `"content_block_stop"`) {
			return false
		}
	}
	return true
}

// inEvents reads events that come as server-sent events.
func inEvents(f Format, list []string) (Message, error) {
	_, m, err := DecodeStream(f, []byte("data: "+strings.Join(list, "\n\ndata: ")+"\n\n"), StreamOptions{})
	return m, err
}

// TestASecondMessageIsNotGluedToTheFirst: where a router begins again because a stream broke
// off in a call, nobody could say which of the two the client has taken.
func TestASecondMessageIsNotGluedToTheFirst(t *testing.T) {
	for _, f := range []Format{OpenAI, Anthropic, Responses} { // Gemini's chunks have no beginning
		t.Run(string(f), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				first, second := generators[f](t, wantedCalls(t)), generators[f](t, wantedCalls(t))
				if f == OpenAI {
					for i, e := range first {
						first[i] = strings.Replace(e, `{"id":"c`, `{"id":"d`, 1)
					}
				}
				begun := 0
				for !ofCall(first[begun]) {
					begun++
				}
				at := rapid.IntRange(begun+1, len(first)).Draw(t, "at")
				m, err := inEvents(f, append(append([]string{}, first[:at]...), second...))
				var se *StreamError
				if !errors.As(err, &se) {
					t.Fatalf("%d calls of\n%s\nand\n%s", len(m.Calls), strings.Join(first[:at], "\n"), strings.Join(second, "\n"))
				}
			})
		})
	}
}

// loose gives each chunk an id of its own, as some routers do.
func loose(list []string) []string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = strings.Replace(e, `{"id":"c"`, fmt.Sprintf(`{"id":"c%d"`, i), 1)
	}
	return out
}

// TestStreamsOfLooseRouters: ids of chunks that change, and one index for all calls, take
// nothing away where the calls come one behind the other.
func TestStreamsOfLooseRouters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls := wantedCalls(t)
		list := []string{`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}`}
		for _, c := range calls {
			head := fmt.Sprintf(`"id":%s,"type":"function",`, marshal(c.id))
			name := fmt.Sprintf(`"name":%s,`, marshal(c.name))
			for _, p := range c.pieces {
				list = append(list, fmt.Sprintf(`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,%s"function":{%s"arguments":%s}}]}}]}`, head, name, jsonText(t, p)))
				head, name = "", ""
			}
		}
		list = append(list, `{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]")
		if rapid.Bool().Draw(t, "loose") {
			list = loose(list)
		}
		m, err := inEvents(OpenAI, list)
		if err != nil || len(m.Calls) != len(calls) {
			t.Fatalf("%v, %d calls of %d", err, len(m.Calls), len(calls))
		}
		for i, c := range m.Calls {
			if c.ProviderID != calls[i].id || c.Tool != calls[i].name || !sameMembers(c.Args.Text, calls[i].args) {
				t.Fatalf("call %d: %+v, want %+v", i, c, calls[i])
			}
		}
	})
}
