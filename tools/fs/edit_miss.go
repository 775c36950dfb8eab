package fs

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	missLines    = 12     // lines of the file that an explanation shows
	missSearched = 50_000 // lines that it looks through
	missBytes    = 2 << 20
	missWanted   = 1000 // lines of an old_string that is looked for loosely
)

var numbered = regexp.MustCompile(`(?m)^ *\d+\t`)

// explainMiss says why old is not in text, and what is there instead.
func explainMiss(given, text, old string) string {
	head := fmt.Sprintf("old_string is not in %q", given)
	if bare := numbered.ReplaceAllString(old, ""); bare != old && bare != "" && strings.Contains(text, bare) {
		return head + " with the line numbers that Read puts in front: leave them out"
	}
	if inner := strings.Trim(old, "\r\n"); inner != "" && strings.Contains(text, inner) {
		return head + fmt.Sprintf(" with the empty lines around it; without them it stands at lines %s", placesOf(text, inner))
	}
	text = strings.ToValidUTF8(text[:min(len(text), missBytes)], "") // an explanation must cost less than a read
	lines := strings.Split(text, "\n")
	if at, n := looseMatch(lines, old); n > 0 {
		return head + fmt.Sprintf(": it differs in white space, quotes or dashes from lines %d-%d, which are\n%s", at+1, at+n, quoteLines(lines, at, n))
	}
	if i := strings.Index(strings.ToLower(text), strings.ToLower(old)); i >= 0 && len(strings.ToLower(text)) == len(text) {
		at := strings.Count(text[:i], "\n")
		n := strings.Count(old, "\n") + 1
		return head + fmt.Sprintf(": it differs in capital letters from lines %d-%d, which are\n%s", at+1, at+n, quoteLines(lines, at, n))
	}
	if near := nearestLine(lines, old); near >= 0 {
		from := max(0, near-1)
		return head + fmt.Sprintf("; the nearest line is %d\n%s\nread the file again before the next try", near+1, quoteLines(lines, from, 3+strings.Count(old, "\n")))
	}
	return head + ", and nothing near it is: read the file again"
}

// quoteLines shows n lines as Read does.
func quoteLines(lines []string, at, n int) string {
	var b strings.Builder
	for i := at; i < min(at+n, len(lines)); i++ {
		if i-at == missLines {
			b.WriteString("[and so on]")
			break
		}
		line := strings.TrimSuffix(lines[i], "\r")
		fmt.Fprintf(&b, "%6d\t%s\n", i+1, shownLine([]byte(line[:min(len(line), maxLine)]), int64(len(line))))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

var looseRunes = strings.NewReplacer(
	" ", "", "\t", "", "\r", "", "\u00a0", "", "\u2009", "", "\u202f", "", "\u200b", "", "\ufeff", "",
	"\u2018", "'", "\u2019", "'", "\u201c", `"`, "\u201d", `"`, "\u2013", "-", "\u2014", "-", "\u2212", "-",
)

// looseMatch finds the lines that are old but for white space, quotes and
// dashes: the first of them and how many.
func looseMatch(lines []string, old string) (at, n int) {
	want := strings.Split(strings.Trim(old, "\r\n"), "\n")
	for i, l := range want {
		want[i] = looseRunes.Replace(l)
	}
	if strings.Join(want, "") == "" || len(want) > missWanted {
		return 0, 0
	}
	have := make([]string, min(len(lines), missSearched))
	for i := range have {
		have[i] = looseRunes.Replace(lines[i])
	}
	for i := 0; i+len(want) <= len(have); i++ {
		if looseAt(have[i:], want) {
			return i, len(want)
		}
	}
	return 0, 0
}

// looseAt compares whole lines, but for the ends of the first and the last.
func looseAt(have, want []string) bool {
	last := len(want) - 1
	if last == 0 {
		return strings.Contains(have[0], want[0])
	}
	return strings.HasSuffix(have[0], want[0]) && strings.HasPrefix(have[last], want[last]) &&
		slices.Equal(have[1:last], want[1:last])
}

// nearestLine is the line most like the longest line of old; -1 if none is like it.
func nearestLine(lines []string, old string) int {
	wanted := slices.MaxFunc(strings.Split(old, "\n"), func(a, b string) int {
		return cmp.Compare(len(strings.TrimSpace(a)), len(strings.TrimSpace(b)))
	})
	pairs := pairsOf(wanted[:min(len(wanted), maxLine)])
	best, at := 0.5, -1
	for i, l := range lines[:min(len(lines), missSearched)] {
		if s := likeness(pairs, l[:min(len(l), maxLine)]); s > best {
			best, at = s, i
		}
	}
	return at
}

// pairsOf counts the pairs of neighbouring bytes in a line.
func pairsOf(line string) map[[2]byte]int {
	line = strings.TrimSpace(line)
	out := make(map[[2]byte]int, len(line))
	for i := 1; i < len(line); i++ {
		out[[2]byte{line[i-1], line[i]}]++
	}
	return out
}

// likeness is the share of pairs that two lines have in common, 0 to 1.
func likeness(pairs map[[2]byte]int, line string) float64 {
	total, common := 0, 0
	for _, n := range pairs {
		total += n
	}
	line = strings.TrimSpace(line)
	if total == 0 || len(line) < 2 {
		return 0
	}
	for p, n := range pairsOf(line) {
		common += min(n, pairs[p])
	}
	return 2 * float64(common) / float64(total+len(line)-1)
}
