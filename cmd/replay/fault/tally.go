package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// Counts are cells by their verdict.
type Counts struct {
	Same          int `json:"same"`
	Differs       int `json:"differs"`
	Unanswered    int `json:"unanswered"` // failed, and a question has no answer or a wrong one
	Broken        int `json:"broken"`     // failed otherwise
	NotApplicable int `json:"not_applicable"`
}

// Played are those that were played.
func (c Counts) Played() int { return c.Same + c.Differs + c.Failed() }

// Failed are those that failed.
func (c Counts) Failed() int { return c.Unanswered + c.Broken }

func (c *Counts) add(r Result) {
	switch {
	case r.Verdict == NotApplicable:
		c.NotApplicable++
	case r.Verdict == Same:
		c.Same++
	case r.Verdict == Differs:
		c.Differs++
	case slices.ContainsFunc(r.Failures, func(f Failure) bool { return f.Law == lawAnswers }):
		c.Unanswered++
	default:
		c.Broken++
	}
}

// Row is one pair of stages, of turns or of calls, wherever it occurs.
type Row struct {
	Of   string `json:"of"` // turn or call
	From string `json:"from"`
	To   string `json:"to"`
	// Kinds are the counts by kind of fault, in the order of the table of kinds.
	Kinds []Counts `json:"-"`
}

// Label is the row in words, for example "call: started → completed".
func (r Row) Label() string {
	return r.Of + ": " + strings.TrimPrefix(r.From, "turn_") + " → " + strings.TrimPrefix(r.To, "turn_")
}

// Sentence is a difference that policy wants, and in how many cells it was seen.
type Sentence struct {
	Cells    int    `json:"cells"`
	Recorded string `json:"recorded"`
	Now      string `json:"now"`
	Policy   string `json:"policy"`
}

// mostSentences bounds the sentences that a tally remembers.
const mostSentences = 200

// Tally sums results up. Its zero value is empty. It is used by one goroutine.
type Tally struct {
	Total     Counts
	Runs      int // how often tools were run
	Effects   int // how often effects happened
	rows      map[rowName]*Row
	sentences map[Sentence]int
	Laws      map[string]int // failures by what they break
}

// rowName is what tells one row from another.
type rowName struct{ of, from, to string }

// Add takes up a result.
func (t *Tally) Add(r Result) {
	if t.rows == nil {
		t.rows, t.sentences, t.Laws = make(map[rowName]*Row), make(map[Sentence]int), make(map[string]int)
	}
	name := rowName{"call", r.Pair.From, r.Pair.To}
	if r.Pair.Call == events.TurnEvent {
		name.of = "turn"
	}
	row := t.rows[name]
	if row == nil {
		row = &Row{Of: name.of, From: name.from, To: name.to, Kinds: make([]Counts, len(Kinds))}
		t.rows[name] = row
	}
	row.Kinds[slices.IndexFunc(Kinds, func(k KindRow) bool { return k.Kind == r.Kind })].add(r)
	t.Total.add(r)
	for _, e := range r.Effects {
		t.Runs += e.Runs
		t.Effects += e.Effects
	}
	for _, f := range r.Failures {
		t.Laws[f.Law]++
	}
	for _, d := range r.Differences {
		s := Sentence{Recorded: inBrief(d.Recorded), Now: inBrief(d.Now), Policy: d.Policy}
		if s.Recorded == s.Now {
			s.Now += " in other words"
		}
		if _, known := t.sentences[s]; known || len(t.sentences) < mostSentences {
			t.sentences[s]++
		}
	}
}

// inBrief is an answer without its words.
func inBrief(gist string) string {
	gist, _, _ = strings.Cut(gist, ": ")
	return gist
}

// Rows are all rows: the turn's stages first, each in the order of a life.
func (t *Tally) Rows() []Row {
	out := make([]Row, 0, len(t.rows))
	for _, r := range t.rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(-strings.Compare(a.Of, b.Of), cmp.Compare(rank(a.From), rank(b.From)), cmp.Compare(rank(a.To), rank(b.To)), strings.Compare(a.From+a.To, b.From+b.To))
	})
	return out
}

// rank is where a stage stands in a life.
func rank(stage string) int {
	switch stage {
	case StageStart:
		return -1
	case StageEnd:
		return len(life)
	}
	return slices.Index(life, events.Kind(stage))
}

// life is every kind, about in the order in which they come.
var life = []events.Kind{
	events.KindTurnSubmitted, events.KindModelStarted, events.KindModelCompleted, events.KindTurnClaimed, events.KindTurnPlanned, events.KindTurnParked,
	events.KindTurnCancelRequested, events.KindTurnCompleted, events.KindTurnAbandoned,
	events.KindRequested, events.KindApprovalRequested, events.KindApproved, events.KindAuthorized, events.KindStarted, events.KindProgress, events.KindInputRequested, events.KindInputGiven,
	events.KindCancelRequested, events.KindRetrying, events.KindRecovered, events.KindCompleted, events.KindFailed, events.KindTimedOut,
	events.KindCancelled, events.KindUnknown, events.KindDenied, events.KindDeduplicated, events.KindLateResult, events.KindResolved, events.KindCompensated,
}

// Sentences are the differences that policy wants, the most frequent first.
func (t *Tally) Sentences() []Sentence {
	out := make([]Sentence, 0, len(t.sentences))
	for s, n := range t.sentences {
		s.Cells = n
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Sentence) int {
		return cmp.Or(cmp.Compare(b.Cells, a.Cells), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Now, b.Now), strings.Compare(a.Recorded, b.Recorded))
	})
	return out
}

// String is the counts in words.
func (c Counts) String() string {
	return fmt.Sprintf("%d played: %d with the same messages, %d with others as policy says, %d failed; %d not applicable",
		c.Played(), c.Same, c.Differs, c.Failed(), c.NotApplicable)
}
