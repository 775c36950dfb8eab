package cedar

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// outcome is what may be decided, from mild to strict: the mildest and the strictest.
type outcome [2]policy.Decision

var (
	allowed = outcome{policy.Allow, policy.Allow}
	asks    = outcome{policy.Ask, policy.Ask}
	denies  = outcome{policy.Deny, policy.Deny}
	careful = outcome{policy.Ask, policy.Deny} // anything but plainly allowed
)

// rulings are what each word of the table says: write mode with and without somebody to
// ask, and a read-only agent with and without.
var rulings = map[string][4]outcome{
	"never":  {denies, denies, denies, denies},
	"ask":    {asks, denies, denies, denies},
	"allow":  {allowed, allowed, denies, denies}, // Bash is denied to a read-only agent
	"mild":   {careful, denies, denies, denies},
	"reads":  {allowed, allowed, allowed, allowed},
	"writes": {allowed, allowed, denies, denies},
	"hands":  {asks, denies, denies, denies},
	"denied": {denies, denies, denies, denies},
}

// section1Tools are the tools of the table, as they say what they would do.
var section1Tools = map[string]struct {
	class events.OpClass
	tier  events.Tier
}{
	"Read": {events.OpRead, events.Readonly}, "Grep": {events.OpRead, events.Readonly}, "Glob": {events.OpRead, events.Readonly},
	"Edit": {events.OpWrite, events.Reversible}, "Write": {events.OpWrite, events.Reversible}, "Task": {events.OpDelegate, events.Irreversible},
}

func sectionCall(t *testing.T, at, text string) policy.Request {
	t.Helper()
	if strings.HasPrefix(text, `"`) {
		unquoted, err := strconv.Unquote(text)
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		text = unquoted
	}
	r := policy.Request{Principal: events.Principal{ID: "agent"}, Known: true, Workspace: "/w"}
	if sh, isLine := strings.CutPrefix(strings.TrimPrefix(text, "net"), "$ "); isLine {
		r.Tool, r.Tier, r.Network = "Bash", events.Irreversible, strings.HasPrefix(text, "net")
		args, err := json.Marshal(map[string]string{"command": sh})
		if err != nil {
			t.Fatal(err)
		}
		r.Args, r.Op.Class = args, events.OpExecute
		return asBash(r, sh)
	}
	name, args, _ := strings.Cut(text, " ")
	tool, registered := section1Tools[name]
	r.Tool, r.Known, r.Tier, r.Op.Class, r.Args = name, registered, tool.tier, tool.class, json.RawMessage(args)
	var in struct{ Path *string }
	if err := json.Unmarshal(r.Args, &in); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	if in.Path != nil {
		r.Op.Paths = []string{*in.Path}
	}
	return r
}

// The default policy holds every line of the table, by its texts and by its rows, in
// both modes, and whether or not somebody can be asked.
func TestSection1(t *testing.T) {
	raw, err := os.ReadFile("../testdata/section1.txt")
	if err != nil {
		t.Fatal(err)
	}
	texts, n := theDefault(t), 0
	for i, l := range strings.Split(string(raw), "\n") {
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		word, text, ok := strings.Cut(l, " | ")
		want, is := rulings[word]
		if !ok || !is {
			t.Fatalf("section1.txt:%d: %q", i+1, l)
		}
		n++
		r := sectionCall(t, l, text)
		for k, situation := range [4]struct {
			mode string
			ask  bool
		}{{events.ModeWrite, true}, {events.ModeWrite, false}, {events.ModeRead, true}, {events.ModeRead, false}} {
			r.Mode, r.CanAsk = situation.mode, situation.ask
			for _, a := range []policy.Authorizer{texts, policy.Default()} {
				v := policy.Judge(a, r)
				if rank(v.Decision) < rank(want[k][0]) || rank(v.Decision) > rank(want[k][1]) {
					t.Errorf("section1.txt:%d: %s (%s, asked %t) by %s: %s by %v: %s; want %v", i+1, text, situation.mode, situation.ask, a.Version(), v.Decision, v.Policies, v.Reason, want[k])
				}
			}
		}
	}
	if n < 120 {
		t.Errorf("the table has only %d lines", n)
	}
}
