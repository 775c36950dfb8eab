package events

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible is s with everything escaped that a terminal or a browser would not
// show as itself: control characters, line breaks and tabs too, characters that
// change the direction of writing, that are invisible, that are drawn over their
// neighbours, or that look like an ordinary space or like ASCII of another width,
// and marks that stand behind no letter, or behind so many others that they would
// be drawn over the lines above and below.
// They become \u and four or \U and eight hexadecimal digits, bytes that are no
// UTF-8 \x and two. Backslashes before u, U, x or an escape are doubled, so that no
// text can look like an escape, and different texts never look alike. It is pure.
func Visible(s string) string {
	if shownAsIs(s) {
		return s
	}
	var b strings.Builder
	slashes, room := 0, 0 // the run of backslashes just before; marks that may follow
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		wrong := r == utf8.RuneError && n == 1
		stray := false
		room, stray = marked(r, room)
		if r == '\\' {
			slashes++
			b.WriteByte('\\')
			i += n
			continue
		}
		hidden := wrong || stray || !visible(r)
		if hidden {
			room = 0 // what stands behind an escape would be drawn over it
		}
		if hidden || r == 'u' || r == 'U' || r == 'x' {
			b.WriteString(strings.Repeat(`\`, slashes))
		}
		slashes = 0
		switch {
		case wrong:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !hidden:
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

func shownAsIs(s string) bool {
	room, stray := 0, false
	for _, r := range s {
		if room, stray = marked(r, room); stray || r == '\\' || r == utf8.RuneError || !visible(r) {
			return false
		}
	}
	return true
}

// maxMarks is how many marks may stand behind one letter: more than any writing needs.
const maxMarks = 4

// marked is how many marks may stand behind r, where room is how many might have stood in
// its place, and whether r is a mark too many.
func marked(r rune, room int) (left int, stray bool) {
	switch {
	case r >= utf8.RuneSelf && unicode.Is(unicode.M, r):
		return max(room-1, 0), room == 0
	case unicode.IsLetter(r) || unicode.IsNumber(r):
		return maxMarks, false
	}
	return 0, false
}

// visible says whether a reader sees r, and nothing else because of it.
func visible(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r != 0x7F
	}
	return unicode.IsPrint(r) && !unicode.Is(ignorable, r) && !unicode.Is(deceptive, r)
}

// ignorable are letters and marks that are shown as nothing; what else is
// invisible is not printable for package unicode.
var ignorable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x034F, Hi: 0x034F, Stride: 1}, // combining grapheme joiner
		{Lo: 0x115F, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17B4, Hi: 0x17B5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180B, Hi: 0x180F, Stride: 1}, // Mongolian selectors
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // empty Braille pattern
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xFE00, Hi: 0xFE0F, Stride: 1}, // variation selectors
		{Lo: 0xFFA0, Hi: 0xFFA0, Stride: 1}, // halfwidth Hangul filler
	},
	R32: []unicode.Range32{
		{Lo: 0xE0100, Hi: 0xE01EF, Stride: 1}, // variation selectors
	},
}

// deceptive are characters that look like ASCII of another width, and marks that are
// drawn over the letter before them so that it looks like another.
var deceptive = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0334, Hi: 0x0338, Stride: 1}, // overlays
		{Lo: 0x20D2, Hi: 0x20D3, Stride: 1},
		{Lo: 0x20D8, Hi: 0x20DA, Stride: 1},
		{Lo: 0x20DD, Hi: 0x20E0, Stride: 1}, // marks that enclose
		{Lo: 0x20E2, Hi: 0x20E6, Stride: 1},
		{Lo: 0x20EA, Hi: 0x20EB, Stride: 1},
		{Lo: 0xFF01, Hi: 0xFF5E, Stride: 1}, // ASCII, full width
	},
	R32: []unicode.Range32{
		{Lo: 0x1D400, Hi: 0x1D7FF, Stride: 1}, // letters and digits as mathematical symbols
	},
}
