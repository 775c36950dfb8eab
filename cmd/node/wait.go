package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
)

// waiting is a submission that waits for its turn's end, whichever node runs it by then.
type waiting struct {
	app   *app
	sub   *submission
	order gateway.Order
	late  time.Time       // when the wait ends; zero: never
	told  *gateway.Ticket // of the first submission; nil before

	before gateway.View   // the turn as it was when this attached to it; zero: it was new
	asking map[int]string // calls that wait for a person, with what they ask
	shown  int            // events of the turn that were told already
}

// submitTo submits, and prints the messages. user ends when the user has seen
// enough, and ctx, which is within it, also when the node has gone.
func (w *waiting) submitTo(user, ctx context.Context, desk *gateway.Desk) error {
	t, err := desk.Submit(ctx, w.order.Key, w.order.Turn)
	if err != nil {
		return err
	}
	if w.told == nil {
		w.told = &t
		w.app.tellNotTaken(t)
	}
	t.Attached, t.NotTaken = w.told.Attached, w.told.NotTaken // a later one attaches, whatever the first one did
	if !w.sub.wait {
		return w.app.printTicket(t)
	}
	v, err := w.await(ctx, desk, t.Key)
	switch {
	case user.Err() != nil:
		return w.notEnded(t.Key, fmt.Errorf("stopped waiting for turn %s", t.Key))
	case err != nil:
		return err
	case !v.Ended():
		return w.notEnded(t.Key, fmt.Errorf("turn %s has not ended after %v", t.Key, w.sub.timeout))
	}
	m, err := desk.Messages(ctx, v, codec.Format(w.order.Turn.Format))
	if err != nil {
		return err
	}
	return w.app.printMessages(t, m)
}

// await waits for the turn's end, and tells meanwhile what happens and who is asked.
func (w *waiting) await(ctx context.Context, desk *gateway.Desk, key events.TurnKey) (gateway.View, error) {
	stop := func(bool) {}
	if w.sub.progress && !w.app.json || w.sub.CanAsk {
		w.asking = make(map[int]string)
		if w.told.Attached {
			w.before, _ = desk.Get(ctx, key) // without it too much is told
		}
		seen := 0
		stop = w.app.follow(ctx, desk, key, func(e gateway.FeedEvent) error {
			w.tell(e, seen >= w.shown)
			seen++
			w.shown = max(w.shown, seen)
			return nil
		})
	}
	limit := w.sub.timeout
	if limit > 0 {
		limit = max(time.Until(w.late), time.Millisecond)
	}
	v, err := desk.Wait(ctx, key, limit)
	stop(err == nil && v.Ended())
	return v, err
}

// tell tells of an event of the turn, and of who is asked for something by it.
func (w *waiting) tell(e gateway.FeedEvent, anew bool) {
	rec := e.Record()
	if anew && w.sub.progress && !w.app.json {
		w.app.note("%s", describe(e))
	}
	ask := askOf(e)
	if ask == "" {
		delete(w.asking, rec.Call)
		return
	}
	w.asking[rec.Call] = ask
	if anew && w.sub.CanAsk && !w.answered(e) {
		w.app.note("%s", tell(ask))
	}
}

// askOf says in a line what an event asks a person, and how it is answered; "" where it
// asks nothing. The line is still to be made safe to show.
func askOf(e gateway.FeedEvent) string {
	call := e.Stored.Commit.Turn.Call(e.Record().Call)
	switch asks := e.Record().Event.(type) {
	case *events.ApprovalRequested:
		return waitsFor(call, asks.Asks, "approve")
	case *events.InputRequested:
		if asks.Why == "" {
			return waitsFor(call, askedFor(asks), "answer")
		}
	}
	return ""
}

// answered says whether a question was answered, or asked anew, before this attached.
func (w *waiting) answered(e gateway.FeedEvent) bool {
	n := len(w.before.Commits)
	if n == 0 || e.Position.Seq > w.before.Commits[n-1].Seq {
		return false
	}
	c := w.before.Turn.Call(e.Record().Call)
	switch asks := e.Record().Event.(type) {
	case *events.ApprovalRequested:
		return c == nil || c.Phase != lifecycle.PhaseAsking || c.Asked.Number() != asks.Number()
	case *events.InputRequested:
		return c == nil || c.Phase != lifecycle.PhaseInput || c.Input.Round != asks.Round
	}
	return true
}

// waitsFor says in a line, which is still to be made safe to show, what a call asks
// and how it is answered. The inbox has the lines as they are.
func waitsFor(call events.CallKey, asks, verb string) string {
	short := []rune(onLine(asks))
	if len(short) > mostAsked {
		short = append(short[:mostAsked], '…')
	}
	return fmt.Sprintf("waits for a person: call %d asks %s (sluice-node inbox, %s %s)", call.Offset, string(short), verb, call)
}

// onLine is what is asked, whose lines are marked, on one line.
func onLine(asks string) string {
	lines := strings.Split(strings.TrimRight(asks, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "  | ")
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return lines[0] + " " + strings.Join(lines[1:], " ⏎ ")
}

// mostAsked is how many characters of what is asked stand in such a line.
const mostAsked = 500

// notEnded is the error of who waits no longer for a turn.
func (w *waiting) notEnded(key events.TurnKey, err error) error {
	var asked []string
	for _, offset := range slices.Sorted(maps.Keys(w.asking)) {
		asked = append(asked, w.asking[offset])
	}
	if len(asked) > 0 {
		err = fmt.Errorf("%w: it %s", err, strings.Join(asked, "; "))
	}
	return &exit.Failure{Err: err, Hint: "it goes on; submit the same with --trace " + key.Trace + " --turn " + key.Turn + " to see its end", Code: exitNotEnded}
}

// follow yields a turn's events as they come, until the turn ends or stop is
// called, which waits a little for the last ones if the turn has ended.
func (a *app) follow(ctx context.Context, desk *gateway.Desk, key events.TurnKey, yield func(gateway.FeedEvent) error) (stop func(ended bool)) {
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
	return func(over bool) {
		if over {
			late := time.NewTimer(lastWords)
			defer late.Stop()
			select {
			case <-ended:
			case <-late.C:
			case <-ctx.Done():
			}
		}
		cancel()
		wg.Wait()
	}
}

// lastWords is how long the last events of a turn that has ended may take to be shown.
const lastWords = 2 * time.Second

var errEnded = errors.New("the turn has ended")
