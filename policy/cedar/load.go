package cedar

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"
)

// Bounds of a set of policies.
const (
	MaxFiles    = 128
	MaxFile     = 256 << 10 // bytes
	MaxTotal    = 512 << 10 // bytes, all files
	MaxPolicies = 1000
	MaxTokens   = 2048 // of one policy: words, strings and signs
	MaxNested   = 16   // brackets inside one another
	maxGuards   = 32   // uses of has and hasTag in one policy: the checker compares each with each, again and again
	maxGuarding = 1e6  // third powers of those of all policies together
	maxFaults   = 20   // that one error names
	maxID       = 64   // bytes of an id
)

// Fault is what is wrong at one place of a file of policies.
type Fault struct {
	File   string
	Line   int // from 1; 0: the whole file
	Column int // from 1, in characters
	Text   string
}

func (f *Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Text)
}

// ErrPolicy says that texts are no sound set of policies; a Set is made of all of them,
// or there is none.
var ErrPolicy = errors.New("the policy cannot be used")

// Load makes a Set of files, or none: every policy must parse, have an id of its own,
// and fit the schema. The error wraps ErrPolicy and joins up to 20 Faults.
func Load(files []File, o Options) (*Set, error) {
	l := &loader{options: o, ids: map[string][]int{}}
	for _, r := range slices.Concat(policyFloor(), o.Rules) {
		l.taken = append(l.taken, r.ID)
	}
	files = sorted(files)
	l.bounds(files)
	for _, f := range files {
		if len(l.faults) == 0 || l.sound(f) {
			l.file(f)
		}
	}
	if len(l.rules) == 0 && len(l.faults) == 0 {
		l.fault(Fault{File: nameOf(files), Text: "there is no policy: everything would be denied; begin with what sluice-node policy default prints"})
	}
	if len(l.faults) > 0 {
		return nil, l.err()
	}
	s := &Set{digest: digest(files, o), files: l.infos(files), rules: l.rules, doubts: l.doubts, floor: policyFloor(), last: o.Rules}
	s.index()
	return s, nil
}

// infos are what is told of files that were read.
func (l *loader) infos(files []File) []FileInfo {
	var out []FileInfo
	for _, f := range files {
		i := FileInfo{Name: f.Name, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(f.Text)), Bytes: len(f.Text)}
		for _, r := range l.rules {
			if r.File == f.Name {
				i.Policies++
			}
		}
		out = append(out, i)
	}
	return out
}

func nameOf(files []File) string {
	if len(files) == 0 {
		return "policy"
	}
	return files[0].Name
}

type loader struct {
	options Options
	rules   []rule
	ids     map[string][]int // the places of an id in rules
	taken   []string         // ids that no policy may have
	faults  []Fault
	doubts  []string // see Set.Warnings

	guarding int // third powers of the uses of has and hasTag
}

func (l *loader) fault(f Fault) { l.faults = append(l.faults, f) }

func (l *loader) err() error {
	errs := []error{ErrPolicy}
	for i, f := range l.faults {
		if i == maxFaults {
			errs = append(errs, fmt.Errorf("and %d more", len(l.faults)-i))
			break
		}
		errs = append(errs, &f)
	}
	return errors.Join(errs...)
}

// bounds looks at the files from outside.
func (l *loader) bounds(files []File) {
	if len(files) > MaxFiles {
		l.fault(Fault{File: nameOf(files), Text: fmt.Sprintf("there are %d files, at most %d", len(files), MaxFiles)})
		return
	}
	total := 0
	for i, f := range files {
		total += len(f.Text)
		switch {
		case i > 0 && f.Name == files[i-1].Name:
			l.fault(Fault{File: f.Name, Text: "there are two files of this name"})
		case len(f.Text) > MaxFile:
			l.fault(Fault{File: f.Name, Text: fmt.Sprintf("the file has %d bytes, at most %d", len(f.Text), MaxFile)})
		}
	}
	if total > MaxTotal {
		l.fault(Fault{File: nameOf(files), Text: fmt.Sprintf("the files have %d bytes in all, at most %d", total, MaxTotal)})
	}
}

// sound says whether a file may be looked into although something else is wrong.
func (l *loader) sound(f File) bool { return len(l.faults) < maxFaults && len(f.Text) <= MaxFile }

// file adds the policies of one file.
func (l *loader) file(f File) {
	if !l.readable(f) {
		return
	}
	tokens := scan(string(f.Text))
	parts, ok := l.parts(f, tokens)
	if !ok {
		return
	}
	list, err := cedar.NewPolicyListFromBytes(f.Name, f.Text)
	if err != nil {
		l.fault(parseFault(f.Name, tokens, err))
		return
	}
	if len(list) != len(parts) { // the two ways to read it must agree, or places and bounds mean nothing
		l.fault(Fault{File: f.Name, Text: "the file cannot be read reliably: remove what is not plain Cedar from it"})
		return
	}
	if len(l.rules)+len(list) > MaxPolicies {
		l.fault(Fault{File: f.Name, Text: fmt.Sprintf("there are more than %d policies", MaxPolicies)})
		return
	}
	for i, p := range list {
		l.policy(f, i, p, parts[i])
	}
}

// readable looks at the bytes of a file.
func (l *loader) readable(f File) bool {
	text := string(f.Text)
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") || strings.HasPrefix(text, "\xef\xbb\xbf") {
		l.fault(Fault{File: f.Name, Text: "the file begins with a byte order mark: save it as plain UTF-8"})
		return false
	}
	line, col := 1, 1
	for i, c := range text {
		if c == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			l.fault(Fault{f.Name, line, col, "this is not UTF-8: save the file as plain UTF-8"})
			return false
		}
		if invisible(c) {
			l.fault(Fault{f.Name, line, col, fmt.Sprintf("the character U+%04X is not visible, and may make a policy look like another one: take it out", c)})
			return false
		}
		col++
		if c == '\n' {
			line, col = line+1, 1
		}
	}
	return true
}

// invisible holds for what a reader of a policy does not see as it is.
func invisible(c rune) bool {
	switch {
	case c == '\t', c == '\n', c == '\r':
		return false
	case c < ' ', c >= 0x7f && c <= 0x9f, c == 0xad, c == 0x061c, c == 0x180e, c == 0xfeff:
		return true
	}
	return c >= 0x200b && c <= 0x200f || c >= 0x2028 && c <= 0x202e || c >= 0x2060 && c <= 0x206f || c >= 0xe0000 && c <= 0xe0fff
}

// parts are the tokens of each policy: up to the ; outside all brackets. It holds them
// to their bounds BEFORE anything recursive reads them.
func (l *loader) parts(f File, tokens []token) ([][]token, bool) {
	var parts [][]token
	begin, depth, guards := 0, 0, 0
	for i, t := range tokens {
		text := ""
		switch t.text {
		case "(", "[", "{":
			if depth++; depth > MaxNested {
				text = fmt.Sprintf("more than %d brackets are open here: split the policy", MaxNested)
			}
		case ")", "]", "}":
			depth = max(depth-1, 0)
		case "has", "hasTag":
			guards++
		case ".":
			if guarded(tokens[:i]) {
				guards++
			}
		}
		switch {
		case i-begin >= MaxTokens:
			text = fmt.Sprintf("the policy has more than %d words and signs: split it", MaxTokens)
		case guards > maxGuards:
			text = fmt.Sprintf("the policy uses has and hasTag more than %d times: split it", maxGuards)
		case len(parts) > MaxPolicies:
			text = fmt.Sprintf("there are more than %d policies", MaxPolicies)
		}
		if text != "" {
			l.fault(Fault{f.Name, t.line, t.col, text})
			return nil, false
		}
		if t.text == ";" && depth == 0 {
			parts = append(parts, tokens[begin:i+1])
			if l.guarding += guards * guards * guards; l.guarding > maxGuarding {
				l.fault(Fault{f.Name, t.line, t.col, "the policies use has and hasTag too often: ask for less in each"})
				return nil, false
			}
			begin, guards = i+1, 0
		}
	}
	if begin < len(tokens) { // the parser says what is missing
		parts = append(parts, tokens[begin:])
	}
	return parts, true
}

// guarded says whether a dot behind these tokens goes on with a has.
func guarded(before []token) bool {
	n := len(before)
	return n >= 2 && (before[n-2].text == "has" || before[n-2].text == "." && guarded(before[:n-2]))
}

var (
	place = regexp.MustCompile(`<input>:(\d+):(\d+)(?: "(?:[^"\\]|\\.)*")?: `)
	exact = regexp.MustCompile(`^exact got (.*) want (.*)$`)
)

// parseFault turns a message of the library into one with a place that an editor knows.
func parseFault(file string, tokens []token, err error) Fault {
	text := err.Error()
	f := Fault{File: file, Text: short(text)}
	at := place.FindStringSubmatchIndex(text)
	if at == nil {
		for _, t := range tokens { // the library does not say where such a number is
			if _, err := strconv.ParseInt(t.text, 10, 64); errors.Is(err, strconv.ErrRange) {
				return Fault{file, t.line, t.col, "the number is beyond 64 bits"}
			}
		}
		return f
	}
	f.Line, _ = strconv.Atoi(text[at[2]:at[3]]) // digits, by the expression
	f.Column, _ = strconv.Atoi(text[at[4]:at[5]])
	f.Text = plainText(text[at[1]:], 200)
	m := exact.FindStringSubmatch(text[at[1]:])
	if m == nil {
		if more := whatInstead(tokens, f); more != "" {
			f.Text += ": " + more
		}
		return f
	}
	found := plainText(m[1], 40)
	if m[1] == "" {
		found = "the end of the file"
	}
	f.Text = fmt.Sprintf("here is %s, where Cedar wants %s", found, m[2])
	for i, t := range tokens { // the library has read one token further
		if i > 0 && t.line == f.Line && t.col == f.Column && tokens[i-1].text == m[1] {
			f.Line, f.Column = tokens[i-1].line, tokens[i-1].col
			break
		}
	}
	return f
}

// whatInstead is what to write where people often write something else, "" where nothing
// is known of it.
func whatInstead(tokens []token, f Fault) string {
	at := slices.IndexFunc(tokens, func(t token) bool { return t.line == f.Line && t.col == f.Column })
	if at < 0 {
		at = len(tokens)
	}
	back := func(n int) string { // the word n places before; "" where there is none
		if i := at - n; i >= 0 && i < len(tokens) {
			return tokens[i].text
		}
		return ""
	}
	of := map[string]string{"principal": "Agent", "action": "Action", "resource": "Tool"}
	if strings.HasPrefix(f.Text, "unexpected effect") {
		return "a policy begins with permit or forbid, or with an annotation of one"
	}
	// The library names the word that it could not take, or the one behind it.
	for shift := range 3 {
		if of[back(shift+2)] != "" && (back(shift+1) == "==" || back(shift+1) == "in") && strings.HasPrefix(back(shift), `"`) {
			return fmt.Sprintf("a name stands behind its type, for example %s::%s", of[back(shift+2)], plainText(back(shift), 60))
		}
		if back(shift+1) == "." && number(back(shift)) && number(back(shift+2)) {
			return "numbers are whole; those of the arguments are, too, away from zero"
		}
		if back(shift+1) == "{" && back(shift) == "}" {
			return "a condition is not empty: leave it out, or write what should hold"
		}
		if back(shift+1) == "in" && back(shift) == "[" && (back(shift+2) == "principal" || back(shift+2) == "resource") {
			kind := of[back(shift+2)]
			return fmt.Sprintf(`only an action is compared with a list there: write the others in a condition, for example: when { %s in [%s::"a", %s::"b"] }`,
				back(shift+2), kind, kind)
		}
		if back(shift+1) == "==" && back(shift) == "[" {
			return `a list stands behind in, not behind ==`
		}
		if back(shift+2) == "@" && back(shift) == "(" && back(shift-1) == ")" {
			return `an annotation has a text, for example @ask("why a person must look")`
		}
	}
	return ""
}

func number(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// plainText is a text of at most n characters on one line.
func plainText(s string, n int) string {
	var b strings.Builder
	for _, c := range s {
		if n--; n < 0 {
			b.WriteString("…")
			break
		}
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		b.WriteRune(c)
	}
	return b.String()
}
