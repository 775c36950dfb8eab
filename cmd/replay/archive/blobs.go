package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Blobs are the bytes that commits of the archive refer to.
func (r *Reader) Blobs() bus.Blobs { return blobs{r} }

type blobs struct{ r *Reader }

// Put is refused: an archive does not change.
func (blobs) Put(context.Context, []byte, string) (events.BlobRef, error) {
	return events.BlobRef{}, errors.New("an archive is only read")
}

// Get is bus.Blobs'. What was missing already when the archive was written is
// bus.ErrNotFound; what is damaged is ErrDamaged.
func (b blobs) Get(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	sum, ok := parseDigest(ref.Digest)
	if !ok {
		return nil, fmt.Errorf("get blob: a digest is not %s and 64 hex digits", digestPrefix)
	}
	at, err := b.r.blobAt(ctx, sum)
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", ref.Digest, err)
	}
	if at == 0 {
		return nil, fmt.Errorf("get blob %s: it is not in the archive: %w", ref.Digest, bus.ErrNotFound)
	}
	data, err := b.r.blob(ctx, sum, at)
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", ref.Digest, err)
	}
	return data, nil
}

// blob puts the parts of a blob together.
func (r *Reader) blob(ctx context.Context, sum [sha256.Size]byte, at int64) ([]byte, error) {
	var data []byte
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, raw, next, err := r.pieceAt(at)
		switch {
		case err != nil:
			return nil, err
		case h.Kind != pieceBlob || !bytes.Equal(h.Digest, sum[:]) || h.Offset != int64(len(data)):
			return nil, damaged("a part of it is missing")
		}
		data = append(data, raw...)
		if int64(len(data)) >= h.Size {
			break
		}
		if len(raw) == 0 {
			return nil, fmt.Errorf("%w: a part of a blob with nothing in it", ErrHostile)
		}
		at = next
	}
	if sha256.Sum256(data) != sum {
		return nil, damaged("the bytes have another digest")
	}
	return data, nil
}
