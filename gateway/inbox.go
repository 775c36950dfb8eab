package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// inbox is the fold of what waits for a person, as far as it has been read.
type inbox struct {
	mu    sync.Mutex
	at    events.Position // the next event to fold; zero: nothing was read yet
	state projections.Waiting
}

// Inbox is all that waits for a person, approvals and what tools ask, soonest expiry first. The
// first call reads the whole log, later ones what came since.
func (d *Desk) Inbox(ctx context.Context) ([]projections.Pending, error) {
	in := &d.inbox
	in.mu.Lock()
	defer in.mu.Unlock()
	var unreadable *bus.Unreadable
	for {
		if in.at == (events.Position{}) {
			in.state = projections.Inbox.Init()
		}
		err := d.bus.Read(ctx, in.at, bus.Filter{}, false, func(s bus.Stored) error {
			for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
				in.state = projections.Inbox.Apply(in.state, e)
			}
			in.at = events.Position{Generation: s.Generation, Seq: s.Seq + 1}
			return nil
		})
		switch {
		case errors.Is(err, bus.ErrRewound) && in.at != (events.Position{}):
			in.at = events.Position{} // what was folded is not in the log any more
			continue
		case errors.As(err, &unreadable): // its turn is not one that this release can show
			d.log.Warn("a commit cannot be read, and what it may have asked is not in the inbox", "seq", unreadable.Seq, "err", err)
			in.at = events.Position{Generation: d.bus.Generation(), Seq: unreadable.Seq + 1}
			continue
		case err != nil:
			return nil, err
		}
		return in.state.List(), nil
	}
}

// Approvals are the pages of what waits for a person, soonest expiry first.
func (d *Desk) Approvals(ctx context.Context) ([]projections.Page, error) {
	list, err := d.Inbox(ctx)
	if err != nil {
		return nil, err
	}
	return projections.Pages(list, d.now()), nil
}

// maxWhole is how much of what is kept outside the log one page shows; more is left to
// the reference.
const maxWhole = 1 << 20

// Approval is the page of one approval, one that is over too, with what it keeps outside
// the log. It returns ErrNoApproval, lifecycle.ErrNoTurn or lifecycle.ErrNoCall.
func (d *Desk) Approval(ctx context.Context, id ApprovalID) (projections.Page, error) {
	v, err := d.Get(ctx, id.Call.TurnKey())
	if err != nil {
		return projections.Page{}, err
	}
	if v.Turn.Call(id.Call.Offset) == nil {
		return projections.Page{}, fmt.Errorf("call %s: %w", id.Call, lifecycle.ErrNoCall)
	}
	a := askingOf(v, id)
	if a == nil {
		return projections.Page{}, fmt.Errorf("%s: %w", id, ErrNoApproval)
	}
	var w projections.Whole
	w.Args = d.kept(ctx, a.Args.Ref)
	if a.Preview != nil {
		w.Preview = d.kept(ctx, a.Preview.Text.Ref)
	}
	return projections.PageOf(a.Pending, a.State, a.Decision, w, d.now()), nil
}

// askingOf is the asking in a turn that is named, or nil.
func askingOf(v View, id ApprovalID) *projections.Asking {
	var found *projections.Asking
	for _, a := range projections.Askings(eventsOf(v)) {
		input := a.Kind == projections.PendingInput
		if a.Call == id.Call && (id.Asking == 0 && !id.Input || input == id.Input && (id.Asking == 0 || a.Asking == id.Asking)) {
			found = &a
		}
	}
	return found
}

// eventsOf are the events of a turn, in order.
func eventsOf(v View) iter.Seq[projections.Event] {
	return func(yield func(projections.Event) bool) {
		for _, s := range v.Commits {
			for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// kept is a text that is kept outside the log; "" where there is none, or where it
// cannot be had now: the page then says where it is.
func (d *Desk) kept(ctx context.Context, ref *events.BlobRef) string {
	if ref == nil || ref.Size > maxWhole {
		return ""
	}
	b, err := d.bus.Blobs().Get(ctx, *ref)
	if err != nil {
		d.log.Warn("what an approval shows cannot be read", "digest", ref.Digest, "err", err)
		return ""
	}
	return string(b)
}
