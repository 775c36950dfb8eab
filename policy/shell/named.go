package shell

import "strings"

// operandsOf records what may be files among the arguments of a command that a
// person will be asked about.
func (c *classifier) operandsOf(args []word) {
	for _, w := range args {
		if !w.opaque && !w.flag() && w.text != "" && !strings.Contains(w.text, "://") && len(w.text) <= 256 &&
			strings.IndexFunc(w.text, func(r rune) bool { return special(r) && !(w.glob && strings.ContainsRune("*?[]!", r)) }) < 0 {
			c.path(w.text)
		}
	}
}

// namesOf records what may be files among the arguments of a command that is not
// understood as reading, also inside its flags and on either side of a colon, as in
// git archive HEAD:path, docker -v path:place. Of a pattern, and of a word that an
// expansion decides, it is what is written that counts, as for commands that read.
func (c *classifier) namesOf(args []word) {
	for _, w := range args {
		if len(w.name) > maxName || strings.Contains(w.name, "://") || w.opaque && strings.Trim(w.name, "*/") == "" {
			continue
		}
		var all []string
		if w.name != "" && (w.name[0] != '-' || len(w.name) == 1) {
			all = append(all, w.name)
		}
		if _, value, ok := strings.Cut(w.name, "="); ok {
			all = append(all, present(value)...)
		}
		if left, _, ok := strings.Cut(w.name, ":"); ok {
			all = append(append(all, present(left)...), c.namesInside(w.name)...)
		}
		c.names = append(c.names, all...)
		if w.plain() {
			continue
		}
		for _, n := range all {
			if w.glob {
				c.names = append(c.names, shortest(n)...)
			}
		}
		if len(all) > 0 && all[0] == w.name && c.outside(w.name) {
			c.add(ruleOutside, w.text)
		}
	}
}

// valuesOf records what may be files and addresses among the values of variables: what
// becomes of them is known only when the line runs.
func (c *classifier) valuesOf(values []word) {
	c.namesOf(values)
	c.collectHosts(values)
}

// maxName is the length in bytes of the longest word that may be a file's name.
const maxName = 4096

// shortest is the shortest name that a pattern may stand for, where it is another text
// than the pattern and is known: a*/[b]c stands for a/bc, and a?c for nothing certain.
func shortest(pattern string) []string {
	segs := strings.Split(pattern, "/")
	for i, seg := range segs {
		short, ok := shortestSegment(seg)
		if !ok {
			return nil
		}
		if short != "" {
			segs[i] = short
		}
	}
	if short := strings.Join(segs, "/"); short != pattern {
		return []string{short}
	}
	return nil
}

func shortestSegment(seg string) (short string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(seg); i++ {
		switch {
		case seg[i] == '*':
		case seg[i] == '?':
			return "", false
		case seg[i] == '[' && i+2 < len(seg) && seg[i+2] == ']':
			b.WriteByte(seg[i+1])
			i += 2
		case seg[i] == '[' && strings.Contains(seg[i:], "]"):
			return "", false
		default:
			b.WriteByte(seg[i])
		}
	}
	return b.String(), true
}
