package jetlog

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// blobs keeps them in an object store, named by digest, in the form that any
// client of object stores reads. They are written and read here, since a client's
// Put replaces what is there, and takes the chunks from under those who read it.
type blobs struct{ bus *Bus }

// Blobs are the cluster's.
func (b *Bus) Blobs() bus.Blobs { return blobs{b} }

const (
	digestPrefix = "sha256:"
	chunkPrefix  = "$O." + BucketBlobs + ".C." // <nuid>
	metaPrefix   = "$O." + BucketBlobs + ".M." // <name in base64>
	chunkSize    = 128 << 10
)

func metaSubject(name string) string {
	return metaPrefix + base64.URLEncoding.EncodeToString([]byte(name))
}

// Put is bus.Blobs'. Of several who put the same bytes at once, one prevails,
// and the others take back what they wrote.
func (s blobs) Put(ctx context.Context, data []byte, media string) (events.BlobRef, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	ref := events.BlobRef{Digest: digestPrefix + name, Size: int64(len(data)), Media: media}
	ctx, stop := s.bus.ctxOf(ctx)
	defer stop()
	_, seq, err := s.info(ctx, name)
	if errors.Is(err, bus.ErrNotFound) {
		err = s.write(ctx, name, sum[:], data, seq)
	}
	if err != nil {
		return events.BlobRef{}, fmt.Errorf("put blob %s: %w", ref.Digest, blobError(ctx, err))
	}
	return ref, nil
}

// Get is bus.Blobs'.
func (s blobs) Get(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	name, ok := strings.CutPrefix(ref.Digest, digestPrefix)
	if sum, err := hex.DecodeString(name); !ok || err != nil || len(sum) != sha256.Size || strings.ToLower(name) != name {
		return nil, fmt.Errorf("get blob: digest %q is not %s and 64 hex digits", clip([]byte(ref.Digest)), digestPrefix)
	}
	ctx, stop := s.bus.ctxOf(ctx)
	defer stop()
	info, _, err := s.info(ctx, name)
	var data []byte
	if err == nil {
		data, err = s.read(ctx, info)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", ref.Digest, blobError(ctx, err))
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("get blob %s: the stored bytes have another digest: the store is damaged", ref.Digest)
	}
	return data, nil
}

// info is what the store says of a blob, and the sequence of that; ErrNotFound
// if there is none, or one that was deleted.
func (s blobs) info(ctx context.Context, name string) (jetstream.ObjectInfo, uint64, error) {
	var info jetstream.ObjectInfo
	pause := backoff{time.Millisecond, 250 * time.Millisecond}
	for {
		m, err := s.bus.lastMessage(ctx, s.bus.stores, streamBlobs, metaSubject(name))
		switch {
		case err == nil && m.seq == 0:
			return info, 0, bus.ErrNotFound
		case err == nil:
			if err = json.Unmarshal(m.body, &info); err == nil && info.Deleted {
				err = bus.ErrNotFound
			}
			return info, m.seq, err
		case !passing(err):
			return info, 0, err
		}
		if late := pause.wait(ctx); late != nil {
			return info, 0, errors.Join(late, err)
		}
	}
}

// write stores the chunks, then says where they are, unless somebody else has
// by now. last is the sequence of what was said of a deleted blob, or 0.
func (s blobs) write(ctx context.Context, name string, sum, data []byte, last uint64) error {
	id := ulid.Make().String()
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize}},
		Bucket:     BucketBlobs, NUID: id, Size: uint64(len(data)), ModTime: time.Now().UTC(),
		Digest: "SHA-256=" + base64.URLEncoding.EncodeToString(sum),
	}
	var err error
	at := uint64(0)
	for rest := data; len(rest) > 0 && err == nil; info.Chunks++ {
		n := min(len(rest), chunkSize)
		at, err = s.bus.stores.sole(ctx, chunkPrefix+id, rest[:n], at, false)
		rest = rest[n:]
	}
	if err == nil {
		var body []byte
		if body, err = json.Marshal(info); err == nil {
			_, err = s.bus.stores.sole(ctx, metaSubject(name), body, last, true)
		}
	}
	if err == nil {
		return nil
	}
	prevails, _, ierr := s.info(ctx, name)
	if ierr == nil && prevails.NUID == id {
		return nil // it was kept, and its answer lost
	}
	s.takeBack(ctx, id)
	if ierr == nil {
		return nil // the same bytes, by somebody else
	}
	return err
}

// takeBack removes chunks that nobody refers to.
func (s blobs) takeBack(ctx context.Context, id string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer stop()
	stream, err := s.bus.reader.Stream(ctx, streamBlobs)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(chunkPrefix+id))
	}
	if err != nil {
		s.bus.log.Warn("blobs: chunks that nobody needs stay in the store", "subject", chunkPrefix+id, "err", err)
	}
}

// read puts a blob together.
func (s blobs) read(ctx context.Context, info jetstream.ObjectInfo) ([]byte, error) {
	data, from := []byte{}, uint64(1)
	subject := chunkPrefix + info.NUID
	pause := backoff{time.Millisecond, 100 * time.Millisecond}
	for uint64(len(data)) < info.Size {
		got, more, err := s.bus.page(ctx, s.bus.scans, streamBlobs, from, subject)
		for _, r := range got {
			data, from = append(data, r.body...), r.seq+1
		}
		if err == nil && (more || uint64(len(data)) >= info.Size) {
			continue
		}
		var last raw
		if err == nil { // the leader knows whether a follower is only behind
			last, err = s.bus.lastMessage(ctx, s.bus.stores, streamBlobs, subject)
		}
		switch {
		case err == nil && last.seq < from:
			return nil, fmt.Errorf("%d of %d bytes are there: the store is damaged", len(data), info.Size)
		case err != nil && !passing(err):
			return nil, err
		}
		if late := pause.wait(ctx); late != nil {
			return nil, errors.Join(late, err)
		}
	}
	return data, nil
}

// blobError is readError's, but for what the store says itself.
func blobError(ctx context.Context, err error) error {
	if errors.Is(err, bus.ErrNotFound) {
		return err
	}
	return readError(ctx, err)
}
