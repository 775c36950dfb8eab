package shell

import (
	"path"
	"strings"
)

// special are the readers whose arguments have a grammar of their own.
func (c *classifier) special(name string, args []word) bool {
	switch name {
	case "echo":
	case "printf":
		c.printf(args)
	case "test":
		c.test(args)
	case "[":
		if len(args) == 0 || !args[len(args)-1].is("]") {
			c.add(ruleFlag, "[")
			return true
		}
		c.test(args[:len(args)-1])
	case "find":
		c.find(args)
	case "sed":
		c.sed(args)
	case "git":
		c.git(args)
	default:
		return false
	}
	return true
}

// reads judges a command of the table.
func (c *classifier) reads(name string, args []word) {
	if w, found := unsafe(args); found {
		c.add(ruleExpansion, w.text)
		return
	}
	for _, w := range args {
		if w.glob {
			c.path(w.text) // the shell looks there, whatever the command does with the names
			c.names = append(c.names, shortest(w.text)...)
		}
	}
	if c.special(name, args) {
		return
	}
	r := readers[name]
	p, bad, ok := r.flags.parse(args)
	if !ok {
		c.add(ruleFlag, bad.text)
		return
	}
	for i, w := range p.operands {
		if w.free && !r.loose && (p.ended < 0 || i < p.ended) && !(r.flags.early && i > 0) {
			c.add(ruleExpansion, w.text) // a file may be named like a flag
		}
	}
	c.operands(r.operands, &p)
	for _, f := range p.files {
		c.path(f.text)
	}
	c.follows = c.follows || p.has(r.follows...)
	if r.check != nil {
		r.check(c, &p)
	}
}

func (c *classifier) operands(kind operands, p *parsed) {
	files := p.operands
	switch kind {
	case text:
		return
	case none:
		if len(files) > 0 {
			c.add(ruleFlag, files[0].text)
		}
		return
	case one:
		if len(files) > 1 || len(files) == 1 && files[0].glob {
			c.add(ruleFlag, files[len(files)-1].text)
		}
	case program:
		if len(files) > 0 && files[0].glob {
			c.add(ruleExpansion, files[0].text)
		}
		files = files[min(1, len(files)):]
	case pattern:
		if !p.has("-e", "-f", "--regexp", "--file", "--files", "--type-list") && len(files) > 0 {
			if files[0].glob {
				c.add(ruleExpansion, files[0].text)
			}
			files = files[1:]
		}
	}
	for _, f := range files {
		c.path(f.text)
	}
}

// path records a file's name and looks whether it may lie outside the workspace.
func (c *classifier) path(p string) {
	switch p {
	case "", "-", "/dev/null", "/dev/stdin":
		return
	}
	c.paths = append(c.paths, p)
	if c.outside(p) {
		c.add(ruleOutside, p)
	}
}

func (c *classifier) outside(p string) bool {
	for seg := range strings.SplitSeq(p, "/") {
		if seg == ".." || parent(seg) {
			return true
		}
	}
	if p[0] == '~' {
		return true
	}
	if !path.IsAbs(p) {
		return false
	}
	root := strings.TrimSuffix(c.scope.Workspace, "/")
	return root == "" || p != root && !strings.HasPrefix(p, root+"/")
}

// parent reports whether a pattern for one name may stand for .., as .* does.
func parent(seg string) bool {
	if len(seg) < 2 || seg[0] != '.' {
		return false
	}
	rest := strings.Trim(seg[1:], "*")
	switch {
	case rest == seg[1:] && !strings.ContainsAny(rest, "?["):
		return false
	case rest == "" || rest == "." || rest == "?":
		return true
	case rest[0] != '[' || strings.IndexByte(rest, ']') != len(rest)-1:
		return strings.Contains(rest, "[") // of several brackets it is not looked which text they hold
	}
	return strings.Trim(rest, "[]abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != ""
}

func dateFormat(c *classifier, p *parsed) {
	for _, w := range p.operands {
		if !strings.HasPrefix(w.text, "+") {
			c.add(ruleFlag, w.text) // it would set the clock
		}
	}
}

func folder(c *classifier, p *parsed) {
	if len(p.operands) == 1 {
		c.moves = append(c.moves, p.operands[0].text)
	}
	c.moved = c.moved || len(p.operands) != 1 || !c.root(p.operands[0].text)
	if len(p.operands) != 1 || p.operands[0].glob || p.operands[0].text == "-" {
		c.add(ruleOutside, "cd's target")
	}
}

// root reports whether a path is the workspace itself.
func (c *classifier) root(p string) bool {
	p = strings.TrimSuffix(p, "/")
	return p == "." || p != "" && p == strings.TrimSuffix(c.scope.Workspace, "/")
}

// numbers refuses operands that are none: some shells would evaluate them.
func numbers(c *classifier, p *parsed) {
	for _, w := range p.operands {
		if !w.plain() || !numeral(w.text) {
			c.add(ruleFlag, w.text)
		}
	}
}

// globs records the patterns for paths that rg is given: they may be names.
func globs(c *classifier, p *parsed) {
	for i, v := range p.values {
		if of := p.of[i]; of == "-g" || of == "--glob" || of == "--iglob" {
			c.names = append(c.names, present(strings.TrimPrefix(v.text, "!"))...)
		}
	}
}

// noResponse refuses operands in which GNU strings would look for more arguments.
func noResponse(c *classifier, p *parsed) {
	for _, w := range p.operands {
		if w.free || strings.HasPrefix(w.text, "@") {
			c.add(ruleFlag, w.text)
		}
	}
}

// printf knows the conversions that only print: %n and -v set variables, and
// the subscript of a variable is evaluated. So are the numbers of some shells.
func (c *classifier) printf(args []word) {
	if len(args) > 0 && args[0].is("--") {
		args = args[1:]
	}
	if len(args) == 0 || !args[0].plain() || args[0].flag() {
		culprit := "printf"
		if len(args) > 0 {
			culprit = args[0].text
		}
		c.add(ruleFlag, culprit)
		return
	}
	format, numbers := args[0].text, false
	defer func() {
		for _, w := range args[1:] {
			if numbers && strings.ContainsAny(w.text, "[($`") {
				c.add(ruleFlag, w.text)
			}
		}
	}()
	for {
		_, rest, found := strings.Cut(format, "%")
		if !found {
			return
		}
		full := rest
		rest = strings.TrimLeft(rest, "-+ #0123456789.*'")
		numbers = numbers || strings.Contains(full[:len(full)-len(rest)], "*") || rest != "" && !strings.Contains("%sbqc", rest[:1])
		if rest == "" || !strings.Contains("%sdiuxXocbqfeEgG", rest[:1]) {
			c.add(ruleFlag, "printf %"+rest)
			return
		}
		format = rest[1:]
	}
}

var testOperators = names("-b -c -d -e -f -g -h -k -p -r -s -u -w -x -z -n -L -O -G -S -N -t -nt -ot -ef -eq -ne -lt -le -gt -ge -a -o")

// compares are the operators for numbers, which some shells evaluate.
var compares = names("-eq -ne -lt -le -gt -ge -t")

// test knows the operators that look at files and compare; -v and -R evaluate
// the subscript of a variable.
func (c *classifier) test(args []word) {
	for i, w := range args {
		if compares[w.text] && (i > 0 && w.text != "-t" && !number(args[i-1]) || i+1 < len(args) && !number(args[i+1])) {
			c.add(ruleFlag, w.text)
			return
		}
		if w.flag() && !testOperators[w.text] && strings.Trim(w.text[1:], "0123456789") != "" {
			c.add(ruleFlag, w.text)
			return
		}
		if w.glob {
			c.add(ruleExpansion, w.text)
			return
		}
		switch {
		case strings.Contains(w.text, "/"), i > 0 && (fileTests[args[i-1].text] || fileCompares[args[i-1].text]), i+1 < len(args) && fileCompares[args[i+1].text]:
			c.path(w.text)
		}
	}
}

// fileTests are the operators before the name of a file, and fileCompares those between two.
var (
	fileTests    = names("-b -c -d -e -f -g -h -k -p -r -s -u -w -x -L -O -G -S -N -a")
	fileCompares = names("-nt -ot -ef")
)

func number(w word) bool {
	return w.plain() && w.text != "" && numeral(strings.TrimLeft(w.text, "+-"))
}
