package jetlog_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
)

// BenchmarkAppend is one caller or many, each with turns of its own.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { benchAppend(b, callers) })
	}
}

func benchAppend(b *testing.B, callers int) {
	l := one(b, jetlog.Config{})
	var n atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			var own []time.Duration
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				began := time.Now()
				c := submitted(turn("bench", fmt.Sprint(i)), fmt.Sprintf("commit-%d", i))
				if _, err := l.Append(b.Context(), c, 0); err != nil {
					b.Error(err)
					return
				}
				own = append(own, time.Since(began))
			}
			mu.Lock()
			took = append(took, own...)
			mu.Unlock()
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// BenchmarkQueue is one push, pull and ack, of several callers at once.
func BenchmarkQueue(b *testing.B) {
	l := one(b, jetlog.Config{})
	const callers = 32
	var pushed, pulled atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := pushed.Add(1); i <= int64(b.N); i = pushed.Add(1) {
				it := bus.Item{ID: fmt.Sprint("i", i), Turn: turn("bench", fmt.Sprint(i))}
				if err := l.Push(b.Context(), it); err != nil {
					b.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for pulled.Add(1) <= int64(b.N) {
				d, err := l.Pull(b.Context(), []string{"default", "_end"})
				if err == nil {
					err = d.Ack()
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
}
