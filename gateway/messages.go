package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// Messages are what a provider is told of a turn's calls.
type Messages struct {
	Format   codec.Format
	Asked    json.RawMessage   // the model's message that these answer, with the same ids
	Answered []json.RawMessage // in request order
	Renamed  bool              // ids in it are not those that the caller's own message has: its were missing or repeated
	Mended   bool              // Asked is not the caller's own message, for its ids or anything else: see codec.Mended
}

// Messages renders the answers of a turn as it stands, open calls included.
// Format "" means the one it was submitted in, else openai. What is by reference
// is read; where a blob is missing the message says so.
func (d *Desk) Messages(ctx context.Context, v View, f codec.Format) (Messages, error) {
	conv := projections.Answers.Init()
	for _, s := range v.Commits {
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			conv = projections.Answers.Apply(conv, e)
		}
	}
	t := conv.Turn(v.Turn.Key)
	if t == nil {
		return Messages{}, fmt.Errorf("turn %s: %w", v.Turn.Key, lifecycle.ErrNoTurn)
	}
	if f == "" {
		f = codec.Format(t.Format)
	}
	if f == "" {
		f = codec.OpenAI
	}
	return d.Render(ctx, t, f)
}

// Render renders the answers of a turn of a conversation; see Messages.
func (d *Desk) Render(ctx context.Context, t *projections.Turn, f codec.Format) (Messages, error) {
	blobs := func(ref events.BlobRef) ([]byte, error) { return d.Blob(ctx, ref) }
	answers, err := t.Answers(blobs)
	if err != nil {
		d.log.Warn("a part of an answer cannot be read", "turn", t.Key, "error", err)
	}
	calls, err := t.Requests(blobs)
	if err != nil {
		d.log.Warn("arguments of a call cannot be read", "turn", t.Key, "error", err)
	}
	if ctx.Err() != nil {
		return Messages{}, ctx.Err() // not because a blob is missing
	}
	o := codec.Options{CallBytes: t.Limits.CallBytes, TurnBytes: t.Limits.TurnBytes}
	out := Messages{Format: f}
	ids, err := codec.IDs(f, calls, o)
	if err != nil {
		return Messages{}, codecProblem(err)
	}
	out.Renamed = renamed(ids, calls) && f != codec.Neutral // whose answers say which call they answer
	if out.Mended, err = codec.Mended(f, calls, o); err != nil {
		return Messages{}, codecProblem(err)
	}
	if out.Asked, err = codec.RenderCalls(f, calls, o); err != nil {
		return Messages{}, codecProblem(err)
	}
	if out.Answered, err = codec.Render(f, answers, o); err != nil {
		return Messages{}, codecProblem(err)
	}
	return out, nil
}

// renamed says whether a call's id is another one than its provider gave it.
func renamed(ids []string, calls []events.RawCall) bool {
	for i, id := range ids {
		if id != calls[i].ProviderID {
			return true
		}
	}
	return false
}

func asCodecError(err error) (*codec.Error, bool) {
	var ce *codec.Error
	ok := errors.As(err, &ce)
	return ce, ok
}

// Trace is the conversation of a trace as it stands: its turns with their calls
// and answers, in the order of their submission. It has no turns where there is
// no such trace.
func (d *Desk) Trace(ctx context.Context, trace string) (projections.Conversation, error) {
	conv := projections.Answers.Init()
	if err := events.CheckID("trace", trace); err != nil {
		return conv, err
	}
	err := d.bus.Read(ctx, events.Position{}, bus.Filter{Trace: trace}, false, func(s bus.Stored) error {
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			conv = projections.Answers.Apply(conv, e)
		}
		return nil
	})
	return conv, err
}
