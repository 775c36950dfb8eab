package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// problem is an error as HTTP tells it.
type problem struct {
	Type, Title, Detail, Next string
	Status                    int
}

// TestBadSubmissionsLeaveNothingBehind over HTTP.
func TestBadSubmissionsLeaveNothingBehind(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	echo := `{"tool":"echo","args":{"v":1}}`
	many := strings.Repeat(echo+",", 256) + echo
	large := func(size int) string {
		return `{"calls":[{"tool":"echo","args":{"v":"` + strings.Repeat("x", size-len(`{"v":""}`)) + `"}}]}`
	}
	seven := strings.Repeat(`{"tool":"echo","args":{"v":"`+strings.Repeat("x", 1_000_000)+`"}},`, 8) + echo
	for what, c := range map[string]struct {
		body   string
		status []int
	}{
		"no body":              {"", []int{400}},
		"malformed JSON":       {`{"calls":[`, []int{400}},
		"no object":            {`[1]`, []int{400}},
		"two objects":          {`{"calls":[` + echo + `]}{}`, []int{400}},
		"an empty batch":       {`{"calls":[]}`, []int{400, 422}},
		"an empty message":     {`{"message":{"role":"assistant","content":"hello"}}`, []int{400, 422}},
		"nothing to run":       {`{}`, []int{400}},
		"an unknown field":     {`{"calls":[` + echo + `],"colour":"red"}`, []int{400}},
		"an unknown field in":  {`{"calls":[{"tool":"echo","colour":"red"}]}`, []int{400}},
		"257 calls":            {`{"calls":[` + many + `]}`, []int{400, 413, 422}},
		"arguments over 1 MiB": {large(1<<20 + 1), []int{413}},
		"a body over 8 MiB":    {`{"calls":[` + seven + `],"trace":"` + strings.Repeat(" ", 1<<20) + `"}`, []int{413}},
		"a bad trace id":       {`{"trace":"a.b","calls":[` + echo + `]}`, []int{400}},
		"a long trace id":      {`{"trace":"` + strings.Repeat("x", 65) + `","calls":[` + echo + `]}`, []int{400}},
		"a wildcard":           {`{"trace":"*","turn":">","calls":[` + echo + `]}`, []int{400}},
		"a relative workspace": {`{"workspace":"../x","calls":[` + echo + `]}`, []int{400}},
		"an unknown mode":      {`{"mode":"dangerous","calls":[` + echo + `]}`, []int{400, 422}},
		"an unknown format":    {`{"format":"klingon","calls":[` + echo + `]}`, []int{400, 422}},
		"two kinds of calls":   {`{"tool_calls":[],"message":{"role":"assistant"},"calls":[` + echo + `]}`, []int{400}},
		"a negative limit":     {`{"limits":{"call_deadline_ms":-1},"calls":[` + echo + `]}`, []int{400, 422}},
	} {
		status, body := n.ask(http.MethodPost, "/v1/turns", []byte(c.body))
		var pr problem
		if err := json.Unmarshal(body, &pr); err != nil || pr.Title == "" || pr.Next == "" || pr.Status != status {
			t.Errorf("%s: no problem that tells the next step: %d %s", what, status, body)
		}
		if !strings.Contains(fmt.Sprint(c.status), fmt.Sprint(status)) {
			t.Errorf("%s: %d, want one of %v: %s", what, status, c.status, body)
		}
	}
	if s := must(t, "tail", "--data", p.data, "--from", "start", "--follow=false"); s != "" {
		t.Errorf("the log holds %s", s)
	}
	for path, want := range map[string]int{
		"/v1/turns/no/turn": 404, "/v1/turns/a.b/turn": 400, "/v1/turns": 405, "/v1/nothing": 404,
		"/v1/blobs/sha256:00": 400, "/v1/blobs/sha256:" + strings.Repeat("0", 64): 404, "/v1/events?from=x": 400, "/v1/events?colour=red": 400, "/v1/tools?format=klingon": 400,
	} {
		if status, body := n.ask(http.MethodGet, path, nil); status != want {
			t.Errorf("GET %s: %d, want %d: %s", path, status, want, body)
		}
	}
	// What is just within the limits is taken.
	n.run(turn{Calls: func() (out []call) {
		for i := range 256 {
			out = append(out, call{Tool: "echo", Args: args{"v": i}})
		}
		return out
	}()})
}

// TestWordsOfPeopleAreBounded: whatever follows from them must fit the log.
func TestWordsOfPeopleAreBounded(t *testing.T) {
	n := newPlace(t).serve()
	n.submit(turn{Trace: "words", Turn: "t", CanAsk: true, Calls: []call{ask("words"), ask("more")}})
	n.inbox("words", 2)
	long := strings.Repeat("w", 400_000)
	for path, body := range map[string]args{
		"cancel": {"reason": long}, "calls/0/cancel": {"reason": long}, "calls/0/deny": {"note": long}, "calls/0/approve": {"note": long, "principal": long},
	} {
		if status, answer := n.ask(http.MethodPost, "/v1/turns/words/t/"+path, body); status < 400 || status >= 500 {
			t.Errorf("%s with %d bytes of words: %d %s", path, len(long), status, answer)
		}
	}
	if t.Failed() {
		return // what was accepted may keep the turn from its end
	}
	n.post("/v1/turns/words/t/cancel", nil)
	for _, c := range n.end("words", "t").Calls {
		c.is(t, "cancelled", "", "none")
	}
}

// refuses runs a verb that must fail with a word in its error, and a hint or a
// next step in it.
func refuses(t *testing.T, code int, word string, args ...string) spoken {
	t.Helper()
	s := verb(t, "", args...)
	if s.code != code || !strings.Contains(s.err, "error: ") || !strings.Contains(s.err, word) {
		t.Errorf("sluice-node %q: exit %d, want %d and %q\n%s%s", args, s.code, code, word, s.out, s.err)
	}
	return s
}

// TestANodeThatCannotStartSaysWhy, and leaves everything as it was.
func TestANodeThatCannotStartSaysWhy(t *testing.T) {
	p := newPlace(t)
	file := filepath.Join(p.work, "file")
	p.write("file", "I am a file\n")
	refuses(t, 3, "not a directory", p.args("--data", file)...)
	refuses(t, 3, "not a directory", p.args("--data", filepath.Join(file, "below"))...)
	if p.read("file") != "I am a file\n" {
		t.Error("the file has changed")
	}
	refuses(t, 3, "no NATS server answers", "serve", "--nats", "nats://127.0.0.1:1", "--http", "127.0.0.1:0", "--workspace", p.work)
	refuses(t, 3, "no NATS server answers", "inbox", "--nats", "nats://127.0.0.1:1")
	refuses(t, 2, "workspace", p.args("--workspace", filepath.Join(p.work, "missing"))...)
	if _, err := os.Stat(p.data); err == nil {
		t.Error("a data directory was made")
	}

	n := p.serve()
	n.run(turn{Trace: "first", Turn: "t", Calls: []call{{Tool: "echo", Args: args{"v": 1}}}})
	refuses(t, 3, fmt.Sprintf("in use by process %d", n.cmd.Process.Pid), p.args()...)
	other := newPlace(t)
	refuses(t, 3, "address already in use", other.args("--http", strings.TrimPrefix(n.HTTP, "http://"))...)
	refuses(t, 3, "in use", other.args("--listen-nats", strings.TrimPrefix(n.NATS, "nats://"))...)
	n.run(turn{Trace: "second", Turn: "t", Calls: []call{{Tool: "echo", Args: args{"v": 1}}}})
	if code := n.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// TestAReadOnlyDiskIsRefused: by the rights of a folder, or of a mount for who may all.
func TestAReadOnlyDiskIsRefused(t *testing.T) {
	p := newPlace(t)
	if err := os.Mkdir(p.data, 0o755); err != nil {
		t.Fatal(err)
	}
	readOnly(t, p.data)
	refuses(t, 3, "not writable", p.args()...)
	if names, err := os.ReadDir(p.data); err != nil || len(names) != 0 {
		t.Errorf("something was written: %v, %v", names, err)
	}
}

// files are the contents of all files below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestALogOfANewerReleaseIsLeftAlone.
func TestALogOfANewerReleaseIsLeftAlone(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	n.run(turn{Trace: "old", Turn: "t", Calls: []call{{Tool: "echo", Args: args{"v": 1}}}})
	if code := n.stop(); code != 0 {
		t.Fatalf("exit %d", code)
	}
	marker := filepath.Join(p.data, "sluice.json")
	text, err := os.ReadFile(marker)
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(text, []byte(`"format": 1`), []byte(`"format": 99`), 1)
	if bytes.Equal(newer, text) {
		t.Fatalf("the marker does not say its format: %s", text)
	}
	if err := os.WriteFile(marker, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	before := files(t, filepath.Join(p.data, "jetstream"))
	calls := filepath.Join(p.work, "calls.json")
	p.write("calls.json", `[{"tool":"echo","args":{"v":1}}]`)
	for _, args := range [][]string{p.args(), {"submit", "--data", p.data, "--fixtures", calls}, {"tail", "--data", p.data}, {"inbox", "--data", p.data}} {
		refuses(t, 3, "format 99", args...)
	}
	after := files(t, filepath.Join(p.data, "jetstream"))
	if len(after) != len(before) {
		t.Errorf("%d files, and %d before", len(after), len(before))
	}
	for name, b := range before {
		if after[name] != b {
			t.Errorf("%s has changed", name)
		}
	}
	if err := os.WriteFile(marker, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n = p.serve()
	if n.Generation != 1 || n.look("old", "t").State != "completed" {
		t.Errorf("generation %d, %+v", n.Generation, n.look("old", "t"))
	}
}

// TestAStoreThatTheBarrierDoesNotKnow: it says so, and has each message synced by itself.
func TestAStoreThatTheBarrierDoesNotKnow(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	if n.Sync != "barrier" {
		t.Fatalf("sync %s", n.Sync)
	}
	n.run(turn{Trace: "one", Turn: "t", Calls: []call{charge("one", 1)}})
	js, err := jetstream.New(connect(t, n))
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "SLUICE")
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.Compression = jetstream.S2Compression // blocks are then not what was written
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if code := n.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	n = p.serve()
	if n.Sync != "always" {
		t.Errorf("sync %s", n.Sync)
	}
	if log := n.log.String(); !strings.Contains(log, "compress") || !strings.Contains(log, "WARN") {
		t.Errorf("it does not say why: %s", log)
	}
	n.run(turn{Trace: "two", Turn: "t", Calls: []call{charge("two", 1)}}).Calls[0].is(t, "completed", "", "done")
	var h struct{ Sync string }
	if n.get("/healthz", &h); h.Sync != "always" {
		t.Errorf("healthz says %q", h.Sync)
	}
	verified(t, p, n)
}

// TestAPortThatIsTakenIsNamed, before anything is opened.
func TestAPortThatIsTakenIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := newPlace(t)
	s := refuses(t, 3, l.Addr().String(), p.args("--http", l.Addr().String())...)
	if !strings.Contains(s.err, "hint: ") {
		t.Errorf("no hint: %s", s.err)
	}
	if _, err := os.Stat(p.data); err == nil {
		t.Error("a data directory was made")
	}
}

// TestBadInputOnTheCommandLine has an error, a code, and leaves nothing behind.
func TestBadInputOnTheCommandLine(t *testing.T) {
	p := newPlace(t)
	for what, c := range map[string]struct{ in, word string }{
		"malformed JSON":   {`[{"tool":`, "JSON"},
		"an empty batch":   {`[]`, "no calls"},
		"too many calls":   {`[` + strings.Repeat(`{"tool":"echo"},`, 256) + `{"tool":"echo"}]`, "256"},
		"large arguments":  {`[{"tool":"echo","args":{"v":"` + strings.Repeat("x", 1<<20) + `"}}]`, "1048576"},
		"a large input":    {`[{"tool":"echo","args":{"v":"` + strings.Repeat("x", 9<<20) + `"}}]`, "8388608"},
		"a user's message": {`{"role":"user","content":"hi"}`, "assistant"},
	} {
		s := verb(t, c.in, "submit", "--data", p.data, "--workspace", p.work, "--fixtures", "-")
		if s.code == 0 || s.out != "" || !strings.Contains(s.err, "error: ") || !strings.Contains(s.err, c.word) {
			t.Errorf("%s: exit %d, %q, %.300s", what, s.code, s.out, s.err)
		}
	}
	if s := verb(t, "", "tail", "--data", p.data, "--from", "start", "--follow=false"); s.out != "" {
		t.Errorf("the log holds %s", s.out)
	}
}
