package projections

import "github.com/sluice-run/sluice/events"

// Since is the shortest end of the conversation that holds every message that
// came, or may still change, at or after a position. It begins between two turns:
// a turn's calls and its answers are never parted.
func (c Conversation) Since(from events.Position) []*Turn {
	for i, t := range c.Turns {
		if t.Open() || t.Last.Compare(from) >= 0 {
			return c.Turns[i:]
		}
	}
	return nil
}
