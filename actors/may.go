package actors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
)

// errNoMore says that a call may not do what has turned up while it runs.
var errNoMore = errors.New("the policy does not allow it")

// May asks the policy again for a call that runs: with op, which it did not name, in
// the place of what it was judged by. Only allow lets it: nobody can be asked now, unless
// somebody was, and has agreed to just that file by its real name. The answer is the
// tool's to tell, and is in its result.
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
		if v.Decision == policy.Allow || v.Decision == policy.Ask && op.Class == about.op.Class && a.agreed(op) {
			return nil
		}
		if v.Decision == policy.Ask {
			return fmt.Errorf("%w without a person's agreement, and nobody is asked while a call runs: name it itself, in another call (%s)", errNoMore, v.Reason)
		}
		return fmt.Errorf("%w: %s", errNoMore, v.Reason)
	}
}

// agreed says whether a person was shown every file of the operation, by the name that
// it has once links are followed, before they said yes.
func (a *Asked) agreed(op events.Operation) bool {
	return len(op.Paths) > 0 && len(op.Hosts) == 0 && !slices.ContainsFunc(op.Paths, func(p string) bool { return !slices.Contains(a.shown, p) })
}

// agreedTo is the call as the gates see it once it runs: with the files that a person
// was shown who has agreed to it, if one was.
func (o owe) agreedTo(call *lifecycle.Call) *Asked {
	files, ok := lifecycle.Bound(o.turn, call)
	if !ok || len(files.Base) == 0 {
		return o.asked
	}
	a := *o.asked // others read it
	a.shown = nil
	for _, f := range files.Base {
		a.shown = append(a.shown, f.Path)
	}
	return &a
}

// within is the call as the gates see it once its turn is planned: it may have inherited a
// yes for the session, and then nobody need be asked.
func (a *Asked) within(t lifecycle.Turn) *Asked {
	if a == nil || t.Submitted.CanAsk || !lifecycle.AgreedBefore(t, a.Tool, a.Args.Hash) {
		return a
	}
	b := *a // others read it
	b.agreedBefore = true
	return &b
}

// mayShow asks the policy for what a person is to be shown, before they are asked: what
// somebody would have to agree to may be, what is denied may not.
func (g Gates) mayShow(a *Asked) func(op events.Operation) error {
	return func(op events.Operation) error {
		shown := *a
		shown.shown = op.Paths
		return g.May(&shown)(op)
	}
}

// Refuses says in a sentence why the gates that need no I/O would deny a call of the
// turn with other arguments; "" where they would not, or where its tool is not known
// here. It may be called from many goroutines.
func (n *Node) Refuses(t lifecycle.Turn, call int, args lifecycle.Args) string {
	raw := &t.Submitted.Calls[call]
	if _, known := n.cfg.Registry.Lookup(raw.Tool); !known {
		return ""
	}
	findings, _ := n.gates.Static(&Asked{Tool: raw.Tool, Args: args, Raw: raw, Turn: t.Submitted, Key: t.Key})
	if last := findings[len(findings)-1]; last.Ruling == lifecycle.Deny {
		return last.Reason
	}
	return ""
}
