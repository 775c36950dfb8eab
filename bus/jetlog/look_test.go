package jetlog_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
)

// TestLookTriesWhatOpenDoes: it refuses what Open does, sees a log that is there, and makes
// none.
func TestLookTriesWhatOpenDoes(t *testing.T) {
	srv := jettest.Start(t)
	look := func(replicas int) (int, error) {
		return jetlog.Look(t.Context(), jetlog.Config{Connect: srv.Dial, Replicas: replicas})
	}
	if n, err := look(1); n != 0 || err != nil {
		t.Errorf("before there is a log: %d copies, %v", n, err)
	}
	for name, try := range map[string]func() error{
		"look": func() error { _, err := look(3); return err },
		"open": func() error {
			_, err := jetlog.Open(t.Context(), jetlog.Config{Connect: srv.Dial, Replicas: 3})
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "the server is in no cluster, and keeps one copy") {
			t.Errorf("%s with replicas on a server alone: %v", name, err)
		}
	}
	_, js := raw(t, srv.InProcess)
	if _, err := js.Stream(t.Context(), jetlog.StreamLog); err == nil {
		t.Error("a look has made the log")
	}
	srv.Open(jetlog.Config{})
	if n, err := look(1); n != 1 || err != nil {
		t.Errorf("of a log that is there: %d copies, %v", n, err)
	}
}

// TestLookRefuses: no JetStream, and a log that is not to be opened.
func TestLookRefuses(t *testing.T) {
	newer := jettest.Start(t)
	_, js := raw(t, newer.InProcess)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: jetlog.StreamLog, Subjects: []string{"sluice.ev.>"}, Metadata: map[string]string{"sluice-format": "99"},
	}); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]jetlog.Config{
		"format 99":                {Connect: newer.Dial},
		"JetStream is not enabled": {Connect: jettest.StartWith(t, server.Options{}).Dial},
		"connect":                  {},
	} {
		if _, err := jetlog.Look(t.Context(), c); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%v, want it to speak of %q", err, want)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := jetlog.Look(ctx, jetlog.Config{Connect: newer.Dial}); err == nil {
		t.Error("it answers whom nobody waits for")
	}
}
