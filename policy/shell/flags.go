package shell

import (
	"strings"
)

// takes says what follows a flag.
type takes byte

const (
	nothing  takes = iota + 1
	value          // a text, attached or the next argument
	pathname       // the same, a file's name
	optional       // a text, attached only
	pair           // two texts, in arguments of their own
)

// flagSet is the flags of a command that are known to be harmless.
type flagSet struct {
	short  map[byte]takes
	long   map[string]takes
	number bool // -20 means twenty lines
	loose  bool // no flag of the command does harm, whatever it takes
	apart  bool // letters stand alone, and their values in arguments of their own
	early  bool // flags come before the operands; behind them they would be operands
}

// flags reads the notation of the tables, fields with a space between:
//
//	-abc     the flags -a, -b and -c; # stands for a number
//	n: f@ U= a short flag with a value, with a file's name, with an attached value or none
//	--name   a long flag; with : @ = as above, with % two texts
func flags(notation string) flagSet {
	set := flagSet{short: map[byte]takes{}, long: map[string]takes{}}
	for _, f := range strings.Fields(notation) {
		kind := nothing
		switch f[len(f)-1] {
		case ':':
			kind = value
		case '@':
			kind = pathname
		case '=':
			kind = optional
		case '%':
			kind = pair
		}
		switch {
		case strings.HasPrefix(f, "--"):
			set.long[strings.TrimRight(f[2:], ":@=%")] = kind
		case kind != nothing:
			set.short[f[0]] = kind
		default:
			for i := 1; i < len(f); i++ {
				if f[i] == '#' {
					set.number = true
					continue
				}
				set.short[f[i]] = nothing
			}
		}
	}
	return set
}

// parsed is the arguments of a command, told apart.
type parsed struct {
	operands []word
	seen     map[string]bool // flags by name, one dash for a letter, two for a word
	values   []word          // what value flags were given
	of       []string        // the flags that were given values
	files    []word          // what pathname flags were given
	ended    int             // how many operands stood before --; -1 if there was none
}

func (p *parsed) has(flags ...string) bool {
	for _, f := range flags {
		if p.seen[f] {
			return true
		}
	}
	return false
}

// parse tells flags and operands apart. bad is the first argument that is no
// flag of the set; with it, the rest is not known. Versions of a program differ
// in which flags take a value: so that none can make a flag of what is taken for
// a value or an operand here, values may not look like flags, nor operands where a
// flag does harm.
func (s flagSet) parse(args []word) (p parsed, bad word, ok bool) {
	p = parsed{seen: map[string]bool{}, ended: -1}
	for i := 0; i < len(args); i++ {
		w := args[i]
		if w.is("--") && (!s.early || len(p.operands) == 0) {
			p.ended = len(p.operands)
			p.operands = append(p.operands, args[i+1:]...)
			for _, o := range args[i+1:] {
				if o.flag() && !s.loose {
					return p, o, false
				}
			}
			return p, bad, true
		}
		if !w.flag() {
			p.operands = append(p.operands, w)
			continue
		}
		if !w.plain() && !s.stays(w) || s.early && len(p.operands) > 0 {
			return p, w, false
		}
		name, given, kind, known := s.split(w.text, p.seen)
		if !known || w.glob && kind == pathname {
			return p, w, false
		}
		if kind == pair {
			if i++; i == len(args) || given != nil || !args[i].plain() || args[i].flag() {
				return p, w, false
			}
		}
		if given == nil && (kind == value || kind == pathname || kind == pair) {
			if i++; i == len(args) || !args[i].plain() || args[i].flag() && !numeral(args[i].text[1:]) && !s.anyText(name) {
				return p, w, false
			}
			given = &args[i].text
		}
		if name != "" {
			p.seen[name] = true
		}
		p.keep(name, kind, given)
	}
	return p, bad, true
}

// stays reports whether a flag with a pattern in its value (--include=*.py) is that flag
// whatever files there are: all of it can only become the same flag with other values,
// of which none of the command's does harm.
func (s flagSet) stays(w word) bool {
	name, value, _ := strings.Cut(w.text, "=")
	return s.loose && !w.opaque && strings.HasPrefix(name, "--") && value != "" && !strings.ContainsAny(name, "*?[")
}

// anyText reports whether a flag's value may look like a flag: that of a pattern, of a
// command that has no harmful ones.
func (s flagSet) anyText(flag string) bool { return s.loose && (flag == "-e" || flag == "--regexp") }

func (p *parsed) keep(name string, kind takes, given *string) {
	if given == nil {
		return
	}
	if kind == pathname {
		p.files = append(p.files, word{text: *given})
		return
	}
	p.values, p.of = append(p.values, word{text: *given}), append(p.of, name)
}

// split reads one argument that begins with a dash: a long flag, a number, or
// letters of which the last may take a value.
func (s flagSet) split(text string, seen map[string]bool) (name string, given *string, kind takes, ok bool) {
	if strings.HasPrefix(text, "--") {
		key, val, attached := strings.Cut(text[2:], "=")
		kind, ok = s.long[key]
		if attached {
			given = &val
		}
		return "--" + key, given, kind, ok && (kind != nothing || !attached)
	}
	if s.number && numeral(text[1:]) {
		return "-#", nil, nothing, true
	}
	if s.apart && len(text) > 2 {
		return "", nil, 0, false
	}
	for i := 1; i < len(text); i++ {
		kind, ok = s.short[text[i]]
		if !ok {
			return "", nil, 0, false
		}
		name = "-" + text[i:i+1]
		if kind == nothing {
			seen[name] = true
			continue
		}
		if rest := text[i+1:]; rest != "" {
			given = &rest
		}
		return name, given, kind, true
	}
	return "", nil, nothing, true
}

func numeral(s string) bool { return strings.Trim(s, "0123456789") == "" }

// names is a set of words.
func names(list string) map[string]bool {
	set := map[string]bool{}
	for _, n := range strings.Fields(list) {
		set[n] = true
	}
	return set
}
