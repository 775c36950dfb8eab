package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// api speaks to a node over HTTP. The types below say what the answers are, by
// the documentation and not by the node's own code.
type api struct {
	t    *testing.T
	base string
}

// call is one call of a submission in Sluice's own form.
type call struct {
	ID   string `json:"id,omitempty"`
	Tool string `json:"tool"`
	Args any    `json:"args,omitempty"`
	Key  string `json:"key,omitempty"`
}

// args are arguments by name.
type args = map[string]any

// forever is how many milliseconds a call takes that goes on until it is told to end, or
// until a file is there.
const forever = 600_000

// waits is a call that reads, and goes on until the workspace has a file.
func waits(file string) call { return call{Tool: "sleep", Args: args{"ms": forever, "until": file}} }

// turn is a submission.
type turn struct {
	Trace     string         `json:"trace,omitempty"`
	Turn      string         `json:"turn,omitempty"`
	Principal string         `json:"principal,omitempty"`
	Format    string         `json:"format,omitempty"`
	Message   any            `json:"message,omitempty"`
	Calls     []call         `json:"calls,omitempty"`
	Allow     []string       `json:"allow,omitempty"`
	Mode      string         `json:"mode,omitempty"`
	OnError   string         `json:"on_error,omitempty"`
	CanAsk    bool           `json:"can_ask,omitempty"`
	Disjoint  bool           `json:"parallel_disjoint,omitempty"`
	Limits    map[string]int `json:"limits,omitempty"`
	WaitMS    int            `json:"wait_ms,omitempty"`
}

// view is a turn as the node shows it.
type view struct {
	Trace, Turn, State string
	Attached           bool
	Batches            [][]int
	Calls              []callView
	Messages           []json.RawMessage
}

// callView is a call as the node shows it.
type callView struct {
	Call                                                             int
	Tool, State, Tier, Effects, Resolved, Status, Code, Reason, Path string
	Attempt                                                          int
	Of                                                               string `json:"deduplicated_from"`
	Whole                                                            *struct {
		Digest string
		Size   int
		Media  string `json:"media_type"`
	}
}

// answer is a message in Sluice's own form.
type answer struct {
	Call     int
	ID, Tool string
	Answer   string
	Content  struct {
		Status, Text string
		Data         json.RawMessage
		Error        *struct{ Code, Message, Path string }
	}
}

// event is an event as a CloudEvent.
type event struct {
	ID, Type, Subject, Position, Number, Tool, Boot, Time string
	Data                                                  json.RawMessage
}

// kind is the event's kind.
func (e event) kind() string {
	k := strings.TrimPrefix(e.Type, "run.sluice.")
	return k[:strings.LastIndex(k, ".")]
}

// field is a member of the event's data, as it would be printed; "" if it is not there.
func (e event) field(name string) string {
	var m map[string]any
	if json.Unmarshal(e.Data, &m) != nil || m[name] == nil {
		return ""
	}
	return fmt.Sprint(m[name])
}

// client gives up where a node does not answer.
var client = &http.Client{Timeout: patience + 10*time.Second}

// ask sends a request and returns the answer, whatever it is.
func (a *api) ask(method, path string, body any) (status int, answer []byte) {
	a.t.Helper()
	status, answer, err := a.try(method, path, body)
	if err != nil {
		a.t.Fatal(err)
	}
	return status, answer
}

// try is ask for a node that may be gone. body is sent as it is if it is bytes, else as JSON.
func (a *api) try(method, path string, body any) (int, []byte, error) {
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		in = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return 0, nil, err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, a.base+path, in)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp.StatusCode, out, err
}

// get reads what has to be there into v.
func (a *api) get(path string, v any) {
	a.t.Helper()
	status, body := a.ask(http.MethodGet, path, nil)
	if status != http.StatusOK {
		a.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		a.t.Fatalf("GET %s: %v: %s", path, err, body)
	}
}

// post asks for an act that has to be heard.
func (a *api) post(path string, body any) (out struct{ Status, State string }) {
	a.t.Helper()
	status, text := a.ask(http.MethodPost, path, body)
	if status >= 300 || json.Unmarshal(text, &out) != nil {
		a.t.Fatalf("POST %s: %d %s", path, status, text)
	}
	return out
}

// submit submits a turn that has to be accepted, and returns what the node says of it.
func (a *api) submit(tu turn) view {
	a.t.Helper()
	status, body := a.ask(http.MethodPost, "/v1/turns", tu)
	var v view
	if status >= 300 || json.Unmarshal(body, &v) != nil {
		a.t.Fatalf("submit %s/%s: %d %s", tu.Trace, tu.Turn, status, body)
	}
	return v
}

// run submits a turn, waits for its end, and returns how it ended.
func (a *api) run(tu turn) view {
	a.t.Helper()
	tu.WaitMS = int(patience.Milliseconds())
	s := a.submit(tu)
	if s.State != "completed" {
		a.t.Fatalf("turn %s/%s is %s after %v: %+v", s.Trace, s.Turn, s.State, patience, a.look(s.Trace, s.Turn))
	}
	v := a.look(s.Trace, s.Turn)
	v.Messages, v.Attached = s.Messages, s.Attached
	return v
}

// look is how a turn stands.
func (a *api) look(trace, turn string) (v view) {
	a.t.Helper()
	a.get("/v1/turns/"+trace+"/"+turn, &v)
	return v
}

// end waits for a turn's end.
func (a *api) end(trace, turn string) (v view) {
	a.t.Helper()
	poll(a.t, "turn "+trace+"/"+turn+" ends", func() bool {
		v = a.look(trace, turn)
		return v.State == "completed" || v.State == "abandoned"
	})
	v.Messages = a.messages(trace, turn, "json")
	return v
}

// messages are those that answer a turn, in a provider's form.
func (a *api) messages(trace, turn, format string) []json.RawMessage {
	a.t.Helper()
	var m view
	a.get("/v1/turns/"+trace+"/"+turn+"/messages?format="+format, &m)
	return m.Messages
}

// events are those of a turn.
func (a *api) events(trace, turn string) []event {
	a.t.Helper()
	var out struct{ Events []event }
	a.get("/v1/turns/"+trace+"/"+turn+"/events", &out)
	return out.Events
}

// of are the events of one kind, of one call ("0", "1", …) or, for "", of any.
func of(list []event, kind, call string) []event {
	var out []event
	for _, e := range list {
		if e.kind() == kind && (call == "" || strings.HasSuffix(e.Subject, "/"+call)) {
			out = append(out, e)
		}
	}
	return out
}

// until waits for an event of a kind of a call.
func (a *api) until(trace, turn, kind, call string) {
	a.t.Helper()
	poll(a.t, "call "+call+" of "+trace+"/"+turn+": "+kind, func() bool {
		status, _ := a.ask(http.MethodGet, "/v1/turns/"+trace+"/"+turn, nil)
		return status == http.StatusOK && len(of(a.events(trace, turn), kind, call)) > 0
	})
}

// tools are the names in the node's tool list.
func (a *api) tools() map[string]bool {
	a.t.Helper()
	var list []struct{ Function struct{ Name string } }
	a.get("/v1/tools", &list)
	out := map[string]bool{}
	for _, e := range list {
		out[e.Function.Name] = true
	}
	return out
}

// blob is what is kept under a digest.
func (a *api) blob(digest string) []byte {
	a.t.Helper()
	status, body := a.ask(http.MethodGet, "/v1/blobs/"+digest, nil)
	if status != http.StatusOK {
		a.t.Fatalf("blob %s: %d %s", digest, status, body)
	}
	return body
}

// answers reads messages in Sluice's own form.
func answers(t *testing.T, messages []json.RawMessage) []answer {
	t.Helper()
	out := make([]answer, len(messages))
	for i, m := range messages {
		if err := json.Unmarshal(m, &out[i]); err != nil {
			t.Fatalf("message %d: %v: %s", i, err, m)
		}
	}
	return out
}

// is says what a call should be: the state always, the rest where it is not "".
func (c callView) is(t *testing.T, state, code, effects string) {
	t.Helper()
	if c.State != state || code != "" && c.Code != code || effects != "" && c.Effects != effects {
		t.Errorf("call %d (%s): %s %s, effects %q; want %s %s %s: %s", c.Call, c.Tool, c.State, c.Code, c.Effects, state, code, effects, c.Reason)
	}
}

// entry is a line of the ledger: an effect that happened.
type entry struct {
	Tool, Call, Key, Order, Item, Name string
	Attempt                            int
	V                                  any
}

// effects are the ledger's lines.
func (p *place) effects() []entry {
	p.t.Helper()
	text, err := os.ReadFile(p.ledger)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		p.t.Fatal(err)
	}
	var out []entry
	for line := range strings.Lines(string(text)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			p.t.Fatalf("ledger: %q: %v", line, err)
		}
		out = append(out, e)
	}
	return out
}
