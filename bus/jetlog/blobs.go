package jetlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// blobs keeps them in the object store, named by digest.
type blobs struct{ bus *Bus }

// Blobs are the cluster's.
func (b *Bus) Blobs() bus.Blobs { return blobs{b} }

const digestPrefix = "sha256:"

// Put is bus.Blobs'. The same bytes are stored again only if two nodes are at
// it at once, which does no harm.
func (s blobs) Put(ctx context.Context, data []byte, media string) (events.BlobRef, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	ref := events.BlobRef{Digest: digestPrefix + name, Size: int64(len(data)), Media: media}
	ctx, stop := s.bus.ctxOf(ctx)
	defer stop()
	info, err := s.bus.store.GetInfo(ctx, name)
	if err == nil && info.Size == uint64(len(data)) {
		return ref, nil
	}
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return events.BlobRef{}, fmt.Errorf("put blob %s: %w", ref.Digest, blobError(ctx, err))
	}
	if _, err := s.bus.store.PutBytes(ctx, name, data); err != nil {
		return events.BlobRef{}, fmt.Errorf("put blob %s: %w", ref.Digest, blobError(ctx, err))
	}
	return ref, nil
}

// Get is bus.Blobs'.
func (s blobs) Get(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	name, ok := strings.CutPrefix(ref.Digest, digestPrefix)
	if raw, err := hex.DecodeString(name); !ok || err != nil || len(raw) != sha256.Size || strings.ToLower(name) != name {
		return nil, fmt.Errorf("get blob: digest %q is not %s and 64 hex digits", clip([]byte(ref.Digest)), digestPrefix)
	}
	ctx, stop := s.bus.ctxOf(ctx)
	defer stop()
	data, err := s.bus.store.GetBytes(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		err = bus.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", ref.Digest, blobError(ctx, err))
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("get blob %s: the stored bytes have another digest: the store is damaged", ref.Digest)
	}
	return nonNil(data), nil
}

// blobError is readError's, but for what the store says itself.
func blobError(ctx context.Context, err error) error {
	if errors.Is(err, bus.ErrNotFound) {
		return err
	}
	return readError(ctx, err)
}
