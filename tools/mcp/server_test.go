package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp/mcptest"
)

// A server that dies under a call: the call ends at once and says what is known, the
// others go on to what comes next, and the server is started again.
func TestAServerThatDiesUnderACall(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := begin(t, mcptest.Options{Revision: revision}, func(_ *world, s *Server, _ *Config) {
			s.Tiers = map[string]events.Tier{"sleep": events.Readonly}
		})
		for _, how := range []string{"exit", "kill", "charge"} {
			beside := make(chan tools.Report, 1)
			before := w.noted("call sleep")
			go func() { beside <- w.call("sleep", `{"ms":60000}`) }()
			until(t, "the call beside it is there", func() bool { return w.noted("call sleep") == before+1 })
			r := w.call("crash", fmt.Sprintf(`{"how":%q}`, how))
			if r.Class != events.ClassUnavailable || r.Result.Error.Code != events.MCPNetworkError || r.Effects != events.EffectsPossible || !r.Confirmed || r.Answered {
				t.Errorf("%s: %+v", how, r)
			}
			if r := <-beside; r.Class != events.ClassUnavailable || r.Effects != events.EffectsNone {
				t.Errorf("%s: the call beside it: %+v", how, r)
			}
			if r := w.call("echo", `{"v":1}`); r.Class != events.ClassOK { // it waits for the server that is started again
				t.Errorf("%s: %+v", how, r)
			}
		}
	})
}

func TestAServerThatIsKilledSaysHow(t *testing.T) {
	w := begin(t, mcptest.Options{})
	r := w.call("crash", `{"how":"kill"}`)
	if m := r.Result.Error.Message; !strings.Contains(m, "SIGKILL") {
		t.Error(m)
	}
}

// What a server writes to its standard errors may be of anybody's calls, and secrets: no
// caller reads it, and once the server has been called the log has it at debug alone.
func TestWhatAServerSaidLastIsTheOperators(t *testing.T) {
	refuse := filepath.Join(t.TempDir(), "refuse")
	w := begin(t, mcptest.Options{Refuse: refuse}, func(_ *world, _ *Server, c *Config) { c.Times.Patience, c.Times.Backoff = time.Second, time.Hour })
	if err := os.WriteFile(refuse, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const secret = "I crash now"
	if r := w.call("crash", `{}`); strings.Contains(fmt.Sprintf("%+v", r.Result.Error), secret) || !strings.Contains(r.Result.Error.Message, "its process ended with status 0") {
		t.Errorf("%+v", r.Result.Error)
	}
	until(t, "it is down", func() bool {
		return w.state().State == Down && strings.Contains(w.state().Why, "it said: mcptest: told to refuse")
	})
	if r := w.call("echo", `{"v":1}`); strings.Contains(r.Result.Error.Message, "told to refuse") || !strings.Contains(r.Result.Error.Message, "is down: its process ended with status") {
		t.Errorf("%+v", r.Result.Error)
	}
}

func TestAServerThatDoesNotStart(t *testing.T) {
	refuse := filepath.Join(t.TempDir(), "refuse")
	if err := os.WriteFile(refuse, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := begin(t, mcptest.Options{Refuse: refuse}, func(_ *world, s *Server, c *Config) {
		s.Tiers = map[string]events.Tier{"echo": events.Readonly, "*": events.Approval}
		c.Times.Patience, c.Times.MaxPause = time.Second, time.Second
	})
	if st := w.state(); st.State == Up || len(w.names()) != 1 || w.names()[0] != "srv__echo" {
		t.Fatalf("%+v, %v", st, w.names())
	}
	r := w.call("echo", `{"v":1}`)
	if r.Class != events.ClassUnavailable || r.Effects != events.EffectsNone || r.Result.Error.Code != events.MCPNetworkError || !strings.Contains(r.Result.Error.Message, "is down") {
		t.Errorf("%+v", r)
	}
	if err := os.Remove(refuse); err != nil {
		t.Fatal(err)
	}
	until(t, "its tools come as it comes", func() bool { return len(w.names()) > 10 })
	if r := w.call("echo", `{"v":1}`); r.Class != events.ClassOK {
		t.Errorf("%+v", r)
	}
}

func TestAServerWithoutAProgram(t *testing.T) {
	w := begin(t, mcptest.Options{}, func(_ *world, s *Server, _ *Config) { s.Command = "no-such-program-there" })
	if st := w.state(); st.State != Down && st.State != Connecting {
		t.Errorf("%+v", st)
	}
	until(t, "it says why", func() bool { return strings.Contains(w.state().Why, "no program no-such-program-there in PATH") })
}

// A server's list changes: what is gone is gone, what has changed has another version, so
// that approvals of the old one are void, and names stay.
func TestAListThatChanges(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := begin(t, mcptest.Options{Revision: revision}, func(_ *world, _ *Server, c *Config) { c.Times.Relist = time.Hour }) // but for the first
		before := w.tool("echo")
		gone := w.tool("blank")
		if r := w.call("change", `{"drop":"blank"}`); r.Class != events.ClassOK {
			t.Fatalf("%+v", r)
		}
		until(t, "the list is new", func() bool { _, is := w.registry.Lookup("srv__blank"); return !is })
		after := w.tool("echo")
		if !strings.HasPrefix(before.Version, "sha256-") || len(before.Version) != 19 || after.Version == before.Version || !strings.Contains(after.Description, "Changed 1 times") {
			t.Errorf("%s, then %s: %s", before.Version, after.Version, after.Description)
		}
		if same := w.tool("sleep"); same.Version == "" || same.Version == after.Version {
			t.Error(same.Version)
		}
		r := w.run(t.Context(), gone, `{}`) // planned before it went
		if r.Class != events.ClassTool || r.Result.Error.Code != events.MCPNotFound || r.Effects != events.EffectsNone {
			t.Errorf("%+v", r)
		}
	})
}

func TestAListThatIsOnlyFreshForAWhile(t *testing.T) {
	w := begin(t, mcptest.Options{TTL: 1, Tools: []string{"echo"}})
	if w.noted("list") != 1 {
		t.Errorf("%v", mcptest.Lines(w.o.Journal))
	}
	until(t, "it is asked for again", func() bool { return w.noted("list") > 1 })
}

func TestPagesOfAList(t *testing.T) {
	w := begin(t, mcptest.Options{Page: 3})
	whole := begin(t, mcptest.Options{})
	if len(w.names()) != len(whole.names()) || w.noted("list") < 5 {
		t.Errorf("%d of %d tools in %d pages", len(w.names()), len(whole.names()), w.noted("list"))
	}
}

func TestHintsOnlyMakeATierStricter(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		word  events.Tier
		hints *hints
		want  events.Tier
	}{
		{"", nil, events.Irreversible},
		{"", &hints{ReadOnly: &yes}, events.Irreversible},
		{events.Readonly, nil, events.Readonly},
		{events.Readonly, &hints{}, events.Readonly},
		{events.Readonly, &hints{ReadOnly: &yes}, events.Readonly},
		{events.Readonly, &hints{ReadOnly: &no}, events.Irreversible},
		{events.Readonly, &hints{Destructive: &yes}, events.Irreversible},
		{events.Readonly, &hints{ReadOnly: &yes, Destructive: &yes}, events.Readonly},
		{events.Reversible, &hints{ReadOnly: &no}, events.Reversible},
		{events.Reversible, &hints{Destructive: &yes}, events.Irreversible},
		{events.Irreversible, &hints{ReadOnly: &yes}, events.Irreversible},
		{events.Approval, &hints{ReadOnly: &yes}, events.Approval},
		{events.Approval, &hints{Destructive: &yes}, events.Approval},
	} {
		s := Server{Tiers: map[string]events.Tier{"x": c.word}}
		if c.word == "" {
			s.Tiers = nil
		}
		if got, why := s.tierOf("x", c.hints); got != c.want || why == "" {
			t.Errorf("%s with %+v: %s (%s)", c.word, c.hints, got, why)
		}
	}
	w := begin(t, mcptest.Options{Lie: true})
	for _, tool := range w.registry.List() {
		if tool.Tier != events.Irreversible {
			t.Errorf("%s is %s", tool.Name, tool.Tier)
		}
	}
}

func TestTheOperatorChoosesTools(t *testing.T) {
	w := begin(t, mcptest.Options{}, func(_ *world, s *Server, _ *Config) {
		s.Allow, s.Deny, s.HonoursKey = []string{"echo", "charge", "sleep"}, []string{"sleep", "misspelt"}, []string{"charge"}
	})
	if st := w.state(); len(st.Refused) != 1 || !strings.Contains(st.Refused[0], "misspelt: the file names it") {
		t.Errorf("%+v", st)
	}
	if fmt.Sprint(w.names()) != "[srv__charge srv__echo]" || !w.tool("charge").HonoursKey || w.tool("echo").HonoursKey {
		t.Error(w.names())
	}
}

// Two servers with the same tool are two tools. One that has another's name is refused.
func TestNamesDoNotCollide(t *testing.T) {
	w := begin(t, mcptest.Options{Tools: []string{"echo"}})
	other := w.spec
	other.Name = "two"
	w.host.Apply([]Server{w.spec, other})
	w.tried()
	until(t, "both are there", func() bool { return fmt.Sprint(w.names()) == "[srv__echo two__echo]" })
	w.host.Apply([]Server{other})
	if fmt.Sprint(w.names()) != "[two__echo]" {
		t.Error(w.names())
	}
	taken := tools.Tool{Spec: w.registry.List()[0].Spec, Run: w.registry.List()[0].Run}
	taken.Name = "srv__echo"
	if err := w.registry.Add(taken); err != nil {
		t.Fatal(err)
	}
	w.host.Apply([]Server{w.spec, other})
	w.tried()
	until(t, "it is told", func() bool { return len(w.state().Refused) > 0 })
	if !strings.Contains(w.state().Refused[0], "registered already") {
		t.Error(w.state().Refused)
	}
}

func TestToolsThatCannotBe(t *testing.T) {
	w := begin(t, mcptest.Options{Tools: []string{"echo"}, Extra: []string{
		`{"name":"echo","inputSchema":{"type":"object"}}`,
		`{"name":"remote","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.com/x"}}}}`,
		`{"name":"list","inputSchema":{"type":"array"}}`,
		`{"name":"bad-out","inputSchema":{"type":"object"},"outputSchema":{"$ref":"https://example.com/x"}}`,
		`{"name":"task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`,
		`{"name":7}`, `null`, `{"inputSchema":{"type":"object"}}`,
		`{"name":"files/read","inputSchema":{"properties":{"a":{"type":"string"}}}}`,
		`{"name":"files.read","inputSchema":{}}`,
		`{"name":"` + strings.Repeat("long", 40) + `","inputSchema":{"type":"object"},"description":"x\u001b[2K\n\u202ey` + strings.Repeat("z", 5000) + `"}`,
		`{"name":"hidden","inputSchema":{"type":"object","properties":{"b":{"description":"a\u200bb"},"a":{"description":"plain"}}}}`,
		`{"name":"ordered","inputSchema":{"type":"object","properties":{"z":{},"a":{}}}}`,
	}})
	st := w.state()
	said := strings.Join(st.Refused, "\n")
	for _, want := range []string{"echo: it is listed twice", "srv__remote", "srv__list", "task: it can only be called as a task", "a tool that is none"} {
		if !strings.Contains(said, want) {
			t.Errorf("%s is not in:\n%s", want, said)
		}
	}
	if len(w.names()) != 7 || len(st.Tools) != 7 {
		t.Errorf("%v\n%s", w.names(), said)
	}
	for _, o := range st.Tools {
		if o.Own == "bad-out" && !strings.Contains(o.Why, "its output schema does not count: ") {
			t.Errorf("%+v", o)
		}
	}
	for _, name := range w.names() {
		if !events.ValidToolName(name) || !strings.HasPrefix(name, "srv__") {
			t.Error(name)
		}
		tool, _ := w.registry.Lookup(name)
		if len(tool.Description) > maxDescription+8 || strings.ContainsAny(tool.Description, "\x1b\u202e") {
			t.Errorf("%q", tool.Description)
		}
		if strings.Contains(string(tool.Schema), "\u200b") {
			t.Errorf("%s", tool.Schema)
		}
	}
	if tool := w.tool("ordered"); string(tool.Schema) != `{"type":"object","properties":{"z":{},"a":{}}}` {
		t.Errorf("%s", tool.Schema)
	}
}

func TestHeadersThatAToolMayNotHave(t *testing.T) {
	w := begin(t, mcptest.Options{Tools: []string{"echo"}, Extra: []string{
		`{"name":"headed","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}`,
	}})
	if st := w.state(); len(w.names()) != 1 || len(st.Refused) != 1 || !strings.Contains(st.Refused[0], "headed: its x-mcp-header") {
		t.Errorf("%v, %+v", w.names(), st)
	}
}

func TestAServerWithoutTools(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := begin(t, mcptest.Options{Revision: revision, Toolless: true})
		if st := w.state(); st.State != Up || len(w.names()) != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestNoiseIsPassedOver(t *testing.T) {
	w := begin(t, mcptest.Options{})
	if r := w.call("garbage", `{}`); r.Class != events.ClassOK || r.Result.Text.Text != "clean" {
		t.Errorf("%+v", r)
	}
	if r := w.call("flood", `{}`); r.Class != events.ClassOK {
		t.Errorf("%+v", r)
	}
	if r := w.call("huge", `{"bytes":3000000}`); r.Class != events.ClassOK || len(r.Result.Text.Text) != 3_000_000 {
		t.Errorf("%d bytes: %+v", len(r.Result.Text.Text), r.Result.Error)
	}
	r := w.call("huge", `{"bytes":17000000}`)
	if r.Class != events.ClassTool || r.Result.Error.Code != events.TooLarge || r.Effects != events.EffectsDone {
		t.Errorf("%+v", r)
	}
	if r := w.call("echo", `{"v":1}`); r.Class != events.ClassOK || w.noted("end of input") != 0 {
		t.Errorf("the server has begun anew: %+v", r)
	}
	until(t, "the log has a line of it as it was", func() bool { return strings.Contains(<-w.log.lines, "line=[1,2] ") })
}

func TestAServerThatOnlyAsks(t *testing.T) {
	w := begin(t, mcptest.Options{Revision: mcptest.Old})
	r := w.call("pester", `{}`)
	if r.Class != events.ClassUnavailable && r.Class != events.ClassOK { // by whether the answers keep up
		t.Errorf("%+v", r)
	}
	if r := w.call("echo", `{"v":1}`); r.Class != events.ClassOK {
		t.Errorf("%+v", r)
	}
}

// A server that does not answer any more, and whose process lives, is begun anew.
func TestAServerThatHangs(t *testing.T) {
	w := begin(t, mcptest.Options{}, func(_ *world, s *Server, c *Config) {
		s.Limits.Wall = 3 * time.Second
		c.Times.Ping, c.Times.Pong, c.Times.Close = time.Hour, 200*time.Millisecond, 100*time.Millisecond
	})
	if r := w.call("stall", `{}`); r.Class != events.ClassTimeout || r.Result.Error.Code != events.MCPTimeout {
		t.Errorf("%+v", r)
	}
	until(t, "it is begun anew", func() bool { return w.noted("list") >= 2 })
	until(t, "it answers", func() bool { return w.call("echo", `{"v":1}`).Class == events.ClassOK })
}

// So is one that is never at rest: a call's whole time in silence is enough.
func TestAServerThatHangsWhileCallsCome(t *testing.T) {
	w := begin(t, mcptest.Options{}, func(_ *world, s *Server, c *Config) {
		s.Limits.Wall = time.Second
		c.Times.Ping, c.Times.Pong, c.Times.Close = time.Hour, 200*time.Millisecond, 100*time.Millisecond
	})
	w.call("stall", `{}`)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() { // one is always on its way
			for first := i == 0; ; first = false {
				select {
				case <-stop:
					return
				default:
					wall := time.Second
					if first {
						wall = 500 * time.Millisecond
					}
					w.run(t.Context(), w.tool("echo"), `{"v":1}`, func(in *tools.Invocation) { in.Deadline = time.Now().Add(wall) })
				}
			}
		})
	}
	until(t, "it is begun anew", func() bool { return w.noted("list") >= 2 })
	close(stop)
	wg.Wait()
}

// A server of before the newest revision may not even refuse what it does not know.
func TestAServerThatIgnoresWhatIsNew(t *testing.T) {
	w := begin(t, mcptest.Options{Revision: mcptest.Old, Mute: true}, func(_ *world, _ *Server, c *Config) {
		c.Times.Connect = 2 * time.Second
	})
	until(t, "it is spoken to in its own revision", func() bool { return w.state().State == Up })
	if st := w.state(); st.Revision != mcptest.Old {
		t.Errorf("%+v", st)
	}
}

func TestAServerSeesLittleOfTheNode(t *testing.T) {
	t.Setenv("NODE_SECRET", "hunter2")
	w := begin(t, mcptest.Options{}, func(_ *world, s *Server, _ *Config) { s.Env["MINE"] = "yes" })
	r := w.call("env", `{}`)
	if strings.Contains(r.Result.Text.Text, "hunter2") || !strings.Contains(r.Result.Text.Text, "MINE=yes") || !strings.Contains(r.Result.Text.Text, "HOME=/tmp") {
		t.Error(r.Result.Text.Text)
	}
}

func TestApplyChangesWhatChanged(t *testing.T) {
	w := begin(t, mcptest.Options{Tools: []string{"echo"}})
	w.host.Apply([]Server{w.spec})
	if w.noted("end of input") != 0 {
		t.Error("a server that has not changed was begun anew")
	}
	changed := w.spec
	changed.Tiers = map[string]events.Tier{"echo": events.Readonly}
	w.host.Apply([]Server{changed})
	w.tried()
	until(t, "the tier is new", func() bool { return w.tool("echo").Tier == events.Readonly })
	if w.noted("end of input") != 1 {
		t.Error(mcptest.Lines(w.o.Journal))
	}
	old := w.tool("echo")
	w.host.Apply(nil)
	if len(w.names()) != 0 {
		t.Error(w.names())
	}
	r := w.run(t.Context(), old, `{"v":1}`)
	if r.Class != events.ClassUnavailable || r.Effects != events.EffectsNone {
		t.Errorf("%+v", r)
	}
}

func TestAFileOfServers(t *testing.T) {
	env := func(name string) (string, bool) {
		v, is := map[string]string{"TOKEN": "s3cret", "EMPTY": ""}[name]
		return v, is
	}
	list, notes, err := ParseServers([]byte(`{"theme":"dark","mcpServers":{
		"files":{"command":"npx","args":["-y","${PKG:-server-filesystem}","/srv"],"env":{"A":"${TOKEN}","B":"${EMPTY:-b}"},"cwd":"/srv","autoApprove":["x"],
			"tools":{"allow":["read_file"],"deny":[]},"tiers":{"read_file":"readonly"},"honours_key":["charge"],
			"limits":{"wall":"30s","text":1000,"lines":10,"keep":"tail","retries":0,"at_once":3},"sandbox":{"read":["/opt"],"write":["/srv/out"]},"network":true},
		"far":{"type":"http","url":"https://example.com/mcp","headers":{"Authorization":"Bearer ${TOKEN}"}},
		"off":{"command":"x","disabled":true}}}`), env)
	if err != nil || len(list) != 2 || len(notes) != 1 {
		t.Fatalf("%+v, %v, %v", list, notes, err)
	}
	got, _ := json.Marshal(list)
	want := `[{"Name":"far","Command":"","Args":null,"Env":null,"Dir":"","Read":null,"Write":null,"Network":false,"Open":false,"URL":"https://example.com/mcp","Headers":{"Authorization":"Bearer s3cret"},"Allow":null,"Deny":null,"Tiers":null,"HonoursKey":null,"Limits":{"Wall":0,"Output":0,"Lines":0,"Text":0,"Keep":"","Retries":0},"AtOnce":0},` +
		`{"Name":"files","Command":"npx","Args":["-y","server-filesystem","/srv"],"Env":{"A":"s3cret","B":"b"},"Dir":"/srv","Read":["/opt"],"Write":["/srv/out"],"Network":true,"Open":false,"URL":"","Headers":null,"Allow":["read_file"],"Deny":[],"Tiers":{"read_file":"readonly"},"HonoursKey":["charge"],"Limits":{"Wall":30000000000,"Output":0,"Lines":10,"Text":1000,"Keep":"tail","Retries":-1},"AtOnce":3}]`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for file, says := range map[string]string{
		`{`: "unexpected", `[]`: "cannot unmarshal", `{}`: `no "mcpServers"`, `{"mcpServers":{}} x`: "more behind",
		`{"mcpServers":{"a":7}}`:                                            "want an object",
		`{"mcpServers":{"a":{}}}`:                                           "neither command nor url",
		`{"mcpServers":{"a":{"command":"x","url":"https://e/"}}}`:           "both command and url",
		`{"mcpServers":{"a":{"type":"sse","url":"https://e/"}}}`:            "streamable HTTP",
		`{"mcpServers":{"a":{"type":"carrier","url":"https://e/"}}}`:        "carrier",
		`{"mcpServers":{"a":{"type":"http","command":"x"}}}`:                "does not fit",
		`{"mcpServers":{"a__b":{"command":"x"}}}`:                           "without \"__\"",
		`{"mcpServers":{"a_":{"command":"x"}}}`:                             "not ending in",
		`{"mcpServers":{"a b":{"command":"x"}}}`:                            "a server's name",
		`{"mcpServers":{"a":{"command":"x","tier":{}}}}`:                    "unknown field",
		`{"mcpServers":{"a":{"command":"x","tiers":{"y":"harmless"}}}}`:     "no tier",
		`{"mcpServers":{"a":{"command":"${NOPE}"}}}`:                        "has no NOPE",
		`{"mcpServers":{"a":{"command":"x","limits":{"wall":"soon"}}}}`:     "invalid duration",
		`{"mcpServers":{"a":{"command":"x","limits":{"wall":"1ms"}}}}`:      "want 1s",
		`{"mcpServers":{"a":{"command":"x","cwd":"here"}}}`:                 "no absolute path",
		`{"mcpServers":{"a":{"command":"x","headers":{"A":"b"}}}}`:          "headers are for a url",
		`{"mcpServers":{"a":{"url":"ftp://e/"}}}`:                           "not one of HTTP",
		`{"mcpServers":{"a":{"url":"https://u:p@e/"}}}`:                     "password",
		`{"mcpServers":{"a":{"url":"https://e/","headers":{"A\n":"b"}}}}`:   "cannot be a header",
		`{"mcpServers":{"a":{"url":"https://e/","headers":{"mcp-x":"b"}}}}`: "protocol's own",
	} {
		if _, _, err := ParseServers([]byte(file), env); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestNamesFindTheWayBack(t *testing.T) {
	for _, c := range [][3]string{
		{"files", "read", "files__read"},
		{"a", "_b", "a___b"},
		{"a", "b__c", "a__b__c"},
		{"files", "read.all", ""},
		{"files", strings.Repeat("x", 58), ""},
		{"files", "é", ""},
		{"files", "", ""},
	} {
		name := ToolName(c[0], c[1])
		if c[2] != "" && name != c[2] || !events.ValidToolName(name) || name != ToolName(c[0], c[1]) {
			t.Errorf("%v: %s", c, name)
		}
		server, tool, ok := SplitName(name)
		if !ok || server != c[0] || c[2] != "" && tool != c[1] {
			t.Errorf("%v: %s is %s and %s", c, name, server, tool)
		}
	}
	if ToolName("a", "x/y") == ToolName("a", "x.y") {
		t.Error("two tools, one name")
	}
}
