package shell

import (
	"strings"
)

// maxURL is the length in bytes of the longest URL that is recorded as a whole; of a
// longer one it is what tells the host.
const maxURL = 2048

// collectHosts records the URLs among the arguments of a command that need not be one of
// the network.
func (c *classifier) collectHosts(args []word) {
	for _, w := range args {
		if u := w.name; strings.Contains(u, "://") && !strings.ContainsAny(u, " \n\t") {
			if before, value, ok := strings.Cut(u, "="); ok && !strings.Contains(before, "://") {
				u = value // of a flag, or of a variable
			}
			c.url(w, u)
		}
	}
}

// url records a URL in a word, and says whether its host is surely the one that is
// written: files may be named like what a pattern in it stands for.
func (c *classifier) url(w word, u string) (sure bool) {
	scheme, rest, _ := strings.Cut(u, "://")
	if tool := strings.LastIndexByte(scheme, '+'); tool >= 0 { // git+https is https, by git
		scheme, u = scheme[tool+1:], u[tool+1:]
	}
	end := strings.IndexAny(rest, "/#")
	if end < 0 {
		end = len(rest)
	}
	filled := strings.Contains(rest[:end], "{}") // by find or xargs
	sure = !filled && (w.plain() || !strings.ContainsAny(scheme+rest[:end], "*?[{"))
	if (w.opaque || filled) && !sure {
		return false
	}
	if len(u) > maxURL {
		u = scheme + "://" + rest[:min(end, maxURL)] + "/"
	}
	c.hosts = append(c.hosts, u)
	return sure
}

// target records what a word names that is an address for sure: a URL, or a host with
// what stands around it.
func (c *classifier) target(w word) {
	text := strings.Trim(w.name, " \t\n")
	if text == "-" { // standard input, for those that take it
		return
	}
	if blank := strings.IndexAny(text, " \t\n"); blank >= 0 {
		text = text[:blank]
	}
	if strings.Contains(text, "://") {
		if !c.url(w, text) {
			c.add(ruleExpansion, w.text)
		}
		return
	}
	host := strings.TrimLeft(text, "/")
	if end := strings.IndexByte(host, '/'); end >= 0 {
		host = host[:end]
	}
	if strings.Contains(host, "{}") { // find or xargs fill it in
		c.add(ruleExpansion, w.text)
		return
	}
	if !w.plain() && strings.ContainsAny(host, "*?[{") {
		c.add(ruleExpansion, w.text)
	}
	if end := strings.IndexAny(host, "?#"); end >= 0 {
		host = host[:end]
	}
	c.host(host, w.opaque)
}

// host records a host, perhaps behind a user's name and before a port.
func (c *classifier) host(host string, guessed bool) {
	host = host[strings.LastIndexByte(host, '@')+1:]
	switch {
	case strings.HasPrefix(host, ":"): // :8080 is a port of this machine, where a program knows that, and ::1 an address
		if !strings.HasPrefix(host, "::") {
			host = "localhost" + strings.TrimSuffix(host, ":")
		}
	case host == "", guessed && strings.ContainsAny(host, "*?[{"):
		return
	}
	c.hosts = append(c.hosts, host[:min(len(host), maxURL)])
}

// remote records the host of host:path and user@host:path, and says whether the word is
// one: before the colon stands no slash.
func (c *classifier) remote(w word) bool {
	if strings.Contains(w.name, "://") {
		c.target(w)
		return true
	}
	host, _, ok := strings.Cut(w.name, ":")
	if at := strings.IndexByte(w.name, '['); at == 0 || at > 0 && w.name[at-1] == '@' { // [::1]:path
		host, _, ok = strings.Cut(w.name, "]:")
		host += "]"
	}
	if !ok || host == "" || strings.Contains(host, "/") {
		return false
	}
	if !w.plain() && strings.ContainsAny(host, "*?[{") {
		c.add(ruleExpansion, w.text)
	}
	c.host(host, w.opaque)
	return true
}

// fileOf records a file that a flag of a network program reads or writes.
func (c *classifier) fileOf(w word, name string) {
	if name == "" || name == "-" || strings.Contains(name, "://") {
		return
	}
	if w.plain() {
		c.path(name)
		return
	}
	c.namesOf([]word{{text: w.text, name: name, opaque: w.opaque, glob: w.glob}})
}

// connects takes the arguments of a network program apart: what its flags take are texts,
// files or addresses, and what its operands are depends on the program. A flag that is
// not known takes nothing, so that what follows it counts as an operand.
func (c *classifier) connects(base string, args []word) {
	p := callerOf(base)
	var operands []word
	for i := 0; i < len(args); i++ {
		w := args[i]
		if w.opaque {
			c.add(ruleExpansion, w.text)
		}
		if len(w.name) < 2 || w.name[0] != '-' {
			operands = append(operands, w)
			continue
		}
		if w.is("--") {
			operands = append(operands, args[i+1:]...)
			break
		}
		if w.glob {
			c.add(ruleExpansion, w.text) // a file may be named like another flag
		}
		name, given, kind, known := p.flags.split(w.name, map[string]bool{})
		if !known || kind == nothing {
			c.hint(w)
			continue
		}
		v := w
		if given != nil {
			v.name = *given
		} else if i++; kind == optional || i == len(args) {
			i--
			v.name = ""
		} else if v = args[i]; v.opaque {
			c.add(ruleExpansion, v.text)
		}
		c.flagged(p, name, kind, v, w)
	}
	p.operands(c, operands)
}

// hint records what stands behind = in a flag that is not known, where it is a URL.
func (c *classifier) hint(w word) {
	if _, value, ok := strings.Cut(w.name, "="); ok && strings.Contains(value, "://") {
		c.target(word{text: w.text, name: value, opaque: w.opaque, glob: w.glob})
	}
}

// flagged judges the value of a flag of a network program.
func (c *classifier) flagged(p caller, name string, kind takes, v, flag word) {
	switch {
	case p.blind[name]:
		c.add(ruleFlag, flag.text)
	case p.hosts[name]:
		for part := range strings.SplitSeq(v.name, ",") {
			c.target(word{text: v.text, name: part, opaque: v.opaque, glob: v.glob})
		}
	case p.data[name]:
		c.dataOf(v)
	}
	if kind == pathname {
		c.fileOf(v, v.name)
	}
}

// dataOf records the files in a value that is a text, or names files behind @ or <, as in
// @file, name@file, name=@file;type=text/plain, name=<file.
func (c *classifier) dataOf(v word) {
	text := v.name
	if name, rest, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(name, "@<") && rest != "" && (rest[0] == '@' || rest[0] == '<') {
		text = rest
	}
	at := strings.IndexAny(text, "@<")
	if at < 0 || strings.ContainsAny(text[:at], "={ ") {
		return
	}
	name, _, _ := strings.Cut(text[at+1:], ";")
	for part := range strings.SplitSeq(name, ",") {
		c.fileOf(v, strings.Trim(strings.TrimPrefix(part, "@"), `"`))
	}
}
