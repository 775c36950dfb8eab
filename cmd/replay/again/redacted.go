package again

import (
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// placeholder begins what stands for a text in a redacted archive.
const placeholder = "[redacted "

func holdsPlaceholder(s string) bool { return strings.Contains(s, placeholder) }

// redactedAway is why a call cannot be judged of which only placeholders are left.
const redactedAway = "what it would do was redacted"

// misfits says whether the digests of a turn's arguments do not fit them: it came out of
// an archive that was redacted.
func (w *walker) misfits() bool {
	for _, e := range w.all {
		r, ok := e.Event.(*events.Requested)
		if !ok || r.Hash == "" {
			continue
		}
		if text, there := w.text(r.Args); there {
			if a, err := lifecycle.Parse(text); err != nil || a.Hash != r.Hash {
				return true
			}
		}
	}
	return false
}
