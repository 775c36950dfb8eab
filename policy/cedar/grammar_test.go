package cedar

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/policy"
)

// grammar writes policies: most of them are refused, and those that load must be sound.
type grammar struct{ *maker }

func (g grammar) policy() string {
	effect := one(g.maker, "permit", "forbid", "@ask(\"w\") permit")
	who := one(g.maker, "principal", "principal == Agent::\"a\"", "principal in Agent::\"b\"", "principal is Person", "principal is Agent in Agent::\"c\"", "principal == Service::\"a\"")
	do := one(g.maker, "action", "action == Action::\"read\"", "action in [Action::\"execute\", Action::\"network\"]", "action in Action::\"write\"")
	on := one(g.maker, "resource", "resource is Tool", "resource in Path::\"src\"", "resource == Shell::\"remove\"", "resource is Host in Host::\"example.com\"", "resource is Path", "resource is Shell")
	text := fmt.Sprintf("%s (%s, %s, %s)", effect, who, do, on)
	for range g.IntN(3) {
		text += fmt.Sprintf("\n%s { %s }", one(g.maker, "when", "unless"), g.expr(4))
	}
	return text + ";"
}

// expr is an expression of any type.
func (g grammar) expr(depth int) string {
	if depth == 0 {
		return one(g.maker, "true", "false", "context.network", "context.line", "context.can_ask", "context.mode", "context.tier", "context.workspace", "context.time", "context.weekday", "context.session", "context.session.trace", "context.classification", "context.classification.reads",
			"context.classification.class", "Class::\"read\"", "context.args", "context.numbers",
			"context", "principal", "principal.id", "action", "resource", "resource.path", "resource.inside", "resource.port", "resource.name", "1", "-9223372036854775808", "\"a\"", "\"*\"",
			"Agent::\"a\"", "Mode::\"write\"", "Action::\"read\"", "Path::\"src\"", "Tool::\"Read\"", "[]", "{}", "ip(\"10.0.0.1\")", "decimal(\"1.5\")", "datetime(\"2024-10-15\")", "duration(\"1h\")")
	}
	x := func() string { return g.expr(g.IntN(depth)) }
	switch g.IntN(16) {
	case 0:
		return fmt.Sprintf("(%s) && (%s)", x(), x())
	case 1:
		return fmt.Sprintf("(%s) || (%s)", x(), x())
	case 2:
		return "!(" + x() + ")"
	case 3:
		return fmt.Sprintf("(%s) %s (%s)", x(), one(g.maker, "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "in"), x())
	case 4:
		return fmt.Sprintf("if %s then %s else %s", x(), x(), x())
	case 5:
		return fmt.Sprintf("(%s) is %s", x(), one(g.maker, "Tool", "Path", "Host in Host::\"example.com\"", "Agent", "Mode"))
	case 6:
		return fmt.Sprintf("(%s) has %s", x(), one(g.maker, "id", "inside", "name", "\"path\"", "a.b"))
	case 7:
		return fmt.Sprintf("(%s) like \"%s\"", x(), one(g.maker, "*", "a*b", "\\*", "", "**x"))
	case 8:
		return fmt.Sprintf("[%s, %s]", x(), x())
	case 9:
		return fmt.Sprintf("{a: %s, \"b c\": %s}", x(), x())
	case 10:
		return fmt.Sprintf("(%s).%s(%s)", x(), one(g.maker, "contains", "containsAll", "containsAny", "hasTag", "getTag", "isInRange", "lessThan", "greaterThan", "offset", "durationSince"), x())
	case 11:
		return fmt.Sprintf("(%s).%s()", x(), one(g.maker, "isEmpty", "isIpv4", "isLoopback", "toDate", "toTime", "toHours", "toDays", "toMilliseconds"))
	case 12:
		return fmt.Sprintf("(%s)%s", x(), one(g.maker, ".a", "[\"b c\"]", ".id", ".path", ".inside"))
	case 13:
		tag := one(g.maker, "/a", "/path0", "/command", "/n")
		return fmt.Sprintf("context.args.hasTag(\"%s\") && context.args.getTag(\"%s\") == \"x\"", tag, one(g.maker, tag, tag, tag, "/other"))
	case 14:
		return "context.numbers.hasTag(\"/n\") && context.numbers.getTag(\"/n\") * 2 > 3"
	}
	return one(g.maker, "resource is Path && resource.inside", "resource is Path && resource.path like \"src/*\"", "principal.id == \"a\"", "resource is Host && resource.port > 80",
		"[Mode::\"write\"].contains(context.mode)", "action in [Action::\"read\"]", "context.time.toTime() > duration(\"8h\")", "context.weekday < 6",
		"context.time > datetime(\"2026-01-01\")", "context.session.trace like \"a*\"", "context.classification.understood && !context.classification.reads")
}

// What the checks let pass can be evaluated: nothing panics, and only sums that are too
// large are left to go wrong.
func (g grammar) try(t *testing.T) (loaded bool) {
	text := g.policy() + "\n" + g.policy()
	s, err := load(text)
	if err != nil {
		if !errors.Is(err, ErrPolicy) {
			t.Fatalf("%s\n%v", text, err)
		}
		return false
	}
	for range 3 {
		r := g.request()
		v := s.Authorize(r)
		checkVerdict(t, v)
		if strings.Contains(v.Reason, "cannot be evaluated") && !strings.Contains(v.Reason, "overflow") {
			t.Errorf("%s\n%+v\n%+v", text, r, v)
		}
		if v.Decision == policy.Allow && !r.Known {
			t.Errorf("%s\n%+v\n%+v", text, r, v)
		}
	}
	return true
}

func TestGrammar(t *testing.T) {
	n := *seed
	if n == 0 {
		n = uint64(time.Now().UnixNano())
	}
	g, loaded := grammar{newMaker(t, n)}, 0
	for range *count / 4 {
		if g.try(t) {
			loaded++
		}
		if t.Failed() {
			t.Fatalf("reproduce: go test ./policy/cedar -run Grammar -seed=%d", n)
		}
	}
	if loaded == 0 {
		t.Errorf("none of %d policies was sound, with -seed=%d", *count/4, n)
	}
}
