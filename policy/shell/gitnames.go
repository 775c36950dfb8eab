package shell

import (
	"path"
	"strings"
)

// maxColons is how many colons may stand in a range of lines: behind which of them
// the file's name begins depends on the patterns before it.
const maxColons = 8

// gitOperands looks at what stands behind the flags of a git line, and at the names
// that stand in them.
func (c *classifier) gitOperands(sub string, p *parsed) {
	for i, w := range p.operands {
		behind := p.ended >= 0 && i >= p.ended
		if w.free && !behind {
			c.add(ruleExpansion, w.text)
			continue
		}
		if w.text == "" {
			continue
		}
		c.gitOutside(w.text)
		switch {
		case sub == "grep" && i == 0 && !p.has("-e", "-f"): // the pattern
		case !behind && !pathsOnly[sub] && current(w.text):
		default:
			c.named(w.text)
		}
		switch {
		case p.has("--no-index"):
			c.path(w.text) // links are followed there
		case behind && w.text[0] != ':':
			c.paths = append(c.paths, w.text)
		}
	}
	for i, v := range p.values {
		switch p.of[i] {
		case "-L":
			c.lineRange(v.text)
		case "--relative":
			c.named(v.text)
		}
	}
	for _, f := range p.files {
		c.path(f.text)
	}
}

// gitOutside looks whether an operand of git may lead out of the workspace.
func (c *classifier) gitOutside(text string) {
	parts := strings.Split(text, ":")
	if text[0] == ':' {
		parts = indexed(text[1:])
	}
	for _, part := range parts {
		if part != "" && c.outside(part) {
			c.add(ruleOutside, text)
			return
		}
	}
}

// pathsOnly are the subcommands of git whose operands are never revisions.
var pathsOnly = names("status ls-files check-ignore check-attr")

// current reports whether a word is the current revision, or a range from or to it and
// nothing else. A file of that name git would not take for one.
func current(text string) bool {
	left, right, _ := strings.Cut(text, "..")
	for _, side := range []string{left, strings.TrimPrefix(right, ".")} {
		if side != "" && side != "HEAD" && side != "@" {
			return false
		}
	}
	return true
}

// named records the names that a word of git may hold. A word is a path, a revision or
// a pattern for paths, by what the repository holds, so that all that it may be counts:
// itself, and what is inside it.
func (c *classifier) named(text string) {
	if text == "" {
		return
	}
	if rev, _, _ := strings.Cut(text, ":"); rev != "HEAD" || rev == text {
		c.names = append(c.names, present(text, c.below(text))...)
	}
	c.names = append(c.names, c.namesInside(text)...)
}

// namesInside are the names inside a word: behind the colon of rev:path, in either side
// of a range, in the index (:path, :0:path), and behind the magic of a pattern (:/path,
// :!path, :(glob)path). Where the repository begins above the workspace, names in
// revisions begin there.
func (c *classifier) namesInside(text string) []string {
	out := revisionNames(text)
	if left, right, ok := strings.Cut(text, ".."); ok {
		for _, side := range []string{left, strings.TrimPrefix(right, ".")} {
			if !current(side) && !strings.HasPrefix(side, "HEAD:") {
				out = append(out, side)
			}
			out = append(out, revisionNames(side)...)
		}
	}
	for _, n := range out {
		if below := c.below(n); below != "" {
			out = append(out, below)
		}
	}
	return out
}

// revisionNames are the names behind the colons of one revision.
func revisionNames(text string) (out []string) {
	if rest, ok := strings.CutPrefix(text, ":"); ok {
		return indexed(rest)
	}
	_, first, _ := strings.Cut(text, ":")
	return present(first, behindBraces(text))
}

// indexed are the names in what stands behind a colon at the beginning of a word.
func indexed(rest string) []string {
	var staged, long string
	if len(rest) > 2 && rest[1] == ':' && numeral(rest[:1]) {
		staged = rest[2:]
	}
	if strings.HasPrefix(rest, "(") {
		_, long, _ = strings.Cut(rest, ")")
	}
	short := strings.TrimPrefix(strings.TrimLeft(rest, "!^/"), ":")
	if strings.HasPrefix(rest, "/") { // the top of the work tree, not the root
		rest = ""
	}
	return present(rest, staged, long, short)
}

// behindBraces is what stands behind the first colon that is in no braces, as in
// HEAD@{12:00}:path.
func behindBraces(text string) string {
	depth := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == ':' && depth == 0:
			return text[i+1:]
		}
	}
	return ""
}

func present(texts ...string) (out []string) {
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}

// below is what a name is from the workspace, if it is one from a folder above it.
func (c *classifier) below(name string) string {
	root := strings.TrimSuffix(c.scope.Workspace, "/")
	if root == "" || !strings.Contains(name, "/") {
		return ""
	}
	name = path.Clean(name)
	for i := strings.LastIndexByte(root, '/'); i >= 0; i = strings.LastIndexByte(root[:i], '/') {
		if rest, ok := strings.CutPrefix(name, root[i+1:]+"/"); ok {
			return rest
		}
	}
	return ""
}

// lineRange records the names that a range of lines (-L1,5:path, -L:function:path) may
// hold.
func (c *classifier) lineRange(text string) {
	if strings.Count(text, ":") > maxColons {
		c.add(ruleFlag, text)
		return
	}
	for rest, found := text, true; found; {
		if _, rest, found = strings.Cut(rest, ":"); rest != "" {
			c.named(rest)
			if c.outside(rest) {
				c.add(ruleOutside, text)
			}
		}
	}
}
