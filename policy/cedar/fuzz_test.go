package cedar

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// FuzzRequest looks for a call that makes a judge panic, that is permitted by nobody and
// allowed, that a forbid does not stop, or of which the rows and the texts of the default
// policy say different things.
func FuzzRequest(f *testing.F) {
	f.Add("Bash", "execute", "readonly", "write", `{"command":"ls"}`, "a", "b", "kid", "agent", "lead,lead", int64(1780315200000))
	f.Add("fetch", "network", "readonly", "write", `{"url":["http://x"],"cmd":{"a":["rm x"]}}`, "", "h:1", "", "person", "", int64(0))
	f.Add("Write", "write", "", "", `{"path":`, "../a", "", "a", "service", ",", int64(-1))
	f.Add("bash2", "read", "irreversible", "read_only", `{"\u0063ommand":"rm x","env":{"A":"b"},"args":["c"]}`, ".git/x", "[::1]:80", "a", "", "a,b,c", int64(1<<62))
	f.Add("x", "delegate", "odd", "WRITE", `{"steps":[{"run":"ls"},{"argv":["sh","-c","id"]}]}`, "%2e%2e/x", "http://u@h/", "a", "x", "a", int64(5))
	texts := theDefault(f)
	nobody := policies(f, `@id("n") permit (principal == Agent::"nobody at all", action, resource);`)
	stopped := policies(f, defaultText+"@id(\"stop\") forbid (principal, action, resource);")
	timed := policies(f, everything+`@id("t") forbid (principal, action, resource) when { context.weekday > 7 || context.time.toTime() < duration("0ms") };`)
	f.Fuzz(func(t *testing.T, tool, class, tier, mode, args, path, host, id, kind, parents string, ms int64) {
		r := policy.Request{
			Tool: tool, Known: true, Tier: events.Tier(tier), Mode: mode, CanAsk: true, Network: ms%2 == 0, Workspace: "/w", Args: []byte(args),
			Principal: events.Principal{ID: id, Kind: kind}, Time: time.UnixMilli(ms).UTC(),
			Op: events.Operation{Class: events.OpClass(class), Paths: []string{path}, Hosts: []string{host}},
		}
		if parents != "" {
			r.Principal.Parents = strings.Split(parents, ",")
		}
		rows, v := policy.Default().Authorize(r), texts.Authorize(r)
		checkVerdict(t, v)
		if rows.Decision != v.Decision {
			t.Errorf("%+v\nrows:  %+v\ntexts: %+v", r, rows, v)
		}
		for _, reading := range policy.Readings(r) {
			if w := texts.authorize(reading); rank(w.Decision) > rank(v.Decision) {
				t.Errorf("%+v: %+v, and read as %+v: %+v", r, v, reading, w)
			}
		}
		if v := nobody.Authorize(r); v.Decision != policy.Deny && id != "nobody at all" {
			t.Errorf("nothing is permitted: %+v: %+v", r, v)
		}
		if v := stopped.Authorize(r); v.Decision != policy.Deny {
			t.Errorf("everything is forbidden: %+v: %+v", r, v)
		}
		if v := timed.Authorize(r); v.Judged != r.Time || strings.Contains(strings.Join(v.Policies, " "), "t ") || v.Policies[0] == "t" && !strings.Contains(v.Reason, "overflow") {
			t.Errorf("%+v: %+v", r, v)
		}
	})
}
