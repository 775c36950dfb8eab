package main

import (
	"context"

	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/projections"
)

// followInbox shows what waits, and then what is asked and how it is answered, by
// whichever node keeps the log by then.
func (a *app) followInbox(ctx context.Context) error {
	log, err := a.set.quiet(a.err)
	if err != nil {
		return err
	}
	ses, err := a.set.open(ctx, log, false)
	if err != nil {
		return err
	}
	f := &inboxFollower{a: a, shown: make(map[string]bool)}
	err = a.set.keepOn(ctx, ses, log, func(ctx context.Context, ses *session.Session) error {
		return f.follow(ctx, gateway.NewDesk(gateway.DeskConfig{Bus: ses.Bus, Now: ses.Now, Log: log}))
	})
	if ctx.Err() != nil {
		return nil // somebody has seen enough
	}
	return err
}

// inboxFollower remembers what it has shown, so that nothing is shown twice.
type inboxFollower struct {
	a     *app
	at    events.Position // the next event; zero: the inbox was not listed yet
	shown map[string]bool // ids that were shown and not answered
}

func (f *inboxFollower) follow(ctx context.Context, d *gateway.Desk) error {
	if f.at == (events.Position{}) {
		head, err := d.Bus().Head(ctx) // BEFORE the list: what comes between is in both
		if err != nil {
			return err
		}
		list, err := d.Approvals(ctx)
		if err != nil {
			return err
		}
		for _, p := range list {
			if err := f.show(p); err != nil {
				return err
			}
		}
		f.at = head
	}
	filter := gateway.FeedFilter{Kinds: []events.Kind{
		events.KindApprovalRequested, events.KindApproved, events.KindDenied, events.KindCancelled, events.KindTimedOut,
		events.KindInputRequested, events.KindInputGiven,
	}}
	return d.Events(ctx, f.at, filter, true, func(e gateway.FeedEvent) error {
		f.at = e.Position
		if e.Notice != "" {
			return f.a.showEvent(e)
		}
		f.at.Index++
		return f.event(ctx, d, e)
	})
}

// event shows what an event means for the inbox.
func (f *inboxFollower) event(ctx context.Context, d *gateway.Desk, e gateway.FeedEvent) error {
	id := gateway.ApprovalID{Call: e.Stored.Commit.Turn.Call(e.Record().Call)}
	asks := false
	switch asked := e.Record().Event.(type) {
	case *events.ApprovalRequested:
		id.Asking, asks = asked.Number(), true
	case *events.InputRequested:
		if asked.Why != "" {
			return nil // nobody is asked
		}
		id.Asking, id.Input, asks = asked.Round, true, true
	}
	if asks {
		page, err := d.Approval(ctx, id)
		if err != nil {
			return err
		}
		return f.show(page)
	}
	page, err := d.Approval(ctx, id)
	if err != nil || !f.shown[page.ID] || page.State == projections.ApprovalOpen {
		return nil // it was never asked about, or is asked about anew: that comes next
	}
	delete(f.shown, page.ID)
	if f.a.json {
		return f.a.printJSON(page)
	}
	f.a.print("%s  %s by %s\n\n", page.ID, page.State, decider(page))
	return f.a.out.failed()
}

func (f *inboxFollower) show(p projections.Page) error {
	if f.shown[p.ID] {
		return nil
	}
	f.shown[p.ID] = true
	if f.a.json {
		return f.a.printJSON(p)
	}
	f.a.print("%s\n\n", p.Brief())
	return f.a.out.failed()
}
