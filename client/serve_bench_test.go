package client_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
)

// BenchmarkServe is an attempt at a worker, from the offer to its answer, over the loopback.
func BenchmarkServe(b *testing.B) {
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	s, err := openShop(ctx, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	nc, err := nats.Connect(s.url)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	s.wg.Go(func() {
		_ = client.Serve(ctx, client.WorkerConfig{Conn: nc, Room: 1 << 10}, client.Handle("greet", "", events.Readonly, greet))
	})
	defer stop()
	call := func(b *testing.B) {
		if r := s.call(ctx, "greet", `{"name":"ann"}`); r.Class != events.ClassOK {
			b.Errorf("%+v", r)
		}
	}
	call(b)
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			call(b)
		}
	})
	b.Run("many", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call(b)
			}
		})
	})
	stop()
}
