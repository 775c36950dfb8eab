package shell

import rules "github.com/sluice-run/sluice/policy/shell"

// classify reads a command line as the policy does. The workspace is not part
// of it: what a line names by an absolute path is not known to be inside, and
// so does not count as reading.
func classify(line string) rules.Analysis { return rules.Classify(line) }
