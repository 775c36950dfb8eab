package actors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// errNoMore says that a call may not do what has turned up while it runs.
var errNoMore = errors.New("the policy does not allow it")

// May asks the policy again for a call that runs: with op, which it did not name, in
// the place of what it was judged by. Only allow lets it: nobody can be asked now. The
// answer is the tool's to tell, and is in its result.
func (g Gates) May(a *Asked) func(op events.Operation) error {
	return func(op events.Operation) error {
		tool, known := g.Registry.Lookup(a.Tool)
		req := g.request(a, tool, known)
		about := g.learn(tool, a)
		req.Tier, req.Op = about.tier, op
		if slices.Equal(op.Paths, about.op.Paths) && slices.Equal(op.Hosts, about.op.Hosts) && op.Class == about.op.Class {
			return nil // it is what was let through
		}
		v := g.Authorizer.Authorize(req)
		if v.Decision == policy.Allow {
			return nil
		}
		return fmt.Errorf("%w: %s", errNoMore, v.Reason)
	}
}
