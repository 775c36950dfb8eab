package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/test/ports"
)

// Server is one NATS server with JetStream, in a process of its own.
type Server struct {
	process
	orders  orders
	program string

	about   sync.Mutex
	monitor string // address of its HTTP monitoring, "" BEFORE the first start
}

// newServer is the server with a number from 0; it is not started.
func (c *Cluster) newServer(i, port int, routes []int) *Server {
	name := fmt.Sprintf("s%d", i+1)
	s := &Server{
		process: process{name: name, log: c.path("log", name+".log")},
		orders:  orders{Name: name, Port: port, Route: routes[i], Dir: c.path(name), Sync: c.cfg.Sync, ReadyTimeout: startLimit},
		program: c.cfg.Program,
	}
	if c.cfg.StoreOf != nil && c.cfg.StoreOf(i) != "" {
		s.orders.Dir = c.cfg.StoreOf(i)
	}
	if len(routes) > 1 {
		s.orders.Routes = routes
	}
	return s
}

// Start starts a server that does not run, on its port and its store, and returns
// once clients can connect. That it takes part in the cluster again may come later:
// see AwaitHealthy.
func (s *Server) Start(ctx context.Context) error {
	ctx, stop := limited(ctx)
	defer stop()
	text, err := json.Marshal(s.orders)
	if err != nil {
		return err
	}
	line, err := s.start(ctx, s.program, nil, []string{roleEnv + "=" + string(text)})
	if errors.Is(err, errEnded) && strings.Contains(err.Error(), "address already in use") {
		err = fmt.Errorf("%w: %w", errPort, err)
	}
	if err != nil {
		return err
	}
	var t told
	if err := json.Unmarshal(line, &t); err != nil || t.Monitor == "" {
		s.Kill()
		return fmt.Errorf("start %s: it says %q: is %s a program that begins with cluster.Main?", s.name, line, s.program)
	}
	s.about.Lock()
	defer s.about.Unlock()
	s.monitor = t.Monitor
	return nil
}

// URL is the server's address for clients. It stays the same over restarts.
func (s *Server) URL() string { return "nats://" + ports.Loopback(s.orders.Port) }

// Address is host and port of URL.
func (s *Server) Address() string { return ports.Loopback(s.orders.Port) }

// Monitor is the address of the server's HTTP monitoring. It changes with each start.
func (s *Server) Monitor() string {
	s.about.Lock()
	defer s.about.Unlock()
	return s.monitor
}

// Store is the folder of the server's store.
func (s *Server) Store() string { return s.orders.Dir }

// Stop ends the server in order, by SIGTERM. It is killed if it has not ended when
// ctx is done, which is an error.
func (s *Server) Stop(ctx context.Context) error {
	ctx, stop := limited(ctx)
	defer stop()
	_, err := s.end(ctx)
	return err
}

// Healthy returns why the server cannot serve all of its streams and consumers
// now; nil if it can. One that is catching up cannot.
func (s *Server) Healthy(ctx context.Context) error {
	var h struct{ Status, Error string }
	if err := s.ask(ctx, "/healthz", &h); err != nil {
		return err
	}
	if h.Status != "ok" {
		return fmt.Errorf("%s: %s %s", s.name, h.Status, h.Error)
	}
	return nil
}

// AwaitHealthy waits until the server is healthy.
func (s *Server) AwaitHealthy(ctx context.Context) error {
	ctx, stop := limited(ctx)
	defer stop()
	return poll(ctx, s.name+" is healthy", s.Healthy)
}

// monitors asks servers for how they are.
var monitors = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// ask reads what the server's monitoring says.
func (s *Server) ask(ctx context.Context, path string, v any) error {
	if !s.Running() {
		return fmt.Errorf("%s does not run", s.name)
	}
	return getJSON(ctx, s.Monitor()+path, v)
}

// getJSON reads an answer, whatever its status.
func getJSON(ctx context.Context, url string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := monitors.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("GET %s: %d %.200s: %w", url, resp.StatusCode, b, err)
	}
	return nil
}
