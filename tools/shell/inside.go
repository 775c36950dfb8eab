package shell

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	rules "github.com/sluice-run/sluice/policy/shell"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// maxBases bounds the folders that the names of a line are looked up from.
const maxBases = 16

// inside refuses a line that counts as reading, and so runs unasked, although a
// name in it leads out of the workspace through a link: the line alone does not
// show that. Links that a command meets on its own way are not seen.
func inside(workspace string, a rules.Analysis) error {
	if !a.Reads {
		return nil
	}
	root, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return nil // it does not exist: bash will say so
	}
	bases := []string{root}
	for _, p := range a.Paths { // any of them may be where the line goes with cd
		if slices.Contains(a.Commands, "cd "+p) && len(bases) < maxBases {
			bases = append(bases, filepath.Join(root, p))
		}
	}
	for _, p := range a.Paths {
		for _, base := range bases {
			if leadsOut(root, base, p) {
				return &tools.Error{
					Code: events.AccessDenied, Class: events.ClassTool, Effects: events.EffectsNone, Path: "/command",
					Message: fmt.Sprintf("%s leads out of the workspace, through a link", tools.Visible(p)),
				}
			}
		}
	}
	return nil
}

// leadsOut says whether a name, or one that a pattern stands for, is that of
// something outside of root.
func leadsOut(root, base, name string) bool {
	if filepath.IsAbs(name) {
		base = ""
	}
	matches := []string{filepath.Join(base, name)}
	if strings.ContainsAny(name, "*?[") {
		more, _ := filepath.Glob(matches[0]) // a pattern that it does not know stands for itself
		matches = append(matches, more...)
	}
	for _, m := range matches {
		real, err := filepath.EvalSymlinks(m)
		if err == nil && real != root && !strings.HasPrefix(real, strings.TrimSuffix(root, "/")+"/") {
			return true
		}
	}
	return false
}
