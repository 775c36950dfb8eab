package policy

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

// row is one line of a table in testdata.
type row struct {
	at                    string
	decision, want, value string
}

// table reads a file of rows: decision | what is wanted | value.
func table(t testing.TB, name string) []row {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []row
	for i, line := range strings.Split(string(raw), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := name + ":" + strconv.Itoa(i+1)
		parts := strings.SplitN(strings.Replace(line, "| |", "|  |", 1), " | ", 3)
		if len(parts) != 3 {
			t.Fatalf("%s: want decision | rule | value", at)
		}
		value := parts[2]
		if len(value) > 1 && value[0] == '"' {
			if unquoted, err := strconv.Unquote(value); err == nil {
				value = unquoted
			}
		}
		out = append(out, row{at, parts[0], parts[1], value})
	}
	return out
}

// sketch is a request in a few words.
type sketch struct {
	Tool      string          `json:"tool"`
	Known     *bool           `json:"known"`
	Class     events.OpClass  `json:"class"`
	Tier      events.Tier     `json:"tier"`
	Mode      string          `json:"mode"`
	Ask       *bool           `json:"ask"`
	Network   bool            `json:"network"`
	Workspace *string         `json:"workspace"`
	Args      json.RawMessage `json:"args"`
	Paths     []string        `json:"paths"`
	Hosts     []string        `json:"hosts"`
	Commands  []string        `json:"commands"`
	Allow     [][]string      `json:"allow"`
}

func or[T any](p *T, d T) T {
	if p != nil {
		return *p
	}
	return d
}

func request(t testing.TB, at, raw string) Request {
	t.Helper()
	var s sketch
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	r := Request{
		Allowlists: s.Allow, Tool: s.Tool, Known: or(s.Known, true), Tier: s.Tier, Mode: s.Mode, CanAsk: or(s.Ask, true),
		Network: s.Network, Workspace: or(s.Workspace, "/w"), Args: s.Args,
		Op: events.Operation{Class: s.Class, Paths: s.Paths, Hosts: s.Hosts, Commands: s.Commands},
	}
	if r.Mode == "" {
		r.Mode = events.ModeWrite
	}
	return r
}

func TestRequests(t *testing.T) {
	p := Default()
	for _, row := range table(t, "requests.txt") {
		v := Judge(p, request(t, row.at, row.value))
		if string(v.Decision) != row.decision || !slices.Contains(v.Policies, row.want) {
			t.Errorf("%s: %s by %v (%s), want %s by %s", row.at, v.Decision, v.Policies, v.Reason, row.decision, row.want)
		}
		checkVerdict(t, row.at, v)
	}
}

// checkVerdict looks at what every verdict must have.
func checkVerdict(t testing.TB, at string, v Verdict) {
	t.Helper()
	if !oneSentence(v.Reason) {
		t.Errorf("%s: %q is not one sentence", at, v.Reason)
	}
	if (v.Code != "") != (v.Decision == Deny) {
		t.Errorf("%s: %s with code %q", at, v.Decision, v.Code)
	}
	if v.Gate == "" || v.Version == "" || len(v.Policies) == 0 || !slices.IsSorted(v.Policies) {
		t.Errorf("%s: incomplete: %+v", at, v)
	}
}

var sentenceEnd = regexp.MustCompile(`[.!?](\s|$)`)

func oneSentence(s string) bool {
	return len(sentenceEnd.FindAllString(s, -1)) == 1 && strings.HasSuffix(s, ".") && !strings.ContainsAny(s, "\n\x1b\u202e")
}

// Every row of the policy, and the gate before it, has an example that it
// denies or asks about; a row that only permits has one that it allows.
func TestEveryRuleHasAnExample(t *testing.T) {
	decided := map[string]map[string]bool{}
	for _, row := range table(t, "requests.txt") {
		id := row.want
		if strings.HasPrefix(id, "shell.") {
			id = "shell"
		}
		if decided[id] == nil {
			decided[id] = map[string]bool{}
		}
		decided[id][row.decision] = true
	}
	ids := []string{"allow.unknown", "allow.list"}
	for _, r := range New(Config{}) {
		if slices.Contains(ids, r.ID) {
			t.Errorf("%s stands twice", r.ID)
		}
		ids = append(ids, r.ID)
	}
	for _, id := range ids {
		d := decided[id]
		switch {
		case id == "tool.unknown": // behind the allow gate; see TestRowsAlone
		case strings.HasSuffix(id, ".permit"):
			if !d["allow"] {
				t.Errorf("%s has no example that it allows", id)
			}
		case !d["deny"] && !d["ask"]:
			t.Errorf("%s has no example that it denies or asks about", id)
		}
	}
}

// The policy alone, without the gate before it, does not allow what is not known.
func TestRowsAlone(t *testing.T) {
	v := Default().Authorize(Request{Tool: "bash2", Mode: events.ModeWrite, Op: events.Operation{Class: events.OpRead}})
	if v.Decision != Deny || v.Code != events.UnknownTool || !slices.Contains(v.Policies, "tool.unknown") {
		t.Errorf("%+v", v)
	}
	if v := (Rules{}).Authorize(Request{Known: true, Mode: events.ModeWrite, Op: events.Operation{Class: events.OpRead}}); v.Decision != Deny || !slices.Equal(v.Policies, []string{ruleDefault}) {
		t.Errorf("no rules at all: %+v", v)
	}
	spelled := Request{Tool: "functions__echo", Said: "functions.echo", Mode: events.ModeWrite, Op: events.Operation{Class: events.OpRead}}
	for _, v := range []Verdict{AllowGate(spelled), Default().Authorize(spelled)} {
		if !strings.Contains(v.Reason, `"functions.echo"`) { // in the model's own word
			t.Errorf("%+v", v)
		}
	}
}

func TestCodesAndPointers(t *testing.T) {
	for raw, want := range map[string]struct {
		code events.Code
		path string
	}{
		`{"tool":"none","known":false}`:                                                                     {events.UnknownTool, ""},
		`{"tool":"Read","class":"read","allow":[[]]}`:                                                       {events.PermissionDenied, ""},
		`{"tool":"Read","class":"read","paths":["../a"],"args":{"path":"../a"}}`:                            {events.AccessDenied, "/path"},
		`{"tool":"Read","class":"read","paths":["../a"],"args":{"files":["b","../a"]}}`:                     {events.AccessDenied, "/files/1"},
		`{"tool":"Read","class":"read","paths":["../a"],"args":{"a/b":{"c~d":"../a"}}}`:                     {events.AccessDenied, "/a~1b/c~0d"},
		`{"tool":"Edit","class":"write","args":{"text":"x"}}`:                                               {events.InvalidParam, "/path"},
		`{"tool":"Bash","class":"execute","args":{"command":"rm x"}}`:                                       {events.PermissionDenied, "/command"},
		`{"tool":"Bash","class":"execute","args":{"command":"echo 'x"}}`:                                    {events.InvalidParam, "/command"},
		`{"tool":"Bash","class":"execute","ask":false,"args":{"command":"mv a b"}}`:                         {events.PermissionDenied, "/command"},
		`{"tool":"fetch","class":"network","network":true,"args":{"url":"http://127.1/"}}`:                  {events.AccessDenied, "/url"},
		`{"tool":"fetch","class":"network","network":true,"args":{"urls":["https://a.example","ftp://b"]}}`: {events.AccessDenied, "/urls/1"},
	} {
		if v := Judge(Default(), request(t, raw, raw)); v.Decision != Deny || v.Code != want.code || v.Path != want.path {
			t.Errorf("%s: %s %s at %q, want %s at %q", raw, v.Decision, v.Code, v.Path, want.code, want.path)
		}
	}
}

func TestNobodyCanBeAsked(t *testing.T) {
	for _, row := range table(t, "requests.txt") {
		if row.decision != "ask" {
			continue
		}
		r := request(t, row.at, row.value)
		r.CanAsk = false
		v := Judge(Default(), r)
		if v.Decision != Deny || v.Code != events.PermissionDenied || !strings.Contains(v.Reason, "nobody can be asked") {
			t.Errorf("%s: %+v", row.at, v)
		}
		checkVerdict(t, row.at, v)
	}
}

// The commands of a recorded session of a coding agent.
func TestRecordedCommands(t *testing.T) {
	for line, want := range map[string]Decision{
		"ls -F":                 Allow,
		"pip install -e .[dev]": Ask,
		"python reproduce.py":   Ask,
		"rm reproduce.py":       Deny,
	} {
		args, err := json.Marshal(map[string]string{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		r := Request{Tool: "bash", Known: true, Mode: events.ModeWrite, CanAsk: true, Args: args, Op: events.Operation{Class: events.OpExecute}}
		if v := Judge(Default(), r); v.Decision != want {
			t.Errorf("%q: %s by %v, want %s", line, v.Decision, v.Policies, want)
		}
	}
}

func TestTrustedHosts(t *testing.T) {
	p := New(Config{Hosts: []string{"127.0.0.1:8080", "intra.local"}})
	if p.Version() == Default().Version() || p.Version() != New(Config{Hosts: []string{"intra.local", "127.0.0.1:8080"}}).Version() {
		t.Errorf("version %s, default %s", p.Version(), Default().Version())
	}
	for url, want := range map[string]Decision{
		"http://127.0.0.1:8080/a": Allow,
		"http://127.0.0.1:8081/a": Deny,
		"http://127.0.0.1/a":      Deny,
		"https://intra.local/":    Allow,
		"ftp://intra.local/":      Deny,
		"https://u@intra.local/":  Deny,
		"https://b.intra.local/":  Deny,
		"https://example.com/":    Allow,
	} {
		args, err := json.Marshal(map[string]string{"url": url})
		if err != nil {
			t.Fatal(err)
		}
		r := Request{Tool: "fetch", Known: true, Mode: events.ModeWrite, Network: true, Args: args, Op: events.Operation{Class: events.OpNetwork}}
		if v := Judge(p, r); v.Decision != want {
			t.Errorf("%s: %s (%s), want %s", url, v.Decision, v.Reason, want)
		}
	}
}
