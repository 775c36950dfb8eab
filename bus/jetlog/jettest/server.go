// Package jettest starts real NATS servers inside a test: one alone, or a
// cluster of three. They listen on free ports of the loopback address, keep
// their files in the test's folder, and are gone when the test ends.
package jettest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/test/ports"
)

// startLimit is how long a server or a cluster may take to be ready.
const startLimit = 2 * time.Minute

// Server is a server that can be stopped and started again on its store. It is
// not safe for use from several goroutines.
type Server struct {
	t    testing.TB
	opts server.Options
	srv  *server.Server
}

// Start starts a server of its own for the test, with JetStream in a new folder.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartWith(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
}

// StartWith starts a server with options; host, ports and logging are set here.
func StartWith(t testing.TB, o server.Options) *Server {
	t.Helper()
	o.Host, o.NoLog, o.NoSigs = "127.0.0.1", true, true
	if o.Port == 0 {
		free, err := ports.Free(1)
		if err != nil {
			t.Fatal(err)
		}
		o.Port = free[0]
	}
	s := &Server{t: t, opts: o}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start starts a server that was stopped, on the same port and store.
func (s *Server) Start() {
	s.t.Helper()
	opts := s.opts.Clone()
	srv, err := server.NewServer(opts)
	if err != nil {
		s.t.Fatalf("make a NATS server: %v", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(startLimit) {
		s.t.Fatal("the NATS server does not get ready")
	}
	s.srv = srv
	s.opts.Port = opts.Port
}

// Stop stops the server, cleanly. Stopping twice is no error.
func (s *Server) Stop() {
	if s.srv != nil {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
		s.srv = nil
	}
}

// NATS is the running server, nil if it was stopped.
func (s *Server) NATS() *server.Server { return s.srv }

// URL is the server's address. It stays the same when the server is started again.
func (s *Server) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.opts.Port) }

// Dial connects over TCP, for jetlog.Config.Connect. The connection survives a
// restart of the server.
func (s *Server) Dial(name string) (*nats.Conn, error) {
	return nats.Connect(s.URL(), jetlog.Options(name, nil)...)
}

// InProcess connects without a socket, for jetlog.Config.Connect. The connection
// does not survive a restart of the server.
func (s *Server) InProcess(name string) (*nats.Conn, error) {
	if s.srv == nil {
		return nil, errors.New("the server is stopped")
	}
	return nats.Connect("", append(jetlog.Options(name, nil), nats.InProcessServer(s.srv))...)
}

// Open opens a bus on the server in the test's name, and closes it at its end.
func (s *Server) Open(c jetlog.Config) *jetlog.Bus {
	s.t.Helper()
	if c.Connect == nil {
		c.Connect = s.InProcess
	}
	return open(s.t, c)
}

func open(t testing.TB, c jetlog.Config) *jetlog.Bus {
	t.Helper()
	b, err := jetlog.Open(t.Context(), c)
	if err != nil {
		t.Fatalf("open the bus: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close the bus: %v", err)
		}
	})
	return b
}
