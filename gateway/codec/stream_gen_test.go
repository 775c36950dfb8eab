package codec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// wanted is a call that a generated stream asks for.
type wanted struct {
	id, name string
	args     string   // JSON text
	pieces   []string // that it is sent in; together they are args
}

// wantedCalls are random calls. Their pieces are cut between characters, or, by chance,
// within one, as a router would that counts in UTF-16.
func wantedCalls(t *rapid.T) []wanted {
	n := rapid.IntRange(1, 4).Draw(t, "calls")
	out := make([]wanted, n)
	for i := range out {
		args := string(marshal(map[string]any{
			"text": rapid.StringN(0, 12, 40).Draw(t, "text"), "big": json.Number("9007199254740993"), "n": rapid.Int64().Draw(t, "n"),
		}))
		out[i] = wanted{
			id:     rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "id") + strconv.Itoa(i),
			name:   rapid.StringMatching(`[A-Za-z_]{1,8}`).Draw(t, "name"),
			args:   args,
			pieces: pieces(t, args),
		}
	}
	return out
}

// pieces cuts a text between characters.
func pieces(t *rapid.T, s string) []string {
	var out []string
	for len(s) > 0 {
		n := min(len(s), rapid.IntRange(1, 20).Draw(t, "piece"))
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n++
		}
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}

// woven are the events of several rows, each row in its order, the rows in any.
func woven(t *rapid.T, rows [][]string) []string {
	var out []string
	for {
		var open []int
		for i, r := range rows {
			if len(r) > 0 {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return out
		}
		i := rapid.SampledFrom(open).Draw(t, "row")
		out, rows[i] = append(out, rows[i][0]), rows[i][1:]
	}
}

// escaped is a JSON string, by chance with its characters as \u escapes.
func escaped(t *rapid.T, s string) string {
	if rapid.Bool().Draw(t, "escaped") {
		return strconv.QuoteToASCII(s)
	}
	return string(marshal(s))
}

// jsonText is a JSON string of s in which nothing is written as Go would and JSON does not.
func jsonText(t *rapid.T, s string) string {
	q := escaped(t, s)
	if json.Valid([]byte(q)) {
		return q
	}
	return string(marshal(s))
}

func chatOf(t *rapid.T, calls []wanted) []string {
	rows := make([][]string, len(calls))
	for i, c := range calls {
		for j, p := range append([]string{""}, c.pieces...) {
			head := ""
			if j == 0 {
				head = fmt.Sprintf(`"id":%s,"type":"function",`, marshal(c.id))
			}
			name := ""
			if j == 0 {
				name = fmt.Sprintf(`"name":%s,`, marshal(c.name))
			}
			rows[i] = append(rows[i], fmt.Sprintf(`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,%s"function":{%s"arguments":%s}}]}}]}`,
				i, head, name, jsonText(t, p)))
		}
	}
	out := append([]string{`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}`}, woven(t, rows)...)
	return append(out, `{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `{"id":"c","choices":[],"usage":{}}`, `[DONE]`)
}

func messagesOf(t *rapid.T, calls []wanted) []string {
	rows := make([][]string, len(calls))
	for i, c := range calls {
		rows[i] = []string{fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%s,"name":%s,"input":{}}}`, i, marshal(c.id), marshal(c.name))}
		for _, p := range c.pieces {
			rows[i] = append(rows[i], fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, jsonText(t, p)))
		}
		rows[i] = append(rows[i], fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	out := append([]string{`{"type":"message_start","message":{"role":"assistant","content":[]}}`}, woven(t, append(rows, []string{`{"type":"ping"}`}))...)
	return append(out, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`)
}

func responsesOf(t *rapid.T, calls []wanted) []string {
	rows := make([][]string, len(calls))
	var output []string
	for i, c := range calls {
		item := func(args, status string) string {
			return fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":%q,"call_id":%s,"name":%s,"arguments":%s}`, i, status, marshal(c.id), marshal(c.name), marshal(args))
		}
		output = append(output, item(c.args, "completed"))
		rows[i] = []string{fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s`, i, item("", "in_progress"))}
		for _, p := range c.pieces {
			rows[i] = append(rows[i], fmt.Sprintf(`{"type":"response.function_call_arguments.delta","item_id":"fc_%d","output_index":%d,"delta":%s`, i, i, jsonText(t, p)))
		}
		rows[i] = append(rows[i],
			fmt.Sprintf(`{"type":"response.function_call_arguments.done","item_id":"fc_%d","output_index":%d,"arguments":%s`, i, i, jsonText(t, c.args)),
			fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s`, i, item(c.args, "completed")))
	}
	end := strings.Join(output, ",")
	if rapid.Bool().Draw(t, "empty output") {
		end = ""
	}
	list := append([]string{`{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}`}, woven(t, rows)...)
	list = append(list, fmt.Sprintf(`{"type":"response.completed","response":{"id":"r","status":"completed","output":[%s]}`, end))
	for i := range list {
		list[i] += fmt.Sprintf(`,"sequence_number":%d}`, i)
	}
	return list
}

// geminiOf sends each call at once, or in pieces of its arguments' members.
func geminiOf(t *rapid.T, calls []wanted) []string {
	var out []string
	part := func(f string) {
		out = append(out, fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":%s}]}}]}`, f))
	}
	for _, c := range calls {
		head := fmt.Sprintf(`"id":%s,"name":%s`, marshal(c.id), marshal(c.name))
		if rapid.Bool().Draw(t, "whole") {
			part(fmt.Sprintf(`{%s,"args":%s}`, head, c.args))
			continue
		}
		var m map[string]json.RawMessage
		_ = json.Unmarshal([]byte(c.args), &m)
		part(fmt.Sprintf(`{%s,"willContinue":true}`, head))
		part(fmt.Sprintf(`{"partialArgs":[{"jsonPath":"$.big","numberValue":%s},{"jsonPath":"$['n']","numberValue":%s}],"willContinue":true}`, m["big"], m["n"]))
		s, _ := text(m["text"], "")
		for _, p := range pieces(t, s) {
			part(fmt.Sprintf(`{"partialArgs":[{"jsonPath":"$.text","stringValue":%s,"willContinue":true}],"willContinue":true}`, jsonText(t, p)))
		}
		part(`{"partialArgs":[{"jsonPath":"$.text","stringValue":""}]}`)
	}
	return append(out, `{"candidates":[{"content":{},"finishReason":"STOP"}]}`)
}

var generators = map[Format]func(*rapid.T, []wanted) []string{
	OpenAI: chatOf, Anthropic: messagesOf, Responses: responsesOf, Gemini: geminiOf,
}

// framed are events as they come from a model, with one of the ends of lines.
func framed(t *rapid.T, list []string) []byte {
	end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "line's end")
	var b strings.Builder
	switch rapid.IntRange(0, 2).Draw(t, "framing") {
	case 0:
		for _, e := range list {
			b.WriteString(e + end)
		}
	case 1:
		for _, e := range list {
			b.WriteString(": beat" + end + "data: " + e + end + end)
		}
	default: // as the API writes the types, and data in two lines where it may be cut
		for _, e := range list {
			head, tail, ok := strings.Cut(e, ",")
			if ok && json.Valid([]byte(e)) && strings.Count(head, `"`)%2 == 0 {
				b.WriteString("event: x" + end + "data: " + head + "," + end + "data:" + tail + end + end)
				continue
			}
			b.WriteString("data: " + e + end + end)
		}
	}
	return []byte(b.String())
}

// written is a stream whose bytes come in random pieces.
func written(t *rapid.T, s *Stream, all []byte) (Message, error) {
	for len(all) > 0 {
		n := min(len(all), rapid.IntRange(1, 200).Draw(t, "bytes"))
		if _, err := s.Write(all[:n]); err != nil {
			return Message{}, err
		}
		all = all[n:]
	}
	return s.End()
}

// TestStreamsOfRandomCalls: whatever calls are sent, in whatever pieces, woven into each
// other, come together again.
func TestStreamsOfRandomCalls(t *testing.T) {
	for _, f := range StreamFormats() {
		t.Run(string(f), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				calls := wantedCalls(t)
				s, err := NewStream("", StreamOptions{})
				if err != nil {
					t.Fatal(err)
				}
				m, err := written(t, s, framed(t, generators[f](t, calls)))
				if err != nil || s.Format() != f || len(m.Calls) != len(calls) {
					t.Fatalf("%s: %v, %d calls of %d", s.Format(), err, len(m.Calls), len(calls))
				}
				for i, c := range m.Calls {
					w := calls[i]
					if c.ProviderID != w.id || c.Tool != w.name || c.Refused != nil || !sameMembers(c.Args.Text, w.args) {
						t.Fatalf("call %d: %+v, want %+v", i, c, w)
					}
				}
			})
		})
	}
}

// sameMembers says whether two objects have the same members, digit for digit.
func sameMembers(a, b string) bool {
	var x, y map[string]json.RawMessage
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	s, _ := text(x["text"], "")
	u, _ := text(y["text"], "")
	x["text"], y["text"] = nil, nil
	return s == u && string(marshal(x)) == string(marshal(y))
}

// TestStreamsThatAreSpoilt: events that are left out, come twice, or in another order never
// give a call that nobody asked for, nor one call a piece of another; and none without the
// terminal event.
func TestStreamsThatAreSpoilt(t *testing.T) {
	for _, f := range StreamFormats() {
		t.Run(string(f), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := rapid.IntRange(1, 3).Draw(t, "calls")
				calls := make([]wanted, n)
				for i := range calls {
					digit := strconv.Itoa(i + 1) // which only this one's arguments hold
					args := fmt.Sprintf(`{"text":"%s","big":%s,"n":%s}`, strings.Repeat(digit, rapid.IntRange(0, 9).Draw(t, "length")), digit, digit)
					calls[i] = wanted{id: "id" + digit, name: "t" + digit, args: args, pieces: pieces(t, args)}
				}
				list := generators[f](t, calls)
				last := terminalAt(f, list)
				at := rapid.IntRange(0, len(list)-1).Draw(t, "at")
				switch rapid.IntRange(0, 3).Draw(t, "how") {
				case 0: // cut
					list = list[:at]
				case 1: // left out
					list = append(list[:at:at], list[at+1:]...)
				case 2: // twice
					list = append(list[:at+1:at+1], list[at:]...)
				case 3: // in another order
					to := rapid.IntRange(0, len(list)-1).Draw(t, "to")
					list[at], list[to] = list[to], list[at]
				}
				s, _ := NewStream(f, StreamOptions{Framing: FramingSSE})
				m, err := written(t, s, []byte("data: "+strings.Join(list, "\n\ndata: ")+"\n\n"))
				if err != nil {
					return
				}
				if !strings.Contains(strings.Join(list, "\n"), last) {
					t.Fatalf("calls without %s", last)
				}
				if f == Gemini {
					return // its pieces do not say whose they are: in another order nobody could tell
				}
				for _, c := range m.Calls {
					checkOwn(t, c.ProviderID, c.Tool, c.Args.Text)
				}
			})
		})
	}
}

// terminalAt is the event that a stream of a format ends with.
func terminalAt(f Format, list []string) string {
	switch f {
	case OpenAI:
		return "[DONE]"
	case Responses:
		return "response.completed"
	}
	return list[len(list)-1]
}

// checkOwn fails where a call holds a digit that is another's.
func checkOwn(t *rapid.T, id, tool, args string) {
	digit := strings.TrimPrefix(id, "id")
	if len(digit) != 1 || tool != "t"+digit || strings.Trim(args, digit+`{}":,abegintx `) != "" {
		t.Fatalf("call %q of %q has %s", id, tool, args)
	}
}
