package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lexical looks at the line before it is parsed, and says whether it may be.
func (c *classifier) lexical() bool {
	if len(c.line) > MaxLine {
		c.add(ruleLimit, "")
		return false
	}
	if !utf8.ValidString(c.line) {
		c.add(ruleEncoding, "")
		return false
	}
	depth := 0
	for _, r := range c.line {
		switch {
		case r == '\n' || r == '\t':
		case forbidden(r):
			c.add(ruleEncoding, "")
			return false
		case r == '(' || r == '[' || r == '{':
			depth++
		case r == ')' || r == ']' || r == '}':
			depth = max(0, depth-1)
		}
		if depth > maxOpen { // the parser takes time in the square of it
			c.add(ruleLimit, "")
			return false
		}
	}
	c.continuations()
	return true
}

// continuations looks at backslashes at the end of a line. In a comment the
// parser takes one for a continuation, and a shell does not: what follows
// would run unseen.
func (c *classifier) continuations() {
	rest := c.line
	for {
		before, after, found := strings.Cut(rest, "\\\n")
		if !found {
			break
		}
		c.add(ruleLines, "")
		last := before[strings.LastIndexByte(before, '\n')+1:]
		if commented(last) {
			c.add(ruleAmbiguous, "")
		}
		rest = after
	}
	if strings.HasSuffix(c.line, "\\") {
		c.add(ruleAmbiguous, "")
	}
}

// commented reports whether a comment may begin in a line; quotes are not
// looked at, so that it errs to the safe side.
func commented(line string) bool {
	for i := 1; i < len(line); i++ {
		if line[i] == '#' && strings.IndexByte(" \t;&|()<>`{}", line[i-1]) >= 0 {
			return true
		}
	}
	return strings.HasPrefix(line, "#")
}

// forbidden holds for runes that a reader of the line may not see as they are:
// control and format characters, blanks other than space, tab and newline, and
// what has no meaning.
func forbidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Z, unicode.Co, unicode.Cs, unicode.Other_Default_Ignorable_Code_Point) ||
		r == utf8.RuneError || r == '\u2800'
}
