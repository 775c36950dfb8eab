package fs

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// Bounds of a search for near names, which must cost less than a second guess.
const (
	maxNear        = 3
	maxNearVisits  = 5000
	maxNearEntries = 2000
)

// notFound is the answer to a path where nothing is: it names what is near.
func notFound(ctx context.Context, root *os.Root, at place) *tools.Error {
	parent, missing := nearestParent(root, at.name)
	msg := fmt.Sprintf("there is no %q", at.given)
	switch info, err := root.Stat(parent); {
	case err == nil && !info.IsDir():
		msg += fmt.Sprintf(": %q is a file, not a directory", parent)
	case path.Dir(at.name) != parent:
		msg += fmt.Sprintf(": there is no directory %q", path.Join(parent, missing))
	}
	near := nearNames(ctx, root, parent, missing, path.Base(at.name))
	if len(near) > 0 {
		msg += "; did you mean " + strings.Join(near, " or ") + "?"
	} else {
		msg += "; look for it with Glob, for example **/" + globQuote(path.Base(at.name))
	}
	return refusal(events.NotFound, events.ClassTool, "/path", "%s", msg)
}

// nearestParent is the deepest part of name that exists, and the first that does not.
func nearestParent(root *os.Root, name string) (parent, missing string) {
	for name != "." {
		dir, base := path.Dir(name), path.Base(name)
		if _, err := root.Lstat(dir); err == nil {
			return dir, base
		}
		name = dir
	}
	return ".", ""
}

// nearNames are paths that a model may have meant: near names beside the
// missing one, and files of the same name elsewhere.
func nearNames(ctx context.Context, root *os.Root, parent, missing, base string) []string {
	type candidate struct {
		path     string
		distance int
	}
	var found []candidate
	if dir, err := openFolder(root, parent); err == nil {
		names, _ := dir.Readdirnames(maxNearEntries) // what was read before an error will do
		dir.Close()
		for _, n := range names {
			if d, ok := near(missing, n); ok && !leftover(n) {
				found = append(found, candidate{path.Join(parent, n), d})
			}
		}
	}
	w := walk{root: root, most: maxNearVisits}
	w.each = func(p string, d fs.DirEntry) error {
		if !d.IsDir() && strings.EqualFold(path.Base(p), base) {
			found = append(found, candidate{p, 1})
		}
		return nil
	}
	_ = w.run(ctx, ".") // a search that was cut short has fewer suggestions, no wrong ones
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.path, b.path))
	})
	var out []string
	for _, c := range found {
		if !slices.Contains(out, c.path) && len(out) < maxNear {
			out = append(out, c.path)
		}
	}
	return out
}

// near says whether b may be a slip of the pen for a, however capitals are written.
func near(a, b string) (int, bool) {
	a, b = strings.ToLower(a), strings.ToLower(b)
	most := 1 + utf8.RuneCountInString(a)/3
	if diff := utf8.RuneCountInString(a) - utf8.RuneCountInString(b); diff > most || -diff > most {
		return 0, false
	}
	d := distance(a, b)
	return d, d <= most
}

// distance is how many letters must be put in, taken out or changed to make b of a.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range y {
			cost := diagonal
			if r != s {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}

// globQuote makes a pattern that matches name alone.
func globQuote(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`).Replace(name)
}
