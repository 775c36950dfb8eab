package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/sluice-run/sluice/test/ports"
)

// roleEnv holds the orders of a process that is to be a NATS server.
const roleEnv = "SLUICE_TEST_NATS_SERVER"

// syncAlways has each message synced before it is acknowledged.
const syncAlways = "always"

// orders are how a server is to run.
type orders struct {
	Name         string
	Port, Route  int
	Routes       []int // of all servers; nil for one that is alone
	Dir          string
	Sync         string
	ReadyTimeout time.Duration
}

// told is what a server says when clients can connect.
type told struct {
	Monitor string // of its HTTP monitoring
}

// Main runs a NATS server, and ends the process with it, if this process was
// started to be one; otherwise it does nothing. Whoever leaves Config.Program
// empty MUST call it before anything else.
func Main() {
	text, ok := os.LookupEnv(roleEnv)
	if !ok {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "nats server: error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a server until SIGTERM, or until its parent has gone.
func serve(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	opts, err := o.options()
	if err != nil {
		return err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(o.ReadyTimeout) {
		return errors.New("it does not get ready for connections")
	}
	if err := json.NewEncoder(os.Stdout).Encode(told{Monitor: "http://" + s.MonitorAddr().String()}); err != nil {
		return err
	}
	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // nothing is ever written: it ends with the parent
		close(orphaned)
	}()
	select {
	case <-ctx.Done():
		s.Shutdown()
		s.WaitForShutdown()
		return nil
	case <-orphaned:
		return errors.New("whoever started it is gone")
	}
}

func (o orders) options() (*server.Options, error) {
	opts := &server.Options{
		ServerName: o.Name, Host: "127.0.0.1", Port: o.Port, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT,
		NoSigs: true, Logtime: true, LogFile: "", JetStream: true, StoreDir: o.Dir,
	}
	if o.Sync == syncAlways {
		opts.SyncAlways = true
	} else if o.Sync != "" {
		d, err := time.ParseDuration(o.Sync)
		if err != nil {
			return nil, err
		}
		opts.SyncInterval = d
	}
	if o.Routes != nil {
		// Clients are told of no other server: who goes through a proxy stays with it.
		opts.Cluster = server.ClusterOpts{Name: "sluice", Host: "127.0.0.1", Port: o.Route, NoAdvertise: true}
		for _, port := range o.Routes {
			opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: ports.Loopback(port)})
		}
	}
	return opts, nil
}
