package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/projections"
)

// approver is a desk as far as what waits for people is concerned, or a door to one.
type approver interface {
	Approvals(ctx context.Context) ([]projections.Page, error)
	Approval(ctx context.Context, id gateway.ApprovalID) (projections.Page, error)
	Decide(ctx context.Context, id gateway.ApprovalID, a gateway.Decision) (gateway.Decided, error)
	Answer(ctx context.Context, id gateway.ApprovalID, a gateway.Answering) (gateway.Answered, error)
}

// withApprovals does something with what waits for people.
func (a *app) withApprovals(ctx context.Context, do func(approver) error) error {
	if a.as != "" {
		return a.atDoor(func(d *door) error { return do(d) })
	}
	return a.withDesk(ctx, func(d *gateway.Desk) error { return do(d) })
}

// answering are the flags of a yes and of a no.
type answering struct {
	by, note, hash, args string
	session              bool
}

func (w answering) flags(cmd *cobra.Command, forNote string) *answering {
	f := cmd.Flags()
	f.StringVar(&w.by, "by", "", "`name` of who says so; left out: the user")
	f.StringVar(&w.note, "note", "", "a `sentence` "+forNote)
	return &w
}

// answerVerb is a verb that answers one approval. What was answered is what it prints.
func (a *app) answerVerb(use, about, long string, answer func(ctx context.Context, d approver, id gateway.ApprovalID) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: about, Long: about + ".\n\n" + long, Args: command.Args(1, 1, "trace/turn/call, or trace/turn/call@asking"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := gateway.ParseApprovalID(args[0])
			if err != nil {
				return exit.Misused(err, "name what waits as the inbox does, trace/turn/call@asking: sluice-node inbox shows it")
			}
			return a.withApprovals(cmd.Context(), func(d approver) error { return answer(cmd.Context(), d, id) })
		},
	}
}

const aboutAnswers = "Without @asking it is the call's last asking that is answered. The first durable answer counts: a later one is told\n" +
	"whose it was. What is answered is printed first; with --hash, an answer to anything else than what you saw is refused."

const aboutChanges = "\n\nArguments given with --args pass all gates again. The node on --data, and a node's door (--as), refuse those that do not\n" +
	"fit the tool's schema, or that the policy denies, and the call waits on. Where neither is there, or has the tool, they are\n" +
	"judged once the yes stands, and what is denied then has ENDED the call. The model is told that a person changed them, and\n" +
	"to what."

// approve is the verb that says yes.
func (a *app) approve() *cobra.Command {
	var w *answering
	var cmd *cobra.Command
	cmd = a.answerVerb("approve TRACE/TURN/CALL[@ASKING]", "Say yes to a call that waits for a person", aboutAnswers+aboutChanges,
		func(ctx context.Context, d approver, id gateway.ApprovalID) error {
			for _, name := range []string{"hash", "args"} { // of a variable that nobody has set: it must not widen the yes
				if f := cmd.Flags().Lookup(name); f.Changed && strings.TrimSpace(f.Value.String()) == "" {
					return exit.Misused(fmt.Errorf("--%s is empty, and nothing was approved", name), "give it, or leave --"+name+" out")
				}
			}
			yes := gateway.Decision{Yes: true, By: me(w.by), Hash: w.hash, Note: w.note}
			if w.session {
				yes.Scope = events.ScopeSession
			}
			if w.args != "" {
				text, err := a.argumentsOf(w.args)
				if err != nil {
					return err
				}
				yes.Args = &text
			}
			if err := a.decideShown(ctx, d, id, yes); err != nil || w.args == "" {
				return err
			}
			return a.judged(ctx, d, id.Call)
		})
	w = answering{}.flags(cmd, "for the record")
	f := cmd.Flags()
	f.StringVar(&w.hash, "hash", "", "`hash` of the arguments that you saw, from the inbox: a yes to others is refused")
	f.StringVar(&w.args, "args", "", "run it with these arguments, which pass all gates again: `JSON`, a file that holds it, or - for standard input")
	f.BoolVar(&w.session, "session", false, "yes to exactly this call for the rest of its trace")
	return cmd
}

// deny is the verb that says no.
func (a *app) deny() *cobra.Command {
	var w *answering
	cmd := a.answerVerb("deny TRACE/TURN/CALL[@ASKING]", "Say no to a call that waits for a person", aboutAnswers,
		func(ctx context.Context, d approver, id gateway.ApprovalID) error {
			return a.decideShown(ctx, d, id, gateway.Decision{By: me(w.by), Note: w.note})
		})
	w = answering{}.flags(cmd, "for the model")
	return cmd
}

// maxArguments is the size in bytes of the largest file of arguments.
const maxArguments = 1 << 20

// argumentsOf are arguments as a flag gives them. Nothing at all is none: for a model it
// would be the empty object, and of a person it is a mistake.
func (a *app) argumentsOf(given string) (string, error) {
	var b []byte
	var err error
	switch {
	case strings.HasPrefix(strings.TrimSpace(given), "{"):
		return given, nil
	case given == "-":
		given = "standard input"
		b, err = io.ReadAll(io.LimitReader(a.in, maxArguments+1))
		if err == nil && len(b) > maxArguments {
			err = fmt.Errorf("more than %d bytes of arguments", maxArguments)
		}
	default:
		b, err = readSmall(strings.TrimPrefix(given, "@"), maxArguments)
	}
	if err == nil && len(bytes.TrimSpace(b)) == 0 {
		err = fmt.Errorf("%s holds nothing", given)
	}
	if err != nil {
		return "", exit.Misused(err, "give a JSON object, a file that holds one, or - for standard input")
	}
	return string(b), nil
}

// decideShown shows what is answered, and answers exactly that.
func (a *app) decideShown(ctx context.Context, d approver, id gateway.ApprovalID, answer gateway.Decision) error {
	if id.Input {
		return exit.Misused(fmt.Errorf("%s is what a tool asks, and no yes or no answers it", id), "use sluice-node answer")
	}
	page, err := d.Approval(ctx, id)
	if err != nil && !errors.Is(err, gateway.ErrNoApproval) {
		return err
	}
	if err == nil {
		if id.Asking == 0 && page.State == projections.ApprovalOpen && page.Kind != projections.PendingInput {
			id.Asking = page.Asking // BEFORE somebody asks anew: what is shown is what is answered
		}
		if answer.Yes && answer.Hash == "" && answer.Args == nil && page.State == projections.ApprovalOpen {
			answer.Hash = page.Hash
		}
	}
	out, err := d.Decide(ctx, id, answer)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			gateway.Decided
			Of string `json:"of"`
		}{out, id.Call.String()})
	}
	if page.ID != "" {
		a.print("%s\n", page.Brief())
	}
	word, more := answered(out, answer.By)
	a.print("%s: %s\n", id.Call, word)
	if more != "" {
		a.print("  %s\n", more)
	}
	return a.out.failed()
}

// answered is what became of an answer, in a word, and what else there is to say.
func answered(d gateway.Decided, by events.Principal) (word, more string) {
	word = map[string]string{
		gateway.DecidedApproved: "approved", gateway.DecidedDenied: "denied",
		gateway.DecidedAlreadyApproved: "approved already", gateway.DecidedAlreadyDenied: "denied already",
	}[d.Status]
	var parts []string
	switch d.Status {
	case gateway.DecidedAlreadyApproved, gateway.DecidedAlreadyDenied:
		parts = append(parts, "by "+show.Short(d.By.ID, 64)+", and that stands")
	default:
		if d.By.ID != by.ID { // a door knows who is there better than the command line
			parts = append(parts, "by "+show.Short(d.By.ID, 64))
		}
	}
	if d.Scope == events.ScopeSession {
		parts = append(parts, "for exactly this call in the rest of its trace")
	}
	if d.Asked != "" {
		parts = append(parts, "with the new arguments "+d.Hash)
	}
	return word, strings.Join(parts, "; ")
}

// judgedSoon is how long the gates may take over changed arguments before a
// person is told no more of it.
const judgedSoon = 2 * time.Second

// judged tells how the gates judge the arguments that a person has just given.
func (a *app) judged(ctx context.Context, at approver, call events.CallKey) error {
	d, reads := at.(*gateway.Desk)
	if !reads { // a door that lets no events through
		return nil
	}
	soon, stop := context.WithTimeout(ctx, judgedSoon)
	defer stop()
	approved, status := false, ""
	var denied error
	err := d.Events(soon, events.Position{}, gateway.FeedFilter{Trace: call.Trace, Turn: call.Turn}, true, func(e gateway.FeedEvent) error {
		if e.Notice != "" || e.Record().Call != call.Offset {
			return nil
		}
		switch what := e.Record().Event.(type) {
		case *events.Approved:
			approved = true
			return nil
		case *events.Denied:
			denied = fmt.Errorf("the new arguments were denied by %s: %s: %s", what.Gate, what.Code, show.Short(what.Reason, 1000))
		case *events.Authorized:
			status = "the new arguments pass the gates"
		default:
			status = "the new arguments: " + string(what.Kind())
		}
		if !approved {
			status, denied = "", nil
			return nil
		}
		return errEnded
	})
	switch {
	case denied != nil:
		return &exit.Failure{Err: denied, Hint: "the call has ended; the model is told why", Code: exit.Failed}
	case errors.Is(err, errEnded) && !a.json:
		a.note("%s", status)
		return nil
	case soon.Err() != nil && ctx.Err() == nil:
		a.note("no node has judged the new arguments within %v; sluice-node tail --from start --trace %s --turn %s tells", judgedSoon, call.Trace, call.Turn)
		return nil
	case errors.Is(err, errEnded):
		return nil
	}
	return err
}

// inbox is the verb that shows what waits for a person.
func (a *app) inbox() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "inbox", Short: "Show the calls that wait for a person", Args: command.Args(0, 0, "none"),
		Long: "Show the calls that wait for a person, soonest expiry first, each with the whole of what it asks: a yes (approve, deny), or\n" +
			"what its tool needs before it can go on (answer).\n" +
			"inbox show ID has the whole page of one: arguments, what it would change, files that it is bound to.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if follow {
				return a.followInbox(cmd.Context())
			}
			if list, ok := a.askedNode(cmd.Context()); ok {
				return a.printInbox(list)
			}
			return a.withApprovals(cmd.Context(), func(d approver) error {
				list, err := d.Approvals(cmd.Context())
				if err != nil {
					return err
				}
				return a.printInbox(list)
			})
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with what is asked, and how it is answered")
	cmd.AddCommand(a.inboxShow())
	return cmd
}

// inboxShow is the verb that shows the whole of one approval.
func (a *app) inboxShow() *cobra.Command {
	return &cobra.Command{
		Use: "show TRACE/TURN/CALL[@ASKING]", Short: "Show the whole of what is asked, and of what was", Args: command.Args(1, 1, "trace/turn/call, or trace/turn/call@asking"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := gateway.ParseApprovalID(args[0])
			if err != nil {
				return exit.Misused(err, "name an approval as trace/turn/call@asking: sluice-node inbox shows them")
			}
			return a.withApprovals(cmd.Context(), func(d approver) error {
				page, err := d.Approval(cmd.Context(), id)
				switch {
				case err != nil:
					return err
				case a.json:
					return a.printJSON(page)
				}
				a.print("%s\n", page.Visible)
				return a.out.failed()
			})
		},
	}
}

func (a *app) printInbox(list []projections.Page) error {
	if a.json {
		return a.printJSON(map[string]any{"approvals": list})
	}
	for _, p := range list {
		a.print("%s\n\n", p.Brief())
	}
	if len(list) == 0 {
		a.note("nothing waits for a person")
	}
	return a.out.failed()
}
