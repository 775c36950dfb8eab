package gateway

import (
	"slices"
	"testing"

	"github.com/sluice-run/sluice/events"
)

// A tool of a server is one tool, however the model spells it, and what the caller gave
// stays the caller's.
func TestBothSpellingsAreSubmittedAsOne(t *testing.T) {
	d, _ := newDesk(t)
	s := echo(`{}`, `{}`, `{}`, `{}`)
	for i, tool := range []string{"files:read", "files.read", "files__read", "a:b:c"} {
		s.Calls[i].Tool = tool
	}
	s.Allow = []string{"files:read", "echo"}
	given := events.TurnSubmitted{Calls: slices.Clone(s.Calls), Allow: slices.Clone(s.Allow)}
	first, err := d.Submit(within(t), key1, s)
	must(t, err)
	if s.Calls[0].Tool != given.Calls[0].Tool || s.Allow[0] != given.Allow[0] {
		t.Error("the caller's own was changed")
	}
	v, err := d.Get(within(t), key1)
	must(t, err)
	var names []string
	for _, c := range v.Turn.Submitted.Calls {
		names = append(names, c.Tool)
	}
	if !slices.Equal(names, []string{"files__read", "files__read", "files__read", "a:b:c"}) || v.Turn.Submitted.Allow[0] != "files__read" {
		t.Errorf("%v, %v", names, v.Turn.Submitted.Allow)
	}
	s.Calls[0].Tool = "files__read" // the same submission
	again, err := d.Submit(within(t), key1, s)
	must(t, err)
	if !again.Attached || again.Seq != first.Seq {
		t.Errorf("%+v", again)
	}
}
