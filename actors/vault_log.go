package actors

import (
	"context"
	"fmt"
	"log/slog"
)

// logHandler passes records on with their texts changed.
type logHandler struct {
	next  slog.Handler
	clean func(string) string
}

// NewLogHandler passes records on to next after clean has seen every text in them:
// the message, strings, errors, and whatever else an attribute says. Numbers, times
// and names stay as they are. It may be used from many goroutines where clean may.
func NewLogHandler(next slog.Handler, clean func(string) string) slog.Handler {
	return logHandler{next, clean}
}

// Enabled is slog.Handler's.
func (h logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle is slog.Handler's.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.clean(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

func (h logHandler) attr(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.clean(a.Value.String()))
	case slog.KindGroup:
		var inner []any
		for _, one := range a.Value.Group() {
			inner = append(inner, h.attr(one))
		}
		return slog.Group(a.Key, inner...)
	case slog.KindAny:
		return slog.String(a.Key, h.clean(said(a.Value.Any())))
	}
	return a
}

// said is what a value says of itself.
func said(v any) string {
	if err, ok := v.(error); ok && err != nil {
		return err.Error()
	}
	return fmt.Sprint(v)
}

// WithAttrs is slog.Handler's.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = h.attr(a)
	}
	return logHandler{h.next.WithAttrs(out), h.clean}
}

// WithGroup is slog.Handler's.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.next.WithGroup(name), h.clean}
}
