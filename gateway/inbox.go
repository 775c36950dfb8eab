package gateway

import (
	"context"
	"errors"
	"sync"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// inbox is the fold of what waits for a person, as far as it has been read.
type inbox struct {
	mu    sync.Mutex
	at    events.Position // the next event to fold; zero: nothing was read yet
	state projections.Waiting
}

// Inbox is every approval that waits for a person, soonest expiry first. The
// first call reads the whole log, later ones what came since.
func (d *Desk) Inbox(ctx context.Context) ([]projections.Pending, error) {
	in := &d.inbox
	in.mu.Lock()
	defer in.mu.Unlock()
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
		case err != nil:
			return nil, err
		}
		return in.state.List(), nil
	}
}
