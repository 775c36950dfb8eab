package shell

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	rules "github.com/sluice-run/sluice/policy/shell"
	"github.com/sluice-run/sluice/tools"
)

// maxAsked is how many files the policy is asked about at once: a call that names too many
// paths is denied.
const maxAsked = 500

// stands keeps a file that the line does not name by its own name.
func (l *look) stands(p string) {
	if rel, err := filepath.Rel(l.root, p); err == nil {
		l.stood = append(l.stood, rel)
	}
}

// closed asks whether the files that the line's patterns and links stand for may be read,
// and says what may not. Where the line itself is one that a person had to agree to, they
// saw the pattern, and nothing is asked.
func (l *look) closed(a rules.Analysis, may func(events.Operation) error) string {
	if may == nil || len(l.stood) == 0 {
		return ""
	}
	reads := func(paths []string) error {
		return may(events.Operation{Class: events.OpExecute, Commands: a.Commands, Paths: paths, Reads: true})
	}
	if reads(slices.Concat(a.Paths, a.Paths)) != nil {
		return ""
	}
	slices.Sort(l.stood)
	for some := range slices.Chunk(slices.Compact(l.stood), maxAsked) {
		if reads(some) == nil {
			continue
		}
		for _, p := range some {
			if err := reads([]string{p}); err != nil {
				return fmt.Sprintf("a pattern or a link of the line stands for %s, which may not be read (%s): name the files that are meant", tools.Visible(p), strings.TrimSuffix(err.Error(), "."))
			}
		}
	}
	return ""
}
