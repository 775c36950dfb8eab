package sim

import (
	"runtime/debug"
	"testing"

	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // many short runs that leave much behind
	// The actor library's dead-letter throttle sleeps for a second on a goroutine
	// that nobody can stop.
	leaks.Main(m, append(leaks.OfServers, leaks.OfActors)...)
}
