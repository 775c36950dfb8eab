package policy

import (
	"cmp"

	"github.com/sluice-run/sluice/events"
)

func unknownTool(r Request) Finding {
	if r.Known {
		return Finding{}
	}
	return Finding{
		Decision: Deny, Code: events.UnknownTool,
		Reason: "There is no tool named " + shown(cmp.Or(r.Said, r.Tool)) + "; call one of the tools in the list by its exact name.",
	}
}

// unknownClass denies what no other row would look at, before one of them asks.
func unknownClass(r Request) Finding {
	switch r.Op.Class {
	case events.OpRead, events.OpWrite, events.OpExecute, events.OpNetwork, events.OpDelegate:
		return Finding{}
	}
	return Finding{Decision: Deny, Reason: "What " + shown(r.Tool) + " would do is not known, so it may not run; use a tool that reads or writes files."}
}

// writes says whether the turn's mode lets a call have effects. An empty mode
// means write; a mode that is not known does not.
func writes(r Request) bool { return r.Mode == events.ModeWrite || r.Mode == "" }

func readOnly(r Request) Finding {
	if writes(r) {
		return Finding{}
	}
	mild := r.Op.Class == events.OpRead || r.Op.Class == events.OpNetwork
	if mild && (r.Tier == events.Readonly || r.Tier == "") {
		return Finding{}
	}
	return Finding{Decision: Deny, Reason: "This agent only reads, so it may not call " + shown(r.Tool) + "; use tools that read, and describe the change instead."}
}

func pathMissing(r Request) Finding {
	if r.Op.Class != events.OpWrite {
		return Finding{}
	}
	for _, p := range r.Op.Paths {
		if p != "" {
			return Finding{}
		}
	}
	return Finding{Decision: Deny, Code: events.InvalidParam, Path: "/path", Reason: "Writing needs the path of a file; give one relative to the workspace."}
}

// maxPaths is the most paths that one call may name.
const maxPaths = 1000

func pathWorkspace(r Request) Finding {
	if len(r.Op.Paths) > maxPaths {
		return Finding{Decision: Deny, Code: events.TooLarge, Reason: tooManyPaths}
	}
	if _, ok := shellText(r); ok {
		return Finding{} // the shell's own rules look at those
	}
	for _, p := range r.Op.Paths {
		if p == "" {
			continue
		}
		if err := CheckPath(inside(r.Workspace, p)); err != nil {
			return Finding{Decision: Deny, Code: events.AccessDenied, Path: pointer(r.Args, p), Reason: sentence(err)}
		}
	}
	return Finding{}
}

// pathRepository asks before a call writes what git runs: then even git status would
// run it.
func pathRepository(r Request) Finding {
	if r.Op.Class != events.OpWrite {
		return Finding{}
	}
	for _, p := range r.Op.Paths {
		if DecidesGit(p) {
			return Finding{Decision: Ask, Path: pointer(r.Args, p), Reason: "The files of a git repository decide which programs git runs; a person must look at the change first."}
		}
	}
	return Finding{}
}

// pathPrograms asks before a call writes what agents and editors run: it could take the
// agent out from behind the gate.
func pathPrograms(r Request) Finding {
	if r.Op.Class != events.OpWrite {
		return Finding{}
	}
	for _, p := range r.Op.Paths {
		if NamesPrograms(p) {
			return Finding{Decision: Ask, Path: pointer(r.Args, p), Reason: "This configuration names programs that agents or editors run; a person must look at the change first."}
		}
	}
	return Finding{}
}

func networkOff(r Request) Finding {
	if r.Network || r.Op.Class != events.OpNetwork && len(r.Op.Hosts) == 0 {
		return Finding{}
	}
	if _, ok := shellText(r); ok {
		return Finding{}
	}
	return Finding{Decision: Deny, Reason: "The operator has not allowed the network; go on with what is in the workspace."}
}

// AskByTier asks a person about every call of the tier approval.
func AskByTier(r Request) Finding {
	if r.Tier != events.Approval {
		return Finding{}
	}
	return Finding{Decision: Ask, Reason: "The tool " + shown(r.Tool) + " is one that a person must agree to."}
}

func delegateAsk(r Request) Finding {
	if r.Op.Class != events.OpDelegate {
		return Finding{}
	}
	return Finding{Decision: Ask, Reason: "Handing work over to another agent needs a person's agreement."}
}

func permit(class events.OpClass, reason string) func(Request) Finding {
	return func(r Request) Finding {
		if r.Op.Class != class {
			return Finding{}
		}
		return Finding{Decision: Allow, Reason: reason}
	}
}

// executePermit lets a tool act that is neither a shell nor a file's writer.
func executePermit(r Request) Finding {
	if _, ok := shellText(r); ok || r.Op.Class != events.OpExecute {
		return Finding{}
	}
	return Finding{Decision: Allow, Reason: "The tool acts through its own code, in a mode that may."}
}
