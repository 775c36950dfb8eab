package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sluice-run/sluice/bus"
)

// watcher measures the house.
type watcher struct {
	h    *house
	door *door
	load *load
	js   jetstream.JetStream
	nc   *nats.Conn
	last time.Time // of the look BEFORE
}

// lookLimit is how long any one measurement may take: what is stopped, or has no
// leader, is not measured this time.
const lookLimit = 2 * time.Second

func newWatcher(h *house, l *load) (*watcher, error) {
	nc, err := h.connect()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &watcher{h: h, door: newDoor(nil), load: l, js: js, nc: nc, last: time.Now()}, nil
}

func (w *watcher) close() {
	w.nc.Close()
	w.door.close()
}

// values are what one look at a part gives.
type values struct {
	mu sync.Mutex
	of map[string]float64
}

func (v *values) put(figure, of string, value float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.of[figure+"."+of] = value
}

// look measures everything at once.
func (w *watcher) look(ctx context.Context) map[string]float64 {
	v := &values{of: map[string]float64{}}
	now := time.Now()
	w.load.look(v.of, now.Sub(w.last))
	w.last = now
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	var wg sync.WaitGroup
	for _, m := range w.h.members {
		wg.Go(func() { w.node(ctx, m, v) })
	}
	if w.h.cluster != nil {
		for _, s := range w.h.cluster.Servers {
			wg.Go(func() { w.server(ctx, s.Name(), s.Monitor(), s.PID(), v) })
		}
	}
	wg.Go(func() { w.streams(ctx, v) })
	wg.Wait()
	return v.of
}

// gauges are what is read of a node's metrics.
var gauges = map[string]string{
	"process_resident_memory_bytes": figRSS, "go_memstats_heap_alloc_bytes": figHeap, "go_goroutines": figGoroutines,
	"process_open_fds": figFiles, "sluice_turns_running": figTurns, "sluice_attempts_running": figAttempts,
}

func (w *watcher) node(ctx context.Context, m *member, v *values) {
	r, err := w.door.askOf(ctx, lookLimit, m.url, http.MethodGet, "/metrics", nil)
	if err != nil || r.status != http.StatusOK {
		return // it is down, or stopped
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(r.body))
	if err != nil {
		return
	}
	for name, figure := range gauges {
		if f := families[name]; f != nil && f.GetType() == dto.MetricType_GAUGE && len(f.Metric) == 1 {
			v.put(figure, m.name, f.Metric[0].GetGauge().GetValue())
		}
	}
}

// server measures a NATS server by its monitoring, and by what the kernel says of it
// where it says so.
func (w *watcher) server(ctx context.Context, name, monitor string, pid int, v *values) {
	r, err := w.door.askOf(ctx, lookLimit, monitor, http.MethodGet, "/varz", nil)
	var about struct{ Mem float64 }
	if err != nil || json.Unmarshal(r.body, &about) != nil {
		return
	}
	v.put(figRSS, name, about.Mem)
	if r, err := w.door.askOf(ctx, lookLimit, monitor, http.MethodGet, "/stacksz", nil); err == nil {
		v.put(figGoroutines, name, float64(strings.Count("\n"+string(r.body), "\ngoroutine ")))
	}
	if list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
		v.put(figFiles, name, float64(len(list)))
	}
}

// streams measures what is kept, and what waits.
func (w *watcher) streams(ctx context.Context, v *values) {
	last := map[string]uint64{}
	list := w.js.ListStreams(ctx)
	for info := range list.Info() {
		name, s := info.Config.Name, info.State
		v.put(figMessages, name, float64(s.Msgs))
		v.put(figBytes, name, float64(s.Bytes))
		v.put(figSubjects, name, float64(s.NumSubjects))
		last[name] = s.LastSeq
	}
	log, here := last["SLUICE"]
	if read, too := last["SLUICE_READ"]; here && too {
		v.mu.Lock()
		v.of[lagRead] = max(0, float64(log)-float64(read))
		v.mu.Unlock()
	}
	w.timers(ctx, v)
	turns, err := w.js.Stream(ctx, "SLUICE_TURNS")
	if err != nil {
		return
	}
	for info := range turns.ListConsumers(ctx).Info() {
		v.put(figPending, info.Name, float64(info.NumPending))
		v.put(figUnacked, info.Name, float64(info.NumAckPending))
	}
}

// timers counts those that are set. What they leave when they have fired stays in
// their stream for a day.
func (w *watcher) timers(ctx context.Context, v *values) {
	st, err := w.js.Stream(ctx, "SLUICE_TIMERS")
	if err != nil {
		return
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(bus.TimerPrefix+">"))
	if err != nil {
		return
	}
	n := 0
	for subject := range info.State.Subjects {
		if !strings.HasPrefix(subject, bus.TimerPrefix+"_") { // a cancellation
			n++
		}
	}
	v.mu.Lock()
	v.of[timersSet] = float64(n)
	v.mu.Unlock()
}
