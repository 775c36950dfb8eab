package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
)

// demo is the verb that shows the whole way of a batch of calls.
func (a *app) demo() *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Short: "Show a batch of calls from a model's message to its answers, then rebuild recorded ones", Args: command.Args(0, 0, "none"),
		Long: "Start a node, submit a batch of nine calls to it over HTTP, and print the events as they happen and the messages\n" +
			"that answer it. Then import recorded conversations, rebuild every answer from the log, compare it with the\n" +
			"recording, and check the laws of the whole log. The data directory stays, and may be used again.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.set.from["data"] == "" {
				a.set.Data = filepath.Join(os.TempDir(), fmt.Sprintf("sluice-demo-%d", os.Getuid()))
			}
			if a.set.from["http"] == "" {
				a.set.http = "127.0.0.1:0"
			}
			a.set.entry = doorSettings{} // it comes in by its own door, as anybody
			return a.runDemo(cmd.Context())
		},
	}
	a.set.nodeFlags(cmd.Flags())
	a.set.doorFlags(cmd.Flags())
	return cmd
}

func (a *app) runDemo(ctx context.Context) error {
	log, err := a.set.quiet(a.err)
	if err != nil {
		return err
	}
	workspace, err := scratch()
	if err != nil {
		return err
	}
	defer os.RemoveAll(workspace)
	a.set.workspace = workspace
	if err := a.set.loads(ctx); err != nil {
		return err
	}
	l, err := a.set.door()
	if err != nil {
		return err
	}
	if l == nil {
		return exit.Misused(errors.New("the demo submits over HTTP"), "leave --http none out")
	}
	s, err := a.set.startServing(ctx, l, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err = a.greet(s); err == nil {
		err = a.act(ctx, s, workspace)
	}
	return errors.Join(err, s.close(ctx))
}

// act is what the demo does once the node runs.
func (a *app) act(ctx context.Context, s *serving, workspace string) error {
	if err := a.demoBatch(ctx, s, workspace); err != nil {
		return fmt.Errorf("the batch: %w", err)
	}
	if err := a.demoImport(ctx, s.node.desk); err != nil {
		return fmt.Errorf("the recordings: %w", err)
	}
	return a.demoLaws(ctx, s.node.desk)
}

// heading begins a part of what is printed.
func (a *app) heading(format string, args ...any) {
	if !a.json {
		a.print("\n"+format+"\n", args...)
	}
}

// scratch makes a workspace with something to read, edit and find.
func scratch() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-demo-workspace-")
	if err != nil {
		return "", err
	}
	for name, text := range map[string]string{
		"greeting.txt":  "Hello, world.\nThis file is read, edited and read again.\n",
		"notes.md":      "# Notes\n\nTODO: say hello to the sluice\nTODO: open the gates one by one\n",
		"build/out.bin": "a result that nobody may delete\n",
	} {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	}
	return dir, err
}

// demoCalls are what a model asks for: [Read, Read, Edit, Grep, Grep, Edit, Read],
// one command that the policy denies, and one tool that does not exist.
var demoCalls = []struct{ tool, args string }{
	{"Read", `{"path":"greeting.txt"}`},
	{"Read", `{"path":"notes.md"}`},
	{"Edit", `{"path":"greeting.txt","old_string":"Hello, world.","new_string":"Hello, sluice."}`},
	{"Grep", `{"pattern":"TODO","path":"notes.md"}`},
	{"Grep", `{"pattern":"sluice"}`},
	{"Edit", `{"path":"notes.md","old_string":"TODO: say hello to the sluice","new_string":"DONE: say hello to the sluice"}`},
	{"Read", `{"path":"notes.md"}`},
	{"Bash", `{"command":"rm -rf build"}`},
	{"Teleport", `{"to":"the moon"}`},
}

// How the demo's batch must go.
var (
	demoBatches = [][]int{{0, 1}, {2}, {3, 4}, {5}, {6}, {7}, {8}}
	demoEnds    = []events.Kind{
		events.KindCompleted, events.KindCompleted, events.KindCompleted, events.KindCompleted, events.KindCompleted,
		events.KindCompleted, events.KindCompleted, events.KindDenied, events.KindDenied,
	}
)

// demoMessage is the batch as an OpenAI model sends it.
func demoMessage() json.RawMessage {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type call struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var calls []call
	for i, c := range demoCalls {
		calls = append(calls, call{demoID(i), "function", function{c.tool, c.args}})
	}
	b, _ := json.Marshal(map[string]any{"role": "assistant", "content": nil, "tool_calls": calls}) // strings always marshal
	return b
}

func demoID(i int) string { return fmt.Sprintf("call_demo_%d", i) }

// demoBatch submits the batch over HTTP and shows what comes of it.
func (a *app) demoBatch(ctx context.Context, s *serving, workspace string) error {
	key := events.TurnKey{Trace: ulid.Make().String(), Turn: "demo"}
	a.heading("Events of turn %s, as they happen:", key)
	stop := a.demoEvents(ctx, s.node.desk, key)
	messages, err := postDemo(ctx, s.address, key)
	stop()
	if err != nil {
		return err
	}
	v, err := s.node.desk.Get(ctx, key)
	if err != nil {
		return err
	}
	a.heading("Batches: %s", batches(v.Turn.Planned.Batches))
	a.heading("Messages, in the order of the calls:")
	for _, m := range messages {
		a.printRaw(m)
	}
	return checkDemo(v, messages, workspace)
}

// demoEvents prints the turn's events until it ends or stop is called.
func (a *app) demoEvents(ctx context.Context, desk *gateway.Desk, key events.TurnKey) (stop func()) {
	print := func(e gateway.FeedEvent) error {
		if !a.json {
			a.print("%s\n", describe(e))
			return nil
		}
		ce, err := e.CloudEvent()
		if err == nil {
			a.printRaw(ce)
		}
		return err
	}
	end := a.follow(ctx, desk, key, print)
	return func() { end(true) }
}

// postDemo submits the batch as any program would, and returns the messages.
func postDemo(ctx context.Context, address string, key events.TurnKey) ([]json.RawMessage, error) {
	body, err := json.Marshal(gateway.Envelope{
		Trace: key.Trace, Turn: key.Turn, Principal: gateway.Who{ID: "demo"}, Message: demoMessage(), WaitMS: time.Minute.Milliseconds(),
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/v1/turns", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxToolList))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("POST /v1/turns answers %s: %s", resp.Status, show.Short(string(answer), 1000))
	}
	var out struct {
		Messages []json.RawMessage `json:"messages"`
	}
	return out.Messages, json.Unmarshal(answer, &out)
}

// checkDemo sees that the batch went as it must.
func checkDemo(v gateway.View, messages []json.RawMessage, workspace string) error {
	if got := v.Turn.Planned.Batches; !reflect.DeepEqual(got, demoBatches) {
		return fmt.Errorf("the batches are %v, want %v", got, demoBatches)
	}
	if len(messages) != len(demoCalls) {
		return fmt.Errorf("%d messages for %d calls", len(messages), len(demoCalls))
	}
	for i, c := range v.Turn.Calls {
		var m struct {
			ID string `json:"tool_call_id"`
		}
		if err := json.Unmarshal(messages[i], &m); err != nil || m.ID != demoID(i) {
			return fmt.Errorf("message %d answers %q, want %q", i, m.ID, demoID(i))
		}
		if c.Last != demoEnds[i] {
			return fmt.Errorf("call %d, %s, ended %s, want %s", i, c.Tool, c.Last, demoEnds[i])
		}
	}
	text, err := os.ReadFile(filepath.Join(workspace, "greeting.txt"))
	if err != nil || !strings.Contains(string(text), "Hello, sluice.") {
		return errors.Join(errors.New("the edit did not happen"), err)
	}
	if _, err := os.Stat(filepath.Join(workspace, "build", "out.bin")); err != nil {
		return fmt.Errorf("the denied command ran: %w", err)
	}
	return nil
}
