package fs

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxIgnoreFile bounds what is read of one .gitignore.
const maxIgnoreFile = 1 << 20

// rule is one line of a .gitignore.
type rule struct {
	base    string // directory of the file it stands in; "." is the workspace
	pattern string // of doublestar; "" never matches
	include bool   // it began with !
	dirOnly bool   // it ended with /
	whole   bool   // it is matched against the path below base, not the last name
	literal bool   // pattern has nothing special: compare, do not match
	suffix  string // pattern is * and this
}

// readIgnore reads the rules of dir's .gitignore. Like git, it follows no link.
func readIgnore(root *os.Root, dir, file string) []rule {
	name := path.Join(dir, file)
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, _, err := openFile(root, place{given: name, clean: name, name: name, info: info})
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return nil
	}
	return parseIgnore(text, dir)
}

// parseIgnore reads the text of a .gitignore that stands in dir. It reads it as
// git does, but for one thing: ? and [classes] stand for a letter, not a byte.
func parseIgnore(text []byte, dir string) []rule {
	var out []rule
	for line := range strings.SplitSeq(string(bytes.TrimPrefix(text, bom)), "\n") {
		if r, ok := parseRule(strings.TrimSuffix(line, "\r"), dir); ok {
			out = append(out, r)
		}
	}
	return out
}

func parseRule(line, dir string) (rule, bool) {
	line = trimSpaces(line)
	if line == "" || line[0] == '#' {
		return rule{}, false
	}
	r := rule{base: dir}
	line, r.include = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.whole = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if inner, ok := strings.CutSuffix(line, "/**"); ok {
		line = inner + "/**/*" // what is inside, not the directory itself
	}
	pattern, ok := toDoublestar(line)
	if !ok {
		return rule{}, false
	}
	r.pattern = pattern
	r.literal = !strings.ContainsAny(pattern, `*?[\{`)
	if rest, ok := strings.CutPrefix(pattern, "*"); ok && !r.whole && !strings.ContainsAny(rest, `*?[\{`) {
		r.suffix = rest
	}
	return r, true
}

// trimSpaces drops spaces at the end, but for one that a backslash keeps.
func trimSpaces(line string) string {
	t := strings.TrimRight(line, " ")
	if len(t) == len(line) {
		return t
	}
	slashes := len(t) - len(strings.TrimRight(t, `\`))
	if slashes%2 == 1 {
		return t + " "
	}
	return t
}

var posixClasses = strings.NewReplacer(
	"[:alpha:]", "a-zA-Z", "[:digit:]", "0-9", "[:alnum:]", "a-zA-Z0-9", "[:upper:]", "A-Z", "[:lower:]", "a-z",
	"[:xdigit:]", "0-9a-fA-F", "[:space:]", " \t\r\n\v\f", "[:blank:]", " \t", "[:punct:]", `!-/:-@\[-`+"`{-~",
)

// toDoublestar writes git's wildcards as doublestar's, whose braces are
// special and whose classes know no names. It says no for what never matches.
func toDoublestar(p string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '{', '}':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\\':
			if i++; i == len(p) {
				return "", false
			}
			b.WriteByte('\\')
			b.WriteByte(p[i])
		case '[':
			n := classLength(p[i:])
			if n == 0 {
				return "", false
			}
			b.WriteString(class(p[i : i+n]))
			i += n - 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// classLength is the length of the [class] that p begins with; 0 if it never ends.
func classLength(p string) int {
	i := 1
	if i < len(p) && (p[i] == '!' || p[i] == '^') {
		i++
	}
	for first := true; i < len(p); first = false {
		switch {
		case p[i] == ']' && !first:
			return i + 1
		case p[i] == '\\':
			i++
		case strings.HasPrefix(p[i:], "[:"):
			if n := strings.Index(p[i:], ":]"); n > 0 {
				i += n + 1
			}
		}
		i++
	}
	return 0
}

// class writes one [class] for doublestar, where a ] must be escaped to be meant.
func class(c string) string {
	inner := c[1 : len(c)-1]
	not := ""
	if inner[0] == '!' || inner[0] == '^' {
		not, inner = "^", inner[1:]
	}
	if strings.HasPrefix(inner, "]") {
		inner = `\` + inner
	}
	return "[" + not + posixClasses.Replace(inner) + "]"
}

// match says whether the rule speaks of the path.
func (r rule) match(p string, isDir bool) bool {
	if r.dirOnly && !isDir || r.pattern == "" {
		return false
	}
	subject := path.Base(p)
	if r.whole {
		subject = p
		if r.base != "." {
			rel, ok := strings.CutPrefix(p, r.base+"/")
			if !ok {
				return false
			}
			subject = rel
		}
	}
	switch {
	case r.literal:
		return subject == r.pattern
	case r.suffix != "":
		return strings.HasSuffix(subject, r.suffix)
	}
	ok, err := doublestar.Match(r.pattern, subject)
	return err == nil && ok
}

// ignored says what the last rule that speaks of the path says. Rules are in
// the order of their files, from the workspace down.
func ignored(rules []rule, p string, d fs.DirEntry) bool {
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].match(p, d.IsDir()) {
			return !rules[i].include
		}
	}
	return false
}
