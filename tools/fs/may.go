package fs

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// permit asks the policy again where a link led to a file by another name than the one
// that was judged: else a link would be a way round every rule on paths. Where nobody
// can be asked, the files that decide what others run are closed to such a write.
func permit(in tools.Invocation, class events.OpClass, at place) error {
	if ofNode(closedIn(in), at.name) {
		return denied("%q belongs to the node itself: no call reads or changes it", at.given)
	}
	if at.name == at.clean {
		return nil
	}
	why := ""
	switch {
	case in.May == nil && class == events.OpWrite && policy.DecidesGit(at.name) && !policy.DecidesGit(at.clean):
		why = "it decides which programs git runs: name that file itself"
	case in.May == nil && class == events.OpWrite && policy.NamesPrograms(at.name) && !policy.NamesPrograms(at.clean):
		why = "it names programs that agents or editors run: name that file itself"
	case in.May == nil:
		return nil
	default:
		err := in.May(events.Operation{Class: class, Paths: []string{at.name}})
		if err == nil {
			return nil
		}
		why = err.Error()
	}
	return denied("%q is a link to %q, which may not be used through it: %s", at.given, at.name, why)
}

// closedIn are the places of a workspace that are the node's own, by their real names
// from there; "." is all of it.
func closedIn(in tools.Invocation) []string {
	if len(in.Closed) == 0 {
		return nil
	}
	top, err := filepath.EvalSymlinks(in.Workspace)
	if err != nil {
		top = in.Workspace
	}
	var out []string
	for _, dir := range in.Closed {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if rel, err := filepath.Rel(dir, top); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return []string{"."}
		}
		if rel, err := filepath.Rel(top, dir); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	return out
}

// ofNode says whether a real name is one of the places, or below one.
func ofNode(places []string, name string) bool {
	return slices.ContainsFunc(places, func(p string) bool {
		return p == "." || name == p || strings.HasPrefix(name, p+"/")
	})
}

// open says whether the policy lets the call read a file that a walk has met.
func (w *walk) open(p string) bool {
	if ofNode(w.node, p) {
		w.forbidden++
		return false
	}
	if w.may == nil || w.may(events.Operation{Class: events.OpRead, Paths: []string{p}}) == nil {
		return true
	}
	w.forbidden++
	return false
}
