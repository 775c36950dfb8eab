package fault

import (
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// asRecorded is a commit as it was in the log that it was recorded in: the mark of a turn
// that came here in an archive keeps nodes from running it, and says nothing of what it did.
func asRecorded(c events.Commit) events.Commit {
	for i, r := range c.Records {
		if s, ok := r.Event.(*events.TurnSubmitted); ok && s.Archived() {
			was := *s
			was.Imported = ""
			c.Records = slices.Clone(c.Records)
			c.Records[i].Event = &was
		}
	}
	return c
}

func asStored(s bus.Stored) bus.Stored {
	s.Commit = asRecorded(s.Commit)
	return s
}
