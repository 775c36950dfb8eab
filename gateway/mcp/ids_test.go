package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// odd are ids that float64 or an integer of 64 bits does not keep, or that readers of JSON
// do not agree about; and some that all keep.
var odd = []string{
	`1`, `0`, `-7`, `9007199254740992`, `9007199254740993`, `1152921504606846977`, `9223372036854775808`, `-1152921504606846977`,
	`123456789012345678901234567890`, `1.5`, `1.0`, `-0`, `1e3`, `1E400`, `0.1000000000000000055511151231257827`,
	`"a"`, `""`, `"1"`, `"\ud800"`, `"a\"b\\"`, `"\u0062"`, `"<&>"`, "\"\u2028\"",
}

// sameID says whether two ids are one to a client: the same digits, or the same text.
func sameID(a, b string) bool {
	var x, y string
	if a[0] == '"' && b[0] == '"' && !strings.Contains(a, `\ud800`) {
		return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && x == y
	}
	return a == b
}

// TestIDsComeBackAsTheyWere, in both revisions, answers and progress alike.
func TestIDsComeBackAsTheyWere(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{})
		p := w.poster(revision)
		bodies := make([]string, len(odd))
		var wg sync.WaitGroup
		for i, id := range odd {
			wg.Go(func() {
				_, bodies[i] = p.post(`{ "params" : {"name":"test_tool_with_progress","arguments":{},"_meta":{` + p.meta + `"progressToken": ` + id + ` }}, "method":"tools/call" ,"id": ` + id + ` ,"jsonrpc":"2.0"}`)
			})
		}
		wg.Wait()
		for i, id := range odd {
			var tokens, answers int
			for _, m := range messages(t, bodies[i]) {
				switch {
				case m.Result != nil:
					answers++
					if !sameID(string(m.ID), id) {
						t.Errorf("id %s is answered as %s", id, m.ID)
					}
				case m.Method == "notifications/progress":
					tokens++
					if !sameID(string(m.Params.ProgressToken), id) {
						t.Errorf("token %s came as %s", id, m.Params.ProgressToken)
					}
				}
			}
			if answers != 1 || tokens == 0 {
				t.Errorf("id %s: %d answers and %d notes of progress in %q", id, answers, tokens, bodies[i])
			}
		}
		for _, id := range []string{"null", "true", "{}", "[1]", `"` + strings.Repeat(`\ud800`, maxID) + `"`, strings.Repeat("9", maxID+1)} {
			status, body := p.post(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"echo","arguments":{"v":1}}}`)
			if status != http.StatusBadRequest || !strings.Contains(body, `"id":null`) || !strings.Contains(body, "-32600") {
				t.Errorf("id %.20s: %d %s", id, status, body)
			}
		}
	})
}

// TestWhatIsNotTakenIsRefusedInJSON: programs read errors of JSON-RPC, with the id that they
// have sent, in each revision; and what is only told, and not known here, is no error.
func TestWhatIsNotTakenIsRefusedInJSON(t *testing.T) {
	p := newWorld(t, making{}).poster("2025-11-25")
	for body, want := range map[string]struct {
		status int
		says   string
	}{
		`{"jsonrpc":"2.0","id":2.5,"method":"nope/x"}`:                                     {http.StatusOK, `{"jsonrpc":"2.0","id":2.5,"error":{"code":-32601,`},
		`{"jsonrpc":"2.0","id":"a","method":"tools/call"}`:                                 {http.StatusOK, `{"jsonrpc":"2.0","id":"a","error":{"code":-32602,`},
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`:                 {http.StatusBadRequest, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		`{"jsonrpc":"2.0","method":"notifications/whatever"}`:                              {http.StatusAccepted, ""},
		`{"jsonrpc":"1.0","id":3,"method":"ping"}`:                                         {http.StatusBadRequest, `{"jsonrpc":"2.0","id":3,"error":{"code":-32700,`},
		`[{"jsonrpc":"2.0","id":3,"method":"ping"}]`:                                       {http.StatusBadRequest, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		`{"jsonrpc":"2.0","id":3,"method":"ping"}{"jsonrpc":"2.0","id":4,"method":"ping"}`: {http.StatusBadRequest, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		`nonsense`: {http.StatusBadRequest, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		``:         {http.StatusBadRequest, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		`{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"loud"}}`: {http.StatusOK, `"id":5,"error":{"code":-32602,"message":"there is no level`},
		`{"jsonrpc":"2.0","id":6,"method":"ping"}`:                                       {http.StatusOK, `{"jsonrpc":"2.0","id":6,"result":{}}`},
	} {
		status, said := p.post(body)
		if status != want.status || !strings.Contains(said, want.says) || want.says == "" && said != "" {
			t.Errorf("%s: %d %s", body, status, said)
		}
	}
	p.header.Set(sessionHeader, "nobodys")
	if status, said := p.post(`{"jsonrpc":"2.0","id":2.5,"method":"ping"}`); status != http.StatusNotFound || !strings.Contains(said, `"id":2.5,"error":{"code":-32600,"message":"session not found: begin`) {
		t.Errorf("a session that there is not: %d %s", status, said)
	}
	p.header.Del(sessionHeader)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if status, said := p.ask(method, ""); status != http.StatusBadRequest || !strings.HasPrefix(said, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`) {
			t.Errorf("%s without a session: %d %s", method, status, said)
		}
	}
	if status, said := p.post(`{"jsonrpc":"2.0","id":2.5,"method":"tools/call","params":{"name":"echo"}}`); status != http.StatusBadRequest ||
		!strings.Contains(said, `"id":2.5,"error":{"code":-32600,"message":"there is no session: send initialize first`) {
		t.Errorf("without a session: %d %s", status, said)
	}
	if status, said := p.post(`{"jsonrpc":"2.0","id":6,"method":"ping"}`); status != http.StatusOK || !strings.Contains(said, `"result":{}`) {
		t.Errorf("a sign of life without a session: %d %s", status, said)
	}
}

// TestNeighboursAreTwo: ids that would be one to float64 are two requests of a session at
// once, and a cancel reaches the one that it names.
func TestNeighboursAreTwo(t *testing.T) {
	w := newWorld(t, making{})
	p := w.poster("2025-11-25")
	type answer struct{ id, body string }
	answers := make(chan answer, 4)
	ids := []string{"9007199254740993", "9007199254740992", "2.5", "2"}
	for i, id := range ids {
		go func() {
			_, body := p.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"sleep","arguments":{"ms":%d}}}`, id, 599_000+i))
			answers <- answer{id, body}
		}()
	}
	until(t, "all of them run", func() bool { return w.running() == len(ids) })
	for left, id := range []string{"2.5", "9007199254740993", "2", "9007199254740992"} {
		p.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		select {
		case a := <-answers:
			if a.id != id {
				t.Errorf("the cancel of %s has reached %s: %s", id, a.id, a.body)
			}
		case <-within(t).Done():
			t.Fatalf("%s is not cancelled, %d were", id, left)
		}
	}
}

// TestIDsAtStreams: the same at two streams, where a line that is no message is answered
// and ends nothing.
func TestIDsAtStreams(t *testing.T) {
	w := newWorld(t, making{})
	inW, outR, ended := w.speak(Streams{})
	lines := bufio.NewScanner(outR)
	ask := func(line string) string {
		t.Helper()
		go func() { _, _ = io.WriteString(inW, line+"\n") }()
		if !lines.Scan() {
			t.Fatalf("no answer to %.60s: %v", line, lines.Err())
		}
		return lines.Text()
	}
	if got := ask(`{"jsonrpc":"2.0","id":0,"method":"tools/list"}`); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":0,"error":{"code":-32600,`) {
		t.Errorf("before initialize: %s", got)
	}
	ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	for _, id := range odd {
		var m message
		must(t, json.Unmarshal([]byte(ask(`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"echo","arguments":{"v":1}}}`)), &m))
		if m.Result == nil || !sameID(string(m.ID), id) {
			t.Errorf("id %s is answered as %+v", id, m)
		}
	}
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1`: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`,
		`hello`:                   `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`,
		`[]`:                      `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`,
		`[{"jsonrpc":"2.0","id":1.5,"method":"ping"}]`: `{"jsonrpc":"2.0","id":1.5,"result":`,
		`[[]]`: `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`,
		`5`:    `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`,
		`{"jsonrpc":"1.0","id":9.5,"method":"ping"}`:                                                                     `{"jsonrpc":"2.0","id":9.5,"error":{"code":-32600,`,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`:                                                                    `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`,
		`{"jsonrpc":"2.0","id":[1],"method":"ping"}`:                                                                     `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`,
		strings.Repeat(" ", 9<<20) + `{"jsonrpc":"2.0",}`:                                                                `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`,
		`{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"a":["` + strings.Repeat("x", 9<<20) + `"]}}`:       `{"jsonrpc":"2.0","id":"big","error":{"code":-32600,`,
		`{"method":"tools/call","params":{"a":"\"id\":1 ` + strings.Repeat(`{"`, 9<<19) + `"},"jsonrpc":"2.0","id":8.5}`: `{"jsonrpc":"2.0","id":8.5,"error":{"code":-32600,`,
	} {
		if got := ask(line); !strings.HasPrefix(got, want) {
			t.Errorf("%.60q is answered %s", line, got)
		}
	}
	if got := ask(`{"jsonrpc":"2.0","id":7,"method":"ping"}`); !strings.Contains(got, `"id":7,"result"`) {
		t.Errorf("behind all of it: %s", got)
	}
	const held = `{"jsonrpc":"2.0","id":5.5,"method":"tools/call","params":{"name":"sleep","arguments":{"ms":600000}}}`
	_, err := io.WriteString(inW, held+"\n")
	must(t, err)
	until(t, "the call runs", func() bool { return w.running() == 1 })
	if got := ask(held); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a request has the id of another`) {
		t.Errorf("the id of a call that runs: %s", got)
	}
	_, err = io.WriteString(inW, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5.5}}`+"\n")
	must(t, err)
	until(t, "the call is cancelled", func() bool { return w.running() == 0 })
	if got := ask(`{"jsonrpc":"2.0","id":5.5,"method":"ping"}`); !strings.Contains(got, `"id":5.5,"result"`) { // and no answer to the call
		t.Errorf("the id of a call that was cancelled: %s", got)
	}
	_ = inW.Close()
	must(t, <-ended)
}

// TestASecondInitialize at one pipe is answered as the first one: of another client behind a
// program between, or of one that has asked in the newest revision before. What comes then is
// answered as the older revision has it.
func TestASecondInitialize(t *testing.T) {
	initialize := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for _, first := range []string{
		initialize,
		`{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`,
	} {
		w := newWorld(t, making{})
		inW, outR, ended := w.speak(Streams{})
		lines := bufio.NewScanner(outR)
		for i, one := range []struct{ line, says string }{
			{first, `"result":{`},
			{initialize, `"protocolVersion":"2025-03-26"`},
			{`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"v":1}}}`, `"content":[{"type":"text","text":"1"}]`},
		} {
			go func() { _, _ = io.WriteString(inW, one.line+"\n") }()
			for lines.Scan() && !strings.Contains(lines.Text(), `"id":`) { // changes of the list
			}
			if got := lines.Text(); !strings.Contains(got, one.says) || i > 0 && strings.Contains(got, "structuredContent") {
				t.Errorf("behind %.60s: %s is answered %s", first, one.line, got)
			}
		}
		_ = inW.Close()
		must(t, <-ended)
	}
}

// TestAClientThatDoesNotRead holds nothing up: the door closes, and Speak returns.
func TestAClientThatDoesNotRead(t *testing.T) {
	w := newWorld(t, making{})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	d := w.open(making{})
	ended := make(chan error, 1)
	go func() { ended <- d.Speak(t.Context(), Streams{In: inR, Out: unclosed{outW}}) }()
	for i := range 3 { // nobody reads the answers
		_, err := fmt.Fprintf(inW, `{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n", i)
		must(t, err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.Close()
	}()
	for range 2 {
		select {
		case <-closed:
			closed = nil
		case err := <-ended:
			must(t, err)
		case <-within(t).Done():
			t.Fatal("a client that does not read holds the door")
		}
	}
	_ = outR.Close() // as the end of the process does
	_ = inW.Close()
}

// unclosed is the end of a pipe that others hold too.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// TestEitherSpelling: server:tool and server.tool are server__tool, at this door too.
func TestEitherSpelling(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{})
		must(t, w.registry.Add(w.effect("h__pull")))
		s := w.client(revision, nil, nil)
		for i, name := range []string{"h:pull", "h.pull", "h__pull"} {
			r := call(t, s, name, map[string]any{"n": i})
			if r.IsError || len(w.lines()) != i+1 || w.turn(turnOf(t, r)).Turn.Calls[0].Tool != "h__pull" {
				t.Errorf("%s: %q, ledger %q", name, say(r), w.lines())
			}
		}
	})
}

// TestWholeText: what is no text does not go to a client, in data or in a schema.
func TestWholeText(t *testing.T) {
	if got := string(shown(json.RawMessage(`{"k" : "\ud800", "\udc00x":["\ud83d\ude00"]}`))); got != `{"k":"\ufffd","\ufffdx":["\ud83d\ude00"]}` {
		t.Error(got)
	}
	told := Tool{Name: "t", Schema: json.RawMessage(`{"type":"object","title":"\ud800"}`), Output: json.RawMessage(`{"title":"\udfff"}`)}.told()
	b, err := json.Marshal(told)
	must(t, err)
	if strings.Contains(string(b), `\ud800`) || strings.Contains(string(b), `\udfff`) || !strings.Contains(string(b), `\ufffd`) {
		t.Errorf("%s", b)
	}
}

// FuzzIDs: whatever a body is, it comes back from its own texts as it was, and nothing in
// it becomes invalid.
func FuzzIDs(f *testing.F) {
	for _, id := range odd {
		f.Add(`{"jsonrpc":"2.0","id":` + id + `,"method":"m","params":{"requestId":` + id + `,"_meta":{"progressToken":` + id + `}}}`)
	}
	f.Add(`[{"id":1.5,"method":"a"},{"method":"notifications/cancelled","params":{"requestId":1.5}}]`)
	f.Add(`{"id":1.5,"id":2.5,"method":"a"}{"id":3.5}`)
	k := newIDs()
	f.Fuzz(func(t *testing.T, body string) {
		in, changed, err := k.in([]byte(body))
		if err != nil {
			return
		}
		if changed != (string(in) != body) || json.Valid([]byte(body)) && !json.Valid(in) {
			t.Fatalf("%q becomes %q", body, in)
		}
		if back := string(k.out(in)); back != body {
			t.Fatalf("%q comes back as %q", body, back)
		}
		if again, changed, err := k.in(in); err != nil || changed {
			t.Fatalf("%q becomes %q, and that %q (%v)", body, in, again, err)
		}
	})
}

// message is what a client reads of what comes.
type message struct {
	ID     json.RawMessage
	Method string
	Result json.RawMessage
	Error  json.RawMessage
	Params struct{ ProgressToken json.RawMessage }
}

// messages are those of a body, events or one message.
func messages(t *testing.T, body string) []message {
	t.Helper()
	var out []message
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(line, "data: ")
		if data = strings.TrimSpace(data); !ok || data == "" {
			continue
		}
		var m message
		must(t, json.Unmarshal([]byte(data), &m))
		out = append(out, m)
	}
	return out
}

// poster posts messages of its own making.
type poster struct {
	w      *world
	client *http.Client
	header http.Header
	meta   string // what every request's _meta has, with a comma behind it
}

// poster makes one, with a session where the revision has such.
func (w *world) poster(revision string) *poster { return w.posterOf(revision, http.Header{}) }

// posterOf is one whose requests carry headers.
func (w *world) posterOf(revision string, header http.Header) *poster {
	w.t.Helper()
	p := &poster{w: w, client: &http.Client{Transport: &http.Transport{}}, header: header.Clone()}
	p.header.Set(versionHeader, revision)
	w.t.Cleanup(p.client.CloseIdleConnections)
	if revision >= sinceStateless {
		p.meta = `"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"p","version":"1"},`
		p.header.Set("Mcp-Method", "tools/call")
		p.header.Set("Mcp-Name", "test_tool_with_progress")
		return p
	}
	status, _ := p.post(`{"jsonrpc":"2.0","id":"\ud800","method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":{},"clientInfo":{"name":"p","version":"1"}}}`)
	if status != http.StatusOK || p.header.Get(sessionHeader) == "" {
		w.t.Fatalf("no session: %d", status)
	}
	p.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

// post posts one, and reads all of the answer.
func (p *poster) post(body string) (int, string) { return p.ask(http.MethodPost, body) }

func (p *poster) ask(method, body string) (int, string) {
	r, err := http.NewRequestWithContext(within(p.w.t), method, "http://"+p.w.at+"/mcp", strings.NewReader(body))
	if err != nil {
		p.w.t.Error(err)
		return 0, ""
	}
	r.Header = p.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := p.client.Do(r)
	if err != nil {
		p.w.t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	if id := resp.Header.Get(sessionHeader); id != "" && p.header.Get(sessionHeader) == "" {
		p.header.Set(sessionHeader, id)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.w.t.Error(err)
	}
	return resp.StatusCode, string(b)
}
