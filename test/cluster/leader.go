package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// AwaitReady waits until all servers run, are healthy, and one of them leads: then
// streams with a replica on each can be made.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	ctx, stop := limited(ctx)
	defer stop()
	return poll(ctx, "the servers are a cluster", func(ctx context.Context) error {
		for _, s := range c.Servers {
			if err := s.Healthy(ctx); err != nil {
				return err
			}
		}
		if len(c.Servers) == 1 {
			return nil
		}
		return c.met(ctx)
	})
}

// met returns why the servers have no leader that sees all of them; nil if they have.
func (c *Cluster) met(ctx context.Context) error {
	for _, s := range c.Servers {
		var js struct {
			Meta *struct {
				Leader   string
				Size     int `json:"cluster_size"`
				Replicas []struct{ Current, Offline bool }
			} `json:"meta_cluster"`
		}
		if err := s.ask(ctx, "/jsz", &js); err != nil {
			return err
		}
		if js.Meta == nil || js.Meta.Leader != s.name {
			continue
		}
		current := 1
		for _, r := range js.Meta.Replicas {
			if r.Current && !r.Offline {
				current++
			}
		}
		if js.Meta.Size == len(c.Servers) && current == len(c.Servers) {
			return nil
		}
		return fmt.Errorf("%s leads %d of %d servers", s.name, current, len(c.Servers))
	}
	return errors.New("nobody leads the servers")
}

// Connect is a plain connection to the servers that run, for looking at them from
// outside. The caller closes it.
func (c *Cluster) Connect() (*nats.Conn, error) {
	return nats.Connect(c.URL(), nats.Name("cluster"), nats.MaxReconnects(-1))
}

// Leader is the server that leads a stream, such as SLUICE or SLUICE_TURNS. It
// waits while there is none.
func (c *Cluster) Leader(ctx context.Context, stream string) (*Server, error) {
	ctx, stop := limited(ctx)
	defer stop()
	nc, err := c.Connect()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	var found *Server
	err = poll(ctx, "stream "+stream+" has a leader", func(ctx context.Context) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		found, err = c.leads(s.CachedInfo())
		return err
	})
	return found, err
}

// leads is the server that a stream's information names as its leader.
func (c *Cluster) leads(info *jetstream.StreamInfo) (*Server, error) {
	if len(c.Servers) == 1 {
		return c.Servers[0], nil
	}
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return nil, errors.New("it has no leader now")
	}
	for _, s := range c.Servers {
		if s.name == info.Cluster.Leader && s.Running() {
			return s, nil
		}
	}
	return nil, fmt.Errorf("its leader is %s, which does not run", info.Cluster.Leader)
}

// StepDown has the leader of a stream give up its office, and returns which server that was.
func (c *Cluster) StepDown(ctx context.Context, stream string) (*Server, error) {
	ctx, stop := limited(ctx)
	defer stop()
	was, err := c.Leader(ctx, stream)
	if err != nil {
		return nil, err
	}
	nc, err := c.Connect()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
	if err != nil {
		return nil, fmt.Errorf("stream %s: step down: %w", stream, err)
	}
	var answer struct {
		Error *struct{ Description string }
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return nil, fmt.Errorf("stream %s: step down: %w", stream, err)
	}
	if answer.Error != nil {
		return nil, fmt.Errorf("stream %s: step down: %s", stream, answer.Error.Description)
	}
	return was, nil
}
