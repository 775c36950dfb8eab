package memlog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/bustest"
	"github.com/sluice-run/sluice/bus/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
