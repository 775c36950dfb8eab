package shell

import "strings"

var sedFlags = flags("-nErsuz e: --quiet --silent --regexp-extended --separate --unbuffered --null-data --posix --sandbox " +
	"--expression: --debug --help --version")

// sed allows -n with scripts that print lines, count them and stop: other
// commands of sed write files and run programs.
func (c *classifier) sed(args []word) {
	p, bad, ok := sedFlags.parse(args)
	if !ok {
		c.add(ruleFlag, bad.text)
		return
	}
	if p.has("--help", "--version") {
		return
	}
	if !p.has("-n", "--quiet", "--silent") {
		c.add(ruleFlag, "sed")
		return
	}
	scripts, files := p.values, p.operands
	if len(scripts) == 0 {
		if len(files) == 0 {
			c.add(ruleFlag, "sed")
			return
		}
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

// sedScript reports whether a script is a list of p, = and q, each with at most
// two addresses.
func sedScript(s string) bool {
	commands := 0
	for {
		s = strings.TrimLeft(s, " \t;\n")
		if s == "" {
			return commands > 0
		}
		var ok bool
		if s, ok = sedAddresses(s); !ok || s == "" {
			return false
		}
		switch s[0] {
		case 'p', '=':
			s = s[1:]
		case 'q':
			s = strings.TrimLeft(strings.TrimLeft(s[1:], " "), "0123456789")
		default:
			return false
		}
		commands++
		s = strings.TrimLeft(s, " \t")
		if s != "" && s[0] != ';' && s[0] != '\n' {
			return false
		}
	}
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

// sedAddress reads a line number, first~step, $ or /expression/. Implementations
// disagree on a slash in a bracket expression, so there may be none.
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
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i < len(s) && s[i] == '\n' {
				return s, false, false
			}
		case '\n':
			return s, false, false
		case '[':
			n := bracket(s[i:])
			if n == 0 {
				return s, false, false
			}
			i += n - 1
		case '/':
			return strings.TrimLeft(s[i+1:], "I"), true, true
		}
	}
	return s, false, false
}

// bracket is the length of a simple bracket expression at the start of s, or 0.
func bracket(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '/', '\\', '[', '\n':
			return 0
		case ']':
			if i > 1 && s[1:i] != "^" {
				return i + 1
			}
		}
	}
	return 0
}
