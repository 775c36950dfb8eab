package secrets

import (
	"encoding/base64"
	"slices"
	"strings"
)

// set is a set of bytes.
type set [256]bool

func setOf(ranges string) *set {
	var s set
	for i := 0; i+1 < len(ranges); i += 2 {
		for c := int(ranges[i]); c <= int(ranges[i+1]); c++ {
			s[c] = true
		}
	}
	return &s
}

// Sets of bytes, as pairs of first and last.
var (
	word     = setOf("azAZ09__--")         // of most tokens
	alnum    = setOf("azAZ09")             // letters and digits
	variable = setOf("azAZ09__")           // of a name of a variable
	digits   = setOf("09")                 // decimal
	lowHex   = setOf("09af")               // hexadecimal, as tokens write it
	base32   = setOf("AZ27")               // RFC 4648
	upper    = setOf("AZ09")               // capitals and digits
	small    = setOf("az")                 // letters only
	capital  = setOf("AZ")                 // letters only
	bech32   = setOf("AZ09")               // of age keys; its four missing letters never matter
	b64      = setOf("azAZ09++//==__--")   // any base64
	dotted   = setOf("azAZ09__--..")       // with dots
	bearer   = setOf("azAZ09__--..~~++//") // RFC 6750, without its padding
	escaping = setOf("azAZ09__--..%%")     // with what a URL escapes
)

// but are the bytes that are not in the set.
func (s *set) but() *set {
	var out set
	for c := range s {
		out[c] = !s[c]
	}
	return &out
}

// run is how many bytes from i on are in the set.
func (s *set) run(text string, i int) int {
	n := 0
	for i+n < len(text) && s[text[i+n]] {
		n++
	}
	return n
}

// prefixed is a token that is known by how it begins.
type prefixed struct {
	prefix string
	of     *set
	least  int                    // bytes behind the prefix
	most   int                    // 0: no limit
	more   func(rest string) bool // what else must hold of what stands behind; nil: nothing
	kind   Kind
}

// prefixes are the tokens that are known by how they begin. Of two that fit the
// first counts, so longer prefixes stand before shorter ones.
var prefixes = []prefixed{
	{"sk-ant-", word, 16, 0, nil, APIKey},
	{"sk-proj-", word, 16, 0, nil, APIKey},
	{"sk-or-v1-", lowHex, 32, 0, nil, APIKey},
	{"sk-lf-", word, 20, 0, nil, APIKey},
	{"sk-", word, 20, 0, mixed, APIKey},
	{"sk_live_", alnum, 10, 0, nil, APIKey},
	{"sk_test_", alnum, 10, 0, nil, APIKey},
	{"rk_live_", alnum, 10, 0, nil, APIKey},
	{"rk_test_", alnum, 10, 0, nil, APIKey},
	{"sb_secret_", word, 20, 0, nil, APIKey},
	{"sq0csp-", word, 40, 0, nil, APIKey},
	{"sq0atp-", word, 20, 0, nil, APIKey},
	{"shpat_", lowHex, 32, 0, nil, APIKey},
	{"shpca_", lowHex, 32, 0, nil, APIKey},
	{"shppa_", lowHex, 32, 0, nil, APIKey},
	{"shpss_", lowHex, 32, 0, nil, APIKey},
	{"whsec_", b64, 24, 0, nil, APIKey},
	{"github_pat_", word, 22, 0, nil, APIKey},
	{"ghp_", alnum, 30, 0, nil, APIKey},
	{"gho_", alnum, 30, 0, nil, APIKey},
	{"ghu_", alnum, 30, 0, nil, APIKey},
	{"ghs_", alnum, 30, 0, nil, APIKey},
	{"ghr_", alnum, 30, 0, nil, APIKey},
	{"glpat-", word, 20, 0, nil, APIKey},
	{"gldt-", word, 20, 0, nil, APIKey},
	{"glrt-", word, 20, 0, nil, APIKey},
	{"glptt-", word, 20, 0, nil, APIKey},
	{"glcbt-", word, 16, 0, hasDigit, APIKey},
	{"glffct-", word, 16, 0, hasDigit, APIKey},
	{"glft-", word, 16, 0, hasDigit, APIKey},
	{"glimt-", word, 16, 0, hasDigit, APIKey},
	{"gloas-", word, 20, 0, hasDigit, APIKey},
	{"glsoat-", word, 16, 0, hasDigit, APIKey},
	{"glagent-", word, 32, 0, hasDigit, APIKey},
	{"glsa_", word, 32, 0, nil, APIKey},
	{"gsk_", alnum, 40, 0, nil, APIKey},
	{"xoxa-", word, 10, 0, hasDigit, APIKey},
	{"xoxb-", word, 10, 0, hasDigit, APIKey},
	{"xoxp-", word, 10, 0, hasDigit, APIKey},
	{"xoxc-", word, 10, 0, hasDigit, APIKey},
	{"xoxd-", escaping, 10, 0, hasDigit, APIKey},
	{"xoxo-", word, 10, 0, hasDigit, APIKey},
	{"xoxr-", word, 10, 0, hasDigit, APIKey},
	{"xoxs-", word, 10, 0, hasDigit, APIKey},
	{"xoxe-", word, 10, 0, hasDigit, APIKey},
	{"xoxe.xox", dotted, 10, 0, hasDigit, APIKey},
	{"xapp-", word, 20, 0, hasDigit, APIKey},
	{"xai-", alnum, 40, 0, nil, APIKey},
	{"AKIA", upper, 16, 16, nil, APIKey},
	{"ASIA", upper, 16, 16, nil, APIKey},
	{"AIza", word, 35, 35, nil, APIKey},
	{"AQ.Ab8", word, 30, 0, nil, APIKey},
	{"GOCSPX-", word, 20, 0, nil, APIKey},
	{"ya29.", word, 20, 0, nil, Token},
	{"npm_", alnum, 36, 36, nil, APIKey},
	{"pypi-AgE", word, 40, 0, nil, APIKey},
	{"hf_", alnum, 30, 0, nil, APIKey},
	{"r8_", alnum, 30, 0, nil, APIKey},
	{"sluice_", word, 43, 43, nil, Token}, // of this program's own doors
	{"SG.", dotted, 32, 0, sendGrid, APIKey},
	{"dop_v1_", lowHex, 40, 0, nil, APIKey},
	{"doo_v1_", lowHex, 40, 0, nil, APIKey},
	{"dor_v1_", lowHex, 40, 0, nil, APIKey},
	{"dckr_pat_", word, 20, 0, nil, APIKey},
	{"dckr_oat_", word, 20, 0, nil, APIKey},
	{"dapi", lowHex, 32, 0, nil, APIKey},
	{"dp.pt.", alnum, 40, 0, nil, APIKey},
	{"dp.st.", dotted, 40, 0, nil, APIKey},
	{"dp.ct.", alnum, 40, 0, nil, APIKey},
	{"dp.sa.", alnum, 40, 0, nil, APIKey},
	{"ATATT3", b64, 50, 0, nil, APIKey},
	{"ATCTT3", b64, 50, 0, nil, APIKey},
	{"ATBB", alnum, 32, 0, hasDigit, APIKey},
	{"atlasv1.", word, 60, 0, nil, APIKey},
	{"PMAK-", word, 59, 59, nil, APIKey},
	{"NRAK-", upper, 27, 27, nil, APIKey},
	{"sntrys_", b64, 40, 0, nil, APIKey},
	{"sntryu_", lowHex, 64, 0, nil, APIKey},
	{"pul-", lowHex, 40, 40, nil, APIKey},
	{"rubygems_", lowHex, 48, 48, nil, APIKey},
	{"figd_", word, 40, 0, nil, APIKey},
	{"figo_", word, 40, 0, nil, APIKey},
	{"sbp_", lowHex, 40, 40, nil, APIKey},
	{"nvapi-", word, 60, 0, nil, APIKey},
	{"ntn_", alnum, 40, 0, hasDigit, APIKey},
	{"nfp_", alnum, 36, 0, nil, APIKey},
	{"key-", lowHex, 32, 32, nil, APIKey},
	{"lsv2_pt_", word, 32, 0, nil, APIKey},
	{"lsv2_sk_", word, 32, 0, nil, APIKey},
	{"pcsk_", word, 50, 0, nil, APIKey},
	{"tvly-", word, 28, 0, hasDigit, APIKey},
	{"fc-", lowHex, 32, 32, nil, APIKey},
	{"e2b_", lowHex, 40, 40, nil, APIKey},
	{"vcp_", alnum, 40, 0, nil, APIKey},
	{"vck_", alnum, 40, 0, nil, APIKey},
	{"csk-", alnum, 48, 48, nil, APIKey},
	{"tgp_v1_", word, 40, 0, nil, APIKey},
	{"phx_", alnum, 40, 0, nil, APIKey},
	{"xkeysib-", word, 64, 0, hasDigit, APIKey},
	{"fo1_", word, 40, 0, nil, Token},
	{"fm2_", b64, 60, 0, nil, Token},
	{"ops_eyJ", b64, 60, 0, nil, Token},
	{"1//0", word, 28, 0, hasDigit, Token},
	{"lin_api_", alnum, 30, 0, nil, APIKey},
	{"pplx-", alnum, 40, 0, nil, APIKey},
	{"secret_", alnum, 40, 0, mixed, APIKey},
	{"hvs.", word, 20, 0, nil, Token},
	{"hvr.", word, 20, 0, nil, Token},
	{"hvb.", word, 20, 0, nil, Token},
	{"eyJ", dotted, 26, 0, threeParts, Token},
	{"AGE-SECRET-KEY-1", bech32, 50, 0, nil, PrivateKey},
	{"SU", base32, 56, 56, nil, PrivateKey},
	{"SA", base32, 56, 56, nil, PrivateKey},
	{"SO", base32, 56, 56, nil, PrivateKey},
	{"SN", base32, 56, 56, nil, PrivateKey},
	{"SC", base32, 56, 56, nil, PrivateKey},
	{"SX", base32, 56, 56, nil, PrivateKey},
	{"LS0tLS1CRUdJTi", b64, 40, 0, privateBlock, PrivateKey},
}

// byFirst are the places in prefixes of those that begin with a byte.
var byFirst = func() (t [256][]int) {
	for i, p := range prefixes {
		t[p.prefix[0]] = append(t[p.prefix[0]], i)
	}
	return t
}()

// seconds are the bytes that may stand behind the first one of a token, or of a scheme.
var seconds = func() (t [256]set) {
	for _, p := range prefixes {
		t[p.prefix[0]][p.prefix[1]] = true
	}
	for _, first := range "bBp" {
		for _, c := range "eEaA" { // bearer, basic, password
			t[first][c] = true
		}
	}
	return t
}()

// mixed wants a digit, a capital, or no dash for long: words with dashes between them
// are no key.
func mixed(rest string) bool {
	return upper.has(window(rest)) || alnum.run(window(rest), 0) >= 20
}

// glued are prefixes that stand in no word, so that a key is one even where something of a
// word stands right before it.
var glued = []string{
	"sk-ant-", "sk-proj-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "xoxa-", "npm_", "pypi-AgE", "dop_v1_",
	"shpat_", "dckr_pat_", "sluice_", "AGE-SECRET-KEY-1",
}

// stuck says whether a key may begin at i though something of a word stands before it:
// its prefix is in no word, or what follows sk- is nothing but letters and digits with a
// capital among them.
func (f *finder) stuck(i int) bool {
	rest := f.text[i:]
	if strings.HasPrefix(rest, "sk-") {
		n := alnum.run(window(rest[3:]), 0)
		if n >= 24 && capital.has(rest[3:3+n]) && (len(rest) == 3+n || !word[rest[3+n]]) {
			return true
		}
	}
	return slices.ContainsFunc(glued, func(p string) bool { return strings.HasPrefix(rest, p) })
}

func hasDigit(rest string) bool { return digits.has(window(rest)) }

// has says whether a text has a byte of the set.
func (s *set) has(text string) bool {
	for i := range len(text) {
		if s[text[i]] {
			return true
		}
	}
	return false
}

// window is as much of a long text as is looked at to know what it is.
func window(s string) string { return s[:min(len(s), 256)] }

// sendGrid wants an id and a key with a dot between them.
func sendGrid(rest string) bool {
	id, key, ok := strings.Cut(window(rest), ".")
	return ok && len(id) >= 16 && len(key) >= 16
}

// threeParts wants the header, the claims and the signature of a JWT, or the first
// three of the five parts of an encrypted one.
func threeParts(rest string) bool {
	const most, least = 4 << 10, 8 // bytes of a part
	for range 2 {
		dot := strings.IndexByte(rest[:min(len(rest), most)], '.')
		if dot < least {
			return false
		}
		rest = rest[dot+1:]
	}
	third := strings.IndexByte(rest[:min(len(rest), most)], '.')
	return third != 0 && len(rest) >= least && (third < 0 || third >= least)
}

// privateBlock says whether base64 that begins with -----BEGIN goes on to name a
// private key.
func privateBlock(rest string) bool {
	const size = 48 // of the first line, more than the longest header needs
	head := "LS0tLS1CRUdJTi" + rest[:min(size, len(rest))]
	b, err := base64.StdEncoding.DecodeString(head[:len(head)/4*4])
	return err == nil && strings.Contains(string(b), "PRIVATE KEY")
}

// boundary says whether a token may begin at i: nothing of a word stands before
// it, or only a percent-escape or the letter of one such as \n.
func (f *finder) boundary(i int) bool {
	if i == 0 || !word[f.text[i-1]] {
		return true
	}
	switch {
	case i >= 3 && f.text[i-3] == '%' && hexDigit(f.text[i-2]) && hexDigit(f.text[i-1]):
		return true
	case i >= 2 && f.text[i-2] == '\\' && strings.IndexByte("nrtbf", f.text[i-1]) >= 0:
		return true
	case i >= 2 && f.text[i-1] == 'm' && f.escapeCode(i-1):
		return true
	}
	return f.text[i-1] == '_' || f.text[i-1] == '-'
}

// escapeCode says whether a terminal's colour code ends at i.
func (f *finder) escapeCode(i int) bool {
	for j := i - 1; j > max(0, i-12); j-- {
		switch c := f.text[j]; {
		case c == '[':
			return f.text[j-1] == 0x1b
		case c != ';' && !digits[c]:
			return false
		}
	}
	return false
}

func hexDigit(c byte) bool { return digits[c] || c|0x20 >= 'a' && c|0x20 <= 'f' }

// token looks for a token that begins at i. It returns where to go on.
func (f *finder) token(i int) int {
	if i+1 == len(f.text) || !seconds[f.text[i]][f.text[i+1]] {
		return i
	}
	if !f.boundary(i) && !f.stuck(i) {
		return i
	}
	rest := f.text[i:]
	for _, k := range byFirst[rest[0]] {
		p := &prefixes[k]
		if rest[1] != p.prefix[1] || !strings.HasPrefix(rest, p.prefix) {
			continue
		}
		n := f.run(p.of, i+len(p.prefix))
		for n > 0 && rest[len(p.prefix)+n-1] == '.' {
			n-- // the end of a sentence
		}
		if n < p.least || p.most > 0 && n > p.most || p.more != nil && !p.more(rest[len(p.prefix):len(p.prefix)+n]) {
			continue
		}
		end := f.add(i, i+len(p.prefix)+n, p.kind)
		if p.most > 0 && p.of == upper {
			return f.pair(end)
		}
		return end
	}
	return f.scheme(i)
}

// pair looks for the secret that belongs to an access key's id, which stands right
// behind it, within a few separators.
func (f *finder) pair(i int) int {
	const size, apart = 40, 4
	for j := i; j < min(i+apart, len(f.text)); j++ {
		if strings.IndexByte(" \t\r\n:,;|\"'", f.text[j]) < 0 {
			return i
		}
		if n := b64.run(f.text, j+1); n == size {
			return f.add(j+1, j+1+n, APIKey)
		}
	}
	return i
}

// schemes of credentials, with the least length in bytes of what follows.
var schemes = []struct {
	name  string
	least int
}{{"bearer", 16}, {"basic", 12}}

// scheme looks for "Bearer" or "Basic" and a credential that looks like one.
func (f *finder) scheme(i int) int {
	if f.text[i]|0x20 == 'p' {
		return f.netrc(i)
	}
	if f.text[i]|0x20 != 'b' {
		return i
	}
	for _, s := range schemes {
		end := i + len(s.name)
		if len(f.text) <= end || f.text[end] != ' ' && f.text[end] != '\t' || !strings.EqualFold(f.text[i:end], s.name) {
			continue
		}
		from := end + f.blanks(end)
		n := bearer.run(f.text, from)
		for n < len(f.text)-from && f.text[from+n] == '=' {
			n++
		}
		for n > 0 && f.text[from+n-1] == '.' {
			n--
		}
		value := f.text[from : from+n]
		if n < s.least || placeholder(value) {
			continue
		}
		if s.name == "basic" && userAndPassword(value) || s.name == "bearer" && hasDigit(value) {
			return f.add(from, from+n, Token)
		}
	}
	return i
}

// userAndPassword says whether a text is the base64 of a name and a password.
func userAndPassword(s string) bool {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		b, err = base64.RawStdEncoding.DecodeString(s)
	}
	if err != nil {
		return false
	}
	colon := false
	for _, c := range b {
		if c < ' ' || c == 0x7f {
			return false
		}
		colon = colon || c == ':'
	}
	return colon
}

// netrc looks for the password of "machine x login y password z".
func (f *finder) netrc(i int) int {
	const name = "password"
	end := i + len(name)
	if len(f.text) <= end || !blank(f.text[end]) || f.text[i:end] != name {
		return i
	}
	before := f.text[max(0, i-maxLook):i]
	if at := strings.LastIndex(before, "login "); at < 0 || len(strings.Fields(before[at:])) != 2 || !strings.Contains(before, "machine ") && !strings.Contains(before, "default ") {
		return i
	}
	return f.firmly(end, Password)
}
