package jetlog_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus/jetlog"
)

// book is a log that a test can read.
type book struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestClientsWordsStopNoServer: what a stranger calls itself stands in the server's log,
// and is no word of the server's that its disk is full.
func TestClientsWordsStopNoServer(t *testing.T) {
	users, _ := people(t)
	log := &book{}
	srv, err := jetlog.StartServer(t.Context(), jetlog.ServerConfig{
		Dir: t.TempDir(), Port: -1, Users: users, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	}()
	words := []string{"no space left on device", "critical write error", "read-only file system", "input/output error"}
	for _, w := range words {
		if nc, err := nats.Connect(srv.URL(), nats.UserInfo(w, w), nats.Name(w), nats.NoReconnect()); err == nil {
			nc.Close()
			t.Fatalf("%s got in", w)
		}
		c := connectAs(t, srv.URL(), "ann", nats.Name(w+" - Filestore ["))
		for range 50 {
			c.never(publish, "sluice.ev.x.y")
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := srv.Barrier().Wait(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-srv.Failed():
		t.Error("a client's name has stopped the server")
	default:
	}
	if n := strings.Count(log.String(), "Violation"); n == 0 || n > 40 {
		t.Errorf("the log has %d of 200 refusals: some are enough to find who it is", n)
	}
}
