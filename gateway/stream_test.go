package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/access"
)

// Streams of tests, as events of which each stands in a string.
var (
	chatStream = []string{
		`{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"echo","arguments":"{\"v\":"}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"echo","arguments":"{\"v\":"}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":1,"function":{"arguments":"2}"}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		`[DONE]`,
	}
	cutStream = []string{
		`{"type":"message_start","message":{"role":"assistant","content":[]}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"echo","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"v\":1}"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_2","name":"echo","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"v\":\"first ha"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`,
		`{"type":"message_stop"}`,
	}
	textStream = []string{
		`{"type":"message_start","message":{"role":"assistant","content":[]}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`,
		`{"type":"message_stop"}`,
	}
)

// sent are events as server-sent events.
func sent(list ...string) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "data: %s\n\n", e)
	}
	return b.String()
}

// eventStream are the headers of such a body.
func eventStream(more ...string) []string {
	return append([]string{"Content-Type", "text/event-stream"}, more...)
}

const turnsStream = "/v1/turns:stream"

func TestStreamIsSubmitted(t *testing.T) {
	d := newDoor(t, nil)
	const q = turnsStream + "?trace=tr&turn=tu&principal=agent"
	d.want(202, `{"trace":"tr","turn":"tu","state":"submitted","attached":false,"next":{"messages":"GET /v1/turns/tr/tu/messages?wait_ms=60000","turn":"GET /v1/turns/tr/tu","cancel":"POST /v1/turns/tr/tu/cancel"},"stop":"tool_calls"}`, "POST", q, sent(chatStream...), eventStream()...)
	d.want(202, `"attached":true`, "POST", q, sent(chatStream...), eventStream()...)
	d.want(202, `"attached":true`, "POST", q, strings.Join(chatStream[:4], "\n"), "Content-Type", "application/x-ndjson")
	// The same calls as a message are the same turn.
	d.want(202, `"attached":true`, "POST", "/v1/turns", `{"trace":"tr","turn":"tu","principal":"agent","message":`+openAI+`}`)
	d.want(409, "turn-exists", "POST", q, sent(chatStream[0], chatStream[3], chatStream[4]), eventStream()...)
	v, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: "tu"})
	must(t, err)
	s := v.Turn.Submitted
	if len(s.Calls) != 2 || s.Calls[0].Args.Text != `{"v":1}` || s.Calls[1].Args.Text != `{"v":2}` || s.Calls[1].ProviderID != "call_b" || s.Format != "openai" || s.Principal.ID != "agent" {
		t.Errorf("%+v", s)
	}
}

func TestStreamIsWaitedFor(t *testing.T) {
	d := newDoor(t, nil)
	o := newOwner(t, d.log.View("node"))
	var wg sync.WaitGroup
	wg.Go(func() {
		o.take()
		o.finish("hello")
	})
	const q = turnsStream + "?wait_ms=15000&trace=tr&turn=tu&principal=agent"
	out := d.want(200, `"state":"completed"`, "POST", q, sent(chatStream...), eventStream()...)
	wg.Wait()
	if !strings.Contains(out, `"messages":[{"role":"tool","tool_call_id":"call_a"`) || !strings.Contains(out, `"stop":"tool_calls"`) {
		t.Error(out)
	}
	// The same calls in another provider's words are answered in those.
	out = d.want(200, `"attached":true,"format":"anthropic","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_a"`, "POST", "/v1/turns",
		`{"trace":"tr","turn":"tu","principal":"agent","wait_ms":1000,"message":{"role":"assistant","content":[`+
			`{"type":"tool_use","id":"call_a","name":"echo","input":{"v":1}},{"type":"tool_use","id":"call_b","name":"echo","input":{"v":2}}]}}`)
	if strings.Contains(out, "assistant") {
		t.Error(out)
	}
	d.want(200, `"attached":true,"format":"responses"`, "POST", q+"&format=responses", sent(`{"type":"response.completed","response":{"status":"completed","output":[`+
		`{"type":"function_call","call_id":"call_a","name":"echo","arguments":"{\"v\":1}"},{"type":"function_call","call_id":"call_b","name":"echo","arguments":"{\"v\":2}"}]}}`), eventStream()...)
}

// TestStreamRefusedWhileItIsSent: who reads nothing before it has sent everything hears why.
func TestStreamRefusedWhileItIsSent(t *testing.T) {
	d := newDoor(t, nil)
	body := sent(`{"error":{"message":"overloaded"}}`) + strings.Repeat(":"+strings.Repeat("x", 1<<10)+"\n", 16<<10)
	c, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	must(t, err)
	defer c.Close()
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", turnsStream, len(body), body); err != nil {
		t.Fatalf("it cannot be sent: %v", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(text), "overloaded") {
		t.Errorf("%s: %s", resp.Status, text)
	}
}

// TestStreamCutByTheModel: each call whose id the caller has is there, and none may start.
func TestStreamCutByTheModel(t *testing.T) {
	d := newDoor(t, nil)
	d.want(202, `"stop":"max_tokens"`, "POST", turnsStream+"?trace=tr&turn=tu", sent(cutStream...), eventStream()...)
	v, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: "tu"})
	must(t, err)
	if len(v.Turn.Submitted.Calls) != 2 {
		t.Fatalf("%+v", v.Turn.Submitted.Calls)
	}
	for i, c := range v.Turn.Submitted.Calls {
		if c.Refused == nil || c.Refused.Code != events.TruncatedByModel {
			t.Errorf("call %d: %+v", i, c)
		}
	}
}

// TestStreamThatAsksForNothing: there is no turn then, and that is no error.
func TestStreamThatAsksForNothing(t *testing.T) {
	d := newDoor(t, nil)
	d.want(200, `{"trace":"tr","turn":"tu","state":"nothing","attached":false,"stop":"end_turn"}`, "POST", turnsStream+"?trace=tr&turn=tu", sent(textStream...), eventStream()...)
	d.want(404, "no-turn", "GET", "/v1/turns/tr/tu", "")
}

// TestStreamWithCallsOfOthers: calls of kinds that are not run here are named, by each way in.
func TestStreamWithCallsOfOthers(t *testing.T) {
	const (
		other    = `{"type":"computer_call","id":"cu_1","call_id":"call_c","action":{}}`
		function = `{"type":"function_call","call_id":"call_a","name":"echo","arguments":"{}"}`
		named    = `"unanswered":[{"type":"computer_call","id":"call_c"}]`
	)
	completed := func(items string) string {
		return `{"type":"response.completed","response":{"status":"completed","output":[` + items + `]}}`
	}
	d := newDoor(t, nil)
	d.want(200, `{"trace":"t","turn":"u","state":"nothing","attached":false,`+named+`,"stop":"completed"}`, "POST", turnsStream+"?trace=t&turn=u", sent(completed(other)), eventStream()...)
	d.want(202, named, "POST", turnsStream, sent(completed(other+","+function)), eventStream()...)
	for _, how := range []string{`"message":[` + other + "," + function + `]`, `"stream":` + string(marshalled(sent(completed(other+","+function))))} {
		d.want(202, named, "POST", "/v1/turns", `{"principal":"agent",`+how+`}`)
	}
	d.want(400, "a computer_call is run and answered by the agent itself", "POST", "/v1/turns", `{"message":[`+other+`]}`)
	_, text := d.do("POST", turnsStream, sent(completed(other+","+function)), eventStream("Accept", "text/event-stream")...)
	if strings.Count(text, named) != 2 { // submitted, answer
		t.Errorf("%s", text)
	}
}

func marshalled(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// TestStreamThatSubmitsNothing: what did not end well leaves no trace, and says why.
func TestStreamThatSubmitsNothing(t *testing.T) {
	d := newDoor(t, nil)
	for i, c := range []struct {
		status int
		kind   codec.Fault
		list   []string
	}{
		{422, codec.FaultCut, chatStream[:3]},
		{422, codec.FaultCut, chatStream[:4]}, // no [DONE]
		{422, codec.FaultCut, cutStream[:7]},  // no message_stop
		{422, codec.FaultCut, nil},
		{422, codec.FaultError, append(chatStream[:2:2], `{"error":{"message":"overloaded"}}`)},
		{422, codec.FaultAfterEnd, append(chatStream[:5:5], chatStream[0])},
		{422, codec.FaultOrder, cutStream[1:]},
		{422, codec.FaultConflict, append(cutStream[:1:1], cutStream...)},
		{422, codec.FaultChoices, []string{`{"choices":[{"index":0,"delta":{}},{"index":1,"delta":{}}]}`}},
		{422, codec.FaultAmbiguous, []string{`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]}}]}`}},
		{400, codec.FaultMalformed, append(chatStream[:2:2], `{"choices`)},
		{400, codec.FaultFormat, []string{`{"what":1}`, `[DONE]`}},
		{413, codec.FaultTooLarge, []string{`{"choices":[],"x":"` + strings.Repeat("x", codec.MaxBody) + `"}`}},
	} {
		turn := fmt.Sprintf("tu%d", i)
		out := d.want(c.status, "urn:sluice:problem:"+string(c.kind), "POST", turnsStream+"?trace=tr&turn="+turn, sent(c.list...), eventStream()...)
		if !strings.Contains(out, "nothing was submitted") {
			t.Errorf("%s", out)
		}
		d.want(404, "no-turn", "GET", "/v1/turns/tr/"+turn, "")
	}
}

// TestStreamFaultsAreAnswered: each fault has a title and says what to do.
func TestStreamFaultsAreAnswered(t *testing.T) {
	all := []codec.Fault{
		codec.FaultCut, codec.FaultError, codec.FaultAmbiguous, codec.FaultConflict, codec.FaultOrder, codec.FaultAfterEnd,
		codec.FaultChoices, codec.FaultMalformed, codec.FaultFormat, codec.FaultTooLarge,
	}
	if len(all) != len(streamVerdicts) {
		t.Errorf("%d faults, %d verdicts", len(all), len(streamVerdicts))
	}
	page := docPage(t, "streams.md")
	for _, f := range all {
		if v := streamVerdicts[f]; v.title == "" || v.next == "" {
			t.Errorf("%s has no verdict", f)
		}
		if !strings.Contains(page, "`"+string(f)+"`") {
			t.Errorf("docs/streams.md does not have %s", f)
		}
	}
	for name := range streamFields {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/streams.md does not have %s", name)
		}
	}
	if got := problemOf(brokenOff(os.ErrDeadlineExceeded)); got.Status != 408 {
		t.Errorf("%+v", got)
	}
}

func TestStreamEnvelope(t *testing.T) {
	d := newDoor(t, nil)
	body := sent(chatStream...)
	for _, c := range []struct {
		status  int
		part    string
		query   string
		headers []string
	}{
		{400, `query parameter \"colour\"`, "?colour=red", nil},
		{400, `wait_ms=\"soon\"`, "?wait_ms=soon", nil},
		{400, `can_ask=\"perhaps\"`, "?can_ask=perhaps", nil},
		{400, `\"trace\" stands 2 times`, "?trace=a&trace=b", nil},
		{400, `1 to 64 of`, "?trace=a/b", nil},
		{400, `done \"maybe\"`, "?done=maybe", nil},
		{400, `stream-format`, "?format=json", nil},
		{400, `stream-format`, "?format=anthropic", nil},
		{400, `no absolute path`, "?workspace=here", nil},
		{400, `beside the header`, "?trace=a", []string{"Sluice-Envelope", `{"turn":"x"}`}},
		{400, `says what to run`, "", []string{"Sluice-Envelope", `{"calls":[{"tool":"echo"}]}`}},
		{400, `unknown field`, "", []string{"Sluice-Envelope", `{"colour":1}`}},
		{202, `"trace":"hh","turn":"x"`, "?done=optional", []string{"Sluice-Envelope", `{"trace":"hh","turn":"x","principal":{"id":"a","parents":["b"]},"mode":"read_only"}`}},
		{202, `"trace":"qq","turn":"x"`, "?trace=qq&turn=x&mode=read_only&can_ask=true&allow=echo,read&allow=write&on_error=abort_rest&parallel_disjoint=true&max_concurrency=2&deadline_ms=1000&call_deadline_ms=500&call_bytes=600&turn_bytes=7000&secrets=/v&placement=p", nil},
	} {
		d.want(c.status, c.part, "POST", turnsStream+c.query, body, eventStream(c.headers...)...)
	}
	v, err := d.desk.Get(within(t), events.TurnKey{Trace: "hh", Turn: "x"})
	must(t, err)
	if s := v.Turn.Submitted; s.Principal.Parents[0] != "b" || s.Mode != events.ModeRead {
		t.Errorf("%+v", s)
	}
	v, err = d.desk.Get(within(t), events.TurnKey{Trace: "qq", Turn: "x"})
	must(t, err)
	s := v.Turn.Submitted
	if want := (events.Limits{Concurrency: 2, DeadlineMS: 1000, CallMS: 500, CallBytes: 600, TurnBytes: 7000}); s.Limits != want || !s.CanAsk || !s.Disjoint ||
		strings.Join(s.Allow, " ") != "echo read write" || s.OnError != events.OnErrorAbortRest || s.Placement != "p" {
		t.Errorf("%+v", s)
	}
}

func TestStreamMedia(t *testing.T) {
	d := newDoor(t, nil)
	body := sent(chatStream...)
	for _, media := range []string{"text/event-stream; charset=utf-8", "application/x-www-form-urlencoded"} {
		d.want(202, "", "POST", turnsStream, body, "Content-Type", media)
	}
	gemini := `[{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"echo","args":{"v":1}}}]},"finishReason":"STOP"}]}]`
	d.want(202, "", "POST", turnsStream, gemini, "Content-Type", "application/json")
	d.want(202, "", "POST", turnsStream, strings.Join(chatStream, "\n"), "Content-Type", "application/jsonl")
	d.want(415, "The body is no stream of events", "POST", turnsStream, body, "Content-Type", "text/plain")
	d.want(415, "", "POST", turnsStream, body, "Content-Type", "text/event-stream", "Content-Encoding", "gzip")
	d.want(415, "", "POST", turnsStream, body, "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Mode", "cors")
	d.want(415, "no JSON", "POST", "/v1/turns", body, "Content-Type", "text/event-stream") // only there
}

// handled is a door whose handler says when it has done with a request.
func handled(t *testing.T, d *door) (url string, done <-chan struct{}) {
	t.Helper()
	ended := make(chan struct{}, 8)
	h := d.api.Handler()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		ended <- struct{}{}
	}))
	t.Cleanup(s.Close)
	return s.URL, ended
}

// TestStreamOfAClientThatGoes: a body that is not whole submits nothing, even if the stream
// in it is.
func TestStreamOfAClientThatGoes(t *testing.T) {
	d := newDoor(t, nil)
	url, done := handled(t, d)
	body := sent(chatStream...)
	for i, head := range []string{
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+1, body),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(body), body[:len(body)/2]),
	} {
		c, err := new(net.Dialer).DialContext(within(t), "tcp", strings.TrimPrefix(url, "http://"))
		must(t, err)
		_, err = fmt.Fprintf(c, "POST %s?trace=tr&turn=tu%d HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/event-stream\r\n%s", turnsStream, i, head)
		must(t, err)
		must(t, c.Close())
		select {
		case <-done:
		case <-within(t).Done():
			t.Fatal("the request does not end")
		}
		if _, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: fmt.Sprintf("tu%d", i)}); !errors.Is(err, lifecycle.ErrNoTurn) {
			t.Errorf("%.20q: %v", head, err)
		}
	}
	if !d.api.bodies.TryAcquire(bodyBudget) {
		t.Error("part of the budget is still held")
	}
}

// TestStreamEndsWithTheDoor: a door that closes waits for no model.
func TestStreamEndsWithTheDoor(t *testing.T) {
	d := newDoor(t, nil)
	in, out := io.Pipe()
	req := request(t, "POST", d.url+turnsStream, in)
	req.Header.Set("Content-Type", "text/event-stream")
	answer := make(chan int, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			answer <- 0 // the connection was closed under it: that is an end, too
			return
		}
		_ = resp.Body.Close()
		answer <- resp.StatusCode
	})
	_, err := out.Write([]byte(sent(chatStream[0])))
	must(t, err)
	d.api.Close()
	for err == nil { // a client hears that its connection is closed once it writes
		_, err = out.Write([]byte(": more\n\n"))
	}
	if got := <-answer; got != 503 && got != 0 {
		t.Errorf("%d", got)
	}
}

// shownStream is a stream that goes in while its answer comes out.
type shownStream struct {
	in   *io.PipeWriter
	next func() sse
}

func (d *door) shown(query string, headers ...string) (*shownStream, func()) {
	d.t.Helper()
	return d.shownBy(http.DefaultClient, query, headers...)
}

// shownBy is shown by a client that the door's server knows.
func (d *door) shownBy(by *http.Client, query string, headers ...string) (*shownStream, func()) {
	d.t.Helper()
	in, out := io.Pipe()
	ctx, cancel := context.WithCancel(within(d.t))
	req, err := http.NewRequestWithContext(ctx, "POST", d.url+turnsStream+query, in)
	must(d.t, err)
	req.Header.Set("Content-Type", "text/event-stream")
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := by.Do(req)
	must(d.t, err)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		d.t.Fatalf("%d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(resp.Body)
	next := func() (e sse) {
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e.kind = value
			case "data":
				e.data = value
				return e
			}
		}
		return e
	}
	return &shownStream{out, next}, func() { _ = out.Close(); cancel(); _ = resp.Body.Close() }
}

func TestStreamPreviews(t *testing.T) {
	d := newDoor(t, nil)
	o := newOwner(t, d.log.View("node"))
	s, stop := d.shown("?trace=tr&turn=tu&wait_ms=15000")
	defer stop()
	write := func(list ...string) {
		t.Helper()
		_, err := io.WriteString(s.in, sent(list...))
		must(t, err)
	}
	want := func(kind, data string) {
		t.Helper()
		if e := s.next(); e.kind != kind || e.data != data && !strings.Contains(e.data, data) {
			t.Fatalf("got %s %s, want %s %s", e.kind, e.data, kind, data)
		}
	}
	write(chatStream[0])
	want("preview", `{"preview":true,"call":0,"id":"call_a","tool":"echo","delta":"{\"v\":"}`) // BEFORE the rest has come
	write(chatStream[1], chatStream[2])
	want("preview", `{"preview":true,"call":1,"id":"call_b","tool":"echo","delta":"{\"v\":"}`)
	want("preview", `{"preview":true,"call":0,"id":"call_a","tool":"echo","delta":"1}"}`)
	want("preview", `"delta":"2}"`)
	write(chatStream[3], chatStream[4])
	want("preview", `"call":0,"id":"call_a","tool":"echo","delta":"","closed":true`)
	want("preview", `"call":1`)
	if _, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: "tu"}); !errors.Is(err, lifecycle.ErrNoTurn) {
		t.Errorf("before the body has ended: %v", err)
	}
	must(t, s.in.Close())
	want("submitted", `{"trace":"tr","turn":"tu","state":"submitted","attached":false,"next":{"messages":"GET /v1/turns/tr/tu/messages?wait_ms=60000","turn":"GET /v1/turns/tr/tu","cancel":"POST /v1/turns/tr/tu/cancel"}}`)
	o.take()
	o.finish("hello")
	want("answer", `"state":"completed"`)
	if e := s.next(); e != (sse{}) {
		t.Errorf("behind the answer: %+v", e)
	}
}

// TestStreamPreviewsByHTTP2: there, too, they come before the stream has ended.
func TestStreamPreviewsByHTTP2(t *testing.T) {
	d := newDoor(t, nil)
	server := httptest.NewUnstartedServer(d.api.Handler())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	d.url = server.URL
	s, stop := d.shownBy(server.Client(), "?trace=tr&turn=tu")
	defer stop()
	_, err := io.WriteString(s.in, sent(chatStream[0]))
	must(t, err)
	if e := s.next(); e.kind != "preview" {
		t.Fatalf("%+v", e)
	}
	_, err = io.WriteString(s.in, sent(chatStream[1:]...))
	must(t, err)
	must(t, s.in.Close())
	var kinds []string
	for e := s.next(); e != (sse{}); e = s.next() {
		kinds = append(kinds, e.kind)
	}
	if n := len(kinds); n < 2 || kinds[n-2] != "submitted" || kinds[n-1] != "answer" {
		t.Errorf("%v", kinds)
	}
}

func TestStreamShownFails(t *testing.T) {
	d := newDoor(t, nil)
	s, stop := d.shown("?trace=tr&turn=tu")
	defer stop()
	_, err := io.WriteString(s.in, sent(chatStream[:3]...))
	must(t, err)
	must(t, s.in.Close())
	var last sse
	for e := s.next(); e != (sse{}); e = s.next() {
		last = e
	}
	var p Problem
	if err := json.Unmarshal([]byte(last.data), &p); err != nil || last.kind != "error" || p.Status != 422 || p.Type != problemPrefix+"stream-cut" {
		t.Errorf("%+v %v", last, err)
	}
	d.want(404, "no-turn", "GET", "/v1/turns/tr/tu", "")
	s, stop = d.shown("")
	defer stop()
	_, err = io.WriteString(s.in, sent(textStream...))
	must(t, err)
	must(t, s.in.Close())
	if e := s.next(); e.kind != "answer" || !strings.Contains(e.data, `"state":"nothing"`) {
		t.Errorf("%+v", e)
	}
}

// TestStreamOfSomebody: who sends it must be let in, at its beginning and at its end.
func TestStreamOfSomebody(t *testing.T) {
	ring := ringOf(t, everyone()...)
	var mu sync.Mutex
	d := newDoor(t, func(c *APIConfig) {
		c.Keys = func() *keys.Ring {
			mu.Lock()
			defer mu.Unlock()
			return ring
		}
	})
	body := sent(chatStream...)
	d.want(401, "", "POST", turnsStream, body, eventStream()...)
	d.want(403, "role", "POST", turnsStream, body, eventStream(as("obs")...)...)
	d.want(403, "other-name", "POST", turnsStream+"?principal=adm", body, eventStream(as("sub")...)...)
	d.want(202, `"turn":"tu"`, "POST", turnsStream+"?trace=tr&turn=tu", body, eventStream(as("sub")...)...)
	d.want(409, "", "POST", turnsStream+"?trace=tr&turn=tu", body, eventStream(as("sub2")...)...)
	s, stop := d.shown("?trace=tr&turn=late", as("sub")...)
	defer stop()
	_, err := io.WriteString(s.in, body)
	must(t, err)
	s.next() // it is being read
	mu.Lock()
	ring = ringOf(t, someone("sub2", "agent", access.Submitter))
	mu.Unlock()
	must(t, s.in.Close())
	var last sse
	for e := s.next(); e != (sse{}); e = s.next() {
		last = e
	}
	if last.kind != "error" || !strings.Contains(last.data, "unauthenticated") {
		t.Errorf("%+v", last)
	}
	if _, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: "late"}); !errors.Is(err, lifecycle.ErrNoTurn) {
		t.Errorf("%v", err)
	}
}

// TestStreamSecretsAreSealed: what comes by a stream is sealed as what comes by a message.
func TestStreamSecretsAreSealed(t *testing.T) {
	desk, b := sealingDesk(t)
	a := NewAPI(APIConfig{Desk: desk})
	defer a.Close()
	body := sent(
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"echo","arguments":"{\"v\":\"`+keyToSeal[:9]+`"}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"`+keyToSeal[9:]+`\",\"pass\":\"open sesame\"}"}}]},"finish_reason":"tool_calls"}]}`, `[DONE]`)
	for i, query := range []string{"?secrets=/pass", ""} {
		r := httptest.NewRequestWithContext(within(t), "POST", fmt.Sprintf("http://localhost%s%s", turnsStream, query), strings.NewReader(body))
		r.Header.Set("Content-Type", "text/event-stream")
		if got := served(a.Handler(), r); got.StatusCode != 202 {
			out, _ := io.ReadAll(got.Body)
			t.Fatalf("%d: %s", got.StatusCode, out)
		}
		stored := storedText(t, b)
		if strings.Contains(stored, keyToSeal) || i == 0 && strings.Contains(stored, "open sesame") {
			t.Errorf("%d: the log holds a secret", i)
		}
	}
}

// TestStreamInAnEnvelope: a stream that is there as a whole goes in as a text, by each door.
func TestStreamInAnEnvelope(t *testing.T) {
	envelope := func(list []string, more string) string {
		text, err := json.Marshal(sent(list...))
		must(t, err)
		return `{"trace":"tr","turn":"tu"` + more + `,"stream":` + string(text) + `}`
	}
	d := newDoor(t, nil)
	d.want(202, `"attached":false`, "POST", "/v1/turns", envelope(chatStream, ""))
	d.want(202, `"attached":true`, "POST", turnsStream+"?trace=tr&turn=tu", sent(chatStream...), eventStream()...)
	d.want(422, "stream-cut", "POST", "/v1/turns", envelope(chatStream[:3], ""))
	d.want(400, "more than one of", "POST", "/v1/turns", envelope(chatStream, `,"calls":[]`))
	d.want(400, "stream-format", "POST", "/v1/turns", envelope(chatStream, `,"format":"gemini"`))
	n := newNATSDoor(t)
	if a := n.ask("sub", "submit", envelope(cutStream, "")); a.Status != 202 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := n.ask("sub", "submit", strings.Replace(envelope(chatStream[:2], ""), `"tu"`, `"tv"`, 1)); a.Status != 422 || !bytes.Contains(a.Body, []byte("stream-cut")) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// TestStreamHoldsOfTheBudget: what a stream holds is taken of the budget for streams, and
// given back. Bodies have theirs, and one identity no more than its share.
func TestStreamHoldsOfTheBudget(t *testing.T) {
	d := newDoor(t, nil)
	v := new(visit)
	must(t, d.api.holdStream(within(t), v, 1))
	if v.stream != streamStep {
		t.Errorf("%d", v.stream)
	}
	must(t, d.api.holdStream(within(t), v, streamStep))
	must(t, d.api.holdStream(within(t), v, streamStep+1))
	if v.stream != 2*streamStep || d.api.streamed.TryAcquire(streamBudget-2*streamStep+1) {
		t.Errorf("%d", v.stream)
	}
	ctx, stop := context.WithCancel(within(t))
	stop()
	if err := d.api.holdStream(ctx, v, streamBudget+1); err == nil || problemOf(err).Status != 503 {
		t.Errorf("%v", err)
	}
	if !d.api.bodies.TryAcquire(bodyBudget) {
		t.Error("a stream holds of the budget for bodies")
	}
	d.api.letGo(v)
	if !d.api.streamed.TryAcquire(streamBudget) {
		t.Error("part of the budget is still held")
	}
	d.api.streamed.Release(streamBudget)

	bob := &share{id: "bob"}
	one, other := &visit{share: bob}, &visit{share: bob}
	must(t, d.api.holdStream(within(t), one, eachStreamBudget-streamStep))
	if err := d.api.holdStream(within(t), other, 2*streamStep); err == nil || problemOf(err).Status != 429 {
		t.Errorf("beyond the share: %v", err)
	}
	must(t, d.api.holdStream(within(t), &visit{share: &share{id: "ann"}}, 2*streamStep))
	d.api.letGo(one)
	must(t, d.api.holdStream(within(t), other, 2*streamStep))
	d.api.letGo(other)
	if bob.held != 0 {
		t.Errorf("bob holds %d", bob.held)
	}
	if got := earlier(time.Unix(2, 0), time.Unix(1, 0)); got.Unix() != 1 {
		t.Error(got)
	}
}

// timedWriter is a writer that notes until when a body may be read.
type timedWriter struct {
	*httptest.ResponseRecorder
	until []time.Duration // from now, when they were set
}

func (w *timedWriter) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		w.until = append(w.until, time.Until(t))
	}
	return nil
}

// TestStreamHasTimeOfItsOwn: a model may be silent for long, but once its stream has ended
// the body must, too.
func TestStreamHasTimeOfItsOwn(t *testing.T) {
	desk, _ := newDesk(t)
	a := NewAPI(APIConfig{Desk: desk})
	defer a.Close()
	pieces := []string{sent(chatStream[:2]...), sent(chatStream[2:]...)}
	in, out := io.Pipe()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for _, p := range pieces {
			_, _ = io.WriteString(out, p)
		}
		_ = out.Close()
	})
	w := &timedWriter{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(within(t), "POST", "http://localhost"+turnsStream, in)
	r.Header.Set("Content-Type", "text/event-stream")
	a.Handler().ServeHTTP(w, r)
	if w.Code != 202 || len(w.until) < 4 {
		t.Fatalf("%d %s, %v", w.Code, w.Body, w.until)
	}
	for i, d := range w.until[1:] { // the first one is that of every body
		want := streamSilence
		if i == len(pieces) {
			want = streamGrace
		}
		if d > want || d < want-time.Minute && want == streamSilence {
			t.Errorf("piece %d has %v, want %v", i, d, want)
		}
	}
}
