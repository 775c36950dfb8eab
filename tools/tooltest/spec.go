package tooltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// schemaIsStrict: the tool can be registered, its examples are valid, arguments
// that it does not know are refused, and each has a description.
func schemaIsStrict(c *check) {
	if _, err := tools.NewRegistry(c.tool); err != nil {
		c.fault("%v", err)
	}
	if strings.TrimSpace(c.tool.Description) == "" {
		c.fault("the tool has no description")
	}
	var s struct {
		Type       string `json:"type"`
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(c.tool.Schema, &s); err != nil {
		c.fault("the schema cannot be read: %v", err)
	}
	if s.Type != "object" {
		c.fault("the schema's type is %q, not object", s.Type)
	}
	for name, p := range s.Properties {
		if p.Description == "" {
			c.fault("argument %s has no description", name)
		}
	}
	for _, w := range c.tool.Writes {
		if _, ok := s.Properties[strings.Split(strings.TrimPrefix(w, "/"), "/")[0]]; !ok {
			c.fault("Writes names %s, which is no argument", w)
		}
	}
	for _, e := range c.examples {
		for _, v := range tools.Validate(c.tool, []byte(e.Args)) {
			c.fault("%s: at %q: %s", e.title(), v.Path, v.Message)
		}
		if more := withUnknown(e.Args); len(tools.Validate(c.tool, more)) == 0 {
			c.fault("%s: an argument that does not exist is accepted: %s", e.title(), more)
		}
	}
}

// withUnknown is args with one more argument.
func withUnknown(args string) json.RawMessage {
	m := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(args), &m) // what is no object is found elsewhere
	m["no_such_argument"] = json.RawMessage("1")
	b, _ := json.Marshal(m) // raw values that were parsed: it cannot fail
	return b
}

// opinion is all that a spec says of one call.
type opinion struct {
	Tier      events.Tier
	Safe      bool
	Operation events.Operation
	Resources []events.ResourceUse
	Key       string
	Asks      string
	Operands  []string
}

func opinionOf(s tools.Spec, args json.RawMessage) opinion {
	o := opinion{Tier: s.Tier}
	if o.Tier == "" {
		o.Tier = events.Irreversible
	}
	if s.TierOf != nil {
		o.Tier = s.TierOf(args)
	}
	o.Safe = o.Tier == events.Readonly
	if s.Safe != nil {
		o.Safe = s.Safe(args)
	}
	o.Operation = events.Operation{Class: events.OpExecute}
	if o.Tier == events.Readonly {
		o.Operation.Class = events.OpRead
	}
	if s.Operation != nil {
		o.Operation = s.Operation(args)
	}
	if s.Resources != nil {
		o.Resources = s.Resources(args)
	}
	if s.Key != nil {
		o.Key = s.Key(args)
	}
	if s.Asks != nil {
		o.Asks = s.Asks(args)
	}
	if s.Operands != nil {
		o.Operands = s.Operands(args)
	}
	return o
}

func (o opinion) String() string {
	b, err := json.Marshal(o)
	return fmt.Sprint(string(b), err)
}

// specIsPure: a spec says the same every time, to many at once, and leaves the
// arguments as they are.
func specIsPure(c *check) {
	for _, e := range c.examples {
		first := opinionOf(c.tool.Spec, json.RawMessage(e.Args)).String()
		args := json.RawMessage(e.Args)
		var all sync.WaitGroup
		got := make([]string, 8)
		for i := range got {
			all.Go(func() { got[i] = opinionOf(c.tool.Spec, args).String() })
		}
		all.Wait()
		for _, g := range got {
			if g != first {
				c.fault("%s: the spec says %s, and then %s", e.title(), first, g)
				break
			}
		}
		if string(args) != e.Args {
			c.fault("%s: the spec changes the arguments", e.title())
		}
	}
}

// operationIsNamed: the policy learns what the call would do.
func operationIsNamed(c *check) {
	tiers := []events.Tier{events.Readonly, events.Reversible, events.Irreversible, events.Approval}
	classes := []events.OpClass{events.OpRead, events.OpWrite, events.OpExecute, events.OpNetwork, events.OpDelegate}
	for _, e := range c.examples {
		o := opinionOf(c.tool.Spec, json.RawMessage(e.Args))
		op := o.Operation
		if !slices.Contains(tiers, o.Tier) {
			c.fault("%s: there is no tier %q", e.title(), o.Tier)
		}
		if !slices.Contains(classes, op.Class) {
			c.fault("%s: there is no class of operations %q", e.title(), op.Class)
		}
		switch {
		case op.Class == events.OpWrite && len(op.Paths) == 0:
			c.fault("%s: a write that names no path", e.title())
		case op.Class == events.OpNetwork && len(op.Hosts) == 0:
			c.fault("%s: a use of the network that names no host", e.title())
		case op.Class == events.OpExecute && op.Reads != (o.Tier == events.Readonly):
			c.fault("%s: tier %s, but Operation.Reads is %v", e.title(), o.Tier, op.Reads)
		case o.Tier == events.Readonly && op.Class == events.OpWrite:
			c.fault("%s: a write whose tier is readonly", e.title())
		}
		if c.tool.Compensate != nil && o.Tier != events.Reversible {
			c.fault("%s: an undo for tier %s", e.title(), o.Tier)
		}
		if c.tool.Asks != nil && (o.Asks == "" || strings.ContainsAny(o.Asks, "\x1b\r\u202e")) {
			c.fault("%s: what a person would read is %q", e.title(), o.Asks)
		}
	}
}
