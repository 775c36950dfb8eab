package cedar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

func at(text string) func(*policy.Request) {
	return func(r *policy.Request) {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			panic(err)
		}
		r.Time = t
	}
}

func in(trace, turn, placement string) func(*policy.Request) {
	return func(r *policy.Request) { r.Session = policy.Session{Trace: trace, Turn: turn, Placement: placement} }
}

// closed is a policy that forbids when its condition holds.
func closed(when string) string {
	return everything + "@id(\"closed\") forbid (principal, action, resource) when { " + when + " };"
}

// What policies say of the time, the session and what a call amounts to.
func TestContext(t *testing.T) {
	const office = `!(context.weekday <= 5 && context.time.toTime() >= duration("8h") && context.time.toTime() < duration("18h"))`
	for _, c := range []struct {
		name, when string
		r          policy.Request
		closed     bool
	}{
		{"a Monday, as it opens", office, call(at("2026-06-01T08:00:00Z")), false},
		{"a millisecond before", office, call(at("2026-06-01T07:59:59.999Z")), true},
		{"as it closes", office, call(at("2026-06-01T18:00:00Z")), true},
		{"a Friday", office, call(at("2026-06-05T12:00:00Z")), false},
		{"a Saturday", office, call(at("2026-06-06T12:00:00Z")), true},
		{"a Sunday", office, call(at("2026-06-07T12:00:00Z")), true},
		{"another zone's clock is UTC's", office, call(at("2026-06-01T08:30:00+02:00")), true},
		{"an hour of the day", `context.time.toTime().toHours() == 23`, call(at("2026-06-01T23:59:59Z")), true},
		{"a zone, by its offset", `context.time.offset(duration("2h")).toTime() < duration("8h")`, call(at("2026-06-01T05:59:59Z")), true},
		{"from a day on", `context.time >= datetime("2026-12-24")`, call(at("2026-12-24T00:00:00Z")), true},
		{"before it", `context.time >= datetime("2026-12-24")`, call(at("2026-12-23T23:59:59Z")), false},
		{"a deployment window", `context.time >= datetime("2026-06-01T22:00:00Z") && context.time < datetime("2026-06-01T22:30:00Z")`, call(at("2026-06-01T22:29:59Z")), true},
		{"the day of a time", `context.time.toDate() == datetime("2026-06-01")`, call(at("2026-06-01T22:29:59Z")), true},
		{"long ago", `context.time < datetime("1970-01-02")`, call(at("1969-01-01T00:00:00Z")), true},
		{"a weekday before 1970", `context.weekday == 3`, call(at("1969-01-01T00:00:00Z")), true},

		{"a run", `context.session.trace like "nightly-*"`, call(in("nightly-7", "t1", "default")), true},
		{"another run", `context.session.trace like "nightly-*"`, call(in("daily-7", "t1", "default")), false},
		{"a turn", `context.session.turn == "t1"`, call(in("r", "t1", "")), true},
		{"a placement", `context.session.placement == "prod"`, call(in("r", "t", "prod")), true},
		{"a session that is not known", `context.session.trace == ""`, call(), true},

		{"a reading line", `context.classification.reads`, call(line("git status")), true},
		{"its class", `context.classification.class == Class::"read"`, call(line("git log | head")), true},
		{"a writing line", `context.classification.class == Class::"write"`, call(line("mv a b")), true},
		{"reading and writing", `context.classification.class == Class::"write"`, call(line("ls > a")), true},
		{"it reads not", `context.classification.reads`, call(line("ls > a")), false},
		{"it is understood", `context.classification.understood`, call(line("ls > a")), true},
		{"over the network", `context.classification.class == Class::"network"`, call(line("curl https://example.com > a")), true},
		{"a program", `context.classification.class == Class::"execute"`, call(line("make")), true},
		{"that is not understood", `!context.classification.understood`, call(line("make")), true},
		{"beside one that is", `!context.classification.understood`, call(line("ls && frob")), true},
		{"a flag that is not", `!context.classification.understood`, call(line("ls --frob")), true},
		{"a line that does not parse", `!context.classification.understood`, call(line("echo 'x")), true},
		{"a tool that reads", `context.classification.reads && context.classification.understood`, call(), true},
		{"a tool that reads and is not readonly", `context.classification.reads`, call(func(r *policy.Request) { r.Tier = events.Irreversible }), false},
		{"a tool that executes", `context.classification.class == Class::"execute"`, call(does(events.OpExecute, events.Irreversible, "{}")), true},
	} {
		s, err := load(closed(c.when))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.r.Time.IsZero() && s.Timed() {
			c.r.Time = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
		}
		v := s.Authorize(c.r)
		if got := fmt.Sprint(v.Policies); (got == "[closed]") != c.closed || v.Decision == policy.Allow == c.closed {
			if !(c.closed && strings.Contains(got, "closed")) { // a line that does not parse is denied anyway
				t.Errorf("%s: %+v, want closed %t", c.name, v, c.closed)
			}
		}
	}
}

// A verdict says for which moment it holds, if it does not hold for all; where the moment
// counts and is not known it denies, also what a policy would only have permitted.
func TestJudged(t *testing.T) {
	moment := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		text  string
		timed bool
	}{
		{everything, false},
		{closed(`context.session.trace == "x" && context.can_ask`), false},
		{closed(`context.time < datetime("2000-01-01")`), true},
		{closed(`context.weekday == 7`), true},
		{closed(`context == context && context.can_ask && context.weekday == 9`), true},
		{"@id(\"p\") permit (principal, action, resource) when { context.time > datetime(\"2000-01-01\") };", true},
	} {
		s := policies(t, c.text)
		if s.Timed() != c.timed {
			t.Errorf("%s: looks at the time: %t", c.text, s.Timed())
		}
		v := s.Authorize(call(func(r *policy.Request) { r.Time = moment }))
		if v.Decision != policy.Allow && !strings.Contains(c.text, "context == context") || v.Judged.Equal(moment) != c.timed || v.Judged.IsZero() == c.timed {
			t.Errorf("%s: %+v", c.text, v)
		}
		v = s.Authorize(call())
		if c.timed && (v.Decision != policy.Deny || !slices.Contains(v.Policies, "default.time")) {
			t.Errorf("%s: without a time: %+v", c.text, v)
		}
		if !v.Judged.IsZero() {
			t.Errorf("%s: judged at a time that is not known: %+v", c.text, v)
		}
	}
}

// What names a time that is none does not load: it would deny every call.
func TestTimesThatAreNone(t *testing.T) {
	for _, when := range []string{
		`context.time > datetime("2026-13-01")`, `context.time > datetime("soon")`, `context.time > datetime("")`,
		`context.time.toTime() > duration("8 hours")`, `context.time.toTime() > duration("25x")`, `context.time > "2026-01-01"`,
		`context.time.toTime() > datetime("2026-01-01")`, `context.weekday == "Monday"`, `context.hour > 8`, `context.time.hour() > 8`,
		`context.session.user == "x"`, `context.session has user`, `context.classification.worst`, `context.session.trace.length > 3`,
		`context.classification.class == "read"`, `context.classification.class == Class::"reads"`, `ip("10.0.0.999").isIpv4()`,
		`datetime(context.session.trace) < context.time`,
	} {
		if s, err := load(closed(when)); err == nil {
			t.Errorf("%s: it loads, as %s", when, s.Version())
		}
	}
	if _, err := load(closed(`context.session has trace && context.classification has reads`)); err != nil {
		t.Errorf("what is always there: %v", err)
	}
}

// What a call costs to judge is bounded: by its own size, and by that of the policy.
func TestCostIsBounded(t *testing.T) {
	var names []string
	for i := range 900 {
		names = append(names, fmt.Sprintf("d%d/e/f.go", i))
	}
	var parents []string
	for i := range 16 {
		parents = append(parents, fmt.Sprint("p", i))
	}
	wide := call(line("cat "+strings.Join(names, " ")), by("", "a", parents...))
	var names900 strings.Builder
	for i := range 900 {
		fmt.Fprintf(&names900, "@id(\"n%d\") forbid (principal, action, resource is Path) when { principal.id like \"x*y%d*z\" && resource.name == \"n\" };\n", i, i)
	}
	var hungry strings.Builder
	pattern := strings.Repeat("a", 2000) + "b"
	for i := range 100 {
		fmt.Fprintf(&hungry, "@id(\"h%d\") forbid (principal, action, resource) when { context.args.hasTag(\"/t\") && context.args.getTag(\"/t\") like \"*%s*\" };\n", i, pattern)
	}
	long, err := json.Marshal(map[string]string{"t": strings.Repeat("a", 900<<10)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		s    *Set
		r    policy.Request
		want string
	}{
		{"many paths, for many, by many policies", policies(t, everything+names900.String()), wide, "deny [default.limit]"},
		{"by many that are for other paths", more(t, 900), wide, "allow [shell.read]"},
		{"many paths, for many", more(t, 0), wide, "allow [shell.read]"},
		{"long patterns on long arguments", policies(t, everything+hungry.String()), call(does(events.OpExecute, events.Irreversible, string(long))), "deny [default.limit]"},
		{"on short ones", policies(t, everything+hungry.String()), call(does(events.OpExecute, events.Irreversible, `{"t":"aab"}`)), "allow [all]"},
	} {
		v := c.s.Authorize(c.r)
		if got := fmt.Sprint(v.Decision, " ", v.Policies); got != c.want {
			t.Errorf("%s: %s, want %s: %s", c.name, got, c.want, v.Reason)
		}
		checkVerdict(t, v)
	}
}
