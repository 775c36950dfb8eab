package projections

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
)

// asking is a turn of one call that asks a person, submitted as it is said.
func asking(imported string) []events.Record {
	return []events.Record{
		{Call: events.TurnEvent, Seq: 1, Event: &events.TurnSubmitted{
			Principal: events.Principal{ID: "agent"}, Calls: []events.RawCall{{Tool: "deploy"}}, Imported: imported,
		}},
		{Call: 0, Seq: 1, Event: &events.Requested{Tool: "deploy"}},
		{Call: 0, Seq: 2, Event: &events.ApprovalRequested{Asks: "deploy", Expires: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}},
	}
}

// TestImportedTurns ask nobody, since nobody goes on with them; of those that were
// recorded by another log the answers are rendered, and only a transcript's are verbatim.
func TestImportedTurns(t *testing.T) {
	for _, c := range []struct {
		imported string
		asks     int
		verbatim bool
	}{{"", 1, false}, {"chat.jsonl:3", 0, true}, {events.ArchiveMark + "0123@1.2", 0, false}} {
		commit := events.Commit{ID: "c", Turn: events.TurnKey{Trace: "t", Turn: "u"}, Records: append(asking(c.imported),
			events.Record{Call: 0, Seq: 3, Event: &events.Completed{Outcome: events.Outcome{Result: events.Result{Status: events.Success}}}})}
		conv, inbox := Answers.Init(), Inbox.Init()
		asked := 0
		for e := range Events(1, 1, commit) {
			conv, inbox = Answers.Apply(conv, e), Inbox.Apply(inbox, e)
			asked = max(asked, len(inbox.List()))
		}
		if asked != c.asks {
			t.Errorf("imported %q: %d approvals wait, want %d", c.imported, asked, c.asks)
		}
		if got := conv.Turns[0].Calls[0].Answer.Verbatim; got != c.verbatim {
			t.Errorf("imported %q: verbatim %t", c.imported, got)
		}
	}
}

// TestNobodyIsAskedBehindTheEnd: a history that goes on behind its turn's end, or has no
// beginning, asks for what nobody can answer.
func TestNobodyIsAskedBehindTheEnd(t *testing.T) {
	asks := asking("")
	end := events.Record{Call: events.TurnEvent, Seq: 2, Event: &events.TurnCompleted{}}
	for what, records := range map[string][]events.Record{
		"behind the end":      {asks[0], end, asks[1], asks[2]},
		"without a beginning": asks[1:],
	} {
		inbox := Inbox.Init()
		for e := range Events(1, 1, events.Commit{ID: "c", Turn: events.TurnKey{Trace: "t", Turn: "u"}, Records: records}) {
			inbox = Inbox.Apply(inbox, e)
		}
		if got := inbox.List(); len(got) > 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
}
