package shell

import "strings"

var sedFlags = flags("-nErsuz e: --quiet --silent --regexp-extended --separate --unbuffered --null-data --posix --sandbox " +
	"--expression: --debug --help --version")

// sed allows scripts of commands that edit what is printed, and stop: others of sed
// write files, read them and run programs.
func (c *classifier) sed(args []word) {
	p, bad, ok := sedFlags.parse(args)
	if !ok {
		if name, _, _ := strings.Cut(bad.text, "="); name == "--in-place" || !strings.HasPrefix(name, "--") && strings.Contains(name, "i") {
			c.add(ruleWrite, "sed "+bad.text) // what its script does besides is not known
		}
		c.add(ruleFlag, bad.text)
		return
	}
	scripts, files := p.values, p.operands
	switch {
	case p.has("--help", "--version"):
		files = nil // a script of -e before it is read, and opens what it writes
	case len(scripts) == 0 && len(files) == 0:
		c.add(ruleFlag, "sed")
	case len(scripts) == 0:
		scripts, files = files[:1], files[1:]
	}
	for _, s := range scripts {
		if s.glob || !sedScript(s.text) {
			c.add(ruleFlag, s.text)
		}
	}
	for i, f := range files {
		if f.free && (p.ended < 0 || i < p.ended) {
			c.add(ruleExpansion, f.text)
		}
		c.path(f.text)
	}
}

// sedPlain are the commands of sed that are a letter and nothing more, and work on the
// lines that it holds.
const sedPlain = "p=dDgGhHnNPx"

// sedScript reports whether a script is a list of commands that only print and edit, each
// with at most two addresses, and of groups of them that it closes itself.
func sedScript(s string) bool {
	commands, open := 0, 0
	for {
		s = strings.TrimLeft(s, " \t;\n")
		if s == "" {
			return commands > 0 && open == 0
		}
		closing := s[0] == '}'
		var ok bool
		if !closing {
			if s, ok = sedAddresses(s); !ok || s == "" {
				return false
			}
			if s[0] == '{' {
				open, s = open+1, s[1:]
				continue
			}
			commands++
		} else if open--; open < 0 {
			return false
		}
		if s, ok = sedCommand(s); !ok {
			return false
		}
		s = strings.TrimLeft(s, " \t")
		if s != "" && strings.IndexByte(";\n}", s[0]) < 0 {
			return false
		}
	}
}

// sedCommand reads one command, or the end of a group.
func sedCommand(s string) (rest string, ok bool) {
	switch c := s[0]; {
	case c == '}' || strings.IndexByte(sedPlain, c) >= 0:
		return s[1:], true
	case c == 'q':
		return strings.TrimLeft(strings.TrimLeft(s[1:], " "), "0123456789"), true
	case c == 's':
		return sedSubstitution(s[1:])
	case c == 'y':
		if _, rest, ok = sedParts(s[1:], sedText); !ok || strings.Contains(s[:len(s)-len(rest)], "[") {
			return s, false // some look for the end of a bracket here, too
		}
		return rest, true
	}
	return s, false
}

// sedSubstitution reads what stands behind the s: an expression, what takes its place, and
// flags of which none runs or writes what comes of it.
func sedSubstitution(s string) (rest string, ok bool) {
	if _, rest, ok = sedParts(s, sedExpression); !ok {
		return s, false
	}
	return strings.TrimLeft(rest, "gpiI0123456789"), true
}

// sedDelimiters are what may stand around the parts of s and y here.
const sedDelimiters = "/|,#:@!%+=_~"

// sedParts reads two parts between delimiters, the first one by a reader for it.
func sedParts(s string, first func(string, byte) (string, bool)) (delim byte, rest string, ok bool) {
	if s == "" || strings.IndexByte(sedDelimiters, s[0]) < 0 {
		return 0, s, false
	}
	delim = s[0]
	if rest, ok = first(s[1:], delim); !ok {
		return 0, s, false
	}
	rest, ok = sedText(rest, delim)
	return delim, rest, ok
}

// sedText is what stands behind a text that ends with a delimiter, on one line.
func sedText(s string, delim byte) (rest string, ok bool) { return behind(s, delim, false) }

// sedExpression is what stands behind an expression that ends with a delimiter.
// Implementations disagree on a delimiter in a bracket expression, so there may be none.
func sedExpression(s string, delim byte) (rest string, ok bool) { return behind(s, delim, true) }

// behind is what stands behind the delimiter that ends a line's text. brackets says that
// there are bracket expressions in it.
func behind(s string, delim byte, brackets bool) (rest string, ok bool) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			if i++; i < len(s) && s[i] == '\n' {
				return s, false
			}
		case c == '\n':
			return s, false
		case c == delim:
			return s[i+1:], true
		case c == '[' && brackets:
			n := bracket(s[i:], delim)
			if n == 0 {
				return s, false
			}
			i += n - 1
		}
	}
	return s, false
}

func sedAddresses(s string) (rest string, ok bool) {
	rest, found, ok := sedAddress(s)
	if !ok {
		return s, false
	}
	rest = strings.TrimLeft(rest, " \t")
	if found && strings.HasPrefix(rest, ",") {
		rest = strings.TrimLeft(rest[1:], " \t")
		if rest != "" && (rest[0] == '+' || rest[0] == '~') {
			rest = rest[1:]
		}
		if rest, found, ok = sedAddress(rest); !ok || !found {
			return s, false
		}
	}
	return strings.TrimLeft(rest, " \t!"), true
}

// sedAddress reads a line number, first~step, $ or /expression/.
func sedAddress(s string) (rest string, found, ok bool) {
	digits := strings.TrimLeft(s, "0123456789")
	switch {
	case s == "":
		return s, false, true
	case len(digits) < len(s):
		if strings.HasPrefix(digits, "~") {
			digits = strings.TrimLeft(digits[1:], "0123456789")
		}
		return digits, true, true
	case s[0] == '$':
		return s[1:], true, true
	case s[0] != '/':
		return s, false, true
	}
	rest, ok = sedExpression(s[1:], '/')
	return strings.TrimLeft(rest, "I"), ok, ok
}

// bracket is the length of a bracket expression at the start of s that is simple, but for
// classes like [:space:], or 0.
func bracket(s string, delim byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case delim, '\\', '\n':
			return 0
		case '[':
			n := class(s[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case ']':
			if i > 1 && s[1:i] != "^" {
				return i + 1
			}
		}
	}
	return 0
}

// class is the length of a class of characters at the start of s, or 0.
func class(s string) int {
	rest, ok := strings.CutPrefix(s, "[:")
	name := strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz")
	if !ok || name == rest || !strings.HasPrefix(name, ":]") {
		return 0
	}
	return len(s) - len(name) + 2
}
