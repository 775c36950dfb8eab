package actors

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// BenchmarkTurn is a turn of four reads over the memory log: what the actors
// and deciders cost without JetStream.
func BenchmarkTurn(b *testing.B) {
	bus := memlog.New(memlog.Config{}).View("a")
	reg, err := tools.NewRegistry(testTool("echo", events.Readonly, echo))
	if err != nil {
		b.Fatal(err)
	}
	n, err := New(Config{Bus: bus, Registry: reg, Authorizer: lax{}, Boot: "bench", Workspace: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	if err := n.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	raw := calls("echo", "echo", "echo", "echo")
	b.ReportAllocs()
	for b.Loop() {
		key := events.TurnKey{Trace: ulid.Make().String(), Turn: "u"}
		done, stop := n.Watch(key)
		submitTo(b, bus, key, events.TurnSubmitted{Principal: events.Principal{ID: "bench"}, Calls: raw})
		f := <-done
		stop()
		if f.Turn.Ended == nil {
			b.Fatal(fmt.Sprint(f))
		}
	}
	b.StopTimer()
	if err := n.Stop(b.Context()); err != nil {
		b.Fatal(err)
	}
}
