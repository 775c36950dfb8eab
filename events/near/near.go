// Package near tells which known word a misspelt one most likely means.
package near

import "strings"

// longest is how much of a word is compared, in bytes: what is longer is no misspelt name.
const longest = 64

// Distance is how many letters must change to make one word of the other, whatever their
// case. It looks at the first 64 bytes of each.
func Distance(a, b string) int {
	a, b = strings.ToLower(a[:min(len(a), longest)]), strings.ToLower(b[:min(len(b), longest)])
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// minBegin is the length of the shortest word that is taken for the beginning of another, or
// for one that begins with it.
const minBegin = 3

// Word is the known word that a misspelt one most likely means, the first of equals: one
// written in another way (canAsk for can_ask), the beginning of one, or one of which at most
// a third of the letters, and no more than three, must change. "" where none is near, and for
// what is too long for a name.
func Word(word string, known []string) string {
	if len(word) > longest {
		return ""
	}
	best, score := "", min(3, max(1, len(word)/3))+1
	plain := bare(word)
	for _, k := range known {
		other := bare(k)
		far := Distance(plain, other)
		if n := min(len(plain), len(other)); far > 0 && n >= minBegin && plain[:n] == other[:n] {
			far = 1
		}
		if far < score {
			best, score = k, far
		}
	}
	return best
}

// bare is a word in small letters, without what joins its parts.
func bare(word string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(word))
}
