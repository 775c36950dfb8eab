// Package shell is the Bash tool: one command line in one bash, with a deadline
// that holds for everything it starts.
package shell

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/sandbox"
	"github.com/sluice-run/sluice/tools/shell/family"
)

// Name is the tool's name.
const Name = "Bash"

// Bounds of a command's own deadline, and of a command line: the kernel takes
// no argument of 128 KiB or more.
const (
	DefaultTimeout = 120 * time.Second
	MaxTimeout     = 600 * time.Second
	MaxCommand     = 128<<10 - 1
)

// Config is how commands run on this node. Its zero value works.
type Config struct {
	Name   string            // of the tool; "" means Name
	Shell  string            // absolute path of bash; "" means /bin/bash, or else what PATH has
	Path   string            // PATH of commands; "" means the node's own
	Home   string            // HOME of commands; "" means an empty folder of each command's own
	Pass   []string          // names of the node's environment variables that commands may see; no others are passed on
	Env    map[string]string // further variables
	Kill   time.Duration     // from SIGTERM to SIGKILL; 0 means 250 ms
	Sweep  time.Duration     // how long SIGKILL is repeated before a process counts as unstoppable; 0 means 2 s
	Linger time.Duration     // how long output may still come once bash has ended and something holds the pipe; 0 means 50 ms
	Output int               // bytes of output kept, half from each end; 0 means tools.DefaultOutput

	// Sandbox is what commands may do beside their workspace, and what the machine has to
	// hold them to it. Workspace, Write, Network and Path are set for each call. Its zero
	// value contains nothing.
	Sandbox sandbox.Policy
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, Name)
	c.Kill = cmp.Or(max(c.Kill, 0), 250*time.Millisecond)
	c.Sweep = cmp.Or(max(c.Sweep, 0), 2*time.Second)
	c.Linger = cmp.Or(max(c.Linger, 0), 50*time.Millisecond)
	if c.Output <= 0 {
		c.Output = tools.DefaultOutput
	}
	return c
}

// Args are the tool's arguments.
type Args struct {
	Command     string `json:"command" jsonschema:"the command line, for bash"`
	TimeoutMS   int64  `json:"timeout_ms,omitempty" jsonschema:"description=milliseconds the command may take; 120000 if left out,minimum=1,maximum=600000"`
	Description string `json:"description,omitempty" jsonschema:"what the command is for, in a few words"`
}

const description = "Runs one command line in bash, in the workspace. There is no input and no terminal: " +
	"a command that asks a question fails. Standard output and errors come back in one text, in order. " +
	"Nothing survives the call: what still runs when the command line has ended is ended too. " +
	"Reading commands that are understood as such run without approval."

// New is the Bash tool. It fails where the name in c cannot be used. The
// functions of its spec are pure; its code starts processes.
func New(c Config) (tools.Tool, error) {
	c = c.withDefaults()
	return tools.Typed(tools.Spec{
		Name:        c.Name,
		Description: description,
		Version:     "1",
		Tier:        events.Irreversible,
		Limits:      tools.Limits{Wall: MaxTimeout + c.Kill + c.Sweep, Output: c.Output, Keep: tools.KeepBoth},
		TierOf:      tierOf,
		Safe:        func(args json.RawMessage) bool { return tierOf(args) == events.Readonly },
		Operation:   operation,
		Operands:    func(args json.RawMessage) []string { return bound(command(args)) },
		Asks:        asks,
		Preview:     preview,
		Containment: func(in tools.Invocation) string {
			return c.containment(classifyIn(in.Workspace, command(in.Args)).Reads, in.Network)
		},
	}, func(ctx context.Context, in tools.Invocation, args Args) (events.Result, error) {
		return run(ctx, in, args, c)
	})
}

// Containment says in words what is known of a command's processes, whatever sandbox
// is around them: "process-tree" on Linux, where nothing that descends from it is lost
// sight of; "process-group" on other Unix systems, where what leaves the group is
// noticed only by the pipes that it holds; "process" elsewhere.
func Containment() string { return family.Containment }

// containment is all that contains a command, in words.
func (c Config) containment(reads, network bool) string {
	p := c.Sandbox
	p.Network = network && !reads
	return strings.Join(append([]string{Containment()}, p.Words()...), ",")
}

// command is the command line of args, or "" where there is none.
func command(args json.RawMessage) string {
	var a struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(args, &a) != nil {
		return ""
	}
	return a.Command
}

func tierOf(args json.RawMessage) events.Tier {
	if classify(command(args)).Reads {
		return events.Readonly
	}
	return events.Irreversible
}

func operation(args json.RawMessage) events.Operation {
	line := command(args)
	a := classify(line)
	return events.Operation{
		Class: events.OpExecute, Commands: a.Commands, Paths: filesOf(line, a), Hosts: a.Hosts, Reads: a.Reads,
	}
}

// asks shows the whole command, each of its lines on one of its own behind a
// bar, so that no line of it can pass for the question around it.
func asks(args json.RawMessage) string {
	var a struct {
		Command     string `json:"command"`
		Description string `json:"description"`
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return "run in bash, with arguments that cannot be read: " + tools.Visible(string(args))
	}
	var b strings.Builder
	b.WriteString("run in bash:")
	for line := range strings.SplitSeq(a.Command, "\n") {
		b.WriteString("\n  | " + tools.Visible(line))
	}
	if a.Description != "" {
		b.WriteString("\nthe model says of it: " + tools.Visible(a.Description))
	}
	return b.String()
}

// check refuses what no bash could be given, and says how long the command may take.
func check(a Args) (time.Duration, error) {
	refuse := func(path, words string) error {
		return &tools.Error{Code: events.InvalidParam, Class: events.ClassInvalid, Effects: events.EffectsNone, Path: path, Message: words}
	}
	switch {
	case strings.TrimSpace(a.Command) == "":
		return 0, refuse("/command", "the command is empty")
	case strings.IndexByte(a.Command, 0) >= 0:
		return 0, refuse("/command", "the command holds a NUL character, which no command line can")
	case len(a.Command) > MaxCommand:
		return 0, refuse("/command", fmt.Sprintf("the command is %d bytes long, and %d is the most: write it to a file and run that", len(a.Command), MaxCommand))
	case a.TimeoutMS < 0 || a.TimeoutMS > MaxTimeout.Milliseconds():
		return 0, refuse("/timeout_ms", fmt.Sprintf("the most is %d", MaxTimeout.Milliseconds()))
	case a.TimeoutMS == 0:
		return DefaultTimeout, nil
	}
	return time.Duration(a.TimeoutMS) * time.Millisecond, nil
}
