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
	if len(c.Records) == 1 || slight(c) {
		return []events.Commit{c}
	}
	if b, err := events.Encode(c); err != nil || len(b) <= splitAt {
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

// slight says quickly, and erring on the side of no, that a commit cannot need
// splitting: nearly none does, and to encode it only to see that costs more.
func slight(c events.Commit) bool {
	const frame = 2 << 10 // of an event, without its bodies
	n := 0
	for _, r := range c.Records {
		n += frame + body(r.Event)
	}
	return n < splitAt/2
}

// body is the size of what can be large in an event.
func body(e events.Event) int {
	switch e := e.(type) {
	case *events.Requested:
		return len(e.Args.Text) + len(e.Secrets)*128
	case *events.Authorized:
		return verdict(e.Verdict)
	case *events.ApprovalRequested:
		return verdict(e.Verdict) + len(e.Asks) + len(e.Operands)*512
	case *events.Started:
		return (len(e.Locks) + len(e.Expect)) * 512
	case *events.Denied:
		return len(e.Reason) + len(e.Policies)*128
	case *events.Completed:
		return result(e.Result)
	case *events.Failed:
		return result(e.Result)
	case *events.TurnClaimed, *events.Retrying, *events.Recovered, *events.CancelRequested, *events.TurnParked:
		return 0
	}
	return MaxInline
}

func verdict(v events.Verdict) int {
	return len(v.Key) + (len(v.Policies)+len(v.Resources))*256 +
		(len(v.Operation.Paths)+len(v.Operation.Hosts)+len(v.Operation.Commands))*4096
}

func result(r events.Result) int {
	n := len(r.Text.Text) + len(r.Data) + len(r.Undo) + (len(r.Blobs)+len(r.Seen))*512
	if r.Error != nil {
		n += len(r.Error.Message) + len(r.Error.Path)
	}
	for _, m := range r.Context {
		n += len(m.Name) + len(m.Value)
	}
	return n
}
