package shell

import "strings"

// awkProgram refuses programs of awk with a word that does more than compute and print,
// and assignments among the operands.
func awkProgram(c *classifier, p *parsed) {
	if len(p.operands) == 0 {
		c.add(ruleFlag, "awk") // no program
		return
	}
	if program := p.operands[0]; !awkReads(program.text) {
		c.add(ruleFlag, program.text)
	}
	for i, v := range p.values {
		if name, _, ok := strings.Cut(v.text, "="); p.of[i] == "-v" && (!ok || awkRefused[name] || awkPlaces[name] != 0) {
			c.add(ruleFlag, v.text)
		}
	}
	for _, w := range p.operands[1:] {
		if strings.Contains(w.text, "=") {
			c.add(ruleFlag, w.text)
		}
	}
}

// slash says what a slash would be in a place of a program.
type slash byte

const (
	unclear slash = iota + 1 // versions of awk might disagree
	starts                   // the beginning of an expression
	divides                  // a division
)

var (
	// awkRefused are the words that read or write files, run programs, or show or change
	// what the program cannot be seen to hold.
	awkRefused = names("getline system close fflush function func ENVIRON PROCINFO ARGV ARGC SYMTAB FUNCTAB OFMT CONVFMT")
	awkCalls   = names("length substr index split sub gsub match sprintf tolower toupper int sqrt exp log sin cos atan2 rand srand gensub strftime " +
		"systime strtonum")
	// awkPlaces are the words of the language, with what a slash behind one is.
	awkPlaces = func() map[string]slash {
		m := map[string]slash{}
		for n := range names("BEGIN END print printf if else while for do in next exit delete break continue nextfile") {
			m[n] = unclear
		}
		return m
	}()
	// awkOperators are the operators, longest first, that neither read nor write. Those
	// with > are looked at by themselves.
	awkOperators = strings.Fields("**= ** ++ -- += -= *= %= ^= == != !~ <= >= && || + - * % ^ ! ~ < = $ ? : ,")
)

// awk reads a program token by token.
type awk struct {
	rest           string
	slash          slash // what a slash would be here
	braces, parens int
	subscripts     int
}

// awkReads reports whether a program is made of what computes and prints alone.
func awkReads(program string) bool {
	a := awk{rest: program, slash: starts}
	tokens := 0
	for {
		a.rest = strings.TrimLeft(a.rest, " \t")
		if a.rest == "" {
			return tokens > 0 && a.braces == 0 && a.parens == 0
		}
		if tokens++; !a.token() {
			return false
		}
	}
}

// token takes one token away, and reports whether it is understood.
func (a *awk) token() bool {
	b := a.rest[0]
	switch {
	case b == '"':
		rest, ok := sedText(a.rest[1:], '"')
		a.rest, a.slash = rest, unclear
		return ok
	case b == '/' && a.slash == starts:
		rest, ok := sedExpression(a.rest[1:], '/')
		a.rest, a.slash = rest, unclear
		return ok
	case b == '/':
		ok := a.slash == divides && !strings.HasPrefix(a.rest, "/=")
		a.rest, a.slash = a.rest[1:], unclear
		return ok
	case digit(b) || b == '.' && len(a.rest) > 1 && digit(a.rest[1]):
		a.rest, a.slash = a.rest[jqNumber(a.rest, 0):], divides
		return true
	case wordEnd(a.rest, 0) > 0:
		return a.word()
	case strings.IndexByte("(){}[];\n", b) >= 0:
		return a.bracket(b)
	}
	return a.operator()
}

// word reads a name. One that stands before a bracket is called.
func (a *awk) word() bool {
	end := wordEnd(a.rest, 0)
	w := a.rest[:end]
	a.rest = a.rest[end:]
	place, known := awkPlaces[w]
	called := strings.HasPrefix(strings.TrimLeft(a.rest, " \t"), "(")
	switch {
	case awkRefused[w]:
		return false
	case known:
		a.slash = place
		outer := w == "BEGIN" || w == "END"
		return w == "in" || a.parens == 0 && outer == (a.braces == 0) // print > "x" writes among brackets, too
	case awkCalls[w]:
		a.slash = unclear
		return called || w == "length"
	}
	a.slash = divides
	return !called
}

// bracket reads what groups and separates.
func (a *awk) bracket(b byte) bool {
	a.rest, a.slash = a.rest[1:], starts
	switch b {
	case '(':
		a.parens++
	case ')':
		a.parens, a.slash = a.parens-1, unclear // of if (x) /y/, or of (x) / y
	case '{':
		a.braces++
	case '}':
		a.braces--
	case '[':
		a.subscripts, a.slash = a.subscripts+1, unclear
	case ']':
		a.subscripts, a.slash = a.subscripts-1, divides
	case '\n':
		return a.parens == 0 && a.subscripts == 0 // a version might pass over it, and a slash behind it divides
	}
	return a.parens >= 0 && a.braces >= 0 && (a.parens == 0 || b != '{' && b != '}')
}

// operator reads an operator. Where something may be printed, > would write it to a file.
func (a *awk) operator() bool {
	if strings.HasPrefix(a.rest, ">") && !strings.HasPrefix(a.rest, ">=") {
		ok := !strings.HasPrefix(a.rest, ">>") && (a.braces == 0 || a.parens > 0)
		a.rest, a.slash = a.rest[1:], unclear
		return ok
	}
	for _, op := range awkOperators {
		if rest, ok := strings.CutPrefix(a.rest, op); ok {
			a.rest, a.slash = rest, unclear
			switch op {
			case "&&", "||", "!", "~", "!~", ",":
				a.slash = starts
			case ":":
				return !strings.HasPrefix(rest, ":")
			}
			return true
		}
	}
	return false
}
