package lifecycle

import (
	"github.com/sluice-run/sluice/events"
)

// WholeOf is a text under its digest.
func WholeOf(text string) Whole {
	b := []byte(text)
	return Whole{Ref: events.BlobRef{Digest: Digest(b), Size: int64(len(b))}, Bytes: b}
}

// TurnWholes are the wholes of the answers that the turn's budget shortens, in
// request order. They must be stored BEFORE the commit that completes the turn.
func TurnWholes(t Turn) []AnswerWhole {
	if t.Submitted == nil || roomy(t) {
		return nil
	}
	answers := make([]events.Answer, len(t.Calls))
	for i, c := range t.Calls {
		answers[i] = AnswerOf(i, t.Submitted.Calls[i], c.Terminal)
		answers[i].Verbatim, answers[i].Changed = t.Submitted.Imported != "", c.Changed
	}
	_, wholes := FitTurn(answers, t.Submitted.Limits.CallBytes, t.Submitted.Limits.TurnBytes)
	return wholes
}

// escaped bounds how many bytes one byte of text takes in a message, quoted twice.
const escaped = 8

// roomy says quickly that nothing can need cutting: most turns are small.
func roomy(t Turn) bool {
	total := together
	for i, c := range t.Calls {
		raw := t.Submitted.Calls[i]
		n := len(raw.ProviderID) + len(raw.Tool)
		n += changedSize(c.Changed)
		if d, ok := c.Terminal.(*events.Denied); ok {
			n += len(d.Reason) + len(d.Path)
		}
		if c.Outcome != nil {
			r := c.Outcome.Result
			n += len(r.Text.Text) + len(r.Data)
			if r.Error != nil {
				n += len(r.Error.Message) + len(r.Error.Path)
			}
		}
		total += spare + escaped*n
	}
	return total <= limitOr(t.Submitted.Limits.TurnBytes, TurnBytes) && total <= limitOr(t.Submitted.Limits.CallBytes, CallBytes)
}
