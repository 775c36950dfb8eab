package secrets

import (
	"slices"
	"strings"
)

// Bounds in bytes of what is looked at beside :// and @.
const (
	maxAuthority = 1 << 10
	maxScheme    = 32
)

// url looks for the password of scheme://user:password@host, and for the secret
// parts of webhooks, where the colon stands at i and the authority begins at from.
func (f *finder) url(i, from int) int {
	end := from + min(f.run(inAuthority, from), maxAuthority)
	authority := f.text[from:end]
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		if n := f.slashed(i, from, end); n > 0 {
			return n
		}
		return f.webhook(from, end)
	}
	colon := strings.IndexByte(authority[:at], ':')
	if colon < 0 {
		return from - 1 // the user alone: what has a prefix is found there
	}
	at += f.further(i, from+at+1, end) - (from + at + 1)
	pass := f.text[from+colon+1 : from+at]
	if placeholder(pass) || Marked(pass) {
		return from - 1
	}
	f.scan(from, from+colon) // some put the token where the user stands
	return f.add(from+colon+1, from+at, Password)
}

// inAuthority are the others.
var inAuthority = authorityEnds.but()

// escaped looks for the password of a URL that stands in another one, where a % stands
// at i.
func (f *finder) escaped(i int) int {
	const open, colon, at = "%3a%2f%2f", "%3a", "%40"
	if len(f.text) < i+len(open) || !strings.EqualFold(f.text[i:i+len(open)], open) {
		return i
	}
	from := i + len(open)
	rest := f.text[from : from+min(f.run(bearer, from), maxAuthority)]
	for { // each escape, and what stands behind it
		k := from + len(rest)
		if len(rest) >= maxAuthority || k+3 > len(f.text) || f.text[k] != '%' || !hexDigit(f.text[k+1]) || !hexDigit(f.text[k+2]) || strings.EqualFold(f.text[k:k+3], "%2f") {
			break
		}
		rest = f.text[from : k+3+min(f.run(bearer, k+3), maxAuthority)]
	}
	lower := strings.ToLower(rest)
	user, end := strings.Index(lower, colon), strings.LastIndex(lower, at)
	if user < 0 || end <= user+len(colon) || placeholder(rest[user+len(colon):end]) {
		return from - 1
	}
	return f.add(from+user+len(colon), from+end, Password)
}

// further is where the host of a data source begins: behind the last @ before its
// options, since a password may hold a slash and an @ there. Of a URL of the web it is at.
func (f *finder) further(i, at, end int) int {
	if strings.HasSuffix(f.text[:i], "http") || strings.HasSuffix(f.text[:i], "https") {
		return at
	}
	for k := end; k < len(f.text) && k-end < maxLook && f.text[k] > ' ' && strings.IndexByte("\"'`<>\\?#", f.text[k]) < 0; k++ {
		if f.text[k] == '@' {
			at = k + 1
		}
	}
	return at
}

// authorityEnds are the bytes that an authority ends before.
var authorityEnds = func() (s set) {
	for c := range 0x21 {
		s[c] = true
	}
	for _, c := range "/?#\"'`<>\\" {
		s[byte(c)] = true
	}
	return s
}()

// slashed looks for a password with a slash, a question mark or a # in it, which
// data sources are written with and URLs are not: what stands behind the first colon
// is then no port.
func (f *finder) slashed(i, from, end int) int {
	authority := f.text[from:end]
	_, port, ok := strings.Cut(authority, ":")
	if !ok || port == "" || onlyDigits(port) || strings.HasSuffix(authority, "]") || strings.HasSuffix(f.text[:i], "http") || strings.HasSuffix(f.text[:i], "https") {
		return 0
	}
	far := end
	for far < len(f.text) && far-from < 2*maxLook && f.text[far] > ' ' && strings.IndexByte("\"'`<>\\", f.text[far]) < 0 {
		far++
	}
	at := strings.LastIndexByte(f.text[end:far], '@')
	if at < 0 {
		return 0
	}
	pass := from + strings.IndexByte(authority, ':') + 1
	if placeholder(f.text[pass : end+at]) {
		return 0
	}
	return f.add(pass, end+at, Password)
}

// hooks are hosts whose paths are secrets, and how many parts of a path stand
// before the secret.
var hooks = []struct {
	host, path string
	parts      int
}{
	{"hooks.slack.com", "/services/", 2},
	{"hooks.slack.com", "/workflows/", 3},
	{"hooks.slack-gov.com", "/services/", 2},
	{"discord.com", "/api/webhooks/", 1},
	{"discordapp.com", "/api/webhooks/", 1},
	{"ptb.discord.com", "/api/webhooks/", 1},
	{"canary.discord.com", "/api/webhooks/", 1},
}

func (f *finder) webhook(from, end int) int {
	for _, h := range hooks {
		if !strings.EqualFold(f.text[from:end], h.host) || !strings.HasPrefix(f.text[end:], h.path) {
			continue
		}
		at := end + len(h.path)
		for range h.parts {
			at += word.run(f.text, at)
			if at >= len(f.text) || f.text[at] != '/' {
				return from - 1
			}
			at++
		}
		if n := word.run(f.text, at); n >= 8 {
			return f.add(at, at+n, Webhook)
		}
	}
	return from - 1
}

// source looks for user:password@tcp(host), the data source of Go's MySQL driver,
// where the @ stands at i.
func (f *finder) source(i int) int {
	rest := f.text[i+1:]
	if !strings.HasPrefix(rest, "tcp(") && !strings.HasPrefix(rest, "unix(") {
		return i
	}
	begin, colon := i, -1
	for begin > 0 && i-begin < maxLook && f.text[begin-1] > ' ' && strings.IndexByte("\"'`=", f.text[begin-1]) < 0 {
		begin--
		if f.text[begin] == ':' {
			colon = begin
		}
	}
	if n := len(f.found); n > 0 && begin < f.found[n-1].End {
		return i
	}
	if colon < 0 || colon+1 == i || placeholder(f.text[colon+1:i]) {
		return i
	}
	return f.add(colon+1, i, Password)
}

// authSchemes are the first words of an Authorization header whose credential is
// one word; of the others it is all that follows.
var authSchemes = []string{"bearer", "basic", "token", "apikey", "api-key", "negotiate", "ntlm", "bot", "key"}

// header looks at the value of an Authorization header, from v on, in quotes or not.
func (f *finder) header(v int) int {
	t := f.text
	n := quoteAt(t, v)
	v += n
	scheme := word.run(t, v)
	if scheme == 0 {
		return v - 1
	}
	lower := strings.ToLower(t[v : v+scheme])
	told := false // by its scheme
	if v+scheme < len(t) && t[v+scheme] == ' ' {
		if told = slices.Contains(authSchemes, lower) || long(lower); told {
			v += scheme + f.blanks(v+scheme)
		}
	}
	end := f.until(v, maxLook, " \t\r\n\"'`\\,;<>")
	switch value := t[v:end]; {
	case placeholder(value), common(value), strings.Contains(value, "("):
		return v - 1
	case told || f.bold:
	case !likely(value) || reference(value):
		return v - 1
	}
	if long(lower) && n > 0 {
		return f.add(v, f.until(v, maxSecrets, "\r\n"+t[v-scheme-2:v-scheme-1]), Token)
	} else if long(lower) {
		return f.add(v, f.until(v, maxSecrets, "\r\n"), Token)
	}
	return f.add(v, f.until(v, maxSecrets, " \t\r\n\"'`\\,;<>"), Token)
}

// long says whether the credential of a scheme is all that follows.
func long(scheme string) bool { return scheme == "digest" || strings.HasPrefix(scheme, "aws4-") }

// until is the end of a text from i on that holds none of the bytes, at most most long.
func (f *finder) until(i, most int, none string) int {
	end := i
	for end < len(f.text) && end-i < most && strings.IndexByte(none, f.text[end]) < 0 {
		end++
	}
	return end
}

// signature looks at sig= of a URL with a shared access signature.
func (f *finder) signature(i int) int {
	n := 0
	for i+1+n < len(f.text) && n < maxSecrets && (b64[f.text[i+1+n]] || f.text[i+1+n] == '%') {
		n++
	}
	if n < 40 {
		return i
	}
	return f.add(i+1, i+1+n, Token)
}

// botToken is the length of the secret part of a chat bot's token, digits:secret,
// whose colon stands at i; 0 for anything else.
func (f *finder) botToken(i int) int {
	const size = 35
	rest := f.text[i+1:]
	if !strings.HasPrefix(rest, "AA") || word.run(rest, 0) != size {
		return 0
	}
	n := 0
	for n < i && digits[f.text[i-1-n]] {
		if n++; n > 10 {
			return 0
		}
	}
	if n < 8 {
		return 0
	}
	return size
}

// Ends of a PEM block.
const (
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END "
	pemLine  = "-----"
	maxPEM   = 64 << 10 // bytes of a block
)

// dash looks for a private key's block and for flags of commands, where a dash
// stands at i.
func (f *finder) dash(i int) int {
	if strings.HasPrefix(f.text[i:], pemBegin) {
		return f.pem(i)
	}
	if i > 0 && !blank(f.text[i-1]) && strings.IndexByte("\"'`([=", f.text[i-1]) < 0 {
		return i
	}
	if strings.HasPrefix(f.text[i:], "--") {
		return f.longFlag(i + 2)
	}
	return f.shortFlag(i + 1)
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

// pem looks for a block that holds a private key, and takes it whole.
func (f *finder) pem(i int) int {
	head := i + len(pemBegin)
	n := strings.Index(f.text[head:min(len(f.text), head+maxName)], pemLine)
	if n < 0 {
		return head
	}
	label, body := f.text[head:head+n], head+n+len(pemLine)
	if !strings.Contains(label, "PRIVATE KEY") && !strings.HasSuffix(label, "NKEY SEED") {
		return body
	}
	rest := f.text[body:min(len(f.text), body+maxPEM)]
	end := strings.Index(rest, pemLine)
	if end >= 0 && strings.HasPrefix(rest[end:], pemEnd) {
		tail := body + end + len(pemEnd)
		if close := strings.Index(f.text[tail:min(len(f.text), tail+maxName)], pemLine); close >= 0 {
			return f.add(i, tail+close+len(pemLine), PrivateKey)
		}
	}
	most := len(rest)
	if end >= 0 {
		most = end
	}
	k := 0
	for k < most && (b64[rest[k]] || rest[k] <= ' ' || rest[k] == '\\' || rest[k] == ':' || rest[k] == ',') {
		k++
	}
	if len(strings.TrimSpace(rest[:k])) < 16 {
		return body // only the header is talked about
	}
	return f.add(i, body+len(strings.TrimRight(rest[:k], " \t\r\n\\")), PrivateKey)
}

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
}

// maxCommand is how far before a flag the name of its program is looked for.
const maxCommand = 256

// shortFlag looks at the flags of programs that take a password with one.
func (f *finder) shortFlag(i int) int {
	if i+1 >= len(f.text) || strings.IndexByte("uUpaw", f.text[i]) < 0 {
		return i
	}
	for _, c := range clients {
		if f.text[i] != c.flag || c.glue == blank(f.text[i+1]) || !f.within(c.name, i) {
			continue
		}
		if c.pair {
			return f.userPassword(i+1, c.name, i)
		}
		return f.firmly(i+1, Password)
	}
	return i
}

// within says whether the program is named before i, in the same line.
func (f *finder) within(program string, i int) bool {
	before := f.text[max(0, i-maxCommand):i]
	at := strings.LastIndex(before, program)
	return at >= 0 && !strings.Contains(before[at:], "\n")
}

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
