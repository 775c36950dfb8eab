package picture

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/tools"
)

// plain is a text on one line, safe to show, in at most n runes. What is cut ends
// in an ellipsis.
func plain(s string, n int) string {
	return clip(show.Short(s, n), n)
}

// clip cuts what is safe already.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n--; n == 0 {
			return s[:i] + "…"
		}
	}
	return "…"
}

// markup is a text as XML and HTML have it.
func markup(s string) string { return html.EscapeString(s) }

// Widths of characters in units of the size of the font. They are those of wide
// fonts: a text is rather cut too early than written over its neighbour.
const (
	monoWidth = 0.62
	eastWidth = 1.05
)

// broad says whether a character is as wide as it is high, as those of East Asia.
func broad(r rune) bool { return r >= 0x2E80 || r >= 0x1100 && r < 0x1160 }

// sansWidth is the estimated width of a text in a sans-serif font.
func sansWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case broad(r):
			w += eastWidth
		case strings.ContainsRune("ijl.,:;'|!()[]{}/ tfI", r):
			w += 0.4
		case strings.ContainsRune("mwMW@%…→", r):
			w += 0.95
		case r >= 'A' && r <= 'Z':
			w += 0.71
		default:
			w += 0.62
		}
	}
	return w * size
}

// boldWidth is sansWidth for a bold font.
func boldWidth(s string, size float64) float64 { return 1.12 * sansWidth(s, size) }

// mono is the estimated width of a text in a font of equal widths.
func mono(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		if broad(r) {
			w += eastWidth
		} else {
			w += monoWidth
		}
	}
	return w * size
}

// fit cuts a safe text to what has room in a width.
func fit(s string, room, size float64, width func(string, float64) float64) string {
	if width(s, size) <= room {
		return s
	}
	room -= width("…", size)
	end, w := 0, 0.0
	for i, r := range s {
		w += width(string(r), size)
		if w > room {
			break
		}
		end = i + utf8.RuneLen(r)
	}
	if end == 0 {
		return ""
	}
	return strings.TrimRight(s[:end], " ") + "…"
}

// wrap breaks a safe text between words into at most n lines that have room in a
// width. What has no place ends in an ellipsis.
func wrap(s string, room, size float64, n int) []string {
	var out []string
	line := ""
	for word := range strings.SplitSeq(s, " ") {
		longer := strings.TrimPrefix(line+" "+word, " ")
		switch {
		case line == "" || sansWidth(longer, size) <= room:
			line = longer
		case len(out) == n-1:
			return append(out, fit(line+" …", room, size, sansWidth))
		default:
			out, line = append(out, fit(line, room, size, sansWidth)), word
		}
	}
	return append(out, fit(line, room, size, sansWidth))
}

// count is for example "1 turn" or "3 turns".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}

// grouped is a number with a thin space before every three digits, from 10 000 on.
func grouped(n int) string {
	s := strconv.Itoa(n)
	if n < 10_000 {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// brief is a number in at most five characters, rounded down: 999, 9999, 12k, 3.4M.
func brief(n int) string {
	switch {
	case n < 10_000:
		return strconv.Itoa(n)
	case n < 1_000_000:
		return strconv.Itoa(n/1000) + "k"
	case n < 10_000_000:
		return fmt.Sprintf("%d.%dM", n/1_000_000, n/100_000%10)
	}
	return strconv.Itoa(n/1_000_000) + "M"
}

// span is a duration for a person, to three digits: "640 µs", "20.4 s", "3 d 2 h".
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "−" + span(-max(d, math.MinInt64+1))
	case d == 0:
		return "0"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return digits(d, time.Microsecond) + " µs"
	case d < time.Second:
		return digits(d, time.Millisecond) + " ms"
	case d < time.Minute:
		return digits(d, time.Second) + " s"
	case d < time.Hour:
		return two(d, time.Minute, "m", time.Second, "s")
	case d < 24*time.Hour:
		return two(d, time.Hour, "h", time.Minute, "m")
	}
	return two(d, 24*time.Hour, "d", time.Hour, "h")
}

// digits is a duration in a unit, to three digits.
func digits(d, unit time.Duration) string {
	f := float64(d) / float64(unit)
	after := 0
	switch {
	case f < 10:
		after = 2
	case f < 100:
		after = 1
	}
	s := strconv.FormatFloat(f, 'f', after, 64)
	if after > 0 {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func two(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	n := d / big
	m := (d % big) / small
	if m == 0 {
		return fmt.Sprintf("%d %s", n, bigName)
	}
	return fmt.Sprintf("%d %s %d %s", n, bigName, m, smallName)
}

// stamp is a time as it is shown everywhere: UTC, to the millisecond.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "at an unknown time"
	}
	return t.UTC().Format("2006-01-02 15:04:05.000") + " UTC"
}

// num is a coordinate, to a tenth of a pixel.
func num(f float64) string {
	return strconv.FormatFloat(math.Round(f*10)/10+0, 'f', -1, 64) // + 0: no -0
}

// lines is text of several lines, safe to show, in at most n bytes before its
// escapes. It says what it cut.
func lines(s string, n int) (shown string, cut int) {
	if len(s) > n {
		at := n
		for at > 0 && !utf8.RuneStart(s[at]) {
			at--
		}
		cut = len(s) - at
		s = s[:at]
	}
	rows := strings.Split(s, "\n")
	for i, l := range rows {
		rows[i] = tools.Visible(l)
	}
	return strings.Join(rows, "\n"), cut
}
