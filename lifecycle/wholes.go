package lifecycle

import "github.com/sluice-run/sluice/events"

// TurnWhole is the whole of an answer that the turn's budget shortens.
type TurnWhole struct {
	Call  int
	Ref   events.BlobRef
	Bytes []byte
}

// TurnWholes are the wholes that must be stored BEFORE the commit that
// completes the turn, in request order.
func TurnWholes(t Turn) []TurnWhole {
	return nil
}
