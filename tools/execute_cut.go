package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Defaults of Limits.Lines and Limits.Text, and the lines that KeepBoth keeps
// of each end.
const (
	DefaultLines = 2_000
	DefaultText  = 51_200
	EndLines     = 40
)

// CutText cuts text to l.Lines and l.Text, at the end that l.Keep lets go, and
// returns what is kept, with a line that says what was cut, and how many bytes
// and whole lines that was. What is kept is at most l.Text bytes long, that
// line included, and is cut only between runes; where the limit is too small
// for the line, it is left out. It is pure.
func CutText(text string, l Limits) (kept string, cutBytes, cutLines int64) {
	return CutTextFrom(text, l, "")
}

// CutTextFrom is CutText where the whole text is kept at a place, such as a
// digest, which the line then names; "" means nowhere.
func CutTextFrom(text string, l Limits, place string) (kept string, cutBytes, cutLines int64) {
	limit, lines := DefaultText, DefaultLines
	if l.Text > 0 {
		limit = l.Text
	}
	if l.Lines > 0 {
		lines = l.Lines
	}
	return cut(text, limits{limit, lines, EndLines}, l.Keep, place)
}

// limits bound a text: its bytes, its lines, and the lines of each end where
// both are kept.
type limits struct{ bytes, lines, ends int }

func cut(text string, l limits, keep Keep, place string) (kept string, cutBytes, cutLines int64) {
	if len(text) <= l.bytes && !moreLines(text, l.lines) {
		return text, 0, 0
	}
	room := l.bytes - len(cutNotice(text, 0, len(text), keep, place)) - 1 // the longest that it can be
	silent := room < 0
	if silent {
		room = l.bytes
	}
	from, to := cutRange(text, room, l, keep)
	cutBytes, cutLines = int64(to-from), wholeLines(text, from, to)
	if silent {
		return text[:from] + text[to:], cutBytes, cutLines
	}
	return text[:from] + cutNotice(text, from, to, keep, place) + text[to:], cutBytes, cutLines
}

// cutRange says which bytes of text go: text[from:to].
func cutRange(text string, room int, l limits, keep Keep) (from, to int) {
	switch keep {
	case KeepTail:
		return 0, tailStart(text, room, l.lines)
	case KeepBoth:
		head, tail := min(l.ends, l.lines-l.lines/2), min(l.ends, l.lines/2)
		from = headEnd(text, room-room/2, head)
		to = max(from, tailStart(text, room/2, tail))
		if spare := room - from - (len(text) - to); spare > 0 && to > from {
			// One end is short: the other may have what it leaves.
			to = max(from, tailStart(text, len(text)-to+spare, tail))
			from = min(to, headEnd(text, room-(len(text)-to), head))
		}
		return from, to
	}
	return headEnd(text, room, l.lines), len(text)
}

// headEnd is where the longest head of at most that many bytes and lines ends.
func headEnd(text string, bytes, lines int) int {
	end := min(bytes, len(text))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) && bytes-end < utf8.UTFMax {
		end--
	}
	if at := lineEnd(text[:end], lines); at >= 0 {
		return at
	}
	return end
}

// lineEnd is the place behind the nth newline of s, or -1 if it has not so many.
func lineEnd(s string, n int) int {
	at := 0
	for range n {
		i := strings.IndexByte(s[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
	}
	return at
}

// tailStart is where the longest tail of at most that many bytes and lines begins.
func tailStart(text string, bytes, lines int) int {
	if lines == 0 {
		return len(text)
	}
	start := max(len(text)-bytes, 0)
	for start > 0 && start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	at := len(text)
	if strings.HasSuffix(text, "\n") {
		at-- // it ends the last line, and begins none
	}
	for range lines {
		i := strings.LastIndexByte(text[:max(at, 0)], '\n')
		if i < 0 {
			return start
		}
		at = i
	}
	return max(start, at+1)
}

// moreLines says whether text has more than n lines.
func moreLines(text string, n int) bool {
	at := lineEnd(text, n)
	return at >= 0 && at < len(text)
}

// wholeLines is the number of lines of text that lie wholly in text[from:to].
func wholeLines(text string, from, to int) int64 {
	if from >= to {
		return 0
	}
	n := strings.Count(text[from:to], "\n")
	if to == len(text) && text[to-1] != '\n' {
		n++
	}
	if from > 0 && text[from-1] != '\n' {
		n-- // the rest of a line that is kept in part
	}
	return int64(max(n, 0))
}

// cutNotice is the line that stands for text[from:to].
func cutNotice(text string, from, to int, keep Keep, place string) string {
	what := fmt.Sprintf("[%d bytes, %d lines cut", to-from, wholeLines(text, from, to))
	if place != "" {
		what += "; whole text: " + place
	}
	what += "]"
	if keep != KeepTail && from > 0 && text[from-1] != '\n' {
		what = "\n" + what
	}
	if keep == KeepTail || keep == KeepBoth {
		what += "\n"
	}
	return what
}
