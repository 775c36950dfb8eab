package policy

import (
	"cmp"
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/shell"
)

// AllowGate says whether a tool may be called at all: it must be registered, and
// be on every allowlist. Its ids are allow.unknown, allow.list and allow.permit.
func AllowGate(r Request) Verdict {
	deny := func(code events.Code, id, reason string) Verdict {
		return Verdict{Decision: Deny, Gate: GateAllow, Code: code, Reason: reason, Policies: []string{id}}
	}
	if !r.Known {
		return deny(events.UnknownTool, "allow.unknown",
			"There is no tool named "+shown(cmp.Or(r.Said, r.Tool))+"; call one of the tools in the list by its exact name.")
	}
	for _, list := range r.Allowlists {
		if list != nil && !slices.Contains(list, r.Tool) && !slices.Contains(list, "*") {
			return deny(events.PermissionDenied, "allow.list",
				"This agent may not call the tool "+shown(r.Tool)+"; go on with the tools that it may call, or tell the user what is missing.")
		}
	}
	return Verdict{Decision: Allow, Gate: GateAllow, Reason: "The tool is on every allowlist.", Policies: []string{"allow.permit"}}
}

// Judge asks AllowGate and then a, and returns the verdict of the first that
// does not allow. It is what a call meets, the gates that need state left out.
func Judge(a Authorizer, r Request) Verdict {
	if v := AllowGate(r); v.Decision != Allow {
		v.Version = a.Version()
		return v
	}
	return a.Authorize(r)
}

// Shown is a name from a model inside a sentence, in quotation marks: short, and
// without what could end the sentence or steer a terminal.
func Shown(name string) string { return shown(name) }

// shown is a name from a model inside a sentence: short, and without what could
// end the sentence or steer a terminal.
func shown(name string) string {
	return `"` + shell.Legible(name, 64) + `"`
}
