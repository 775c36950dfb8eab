package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-run/sluice/test/data"
	"github.com/sluice-run/sluice/test/leaks"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts compare anew")

// leakless runs the tests, and then sees that nothing of them still runs.
type leakless struct{ m *testing.M }

func (l leakless) Run() int { return leaks.Run(l.m) }

func TestMain(m *testing.M) { testscript.Main(leakless{m}, map[string]func(){"sluice-replay": main}) }

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *rewrite,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			for _, name := range []string{"XDG_DATA_HOME", "SLUICE_DATA", "SLUICE_NATS"} {
				env.Setenv(name, "")
			}
			env.Vars = unset(env.Vars, "SLUICE_DATA", "SLUICE_NATS")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mklog": makeLog, "node": runNode, "nats": runNATS, "recording": recording, "says-recording": saysRecording,
			"cutoff": cutOff,
		},
	})
}

// unset takes variables out of an environment.
func unset(vars []string, names ...string) []string {
	var out []string
	for _, v := range vars {
		name, _, _ := strings.Cut(v, "=")
		keep := true
		for _, n := range names {
			keep = keep && n != name
		}
		if keep {
			out = append(out, v)
		}
	}
	return out
}

// cutOff FROM TO PERCENT writes the first part of a file.
func cutOff(ts *testscript.TestScript, _ bool, args []string) {
	percent, err := strconv.Atoi(args[2])
	ts.Check(err)
	text := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text[:len(text)*percent/100]), 0o644))
}

// recording FILE writes a recorded conversation of test/data.
func recording(ts *testscript.TestScript, _ bool, args []string) {
	text, err := data.Read(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o644))
}

// said is a tool message, read without any of our own code.
type said struct {
	Role    string  `json:"role"`
	ID      string  `json:"tool_call_id"`
	Name    *string `json:"name"`
	Content *string `json:"content"`
}

// saysRecording FILE OUTPUT N wants the tool messages of OUTPUT, which are
// lines of traces, to be those of the recording: N of them, each in its place.
func saysRecording(ts *testscript.TestScript, _ bool, args []string) {
	want := conversations(ts, ts.ReadFile(args[0]))
	got := conversations(ts, ts.ReadFile(args[1]))
	n := 0
	for i := range want {
		if len(want[i]) == 0 {
			continue // it has no calls, so it is no trace
		}
		if len(got) == 0 {
			ts.Fatalf("conversation %d is missing", i)
		}
		if len(got[0]) != len(want[i]) {
			ts.Fatalf("conversation %d: %d messages, recorded are %d", i, len(got[0]), len(want[i]))
		}
		for j, w := range want[i] {
			if d := differs(w, got[0][j]); d != "" {
				ts.Fatalf("conversation %d, message %d: the %s differs", i, j, d)
			}
			n++
		}
		got = got[1:]
	}
	if fmt.Sprint(n) != args[2] || len(got) > 0 {
		ts.Fatalf("%d messages equal the recording, and %d conversations are left over", n, len(got))
	}
}

func differs(w, g said) string {
	switch {
	case w.Role != g.Role:
		return "role"
	case w.ID != g.ID:
		return "id"
	case w.Name != nil && (g.Name == nil || *w.Name != *g.Name):
		return "name"
	case (w.Content == nil) != (g.Content == nil) || w.Content != nil && *w.Content != *g.Content:
		return "content"
	}
	return ""
}

// conversations are the tool messages of each document.
func conversations(ts *testscript.TestScript, text string) [][]said {
	var out [][]said
	for dec := json.NewDecoder(strings.NewReader(text)); dec.More(); {
		var doc struct {
			Messages []json.RawMessage `json:"messages"`
		}
		ts.Check(dec.Decode(&doc))
		var list []said
		for _, raw := range doc.Messages {
			var role struct {
				Role string `json:"role"`
			}
			ts.Check(json.Unmarshal(raw, &role))
			if role.Role == "tool" {
				var m said
				ts.Check(json.Unmarshal(raw, &m))
				list = append(list, m)
			}
		}
		out = append(out, list)
	}
	return out
}
