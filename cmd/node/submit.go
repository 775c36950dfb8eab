package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/codec"
)

// submission is what the verb submit is told beside its input.
type submission struct {
	gateway.Envelope
	format    string // of the output
	input     string // of the input; "" means: as it looks
	principal string
	wait      bool
	timeout   time.Duration
	progress  bool
}

// submit is the verb that submits a turn.
func (a *app) submit() *cobra.Command {
	sub := &submission{}
	cmd := &cobra.Command{
		Use: "submit FILE|-", Short: "Submit a model's message, and print the tool messages", Args: command.Args(1, 1, "a file, or - for standard input"),
		Long: "Submit a provider's response, its assistant message or its array of tool calls, and print the messages that\n" +
			"answer it, one a line. Where no node runs on the data directory, one runs in this process for as long.\n\n" + exitHelp,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runSubmit(cmd.Context(), sub, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&sub.format, "format", "", "of the messages printed: openai, anthropic or json; left out: that of the input")
	f.StringVar(&sub.input, "input", "", "of the input: openai, anthropic or json; left out: as it looks")
	f.StringVar(&sub.Trace, "trace", "", "trace `id`; left out: a new one")
	f.StringVar(&sub.Turn, "turn", "", "turn `id`; left out: a new one. The same ids again attach to the turn that is there")
	f.StringVar(&sub.principal, "principal", "", "`id` of who acts; left out: "+gateway.DefaultPrincipal)
	f.StringVar(&sub.Mode, "mode", "", "read_only or write; left out: write")
	f.BoolVar(&sub.CanAsk, "can-ask", false, "somebody can be asked for approval: see the verbs inbox, approve and deny")
	f.StringSliceVar(&sub.Allow, "allow", nil, "narrow the allowlist to these `tools`")
	f.StringVar(&sub.Placement, "placement", "", "`placement` that the turn needs")
	f.StringVar(&sub.OnError, "on-error", "", "continue, or abort_rest: what one call's failure does to the rest")
	f.BoolVar(&sub.Disjoint, "parallel-disjoint", false, "calls on disjoint resources may run together")
	f.IntVar(&sub.Limits.Concurrency, "max-concurrency", 0, "calls at once; 0: 4")
	f.Int64Var(&sub.Limits.DeadlineMS, "deadline-ms", 0, "milliseconds that the turn may take; 0: no limit")
	f.Int64Var(&sub.Limits.CallMS, "call-deadline-ms", 0, "milliseconds that each attempt may take; 0: the tool's own limit")
	f.BoolVar(&sub.wait, "wait", true, "wait for the turn's end; otherwise print its ids once it is durable")
	f.DurationVar(&sub.timeout, "timeout", 0, "how long to wait; 0: until it ends")
	f.BoolVar(&sub.progress, "progress", isTerminal(a.err), "print what happens, on standard error")
	a.set.nodeFlags(f)
	return cmd
}

func (a *app) runSubmit(ctx context.Context, sub *submission, from string) error {
	order, err := a.order(sub, from)
	if err != nil {
		return err
	}
	log, err := a.set.quiet(a.err)
	if err != nil {
		return err
	}
	if a.set.workspaceNamed() { // else the node's own
		if order.Turn.Workspace, err = a.set.directory(); err != nil {
			return err
		}
	}
	ses, err := a.set.open(ctx, log, true)
	if err != nil {
		return err
	}
	desk, stop, err := a.desk(ctx, ses, sub.wait, log)
	if err != nil {
		return errors.Join(err, ses.Close())
	}
	err = a.submitTo(ctx, desk, order, sub)
	return errors.Join(err, stop(), ses.Close())
}

// desk is a desk on the log, with a node in this process if that is asked for
// and no other is there.
func (a *app) desk(ctx context.Context, ses *session.Session, run bool, log *slog.Logger) (d *gateway.Desk, stop func() error, err error) {
	if ses.Server == nil || !run {
		d := gateway.NewDesk(gateway.DeskConfig{Bus: ses.Bus, Log: log})
		d.Start(context.WithoutCancel(ctx))
		return d, func() error { d.Stop(); return nil }, nil
	}
	n, err := a.set.startNode(ctx, ses, log)
	if err != nil {
		return nil, nil, err
	}
	return n.desk, func() error { return n.stop(context.WithoutCancel(ctx)) }, nil
}

// quiet is the log of a verb that is no daemon: warnings, unless more is asked for.
func (s *settings) quiet(w io.Writer) (*slog.Logger, error) {
	plain := *s
	if s.from["log-level"] == "" {
		plain.logLevel = "warn"
	}
	return plain.logger(w)
}

// workspaceNamed says whether a workspace was asked for.
func (s *settings) workspaceNamed() bool { return s.from["workspace"] != "" }

// order reads the input.
func (a *app) order(sub *submission, from string) (gateway.Order, error) {
	body, err := a.read(from)
	if err != nil {
		return gateway.Order{}, err
	}
	if !json.Valid(body) {
		return gateway.Order{}, exit.Misused(fmt.Errorf("%s is not JSON: %w", from, jsonError(body)), "give a provider's message as it came")
	}
	input := codec.Format(sub.input)
	if input == "" {
		input = gateway.Sniff(body)
	}
	m, err := codec.Decode(input, body)
	if err != nil {
		return gateway.Order{}, exit.Misused(fmt.Errorf("%s: %w", from, err), "give a provider's message as it came; --input says whose")
	}
	if sub.format != "" {
		if _, err := codec.RenderCalls(codec.Format(sub.format), nil, codec.Options{}); err != nil {
			return gateway.Order{}, exit.Misused(err, "see --format")
		}
	}
	e := sub.Envelope
	e.Principal.ID = sub.principal
	e.Calls = json.RawMessage(`[]`) // they are decoded already
	order, err := e.Order()
	order.Turn.Calls, order.Turn.Format = m.Calls, cmp.Or(sub.format, string(input))
	return order, err
}

func jsonError(body []byte) error {
	var v any
	return json.Unmarshal(body, &v)
}

// read reads a file, or standard input.
func (a *app) read(from string) ([]byte, error) {
	if from != "-" {
		body, err := readSmall(from, gateway.MaxBody)
		if err != nil {
			return nil, exit.Misused(err, "name a file, or - for standard input")
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(a.in, gateway.MaxBody+1))
	if err == nil && len(body) > gateway.MaxBody {
		err = exit.Misused(fmt.Errorf("more than %d bytes on standard input", gateway.MaxBody), "send less in one turn")
	}
	return body, err
}

// submitTo submits, and prints the messages.
func (a *app) submitTo(ctx context.Context, desk *gateway.Desk, o gateway.Order, sub *submission) error {
	if !sub.wait {
		t, err := desk.Submit(ctx, o.Key, o.Turn)
		if err != nil {
			return err
		}
		return a.printTicket(t)
	}
	t, err := desk.Submit(ctx, o.Key, o.Turn)
	if err != nil {
		return err
	}
	stop := func() {}
	if sub.progress && !a.json {
		stop = a.follow(ctx, desk, t.Key, func(e gateway.FeedEvent) error {
			a.note("%s", describe(e))
			return nil
		})
	}
	v, err := desk.Wait(ctx, t.Key, sub.timeout)
	stop()
	switch {
	case ctx.Err() != nil:
		return notEnded(t.Key, fmt.Errorf("stopped waiting for turn %s", t.Key))
	case err != nil:
		return err
	case !v.Ended():
		return notEnded(t.Key, fmt.Errorf("turn %s has not ended after %v", t.Key, sub.timeout))
	}
	m, err := desk.Messages(ctx, v, codec.Format(sub.format))
	if err != nil {
		return err
	}
	return a.printMessages(t, m)
}

// notEnded is the error of who waits no longer for a turn.
func notEnded(key events.TurnKey, err error) error {
	return &exit.Failure{Err: err, Hint: "it goes on; submit the same with --trace " + key.Trace + " --turn " + key.Turn + " to see its end", Code: exitNotEnded}
}

func (a *app) printTicket(t gateway.Ticket) error {
	return a.say(map[string]any{"trace": t.Key.Trace, "turn": t.Key.Turn, "attached": t.Attached}, "%s\n", t.Key)
}

func (a *app) printMessages(t gateway.Ticket, m gateway.Messages) error {
	if a.json {
		return a.printJSON(struct {
			Trace    string            `json:"trace"`
			Turn     string            `json:"turn"`
			Attached bool              `json:"attached"`
			Format   codec.Format      `json:"format"`
			Messages []json.RawMessage `json:"messages"`
		}{t.Key.Trace, t.Key.Turn, t.Attached, m.Format, m.Answered})
	}
	for _, one := range m.Answered {
		a.printRaw(one)
	}
	return nil
}

// follow yields a turn's events as they come, until the turn ends or stop is
// called, which waits a little for the last ones.
func (a *app) follow(ctx context.Context, desk *gateway.Desk, key events.TurnKey, yield func(gateway.FeedEvent) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(ended)
		err := desk.Events(ctx, events.Position{}, gateway.FeedFilter{Trace: key.Trace, Turn: key.Turn}, true, func(e gateway.FeedEvent) error {
			if e.Notice != "" {
				return nil
			}
			if err := yield(e); err != nil {
				return err
			}
			if events.EndsTurn(e.Record().Event.Kind()) {
				return errEnded
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnded) && ctx.Err() == nil {
			a.note("%s", show.Lines(err.Error()))
		}
	})
	return func() {
		late := time.NewTimer(lastWords)
		defer late.Stop()
		select {
		case <-ended:
		case <-late.C:
		case <-ctx.Done():
		}
		cancel()
		wg.Wait()
	}
}

// lastWords is how long the last events of a turn that has ended may take to be shown.
const lastWords = 2 * time.Second

var errEnded = errors.New("the turn has ended")

// me is who gives orders at this terminal.
func me(name string) events.Principal {
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = filepath.Base(u.Username)
		}
	}
	return events.Principal{ID: cmp.Or(name, os.Getenv("USER"), "operator"), Kind: "person"}
}
