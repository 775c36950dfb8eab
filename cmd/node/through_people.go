package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/projections"
)

// throughCompensate has a completed call undone at the door, and waits for the undo's end.
func (a *app) throughCompensate(ctx context.Context, d *door, cmd *cobra.Command, args []string) error {
	if err := a.set.noNodeFlags(); err != nil {
		return err
	}
	call, err := events.ParseCallKey(args[0])
	if err != nil {
		return exit.Misused(err, "name a call as trace/turn/call: sluice-replay show lists them")
	}
	f := cmd.Flags()
	wait, err := f.GetBool("wait")
	if err != nil {
		return err
	}
	timeout, err := f.GetDuration("timeout")
	if err != nil {
		return err
	}
	var late time.Time
	if timeout > 0 {
		late = time.Now().Add(timeout)
	}
	u := gateway.Undo{Call: call}
	if wait {
		u.Wait = -1
	}
	body := struct {
		named
		Reason string `json:"reason,omitempty"`
		WaitMS int64  `json:"wait_ms,omitempty"`
	}{nameCall(call), f.Lookup("reason").Value.String(), 0}
	for {
		body.WaitMS = nextWait(&submission{wait: wait}, late).Milliseconds()
		var out gateway.Undone
		if _, err := d.ask(ctx, "compensate", body, &out); err != nil {
			return err
		}
		over := !late.IsZero() && !time.Now().Before(late)
		if out.Status != gateway.UndoneNotYet || !wait || over {
			return a.saidUndone(u, out)
		}
	}
}

// inboxWait is how long one request at the door waits for another inbox.
const inboxWait = 25 * time.Second

// throughFollow shows what waits, and then what is asked and how it is answered, as far as
// the door's user may see it.
func (a *app) throughFollow(ctx context.Context, d *door) error {
	f := &inboxFollower{a: a, shown: make(map[string]bool)}
	tag := ""
	for {
		var list []projections.Page
		var next string
		err := a.askOn(ctx, tag != "", func() (err error) {
			list, next, err = d.approvalsBut(ctx, tag)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil // somebody has seen enough
		case err != nil:
			return err
		case next == tag:
			continue
		}
		waits := make(map[string]bool, len(list))
		for _, p := range list {
			waits[p.ID] = true
			if err := f.show(p); err != nil {
				return err
			}
		}
		for id := range f.shown {
			if waits[id] {
				continue
			}
			delete(f.shown, id)
			if err := a.askOn(ctx, true, func() error { return a.throughEnded(ctx, d, id) }); err != nil {
				return err
			}
		}
		tag = next
	}
}

// approvalsBut is what waits, once it is something else than a tag names, or a time has
// passed, and its tag.
func (d *door) approvalsBut(ctx context.Context, tag string) (list []projections.Page, now string, err error) {
	in := struct {
		Cursor string `json:"cursor,omitempty"`
		Tag    string `json:"tag,omitempty"`
		WaitMS int64  `json:"wait_ms,omitempty"`
	}{Tag: tag}
	if tag != "" {
		in.WaitMS = inboxWait.Milliseconds()
	}
	for {
		var out struct {
			approvalsPage
			Tag string `json:"tag"`
		}
		if _, err := d.ask(ctx, "inbox", in, &out); err != nil {
			return nil, tag, err
		}
		if in.Cursor == "" {
			now = out.Tag
		}
		list = append(list, out.Approvals...)
		if in.Cursor, in.WaitMS, in.Tag = out.Next, 0, ""; in.Cursor == "" {
			return list, now, nil
		}
	}
}

// throughEnded shows how something that waited was answered.
func (a *app) throughEnded(ctx context.Context, d *door, id string) error {
	what, err := gateway.ParseApprovalID(id)
	if err != nil {
		return err
	}
	page, err := d.Approval(ctx, what)
	if err != nil || page.State == projections.ApprovalOpen {
		return err
	}
	if a.json {
		return a.printJSON(page)
	}
	a.print("%s  %s by %s\n\n", page.ID, page.State, decider(page))
	return a.out.failed()
}

// decider is who has answered.
func decider(p projections.Page) string {
	if p.Decision == nil || p.Decision.By == nil {
		return "nobody"
	}
	return show.Short(p.Decision.By.ID, 64)
}
