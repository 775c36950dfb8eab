package jetlog

import "context"

// external is the barrier of a server that is not ours: what it acknowledges
// is as durable as it was set up to make it.
type external struct{}

// Wait is bus.Barrier's. There is nothing that could be waited for.
func (external) Wait(ctx context.Context) error { return ctx.Err() }

// Mode is bus.Barrier's.
func (external) Mode() string { return "external" }
