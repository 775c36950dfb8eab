package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

// TestReadings: as what a call is judged.
func TestReadings(t *testing.T) {
	for _, c := range []struct {
		class events.OpClass
		tier  events.Tier
		args  string
		paths []string
		want  string // the classes; "beside" what is judged without the line
	}{
		{events.OpRead, events.Readonly, `{"path":"a"}`, nil, "read"},
		{events.OpRead, "", `{"path":"a"}`, nil, "read"},
		{events.OpRead, events.Reversible, `{}`, nil, "read execute"},
		{events.OpNetwork, events.Irreversible, `{}`, nil, "network execute"},
		{events.OpWrite, events.Reversible, `{"path":"a","text":"command: ls"}`, []string{"a"}, "write"},
		{events.OpWrite, events.Reversible, `{"path":"a","text":"\"command\": ls"}`, []string{"a"}, "write"},
		{events.OpWrite, events.Reversible, `{"path":"a","command":"ls"}`, []string{"a"}, "write execute"},
		{events.OpRead, events.Readonly, `{"a":[{"b":{"cmd":"ls"}}]}`, nil, "read execute"},
		{events.OpRead, events.Readonly, `{"a":[{"b":{"c\u006dd":"ls"}}]}`, nil, "read execute"},
		{events.OpRead, events.Readonly, `{"argv":5,"exec":null,"sh":{}}`, nil, "read"},
		{events.OpRead, events.Readonly, `{"command":5}`, nil, "read execute"},
		{events.OpRead, events.Readonly, `{"code":"x","program":"y"}`, nil, "read"},
		{events.OpDelegate, events.Irreversible, `{"command":"ls"}`, nil, "delegate execute"},
		{"teleport", events.Readonly, `{"command":"ls"}`, nil, "teleport execute"},
		{events.OpRead, events.Readonly, `no JSON`, nil, "read"},
		{events.OpRead, events.Readonly, `{"command":"ls"`, nil, "read execute"},
		{events.OpRead, events.Readonly, strings.Repeat(`{"a":`, 40) + `{"command":"ls"}` + strings.Repeat("}", 40), nil, "read execute"},
		{events.OpRead, events.Readonly, strings.Repeat(`{"a":`, 40) + `{"comment":"ls"}` + strings.Repeat("}", 40), nil, "read"},
		{events.OpExecute, events.Irreversible, `{"command":"cat a/b 'c d' e\\ f"}`, []string{"a/b", "c d", "e f"}, "execute"},
		{events.OpExecute, events.Irreversible, `{"command":"ls"}`, []string{"", "x"}, "execute"},
		{events.OpExecute, events.Irreversible, `{"command":"ls"}`, []string{"x", "../x"}, "execute beside[../x]"},
		{events.OpExecute, events.Irreversible, `{"command":"cat /etc/hosts"}`, []string{"/etc/hosts"}, "execute"},
		{events.OpExecute, events.Irreversible, `{"command":"cat '/etc/a b' /e\\tc/c"}`, []string{"/etc/a b", "/etc/c"}, "execute"},
		{events.OpExecute, events.Irreversible, `{"command":"grep /etc/hosts a"}`, []string{"/etc/hosts"}, "execute beside[/etc/hosts]"},
		{events.OpExecute, events.Irreversible, `{"order":"7"}`, []string{"x"}, "execute"},
	} {
		r := Request{Tool: "t", Known: true, Tier: c.tier, Workspace: "/w", Args: json.RawMessage(c.args), Op: events.Operation{Class: c.class, Paths: c.paths}}
		var got []string
		for _, x := range Readings(r) {
			word := string(x.Op.Class)
			if x.lineless {
				word = fmt.Sprint("beside", x.Op.Paths)
			}
			got = append(got, word)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s %s %s: %s, want %s", c.class, c.tier, c.args, s, c.want)
		}
	}
}

// What is judged beside a line keeps its arguments: a rule that asks for one still finds it.
func TestBesideALine(t *testing.T) {
	r := Request{Tool: "t", Known: true, Mode: events.ModeWrite, Workspace: "/w", Args: json.RawMessage(`{"command":"ls","config":"../x"}`), Op: events.Operation{Class: events.OpExecute, Paths: []string{"../x"}}}
	all := Readings(r)
	if len(all) != 2 || string(all[1].Args) != string(r.Args) || Look(all[1]).Line || !Look(all[0]).Line {
		t.Errorf("%+v", all)
	}
}
