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
	"github.com/sluice-run/sluice/events"
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

// BenchmarkLoad is a turn of four commits, read from the mirror.
func BenchmarkLoad(b *testing.B) {
	l := one(b, jetlog.Config{})
	k, at := turn("bench", "load"), uint64(0)
	for i := range 4 {
		s, err := l.Append(b.Context(), note(k, fmt.Sprint("c", i), uint32(i+1)), at)
		if err != nil {
			b.Fatal(err)
		}
		at = s.Seq
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if got, err := l.Load(b.Context(), k, at); err != nil || len(got) != 4 {
			b.Fatal(len(got), err)
		}
	}
}

// BenchmarkRead is one commit of a whole log, read in order.
func BenchmarkRead(b *testing.B) {
	l := one(b, jetlog.Config{})
	var wg sync.WaitGroup
	var n atomic.Int64
	for range 64 {
		wg.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				if _, err := l.Append(b.Context(), note(turn("bench", fmt.Sprint(i)), fmt.Sprint("c", i), 1), 0); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportAllocs()
	b.ResetTimer()
	seen := 0
	err := l.Read(b.Context(), events.Position{}, bus.Filter{}, false, func(bus.Stored) error { seen++; return nil })
	if err != nil || seen != b.N {
		b.Fatal(seen, b.N, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}
