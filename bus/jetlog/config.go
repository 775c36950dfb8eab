package jetlog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sluice-run/sluice/bus"
)

// Config says which server keeps the log, and how. Zero values mean the
// defaults; only Connect is required.
type Config struct {
	// Connect opens a connection of its own each time it is called: a slow read
	// blocks the connection that carries it. The name is for the server's list
	// of connections. Options holds what every such connection needs.
	Connect func(name string) (*nats.Conn, error)
	// Replicas of each stream: 1 (the meaning of 0) or 3. It is used where a
	// stream has to be made, and to widen one that has fewer.
	Replicas int
	// Memory keeps the streams in memory, for tests: nothing survives the server.
	Memory bool
	// Barrier says what is durable; nil means that the server's durability is
	// its own business (mode external).
	Barrier bus.Barrier
	// Generations says where each generation of the log begins, oldest first, if
	// the caller knows; they are then written beside the log. nil means that
	// they are read from there.
	Generations []Span
	// AckWait is how long a delivery stays with its node without a sign of
	// life; 0 means 15 s.
	AckWait time.Duration
	// MaxAckPending is how many turns may be in hands in the whole cluster, for
	// each placement; 0 means 20 000.
	MaxAckPending int
	// Retention is how long a commit stays in the log; 0 leaves a log that exists as it
	// is, and means for ever where one is made. Of a log that others may share, one that is
	// longer than what is in force leaves that, and for one that is shorter Open returns
	// a Shortens. See Bus.Retention for what came of it.
	Retention time.Duration
	// ChangeRetention puts Retention into force whatever was, also 0 for ever.
	ChangeRetention bool
	// InFlight bounds the appends that wait for their answer; 0 means 512.
	InFlight int
	// Requeue says that the server has just started, so that nobody can hold a
	// claim of before: what the queue still has is delivered at once.
	Requeue bool
	// SubjectInterest says whether anybody listens on a subject of this server;
	// nil means that it is not known, and every live event is sent.
	SubjectInterest func(subject string) bool
	own             bool // the log is this process's: it is as Retention says, unless that is 0

	// Log is for the operator; nil discards.
	Log *slog.Logger
}

// Span is where a generation of the log begins.
type Span struct {
	Generation uint32 // from 1
	FirstSeq   uint64 // of its first commit, from 1
}

func (c Config) replicas() int          { return max(c.Replicas, 1) }
func (c Config) ackWait() time.Duration { return cmp.Or(c.AckWait, 15*time.Second) }
func (c Config) maxAckPending() int     { return cmp.Or(c.MaxAckPending, 20_000) }
func (c Config) inFlight() int          { return cmp.Or(c.InFlight, 512) }

func (c Config) barrier() bus.Barrier {
	if c.Barrier == nil {
		return external{}
	}
	return c.Barrier
}

func (c Config) logger() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}

// check returns what is wrong with the configuration.
func (c Config) check() error {
	switch {
	case c.Connect == nil:
		return errors.New("jetlog: Config.Connect is required")
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("jetlog: %d replicas: use 1 or 3", c.Replicas)
	case c.AckWait < 0 || c.Retention < 0 || c.MaxAckPending < 0 || c.InFlight < 0:
		return errors.New("jetlog: AckWait, Retention, MaxAckPending and InFlight must not be negative")
	}
	return checkSpans(c.Generations)
}

func checkSpans(spans []Span) error {
	for i, s := range spans {
		if s.Generation == 0 || i > 0 && (s.Generation <= spans[i-1].Generation || s.FirstSeq < spans[i-1].FirstSeq) {
			return errors.New("jetlog: the generations are not in order")
		}
	}
	return nil
}
