package main

import (
	"context"
	"log/slog"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// Names of attributes of the node's log, the same in every line of it.
const (
	logTrace = "trace"
	logTurn  = "turn" // its own id, without the trace's
	logCall  = "call" // a number, from 0
	logErr   = "err"
)

// logNames is a handler that knows what lines speak of by one name each: whoever logs says
// "turn" and "call" with the whole key, in words, and a reader can look for the trace.
type logNames struct{ next slog.Handler }

// Enabled is slog.Handler's.
func (h logNames) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle is slog.Handler's.
func (h logNames) Handle(ctx context.Context, r slog.Record) error {
	out, said := slog.NewRecord(r.Time, r.Level, r.Message, r.PC), make(map[string]bool)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(renamed(a, said)...)
		return true
	})
	return h.next.Handle(ctx, out)
}

// WithAttrs is slog.Handler's.
func (h logNames) WithAttrs(attrs []slog.Attr) slog.Handler {
	var out []slog.Attr
	said := make(map[string]bool)
	for _, a := range attrs {
		out = append(out, renamed(a, said)...)
	}
	return logNames{h.next.WithAttrs(out)}
}

// WithGroup is slog.Handler's.
func (h logNames) WithGroup(name string) slog.Handler { return logNames{h.next.WithGroup(name)} }

// renamed is an attribute by its names. said are those that the line has by now.
func renamed(a slog.Attr, said map[string]bool) (out []slog.Attr) {
	add := func(a slog.Attr) {
		if !said[a.Key] {
			said[a.Key] = true
			out = append(out, a)
		}
	}
	turn := func(k events.TurnKey) {
		add(slog.String(logTrace, k.Trace))
		add(slog.String(logTurn, k.Turn))
	}
	switch text := a.Value.String(); a.Key {
	case logTurn:
		if k, err := events.ParseTurnKey(text); err == nil {
			turn(k)
			return out
		}
	case logCall, "approval":
		of, _, _ := strings.Cut(text, "@") // an approval's id names its asking, too
		if k, err := events.ParseCallKey(of); err == nil {
			turn(k.TurnKey())
			if a.Key != logCall {
				out = append(out, a)
			}
			add(slog.Int(logCall, k.Offset))
			return out
		}
	case "error":
		a.Key = logErr
	}
	return append(out, a)
}
