package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/cmd/internal/exit"
)

func TestTailFindsTheNextNode(t *testing.T) {
	n, dir, ready := startNode(t)
	data := filepath.Join(dir, "data")
	tail := start(t, "tail", "--data", data, "--from", "start", "--kind", "completed", "--json")
	echo := func(at any, v string) {
		post(t, at, `{"wait_ms":20000,"calls":[{"tool":"echo","args":{"v":"`+v+`"}}]}`)
	}
	echo(ready["http"], "one")
	tail.until("one")
	n.end()
	next := serveAgain(t, dir)
	echo(next["http"], "two")
	if line := tail.until(`"type":"run.sluice.completed.v1"`); !strings.Contains(line, "two") {
		t.Errorf("not from where it was: %s", line)
	}
	if code := tail.end(); code != 0 || strings.Count(tail.err.String(), "connection to NATS lost") > 1 {
		t.Errorf("tail: %d, %s", code, tail.err.String())
	}
}

func TestSubmitWaitsAtTheNextNode(t *testing.T) {
	n, dir, _ := startNode(t, "--drain", "50ms")
	data := filepath.Join(dir, "data")
	tail := start(t, "tail", "--data", data, "--from", "start", "--kind", "started")
	file := filepath.Join(dir, "calls.json")
	writeFile(t, file, `[{"tool":"deaf_sleep","args":{"ms":3000}}]`)
	sub := start(t, "submit", "--data", data, file)
	tail.until("deaf_sleep")
	tail.end()
	n.end()
	serveAgain(t, dir)
	sub.until(`"answer":"success"`)
	if code := sub.end(); code != 0 {
		t.Errorf("submit: %d, %s", code, sub.err.String())
	}
}

func TestNoNextNodeIsAnError(t *testing.T) {
	s := newSettings()
	s.Data, s.patience = t.TempDir(), time.Millisecond
	log, err := s.quiet(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.openNext(t.Context(), log); err == nil || exitCode(err) != exit.Unavailable || !strings.Contains(err.Error(), s.Data+" has gone") {
		t.Errorf("%v", err)
	}
}

func TestALossIsToldOnce(t *testing.T) {
	var out strings.Builder
	log, err := newSettings().quiet(&out)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"append", "queue", "read"} {
		log.With("connection", name).Warn("connection to NATS lost")
		log.With("connection", name).Warn("NATS", "subject", name)
	}
	if got := strings.Count(out.String(), "connection to NATS lost"); got != 1 || strings.Count(out.String(), "subject=") != 3 {
		t.Errorf("%d times:\n%s", got, out.String())
	}
}
