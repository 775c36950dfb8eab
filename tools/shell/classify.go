package shell

import (
	"path/filepath"

	rules "github.com/sluice-run/sluice/policy/shell"
)

// classify reads a command line by its arguments alone. The workspace is not part
// of it: what a line names by an absolute path is not known to be inside, and so
// does not count as reading.
func classify(line string) rules.Analysis { return rules.Classify(line) }

// classifyIn reads a command line as the policy does, which knows the workspace: a
// line that it lets run unasked is one that must only read when it runs.
func classifyIn(workspace, line string) rules.Analysis {
	s := rules.Scope{Workspace: workspace}
	if filepath.IsAbs(workspace) {
		s.Workspace = filepath.Clean(workspace)
	}
	return s.Classify(line)
}
