package again

import (
	"encoding/json"

	"github.com/sluice-run/sluice/events"
)

// ReadCall is what is read of a call, for tests.
func ReadCall(tool string, args json.RawMessage) (events.Operation, events.Tier) {
	return readings[tool](args)
}

// SetLimit bounds what a survey holds of turns that are open, for tests.
func (s *Survey) SetLimit(bytes int) { s.limit = bytes }
