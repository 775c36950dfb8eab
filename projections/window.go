package projections

import "github.com/sluice-run/sluice/events"

// Since is the place in Turns of the first turn with a message that came, or may
// still change, at or after a position; len(Turns) if there is none. The window
// Turns[Since(from):] begins between two turns, so that a turn's calls and its answers
// are never parted.
func (c Conversation) Since(from events.Position) int {
	for i, t := range c.Turns {
		if t.Open() || t.Last.Compare(from) >= 0 {
			return i
		}
	}
	return len(c.Turns)
}
