package gateway

import (
	"context"
	"fmt"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Get returns a turn as it stood when the call began, durable: who has just
// submitted it finds it. It returns lifecycle.ErrNoTurn where there is none.
func (d *Desk) Get(ctx context.Context, key events.TurnKey) (View, error) {
	if err := key.Check(); err != nil {
		return View{}, err
	}
	v, err := d.settled(ctx, key)
	switch {
	case err != nil:
		return View{}, err
	case len(v.Commits) == 0:
		return View{}, fmt.Errorf("turn %s: %w", key, lifecycle.ErrNoTurn)
	case v.Turn.Submitted == nil:
		return View{}, fmt.Errorf("turn %s: %w any more: its beginning is not in the log", key, lifecycle.ErrNoTurn)
	}
	return v, nil
}

// Blob returns the bytes that a reference names, or bus.ErrNotFound.
func (d *Desk) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	return d.bus.Blobs().Get(ctx, ref)
}
