package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
)

// nextNode is how long a verb that follows the log waits, by itself, for the next
// node on the data directory when the one that it was told of has gone.
const nextNode = 30 * time.Second

// lookEvery is how often it looks whether that node is still the one.
const lookEvery = 200 * time.Millisecond

// errGone ends what was done with the log of a node that has gone.
var errGone = errors.New("the node has gone")

// keepOn does something with an open log for as long as it takes, and closes the
// log. Where a node keeps it that was found through the data directory, and that
// is started anew meanwhile, it has another address: do is called again, with a
// new session, and goes on from where it was.
func (s *settings) keepOn(ctx context.Context, ses *session.Session, log *slog.Logger, do func(context.Context, *session.Session) error) error {
	for silent := 0; ; {
		err := s.untilGone(ctx, ses, do)
		closed := ses.Close()
		if errors.Is(err, bus.ErrUnavailable) && ses.Found != nil {
			silent++ // it goes, or another one is at its place already
		}
		if !errors.Is(err, errGone) && (!errors.Is(err, bus.ErrUnavailable) || silent == 0 || silent > maxSilent) {
			return errors.Join(err, closed)
		}
		if ses, err = s.openNext(ctx, log); err != nil {
			return err
		}
	}
}

// maxSilent is how often a node that does not answer is taken for one that goes.
const maxSilent = 3

// untilGone is what do returns, or errGone once the node is no more the one that
// the session was opened to.
func (s *settings) untilGone(ctx context.Context, ses *session.Session, do func(context.Context, *session.Session) error) error {
	if ses.Found == nil {
		return do(ctx, ses)
	}
	within, end := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-within.Done():
				return
			case <-tick.C:
			}
			if now, found, err := jetlog.Find(s.Data); err == nil && (!found || !sameNode(now, *ses.Found)) {
				end(errGone)
				return
			}
		}
	})
	err := do(within, ses)
	if err != nil && errors.Is(context.Cause(within), errGone) {
		err = errGone
	}
	end(nil)
	wg.Wait()
	return err
}

// sameNode says whether two words of a node are of one that is at the same place.
func sameNode(a, b jetlog.Running) bool {
	return a.PID == b.PID && a.URL == b.URL && a.Token == b.Token
}

// openNext opens the log of the next node on the data directory.
func (s *settings) openNext(ctx context.Context, log *slog.Logger) (*session.Session, error) {
	late := time.NewTimer(s.patience)
	defer late.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		running, found, err := jetlog.Find(s.Data)
		if err == nil && found && running.URL != "" {
			ses, err := s.OpenRunning(ctx, running, jetlog.Config{Replicas: 1, Log: log})
			if err == nil || ctx.Err() != nil {
				return ses, err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late.C:
			return nil, exit.Unusable(fmt.Errorf("the node on %s has gone, and no other came within %v", s.Data, s.patience),
				"start it, and run this again: everything that it had kept is still in the log")
		}
	}
}

// oneLoss is a log that tells once of a lost connection, though a session has
// several of them.
type oneLoss struct {
	slog.Handler
	connection bool // the attributes name one
	said       *lastSaid
}

// lastSaid is when each message of a connection was told last.
type lastSaid struct {
	mu sync.Mutex
	at map[string]time.Time
}

// lossGap is how far apart two losses are at least.
const lossGap = 2 * time.Second

func newOneLoss(h slog.Handler) oneLoss {
	return oneLoss{Handler: h, said: &lastSaid{at: make(map[string]time.Time)}}
}

// Handle is slog.Handler's.
func (o oneLoss) Handle(ctx context.Context, r slog.Record) error {
	if o.connection && strings.HasPrefix(r.Message, "connection to NATS ") {
		o.said.mu.Lock()
		again := r.Time.Sub(o.said.at[r.Message]) < lossGap
		o.said.at[r.Message] = r.Time
		o.said.mu.Unlock()
		if again {
			return nil
		}
	}
	return o.Handler.Handle(ctx, r)
}

// WithAttrs is slog.Handler's.
func (o oneLoss) WithAttrs(list []slog.Attr) slog.Handler {
	for _, a := range list {
		o.connection = o.connection || a.Key == "connection"
	}
	o.Handler = o.Handler.WithAttrs(list)
	return o
}

// WithGroup is slog.Handler's.
func (o oneLoss) WithGroup(name string) slog.Handler {
	o.Handler = o.Handler.WithGroup(name)
	return o
}

// askOn asks, and where it goes on with what a door has told, asks again while no node
// answers: the one that did may have ended, and another comes.
func (a *app) askOn(ctx context.Context, goesOn bool, ask func() error) error {
	late := time.NewTimer(a.set.patience)
	defer late.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := ask()
		if !goesOn || !errors.Is(err, bus.ErrUnavailable) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return err
		}
	}
}
