package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/test/cluster"
)

// patience is how long anything may take that has to come about by itself.
const patience = 2 * time.Minute

// stage is a cluster of two nodes, one of which is killed.
type stage struct {
	*cluster.Cluster
	scene scene
}

// event is one of a turn's, as the HTTP door tells it.
type event struct{ Type, Position, Boot string }

func (e event) is(kind string) bool { return strings.HasPrefix(e.Type, "run.sluice."+kind+".") }

// started starts a node, again where the servers have no leader just now.
func (s *stage) started(ctx context.Context, n *cluster.Node) error {
	return until(ctx, n.Name()+" starts", func(ctx context.Context) error { return n.Start(ctx) })
}

// death submits a turn, kills its owner while it runs a call, and returns how long the
// turn had none. Everything is back then.
func (s *stage) death(ctx context.Context, trace string) (time.Duration, error) {
	doors := s.Nodes()
	body := fmt.Sprintf(`{"trace":%q,"turn":"t","calls":[{"tool":"sleep","args":{"ms":300000}}]}`, trace)
	if err := until(ctx, "a turn is accepted", func(ctx context.Context) error {
		return ask(ctx, http.MethodPost, doors[0].URL()+"/v1/turns", body, nil)
	}); err != nil {
		return 0, err
	}
	first, err := s.claimed(ctx, doors[0], trace, "")
	if err != nil {
		return 0, err
	}
	owner, other := doors[0], doors[1]
	if owner.Boot() != first.Boot {
		owner, other = other, owner
	}
	var lead *cluster.Server
	if s.scene.leader {
		if lead, err = s.Leader(ctx, "SLUICE"); err != nil {
			return 0, err
		}
	}
	killed := time.Now()
	owner.Kill()
	if lead != nil {
		lead.Kill()
	}
	second, err := s.claimed(ctx, other, trace, first.Boot)
	if err != nil {
		return 0, err
	}
	kept, err := s.kept(ctx, second)
	if err != nil {
		return 0, err
	}
	return kept.Sub(killed), s.again(ctx, owner, other, lead, trace)
}

// claimed is the last claim of a turn whose call has started, once its owner is not the boot.
func (s *stage) claimed(ctx context.Context, door *cluster.Node, trace, not string) (claim event, err error) {
	err = until(ctx, "turn "+trace+" runs", func(ctx context.Context) error {
		var out struct{ Events []event }
		if err := ask(ctx, http.MethodGet, door.URL()+"/v1/turns/"+trace+"/t/events", "", &out); err != nil {
			return err
		}
		var started event
		for _, e := range out.Events {
			if e.is("turn_claimed") {
				claim = e
			}
			if e.is("started") {
				started = e
			}
		}
		if claim.Boot == not || not == "" && started.Boot == "" {
			return errors.New("nobody runs it")
		}
		return nil
	})
	return claim, err
}

// kept is when the log has taken an event's commit.
func (s *stage) kept(ctx context.Context, e event) (at time.Time, err error) {
	parts := strings.Split(e.Position, ".")
	if len(parts) != 3 {
		return at, fmt.Errorf("position %q", e.Position)
	}
	seq, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return at, err
	}
	nc, err := s.Connect()
	if err != nil {
		return at, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return at, err
	}
	err = until(ctx, "the commit is read", func(ctx context.Context) error {
		mirror, err := js.Stream(ctx, "SLUICE_READ")
		if err != nil {
			return err
		}
		m, err := mirror.GetMsg(ctx, seq)
		if err == nil {
			at = m.Time
		}
		return err
	})
	return at, err
}

// again brings everything back, and ends the turn.
func (s *stage) again(ctx context.Context, owner, other *cluster.Node, lead *cluster.Server, trace string) error {
	if lead != nil {
		if err := lead.Start(ctx); err != nil {
			return err
		}
	}
	if err := until(ctx, "the servers are a cluster again", s.AwaitReady); err != nil {
		return err
	}
	if err := s.started(ctx, owner); err != nil {
		return err
	}
	if err := until(ctx, "the turn is cancelled", func(ctx context.Context) error {
		return ask(ctx, http.MethodPost, other.URL()+"/v1/turns/"+trace+"/t/cancel", "{}", nil)
	}); err != nil {
		return err
	}
	return until(ctx, "the turn ends", func(ctx context.Context) error {
		var v struct{ State string }
		if err := ask(ctx, http.MethodGet, other.URL()+"/v1/turns/"+trace+"/t", "", &v); err != nil {
			return err
		}
		if v.State != "completed" {
			return fmt.Errorf("it is %s", v.State)
		}
		return nil
	})
}

// until tries until it works.
func until(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		one, stop := context.WithTimeout(ctx, 30*time.Second)
		err := try(one)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s: %w", what, err)
		}
	}
}

// ask sends a request, and reads the answer, which has to be a good one, into v.
func ask(ctx context.Context, method, url, body string, v any) error {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %d %.300s", method, url, resp.StatusCode, b)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(b, v)
}
