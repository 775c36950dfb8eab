package cedar

import (
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// classification is what a call amounts to.
type classification struct {
	class             events.OpClass
	reads, understood bool
}

func (c classification) record() types.Record {
	return types.NewRecord(types.RecordMap{
		"class": types.EntityUID{Type: typeClass, ID: types.String(c.class)},
		"reads": types.Boolean(c.reads), "understood": types.Boolean(c.understood),
	})
}

// deed is what one deed of a shell line makes of the whole.
type deed struct {
	class      events.OpClass
	understood bool
}

// deeds are those that are understood. What another one does is to run something that
// nothing is known of.
var deeds = map[string]deed{
	"read":  {events.OpRead, true},
	"lines": {events.OpRead, true}, "outside": {events.OpRead, true}, "environment": {events.OpRead, true},

	"remove": {events.OpWrite, true}, "git-discard": {events.OpWrite, true}, "redirect": {events.OpWrite, true},
	"redirect-null": {events.OpWrite, true}, "move-copy": {events.OpWrite, true}, "mode-owner": {events.OpWrite, true},
	"write": {events.OpWrite, true},

	"network": {events.OpNetwork, true},

	"superuser": {events.OpExecute, true}, "machine": {events.OpExecute, true}, "interactive": {events.OpExecute, true},
	"install": {events.OpExecute, true}, "find-action": {events.OpExecute, true}, "wrapper": {events.OpExecute, true},
	"loader": {events.OpExecute, true}, "assignment": {events.OpExecute, true}, "git-folder": {events.OpExecute, true},
}

// gravity orders what a line does.
var gravity = map[events.OpClass]int{events.OpRead: 1, events.OpWrite: 2, events.OpNetwork: 3, events.OpExecute: 4}

// classify is what a call amounts to.
func classify(r policy.Request, f *policy.Facts) classification {
	if !f.Line {
		mild := r.Op.Class == events.OpRead || r.Op.Class == events.OpNetwork
		return classification{r.Op.Class, mild && (r.Tier == events.Readonly || r.Tier == ""), true}
	}
	c := classification{events.OpRead, len(f.Deeds) > 0, len(f.Deeds) > 0}
	for _, d := range f.Deeds {
		name := strings.TrimPrefix(d.Rule, "shell.")
		does, known := deeds[name]
		if !known {
			does.class = events.OpExecute
		}
		if gravity[does.class] > gravity[c.class] {
			c.class = does.class
		}
		c.reads, c.understood = c.reads && name == "read", c.understood && does.understood
	}
	return c
}
