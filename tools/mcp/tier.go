package mcp

import (
	"fmt"

	"github.com/sluice-run/sluice/events"
)

// hints are what a server says of a tool's effects. nil means that it does not say.
type hints struct {
	ReadOnly    *bool `json:"readOnlyHint"`
	Destructive *bool `json:"destructiveHint"`
	Idempotent  *bool `json:"idempotentHint"`
	OpenWorld   *bool `json:"openWorldHint"`
}

// tierOf is a tool's tier, and why it is that. The operator's word decides; what the
// server says can only make it stricter: a tool that it calls writing is not readonly,
// and one that it calls destructive is not reversible. Without a word it is irreversible,
// whatever the server says.
func (s Server) tierOf(tool string, h *hints) (events.Tier, string) {
	word, own := s.Tiers[tool]
	if !own {
		word = s.Tiers["*"]
	}
	if word == "" {
		return events.Irreversible, "no word of the operator's"
	}
	why := "the operator's word"
	if !own {
		why = `the operator's word for "*"`
	}
	if h == nil {
		return word, why
	}
	says := func(b *bool, v bool) bool { return b != nil && *b == v }
	switch {
	case word == events.Readonly && (says(h.ReadOnly, false) || says(h.Destructive, true) && !says(h.ReadOnly, true)):
		return events.Irreversible, fmt.Sprintf("%s is %s, and the server says that it writes", why, word)
	case word == events.Reversible && says(h.Destructive, true) && !says(h.ReadOnly, true):
		return events.Irreversible, fmt.Sprintf("%s is %s, and the server says that it destroys", why, word)
	}
	return word, why
}
