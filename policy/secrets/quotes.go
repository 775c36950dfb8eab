package secrets

import "strings"

// spelled are the ways to write a quote where it cannot stand as it is.
var spelled = []string{"u0022", "u0027", "&quot;", "&#34;", "&#39;", "&#x22;", "&#x27;", "&apos;", "%22", "%27"}

// quoteAt is the length of the quote at i, with the backslashes before it; 0 if there
// is none.
func quoteAt(t string, i int) int {
	n := backslashes(t[min(i, len(t)):])
	if i+n >= len(t) {
		return 0
	}
	switch t[i+n] {
	case '"', '\'':
		return n + 1
	case '`':
		if n == 0 {
			return 1
		}
	case 'u', '&', '%':
		for _, q := range spelled {
			if strings.HasPrefix(t[i+n:], q) && (q[0] == 'u') == (n > 0) {
				return n + len(q)
			}
		}
	}
	return 0
}

// quoteBefore is the length of the quote that ends at end; 0 if there is none.
func quoteBefore(t string, end int) int {
	if end == 0 {
		return 0
	}
	n := 0
	switch t[end-1] {
	case '"', '\'', '`':
		n = 1
	case '2', '7', ';':
		for _, q := range spelled {
			if strings.HasSuffix(t[:end], q) {
				n = len(q)
			}
		}
	}
	if n == 0 {
		return 0
	}
	slashes := 0
	for slashes < maxEscapes && end-n-slashes > 0 && t[end-n-slashes-1] == '\\' {
		slashes++
	}
	if t[end-n] == 'u' && slashes == 0 {
		return 0
	}
	return n + slashes
}

// closing is where a text between quotes ends. It ends nowhere behind a line's end.
func closing(t string, i int, quote string) (end int, closed bool) {
	most := min(len(t), i+maxSecrets)
	for ; i < most; i++ {
		switch {
		case strings.HasPrefix(t[i:], quote):
			return i, true
		case t[i] == '\n':
			return i, false
		case t[i] == '\\' && len(quote) == 1:
			i++
		}
	}
	return min(i, len(t)), false
}
