package cedar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// policies loads texts in which ; ends a policy.
func policies(t testing.TB, text string) *Set {
	t.Helper()
	s, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// call is a call of a reading tool, changed.
func call(edits ...func(*policy.Request)) policy.Request {
	r := policy.Request{
		Principal: events.Principal{ID: "worker"}, Tool: "Read", Known: true, Tier: events.Readonly, Mode: events.ModeWrite, CanAsk: true, Workspace: "/w",
		Args: json.RawMessage(`{"path":"src/a.go"}`), Op: events.Operation{Class: events.OpRead, Paths: []string{"src/a.go"}},
	}
	for _, e := range edits {
		e(&r)
	}
	return r
}

func by(kind, id string, parents ...string) func(*policy.Request) {
	return func(r *policy.Request) { r.Principal = events.Principal{ID: id, Kind: kind, Parents: parents} }
}

func paths(list ...string) func(*policy.Request) {
	return func(r *policy.Request) { r.Op.Paths = list }
}

func hosts(list ...string) func(*policy.Request) {
	return func(r *policy.Request) {
		r.Op, r.Network, r.Args = events.Operation{Class: events.OpNetwork, Hosts: list}, true, nil
	}
}

func does(class events.OpClass, tier events.Tier, args string) func(*policy.Request) {
	return func(r *policy.Request) {
		r.Op, r.Tier, r.Args = events.Operation{Class: class}, tier, json.RawMessage(args)
	}
}

func line(text string) func(*policy.Request) {
	return func(r *policy.Request) {
		b, err := json.Marshal(map[string]string{"command": text})
		if err != nil {
			panic(err)
		}
		r.Tool, r.Args, r.Op = "Bash", b, events.Operation{Class: events.OpExecute}
		*r = asBash(*r, text)
	}
}

const everything = "@id(\"all\") permit (principal, action, resource);\n"

// verdicts are what policies say of calls: the decision, and the ids of those that gave it.
var verdicts = []struct {
	name, text string
	r          policy.Request
	want       string // decision and ids
}{
	{"default deny", "@id(\"w\") permit (principal, action == Action::\"write\", resource);", call(), "deny default.deny"},
	{"every part must be permitted: not the path", "@id(\"t\") permit (principal, action, resource is Tool);", call(), "deny default.deny"},
	{"every part must be permitted: not the tool", "@id(\"p\") permit (principal, action, resource is Path);", call(), "deny default.deny"},
	{"every part is permitted", "@id(\"t\") permit (principal, action, resource is Tool);@id(\"p\") permit (principal, action, resource in Path::\"src\");", call(), "allow p t"},
	{"one path of two is not", "@id(\"t\") permit (principal, action, resource is Tool);@id(\"p\") permit (principal, action, resource in Path::\"src\");", call(paths("src/a", "doc/a")), "deny default.deny"},

	{"forbid wins over ask and permit", everything + "@id(\"a\") @ask(\"w\") permit (principal, action, resource);@id(\"f\") forbid (principal, action, resource in Path::\"src\");", call(), "deny f"},
	{"ask wins over permit", everything + "@id(\"a\") @ask(\"w\") permit (principal, action, resource in Path::\"src\");", call(), "ask a"},
	{"nobody can be asked", "@id(\"a\") @ask(\"w\") permit (principal, action, resource);", call(func(r *policy.Request) { r.CanAsk = false }), "deny a"},
	{"and nobody need be", "@id(\"a\") @ask(\"w\") permit (principal, action, resource);", call(func(r *policy.Request) { r.CanAsk, r.Agreed = false, true }), "ask a"},
	{"who has agreed cannot be asked", "@id(\"a\") permit (principal, action, resource) when { context.can_ask };", call(func(r *policy.Request) { r.CanAsk, r.Agreed = false, true }), "deny default.deny"},
	{"an ask for one part does not permit another", "@id(\"a\") @ask(\"w\") permit (principal, action, resource is Tool);", call(), "deny default.deny"},
	{"all that forbid are named", "@id(\"b\") forbid (principal, action, resource);@id(\"a\") forbid (principal, action, resource is Path);", call(), "deny a b"},

	{"who acts", "@id(\"w\") permit (principal == Agent::\"worker\", action, resource);", call(), "allow w"},
	{"somebody else", "@id(\"w\") permit (principal == Agent::\"other\", action, resource);", call(), "deny default.deny"},
	{"a person", "@id(\"w\") permit (principal is Person, action, resource);", call(by("person", "ann")), "allow w"},
	{"a service", "@id(\"w\") permit (principal == Service::\"ci\", action, resource);", call(by("service", "ci")), "allow w"},
	{"a kind that there is not is an agent", "@id(\"w\") permit (principal is Agent, action, resource);", call(by("robot", "r")), "allow w"},
	{"an agent of a person's name is no person", "@id(\"w\") permit (principal == Person::\"ann\", action, resource);", call(by("agent", "ann")), "deny default.deny"},
	{"by a pattern", "@id(\"w\") permit (principal, action, resource) when { principal.id like \"build-*\" };", call(by("", "build-7")), "allow w"},

	{"a child is in its parent", "@id(\"w\") permit (principal in Agent::\"lead\", action, resource);", call(by("", "kid", "lead")), "allow w"},
	{"a grandchild, too", "@id(\"w\") permit (principal in Agent::\"lead\", action, resource);", call(by("", "kid", "mid", "lead")), "allow w"},
	{"its parent may not", "@id(\"w\") permit (principal == Agent::\"kid\", action, resource);", call(by("", "kid", "lead")), "deny default.deny"},
	{"both may", "@id(\"w\") permit (principal, action, resource) when { [\"kid\", \"lead\"].contains(principal.id) };", call(by("", "kid", "lead")), "allow w"},
	{"what is forbidden to a parent", everything + "@id(\"f\") forbid (principal == Agent::\"lead\", action, resource);", call(by("", "kid", "mid", "lead")), "deny f"},
	{"a parent must ask", everything + "@id(\"a\") @ask(\"w\") permit (principal == Agent::\"lead\", action, resource);", call(by("", "kid", "lead")), "ask a"},
	{"its own parent", "@id(\"w\") permit (principal in Agent::\"kid\", action, resource);", call(by("", "kid", "kid")), "allow w"},

	{"a folder", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(paths("secrets/a/b")), "deny f"},
	{"a folder, spelt otherwise", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(paths(".//secrets/./a")), "deny f"},
	{"a folder, absolute", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(paths("/w/secrets/a")), "deny f"},
	{"the folder itself", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(paths("secrets/")), "deny f"},
	{"a folder of nearly that name", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(paths("secrets2/a")), "allow all"},
	{"the workspace", everything + "@id(\"f\") forbid (principal, action, resource in Path::\".\");", call(), "deny f"},
	{"the workspace alone", everything + "@id(\"f\") forbid (principal, action, resource == Path::\".\");", call(paths("")), "deny f"},
	{"what is outside is in nothing", everything + "@id(\"f\") forbid (principal, action, resource in Path::\".\");", call(paths("../secrets/a")), "allow all"},
	{"and is known as that", everything + "@id(\"f\") forbid (principal, action, resource is Path) unless { resource.inside };", call(paths("src/a", "../secrets/a")), "deny f"},
	{"the last part of a name", everything + "@id(\"f\") forbid (principal, action, resource is Path) when { resource.name == \".env\" };", call(paths("a/b/.env")), "deny f"},
	{"a pattern of a path", everything + "@id(\"f\") forbid (principal, action, resource is Path) when { resource.path like \"*/testdata/*\" };", call(paths("a/testdata/b")), "deny f"},
	{"a path in a shell line", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(line("cat secrets/key | wc -l")), "deny f"},

	{"a path of what may never run", "@id(\"all\") permit (principal, action, resource);@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(line("rm -f 'secrets/a b'")), "deny f"},
	{"a path in a flag", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(line("cp --target-directory=secrets a")), "deny f"},
	{"a path of a reader with a flag that is not known", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(line("sed -i s/a/b/ secrets/a")), "deny f"},
	{"a path of a program that is not known", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(line("timeout 5 frob if=secrets/a")), "deny f"},
	{"a path that is written to", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(line("echo a > secrets/a")), "deny f"},
	{"a pattern is no path", everything + "@id(\"f\") forbid (principal, action, resource in Path::\"secrets\");", call(line("grep -n secrets src/a.go")), "allow all"},
	{"a domain", everything + "@id(\"f\") forbid (principal, action, resource in Host::\"example.com\");", call(hosts("https://a.b.EXAMPLE.com./x")), "deny f"},
	{"the domain itself", everything + "@id(\"f\") forbid (principal, action, resource in Host::\"example.com\");", call(hosts("example.com:443")), "deny f"},
	{"a domain of nearly that name", everything + "@id(\"f\") forbid (principal, action, resource in Host::\"example.com\");", call(hosts("badexample.com")), "allow all"},
	{"an address", everything + "@id(\"f\") forbid (principal, action, resource == Host::\"10.0.0.1\");", call(hosts("http://10.0.0.1:80/")), "deny f"},
	{"an address is in no domain", everything + "@id(\"f\") forbid (principal, action, resource in Host::\"1\");", call(hosts("10.0.0.1")), "allow all"},
	{"a port", everything + "@id(\"f\") forbid (principal, action, resource is Host) when { resource.port == 8080 };", call(hosts("example.com:8080")), "deny f"},
	{"a scheme", everything + "@id(\"f\") forbid (principal, action, resource is Host) unless { resource.scheme == \"https\" };", call(hosts("http://example.com/")), "deny f"},
	{"what is private", everything + "@id(\"f\") forbid (principal, action, resource is Host) unless { resource.public };", call(hosts("http://127.1/")), "deny f"},
	{"a host in a shell line", everything + "@id(\"f\") forbid (principal, action, resource in Host::\"example.com\");", call(line("curl https://a.example.com/")), "deny f"},

	{"a tool", everything + "@id(\"f\") forbid (principal, action, resource == Tool::\"Read\");", call(), "deny f"},
	{"a tool by a pattern", everything + "@id(\"f\") forbid (principal, action, resource is Tool) when { resource.name like \"mcp:*\" };", call(func(r *policy.Request) { r.Tool = "mcp:x" }), "deny f"},
	{"a tier", everything + "@id(\"f\") forbid (principal, action, resource) when { context.tier == Tier::\"irreversible\" };", call(does(events.OpExecute, events.Irreversible, "{}")), "deny f"},
	{"a mode", everything + "@id(\"f\") forbid (principal, action, resource) when { context.mode == Mode::\"read_only\" };", call(func(r *policy.Request) { r.Mode = "odd" }), "deny f"},
	{"a workspace", everything + "@id(\"f\") forbid (principal, action, resource) when { context.workspace like \"/w*\" };", call(), "deny f"},
	{"a list of actions", everything + "@id(\"f\") forbid (principal, action in [Action::\"read\", Action::\"write\"], resource);", call(), "deny f"},

	{"a text in the arguments", everything + "@id(\"f\") forbid (principal, action, resource) when { context.args.hasTag(\"/a/0/b\") && context.args.getTag(\"/a/0/b\") == \"x\" };", call(does(events.OpExecute, "", `{"a":[{"b":"x"}]}`)), "deny f"},
	{"a number in the arguments", everything + "@id(\"f\") forbid (principal, action, resource) when { context.numbers.hasTag(\"/n\") && context.numbers.getTag(\"/n\") > 100 };", call(does(events.OpExecute, "", `{"n":100.0000001}`)), "deny f"},
	{"a number that is small enough", everything + "@id(\"f\") forbid (principal, action, resource) when { context.numbers.hasTag(\"/n\") && context.numbers.getTag(\"/n\") > 100 };", call(does(events.OpExecute, "", `{"n":1e2}`)), "allow all"},
	{"a number without end", everything + "@id(\"f\") forbid (principal, action, resource) when { context.numbers.hasTag(\"/n\") && context.numbers.getTag(\"/n\") > 100 };", call(does(events.OpExecute, "", `{"n":1e999999}`)), "deny f"},
	{"a boolean in the arguments", everything + "@id(\"f\") forbid (principal, action, resource) when { context.args.hasTag(\"/force\") && context.args.getTag(\"/force\") == \"true\" };", call(does(events.OpExecute, "", `{"force":true}`)), "deny f"},
	{"two values of one name", everything + "@id(\"f\") forbid (principal, action, resource) when { context.args.hasTag(\"/a\") && context.args.getTag(\"/a\") == \"x\" };", call(does(events.OpExecute, "", `{"a":"x","a":"y"}`)), "deny args.limit"},
	{"too many values", everything + "@id(\"f\") forbid (principal, action, resource) when { context.args.hasTag(\"/a\") };", call(does(events.OpExecute, "", `{"l":[`+strings.Repeat("1,", maxLeaves)+`1]}`)), "deny args.limit"},
	{"values too deep", everything + "@id(\"f\") forbid (principal, action, resource) when { context.args.hasTag(\"/a\") };", call(does(events.OpExecute, "", strings.Repeat(`{"a":`, 30)+"1"+strings.Repeat("}", 30))), "deny args.limit"},
	{"nobody looks at them", everything, call(does(events.OpExecute, "", strings.Repeat(`{"a":`, 30)+"1"+strings.Repeat("}", 30))), "allow all"},
	{"no arguments", everything + "@id(\"f\") forbid (principal, action, resource) unless { context.args.hasTag(\"/a\") };", call(does(events.OpExecute, "", "")), "deny f"},

	{"a deed that is permitted", "@id(\"rm\") permit (principal, action, resource) when { resource == Shell::\"remove\" || !(resource is Shell) };", call(line("rm x")), "allow rm"},
	{"with one that is not", "@id(\"rm\") permit (principal, action, resource) when { resource == Shell::\"remove\" || !(resource is Shell) };", call(line("rm x; mv a b")), "deny default.deny"},
	{"the milder deed counts beside a worse one", everything + "@id(\"f\") forbid (principal, action, resource == Shell::\"move-copy\");", call(line("rm x; mv a b")), "deny f"},
	{"what is not understood is denied whatever is permitted", everything, call(line("echo 'x")), "deny shell.syntax"},
	{"what cannot be read, too", everything, call(line("echo \u202e")), "deny shell.encoding"},
	{"a tool that is not known, too", everything, call(func(r *policy.Request) { r.Known = false }), "deny tool.unknown"},
	{"a class that is not known, too", everything, call(does("other", "", "{}")), "deny class.unknown"},
	{"too many paths, too", everything, call(paths(slices.Repeat([]string{"a"}, policy.MaxPaths+1)...)), "deny path.workspace"},
}

func TestVerdicts(t *testing.T) {
	for _, c := range verdicts {
		t.Run(c.name, func(t *testing.T) {
			v := policies(t, c.text).Authorize(c.r)
			if got := fmt.Sprint(v.Decision, " ", strings.Join(v.Policies, " ")); got != c.want {
				t.Errorf("%s, want %s\n%+v", got, c.want, v)
			}
			checkVerdict(t, v)
		})
	}
}

// A policy that cannot be evaluated denies, also where it would only have permitted.
func TestEvaluationErrorsDeny(t *testing.T) {
	const overflow = " (principal, action, resource) when { context.numbers.hasTag(\"/n\") && context.numbers.getTag(\"/n\") * 2 > 100 };"
	r := call(does(events.OpExecute, events.Irreversible, `{"n":9223372036854775807}`))
	for _, effect := range []string{"permit", "forbid", "@ask(\"w\") permit"} {
		v := policies(t, everything+"@id(\"broken\") "+effect+overflow).Authorize(r)
		if v.Decision != policy.Deny || !slices.Equal(v.Policies, []string{"broken"}) || v.Code != events.PermissionDenied || !strings.Contains(v.Reason, `The policy "broken" cannot be evaluated`) {
			t.Errorf("%s: %+v", effect, v)
		}
		checkVerdict(t, v)
	}
}

func TestSentences(t *testing.T) {
	for _, c := range []struct {
		text string
		r    policy.Request
		want policy.Verdict
	}{
		{"@id(\"f\") forbid (principal, action, resource);", call(), policy.Verdict{Reason: `The operator's policy "f" forbids this; go on without it, or tell the user what is missing.`}},
		{"@id(\"f\") @reason(\"No {tool} for {principal}\") forbid (principal, action, resource is Tool);", call(), policy.Verdict{Reason: `No "Read" for "worker".`}},
		{"@id(\"f\") @reason(\"Keep out of {resource}.\") @code(\"NOT_FOUND\") forbid (principal, action, resource is Path);", call(), policy.Verdict{Reason: `Keep out of "src/a.go".`, Code: events.NotFound, Path: "/path"}},
		{"@id(\"f\") @reason(\"{why} Really.\") forbid (principal, action, resource is Path);", call(paths("../x")), policy.Verdict{Reason: "The path goes up with two dots; write it without them, relative to the workspace Really."}},
		{"@id(\"f\") @reason(\"{why}\") forbid (principal, action, resource is Path);", call(), policy.Verdict{Reason: `It touches "src/a.go".`, Path: "/path"}},
		{"@id(\"f\") @pointer(\"/other\") @reason(\"x\") forbid (principal, action, resource is Path);", call(), policy.Verdict{Reason: "x.", Path: "/other"}},
		{"@id(\"f\") @pointer @reason(\"x\") forbid (principal, action, resource is Path);", call(), policy.Verdict{Reason: "x."}},
		{"@id(\"f\") @reason(\"{why}\") forbid (principal, action, resource == Shell::\"remove\");", call(line("rm x")), policy.Verdict{Reason: `"rm" deletes files; leave them where they are and tell the user what should be deleted.`, Path: "/command"}},
		{"@id(\"f\") @reason(\"second\") forbid (principal, action, resource is Tool);@id(\"g\") @reason(\"third\") forbid (principal, action, resource);", call(), policy.Verdict{Reason: "second."}},
		{"@id(\"f\") permit (principal, action == Action::\"write\", resource);", call(), policy.Verdict{Reason: "No rule permits this operation; use one of the tools that read or write files."}},
		{"@id(\"f\") permit (principal, action, resource is Tool);", call(), policy.Verdict{Reason: `No rule permits this for "src/a.go"; go on without it.`, Path: "/path"}},
		{"@id(\"f\") permit (principal == Agent::\"kid\", action, resource);", call(by("", "kid", "lead")), policy.Verdict{Reason: `No policy permits this to "lead", for whom the agent acts; go on without it.`}},
		{"@id(\"f\") permit (principal, action, resource) unless { resource is Shell };", call(line("mv a b")), policy.Verdict{Reason: "No rule permits what the line does (shell.move-copy); use one of the tools that read or write files.", Path: "/command"}},
	} {
		v := policies(t, c.text).Authorize(c.r)
		want := c.want.Code
		if want == "" {
			want = events.PermissionDenied
		}
		if v.Decision != policy.Deny || v.Reason != c.want.Reason || v.Code != want || v.Path != c.want.Path {
			t.Errorf("%s\n%+v\nwant %+v", c.text, v, c.want)
		}
	}
}

// Rules beside the texts cannot be overruled, and permit nothing.
func TestRulesBesideTheTexts(t *testing.T) {
	says := policy.Finding{}
	rules := policy.Rules{{ID: "row", Version: "1", Judge: func(policy.Request) policy.Finding { return says }}}
	s, err := Load([]File{{"a", []byte("@id(\"w\") permit (principal, action == Action::\"read\", resource);")}}, Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	for d, want := range map[policy.Decision]string{"": "allow w", policy.Allow: "allow w", policy.Ask: "ask row", policy.Deny: "deny row"} {
		says = policy.Finding{Decision: d, Reason: "It says so."}
		if v := s.Authorize(call()); fmt.Sprint(v.Decision, " ", strings.Join(v.Policies, " ")) != want {
			t.Errorf("%q: %+v, want %s", d, v, want)
		}
	}
	says = policy.Finding{Decision: policy.Allow, Reason: "It says so."}
	if v := s.Authorize(call(does(events.OpWrite, "", "{}"))); v.Decision != policy.Deny {
		t.Errorf("a rule beside the texts permits: %+v", v)
	}
}

// asForbid is a policy that forbids what it permitted.
func asForbid(text string) string {
	return strings.Replace(strings.TrimPrefix(text, "@ask(\"w\") "), "permit", "forbid", 1)
}

// A parent more, or a forbid more, never gets an agent more.
func TestLessNeverGetsMore(t *testing.T) {
	policyOf := rapid.Custom(func(rt *rapid.T) string {
		effect := rapid.SampledFrom([]string{"permit", "forbid", "@ask(\"w\") permit"}).Draw(rt, "effect")
		who := rapid.SampledFrom([]string{"principal", "principal == Agent::\"a\"", "principal in Agent::\"b\"", "principal is Agent in Agent::\"c\"", "principal is Person"}).Draw(rt, "who")
		what := rapid.SampledFrom([]string{"action", "action == Action::\"read\"", "action in [Action::\"read\", Action::\"write\"]"}).Draw(rt, "what")
		on := rapid.SampledFrom([]string{"resource", "resource is Tool", "resource in Path::\"src\"", "resource == Tool::\"Read\"", "resource is Path"}).Draw(rt, "on")
		when := rapid.SampledFrom([]string{"", " when { principal.id == \"a\" }", " unless { principal in [Agent::\"b\", Agent::\"c\"] }", " when { context.can_ask }"}).Draw(rt, "when")
		if strings.Contains(when, "principal in") && who == "principal is Person" {
			when = ""
		}
		return effect + " (" + who + ", " + what + ", " + on + ")" + when + ";"
	})
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(policyOf, 1, 6).Draw(rt, "policies"), "\n")
		chain := rapid.Permutation([]string{"a", "b", "c", "d"}).Draw(rt, "who, and for whom")[:rapid.IntRange(1, 4).Draw(rt, "how many")]
		r := call(by("", chain[0], chain[1:]...))
		s := policies(t, text)
		before := s.Authorize(r)
		for i := 1; i < len(chain); i++ { // what a parent may not, its child may not
			if v := s.Authorize(call(by("", chain[i], chain[i+1:]...))); rank(before.Decision) < rank(v.Decision) {
				rt.Fatalf("%s\n%v: %+v\nits parent %s: %+v", text, chain, before, chain[i], v)
			}
		}
		stricter := policies(t, text+"\n"+asForbid(policyOf.Draw(rt, "a forbid more")))
		if after := stricter.Authorize(r); rank(after.Decision) < rank(before.Decision) {
			rt.Fatalf("%s\nwas %+v, and with a forbid more %+v", text, before, after)
		}
	})
}

// One set judges for many at once, and says the same to each.
func TestManyAtOnce(t *testing.T) {
	s := more(t, 20)
	m := newMaker(t, 7)
	var requests []policy.Request
	var want []string
	for range 60 {
		r := m.request()
		requests, want = append(requests, r), append(want, fmt.Sprintf("%+v", s.Authorize(r)))
	}
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for n := range requests {
				n = (n*7 + i) % len(requests)
				if got := fmt.Sprintf("%+v", s.Authorize(requests[n])); got != want[n] {
					t.Errorf("%+v: %s, want %s", requests[n], got, want[n])
				}
			}
		})
	}
}

// Judging changes nothing in the request.
func TestJudgingLeavesTheRequestAlone(t *testing.T) {
	s := theDefault(t)
	m := newMaker(t, 11)
	for range 200 {
		r := m.request()
		before := fmt.Sprintf("%+v", r)
		s.Authorize(r)
		if after := fmt.Sprintf("%+v", r); after != before {
			t.Fatalf("%s became %s", before, after)
		}
	}
}
