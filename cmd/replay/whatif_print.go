package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
)

// whatifLine is what whatif has found, in JSON. Scripts read it. calls is the sum of
// same, changed, broken, not_judged and not_asked.
type whatifLine struct {
	OK        bool           `json:"ok"` // the exit code is 0
	Policy    policyLine     `json:"policy"`
	Turns     int            `json:"turns"`
	Calls     int            `json:"calls"` // that are selected
	Others    int            `json:"not_selected"`
	Same      int            `json:"same"`
	Changed   int            `json:"changed"`
	Unwanted  int            `json:"changed_otherwise"` // among same: by a change that --to leaves out
	Broken    int            `json:"policy_broken"`     // the policy could not be evaluated: they would be denied
	NotJudged int            `json:"cannot_be_judged"`
	NotAsked  int            `json:"not_asked"` // ended before any policy was asked
	Headless  int            `json:"without_beginning"`
	Assumed   int            `json:"network_assumed"`
	Folded    int            `json:"folded"` // calls in groups that are not told apart
	Damaged   int            `json:"damaged"`
	Changes   []changeLine   `json:"changes"`
	Groups    []groupLine    `json:"groups"`
	Unjudged  []unjudgedLine `json:"unjudged"`
	Missing   map[string]int `json:"missing_at_replay"` // calls by tool
	First     *time.Time     `json:"first"`
	Last      *time.Time     `json:"last"`
}

type policyLine struct {
	Given   string `json:"given"`
	Version string `json:"version"`
}

type changeLine struct {
	From  again.Ruling `json:"from"`
	To    again.Ruling `json:"to"`
	Calls int          `json:"calls"`
}

type groupLine struct {
	From     again.Ruling  `json:"from"`
	To       again.Ruling  `json:"to"`
	Tool     string        `json:"tool"`
	Policies []string      `json:"policies"`
	Code     events.Code   `json:"code,omitempty"`
	Reason   string        `json:"reason"`
	Calls    int           `json:"calls"`
	Examples []exampleLine `json:"examples"`
}

type unjudgedLine struct {
	Why      string        `json:"why"`
	Tool     string        `json:"tool"`
	Calls    int           `json:"calls"`
	Examples []exampleLine `json:"examples"`
}

type exampleLine struct {
	Call     string `json:"call"` // trace/turn/offset
	Position string `json:"position"`
}

func examplesOf(list []again.Example) []exampleLine {
	out := make([]exampleLine, len(list))
	for i, e := range list {
		out[i] = exampleLine{e.Call.String(), e.Position.String()}
	}
	return out
}

func (w *whatIf) line(s again.Summary) whatifLine {
	out := whatifLine{
		OK: w.clean(s), Policy: policyLine{w.by.policy, w.version}, Turns: s.Turns, Calls: s.Calls, Others: s.Passed, Same: s.Same,
		Changed: s.Changed, Unwanted: s.Unwanted, Broken: s.Broken, NotJudged: s.NotJudged, NotAsked: s.Early, Headless: s.Headless,
		Assumed: s.Assumed, Folded: s.Folded, Damaged: w.damaged, Changes: changesOf(s), Groups: []groupLine{}, Unjudged: []unjudgedLine{},
		Missing: s.Missing,
	}
	if !s.First.IsZero() {
		out.First, out.Last = &s.First, &s.Last
	}
	for _, g := range s.Groups {
		line := groupLine{g.From, g.To, g.Tool, g.Policies, g.Code, g.Reason, g.Count, examplesOf(g.Examples)}
		if line.Policies == nil {
			line.Policies = []string{}
		}
		out.Groups = append(out.Groups, line)
	}
	for _, u := range s.Unjudged {
		out.Unjudged = append(out.Unjudged, unjudgedLine{u.Why, u.Tool, u.Count, examplesOf(u.Examples)})
	}
	return out
}

// changesOf are the kinds of changes, the largest first.
func changesOf(s again.Summary) []changeLine {
	calls := map[[2]again.Ruling]int{}
	for _, g := range s.Groups {
		calls[[2]again.Ruling{g.From, g.To}] += g.Count
	}
	out := []changeLine{}
	for c, n := range calls {
		out = append(out, changeLine{c[0], c[1], n})
	}
	slices.SortFunc(out, func(a, b changeLine) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return out
}

// How many groups of each kind are printed; --json has them all.
const (
	shownGroups   = 40
	shownUnjudged = 12
)

// tell prints what was found, for a person.
func (w *whatIf) tell(s again.Summary) {
	p := w.app.print
	for _, c := range changesOf(s) {
		p("%s -> %s: %s\n", c.From, c.To, count(c.Calls, "call"))
		shown := 0
		for _, g := range s.Groups {
			if g.From != c.From || g.To != c.To {
				continue
			}
			if shown++; shown <= shownGroups {
				w.group(g)
			}
		}
		if shown > shownGroups {
			p("  and %s, in --json\n", count(shown-shownGroups, "further group"))
		}
	}
	w.unjudged(s)
	if n := len(s.Missing); n > 0 {
		names := slices.Sorted(maps.Keys(s.Missing))
		p("missing_at_replay: %s not registered now: %s\n", count(n, "tool"), show.Short(strings.Join(names, ", "), 500))
	}
	p("%s: %d judged by %s (version %s): %s\n", count(s.Calls, "call"), s.Same+s.Changed+s.Broken, show.Short(w.by.policy, 200),
		show.Short(w.version, 80), w.words(s))
}

// group prints a group: its tool, why, and where to look.
func (w *whatIf) group(g again.Group) {
	tool, reason := show.Short(g.Tool, 80), show.Short(g.Reason, 300)
	if g.Tool == "" {
		tool = "(several tools)"
	}
	if g.Reason == "" {
		reason = "(for several reasons)"
	}
	code := ""
	if g.Code != "" {
		code = " " + show.Short(string(g.Code), 40)
	}
	w.app.print("  %6d  %s%s: %s [%s]\n", g.Count, tool, code, reason, show.Short(strings.Join(g.Policies, " "), 200))
	w.app.print("          %s\n", at(g.Examples))
}

func at(list []again.Example) string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = fmt.Sprintf("%s at %s", e.Call, e.Position)
	}
	return "for example " + strings.Join(out, ", ")
}

// unjudged prints of which calls no policy could be, or was, asked.
func (w *whatIf) unjudged(s again.Summary) {
	if n := s.NotJudged + s.Early; n > 0 {
		w.app.print("not judged: %s\n", count(n, "call"))
	}
	for i, u := range s.Unjudged {
		if i == shownUnjudged {
			w.app.print("  and %s that no policy was asked about, in --json\n", count(len(s.Unjudged)-shownUnjudged, "further group"))
			return
		}
		tool := show.Short(u.Tool, 80)
		if u.Tool == "" {
			tool = "(several tools)"
		}
		w.app.print("  %6d  %s: %s; %s\n", u.Count, tool, show.Short(u.Why, 300), at(u.Examples[:1]))
	}
}

// words are the counts in words.
func (w *whatIf) words(s again.Summary) string {
	parts := []string{"nothing changes"}
	switch {
	case s.Changed > 0:
		parts[0] = count(s.Changed, "change")
	case s.Broken > 0:
		parts[0] = "no other change"
	case s.Same == 0:
		parts[0] = "nothing is known"
	}
	same := fmt.Sprintf("%d the same", s.Same)
	if s.Unwanted > 0 {
		same += fmt.Sprintf(" (%d of them but for changes that --to leaves out)", s.Unwanted)
	}
	parts = append(parts, same)
	if s.Broken > 0 {
		parts = append(parts, fmt.Sprintf("%d on which the policy itself broke", s.Broken))
	}
	out := []string{strings.Join(parts, ", ")}
	for _, x := range []struct {
		n    int
		what string
	}{
		{s.NotJudged, "cannot be judged"},
		{s.Early, "ended, or wait, before a policy was asked"},
		{s.Headless, "more whose turn's beginning is not in the log"},
		{s.Assumed, "judged as if --network was then as the record lets think"},
		{s.Folded, "in groups that are not told apart"},
		{w.damaged, "commits cannot be read"},
	} {
		if x.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return strings.Join(out, "; ")
}
