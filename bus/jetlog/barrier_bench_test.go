package jetlog

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// BenchmarkAppendAndBarrier has n callers append to turns of their own and wait
// for the barrier, each as fast as it can.
func BenchmarkAppendAndBarrier(b *testing.B) {
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			log, s, err := OpenEmbedded(b.Context(), ServerConfig{Dir: b.TempDir()}, Config{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := errors.Join(log.Close(), s.Close()); err != nil {
					b.Error(err)
				}
			})
			work := make(chan struct{})
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() { appendAndWait(b, log, i, work) })
			}
			b.ResetTimer()
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}

func appendAndWait(b *testing.B, log bus.Bus, caller int, work <-chan struct{}) {
	turn, at := events.TurnKey{Trace: "bench", Turn: fmt.Sprint(caller)}, uint64(0)
	for range work {
		s, err := log.Append(b.Context(), events.Commit{ID: fmt.Sprintf("%d-%d", caller, at), Turn: turn, Records: []events.Record{
			{Call: 0, Seq: 1, Event: &events.Progress{Attempt: 1, Text: "a commit of about 300 bytes"}},
		}}, at)
		if err == nil {
			err = log.Barrier().Wait(b.Context())
		}
		if err != nil {
			b.Error(err)
			return
		}
		at = s.Seq
	}
}

// BenchmarkBarrierWithNothingToDo is what a look at all streams costs.
func BenchmarkBarrierWithNothingToDo(b *testing.B) {
	log, s, err := OpenEmbedded(b.Context(), ServerConfig{Dir: b.TempDir()}, Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(log.Close(), s.Close()); err != nil {
			b.Error(err)
		}
	})
	for b.Loop() {
		if err := log.Barrier().Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
