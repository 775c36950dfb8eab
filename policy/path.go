package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a path.
const (
	MaxPath     = 4096 // bytes
	MaxSegment  = 255  // bytes between two slashes
	MaxSegments = 200  // names, one in the other: each is looked up from the first one on
)

// ErrPath says that a path may not be used.
var ErrPath = errors.New("path refused")

// CheckPath returns nil for a path that stays inside the folder it is relative
// to, by its text alone, or an error that wraps ErrPath and says what to do
// instead. Links are not its concern: who opens the file must not follow them out.
func CheckPath(p string) error {
	switch {
	case p == "":
		return refuse("the path is empty; give one relative to the workspace")
	case len(p) > MaxPath:
		return refuse("the path is longer than %d bytes; use a shorter one", MaxPath)
	}
	seen := p
	for range 4 { // names may be encoded more than once
		if err := checkSegments(seen); err != nil {
			return err
		}
		next := decodePercent(seen)
		if next == seen {
			return nil
		}
		seen = next
	}
	return refuse("the path is encoded many times over; write it plainly")
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrPath}, args...)...)
}

// checkSegments looks at one decoding of a path.
func checkSegments(p string) error {
	if !utf8.ValidString(p) {
		return refuse("the path is not valid UTF-8; write it in plain characters")
	}
	for _, r := range p {
		if hidden(r) {
			return refuse("the path holds a control or invisible character; leave it out")
		}
	}
	p = strings.Map(plainer, p)
	switch {
	case strings.HasPrefix(p, "/"):
		return refuse("the path is absolute and not inside the workspace; give one relative to the workspace")
	case len(p) >= 2 && p[1] == ':' && letter(p[0]), strings.Contains(p, "://"), strings.HasPrefix(strings.ToLower(p), "file:"):
		return refuse("the path names a drive or a scheme; give one relative to the workspace")
	}
	segments := strings.Split(p, "/")
	if len(segments) > MaxSegments {
		return refuse("the path is deeper than %d folders; use a shorter one", MaxSegments)
	}
	if s := segments[0]; s == "~" || strings.HasPrefix(s, "~") && len(segments) > 1 {
		return refuse("the path begins in a home folder; give one relative to the workspace")
	}
	for _, s := range segments {
		if len(s) > MaxSegment {
			return refuse("a name in the path is longer than %d bytes; use a shorter one", MaxSegment)
		}
		if parent(s) {
			return refuse("the path goes up with two dots; write it without them, relative to the workspace")
		}
	}
	return nil
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// parent reports whether some system takes a name for the parent folder.
func parent(s string) bool {
	s, _, _ = strings.Cut(s, ";")
	switch strings.Trim(s, " ") {
	case "..", "\u2025", "\ufe30": // two dots in one character
		return true
	}
	return false
}

// hidden holds for runes that a reader of a name may not see as they are. The joiners
// U+200C and U+200D are not among them: scripts and emoji need them.
func hidden(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7F
	case unicode.IsControl(r), r == utf8.RuneError:
		return true
	}
	return unicode.Is(unseen, r)
}

// unseen are characters that change the direction of writing or are shown as nothing.
var unseen = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00AD, Hi: 0x00AD, Stride: 1}, // soft hyphen
		{Lo: 0x034F, Hi: 0x034F, Stride: 1}, // combining grapheme joiner
		{Lo: 0x061C, Hi: 0x061C, Stride: 1}, // Arabic letter mark
		{Lo: 0x115F, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17B4, Hi: 0x17B5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180B, Hi: 0x180F, Stride: 1}, // Mongolian selectors and separator
		{Lo: 0x200B, Hi: 0x200B, Stride: 1}, // zero width space
		{Lo: 0x200E, Hi: 0x200F, Stride: 1}, // marks of direction
		{Lo: 0x2028, Hi: 0x202E, Stride: 1}, // line ends, embeddings and overrides
		{Lo: 0x2060, Hi: 0x206F, Stride: 1}, // word joiner, operators, isolates
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xFEFF, Hi: 0xFEFF, Stride: 1}, // byte order mark
		{Lo: 0xFFA0, Hi: 0xFFA0, Stride: 1}, // halfwidth Hangul filler
		{Lo: 0xFFF0, Hi: 0xFFFB, Stride: 1}, // annotations
	},
	R32: []unicode.Range32{
		{Lo: 0x1D173, Hi: 0x1D17A, Stride: 1}, // musical controls
		{Lo: 0xE0000, Hi: 0xE0FFF, Stride: 1}, // tags and variation selectors
	},
}

// plainer maps what some system takes for a dot or a slash to that.
func plainer(r rune) rune {
	switch r {
	case '\\', '／', '＼', '∕', '⁄', '∖', '⧵', '⧸', '﹨':
		return '/'
	case '．', '․', '﹒', '｡', '。':
		return '.'
	}
	return r
}

// decodePercent undoes %2e and %u002e once. What is not an escape stays.
func decodePercent(p string) string {
	if !strings.Contains(p, "%") {
		return p
	}
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if p[i] != '%' {
			b.WriteByte(p[i])
			continue
		}
		if i+5 < len(p) && p[i+1]|0x20 == 'u' {
			if n, ok := hex(p[i+2 : i+6]); ok {
				b.WriteRune(rune(n))
				i += 5
				continue
			}
		}
		if i+2 < len(p) {
			if n, ok := hex(p[i+1 : i+3]); ok {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte('%')
	}
	return b.String()
}

func hex(s string) (n int, ok bool) {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | int(c-'0')
		case letter(c) && c|0x20 <= 'f':
			n = n<<4 | int(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// inside makes an absolute path in the workspace relative to it, and leaves any
// other as it is.
func inside(workspace, p string) string {
	root := cleanWorkspace(workspace)
	if root == "" || !path.IsAbs(p) {
		return p
	}
	if strings.TrimRight(p, "/") == root {
		return "."
	}
	if rest, ok := strings.CutPrefix(p, root+"/"); ok {
		if rest = strings.TrimLeft(rest, "/"); rest != "" {
			return rest
		}
		return "."
	}
	return p
}

// cleanWorkspace is an absolute workspace without a slash at its end; "" for
// one that is not absolute, or the root, which nothing is outside of.
func cleanWorkspace(w string) string {
	if !path.IsAbs(w) {
		return ""
	}
	return strings.TrimSuffix(path.Clean(w), "/")
}

// sentence is an error of this package as a sentence for the model.
func sentence(err error) string {
	s := err.Error()
	for _, base := range []error{ErrPath, ErrHost} {
		s = strings.TrimPrefix(s, base.Error()+": ")
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// DecidesGit says whether a path is one by which git decides what to run: its
// configuration and hooks name programs, and a folder with a file HEAD may be taken
// for a repository too.
func DecidesGit(p string) bool { return hasPart(p, gitNames) }

// NamesPrograms says whether a path is configuration of agents or editors: what stands
// there, they run, beside whatever judges the calls of an agent.
func NamesPrograms(p string) bool { return hasPart(p, programNames) }

// gitNames and programNames are names of files and folders, in lower case.
var (
	gitNames     = []string{".git", "head"}
	programNames = []string{
		".mcp.json", "mcp.json", ".claude", ".codex", ".cursor", ".gemini", // agents: servers, hooks and permissions
		".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", // editors: tasks, launches, servers
	}
)

// hasPart says whether a part of a path is one of some names. It knows the other
// spellings by which file systems find them: case, dots and blanks behind the name, its
// short name, streams of NTFS, characters that HFS+ passes over.
func hasPart(p string, list []string) bool {
	for seg := range strings.FieldsFuncSeq(p, func(c rune) bool { return c == '/' || c == '\\' }) {
		seg, _, _ = strings.Cut(seg, ":")
		seg = strings.Map(func(r rune) rune {
			if r >= 0x200C && r <= 0x200D || hidden(r) {
				return -1
			}
			return r
		}, seg)
		s := strings.ToLower(strings.TrimRight(seg, ". "))
		if slices.ContainsFunc(list, func(name string) bool { return s == name || isShort(s, name) }) {
			return true
		}
	}
	return false
}

// isShort says whether s is what NTFS may call a file whose name begins with a dot in
// place of that name: its first six letters, and a number.
func isShort(s, name string) bool {
	name, dotted := strings.CutPrefix(name, ".")
	name, _, _ = strings.Cut(name, ".")
	rest, found := strings.CutPrefix(s, name[:min(len(name), 6)])
	return dotted && found && strings.HasPrefix(rest, "~")
}
