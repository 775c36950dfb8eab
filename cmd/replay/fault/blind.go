package fault

import (
	"context"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/secrets"
)

// blind stands for a vault whose values went with the recorded turn: each placeholder
// is its own value. No tool is run here that could want another.
type blind struct{}

// Open is actors.Vault's.
func (blind) Open(_ context.Context, _ events.CallKey, refs []events.SecretRef) (map[string]secrets.Value, error) {
	out := make(map[string]secrets.Value, len(refs))
	for _, r := range refs {
		out[r.ID] = secrets.StringValue(secrets.Placeholder(r.ID))
	}
	return out, nil
}

// Drop is actors.Vault's.
func (blind) Drop(context.Context, events.CallKey, []events.SecretRef) error { return nil }
