package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus/jetlog"
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
	here      bool
	progress  bool
	fromStream
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
	f.StringVar(&sub.format, "format", "", "of the messages printed: "+formats()+"; left out: that of the input")
	f.StringVar(&sub.input, "input", "", "of the input: "+formats()+"; left out: as it looks")
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
	f.StringSliceVar(&sub.Secrets, "secret", nil, "JSON `pointers` to arguments of every call that are secrets, such as /token; what looks like one is, anyway")
	f.BoolVar(&sub.wait, "wait", true, "wait for the turn's end; otherwise print its ids once it is durable")
	f.DurationVar(&sub.timeout, "timeout", 0, "how long to wait; 0: until it ends")
	f.BoolVar(&sub.progress, "progress", isTerminal(a.err), "print what happens, on standard error")
	sub.streamFlags(f)
	hereFlag(f, &sub.here)
	a.set.nodeFlags(f)
	return cmd
}

func (a *app) runSubmit(ctx context.Context, sub *submission, from string) error {
	if a.as != "" {
		return a.throughSubmit(ctx, sub, from)
	}
	order, err := a.order(sub, from)
	if err != nil {
		return err
	}
	if sub.stream && len(order.Turn.Calls) == 0 {
		return a.saidNothing(sub)
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
	fresh := a.set.NATS == "" && !session.HoldsLog(a.set.Data)
	ses, err := a.openToRun(ctx, sub.here || !sub.wait, true, log)
	if err != nil {
		return err
	}
	if ses.Server == nil {
		if err := a.set.noNodeFlags(); err != nil {
			return errors.Join(err, ses.Close())
		}
	}
	if ses.Server != nil && sub.wait {
		if order.Turn.Workspace, err = a.tellHere(fresh); err != nil {
			return errors.Join(err, ses.Close())
		}
	}
	w := &waiting{app: a, sub: sub, order: order} // its ids are made here: where the node goes meanwhile, the same is submitted again
	w.order.Key.Trace = cmp.Or(order.Key.Trace, ulid.Make().String())
	w.order.Key.Turn = cmp.Or(order.Key.Turn, ulid.Make().String())
	if sub.timeout > 0 {
		w.late = time.Now().Add(sub.timeout)
	}
	err = a.set.keepOn(ctx, ses, log, func(within context.Context, ses *session.Session) error {
		desk, stop, err := a.desk(within, ses, sub.wait, log)
		if err != nil {
			return err
		}
		err = w.submitTo(ctx, within, desk)
		return errors.Join(err, stop())
	})
	if w.told != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) { // between two nodes
		return w.notEnded(w.order.Key, fmt.Errorf("stopped waiting for turn %s", w.order.Key))
	}
	return err
}

// tellHere says that this process runs the turn, and returns where. The turn names that
// place itself: should another process go on with it, it may stand elsewhere.
func (a *app) tellHere(fresh bool) (string, error) {
	workspace, err := a.set.directory()
	if err != nil {
		return "", err
	}
	if fresh {
		return workspace, a.tellFresh(true)
	}
	a.note("%s: no node runs on %s: the turn is run by this process, in %s", name, show.Short(a.set.Data, 1000), show.Short(workspace, 1000))
	return workspace, nil
}

// tellFresh says where a log is made, and where calls run, before the first one does.
func (a *app) tellFresh(fresh bool) error {
	if !fresh {
		return nil
	}
	dir, err := filepath.Abs(a.set.Data)
	if err != nil {
		return err
	}
	workspace, err := a.set.directory()
	if err == nil {
		a.note("%s: no log was in %s: a new one is made there; calls run in %s", name, show.Short(dir, 1000), show.Short(workspace, 1000))
	}
	return err
}

// noNodeFlags refuses flags that say how a node runs, where the node is another
// process, which has settings of its own.
func (s *settings) noNodeFlags() error {
	vain := s.givenFlags((*settings).nodeFlags, func(name string) bool {
		switch name {
		case "workspace", "log-level", "log-format": // of the turn, and of this process
			return true
		case "replicas", "retention": // of streams that have to be made
			return s.NATS != ""
		}
		return false
	})
	if len(vain) == 0 {
		return nil
	}
	where := "on " + s.Data
	if s.NATS != "" {
		where = "at the log of --nats"
	}
	return exit.Misused(fmt.Errorf("%s: the turn is run by the node %s, which has settings of its own", strings.Join(vain, ", "), where),
		"leave that out, or give it to that node: sluice-node serve")
}

// givenFlags are those of a group of settings that a flag has set, but for those that are
// this process's own.
func (s *settings) givenFlags(group func(*settings, *pflag.FlagSet), own func(name string) bool) []string {
	all := pflag.NewFlagSet("group", pflag.ContinueOnError)
	group(newSettings(), all)
	var out []string
	all.VisitAll(func(f *pflag.Flag) {
		if s.from[f.Name] == "flag" && !own(f.Name) {
			out = append(out, "--"+f.Name)
		}
	})
	return out
}

// desk is a desk on the log, with a node in this process if that is asked for
// and no other is there.
func (a *app) desk(ctx context.Context, ses *session.Session, run bool, log *slog.Logger) (d *gateway.Desk, stop func() error, err error) {
	if ses.Server == nil || !run {
		values, err := a.set.vault(ses, false, log)
		if err != nil {
			return nil, nil, err
		}
		d := gateway.NewDesk(gateway.DeskConfig{Bus: ses.Bus, Now: ses.Now, Log: log, Vault: values})
		d.Start(context.WithoutCancel(ctx))
		return d, func() error { d.Stop(); return nil }, nil
	}
	if err := ses.Server.Announce(func(r *jetlog.Running) { r.More = map[string]string{toldVerb: verbSubmit} }); err != nil {
		return nil, nil, err
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
	log, err := plain.logger(w)
	if err != nil {
		return nil, err
	}
	return slog.New(newOneLoss(log.Handler())), nil
}

// workspaceNamed says whether a workspace was asked for.
func (s *settings) workspaceNamed() bool { return s.from["workspace"] != "" }

// order reads the input.
func (a *app) order(sub *submission, from string) (gateway.Order, error) {
	input, m, err := a.message(sub, from)
	if err != nil {
		return gateway.Order{}, err
	}
	if sub.format != "" {
		if _, err := codec.RenderCalls(codec.Format(sub.format), nil, codec.Options{}); err != nil {
			return gateway.Order{}, exit.Misused(err, "see --format")
		}
	}
	e := sub.Envelope
	e.Principal.ID = sub.principal
	e.Calls, e.Secrets = json.RawMessage(`[]`), nil // they are decoded already
	order, err := e.Order()
	if err != nil {
		return order, err
	}
	order.Turn.Calls, order.Turn.Format = m.Calls, cmp.Or(sub.format, string(input))
	return order, gateway.Declare(order.Turn.Calls, sub.Secrets)
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

func (a *app) printTicket(t gateway.Ticket) error {
	out := map[string]any{"trace": t.Key.Trace, "turn": t.Key.Turn, "attached": t.Attached}
	if len(t.NotTaken) > 0 {
		out["not_taken"] = t.NotTaken
	}
	if !a.json {
		a.note("%s: the same command with --trace %s --turn %s, without --wait=false, waits for its end and prints the messages; sluice-node cancel %s asks for its end",
			name, t.Key.Trace, t.Key.Turn, t.Key)
	}
	return a.say(out, "%s\n", t.Key)
}

// tellNotTaken says which settings of a submission that attached the turn does not have, as
// soon as it is known: the turn may not end.
func (a *app) tellNotTaken(t gateway.Ticket) {
	for _, field := range slices.Sorted(maps.Keys(t.NotTaken)) {
		a.note("%s: turn %s was there already, and keeps its own %s: %s", name, t.Key, field, show.Short(fmt.Sprint(t.NotTaken[field]), 300))
	}
}

func (a *app) printMessages(t gateway.Ticket, m gateway.Messages) error {
	if a.json {
		return a.printJSON(struct {
			Trace    string            `json:"trace"`
			Turn     string            `json:"turn"`
			Attached bool              `json:"attached"`
			NotTaken map[string]any    `json:"not_taken,omitempty"`
			Format   codec.Format      `json:"format"`
			Messages []json.RawMessage `json:"messages"`
			Asked    json.RawMessage   `json:"assistant,omitempty"`
		}{t.Key.Trace, t.Key.Turn, t.Attached, t.NotTaken, m.Format, m.Answered, mended(m)})
	}
	if m.Renamed {
		a.note("%s: ids of calls were missing or repeated, so that these messages name others: --json also gives the model's message that has them", name)
	}
	for _, one := range m.Answered {
		a.printRaw(one)
	}
	return nil
}

// mended is the model's message that the answers are to, where the caller's own is another.
func mended(m gateway.Messages) json.RawMessage {
	if !m.Mended {
		return nil
	}
	return m.Asked
}

// formats are the formats of messages, in a sentence.
func formats() string {
	var names []string
	for _, f := range codec.Formats() {
		names = append(names, string(f))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// me is who gives orders at this terminal.
func me(name string) events.Principal {
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = filepath.Base(u.Username)
		}
	}
	return events.Principal{ID: cmp.Or(name, os.Getenv("USER"), "operator"), Kind: "person", Via: events.ViaCommand}
}
