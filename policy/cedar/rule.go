package cedar

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/events/near"
	"github.com/sluice-run/sluice/policy"
)

// annotations are those that a policy may have. A word misspelt would change what a
// policy says, so there are no others.
var annotations = []string{"id", "ask", "reason", "code", "pointer", "doc"}

// codes are what a forbid may be to a model.
var codes = []events.Code{
	events.PermissionDenied, events.AccessDenied, events.InvalidParam, events.NotFound, events.TooLarge, events.Conflict, events.UnknownTool,
}

var (
	idForm      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	pointerForm = regexp.MustCompile(`^(/[^/]*)+$`)
)

// reserved begin ids that are not a policy's to have.
var reserved = []string{"allow.", "default.", "args."}

// policyFloor are the rules that hold whatever the texts say.
func policyFloor() policy.Rules { return policy.Floor() }

// policy adds the n-th policy of a file, whose tokens are part.
func (l *loader) policy(f File, n int, p *cedar.Policy, part []token) {
	first, last := part[0], part[len(part)-1]
	r := rule{
		Policy: Policy{
			File: f.Name, Line: first.line, Column: first.col, Forbid: p.Effect() == cedar.Forbid,
			Text: string(f.Text[first.offset : last.offset+len(last.text)]),
		},
		policy: p, name: cedar.PolicyID(strconv.Itoa(len(l.rules))), place: len(l.rules), order: len(l.rules), cost: cost{words: len(part)},
	}
	fault := func(near, format string, args ...any) {
		t := find(part, near)
		l.fault(Fault{f.Name, t.line, t.col, fmt.Sprintf(format, args...)})
	}
	notes := p.Annotations()
	for _, key := range sortedKeys(notes) {
		if !slices.Contains(annotations, key) {
			fault(key, "there is no annotation @%s: those are @%s%s", key, strings.Join(annotations, ", @"), meant(key, annotations))
		}
	}
	l.identify(&r, f, n, notes, fault)
	l.annotate(&r, notes, fault)
	for _, c := range check(p) {
		fault(c.near, "%s", c.text)
	}
	for _, c := range doubts(p) {
		t := find(part, c.near)
		l.doubts = append(l.doubts, (&Fault{f.Name, t.line, t.col, c.text}).Error())
	}
	l.ids[r.ID] = append(l.ids[r.ID], len(l.rules))
	l.rules = append(l.rules, r)
}

// find is the first token of a policy that is text, or else its first one.
func find(part []token, text string) token {
	for _, t := range part {
		if text != "" && (t.text == text || t.text == strconv.Quote(text)) {
			return t
		}
	}
	return part[0]
}

func sortedKeys(notes cedar.Annotations) []string {
	var out []string
	for k := range notes {
		out = append(out, string(k))
	}
	slices.Sort(out)
	return out
}

// identify gives a policy its id: @id, or the file's name and its place there.
func (l *loader) identify(r *rule, f File, n int, notes cedar.Annotations, fault func(near, format string, args ...any)) {
	id, given := notes["id"]
	r.ID, r.given = string(id), given
	if !given {
		stem := strings.TrimSuffix(path.Base(strings.ReplaceAll(f.Name, "\\", "/")), ".cedar")
		stem = regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(stem, "-")
		stem = strings.TrimLeft(stem[:min(len(stem), maxID-8)], "._-")
		r.ID = fmt.Sprintf("%s.%d", orWord(stem), n+1)
	}
	twins := l.ids[r.ID]
	switch {
	case !idForm.MatchString(r.ID) || len(r.ID) > maxID:
		fault("id", "the id %s is not 1 to %d of A-Za-z0-9._- with a letter or digit first", shown(r.ID), maxID)
	case slices.Contains(l.taken, r.ID), slices.ContainsFunc(reserved, func(p string) bool { return strings.HasPrefix(r.ID, p) }):
		fault("id", "the id %s is one of the program's own: give the policy another one", r.ID)
	case len(twins) == 0, given && l.half(twins, *r):
	default:
		t := l.rules[twins[0]]
		fault("id", "the id %s stands at %s:%d:%d already: give each policy its own; only a forbid and a permit that stand side by side may share one",
			r.ID, t.File, t.Line, t.Column)
	}
}

// half says whether a policy is the second half of a rule: a forbid and a permit that
// stand side by side may have one id, as what they do is told under one name.
func (l *loader) half(twins []int, r rule) bool {
	first := l.rules[twins[0]]
	return len(twins) == 1 && twins[0] == len(l.rules)-1 && first.given && first.File == r.File && first.Forbid != r.Forbid
}

func orWord(stem string) string {
	if stem == "" {
		return "policy"
	}
	return stem
}

// annotate reads what else a policy says beside its text.
func (l *loader) annotate(r *rule, notes cedar.Annotations, fault func(near, format string, args ...any)) {
	ask, asks := notes["ask"]
	reason, has := notes["reason"]
	switch {
	case asks && r.Forbid:
		fault("ask", "@ask belongs on a permit: a forbid denies, and nobody is asked")
	case asks && has:
		fault("reason", "@ask has the sentence already: take @reason away")
	}
	r.Ask, r.ask = asks, asks
	var err error
	switch {
	case asks:
		if r.say, err = parseTemplate(string(ask)); err != nil {
			fault("ask", "@ask: %v", err)
		}
	case has:
		if r.say, err = parseTemplate(string(reason)); err != nil {
			fault("reason", "@reason: %v", err)
		}
	default:
		r.say = r.plainly()
	}
	if code, ok := notes["code"]; ok {
		r.code = string(code)
		if !r.Forbid || !slices.Contains(codes, events.Code(code)) {
			fault("code", "@code(%s): it belongs on a forbid, and is one of %v", shown(r.code), codes)
		}
	}
	if pointer, ok := notes["pointer"]; ok {
		if r.pointer, r.whole = string(pointer), pointer == ""; !r.whole && !pointerForm.MatchString(r.pointer) || len(r.pointer) > maxSentence {
			fault("pointer", "@pointer(%s): want the JSON Pointer of an argument, for example /path, or nothing for the call as a whole", shown(r.pointer))
		}
	}
}

// plainly is the sentence of a policy that brings none.
func (r *rule) plainly() template {
	if r.Forbid {
		return template{{text: "The operator's policy \"" + r.ID + "\" forbids this; go on without it, or tell the user what is missing."}}
	}
	return template{{text: "The policy \"" + r.ID + "\" permits it."}}
}

// meant is a guess at what a misspelt word should be.
func meant(word string, known []string) string {
	best, score := "", 3
	for _, k := range known {
		if d := near.Distance(word, k); d < score {
			best, score = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; is " + best + " meant?"
}
