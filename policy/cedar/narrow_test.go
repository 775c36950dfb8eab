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

// A parent is what policies name it as.
func TestParentsOfAllKinds(t *testing.T) {
	const text = everything + `
@id("ann") forbid (principal == Person::"ann", action, resource);
@id("ci") forbid (principal in Service::"ci", action, resource is Path);
@id("twice") forbid (principal == Person::"both", action, resource);
@id("lead") permit (principal in Agent::"both", action, resource);`
	for _, c := range []struct {
		who  func(*policy.Request)
		want string
	}{
		{by("", "kid", "ann"), "deny ann"},
		{by("agent", "kid", "lead", "ann"), "deny ann"},
		{by("person", "ann"), "deny ann"},
		{by("", "ann"), "allow all"}, // an agent of that name, by its own word: who lets it in knows better
		{by("", "kid", "ci"), "deny ci"},
		{by("service", "ci"), "deny ci"},
		{by("", "kid", "both"), "deny twice"}, // named as two kinds: it is judged as both
		{by("", "kid", "someone"), "allow all"},
	} {
		r := call(c.who)
		v := policies(t, text).Authorize(r)
		if got := fmt.Sprint(v.Decision, " ", strings.Join(v.Policies, " ")); got != c.want {
			t.Errorf("%+v: %s, want %s: %s", r.Principal, got, c.want, v.Reason)
		}
	}
}

// Long chains, cycles and repetitions end, and widen nothing.
func TestChains(t *testing.T) {
	s := policies(t, everything+`@id("f") forbid (principal == Agent::"last", action, resource);`)
	var long []string
	for i := range 5000 {
		long = append(long, fmt.Sprint("a", i))
	}
	for _, c := range []struct {
		name    string
		parents []string
		want    string
	}{
		{"itself", []string{"worker", "worker"}, "allow"},
		{"a cycle", []string{"a", "worker", "a", "b"}, "allow"},
		{"a cycle with who is forbidden", []string{"a", "worker", "a", "last"}, "deny"},
		{"the last of many", append(long[:maxChain-2:maxChain-2], "last"), "deny"},
		{"as many as are looked at", long[:maxChain-1], "allow"},
		{"one more", long[:maxChain], "deny"},
		{"thousands", append(long, "last"), "deny"},
		{"an empty name", []string{""}, "allow"},
	} {
		if v := s.Authorize(call(by("", "worker", c.parents...))); string(v.Decision) != c.want {
			t.Errorf("%s: %+v, want %s", c.name, v, c.want)
		}
	}
}

// drawn are random policies about a few principals. Members says whether permits may be
// won by belonging to somebody.
func drawn(members bool) *rapid.Generator[string] {
	return rapid.Custom(func(rt *rapid.T) string {
		effect := rapid.SampledFrom([]string{"permit", "forbid", "@ask(\"w\") permit"}).Draw(rt, "effect")
		whos := []string{"principal", "principal == Agent::\"a\"", "principal == Person::\"b\"", "principal is Agent", "principal is Service", "principal == Service::\"c\""}
		if members || effect == "forbid" {
			whos = append(whos, "principal in Agent::\"b\"", "principal in Person::\"b\"", "principal is Agent in Agent::\"c\"", "principal in Service::\"c\"")
		}
		who := rapid.SampledFrom(whos).Draw(rt, "who")
		what := rapid.SampledFrom([]string{"action", "action == Action::\"read\"", "action == Action::\"delegate\"", "action in [Action::\"read\", Action::\"execute\"]"}).Draw(rt, "what")
		on := rapid.SampledFrom([]string{"resource", "resource is Tool", "resource in Path::\"src\"", "resource == Tool::\"Read\"", "resource is Path"}).Draw(rt, "on")
		whens := []string{"", " when { principal.id == \"a\" }", " when { context.can_ask }", " unless { principal.id like \"b*\" }", " when { context.session.trace == \"t\" }"}
		return effect + " (" + who + ", " + what + ", " + on + ")" + rapid.SampledFrom(whens).Draw(rt, "when") + ";"
	})
}

func someone(rt *rapid.T, names []string) events.Principal {
	chain := rapid.Permutation(names).Draw(rt, "who, and for whom")[:rapid.IntRange(1, len(names)).Draw(rt, "how many")]
	return events.Principal{ID: chain[0], Kind: rapid.SampledFrom([]string{"", "agent"}).Draw(rt, "kind"), Parents: chain[1:]}
}

func asked(rt *rapid.T) policy.Request {
	return call(func(r *policy.Request) {
		r.Op.Class = rapid.SampledFrom([]events.OpClass{events.OpRead, events.OpExecute, events.OpDelegate}).Draw(rt, "class")
		r.CanAsk = rapid.Bool().Draw(rt, "somebody can be asked")
		r.Session.Trace = rapid.SampledFrom([]string{"", "t"}).Draw(rt, "trace")
	})
}

// Whatever is permitted to a child is permitted to each of its parents, whatever they
// are, and where a parent is asked about so is the child.
func TestChildrenOnlyNarrow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(drawn(true), 1, 8).Draw(rt, "policies"), "\n")
		s := policies(t, text)
		r := asked(rt)
		r.Principal = someone(rt, []string{"a", "b", "c", "d", "e"})
		child := s.Authorize(r)
		for i, id := range r.Principal.Parents {
			kinds := []string{}
			for _, k := range []struct{ kind, as string }{{"agent", "Agent"}, {"person", "Person"}, {"service", "Service"}} {
				if strings.Contains(text, fmt.Sprintf("%s::%q", k.as, id)) {
					kinds = append(kinds, k.kind)
				}
			}
			if len(kinds) == 0 {
				kinds = []string{"agent"}
			}
			for _, kind := range kinds {
				p := r
				p.Principal = events.Principal{ID: id, Kind: kind, Parents: r.Principal.Parents[i+1:]}
				if v := s.Authorize(p); rank(v.Decision) > rank(child.Decision) {
					rt.Fatalf("%s\n%+v: %+v\nits parent %+v: %+v", text, r.Principal, child, p.Principal, v)
				}
			}
		}
	})
}

// A name of which policies speak as of an agent and as of a person stands for both, and
// belongs to neither: what the one may not, its child may not either.
func TestANameOfTwoKinds(t *testing.T) {
	s := policies(t, `permit (principal in Agent::"b", action, resource) when { principal.id == "a" };
permit (principal in Person::"b", action, resource);`)
	r := call(func(*policy.Request) {})
	r.Principal = events.Principal{ID: "a", Parents: []string{"d", "b"}}
	if v := s.Authorize(r); v.Decision != policy.Deny {
		t.Errorf("%+v", v)
	}
	r.Principal = events.Principal{ID: "b", Kind: "person"}
	if v := s.Authorize(r); v.Decision != policy.Allow {
		t.Errorf("%+v", v)
	}
}

// To claim a parent gets nobody more than the policy gives to who belongs to that parent:
// where nothing is permitted by belonging, a parent more never widens.
func TestForgedParentsDoNotWiden(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(drawn(false), 1, 8).Draw(rt, "policies"), "\n")
		s := policies(t, text)
		r := asked(rt)
		r.Principal = someone(rt, []string{"a", "b", "c", "d"})
		before := s.Authorize(r)
		at := rapid.IntRange(0, len(r.Principal.Parents)).Draw(rt, "where")
		forged := rapid.SampledFrom([]string{"a", "b", "c", "e"}).Draw(rt, "forged")
		r.Principal.Parents = slices.Insert(slices.Clone(r.Principal.Parents), at, forged)
		if after := s.Authorize(r); rank(after.Decision) < rank(before.Decision) {
			rt.Fatalf("%s\nwas %+v, and for %+v %+v", text, before, r.Principal, after)
		}
	})
}

// A kind that is not known is an agent, and no more.
func TestUnknownKinds(t *testing.T) {
	s := policies(t, `@id("p") permit (principal is Person, action, resource);
@id("s") permit (principal is Service, action, resource);`)
	for _, kind := range []string{"", "agent", "Person", "PERSON", "person ", "root", "Service", "person\x00"} {
		if v := s.Authorize(call(by(kind, "x"))); v.Decision != policy.Deny {
			t.Errorf("%q: %+v", kind, v)
		}
	}
	for _, kind := range []string{"person", "service"} {
		if v := s.Authorize(call(by(kind, "x"))); v.Decision != policy.Allow {
			t.Errorf("%q: %+v", kind, v)
		}
	}
}
