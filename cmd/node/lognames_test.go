package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
)

// TestLogNames: however a line says what it speaks of, a reader finds it by one name.
func TestLogNames(t *testing.T) {
	key := events.TurnKey{Trace: "tr", Turn: "tu"}
	for name, c := range map[string]struct {
		say  func(*slog.Logger)
		want map[string]any
	}{
		"a turn":          {func(l *slog.Logger) { l.Info("m", "turn", key.String()) }, map[string]any{"trace": "tr", "turn": "tu"}},
		"a turn's key":    {func(l *slog.Logger) { l.Info("m", "turn", key) }, map[string]any{"trace": "tr", "turn": "tu"}},
		"a call":          {func(l *slog.Logger) { l.Info("m", "call", key.Call(3).String(), "attempt", 2) }, map[string]any{"trace": "tr", "turn": "tu", "call": 3.0, "attempt": 2.0}},
		"both":            {func(l *slog.Logger) { l.Info("m", "turn", key, "call", key.Call(3)) }, map[string]any{"trace": "tr", "turn": "tu", "call": 3.0}},
		"an approval":     {func(l *slog.Logger) { l.Info("m", "approval", "tr/tu/0@2") }, map[string]any{"trace": "tr", "turn": "tu", "call": 0.0, "approval": "tr/tu/0@2"}},
		"an error":        {func(l *slog.Logger) { l.Info("m", "error", errors.New("x")) }, map[string]any{"err": "x"}},
		"another's words": {func(l *slog.Logger) { l.Info("m", "turn", "no key", "call", 7) }, map[string]any{"turn": "no key", "call": 7.0}},
		"before":          {func(l *slog.Logger) { l.With("call", key.Call(1)).Info("m", "attempt", 1) }, map[string]any{"trace": "tr", "turn": "tu", "call": 1.0, "attempt": 1.0}},
		"in a group":      {func(l *slog.Logger) { l.WithGroup("g").Info("m", "turn", key) }, map[string]any{"g": map[string]any{"trace": "tr", "turn": "tu"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log, err := (&settings{logLevel: "info", logFormat: "json"}).logger(&out)
			if err != nil {
				t.Fatal(err)
			}
			c.say(log)
			var got map[string]any
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, out.Bytes())
			}
			if got["level"] != "INFO" || got["msg"] != "m" || got["time"] == nil {
				t.Errorf("%v", got)
			}
			delete(got, "level")
			delete(got, "msg")
			delete(got, "time")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func BenchmarkLogNames(b *testing.B) {
	log, err := (&settings{logLevel: "info", logFormat: "json"}).logger(io.Discard)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		log.Info("m", "call", "trace/turn/3", "attempt", 1, "err", io.EOF)
	}
}
