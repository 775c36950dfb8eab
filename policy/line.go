package policy

import (
	"encoding/json"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/shell"
)

// shellLine judges the shell line of a call that has one.
func (hr hostRule) shellLine(r Request) Finding {
	lines, ok := shellText(r)
	if !ok {
		return Finding{}
	}
	scope := shell.Scope{Workspace: cleanWorkspace(r.Workspace), Network: r.Network}
	var worst Finding
	for _, l := range lines {
		a := scope.Classify(l.text)
		f := Finding{Decision: Decision(a.Decision), Reason: a.Reason, Path: l.path, Policies: a.Policies}
		if f.Decision == Deny {
			f.Code = shellCode(a.Policies)
		}
		if g := hr.shell(r, a); rank(g.Decision) > rank(f.Decision) {
			f = g
			f.Path = l.path
		}
		if rank(f.Decision) > rank(worst.Decision) {
			worst = f
		}
	}
	return worst
}

// shellCode tells what is wrong with the line itself from what it would do.
func shellCode(policies []string) events.Code {
	for _, p := range policies {
		switch p {
		case "shell.encoding", "shell.limit", "shell.empty", "shell.syntax", "shell.ambiguous":
		default:
			return events.PermissionDenied
		}
	}
	return events.InvalidParam
}

// shell looks at the addresses in a line that may use the network.
func (hr hostRule) shell(r Request, a shell.Analysis) Finding {
	if !r.Network {
		return Finding{}
	}
	for _, h := range a.Hosts {
		if hr.trusts(h) {
			continue
		}
		if err := checkAny(h); err != nil {
			return Finding{Decision: Deny, Code: events.AccessDenied, Reason: sentence(err), Policies: []string{"network.host"}}
		}
	}
	return Finding{}
}

// shellLineOf is a line and the argument that holds it.
type shellLineOf struct{ text, path string }

// shellText finds the shell lines of a call that executes: in its arguments,
// whatever the case of their names, or else in its parsed operation.
func shellText(r Request) (lines []shellLineOf, ok bool) {
	if r.Op.Class != events.OpExecute {
		return nil, false
	}
	for _, m := range members(r.Args) {
		if !strings.EqualFold(m.name, "command") && !strings.EqualFold(m.name, "cmd") && !strings.EqualFold(m.name, "script") {
			continue
		}
		lines = append(lines, shellLineOf{lineOf(m.value), "/" + escapePointer(m.name)})
	}
	if len(lines) == 0 {
		for _, c := range r.Op.Commands {
			lines = append(lines, shellLineOf{text: c})
		}
	}
	return lines, len(lines) > 0
}

// lineOf is the shell line that a value stands for: a text, or a list of words.
// Anything else is an empty line, which is denied.
func lineOf(raw json.RawMessage) string {
	var line string
	if json.Unmarshal(raw, &line) == nil {
		return line
	}
	var words []string
	if json.Unmarshal(raw, &words) != nil {
		return ""
	}
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}
