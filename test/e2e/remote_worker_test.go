package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	serving "github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/npm"
)

// workerWord is the first argument of a process of this test's binary that is to be a worker.
const workerWord = "be-a-worker"

// workerMain makes a worker of this process, where it is to be one: its arguments are the
// server's address, the user, and the file that effects are appended to.
func workerMain() {
	if len(os.Args) != 5 || os.Args[1] != workerWord {
		return
	}
	if err := work(os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

type sumIn struct {
	A int `json:"a"`
	B int `json:"b,omitempty" jsonschema_description:"0 where it is left out"`
}

type ticksIn struct {
	Ticks int    `json:"ticks,omitempty"`
	Until string `json:"until,omitempty"` // it ticks on until this file is beside the ledger
}

type sizeIn struct {
	Size int    `json:"size"`
	Text string `json:"text,omitempty"`
}

type stampIn struct {
	Name  string `json:"name"`
	Until string `json:"until,omitempty"` // it stalls until this file is beside the ledger
}

func work(url, user, file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { fmt.Fprintln(os.Stderr, err) }))
	if err != nil {
		return err
	}
	defer nc.Close()
	stamp := serving.Handle("stamp", "Appends to the ledger.", events.Irreversible, func(ctx context.Context, t serving.Task, in stampIn) (string, error) {
		return "stamped", stampLine(ctx, file, t, in)
	})
	stamp.Probe = func(_ context.Context, t serving.Task) (bool, serving.Output, error) {
		text, err := os.ReadFile(file)
		found := strings.Contains(string(text), `"call":"`+t.Call+`"`)
		return found, serving.Output{Text: "stamped, as the file says"}, err
	}
	blind := stamp
	blind.Name, blind.Probe = "stamp_blind", nil
	keyed := blind
	keyed.Name, keyed.Tier, keyed.HonoursKey, keyed.Key = "stamp_keyed", events.Reversible, true, "/name"
	keyed.Compensate = func(_ context.Context, t serving.Task, done serving.Output) (serving.Output, error) {
		return serving.Output{Text: "unstamped " + string(done.Undo)}, nil
	}
	keyed.Run = func(ctx context.Context, t serving.Task) (serving.Output, error) {
		out, err := stamp.Run(ctx, t)
		out.Undo = json.RawMessage(`{"key":"` + t.Key[strings.LastIndexByte(t.Key, '/')+1:] + `"}`)
		return out, err
	}
	return serving.Serve(ctx, serving.WorkerConfig{Conn: nc, User: user, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))},
		serving.Handle("sum", "Adds two numbers.", events.Readonly, func(_ context.Context, _ serving.Task, in sumIn) (map[string]int, error) {
			return map[string]int{"sum": in.A + in.B, "by": os.Getpid()}, nil
		}),
		serving.Handle("ticks", "Takes its time.", events.Readonly, func(ctx context.Context, t serving.Task, in ticksIn) (string, error) {
			return ticks(ctx, file, t, in)
		}),
		serving.Handle("sized", "Answers with a text of that size.", events.Readonly, func(_ context.Context, _ serving.Task, in sizeIn) (serving.Output, error) {
			data, err := json.Marshal(map[string]int{"heard": len(in.Text)})
			return serving.Output{Text: strings.Repeat("0123456789", in.Size/10), Data: data}, err
		}),
		serving.Handle("formal", "Asks a person.", events.Readonly, formal),
		stamp, blind, keyed,
	)
}

// there says whether a file is beside the ledger, as it always is for "".
func there(ledger, name string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(ledger), name))
	return err == nil
}

func ticks(ctx context.Context, file string, t serving.Task, in ticksIn) (string, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < in.Ticks || !there(file, in.Until); i++ {
		select {
		case <-tick.C:
			t.Progress("ticking", float64(i+1), float64(max(i+1, in.Ticks)))
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	return fmt.Sprintf("%d ticks", in.Ticks), nil
}

func stampLine(ctx context.Context, file string, t serving.Task, in stampIn) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	line, err := json.Marshal(map[string]any{"call": t.Call, "attempt": t.Attempt, "key": t.Key, "name": in.Name, "pid": os.Getpid()})
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !there(file, in.Until) {
		select {
		case <-tick.C:
		case <-ctx.Done(): // it is done all the same
			return &serving.ToolError{Class: events.ClassCancelled, Effects: events.EffectsDone, Message: "stamped, and then told to stop"}
		}
	}
	return nil
}

func formal(_ context.Context, t serving.Task, in stampIn) (string, error) {
	if t.Given == nil {
		return "", &serving.InputNeeded{State: "asked " + in.Name, Requests: []events.InputRequest{{
			ID: "sign", Kind: events.InputForm, Message: "Sign for " + in.Name,
			Schema: json.RawMessage(`{"type":"object","properties":{"by":{"type":"string"}},"required":["by"]}`),
		}}}
	}
	a := t.Given.Answers[0]
	return fmt.Sprintf("%s: %s %s", t.Given.State, a.Action, a.Content), nil
}

// stampEntry is a line that a worker has appended.
type stampEntry struct {
	Call, Key, Name string
	Attempt, Pid    int
}

// stamps are the lines of a file that workers append to.
func stamps(t *testing.T, file string) []stampEntry {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []stampEntry
	for line := range strings.Lines(string(text)) {
		var e stampEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		out = append(out, e)
	}
	return out
}

// stamped is how often a call has left a line.
func stamped(t *testing.T, file, call string) (n int) {
	t.Helper()
	for _, e := range stamps(t, file) {
		if e.Call == call {
			n++
		}
	}
	return n
}

// crafts are the kinds of workers, and what their tools are called.
var crafts = map[string]struct {
	read, slow, effect string
	readArgs, slowArgs func(n int) args
	reads              string // what the read says of 3
	start              func(t *testing.T, url, file string) *process
}{
	"go": {
		"sum", "ticks", "stamp", func(n int) args { return args{"a": n, "b": 1} }, func(n int) args { return args{"ticks": n * 5} }, `"sum":4`,
		func(t *testing.T, url, file string) *process { return goWorker(t, url, "worker", file) },
	},
	"python": {
		"count_words", "countdown", "note", func(n int) args { return args{"text": strings.Repeat("w ", n)} }, func(n int) args { return args{"steps": n} },
		`"words":3`, pythonWorker,
	},
	"node": {
		"shout", "stir", "order", func(n int) args { return args{"text": strings.Repeat("w", n)} }, func(n int) args { return args{"rounds": n} }, "WWW", nodeWorker,
	},
}

// goWorker starts a worker written with the Go client, whose effects go to a file.
func goWorker(t *testing.T, url, user, file string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return shown(t, launch(t, nil, false, self, workerWord, url, user, file))
}

// pythonWorker starts the example that is written in Python.
func pythonWorker(t *testing.T, url, file string) *process {
	t.Helper()
	if s := program(t, "", "/bin/sh", "-c", "python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))'"); s.code != 0 {
		t.Skipf("SKIPPED, and with it the worker in Python: no Python 3.9 or newer here: exit %d %s", s.code, s.err)
	}
	path, err := filepath.Abs("../../examples/worker-python/worker.py")
	if err != nil {
		t.Fatal(err)
	}
	return shown(t, launch(t, nil, false, "/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1", "python3", path, url, file))
}

// nodeWorker starts the example that is written for Node.js, as somebody would who has
// called npm install.
func nodeWorker(t *testing.T, url, file string) *process {
	t.Helper()
	dir := npm.Place(t, "../../examples/worker-node", nil)
	return shown(t, launch(t, nil, false, npm.Node(t), filepath.Join(dir, "worker.js"), url, file))
}

// shown shows what a worker has said where its test has failed.
func shown(t *testing.T, p *process) *process {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("a worker (exit %d) says:\n%s%s", p.code, tail(p.said.String(), 2000), tail(p.log.String(), 4000))
		}
	})
	return p
}
