package cedar

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// unsorted is a set that asks every policy every question.
func unsorted(s *Set) *Set {
	out := *s
	out.anybody, out.somebody = [numActions]shelf{}, [numActions]shelf{}
	for i := range s.rules {
		for a := range numActions {
			for k := range numKinds {
				out.somebody[a].kinds[k].add(i, cost{})
			}
		}
	}
	return &out
}

// Which policies are asked is for speed alone: to leave out those that cannot fit, and to
// ask those that look at nobody once, changes no verdict.
func TestSortingChangesNothing(t *testing.T) {
	draw := func(rt *rapid.T, name string, list ...string) string { return rapid.SampledFrom(list).Draw(rt, name) }
	one := rapid.Custom(func(rt *rapid.T) string {
		when := []string{
			"", `resource in Path::"src"`, `resource == Path::"src/a.go"`, `resource in Path::"src" && context.can_ask`, `context.can_ask && resource in Path::"src"`,
			`(resource in Path::"src" && principal == Agent::"a") || context.network`, `resource in [Path::"src", Path::"doc"]`, `principal == Agent::"a"`,
			`principal in Agent::"b" && resource is Tool`, `resource == principal`, `resource in Host::"example.com" && resource.port == 443`,
			`Path::"src" == resource`, `resource in Path::"." && context.numbers.hasTag("/n") && context.numbers.getTag("/n") * 2 > 10`,
			`context.numbers.hasTag("/n") && context.numbers.getTag("/n") * 2 > 10 && resource in Path::"src"`, `resource == Shell::"remove"`, `resource is Shell && resource == Shell::"read"`,
			`resource == Tool::"Read" && principal.id == "a"`, `!(resource in Path::"src")`,
		}
		text := draw(rt, "effect", "permit", "forbid", "@ask(\"w\") permit") + " (" +
			draw(rt, "who", "principal", "principal == Agent::\"a\"", "principal in Agent::\"b\"", "principal is Agent in Agent::\"c\"", "principal is Person") + ", " +
			draw(rt, "what", "action", "action == Action::\"read\"", "action in [Action::\"execute\", Action::\"network\"]") + ", " +
			draw(rt, "on", "resource", "resource is Tool", "resource in Path::\"src\"", "resource is Path in Path::\".\"", "resource == Path::\"src/a.go\"", "resource in Host::\"com\"", "resource == Shell::\"remove\"", "resource is Shell") + ")"
		for range rapid.IntRange(0, 2).Draw(rt, "conditions") {
			if c := draw(rt, "condition", when...); c != "" {
				text += draw(rt, "kind", " when { ", " unless { ") + c + " }"
			}
		}
		return text + ";"
	})
	sound := 0
	rapid.Check(t, func(rt *rapid.T) {
		text := "permit (principal, action, resource);\n" + strings.Join(rapid.SliceOfN(one, 1, 8).Draw(rt, "policies"), "\n")
		s, err := load(text)
		if err != nil {
			return // it asks what never is
		}
		sound++
		r := call(by("", draw(rt, "id", "a", "b", "x"), rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(rt, "parents")...))
		switch draw(rt, "call", "read", "line", "fetch", "number") {
		case "line":
			line(draw(rt, "line", "rm src/a.go", "cat src/a.go doc/b", "curl https://example.com"))(&r)
		case "fetch":
			hosts(draw(rt, "host", "https://a.example.com:443/", "10.0.0.1"))(&r)
		case "number":
			does(events.OpExecute, events.Irreversible, draw(rt, "args", `{"n":9223372036854775807}`, `{"n":7}`, `{}`))(&r)
			r.Op.Paths = []string{draw(rt, "path", "src/a.go", "x", "../x", ".")}
		default:
			r.Op.Paths = rapid.SliceOfN(rapid.SampledFrom([]string{"src/a.go", "src", "doc/b", ".", "../src", ""}), 0, 4).Draw(rt, "paths")
		}
		want, got := unsorted(s).Authorize(r), s.Authorize(r)
		if fmt.Sprint(want) != fmt.Sprint(got) {
			rt.Fatalf("%s\n%+v\nall asked: %+v\nsorted:    %+v", text, r, want, got)
		}
	})
	if s, err := load("permit (principal, action, resource);\nforbid (principal in Agent::\"b\", action, resource == Shell::\"remove\");\n" +
		"forbid (principal, action, resource == Shell::\"remove\");"); err != nil {
		t.Error(err)
	} else if v := s.Authorize(call(by("", "b"), line("rm src/a.go"))); !strings.Contains(v.Reason, "a.2") {
		t.Errorf("of two that forbid a deed, the one behind gives the reason: %s", v.Reason)
	}
	if sound < 10 {
		t.Errorf("only %d sets of policies loaded", sound)
	}
	if s := more(t, 3); fmt.Sprint(unsorted(s).Authorize(call())) != fmt.Sprint(s.Authorize(call())) || slices.Contains(s.Authorize(call()).Policies, policy.GateAllow) {
		t.Error("the default policy is sorted wrongly")
	}
}
