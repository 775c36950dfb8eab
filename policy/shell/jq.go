package shell

import "strings"

// jqRefused are the words of jq that show the environment or load code.
var jqRefused = names("env import include modulemeta get_search_list")

// jqFilter refuses filters with a word that is refused. A member's name (.env) is none.
func jqFilter(c *classifier, p *parsed) {
	if len(p.operands) == 0 {
		return
	}
	for w := range jqWords(p.operands[0].text) {
		if jqRefused[w] {
			c.add(ruleFlag, w)
		}
	}
}

// jqWords are the words of a filter, in lower case, without the names of members. Strings
// are passed over where it is beyond doubt what a string is; else their words count.
func jqWords(filter string) map[string]bool {
	words := map[string]bool{}
	plain := !strings.ContainsAny(filter, "#\\")
	for i := 0; i < len(filter); {
		from := i
		switch b := filter[i]; {
		case b == '"' && plain:
			end := strings.IndexByte(filter[i+1:], '"')
			if i++; end >= 0 {
				i += end + 1
			}
		case digit(b) || b == '.' && i+1 < len(filter) && digit(filter[i+1]):
			i = jqNumber(filter, i)
		case strings.HasPrefix(filter[i:], ".."):
			i += 2
		case b == '.':
			i = wordEnd(filter, i+1)
		case wordEnd(filter, i) > i:
			i = wordEnd(filter, i)
			words[strings.ToLower(filter[from:i])] = true
		default:
			i++
		}
	}
	return words
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

// jqNumber is where the number that begins at i ends.
func jqNumber(s string, i int) int {
	digits := func() {
		for i < len(s) && digit(s[i]) {
			i++
		}
	}
	digits()
	if i < len(s) && s[i] == '.' {
		i++
		digits()
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		from := i
		if i++; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if i == len(s) || !digit(s[i]) {
			return from // the word behind it
		}
		digits()
	}
	return i
}

// wordEnd is where the word that begins at i ends; i where none does.
func wordEnd(s string, i int) int {
	for i < len(s) && (s[i] == '_' || digit(s[i]) || s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z') {
		i++
	}
	return i
}
