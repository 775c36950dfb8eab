package bus

import (
	"strconv"

	"github.com/sluice-run/sluice/events"
)

// splitAt is the encoded size at which a commit is split: room is left for the
// headers and for the frame.
const splitAt = MaxCommit - 16<<10

// Split cuts a commit between its events until each part is within MaxCommit:
// one part, with the commit's own id, for nearly all. A single event that is
// larger stays whole, and Append refuses it: its bodies should have gone by
// reference.
func Split(c events.Commit) []events.Commit {
	b, err := events.Encode(c)
	if err != nil || len(b) <= splitAt || len(c.Records) == 1 {
		return []events.Commit{c}
	}
	half := len(c.Records) / 2
	first, second := c, c
	first.Records, second.Records = c.Records[:half], c.Records[half:]
	out := append(Split(first), Split(second)...)
	for i := range out {
		out[i].ID = c.ID + "." + strconv.Itoa(i+1)
	}
	return out
}
