package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
)

// holdDirectory keeps a directory as a process does that nobody can talk to.
func holdDirectory(t *testing.T, dir string) (release func()) {
	t.Helper()
	b, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: dir}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestADirectoryInUseIsSaidToBe(t *testing.T) {
	dir := t.TempDir()
	defer holdDirectory(t, dir)()
	s := &settings{Place: session.Place{Data: dir}, wait: 100 * time.Millisecond}
	_, err := s.open(t.Context(), slog.New(slog.DiscardHandler), false)
	if err == nil || !strings.Contains(err.Error(), "nobody can talk to it") || exit.Code(err, false) != exit.Unavailable || hint(err) == "" {
		t.Errorf("%v", err)
	}
}

// TestAShortUseIsWaitedFor: another sluice-replay is done in a moment.
func TestAShortUseIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	release := holdDirectory(t, dir)
	if _, found, err := (&settings{Place: session.Place{Data: dir}}).find(t.Context(), time.Now()); err != nil || !found {
		t.Fatalf("found %t, %v", found, err)
	}
	opened := make(chan error)
	go func() {
		s := &settings{Place: session.Place{Data: dir}, wait: 30 * time.Second}
		st, err := s.open(t.Context(), slog.New(slog.DiscardHandler), false)
		if err == nil {
			err = st.Close()
		}
		opened <- err
	}()
	release()
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
