package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/mcp"
	"github.com/sluice-run/sluice/policy/access"
)

// speaking is what the verb mcp is told beside the settings of a node.
type speaking struct {
	principal, trace, approver string
	join, here                 bool

	persons atomic.Pointer[map[string]string] // who sits at which agent's client, as the node behind has been told
}

// mcp is the verb that an agent starts as its MCP server.
func (a *app) mcp() *cobra.Command {
	sp := &speaking{}
	cmd := &cobra.Command{
		Use: "mcp", Short: "Be an MCP server at standard input and output, for an agent that starts one", Args: command.Args(0, 0, "none"),
		Long: "Be a server of the Model Context Protocol at standard input and output: an agent starts this command, and its\n" +
			"model gets this node's tools. Each call is a call of a turn: judged, recorded, and put before a person where the\n" +
			"policy asks. Where a node runs on the data directory, its tools are served, by its policy and settings; where that\n" +
			"one ends, calls wait for it to come back. Otherwise, and unless --join says no, one runs in this process for as\n" +
			"long, with HTTP at any free loopback port, and whoever starts the same command meanwhile goes through it.\n" +
			"Calls run in --workspace. The log goes to standard error.\n\n" + exitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runMCP(cmd.Context(), sp) },
	}
	f := cmd.Flags()
	f.StringVar(&sp.principal, "principal", "", "`id` in whose name the calls are made; left out: local")
	f.StringVar(&sp.trace, "trace", "", "trace `id` of the calls; left out: a new one. With the same one again, a call that was cut off is met by who asks for it again")
	f.StringVar(&sp.approver, "approver", "", "`person` who sits at the agent: what is said to a question there is their word.\n"+
		"Left out: it is nobody's, and people answer with sluice-node inbox and approve")
	f.BoolVar(&sp.join, "join", false, "only go through a node that runs, and wait for one: never run one here, which would have this command's policy")
	hereFlag(f, &sp.here)
	a.set.nodeFlags(f)
	a.set.doorFlags(f)
	return cmd
}

func (a *app) runMCP(ctx context.Context, sp *speaking) error {
	log, err := a.set.quiet(a.err)
	if err != nil {
		return err
	}
	streams, conf, err := a.speaks(sp)
	if err != nil {
		return err
	}
	conf.Log, conf.Version = log, command.Version()
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	door := mcp.New(own, conf)
	spoken := make(chan error, 1)
	go func() { spoken <- door.Speak(own, streams) }()
	within, leave := context.WithCancel(ctx)
	defer leave()
	stood := make(chan error, 1)
	go func() { stood <- (&standing{app: a, door: door, log: log, told: sp, waits: sp.join}).behind(within) }()
	select {
	case err = <-stood: // it could not be, or a signal ends it
		door.Close()
		return err
	case err = <-spoken: // the agent has closed its end
	}
	door.Close() // what was asked for and has no answer is cancelled by now
	leave()
	return errors.Join(err, <-stood)
}

// speaks is who speaks at the streams, and how the door behaves.
func (a *app) speaks(sp *speaking) (mcp.Streams, mcp.Config, error) {
	s := mcp.Streams{In: closable(a.in), Out: unclosable{a.out}, Principal: events.Principal{ID: sp.principal}, Trace: sp.trace}
	for what, id := range map[string]string{"--principal": sp.principal, "--approver": sp.approver} {
		if err := access.CheckID(id); id != "" && err != nil {
			return s, mcp.Config{}, exit.Misused(fmt.Errorf("%s: %w", what, err), "say another id")
		}
	}
	if err := events.CheckID("trace", sp.trace); sp.trace != "" && err != nil {
		return s, mcp.Config{}, exit.Misused(err, "use another id, or none to have one made")
	}
	if sp.approver != "" && sp.approver == sp.principal {
		return s, mcp.Config{}, exit.Misused(fmt.Errorf("--approver %s and --principal are one", sp.approver), "nobody agrees to their own calls: name the person who sits at the agent")
	}
	workspace, err := a.set.directory()
	if err != nil {
		return s, mcp.Config{}, err
	}
	s.Workspace = workspace
	allow, err := a.set.allowlists()
	if err != nil {
		return s, mcp.Config{}, err
	}
	conf, err := a.set.mcpConfig(allow)
	own := conf.Approver
	conf.Approver = func(asker events.Principal) string { return cmp.Or(sp.approver, own(asker), sp.atNode(asker)) }
	return s, conf, err
}

// atNode is who sits at an agent's client, as the node behind the door has been told.
func (sp *speaking) atNode(asker events.Principal) string {
	if persons := sp.persons.Load(); persons != nil {
		return (*persons)[asker.ID]
	}
	return ""
}

// closable is a reader that can be closed, where it is one.
func closable(r io.Reader) io.ReadCloser {
	if c, ok := r.(io.ReadCloser); ok {
		return c
	}
	return io.NopCloser(r)
}

// unclosable is a writer that others write to, too.
type unclosable struct{ io.Writer }

// Close does nothing.
func (unclosable) Close() error { return nil }

// ownBehind runs a node in this process.
func (a *app) ownBehind(ctx context.Context, door *mcp.Door, log *slog.Logger) error {
	set := *a.set
	set.verb = verbMCP
	if set.from["http"] == "" {
		set.http = "127.0.0.1:0" // several agents of one user have several of these, one after another
	}
	if err := a.tellFresh(!session.HoldsLog(set.Data)); err != nil {
		return err
	}
	if err := set.loads(ctx); err != nil {
		return err
	}
	l, err := set.door()
	if err != nil {
		return err
	}
	s, err := set.startServing(context.WithoutCancel(ctx), l, log)
	if err != nil {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
		if _, found, ferr := jetlog.Find(set.Data); ferr == nil && found {
			return errGone // another one was quicker
		}
		return err
	}
	if err := door.Use(ctx, s.node.mcpBackend(&set)); err != nil {
		return errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	return errors.Join(s.wait(ctx), s.close(context.WithoutCancel(ctx)))
}

// farTools is the list of the tools of a node that is another process: what it says, or
// where it has no HTTP what a node with these settings would have.
func (a *app) farTools(ses *session.Session) func(context.Context) ([]mcp.Tool, error) {
	if ses.Found != nil && ses.Found.HTTP != "" {
		running := *ses.Found
		return func(ctx context.Context) ([]mcp.Tool, error) {
			body, err := askTools(ctx, running, "mcp")
			if err != nil {
				return nil, err
			}
			var list []mcp.Tool
			if err := json.Unmarshal(body, &list); err != nil {
				return nil, fmt.Errorf("the node at %s gives a list that cannot be read: %w", running.HTTP, err)
			}
			return list, nil
		}
	}
	return func(ctx context.Context) ([]mcp.Tool, error) {
		r, err := a.set.plainRegistry()
		if err != nil {
			return nil, err
		}
		open, err := actors.OpenTools(ctx, ses.Bus.Cells(), a.set.breaker(), ses.Now(), names(r))
		return mcpTools(r.List(), open), err
	}
}
