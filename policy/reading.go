package policy

import (
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/shell"
)

// StricterTier is the tier that a call of a class counts as, where its tool claims
// another one: what writes or hands over is not readonly, and a tier that is not known
// is irreversible. A shell line that only reads executes, and is readonly.
func StricterTier(class events.OpClass, claimed events.Tier) events.Tier {
	switch claimed {
	case events.Reversible, events.Irreversible, events.Approval:
		return claimed
	case events.Readonly:
		if class != events.OpWrite && class != events.OpDelegate {
			return claimed
		}
	}
	return events.Irreversible
}

// Readings are what a call may be, of which the strictest counts: first what its tool
// says, and then what its tool does not say. A tool that is given a shell line runs it,
// whatever its name and its class. One that reads, and is not readonly, does more than
// it says. What a tool names beside its shell line is not judged by the line.
func Readings(r Request) []Request {
	out := []Request{r}
	if r.Op.Class != events.OpExecute {
		mild := r.Op.Class == events.OpRead || r.Op.Class == events.OpNetwork
		lies := mild && r.Tier != events.Readonly && r.Tier != ""
		if lies || holdsLine(r.Args) {
			also := r
			also.Op.Class = events.OpExecute
			out = append(out, also)
		}
		return out
	}
	lines, ok := shellText(r)
	if !ok || len(r.Op.Paths) == 0 && len(r.Op.Hosts) == 0 {
		return out
	}
	beside := r
	beside.Op.Paths, beside.Op.Hosts = besideLines(r, lines)
	if len(beside.Op.Paths) > 0 || len(beside.Op.Hosts) > 0 {
		beside.lineless = true
		out = append(out, beside)
	}
	return out
}

// besideLines are the hosts, and the paths that leave the workspace, of an operation that
// its shell lines do not name. Paths inside are judged with the line.
func besideLines(r Request, lines []shellLineOf) (paths, hosts []string) {
	for _, p := range r.Op.Paths {
		if p != "" && CheckPath(inside(r.Workspace, p)) != nil {
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 && len(r.Op.Hosts) == 0 {
		return nil, nil
	}
	var named, reached []string
	for _, l := range lines {
		a := shell.Scope{Workspace: cleanWorkspace(r.Workspace), Network: r.Network}.Classify(l.text)
		named, reached = slices.Concat(named, a.Paths, a.Names), append(reached, a.Hosts...)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return slices.Contains(named, p) })
	hosts = slices.DeleteFunc(slices.Clone(r.Op.Hosts), func(h string) bool { return slices.Contains(reached, h) })
	return paths, hosts
}

// Strictest is the verdict of judge that is the strictest, of the first of the readings
// that have it. readings must not be empty.
func Strictest(readings []Request, judge func(Request) Verdict) Verdict {
	v := judge(readings[0])
	for _, r := range readings[1:] {
		if w := judge(r); rank(w.Decision) > rank(v.Decision) {
			v = w
		}
	}
	return v
}
