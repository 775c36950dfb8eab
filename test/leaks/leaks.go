// Package leaks names the goroutines that libraries leave for a while and nobody can
// stop: tests that look for leaks pass over them.
package leaks

import "go.uber.org/goleak"

const stream = "github.com/nats-io/nats-server/v2/server.(*stream)."

// OfServers are those of a NATS server that is stopped while a mirror or a source asks
// for its consumer: they wait for the answer, for half a minute at most.
var OfServers = []goleak.Option{
	goleak.IgnoreAnyFunction(stream + "trySetupSourceConsumer.func3"),
	goleak.IgnoreAnyFunction(stream + "setupMirrorConsumer.func3"),
}

// OfActors is that of the actor library's dead-letter throttle, which sleeps for a second.
var OfActors = goleak.IgnoreTopFunction("github.com/asynkron/protoactor-go/actor.NewDeadLetter.NewThrottle.func4.1")
