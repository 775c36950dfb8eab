package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rules "github.com/sluice-run/sluice/policy/shell"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// Bounds of what is looked at before a line that counts as reading runs.
const (
	maxBases   = 64      // folders that its names are looked up from
	maxMatches = 20_000  // names that a pattern stands for
	maxEntries = 200_000 // names in the folders that it looks through
)

// inside refuses a line that counts as reading, and so runs unasked, although the
// files that are there make it something else, which the line alone does not show:
// a name, or a link that a command meets on its way, leads out of the workspace, a
// pattern becomes a flag, or git would start what the repository names. may, unless it is
// nil, is asked for the files that patterns and links stand for. What changes while the
// line runs is not seen.
func inside(workspace string, a rules.Analysis, may func(events.Operation) error) error {
	if !a.Reads {
		return nil
	}
	root, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return nil // it does not exist: bash will say so
	}
	l := look{root: root}
	l.bases = []string{root}
	for _, to := range a.Moves { // each may have been made, or not
		for _, from := range slices.Clone(l.bases) {
			if b := join(from, to); !slices.Contains(l.bases, b) {
				l.bases = append(l.bases, b)
			}
		}
		if len(l.bases) > maxBases {
			return refused("it goes into too many folders: give fewer cd in one call")
		}
	}
	for _, p := range a.Paths {
		if why := l.name(p); why != "" {
			return refused(why)
		}
	}
	if a.Follows {
		if why := l.followed(); why != "" {
			return refused(why)
		}
	}
	if a.Git {
		if why := repository(root); why != "" {
			return refused(why)
		}
	}
	if why := l.closed(a, may); why != "" {
		return refused(why)
	}
	return nil
}

func refused(why string) error {
	return &tools.Error{
		Code: events.AccessDenied, Class: events.ClassTool, Effects: events.EffectsNone, Path: "/command", Message: why,
	}
}

// look is a look at the names of one line.
type look struct {
	root  string
	bases []string
	dirs  []string // folders that the line names
	stood []string // files that patterns and links of the line stand for, from root
}

func join(base, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(base, name)
}

// name looks at one name from everywhere it may be meant, and says what is wrong.
func (l *look) name(name string) string {
	for _, base := range l.bases {
		places := []string{join(base, name)}
		if strings.ContainsAny(name, "*?[") {
			matches, err := filepath.Glob(join(escape(base), wider(name)))
			if err != nil || len(matches) > maxMatches {
				return fmt.Sprintf("%s is not a pattern of names that can be looked at: write the names out", tools.Visible(name))
			}
			for _, m := range matches {
				if strings.IndexAny(name, "*?[") == 0 && strings.HasPrefix(strings.TrimPrefix(m, base+"/"), "-") {
					return fmt.Sprintf("%s stands for %s too, which would be taken for a flag: write ./%s", tools.Visible(name), tools.Visible(filepath.Base(m)), tools.Visible(name))
				}
			}
			places = append(places, matches...)
		}
		for _, p := range places {
			real, err := filepath.EvalSymlinks(p)
			if err != nil {
				continue // there is none
			}
			if !within(l.root, real) {
				return fmt.Sprintf("%s leads out of the workspace, through a link", tools.Visible(name))
			}
			if p != places[0] {
				l.stands(p)
			}
			if real != p {
				l.stands(real)
			}
			if info, err := os.Stat(real); err == nil && info.IsDir() && !slices.Contains(l.dirs, real) {
				l.dirs = append(l.dirs, real)
			}
		}
	}
	return ""
}

func within(root, p string) bool {
	return p == root || strings.HasPrefix(p, strings.TrimSuffix(root, "/")+"/")
}

func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(s)
}

// wider is a pattern that matches all that a shell's does: the brackets of shells say
// more than those of the library, so that any text may stand for a part with one.
func wider(pattern string) string {
	segs := strings.Split(pattern, "/")
	for i, s := range segs {
		s = strings.ReplaceAll(s, `\`, `\\`)
		if from := strings.IndexByte(s, '['); from >= 0 {
			from = strings.IndexAny(s, "*?[")
			to := strings.LastIndexAny(s, "*?]") + 1
			s = s[:from] + "*" + s[max(from, to):]
			s = strings.ReplaceAll(s, "[", "*")
		}
		segs[i] = s
	}
	return strings.Join(segs, "/")
}

// followed goes through the folders that a line follows links in, as it would.
func (l *look) followed() string {
	queue := l.dirs
	if len(queue) == 0 {
		queue = l.bases
	}
	entries := 0
	why := leading(l.root, queue, map[string]bool{}, &entries, func(string) bool { return false })
	if why != "" {
		why += ", and the line follows links: leave out the flag that does so, or name a smaller folder"
	}
	return why
}

// leading goes through folders and all that they lead to, and says which link leads out of
// the workspace. skip says what is not gone into; seen and entries go on from look to look.
func leading(root string, queue []string, seen map[string]bool, entries *int, skip func(string) bool) string {
	for len(queue) > 0 {
		dir := queue[0]
		queue = queue[1:]
		if seen[dir] {
			continue
		}
		seen[dir] = true
		list, err := os.ReadDir(dir)
		if err != nil {
			continue // the line cannot read it either
		}
		if *entries += len(list); *entries > maxEntries {
			return "there are too many files to look at"
		}
		for _, e := range list {
			p := filepath.Join(dir, e.Name())
			if skip(p) {
				continue
			}
			if e.Type()&os.ModeSymlink != 0 {
				real, err := filepath.EvalSymlinks(p)
				if err != nil {
					continue // it leads nowhere
				}
				if !within(root, real) {
					rel, _ := filepath.Rel(root, p) // p is within root
					return tools.Visible(rel) + " leads out of the workspace"
				}
				if info, err := os.Stat(real); err != nil || !info.IsDir() {
					continue
				}
				p = real
			} else if !e.IsDir() {
				continue
			}
			queue = append(queue, p)
		}
	}
	return ""
}
