package fs

import (
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// permit asks the policy again where a link led to a file by another name than the one
// that was judged: else a link would be a way round every rule on paths. Where nobody
// can be asked, the files that decide what git runs are closed to such a write.
func permit(in tools.Invocation, class events.OpClass, at place) error {
	if at.name == at.clean {
		return nil
	}
	why := ""
	switch {
	case in.May == nil && class == events.OpWrite && policy.DecidesGit(at.name) && !policy.DecidesGit(at.clean):
		why = "it decides which programs git runs"
	case in.May == nil:
		return nil
	default:
		err := in.May(events.Operation{Class: class, Paths: []string{at.name}})
		if err == nil {
			return nil
		}
		why = err.Error()
	}
	return denied("%q is a link to %q, which may not be used through it (%s): name that file itself", at.given, at.name, why)
}

// open says whether the policy lets the call read a file that a walk has met.
func (w *walk) open(p string) bool {
	if w.may == nil || w.may(events.Operation{Class: events.OpRead, Paths: []string{p}}) == nil {
		return true
	}
	w.forbidden++
	return false
}
