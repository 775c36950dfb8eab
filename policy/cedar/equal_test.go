package cedar

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/shell"
)

var (
	seed  = flag.Uint64("seed", 0, "of the random requests; 0 draws one")
	count = flag.Int("requests", 4000, "how many random requests the two default policies are compared on")
)

func theDefault(t testing.TB) *Set {
	t.Helper()
	s, err := Default(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// row is one line of a table of package policy: decision | rule | value.
type row struct{ at, decision, want, value string }

func table(t testing.TB, name string) []row {
	t.Helper()
	raw, err := os.ReadFile("../testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []row
	for i, line := range strings.Split(string(raw), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(strings.Replace(line, "| |", "|  |", 1), " | ", 3)
		if len(parts) != 3 {
			t.Fatalf("%s:%d: want decision | rule | value", name, i+1)
		}
		if unquoted, err := strconv.Unquote(parts[2]); err == nil && parts[2][0] == '"' {
			parts[2] = unquoted
		}
		out = append(out, row{name + ":" + strconv.Itoa(i+1), parts[0], parts[1], parts[2]})
	}
	if len(out) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return out
}

// sketch is a request in a few words, as package policy's tests have it.
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

func request(t testing.TB, at, raw string) policy.Request {
	t.Helper()
	var s sketch
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	r := policy.Request{
		Allowlists: s.Allow, Tool: s.Tool, Known: or(s.Known, true), Tier: s.Tier, Mode: s.Mode, CanAsk: or(s.Ask, true),
		Network: s.Network, Workspace: or(s.Workspace, "/w"), Args: s.Args,
		Op: events.Operation{Class: s.Class, Paths: s.Paths, Hosts: s.Hosts, Commands: s.Commands},
	}
	if r.Mode == "" {
		r.Mode = events.ModeWrite
	}
	return r
}

// same compares the verdicts of the rows of Go and of the texts. Of a call with a shell
// line, the texts name every policy that denies, where the rows name those of the line
// alone, or of its addresses.
func same(t testing.TB, at string, s policy.Authorizer, r policy.Request) {
	t.Helper()
	want, got := policy.Judge(policy.Default(), r), policy.Judge(s, r)
	lines := strings.Count(strings.ToLower(string(r.Args)), `"command":`) + strings.Count(strings.ToLower(string(r.Args)), `"cmd":`) + len(r.Op.Commands)
	line := policy.Look(r).Line
	bad := want.Decision != got.Decision || want.Gate != got.Gate
	if !line || lines == 1 {
		bad = bad || want.Code != got.Code || want.Reason != got.Reason || want.Path != got.Path
	}
	if !line {
		bad = bad || !slices.Equal(want.Policies, got.Policies)
	}
	for _, id := range want.Policies {
		bad = bad || !slices.Contains(got.Policies, id)
	}
	for _, id := range got.Policies {
		more := line && (id == "network.host" || lines > 1 && strings.HasPrefix(id, "shell."))
		bad = bad || !slices.Contains(want.Policies, id) && !more
	}
	if bad {
		t.Errorf("%s: %+v\n  rows:  %s %s %q at %q by %v\n  texts: %s %s %q at %q by %v", at, r,
			want.Decision, want.Code, want.Reason, want.Path, want.Policies, got.Decision, got.Code, got.Reason, got.Path, got.Policies)
	}
}

func TestTheTextsSayWhatTheRowsSay(t *testing.T) {
	s := theDefault(t)
	for _, row := range table(t, "requests.txt") {
		r := request(t, row.at, row.value)
		same(t, row.at, s, r)
		r.CanAsk = false
		same(t, row.at+", nobody to ask", s, r)
	}
	for _, row := range table(t, "shell.txt") {
		for _, network := range []bool{false, true} {
			args, err := json.Marshal(map[string]string{"command": row.value})
			if err != nil {
				t.Fatal(err)
			}
			r := policy.Request{Tool: "Bash", Known: true, Mode: events.ModeWrite, CanAsk: true, Workspace: "/w", Network: network, Args: args, Op: events.Operation{Class: events.OpExecute}}
			same(t, row.at, s, asBash(r, row.value))
			r.Args, r.Op.Commands = nil, []string{row.value}
			same(t, row.at+" (parsed)", s, r)
		}
	}
	for _, row := range table(t, "paths.txt") {
		for _, class := range []events.OpClass{events.OpRead, events.OpWrite, events.OpExecute, events.OpNetwork, events.OpDelegate, "other"} {
			args, err := json.Marshal(map[string]string{"path": row.value})
			if err != nil {
				t.Fatal(err)
			}
			same(t, row.at, s, policy.Request{Tool: "T", Known: true, Mode: events.ModeWrite, Workspace: "/w", Args: args, Op: events.Operation{Class: class, Paths: []string{row.value}}})
		}
	}
	for _, row := range table(t, "urls.txt") {
		args, err := json.Marshal(map[string]string{"url": row.value})
		if err != nil {
			t.Fatal(err)
		}
		for _, network := range []bool{false, true} {
			same(t, row.at, s, policy.Request{Tool: "fetch", Known: true, Mode: events.ModeWrite, Network: network, Args: args, Op: events.Operation{Class: events.OpNetwork}})
			same(t, row.at, s, policy.Request{Tool: "fetch", Known: true, Network: network, Op: events.Operation{Class: events.OpRead, Hosts: []string{row.value}}})
		}
	}
}

// asBash adds what the tool Bash says of its line.
func asBash(r policy.Request, line string) policy.Request {
	a := shell.Scope{Workspace: r.Workspace, Network: r.Network}.Classify(line)
	r.Op.Paths, r.Op.Hosts = a.Paths, a.Hosts
	return r
}

func TestTheTextsSayWhatTheRowsSayOfAnything(t *testing.T) {
	n := *seed
	if n == 0 {
		n = uint64(time.Now().UnixNano())
	}
	g := newMaker(t, n)
	s := theDefault(t)
	for range *count {
		if same(t, "random", s, g.request()); t.Failed() {
			t.Fatalf("reproduce: go test ./policy/cedar -run OfAnything -seed=%d", n)
		}
	}
}

// maker draws requests.
type maker struct {
	*rand.Rand
	lines, paths, urls []string
}

func newMaker(t testing.TB, seed uint64) *maker {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 1))}
	for name, into := range map[string]*[]string{"shell.txt": &m.lines, "paths.txt": &m.paths, "urls.txt": &m.urls} {
		for _, r := range table(t, name) {
			*into = append(*into, r.value)
		}
	}
	m.paths = append(m.paths, "", "a.txt", ".git/config", "src/a.go", "x/HEAD", ".claude/x", "a/.mcp.json", "/w/a", "/w", "../x", ".")
	m.urls = append(m.urls, "example.com", "localhost", "example.com:443", "10.0.0.1", "[::1]:80", "a.b.example.com")
	return m
}

func one[T any](m *maker, list ...T) T { return list[m.IntN(len(list))] }

func some(m *maker, most int, list []string) []string {
	var out []string
	for range m.IntN(most + 1) {
		out = append(out, one(m, list...))
	}
	return out
}

func (m *maker) request() policy.Request {
	r := policy.Request{
		Principal: events.Principal{ID: one(m, "a", "b"), Kind: one(m, "", "agent", "person", "service"), Parents: some(m, 2, []string{"a", "c"})},
		Tool:      one(m, "Read", "Bash", "fetch", "x y\x1b", "charge"), Known: m.IntN(8) > 0,
		Tier: one(m, "", events.Readonly, events.Reversible, events.Irreversible, events.Approval, "odd"),
		Mode: one(m, events.ModeWrite, events.ModeWrite, events.ModeRead, "", "READ"), CanAsk: m.IntN(3) > 0, Network: m.IntN(2) > 0,
		Workspace: one(m, "/w", "/w", "", "/", "rel"),
		Op:        events.Operation{Class: one(m, events.OpRead, events.OpWrite, events.OpExecute, events.OpNetwork, events.OpDelegate, "other")},
	}
	if m.IntN(4) > 0 {
		r.Time = time.UnixMilli(m.Int64N(4e12) - 1e12).UTC()
	}
	r.Session.Trace = one(m, "", "a", "a1")
	if m.IntN(6) == 0 {
		r.Allowlists = [][]string{one(m, nil, []string{"*"}, []string{"Read"}, []string{})}
	}
	args := map[string]any{}
	line := r.Op.Class == events.OpExecute && m.IntN(4) > 0
	if line {
		text := one(m, m.lines...)
		if m.IntN(4) == 0 {
			text += one(m, " && ", "; ", " | ", "\n") + one(m, m.lines...)
		}
		r = asBash(r, text)
		args[one(m, "command", "cmd", "Command")] = text
	} else {
		r.Op.Paths, r.Op.Hosts = some(m, 3, m.paths), some(m, 2, m.urls)
		for i, p := range r.Op.Paths {
			args["path"+strconv.Itoa(i)] = p
		}
		if m.IntN(3) == 0 {
			args["url"] = one(m, m.urls...)
		}
	}
	if b, err := json.Marshal(args); err == nil && m.IntN(10) > 0 {
		r.Args = b
	} else if line {
		text := one(m, m.lines...)
		r = asBash(r, text)
		r.Op.Commands = []string{text}
	}
	return r
}

// FuzzSame looks for a request of which the two default policies say different things.
func FuzzSame(f *testing.F) {
	for i := range uint64(8) {
		f.Add(i)
	}
	s := theDefault(f)
	f.Fuzz(func(t *testing.T, seed uint64) { same(t, "fuzz", s, newMaker(t, seed).request()) })
}
