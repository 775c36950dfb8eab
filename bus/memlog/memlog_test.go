package memlog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/bustest"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestPromises runs the suite by a virtual clock.
func TestPromises(t *testing.T) {
	open := func(*testing.T) bus.Bus { return memlog.New(memlog.Config{}).View("one") }
	for _, p := range bustest.Promises() {
		t.Run(p.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { bustest.Check(t, p, open) })
		})
	}
}

// TestPromisesByTheRealClock shows that waiting calls wake up by themselves.
func TestPromisesByTheRealClock(t *testing.T) {
	open := func(*testing.T) bus.Bus {
		return memlog.New(memlog.Config{AckWait: 400 * time.Millisecond}).View("one")
	}
	for _, p := range bustest.Promises() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			bustest.Check(t, p, open)
		})
	}
}
