package tools

import (
	"context"
	"errors"

	"github.com/sluice-run/sluice/events"
)

// ErrNotKept says that there is nobody to keep a blob.
var ErrNotKept = errors.New("nothing is kept here")

// KeepBlob stores a part of a tool's output that is not text, and returns where it is, for
// the Blobs of its result: see Options.Keep. A ctx that is not Execute's, or whose house
// keeps nothing, gives ErrNotKept. It does I/O, and may be called from any goroutine.
func KeepBlob(ctx context.Context, data []byte, media string) (events.BlobRef, error) {
	a, ok := ctx.Value(laterKey{}).(*attempt)
	if !ok || a.o.Keep == nil {
		return events.BlobRef{}, ErrNotKept
	}
	return a.o.Keep(data, media)
}
