package jetlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/bustest"
	"github.com/sluice-run/sluice/bus/jetlog"
)

// benched is a bus beside which workers may sit.
type benched struct {
	*jetlog.Bus
	dial connector // as the worker of the promises
}

// withSeats opens a bus on which the promises of workers can be checked. dial connects
// as bustest.WorkerUser.
func withSeats(t *testing.T, connect, dial connector, replicas int) bus.Bus {
	t.Helper()
	return benched{openOn(t, connect, replicas).(*jetlog.Bus), dial}
}

// workerUser may do what a worker may.
func workerUser() *server.User {
	return &server.User{
		Username: bustest.WorkerUser, Password: "pw",
		Permissions: permissionsOf(jetlog.User{Name: bustest.WorkerUser, Tools: bustest.WorkerTools}),
	}
}

// Seat takes a seat on a connection of its own, with the client's own means.
func (b benched) Seat(_ context.Context, w bus.Worker, tools ...string) (bus.Seat, error) {
	nc, err := b.dial("worker-" + w.Instance)
	if err != nil {
		return nil, err
	}
	s := &chair{nc: nc, w: w, in: make(chan *nats.Msg, 2*bus.MaxUnheard)}
	for _, tool := range tools {
		_, serr := nc.ChanQueueSubscribe(bus.ToolSubject(tool), bus.WorkerQueue, s.in)
		err = errors.Join(err, serr)
	}
	for _, subject := range []string{bus.WorkerSubject(w), bus.AllWorkers} {
		_, serr := nc.ChanSubscribe(subject, s.in)
		err = errors.Join(err, serr)
	}
	return s, errors.Join(err, nc.Flush())
}

// chair is a bus.Seat.
type chair struct {
	nc *nats.Conn
	w  bus.Worker
	in chan *nats.Msg
}

func (s *chair) Announce(tool string, body []byte) error {
	return errors.Join(s.nc.Publish(bus.HereSubject(tool, s.w), body), s.nc.Flush())
}

func (s *chair) Hear(ctx context.Context) (bus.Heard, error) {
	select {
	case m := <-s.in:
		tool, offered := strings.CutPrefix(m.Subject, bus.ToolPrefix)
		if !offered {
			tool = ""
		}
		return bus.Heard{Tool: tool, Reply: m.Reply, Body: m.Data}, nil
	case <-ctx.Done():
		return bus.Heard{}, ctx.Err()
	}
}

func (s *chair) Answer(reply string, body []byte) error {
	if err := s.nc.Publish(reply, body); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

func (s *chair) Close() { s.nc.Close() }
