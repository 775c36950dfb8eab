package fs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// errEnough ends a walk early; run does not return it.
var errEnough = errors.New("enough")

// walk goes through a folder in the order of whole paths, byte by byte. It
// follows no symbolic link, and skips .git, what .gitignore files name, and
// temporary files of this package.
type walk struct {
	root *os.Root
	all  bool // also what .gitignore files name
	most int  // entries looked at; 0 means maxVisits
	// may asks the policy about what open is asked; nil: everything is open.
	may  func(events.Operation) error
	node []string // places of the node's own, which are never open; see closedIn
	// each gets every file, link and folder. errEnough ends the walk, and
	// fs.SkipDir skips what is in a folder.
	each func(p string, d fs.DirEntry) error

	visits  int
	skipped int  // entries that .gitignore files name
	closed  int  // folders that could not be read
	cut     bool // most was reached

	forbidden int // files that the policy closes to this call
}

// run walks dir, whose own name no .gitignore is asked about: it was named.
// It returns ctx's error or that of each.
func (w *walk) run(ctx context.Context, dir string) error {
	var rules []rule
	if !w.all {
		rules = readIgnore(w.root, ".", ".git/info/exclude")
		for _, parent := range parents(dir) {
			rules = append(rules, readIgnore(w.root, parent, ".gitignore")...)
		}
	}
	err := w.dir(ctx, dir, rules)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// parents are the folders above dir, the workspace first and dir not included.
func parents(dir string) []string {
	var out []string
	for dir != "." {
		dir = path.Dir(dir)
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

func (w *walk) dir(ctx context.Context, dir string, rules []rule) error {
	entries, err := w.read(ctx, dir)
	if err != nil {
		w.closed++
		return ctx.Err()
	}
	if !w.all {
		rules = append(slices.Clip(rules), readIgnore(w.root, dir, ".gitignore")...)
	}
	for _, d := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(ctx, path.Join(dir, d.Name()), d, rules); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(ctx context.Context, p string, d fs.DirEntry, rules []rule) error {
	if d.Name() == ".git" || leftover(d.Name()) {
		return nil
	}
	most := w.most
	if most == 0 {
		most = maxVisits
	}
	if w.visits++; w.visits > most {
		w.cut = true
		return errEnough
	}
	if !w.all && ignored(rules, p, d) {
		w.skipped++
		return nil
	}
	err := w.each(p, d)
	if err != nil || !d.IsDir() {
		if errors.Is(err, fs.SkipDir) {
			return nil
		}
		return err
	}
	return w.dir(ctx, p, rules)
}

// read lists a folder so that the walk meets whole paths in order: a folder
// sorts as if its name ended with the slash that will follow.
func (w *walk) read(ctx context.Context, dir string) ([]fs.DirEntry, error) {
	const some = 4096 // entries between two looks at ctx
	f, err := openFolder(w.root, dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var entries []fs.DirEntry
	for err == nil {
		var more []fs.DirEntry
		more, err = f.ReadDir(some)
		entries = append(entries, more...)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if len(entries) > maxVisits {
			break // the walk ends in this folder
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	return entries, nil
}

func sortName(d fs.DirEntry) string {
	if d.IsDir() {
		return d.Name() + "/"
	}
	return d.Name()
}
