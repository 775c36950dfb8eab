package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/projections/readstore"
)

// asked are lists that people want.
var asked = [][]string{
	nil,
	{"--limit", "2"},
	{"--limit", "1", "--before", "1.75.0"},
	{"--before", "1.1.0"},
	{"--tool", "charge"},
	{"--tool", "charge", "--status", "unknown"},
	{"--tool", "charge,Teleport", "--status", "denied,unknown"},
	{"--status", "open"},
	{"--status", "timed_out", "--status", "deduplicated"},
	{"--principal", "agent-7"},
	{"--principal", "nobody"},
	{"--text", "declined"},
	{"--text", "card declin*"},
	{"--text", `"card was declined"`},
	{"--text", `"declined card"`},
	{"--text", "declined", "--tool", "Read"},
	{"--since", "2026-01-02T03:05:00Z"},
	{"--until", "2026-01-02T03:04:06Z"},
	{"--since", "2026-01-02T03:04:06Z", "--until", "2026-01-02T03:04:10Z"},
	{"--since", "2026-01-03"},
	{"--since", "1h"},
}

// sluice runs the command in this process, and returns what it printed and its exit
// code.
func sluice(ctx context.Context, in string, args ...string) (out, errs string, code int) {
	var stdout, stderr bytes.Buffer
	code = run(ctx, args, strings.NewReader(in), &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// keptLog is a directory with a log of the corpus.
func keptLog(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	b, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: dir}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fill(b, srv, names), b.Close(), srv.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestListIsTheSameWithAReadStore: who answers makes no difference.
func TestListIsTheSameWithAReadStore(t *testing.T) {
	dir, stores := keptLog(t, "ends", "people", "owners", "imported"), t.TempDir()
	ses, err := session.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: dir, Port: -1, Token: "secret"}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ses.Close(); err != nil {
			t.Error(err)
		}
	}()
	ses.LendBarrier(t.Context(), slog.New(slog.DiscardHandler))
	store, err := readstore.Open(t.Context(), readstore.Config{Dir: stores, Log: ses.Bus})
	if err != nil {
		t.Fatal(err)
	}
	store.Start(t.Context())
	head, err := ses.Bus.Head(t.Context())
	if err == nil {
		err = store.Await(t.Context(), head)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Stop(); err != nil {
			t.Error(err)
		}
	}()
	lines := 0
	for i, q := range asked {
		forms := []string{"--json=true"}
		if i < 3 {
			forms = append(forms, "--json=false")
		}
		for _, form := range forms {
			base := append([]string{"list", "--data", dir, form}, q...)
			byStore, errs, code := sluice(t.Context(), "", append(base, "--read-store", stores)...)
			byLog, errsLog, codeLog := sluice(t.Context(), "", append(base, "--read-store", "off")...)
			if byStore != byLog || errs != errsLog || code != codeLog || code != 0 {
				t.Errorf("%v: exit %d\n%s%sby the store, and exit %d\n%s%sby the log", q, code, byStore, errs, codeLog, byLog, errsLog)
			}
			lines += strings.Count(byLog, "\n")
		}
	}
	if lines < 30 {
		t.Errorf("%d lines in all: the lists say little", lines)
	}
	l := &lister{app: quietApp(os.Stderr), store: stores}
	l.app.set.Data = dir
	if _, _, done, err := l.fromStore(t.Context(), &reading{source: ses.Bus, session: ses}); err != nil || !done {
		t.Errorf("the store did not answer: %v", err)
	}
}

// TestListPagesBackwards: --limit and --before go through all traces, each once.
func TestListPagesBackwards(t *testing.T) {
	dir := keptLog(t, "ends", "people", "owners", "imported")
	var seen []string
	before := ""
	for range 10 {
		args := []string{"list", "--data", dir, "--json", "--limit", "1"}
		if before != "" {
			args = append(args, "--before", before)
		}
		out, errs, code := sluice(t.Context(), "", args...)
		if code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		if out == "" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(out, `{"trace":"`), `"`)
		_, rest, _ := strings.Cut(out, `"from":"`)
		before, _, _ = strings.Cut(rest, `"`)
		seen = append(seen, name)
		if more := 4 - len(seen); more > 0 != strings.Contains(errs, "began earlier: --before "+before) {
			t.Errorf("behind %s: %q", name, errs)
		}
	}
	if got := strings.Join(seen, " "); got != "imported owners people ends" {
		t.Errorf("%s", got)
	}
}
