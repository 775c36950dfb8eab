package actors

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
)

// System is what actors live in. It is large, and holds nothing of a node's but its
// actors: nodes of one process may share one. It may be used from many goroutines.
type System struct{ of *actor.ActorSystem }

// NewSystem makes a system without actors. log hears of letters that nobody reads.
func NewSystem(log *slog.Logger) *System {
	return &System{actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))}
}

// shutdown ends a system, once its actors have stopped. nil has ended.
func (s *System) shutdown() {
	if s != nil {
		s.of.Shutdown()
	}
}
