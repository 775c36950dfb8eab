package jetlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Look tries what Open would do on servers of c.Connect, and changes nothing. It returns how
// many copies of the log there are, 0 where none has been made, or what Open would refuse
// with: no JetStream, more replicas than there can be, a log that is not to be opened. What
// only the making of a stream shows, it does not see. ctx bounds it.
func Look(ctx context.Context, c Config) (copies int, err error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	nc, err := c.Connect("sluice-look")
	if err != nil {
		return 0, unavailable(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	s, err := js.Stream(ctx, StreamLog)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, c.spread(nc, 0)
	case err != nil:
		return 0, streamError(StreamLog, err)
	}
	have := s.CachedInfo().Config
	if _, err := c.retain(have.MaxAge); err != nil {
		return have.Replicas, err
	}
	if _, _, err := drift(have, c.logConfig(nil)); err != nil {
		return have.Replicas, err
	}
	return max(have.Replicas, 1), c.spread(nc, have.Replicas)
}

// spread is the error of a log that would get more copies where there is one server.
func (c Config) spread(nc *nats.Conn, have int) error {
	if c.replicas() <= max(have, 1) || nc.ConnectedClusterName() != "" {
		return nil
	}
	return fmt.Errorf("stream %s: %d replicas: %w", StreamLog, c.replicas(), errAlone)
}

// errAlone is the error of replicas on a server by itself.
var errAlone = errors.New("the server is in no cluster, and keeps one copy: make a cluster of three, or ask for 1")

// codeAlone is the server's own word for that.
const codeAlone = 10074
