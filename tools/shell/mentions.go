package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// bound are the files that an approval of a line is bound to: its operands, and, where it
// runs any file, whatever else it names, since a line may make what it then runs
// (cp a b && sh b). At most maxOperands.
func bound(line string) []string {
	f := find(line)
	if !f.runs() {
		return f.found
	}
	for _, p := range f.words {
		f.keep(&f.found, p)
	}
	return f.found
}

// unbound says, in one sentence, to which of the files that a line runs, or makes its
// scripts from, an approval is not bound, because the line does not name them; "" where
// there is none.
func unbound(line string) string {
	f := find(line)
	switch {
	case !f.runs():
		return ""
	case len(f.found) == 0:
		return "the line runs files whose names are known only when it runs, and the approval is not bound to their content"
	case f.hidden || f.unnamed:
		return "some names in the line are known only when it runs, and the approval is not bound to the files that they stand for"
	case f.more:
		return "the line names more files than an approval is bound to"
	}
	return ""
}

// runs says whether the line runs any file, named or not.
func (f *finder) runs() bool { return len(f.found) > 0 || f.hidden }

// called collects the names among the arguments of a command.
func (f *finder) called(call *syntax.CallExpr) {
	if len(call.Args) == 0 {
		return
	}
	if name, _ := literal(call.Args[0]); name != "cd" && name != "pushd" { // where the line stands has been moved
		f.mention(call.Args[1:]...)
	}
}

func (f *finder) redirected(r *syntax.Redirect) {
	switch r.Op {
	case syntax.DplIn, syntax.DplOut, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
	default:
		f.mention(r.Word)
	}
}

func (f *finder) assigned(a *syntax.Assign) {
	if a.Value != nil && (a.Name == nil || a.Name.Value != "PATH") {
		f.mention(a.Value)
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				f.mention(e.Value)
			}
		}
	}
}

// mention collects words that may be names, or hold one behind = or the letters of a flag.
func (f *finder) mention(words ...*syntax.Word) {
	for _, w := range words {
		text, ok := literal(w)
		if !ok {
			f.unnamed = true
			continue
		}
		f.argument(text)
	}
}

// argument keeps the names in an argument.
func (f *finder) argument(text string) {
	if _, value, has := strings.Cut(text, "="); has {
		f.word(value)
	}
	if !strings.HasPrefix(text, "-") {
		f.word(text)
		return
	}
	for i := 2; i <= 4 && i < len(text) && text[1] != '-'; i++ { // -ofile, -xzffile
		f.word(text[i:])
	}
}

// word keeps a name that stands in the line.
func (f *finder) word(name string) {
	if len(name) > maxName || strings.Contains(name, "\n") {
		return
	}
	f.unnamed = f.unnamed || f.lost && name != "" && !path.IsAbs(name)
	f.say(f.at(name))
	for _, base := range f.bases {
		f.say(from(base, name))
	}
}

func (f *finder) say(p string) {
	switch {
	case p == "" || f.said[p]:
	case len(f.words) == maxOperands:
		f.more = true
	default:
		f.said[p] = true
		f.words = append(f.words, p)
	}
}

// stood keeps a folder that the line leaves, if the cd does not fail.
func (f *finder) stood(dir string) {
	switch {
	case slices.Contains(f.bases, dir):
	case len(f.bases) == maxFolders:
		f.unnamed = true
	default:
		f.bases = append(f.bases, dir)
	}
}
