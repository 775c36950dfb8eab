// Package leaks looks for goroutines that tests leave, and names those that libraries leave
// for a while and nobody can stop: tests that look for leaks pass over them.
package leaks

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take that are about to end. One look of goleak's is
// over in half a second, which is little on a machine that does much else.
const patience = time.Minute

// Main runs a package's tests, sees that nothing of them still runs but what the options
// pass over, and ends the process.
func Main(m *testing.M, pass ...goleak.Option) { os.Exit(Run(m, pass...)) }

// Run is Main for who has something to do before the process ends. It returns the exit code.
func Run(m *testing.M, pass ...goleak.Option) int {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	err := goleak.Find(pass...)
	for begin := time.Now(); err != nil && time.Since(begin) < patience; {
		err = goleak.Find(pass...)
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

const stream = "github.com/nats-io/nats-server/v2/server.(*stream)."

// OfServers are those of a NATS server that is stopped while a mirror or a source asks
// for its consumer: they wait for the answer, for half a minute at most.
var OfServers = []goleak.Option{
	goleak.IgnoreAnyFunction(stream + "trySetupSourceConsumer.func3"),
	goleak.IgnoreAnyFunction(stream + "setupMirrorConsumer.func3"),
}

// OfActors is that of the actor library's dead-letter throttle, which sleeps for a second.
var OfActors = goleak.IgnoreTopFunction("github.com/asynkron/protoactor-go/actor.NewDeadLetter.NewThrottle.func4.1")
