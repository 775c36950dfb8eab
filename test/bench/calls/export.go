package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/otlp"
)

// export sends spans to a collector that reads and forgets them. stop ends both, and
// says how much has come in.
func export(ctx context.Context, b bus.Bus, d *gateway.Desk, log *slog.Logger) (stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var bytes, requests atomic.Int64
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // what came in, came in
		bytes.Add(n)
		requests.Add(1)
	})}
	go func() { _ = s.Serve(l) }() // until it is closed
	target, err := otlp.ParseTarget("http://"+l.Addr().String(), "")
	if err != nil {
		return nil, err
	}
	x, err := otlp.New(otlp.Config{Desk: d, Bus: b, Target: target, Holder: "bench", Log: log, Grace: time.Millisecond})
	if err != nil {
		return nil, err
	}
	if err := x.Start(ctx); err != nil {
		return nil, err
	}
	return func() {
		x.Stop()
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: collector:", err)
		}
		fmt.Printf("\nspans: %d requests, %.1f MB\n", requests.Load(), float64(bytes.Load())/1e6)
	}, nil
}
