package fs

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

const (
	globLimit = 500 // files of one answer, unless the call says otherwise
	globMost  = 2000
)

type globIn struct {
	Pattern  string `json:"pattern" jsonschema:"a glob such as **/*.go or cmd/*/main.{go,txt}; ** stands for any directories; relative to path"`
	Path     string `json:"path,omitempty" jsonschema:"the directory to look in; the workspace if left out"`
	NoIgnore bool   `json:"no_ignore,omitempty" jsonschema:"also what .gitignore files name"`
	Limit    int    `json:"limit,omitempty" jsonschema:"description=how many files to list; 500 if left out,minimum=1,maximum=2000"`
	Offset   int    `json:"offset,omitempty" jsonschema:"description=how many files to leave out at the beginning,minimum=0"`
}

// Glob is the tool that finds files by their names.
func Glob() (tools.Tool, error) {
	return tools.Typed(tools.Spec{
		Name: GlobName,
		Description: "Finds files by name pattern, sorted by path. *.go matches in one directory, **/*.go in all below it. " +
			"Files that .gitignore names are left out unless no_ignore is set; .git always is.",
		Tier: events.Readonly, Limits: limits(), Operation: operation(events.OpRead, "."),
	}, glob)
}

func glob(ctx context.Context, in tools.Invocation, args globIn) (events.Result, error) {
	if err := checkPattern("/pattern", args.Pattern); err != nil {
		return events.Result{}, err
	}
	root, err := openRoot(in)
	if err != nil {
		return events.Result{}, err
	}
	defer root.Close()
	dir, err := folder(ctx, root, in, args.Path)
	if err != nil {
		return events.Result{}, err
	}
	list := page{skip: args.Offset, most: args.Limit, of: "files"}
	if list.most == 0 {
		list.most = globLimit
	}
	pattern := path.Clean(args.Pattern)
	base, _ := doublestar.SplitPattern(pattern)
	deepest := maxPath
	if !strings.Contains(pattern, "**") && !strings.Contains(pattern, "{") {
		deepest = strings.Count(pattern, "/")
	}
	w := walk{root: root, all: args.NoIgnore, may: in.May, node: closedIn(in)}
	w.each = func(p string, d fs.DirEntry) error {
		rel := relative(dir, p)
		if d.IsDir() {
			return descend(base, deepest, rel)
		}
		if ok, err := doublestar.Match(pattern, rel); err == nil && ok && w.open(p) {
			list.add(p)
		}
		return nil
	}
	if err := w.run(ctx, dir); err != nil {
		return events.Result{}, err
	}
	text := list.text("no file matches " + args.Pattern + globHint(args.Pattern))
	r := events.Result{Status: events.Success, Text: events.Body{Text: text + w.notes(list.found == 0)}}
	r.Stats = events.Stats{Lines: int64(len(list.lines)), More: map[string]int64{"files": int64(list.found)}}
	if list.more() || w.cut {
		r.Status = events.Partial
	}
	return r, nil
}

// descend skips folders that are not on the way to base, or below it, and
// those below which the pattern cannot match any more.
func descend(base string, deepest int, rel string) error {
	if strings.Count(rel, "/") >= deepest {
		return fs.SkipDir
	}
	if base == "." || rel == base || strings.HasPrefix(rel, base+"/") || strings.HasPrefix(base, rel+"/") {
		return nil
	}
	return fs.SkipDir
}

func globHint(pattern string) string {
	if strings.Contains(pattern, "/") {
		return ""
	}
	return "; **/" + pattern + " looks in all directories below, too"
}

// checkPattern refuses what is no pattern for names inside the workspace.
func checkPattern(at, pattern string) error {
	switch {
	case pattern == "" || len(pattern) > maxPath || strings.ContainsRune(pattern, 0):
		return invalid(at, "a pattern has 1 to %d bytes and no NUL: for example **/*.go", maxPath)
	case strings.HasPrefix(pattern, "/"):
		return invalid(at, "a pattern is relative: leave out the leading slash, and say where to look in path")
	case !doublestar.ValidatePattern(pattern):
		return invalid(at, "%q is no pattern: a [ or { is not closed, or a backslash ends it", pattern)
	}
	if choices(pattern) > maxChoices {
		return invalid(at, "%q has more than %d ways to choose from its {a,b}: ask for them one after another", pattern, maxChoices)
	}
	for part := range strings.SplitSeq(pattern, "/") {
		if part == ".." {
			return invalid(at, "%q has .. in it: say where to look in path", pattern)
		}
	}
	return nil
}

// maxChoices bounds the ways through the braces of a pattern: each is tried on each name.
const maxChoices = 256

// choices is how many ways there are through the braces of a pattern, or more: those of
// all braces multiplied, nested ones included.
func choices(pattern string) int {
	n := 1
	var open []int // alternatives of the braces that are open
	for i := 0; i < len(pattern) && n <= maxChoices; i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '{':
			open = append(open, 1)
		case c == ',' && len(open) > 0:
			open[len(open)-1]++
		case c == '}' && len(open) > 0:
			n *= open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	return n
}

// folder is the real name of a directory to look in; "" means the workspace.
func folder(ctx context.Context, root *os.Root, in tools.Invocation, given string) (string, error) {
	if given == "" {
		given = "."
	}
	at, err := lookUp(root, in.Workspace, given)
	if err == nil {
		err = permit(in, events.OpRead, at)
	}
	switch {
	case err != nil:
		return "", err
	case at.missing():
		return "", notFound(ctx, root, at)
	case !at.info.IsDir():
		return "", invalid("/path", "%q is no directory: name one, or leave path out", given)
	}
	return at.name, nil
}

// relative is p, which lies below dir, as seen from there.
func relative(dir, p string) string {
	if dir == "." {
		return p
	}
	return strings.TrimPrefix(p, dir+"/")
}

// page is the part of a list that one answer shows.
type page struct {
	skip, most int
	of         string // what is listed, in the plural

	lines []string
	bytes int
	found int
	full  bool // no more bytes fit
}

func (l *page) add(line string) {
	l.found++
	if l.found <= l.skip || len(l.lines) >= l.most || l.full {
		return
	}
	if l.bytes += len(line) + 1; l.bytes > maxText-noteRoom {
		l.full = true
		return
	}
	l.lines = append(l.lines, line)
}

func (l *page) more() bool { return l.found > l.skip+len(l.lines) }

// text is the page, with what is left and how to see it, or none where nothing was found.
func (l *page) text(none string) string {
	switch {
	case l.found == 0:
		return "[" + none + "]"
	case len(l.lines) == 0 && !l.full:
		return fmt.Sprintf("[there are %d %s: offset %d is past the end]", l.found, l.of, l.skip)
	}
	text := strings.Join(l.lines, "\n")
	if l.more() || l.skip > 0 {
		text += fmt.Sprintf("\n[%s %d-%d of %d", l.of, l.skip+1, l.skip+len(l.lines), l.found)
		if l.more() {
			text += fmt.Sprintf("; go on with offset %d, or narrow it down", l.skip+len(l.lines))
		}
		text += "]"
	}
	return text
}

// notes says what a walk did not look at. What .gitignore files name is told
// only where nothing was found.
func (w *walk) notes(nothing bool) string {
	var b strings.Builder
	if nothing && w.skipped > 0 {
		fmt.Fprintf(&b, "\n[%d entries that .gitignore names were skipped; no_ignore: true looks there, too]", w.skipped)
	}
	if w.closed > 0 {
		fmt.Fprintf(&b, "\n[%d directories could not be read]", w.closed)
	}
	if w.forbidden > 0 {
		fmt.Fprintf(&b, "\n[%d files that the policy closes to this call were left out]", w.forbidden)
	}
	if w.cut {
		fmt.Fprintf(&b, "\n[stopped after %d entries: look in a smaller path]", w.visits-1)
	}
	return b.String()
}
