package fs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// Output modes of Grep.
const (
	modeContent = "content"
	modeFiles   = "files_with_matches"
	modeCount   = "count"
)

const (
	grepLimit  = 250 // lines or files of one answer, unless the call says otherwise
	maxPattern = 4096

	maxMultiline = 2 << 20 // bytes of the largest file that is searched across lines
	maxProgram   = 10_000  // instructions of a pattern
	maxWork      = 1 << 30 // bytes times instructions of one search that cannot be interrupted
	maxMatches   = 100_000 // after which a search stops counting
)

type grepIn struct {
	Pattern    string `json:"pattern" jsonschema:"a regular expression in RE2 syntax; it is matched against each line"`
	Path       string `json:"path,omitempty" jsonschema:"the file or directory to search; the workspace if left out"`
	Glob       string `json:"glob,omitempty" jsonschema:"only files whose name fits such as *.go or cmd/**/*.go; a leading ! turns it round"`
	Type       string `json:"type,omitempty" jsonschema:"only files of a language such as go or py or js"`
	OutputMode string `json:"output_mode,omitempty" jsonschema:"description=content shows lines; files_with_matches only names (the default); count how many lines match in each file,enum=content,enum=files_with_matches,enum=count"`
	Context    int    `json:"context,omitempty" jsonschema:"description=lines to show before and after each match (content only),minimum=0,maximum=50"`
	Before     int    `json:"before,omitempty" jsonschema:"description=lines to show before each match,minimum=0,maximum=50"`
	After      int    `json:"after,omitempty" jsonschema:"description=lines to show after each match,minimum=0,maximum=50"`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"do not tell capital and small letters apart"`
	Multiline  bool   `json:"multiline,omitempty" jsonschema:"the pattern may span lines; . matches the end of a line, too"`
	NoIgnore   bool   `json:"no_ignore,omitempty" jsonschema:"also search what .gitignore files name"`
	HeadLimit  int    `json:"head_limit,omitempty" jsonschema:"description=how many lines or files to show; 250 if left out,minimum=1,maximum=2000"`
	Offset     int    `json:"offset,omitempty" jsonschema:"description=how many lines or files to leave out at the beginning,minimum=0"`
}

// Grep is the tool that searches the content of files.
func Grep() (tools.Tool, error) {
	return tools.Typed(tools.Spec{
		Name: GrepName,
		Description: "Searches files for a regular expression (RE2). By default it names the files that match; output_mode content shows the lines, " +
			"with numbers and, if asked for, the lines around them. Binary files and what .gitignore names are left out. Sorted by path.",
		Tier: events.Readonly, Limits: limits(), Operation: operation(events.OpRead, "."),
	}, grep)
}

// search is one call of Grep at work.
type search struct {
	args  grepIn
	re    *regexp.Regexp
	size  int // of re, in instructions
	work  int // maxWork, but in tests
	types []string
	root  *os.Root

	list    page
	matches int // lines that match, or matches where they may span lines
	files   int // files that match
	large   int // files too large to search
	binary  int
	stopped bool
}

func grep(ctx context.Context, in tools.Invocation, args grepIn) (events.Result, error) {
	s, err := newSearch(args)
	if err != nil {
		return events.Result{}, err
	}
	if s.root, err = openRoot(in); err != nil {
		return events.Result{}, err
	}
	defer s.root.Close()
	given := args.Path
	if given == "" {
		given = "."
	}
	at, err := lookUp(s.root, in.Workspace, given)
	if err != nil {
		return events.Result{}, err
	}
	if err := permit(in, events.OpRead, at); err != nil {
		return events.Result{}, err
	}
	w := walk{root: s.root, all: args.NoIgnore, may: in.May, node: closedIn(in)}
	switch {
	case at.missing():
		return events.Result{}, notFound(ctx, s.root, at)
	case at.info.IsDir():
		w.each = func(p string, d fs.DirEntry) error {
			if !d.Type().IsRegular() || !s.wants(relative(at.name, p)) || !w.open(p) {
				return nil
			}
			return s.file(ctx, place{given: p, clean: p, name: p})
		}
		err = w.run(ctx, at.name)
	default:
		if err = regular(at); err == nil {
			err = s.file(ctx, at)
		}
	}
	if err != nil && !errors.Is(err, errEnough) {
		return events.Result{}, err
	}
	return s.result(&w), nil
}

func newSearch(args grepIn) (*search, error) {
	s := &search{args: args, list: page{skip: args.Offset, most: args.HeadLimit, of: "lines"}}
	if s.args.OutputMode == "" {
		s.args.OutputMode = modeFiles
	}
	if s.args.OutputMode != modeContent {
		s.list.of = "files"
	}
	if s.list.most == 0 {
		s.list.most = grepLimit
	}
	if args.Pattern == "" || len(args.Pattern) > maxPattern {
		return nil, invalid("/pattern", "a pattern has 1 to %d bytes", maxPattern)
	}
	if args.Glob != "" {
		if err := checkPattern("/glob", strings.TrimPrefix(args.Glob, "!")); err != nil {
			return nil, err
		}
	}
	if args.Type != "" {
		if s.types = fileTypes[args.Type]; s.types == nil {
			return nil, invalid("/type", "there is no type %q: use one of %s, or glob", args.Type, strings.Join(typeNames(), ", "))
		}
	}
	flags := ""
	if args.IgnoreCase {
		flags += "i"
	}
	if args.Multiline {
		flags += "ms"
	}
	pattern := args.Pattern
	if flags != "" {
		pattern = "(?" + flags + ")" + pattern
	}
	size, err := tools.RegexpSize(pattern)
	if err == nil && size > maxProgram { // BEFORE it is compiled: (a{1000}){1000} is short
		return nil, invalid("/pattern", "the pattern repeats too much: it comes to more than %d steps; use + or * for long repetitions", maxProgram)
	}
	if err == nil {
		s.re, err = regexp.Compile(pattern)
	}
	if err != nil {
		return nil, invalid("/pattern", "%v; RE2 has no look-around and no back references, and a literal ( [ { . * + ? needs a backslash", err)
	}
	s.size, s.work = max(size, 1), maxWork
	return s, nil
}

// wants says whether the name, seen from where the search began, is asked for.
func (s *search) wants(rel string) bool {
	if s.types != nil && !fitsAny(s.types, path.Base(rel)) {
		return false
	}
	if s.args.Glob == "" {
		return true
	}
	pattern, not := strings.CutPrefix(s.args.Glob, "!")
	subject := rel
	if !strings.Contains(pattern, "/") {
		subject = path.Base(rel)
	}
	ok, err := doublestar.Match(pattern, subject)
	return err == nil && ok != not
}

// file searches one file. What cannot be read is left out of a search, but is
// an error where it was named itself.
func (s *search) file(ctx context.Context, at place) error {
	f, info, err := openFile(s.root, at)
	if err != nil {
		if at.info != nil {
			return err
		}
		return nil
	}
	defer f.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	content, err := readAll(f, info.Size(), maxEditFile)
	switch {
	case err != nil:
		return nil
	case len(content) > s.largest():
		s.large++
		return nil
	case hasNUL(content):
		s.binary++
		return nil
	}
	if err := s.content(ctx, at.name, content); err != nil {
		return err
	}
	if s.matches > maxMatches {
		s.stopped = true
		return errEnough
	}
	return nil
}

// largest is the size of the largest file that is searched. A search across
// lines cannot be interrupted inside of a file.
func (s *search) largest() int {
	if s.args.Multiline {
		return min(maxMultiline, s.work/s.size)
	}
	return min(maxEditFile, s.work/s.size)
}

func (s *search) content(ctx context.Context, name string, content []byte) error {
	found, err := s.lines(ctx, content)
	if err != nil || len(found.spans) == 0 {
		return err
	}
	s.files++
	s.matches += found.matched()
	switch s.args.OutputMode {
	case modeFiles:
		s.list.add(name)
	case modeCount:
		s.list.add(fmt.Sprintf("%s:%d", name, found.matched()))
	default:
		if s.list.found > 0 && (s.args.Context > 0 || s.args.Before > 0 || s.args.After > 0) {
			s.list.add("--")
		}
		found.show(name, max(s.args.Before, s.args.Context), max(s.args.After, s.args.Context), s.list.add)
	}
	return nil
}

func (s *search) result(w *walk) events.Result {
	none := fmt.Sprintf("nothing matches %s", s.args.Pattern)
	text := s.list.text(none)
	if s.args.OutputMode == modeCount && s.files > 0 {
		text += fmt.Sprintf("\n[%d matching lines in %d files]", s.matches, s.files)
	}
	text += w.notes(s.files == 0)
	if s.large > 0 {
		text += fmt.Sprintf("\n[%d files over %d bytes were not searched]", s.large, s.largest())
	}
	if s.binary > 0 && s.files == 0 {
		text += fmt.Sprintf("\n[%d binary files were not searched]", s.binary)
	}
	if s.stopped {
		text += fmt.Sprintf("\n[stopped after %d matches: make the pattern or the path narrower]", s.matches)
	}
	r := events.Result{Status: events.Success, Text: events.Body{Text: text}}
	r.Stats = events.Stats{
		Lines: int64(len(s.list.lines)), More: map[string]int64{"files": int64(s.files), "matches": int64(s.matches)},
	}
	if s.list.more() || w.cut || s.stopped {
		r.Status = events.Partial
	}
	return r
}
