package actors

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/tools"
)

// learnt is what a tool's own functions say of the arguments of one call. It is
// asked once, and read by many goroutines.
type learnt struct {
	violations []tools.Violation // of the schema; if there are any, nothing else was asked
	broke      bool              // one of the functions panicked

	op        events.Operation
	tier      events.Tier
	safe      bool
	resources []events.ResourceUse
	key       string
	circuit   string
	asks      string
	operands  []string
}

// learn asks a tool's functions. They are strangers' code: one that panics is
// noted, and the call is denied; the node and the other calls go on.
func (g Gates) learn(t tools.Tool, a *Asked) *learnt {
	if a.about == nil {
		l := &learnt{}
		if a.Fault == nil {
			if p := guarded(func() { l.ask(t, a.Args.JSON) }); p != nil {
				*l = learnt{broke: true}
				if g.log != nil {
					g.log.Error("a tool broke before its call was let through", "tool", t.Name, "panic", p)
				}
			}
		}
		a.about = l
	}
	return a.about
}

func (l *learnt) ask(t tools.Tool, args json.RawMessage) {
	if l.violations = unsealed(tools.Validate(t, args), args); len(l.violations) > 0 {
		return
	}
	l.tier = cmp.Or(t.Tier, events.Irreversible)
	if t.TierOf != nil {
		l.tier = t.TierOf(args)
	}
	l.op, l.safe = events.Operation{Class: events.OpExecute}, l.tier == events.Readonly
	if l.safe {
		l.op.Class = events.OpRead
	}
	if t.Operation != nil {
		l.op = t.Operation(args)
	}
	if t.Safe != nil {
		l.safe = t.Safe(args)
	}
	if t.Resources != nil {
		l.resources = t.Resources(args)
	}
	if t.Key != nil {
		l.key = t.Key(args)
	}
	if t.Circuit != nil {
		l.circuit = circuitName(t.Circuit(args))
	}
	if t.Asks != nil {
		l.asks = t.Asks(args)
	}
	if t.Operands != nil {
		l.operands = t.Operands(args)
	}
}

// unsealed are the violations of a schema but for those of placeholders: what they stand
// for is not known here, and is checked where it is put in, before the tool runs.
func unsealed(found []tools.Violation, args json.RawMessage) []tools.Violation {
	if len(found) == 0 {
		return nil
	}
	sealed := secrets.SealedPaths(args)
	return slices.DeleteFunc(found, func(v tools.Violation) bool { return slices.Contains(sealed, v.Path) })
}
