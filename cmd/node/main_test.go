package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/test/ports"
)

// leakless runs the tests, and then sees that nothing of them still runs.
type leakless struct{ m *testing.M }

func (l leakless) Run() int { return leaks.Run(l.m) }

func TestMain(m *testing.M) { testscript.Main(leakless{m}, map[string]func(){"sluice-node": main}) }

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_DATA_HOME", "")
			env.Setenv("USER", "tester")
			port, err := ports.Free(1)
			if err == nil {
				env.Setenv("PORT", strconv.Itoa(port[0]))
			}
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"ready": ready, "http": request, "field": field, "waitfor": waitFor},
	})
}

// patience is how long anything may take that has to come about by itself.
const patience = time.Minute

// ready DIR waits until a node on the data directory answers, and sets $HTTP.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready DIR")
	}
	late := time.After(patience)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if r, found, err := jetlog.Find(ts.MkAbs(args[0])); err == nil && found && r.HTTP != "" {
			ts.Setenv("HTTP", r.HTTP)
			ts.Setenv("HTTPADDR", strings.TrimPrefix(r.HTTP, "http://"))
			ts.Setenv("NATS", r.URL)
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("no node is ready on %s", args[0])
		}
	}
}

// http STATUS METHOD PATH [FILE] sends a request to $HTTP; the answer is in answer.json.
func request(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: http STATUS METHOD PATH [FILE]")
	}
	if got := exchange(ts, args[1:]...); got != args[0] {
		ts.Fatalf("%s %s: %s, want %s\n%s", args[1], args[2], got, args[0], ts.ReadFile("answer.json"))
	}
}

// exchange sends a request, METHOD PATH [FILE], and returns the status.
func exchange(ts *testscript.TestScript, args ...string) string {
	var body io.Reader
	if len(args) > 2 {
		body = strings.NewReader(ts.ReadFile(args[2]))
	}
	req, err := http.NewRequest(args[0], ts.Getenv("HTTP")+args[1], body)
	ts.Check(err)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("answer.json"), out, 0o644))
	return fmt.Sprint(resp.StatusCode)
}

// waitfor PATH N TEXT asks $HTTP until the answer holds the text N times.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: waitfor PATH N TEXT")
	}
	late := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		status := exchange(ts, "GET", args[0]) // one that cannot answer yet says so, and is asked again
		if status == "200" && fmt.Sprint(strings.Count(ts.ReadFile("answer.json"), args[2])) == args[1] {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("%s: not %s times %s:\n%s", args[0], args[1], args[2], ts.ReadFile("answer.json"))
		}
	}
}

// field NAME FILE PATH… sets $NAME to the JSON value at the path.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: field NAME FILE PATH…")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &v))
	for _, name := range args[2:] {
		switch have := v.(type) {
		case map[string]any:
			v = have[name]
		case []any:
			var i int
			_, err := fmt.Sscan(name, &i)
			ts.Check(err)
			if i >= len(have) {
				ts.Fatalf("%s has %d elements", args[1], len(have))
			}
			v = have[i]
		default:
			ts.Fatalf("%s has no %s", args[1], name)
		}
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

func TestCompareNamesTheFirstDifference(t *testing.T) {
	text := func(s string) *string { return &s }
	want := []said{{"tool", "a", text("n"), text("x")}, {"tool", "b", nil, text("y")}}
	for name, c := range map[string]struct {
		got   []said
		equal int
		diff  string
	}{
		"equal":   {[]said{{"tool", "a", text("n"), text("x")}, {"tool", "b", text("any"), text("y")}}, 2, ""},
		"id":      {[]said{{"tool", "z", text("n"), text("x")}, want[1]}, 1, "message 0: the id differs"},
		"name":    {[]said{{"tool", "a", nil, text("x")}, want[1]}, 1, "message 0: the name differs"},
		"content": {[]said{want[0], {"tool", "b", nil, text("y ")}}, 1, "message 1: the content differs"},
		"order":   {[]said{want[1], want[0]}, 0, "message 0: the id differs"},
		"missing": {want[:1], 1, "message 1 is missing"},
		"more":    {append(want[:2:2], want[0]), 2, "1 messages more than recorded"},
	} {
		equal, err := compare(want, c.got)
		if diff := fmt.Sprint(err); equal != c.equal || c.diff != "" && diff != c.diff || c.diff == "" && err != nil {
			t.Errorf("%s: %d equal, %v", name, equal, err)
		}
	}
}

func TestRunNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		part string
	}{
		{[]string{"nothing"}, 2, `unknown command "nothing"`},
		{[]string{"explain"}, 2, "0 arguments: want a tool and its arguments"},
		{[]string{"explain", "--colour", "Read", "{}"}, 2, "unknown flag: --colour"},
		{[]string{"cancel", "a"}, 2, "want trace/turn"},
		{[]string{"approve", "a/b"}, 2, ""},
		{[]string{"tail", "--kind", "nothing"}, 2, `kind "nothing" is none of`},
		{[]string{"tail", "--from", "x"}, 2, "position"},
		{[]string{"inbox", "--data", "/nowhere/at/all"}, 3, "there is no log in /nowhere/at/all"},
	} {
		var out, errw bytes.Buffer
		code := run(t.Context(), c.args, strings.NewReader(""), &out, &errw)
		if code != c.code || !strings.Contains(errw.String(), "sluice-node: error: ") || !strings.Contains(errw.String(), c.part) {
			t.Errorf("%q: %d, %s", c.args, code, errw.String())
		}
	}
}
