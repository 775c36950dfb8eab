package jetlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// compareMirror makes the mirror anew if it holds what the log does not: the
// log lost its tail, and perhaps has written over it since. The mirror would not
// notice, and differ for ever.
func (b *Bus) compareMirror(ctx context.Context) error {
	m, err := b.admin.Stream(ctx, StreamRead)
	if err != nil {
		return streamError(StreamRead, err)
	}
	why, err := b.differs(ctx, m)
	if err != nil || why == "" {
		return err
	}
	b.log.Warn("mirror differs from the log, making it anew", "stream", StreamRead, "why", why)
	if err := b.admin.DeleteStream(ctx, StreamRead); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return streamError(StreamRead, err)
	}
	_, err = ensureStream(ctx, b.admin, b.cfg, b.cfg.readConfig())
	return err
}

// differs says how the mirror differs from the log where a lost tail would show:
// at its end, and where a generation begins.
func (b *Bus) differs(ctx context.Context, m jetstream.Stream) (string, error) {
	last := m.CachedInfo().State.LastSeq // older than the log's, or it would mean nothing
	info, err := b.origin.Info(ctx)
	if err != nil {
		return "", streamError(StreamLog, err)
	}
	if last > info.State.LastSeq {
		return fmt.Sprintf("it ends at %d, the log at %d", last, info.State.LastSeq), nil
	}
	places := []uint64{last}
	for _, g := range b.spans() {
		if g.FirstSeq < last && g.FirstSeq > 1 {
			places = append(places, g.FirstSeq)
		}
	}
	for _, seq := range places {
		same, err := b.sameAt(ctx, m, seq)
		if err != nil {
			return "", err
		}
		if !same {
			return fmt.Sprintf("sequence %d is another message there", seq), nil
		}
	}
	return "", nil
}

// sameAt compares one message. One that either side does not have any more says
// nothing.
func (b *Bus) sameAt(ctx context.Context, m jetstream.Stream, seq uint64) (bool, error) {
	if seq == 0 {
		return true, nil
	}
	theirs, err := m.GetMsg(ctx, seq)
	if err == nil {
		var ours *jetstream.RawStreamMsg
		if ours, err = b.origin.GetMsg(ctx, seq); err == nil {
			return ours.Subject == theirs.Subject && ours.Time.Equal(theirs.Time) && bytes.Equal(ours.Data, theirs.Data), nil
		}
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return true, nil
	}
	return false, unavailable(err)
}
