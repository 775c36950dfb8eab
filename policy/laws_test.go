package policy

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/sluice-run/sluice/events"
	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/version.txt anew")

// A verdict may change only together with the version of the policy.
func TestVersionChangesWithVerdicts(t *testing.T) {
	h := sha256.New()
	p := Default()
	for _, row := range table(t, "requests.txt") {
		v := Judge(p, request(t, row.at, row.value))
		fmt.Fprintf(h, "%s %s %s %v\n", row.value, v.Decision, v.Code, v.Policies)
	}
	for _, row := range table(t, "shell.txt") {
		v := p.Authorize(shellRequest(row.value))
		fmt.Fprintf(h, "%q %s %s %v\n", row.value, v.Decision, v.Code, v.Policies)
	}
	for _, row := range table(t, "paths.txt") {
		fmt.Fprintf(h, "%q %v\n", row.value, CheckPath(row.value))
	}
	for _, row := range table(t, "urls.txt") {
		_, err := CheckURL(row.value)
		fmt.Fprintf(h, "%q %v\n", row.value, err)
	}
	got := fmt.Sprintf("%s %x\n", p.Version(), h.Sum(nil)[:8])
	if *rewrite {
		if err := os.WriteFile("testdata/version.txt", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/version.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("version and verdicts are %swere %sif a verdict changed, change the Version of its row (or shell.Version); then run with -rewrite", got, want)
	}
}

func shellRequest(line string) Request {
	return Request{
		Tool: "Bash", Known: true, Mode: events.ModeWrite, CanAsk: true, Workspace: "/w",
		Op: events.Operation{Class: events.OpExecute, Commands: []string{line}},
	}
}

// narrow are the ways in which a request can get less: none may make its
// verdict milder.
var narrow = map[string]func(*Request){
	"read only":         func(r *Request) { r.Mode = events.ModeRead },
	"nobody to ask":     func(r *Request) { r.CanAsk = false },
	"no network":        func(r *Request) { r.Network = false },
	"a child's list":    func(r *Request) { r.Allowlists = append(r.Allowlists, []string{"Read"}) },
	"an empty list":     func(r *Request) { r.Allowlists = append(r.Allowlists, []string{}) },
	"a stricter tier":   func(r *Request) { r.Tier = events.Approval },
	"no workspace":      func(r *Request) { r.Workspace = "" },
	"not registered":    func(r *Request) { r.Known = false },
	"a class unknown":   func(r *Request) { r.Op.Class = "other" },
	"one more path out": func(r *Request) { r.Op.Paths = append(r.Op.Paths, "../x") },
	"one more bad host": func(r *Request) { r.Op.Hosts = append(r.Op.Hosts, "localhost") },
}

func TestLessNeverGetsMore(t *testing.T) {
	rows := table(t, "requests.txt")
	p := Default()
	rapid.Check(t, func(rt *rapid.T) {
		row := rapid.SampledFrom(rows).Draw(rt, "request")
		r := request(t, row.at, row.value)
		before := Judge(p, r)
		for _, how := range rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(narrow))), 1, 4, rapid.ID[string]).Draw(rt, "narrowed by") {
			narrow[how](&r)
		}
		if after := Judge(p, r); rank(after.Decision) < rank(before.Decision) {
			rt.Fatalf("%s was %s, and is %s by %v", row.value, before.Decision, after.Decision, after.Policies)
		}
	})
}

// Judging never changes the request, and says the same every time.
func TestJudgeIsPure(t *testing.T) {
	for _, row := range table(t, "requests.txt") {
		r := request(t, row.at, row.value)
		first := fmt.Sprintf("%+v", Judge(Default(), r))
		if again := fmt.Sprintf("%+v", Judge(Default(), request(t, row.at, row.value))); again != first {
			t.Errorf("%s: %s, then %s", row.at, first, again)
		}
		if fresh := request(t, row.at, row.value); fmt.Sprintf("%+v", fresh) != fmt.Sprintf("%+v", r) {
			t.Errorf("%s: the request was changed", row.at)
		}
	}
}

func FuzzJudge(f *testing.F) {
	f.Add("Bash", "execute", `{"command":"ls"}`, "a", "b")
	f.Add("fetch", "network", `{"url":["http://x"]}`, "", "h:1")
	f.Add("Write", "write", `{"path":`, "../a", "")
	f.Fuzz(func(t *testing.T, tool, class, args, path, host string) {
		r := Request{
			Tool: tool, Known: tool != "", Mode: events.ModeWrite, Network: true, Workspace: "/w", Args: []byte(args),
			Op: events.Operation{Class: events.OpClass(class), Paths: []string{path}, Hosts: []string{host}},
		}
		checkVerdict(t, args, Judge(Default(), r))
	})
}
