package otlp

import (
	"context"
	"errors"
	"fmt"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// sender sends spans to a collector, once.
type sender interface {
	// send returns how many of the spans the collector has refused, and why, where it
	// took the request; a *failure where it did not, or ctx's error.
	send(ctx context.Context, spans []*tracepb.Span) (rejected int64, why string, err error)
	close()
}

// failure is a request that was not taken.
type failure struct {
	refused bool          // these spans in one request, for good: less of them may be taken
	after   time.Duration // how long the collector wants to be left alone; 0: it does not say
	err     error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Bounds of the pause between two tries.
const (
	maxPause = time.Minute
	maxAfter = 5 * time.Minute // of what a collector asks for
)

var errStopped = errors.New("the exporter stops: what was not sent is sent by whoever comes next")

// deliver sends spans until the collector has taken each of them, or has refused it by
// itself, and not everything else as well. Whatever else is wrong with the collector passes, or somebody mends it: then
// the log still has what it lacks.
func (x *Exporter) deliver(ctx context.Context, spans []*tracepb.Span) error {
	for try, pause := 1, x.Pause; ; try, pause = try+1, min(2*pause, maxPause) {
		rejected, why, err := x.sender.send(ctx, spans)
		if err == nil {
			x.taken(spans, rejected, why, try)
			return nil
		}
		var f *failure
		if !errors.As(err, &f) || ctx.Err() != nil {
			return err
		}
		if f.refused && (len(spans) > 1 || x.sound(ctx)) {
			return x.halve(ctx, spans, f)
		}
		x.counts.request("failed")
		if try == 1 {
			x.Log.Warn("the collector does not take spans: trying again, and nothing is lost while the log keeps it", "spans", len(spans), "err", err)
		}
		jittered := pause/2 + time.Duration(x.Rand()*float64(pause))
		if !x.waited(ctx, max(jittered, min(f.after, maxAfter))) {
			return errors.Join(ctx.Err(), errStopped)
		}
	}
}

// sound asks the collector to take a request without spans, which every collector does. One
// that refuses that, too, refuses everything: it is not the spans, somebody has to mend it
// or the way to it, and until then they are kept.
func (x *Exporter) sound(ctx context.Context) bool {
	_, _, err := x.sender.send(ctx, nil)
	return err == nil
}

// taken notes what the collector said of a request that it took.
func (x *Exporter) taken(spans []*tracepb.Span, rejected int64, why string, try int) {
	x.counts.request("ok")
	lost := int(min(max(rejected, 0), int64(len(spans))))
	x.counts.spans("sent", len(spans)-lost)
	if lost > 0 {
		x.counts.spans("rejected", lost)
		x.Log.Warn("the collector has rejected spans", "spans", len(spans), "rejected", lost, "why", why)
	}
	if try > 1 {
		x.Log.Info("the collector takes spans again", "tries", try)
	}
}

// halve sends the halves of what a collector does not take in one request. One span that
// a sound collector does not take is given up.
func (x *Exporter) halve(ctx context.Context, spans []*tracepb.Span, f *failure) error {
	x.counts.request("refused")
	if len(spans) > 1 {
		middle := len(spans) / 2
		if err := x.deliver(ctx, spans[:middle]); err != nil {
			return err
		}
		return x.deliver(ctx, spans[middle:])
	}
	x.counts.spans("given_up", 1)
	x.Log.Error("the collector does not take a span, and it is given up", "trace_id", fmt.Sprintf("%x", spans[0].TraceId),
		"span_id", fmt.Sprintf("%x", spans[0].SpanId), "span", spans[0].Name, "err", f.err)
	return nil
}
