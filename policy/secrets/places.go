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
		return f.escapedAssign(i)
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

// inEscaped are the bytes that a value goes on with where a URL escapes what ends it.
var inEscaped = setOf("  \t\t\r\r\n\n\"\"''``\\\\,,;;<<>>&&++))").but()

// escapedAssign looks for name=value and "name":"value" as a URL escapes them, where the
// % of the = or the colon stands at i.
func (f *finder) escapedAssign(i int) int {
	t := f.text
	if len(t) < i+3 || t[i+1] != '3' || t[i+2]|0x20 != 'd' && t[i+2]|0x20 != 'a' {
		return i
	}
	a := assignment{colon: t[i+2]|0x20 == 'a', tight: true}
	quote := quoteBefore(t, i)
	end := i - quote
	a.from = end
	for a.from > 0 && end-a.from < maxName && nameByte[t[a.from-1]] {
		a.from--
	}
	if a.from > 0 && t[a.from-1] == '%' && end-a.from > 2 {
		a.from += 2
	}
	a.name, a.quoted = t[a.from:end], quote > 0
	if a.kind = named(a.name); a.kind == "" || a.colon && !a.quoted {
		return i
	}
	v := i + 3
	for strings.HasPrefix(t[v:], "%20") {
		v += 3
	}
	if n := quoteAt(t, v); n > 0 {
		if end, closed := closing(t, v+n, t[v:v+n]); closed && f.between(a, t[v+n:end]) {
			return f.add(v+n, end, a.kind)
		}
		return i
	}
	n := min(f.run(inEscaped, v), maxSecrets)
	for k := 0; k+2 < n; k++ { // what parts it from what follows is escaped, too
		if e := strings.ToLower(t[v+k : v+k+3]); e == "%26" || e == "%3b" || e == "%0a" || e == "%20" || e == "%22" || e == "%7d" {
			n = k
		}
	}
	if value := t[v : v+n]; n < leastLikely || placeholder(value) || common(value) || reference(value) {
		return i
	}
	return f.add(v, v+n, a.kind)
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

// element looks for <name>value</name> and name="name">value</, where the > stands at i.
func (f *finder) element(i int) int {
	t := f.text
	end := i - quoteBefore(t, i)
	begin := end
	for begin > 0 && end-begin < maxName && nameByte[t[begin-1]] {
		begin--
	}
	a := assignment{name: t[begin:end], colon: true, quoted: true}
	if begin == 0 || begin == end || (t[begin-1] == '<') == (end < i) {
		return i
	}
	if a.kind = named(a.name); a.kind == "" || end < i && f.labelled(i) == "" {
		return i
	}
	n := strings.IndexByte(t[i+1:min(len(t), i+1+maxSecrets)], '<')
	if n <= 0 || !strings.HasPrefix(t[i+1+n:], "</") || !f.between(a, t[i+1:i+1+n]) {
		return i
	}
	return f.add(i+1, i+1+n, a.kind)
}

// hooks are hosts whose paths are secrets, and how many parts of a path stand
// before the secret.
var hooks = []struct {
	host, path string
	parts      int
}{
	{"hooks.slack.com", "/services/", 2},
	{"hooks.slack.com", "/workflows/", 3},
	{"hooks.slack.com", "/triggers/", 2},
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
	if v+scheme < len(t) && (t[v+scheme] == ' ' || t[v+scheme] == '\t') {
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
