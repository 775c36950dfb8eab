package jetlog_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
)

// BenchmarkDoor is a request and its answer of 1 kB over a user's own connection, against
// the same over HTTP on a connection that is kept. Both are on loopback.
func BenchmarkDoor(b *testing.B) {
	body := bytes.Repeat([]byte("1"), 1024)
	users := []jetlog.User{{Name: "ann", Password: "$2a$04$FBQksN6pRmdhsLGOUSzY9eQeJT6sHb/uLy5ESTsTeJSl/rlCVVut2"}}
	log, srv, err := jetlog.OpenEmbedded(b.Context(), jetlog.ServerConfig{Dir: b.TempDir(), Port: -1, Users: users}, jetlog.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- log.ServeDoor(ctx, bus.Door{Name: "bench", ID: "bench", Version: "1.0.0", Answer: func(_ context.Context, k bus.Knock) bus.Answer {
			return bus.Answer{Status: 200, Body: k.Body}
		}})
	}()
	defer func() {
		stop()
		<-ended
		if err := errors.Join(log.Close(), srv.Close()); err != nil {
			b.Error(err)
		}
	}()
	caller, err := jetlog.DialDoor(jetlog.DialConfig{URL: strings.Replace(srv.URL(), "nats://", "nats://ann:pw-ann@", 1)}, "ann")
	if err != nil {
		b.Fatal(err)
	}
	defer caller.Close()
	for {
		if _, err := caller.Knock(ctx, bus.Knock{Verb: "say"}); err == nil {
			break
		} else if !errors.Is(err, bus.ErrUnavailable) {
			b.Fatal(err)
		}
	}
	b.Run("nats", func(b *testing.B) {
		for b.Loop() {
			if _, err := caller.Knock(ctx, bus.Knock{Verb: "say", Body: body}); err != nil {
				b.Fatal(err)
			}
		}
	})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body) // a client that has gone hears nothing
	}))
	defer web.Close()
	b.Run("http", func(b *testing.B) {
		for b.Loop() {
			resp, err := http.Post(web.URL, "application/json", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
