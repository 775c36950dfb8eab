package secrets

import "strings"

// longFlag looks at --name value; what stands behind a = is looked at there.
func (f *finder) longFlag(i int) int {
	n := word.run(f.text[:min(len(f.text), i+maxName+1)], i)
	if n == 0 || n > maxName || i+n >= len(f.text) || !blank(f.text[i+n]) || f.text[i+n] == '\n' {
		return i
	}
	if name := f.text[i : i+n]; name == "user" || name == "proxy-user" {
		return f.userPassword(i+n, "curl ", i)
	}
	kind := named(f.text[i : i+n])
	if kind == "" || kind == Cookie {
		return i
	}
	return f.argument(i+n, kind)
}

// argument looks at the word of a command that stands behind i.
func (f *finder) argument(i int, kind Kind) int {
	v := i + f.blanks(i)
	if q := quoteAt(f.text, v); q > 0 {
		from := v + q
		end, closed := closing(f.text, from, f.text[v:from])
		value := f.text[from:end]
		if closed && !placeholder(value) && (f.bold || !common(value) && !strings.Contains(value, " ")) {
			return f.add(from, end, kind)
		}
		return i
	}
	n := f.word(v, maxLook)
	value := f.text[v : v+n]
	if n == 0 || value[0] == '-' || placeholder(value) {
		return i
	}
	if f.bold || likely(value) && !common(value) {
		return f.add(v, v+f.word(v, maxSecrets), kind)
	}
	return i
}

// word is the length of a word of a command from i on, at most most.
func (f *finder) word(i, most int) int {
	return min(f.run(unended, i), most)
}

// clients are programs whose short flags take a password.
var clients = []struct {
	name string
	flag byte
	glue bool // the password stands right behind the flag
	pair bool // user:password
}{
	{"curl ", 'u', false, true},
	{"curl ", 'u', true, true},
	{"curl ", 'U', false, true},
	{"wget ", 'u', false, true},
	{"mysql ", 'p', true, false},
	{"mysqldump ", 'p', true, false},
	{"mysqladmin ", 'p', true, false},
	{"mariadb ", 'p', true, false},
	{"sshpass ", 'p', true, false},
	{"sshpass ", 'p', false, false},
	{"redis-cli ", 'a', false, false},
	{"docker login ", 'p', false, false},
	{"podman login ", 'p', false, false},
	{"az login ", 'p', false, false},
	{"ldapsearch ", 'w', false, false},
	{"smbclient ", 'U', false, true},
	{"mongo ", 'p', false, false},
	{"mongosh ", 'p', false, false},
	{"mongodump ", 'p', false, false},
	{"zip ", 'P', false, false},
	{"unzip ", 'P', false, false},
	{"7z ", 'p', true, false},
	{"7za ", 'p', true, false},
	{"ssh-keygen ", 'N', false, false},
	{"openssl ", 'k', false, false},
}

// maxCommand is how far before a flag the name of its program is looked for.
const maxCommand = 256

// shortFlag looks at the flags of programs that take a password with one.
func (f *finder) shortFlag(i int) int {
	if n := alnum.run(f.text[:min(len(f.text), i+maxBlanks)], i); n > 1 && i+n < len(f.text) && blank(f.text[i+n]) && f.text[i+n-1]|0x20 == 'u' {
		i += n - 1 // the last one of several
	}
	if i+1 >= len(f.text) || strings.IndexByte("uUpawPNk", f.text[i]) < 0 {
		return i
	}
	for _, c := range clients {
		if f.text[i] != c.flag || c.glue == blank(f.text[i+1]) || !f.within(c.name, i) {
			continue
		}
		if c.pair {
			return f.userPassword(i+1, c.name, i)
		}
		if v := i + 1 + f.blanks(i+1); ports(f.text[v : v+f.word(v, maxLook)]) {
			return i
		}
		return f.firmly(i+1, Password)
	}
	return i
}

// within says whether the program is named before i, in the same command.
func (f *finder) within(program string, i int) bool {
	from := max(0, i-maxCommand)
	at := from + strings.LastIndex(f.text[from:i], program)
	if at < from || at > 0 && word[f.text[at-1]] {
		return false
	}
	quote := byte(0)
	for j := at; j < i; j++ {
		switch c := f.text[j]; {
		case c == '\n':
			return false
		case c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'':
			quote = c
		case c == ';' || c == '|' || c == '&' && (blank(f.text[j+1]) || f.text[j+1] == '&'): // not that of a URL
			return false
		}
	}
	return true
}

// ports says whether a word of a command publishes ports: 80:8080.
func ports(w string) bool { return strings.Contains(w, ":") && strings.Trim(w, "0123456789:") == "" }

// userPassword looks at user:password behind a flag of a program, whose flag stands at
// flag.
func (f *finder) userPassword(i int, program string, flag int) int {
	v := i + f.blanks(i)
	v += quoteAt(f.text, v)
	colon := nameByte.run(f.text[:min(len(f.text), v+maxName)], v)
	if v+colon < len(f.text) && f.text[v+colon] == ':' && f.within(program, flag) {
		return f.firmly(v+colon+1, Password)
	}
	return i
}

// firmly is argument for a word that can be nothing else.
func (f *finder) firmly(i int, kind Kind) int {
	was := f.bold
	f.bold = true
	defer func() { f.bold = was }()
	return f.argument(i, kind)
}
