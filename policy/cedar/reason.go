package cedar

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/shell"
)

// template is a sentence with places to fill.
type template []segment

type segment struct {
	text string
	slot string // "" or the name of a place
}

// slots are the places that a sentence may have.
var slots = []string{"why", "tool", "principal", "resource"}

// maxSentence is the most bytes of a sentence in an annotation.
const maxSentence = 600

// parseTemplate reads a sentence.
func parseTemplate(s string) (template, error) {
	if len(s) > maxSentence {
		return nil, fmt.Errorf("the sentence has %d bytes, at most %d", len(s), maxSentence)
	}
	if strings.TrimSpace(s) == "" {
		return nil, fmt.Errorf("the sentence is empty: say what a person or a model should read")
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }); i >= 0 {
		return nil, fmt.Errorf("the sentence holds a control or invisible character: write it plainly, on one line")
	}
	var t template
	for s != "" {
		before, rest, open := strings.Cut(s, "{")
		if before != "" {
			t = append(t, segment{text: before})
		}
		if !open {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		known := false
		for _, k := range slots {
			known = known || k == name
		}
		if !closed || !known {
			return nil, fmt.Errorf("the sentence has a place {%s that nothing fills: those are {%s}", short(rest), strings.Join(slots, "}, {"))
		}
		t = append(t, segment{slot: name})
		s = after
	}
	return t, nil
}

// uses reports whether the sentence has a place.
func (t template) uses(slot string) bool {
	for _, s := range t {
		if s.slot == slot {
			return true
		}
	}
	return false
}

// fill makes the sentence. Where the whole of it is one place, nothing is added.
func (t template) fill(value func(slot string) string) string {
	var b strings.Builder
	for i, s := range t {
		v := s.text
		if s.slot != "" {
			v = value(s.slot)
			if i < len(t)-1 {
				v = strings.TrimSuffix(v, ".")
			}
		}
		b.WriteString(v)
	}
	out := b.String()
	if !strings.HasSuffix(out, ".") && !strings.HasSuffix(out, "?") && !strings.HasSuffix(out, "!") {
		out += "."
	}
	return out
}

// shown is a name from a model or a message from a library inside a sentence: short,
// and without what could end the sentence or steer a terminal.
func shown(s string) string { return policy.Shown(s) }

func plain(s string, most int) string { return shell.Legible(s, most) }

// short is the beginning of a piece of a policy's text, for messages.
func short(s string) string {
	const most = 40
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
