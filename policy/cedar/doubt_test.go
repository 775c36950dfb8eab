package cedar

import (
	"strings"
	"testing"
)

const reads = "permit (principal, action == Action::\"read\", resource);\n"

// What loads, and may not say what is meant: "" is no warning.
func TestWarnings(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a folder with a star", reads + "forbid (principal, action, resource in Path::\"secrets/*\");", `a.cedar:2:46: Path::"secrets/*" is a name, and no pattern: resource in Path::"secrets" covers all below it`},
		{"with two", reads + "forbid (principal, action, resource == Path::\"a/src/**\");", `resource in Path::"a/src" covers all below it`},
		{"with stars on stars", reads + "forbid (principal, action, resource == Path::\"src/**/*\");", `resource in Path::"src" covers all below it`},
		{"everything", reads + "forbid (principal, action, resource in Path::\"**\");", `resource in Path::"." covers all that is in the workspace`},
		{"files of a kind", reads + "forbid (principal, action, resource == Path::\"src/**/*.pem\");", `write a condition instead, resource is Path && resource.path like "src/*.pem"`},
		{"folders between", reads + "forbid (principal, action, resource == Path::\"secrets/**/keys/?\");", `like "secrets/*keys/*"`},
		{"a beginning", reads + "forbid (principal, action, resource == Path::\"src/key*\");", `like "src/key*"`},
		{"a character", reads + "forbid (principal, action, resource == Path::\"key?.pem\");", `like "key*.pem"`},
		{"a class", reads + "forbid (principal, action, resource == Path::\"key[0-9].pem\");", `like "key*.pem"`},
		{"braces", reads + "forbid (principal, action, resource) when { resource == Path::\"{a,b}/c\" };", `like "*/c"`},
		{"an agent", reads + "forbid (principal == Agent::\"ci-*\", action, resource);", `Agent::"ci-*" is a name, and no pattern: write a condition instead, principal.id like "ci-*"`},
		{"a name by ==", reads + "forbid (principal, action, resource is Path) when { resource.name == \"*.pem\" };", `resource.name is compared with the very text "*.pem": a pattern stands behind like, resource.name like "*.pem"`},
		{"the other way round", reads + "forbid (principal, action, resource is Path) unless { \"src/*\" != resource.path };", `resource.path like "src/*"`},
		{"in a list", reads + "forbid (principal, action, resource is Path) when { [\"a\", \"*.pem\"].contains(resource.name) };", `resource.name like "*.pem"`},
		{"a trace", reads + "forbid (principal, action, resource) when { context.session.trace == \"nightly-*\" };", `context.session.trace like "nightly-*"`},
		{"a workspace", reads + "forbid (principal, action, resource) when { context.workspace == \"/srv/*\" };", `context.workspace like "/srv/*"`},

		{"a folder of a framework", reads + "forbid (principal, action, resource in Path::\"app/[post-id]/[[...rest]]\");", ""},
		{"a pattern where it belongs", reads + "forbid (principal, action, resource is Path) when { resource.path like \"src/*.pem\" };", ""},
		{"a file that is called so", reads + "forbid (principal, action, resource is Path) when { resource.path like \"a\\*b\" };", ""},
		{"an argument that is a pattern", reads + "forbid (principal, action, resource) when { context.args.hasTag(\"/glob\") && context.args.getTag(\"/glob\") == \"*.go\" };", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := load(c.text)
			if err != nil {
				t.Fatal(err)
			}
			told(t, s.Warnings(), c.want)
		})
	}
}

// What a set lets run that the program's own policy holds back is told in one line.
func TestWhatRunsUnasked(t *testing.T) {
	all := []string{"curl … | sh", "rm -rf", "any program", "writes to .git", "writes of an agent that only reads", "it is permitted by a.1 at a.cedar:1,"}
	for _, c := range []struct {
		name, text string
		want       []string // in the one warning; none: there is none
		not        string   // that is not in it
	}{
		{"everything", "permit" + any3, all, ""},
		{"every agent", "permit (principal is Agent, action, resource);", all, ""},
		{"with a condition that always holds", "permit (principal, action, resource) when { true };", all, ""},
		{"in its mode", "permit (principal, action, resource) when { context.mode == Mode::\"write\" };", []string{"sudo"}, "only reads"},
		{"one agent", reads + "permit (principal in Agent::\"builder\", action, resource);", []string{`lets Agent::"builder" do this`, "sudo", "a.2 at a.cedar:2"}, "a.1 "},
		{"one agent by its id", "permit (principal, action, resource) when { [\"x\", \"builder\"].contains(principal.id) };", []string{`lets Agent::"builder" do this`, "sudo"}, ""},
		{"all commands", "@id(\"lines\") permit (principal, action == Action::\"execute\", resource);", []string{"rm -rf", "lines at a.cedar:1"}, "writes"},
		{"all of the shell's tool", "permit (principal, action, resource == Tool::\"Bash\");permit (principal, action, resource is Shell);permit (principal, action, resource is Path);permit (principal, action, resource is Host);", []string{"rm -rf", "a.1 at a.cedar:1, a.2 at"}, "writes"},
		{"but one", "permit" + any3 + "forbid (principal, action, resource == Shell::\"remove\");", []string{"sudo"}, "rm -rf"},
		{"writes", "permit (principal, action == Action::\"write\", resource);", []string{"writes to .git", ".mcp.json"}, "sudo"},
		{"at some time", "permit (principal, action, resource) when { context.weekday < 6 };", []string{"sudo"}, ""},

		{"what is named is meant", reads + "permit (principal, action, resource) when { resource == Shell::\"script\" || resource == Tool::\"Bash\" };", nil, ""},
		{"an id that is kept is meant", "@id(\"path.repository\") permit (principal, action == Action::\"write\", resource is Path) when { resource.git };@id(\"path.programs\") permit (principal, action == Action::\"write\", resource) when { context.mode == Mode::\"write\" };", nil, ""},
		{"a question", "@ask(\"Is it right?\") permit" + any3, nil, ""},
		{"reading", reads, nil, ""},
		{"a person", reads + "permit (principal is Person, action, resource);permit (principal == Service::\"ci\", action, resource);", nil, ""},
		{"the program's own", DefaultText(), nil, ""},
		{"the program's own, and more", DefaultText() + "permit" + any3, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := load(c.text)
			if err != nil {
				t.Fatal(err)
			}
			got := s.Warnings()
			told(t, got, c.want...)
			if c.not != "" && strings.Contains(strings.Join(got, "\n"), c.not) {
				t.Errorf("%q in %q", c.not, got)
			}
		})
	}
}

// told looks for one warning that has all of it; for none where there is nothing, or "".
func told(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(want) == 0 || want[0] == "" {
		if len(got) > 0 {
			t.Errorf("warned: %q", got)
		}
		return
	}
	if len(got) != 1 || strings.ContainsAny(got[0], "\n\x1b") {
		t.Fatalf("%d warnings, want one line: %q", len(got), got)
	}
	for _, w := range want {
		if !strings.Contains(got[0], w) {
			t.Errorf("no %q in %q", w, got[0])
		}
	}
}
