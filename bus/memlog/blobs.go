package memlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

type blobs struct{ v *View }

// Put is bus.Blobs'.
func (b blobs) Put(ctx context.Context, data []byte, media string) (events.BlobRef, error) {
	ref := events.BlobRef{Digest: digest(data), Size: int64(len(data)), Media: media}
	if err := b.v.enter(ctx); err != nil {
		return events.BlobRef{}, fmt.Errorf("put blob %s: %w", ref.Digest, err)
	}
	l := b.v.log
	defer l.mu.Unlock()
	if _, there := l.blobs[ref.Digest]; !there {
		l.blobs[ref.Digest] = append([]byte{}, data...)
		l.note(false, func() { delete(l.blobs, ref.Digest) })
	}
	return ref, nil
}

// Get is bus.Blobs'.
func (b blobs) Get(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	if err := b.v.enter(ctx); err != nil {
		return nil, fmt.Errorf("get blob %s: %w", ref.Digest, err)
	}
	defer b.v.log.mu.Unlock()
	data, there := b.v.log.blobs[ref.Digest]
	if !there {
		return nil, fmt.Errorf("get blob %s: %w", ref.Digest, bus.ErrNotFound)
	}
	return bytes.Clone(data), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
