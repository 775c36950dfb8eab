package secrets

import (
	"slices"
	"strings"
)

// Bounds in bytes of what is looked at beside a = or a colon.
const (
	maxName    = 64
	maxBlanks  = 8
	maxLook    = 128     // of a value, until it is known to be one
	maxSecrets = 4 << 10 // of a value between quotes
)

// assignment is a name and what stands behind it.
type assignment struct {
	kind   Kind
	name   string
	from   int  // where the name begins
	colon  bool // name: value, not name=value
	quoted bool // the name stands between quotes
	tight  bool // nothing stands between the name and the =
	arrow  bool // name => value
}

// assign looks for name=value and name: value where the = or the colon stands at
// i, and for the password of a URL. It returns where to go on.
func (f *finder) assign(i int) int {
	if f.text[i] == ':' {
		if strings.HasPrefix(f.text[i:], "://") {
			return f.url(i, i+len("://"))
		}
		if slashes := `:\/\/`; strings.HasPrefix(f.text[i:], slashes) { // as some write JSON
			return f.url(i, i+len(slashes))
		}
		if n := f.botToken(i); n > 0 {
			return f.add(i+1, i+1+n, Token)
		}
	}
	a, ok := f.left(i)
	if !ok {
		return i
	}
	v := i + 1
	if a.arrow {
		v++
	}
	if a.name == "sig" { // of a shared access signature
		return f.signature(i)
	}
	blank := f.blanks(v)
	if a.kind == "" {
		a.kind = f.beside(a, v+blank)
	}
	if a.kind == "" {
		return i
	}
	if strings.EqualFold(a.name, "authorization") || strings.HasSuffix(strings.ToLower(a.name), "-authorization") {
		return f.header(v + blank)
	}
	return f.value(a, v+blank, blank == 0)
}

// beside is what a name that says nothing by itself holds: a value that an earlier name
// is about, the password of a user who is named before it, a name and a password together.
func (f *finder) beside(a assignment, v int) Kind {
	switch name := strings.ToLower(a.name); {
	case name == "value":
		return f.labelled(a.from)
	case name == "pass": // of openssl
		if before := strings.TrimRight(f.text[max(0, a.from-maxBlanks-1):a.from], " "); a.colon && (strings.HasSuffix(before, "-passin") || strings.HasSuffix(before, "-passout")) {
			return Password
		}
	case name == "pwd":
		before := strings.ToLower(f.text[max(0, a.from-maxLook):a.from])
		if folder(f.text[v+quoteAt(f.text, v):]) {
			return ""
		}
		if strings.Contains(before, "user") || strings.Contains(before, "uid") || strings.Contains(before, "login") {
			return Password
		}
	case strings.HasSuffix(name, "auth"):
		v += quoteAt(f.text, v)
		if n := f.run(b64, v); n <= maxLook && userAndPassword(f.text[v:v+n]) {
			return Token
		}
	}
	return ""
}

// folder says whether what pwd is begins like the path of one.
func folder(s string) bool {
	return s == "" || strings.IndexByte("/~.\\", s[0]) >= 0 || len(s) > 2 && s[1] == ':' && s[2] == '\\'
}

// labelled is what the member called value that begins at i holds: in front of it stands
// its name, as XML, YAML and JSON write that.
func (f *finder) labelled(i int) Kind {
	rest := strings.TrimRight(f.text[max(0, i-maxLook):i], " \t\r\n\"',")
	before := strings.TrimRightFunc(rest, inName)
	kind := named(rest[len(before):])
	before = strings.TrimRight(before, " \t\"'")
	if kind == "" || !strings.HasSuffix(before, ":") && !strings.HasSuffix(before, "=") {
		return ""
	}
	before = strings.TrimRight(before[:len(before)-1], " \t\"'")
	if label := before[len(strings.TrimRightFunc(before, inName)):]; !slices.Contains(labelNames, strings.TrimLeft(label, "-")) {
		return ""
	}
	return kind
}

func inName(r rune) bool { return r < 0x80 && nameByte[byte(r)] }

func (f *finder) blanks(i int) int {
	n := 0
	for n < maxBlanks && i+n < len(f.text) && (f.text[i+n] == ' ' || f.text[i+n] == '\t') {
		n++
	}
	return n
}

// nameByte are the bytes of names of variables, members and headers.
var nameByte = setOf("azAZ09__--..")

// left reads the name in front of i. ok is false where there is none, or where what
// stands at i compares.
func (f *finder) left(i int) (a assignment, ok bool) {
	t := f.text
	a.colon = t[i] == ':'
	next := byte(0)
	if i+1 < len(t) {
		next = t[i+1]
	}
	j := i
	switch {
	case a.colon && (next == ':' || next == '='): // C++, and Go's := which is looked at from its =
		return a, false
	case !a.colon && next == '>':
		a.arrow = true
	case !a.colon && (next == '=' || next == '~'):
		return a, false
	case !a.colon && j > 0 && strings.IndexByte("=!<>~", t[j-1]) >= 0:
		return a, false
	case !a.colon && j > 0 && strings.IndexByte(":+?", t[j-1]) >= 0:
		j--
	}
	end := j
	for end > 0 && j-end < maxBlanks && (t[end-1] == ' ' || t[end-1] == '\t') {
		end--
	}
	a.tight = end == i
	if end > 1 && t[end-1] == ']' && (t[end-2] == '"' || t[end-2] == '\'') {
		end--
	}
	quote := quoteBefore(t, end)
	end -= quote
	begin := end
	for begin > 0 && end-begin < maxName && nameByte[t[begin-1]] {
		begin--
	}
	if quote > 1 { // what ends one as u0022 does is a name's byte, too
		if at := strings.LastIndex(t[max(0, begin-quote):end], t[end:end+quote]); at >= 0 {
			begin = max(0, begin-quote) + at + quote
		}
	}
	if begin == end || quote > 0 && !strings.HasSuffix(t[:begin], t[end:end+quote]) {
		return a, false
	}
	a.quoted = quote > 0
	a.from, a.name = begin, strings.TrimLeft(t[begin:end], "-")
	a.kind = named(a.name)
	if lone := strings.ToLower(a.name); !a.quoted && (lone == "pass" || lone == "otp") {
		a.kind = "" // the verdict of a test
	}
	return a, true
}

// value looks at what stands behind a name, from v on. Its sort decides what is
// one: what stands between quotes, what a variable of the environment is set to,
// and what does not look like a word or a piece of a program.
func (f *finder) value(a assignment, v int, touching bool) int {
	t := f.text
	if v >= len(t) {
		return v - 1
	}
	if n := quoteAt(t, v); n > 0 {
		from := v + n
		end, closed := closing(t, from, t[v:from])
		if !closed && !(a.quoted && a.colon && end == len(t)) {
			return v - 1
		}
		if f.between(a, t[from:end]) {
			return f.add(from, end, a.kind)
		}
		return v - 1
	}
	n := f.bare(a, v, maxLook)
	if n == 0 || !f.unquoted(a, v, n, touching) {
		return v - 1
	}
	return f.add(v, v+f.bare(a, v, maxSecrets), a.kind)
}

// between says whether what stands between quotes is a secret.
func (f *finder) between(a assignment, v string) bool {
	if placeholder(v) {
		return false
	}
	if a.kind == Cookie && !f.bold && (!a.colon || !strings.Contains(v, "=")) {
		return false
	}
	if f.bold {
		return true
	}
	if !strings.ContainsFunc(v, wordRune) {
		return false
	}
	if strings.ContainsAny(v, " \t") && a.kind != Cookie { // words for a reader, but for a phrase
		return strings.HasSuffix(strings.ToLower(a.name), "phrase") || strings.HasSuffix(strings.ToLower(a.name), "mnemonic")
	}
	return len(v) >= leastValue && !common(v) && !sameWord(a.name, v)
}

func wordRune(r rune) bool { return r >= 0x80 || alnum[byte(r)] }

// bare is the length in bytes of a value that stands without quotes, from v on; at
// most most.
func (f *finder) bare(a assignment, v, most int) int {
	t := f.text
	if a.kind == Cookie {
		n := 0
		for v+n < len(t) && n < most && strings.IndexByte("\n\r\"'", t[v+n]) < 0 {
			n++
		}
		return len(strings.TrimRight(t[v:v+n], " \t"))
	}
	if n := f.ofEnvironment(a, v, most); n > 0 {
		return n
	}
	n := min(f.run(unended, v), most)
	if m := strings.Index(t[v:v+n], "["); m > 0 && strings.HasPrefix(t[v+m:], markOpen) {
		n = m
	}
	for n > 0 && n < most && strings.IndexByte(".:", t[v+n-1]) >= 0 {
		n-- // the end of a sentence
	}
	return n
}

// ends are the bytes that a value without quotes ends before.
var ends = func() (s set) {
	for c := range 0x21 {
		s[c] = true
	}
	for _, c := range "\"'`,;&)}]<>|\\" {
		s[byte(c)] = true
	}
	s[0x7f] = true
	return s
}()

// unended are the others.
var unended = ends.but()

// ofEnvironment is the length of a value that reaches to the end of its line, in a
// line that is nothing but NAME=value.
func (f *finder) ofEnvironment(a assignment, v, most int) int {
	t := f.text
	if a.colon || !a.tight || !capitals(a.name) {
		return 0
	}
	line := a.from
	for line > 0 && t[line-1] != '\n' && a.from-line < maxName {
		line--
	}
	if before := strings.TrimSpace(t[line:a.from]); before != "" && before != "export" && before != "+" && before != "-" {
		return 0
	}
	n := 0
	for v+n < len(t) && n < most && t[v+n] != '\n' && t[v+n] != '\r' {
		if t[v+n] <= ' ' || strings.HasPrefix(t[v+n:], "$(") {
			return 0
		}
		n++
	}
	return n
}

// capitals says whether a name is written as those of the environment are.
func capitals(name string) bool {
	for i := range len(name) {
		if c := name[i]; !upper[c] && c != '_' {
			return false
		}
	}
	return true
}

// unquoted says whether a value without quotes is a secret.
func (f *finder) unquoted(a assignment, v, n int, touching bool) bool {
	t := f.text
	s := t[v : v+min(n, maxLook)]
	if a.kind == Cookie {
		return strings.Contains(s, "=") && !placeholder(s) && (a.colon || a.tight && touching && capitals(a.name))
	}
	if placeholder(s) || strings.Contains(s, "(") || strings.Contains(s, "://") {
		return false
	}
	if f.bold {
		return true
	}
	if n < leastValue {
		return false
	}
	env := !a.colon && a.tight && touching && capitals(a.name)
	if env && !common(s) && !reference(s) {
		return true
	}
	given := !a.colon && a.tight && touching && a.from > 0 && strings.IndexByte("?&;-", t[a.from-1]) >= 0
	if given && (a.kind == Password || n >= leastLikely) && !common(s) {
		return true
	}
	if !a.colon && a.tight && touching && letters(s) && n >= leastLetters && (v+n == len(t) || t[v+n] <= ' ' || t[v+n] == '"' || t[v+n] == '\'') && !common(s) {
		return !strings.Contains(s, last(words(a.name)))
	}
	if !a.tight || !touching { // of a program, more likely than not
		after := byte(0)
		if v+n < len(t) {
			after = t[v+n]
		}
		if strings.IndexByte(",);}", after) >= 0 && after != 0 || strings.Contains(strings.ToLower(s), strings.Join(words(a.name), "")) {
			return false
		}
	}
	return likely(s) && !reference(s) && !common(s)
}

// leastValue is the length in bytes of the shortest value of a name in a text, and
// leastLetters that of one which is nothing but small letters.
const (
	leastValue   = 3
	leastLetters = 8
)

func letters(s string) bool { return small.run(s, 0) == len(s) }

func last(list []string) string { return list[len(list)-1] }

// leastLikely is the length in bytes of the shortest value that is told from a word.
const leastLikely = 6

// leastRandom is the length in bytes of what has digits in it and is no name of a program.
const leastRandom = 20

// likely says whether a value looks like more than a word: letters and digits
// together, and no path.
func likely(s string) bool {
	if len(s) < leastLikely || strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "~/") {
		return false
	}
	letters, numbers := false, false
	for i := range len(s) {
		letters = letters || s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z'
		numbers = numbers || digits[s[i]]
	}
	return letters && numbers && !(strings.Contains(s, "/") && strings.Contains(s, "."))
}

// reference says whether a value names another variable or a member: a.b, a[0].
func reference(s string) bool {
	if strings.Contains(s, "[") {
		return true
	}
	parts := strings.Split(s, ".")
	if len(parts) < 2 {
		return false
	}
	for _, p := range parts {
		if p == "" || digits[p[0]] || dotted.run(p, 0) != len(p) || len(p) >= leastRandom && digits.has(p) {
			return false
		}
	}
	return true
}

// openers begin what stands for a value that is elsewhere.
var openers = []string{"$", "{{", "{%", "<", "%(", "%{", "[", "{", "#{", "@{", "***", "...", "…", "xxxx", "XXXX", placeholderOpen}

// placeholder says whether a value is none: empty, a variable, a blank to fill in.
func placeholder(s string) bool {
	if strings.Trim(s, "*xX.-_?") == "" {
		return s == "" || len(s) > 1 || strings.IndexByte("*.?-_", s[0]) >= 0
	}
	for _, o := range openers {
		if strings.HasPrefix(s, o) {
			return true
		}
	}
	return len(s) == 2 && s[0] == '%'
}

// commons are values that say that there is none, or of what type it is.
var commons = []string{
	"none", "null", "nil", "true", "false", "undefined", "string", "str", "bytes", "byte", "text", "optional", "required", "any", "object", "bool",
	"int", "example", "placeholder", "redacted", "your", "self", "this", "and", "or", "is", "the", "bearer", "basic", "password", "secret", "token",
}

// maxCommon bounds in bytes the values that are looked at as words.
const maxCommon = 40

func common(s string) bool {
	if len(s) > maxCommon {
		return false
	}
	lower := strings.ToLower(strings.Trim(s, "*?!"))
	for _, begin := range []string{"your-", "your_", "my-secret", "example-"} {
		if strings.HasPrefix(lower, begin) {
			return true
		}
	}
	return slices.Contains(commons, lower)
}

// sameWord says whether a value only repeats its name.
func sameWord(name, value string) bool {
	return strings.EqualFold(strings.Join(words(name), ""), strings.Join(words(value), ""))
}
