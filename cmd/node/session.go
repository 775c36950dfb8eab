package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
)

// session is a log that a verb works on.
type session struct {
	bus     *jetlog.Bus
	server  *jetlog.Server // the log is embedded in this process; else nil
	running jetlog.Running // the node that was found on the data directory
	found   bool

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// open opens the log: of --nats, of the node that runs on the data directory, or
// the directory itself, which is made if make says so. ctx bounds the opening only.
func (s *settings) open(ctx context.Context, log *slog.Logger, make bool) (*session, error) {
	if s.nats != "" {
		return s.openNATS(ctx, log, s.nats, nil)
	}
	info, err := os.Stat(s.data)
	switch {
	case err == nil && !info.IsDir():
		return nil, &failure{fmt.Errorf("%s is not a directory", s.data), "name another one with --data", exitUnavailable}
	case errors.Is(err, fs.ErrNotExist) && !make:
		return nil, &failure{fmt.Errorf("there is no log in %s", s.data), "name the directory of a node with --data, or a server with --nats", exitUnavailable}
	}
	running, found, err := jetlog.Find(s.data)
	switch {
	case err != nil:
		return nil, unusable(err)
	case found && running.URL == "":
		return nil, unusable(fmt.Errorf("process %d uses %s, and nobody can talk to it", running.PID, s.data))
	case found:
		return s.openRunning(ctx, log, running)
	}
	return s.openEmbedded(ctx, log)
}

// unusable is an error with the log's keeper.
func unusable(err error) error { return &failure{err: err, code: exitUnavailable} }

func (s *settings) openNATS(ctx context.Context, log *slog.Logger, at string, barrier bus.Barrier) (*session, error) {
	connect, err := jetlog.Dial(ctx, jetlog.DialConfig{
		URL: at, Creds: s.creds, NKey: s.nkey, CA: s.ca, Cert: s.cert, Key: s.key, TLS: s.tls, Log: log,
	})
	if err != nil {
		return nil, &failure{err: err, hint: "start that server, or name another with --nats; without --nats the log is embedded", code: exitUnavailable}
	}
	b, err := jetlog.Open(ctx, jetlog.Config{Connect: connect, Replicas: s.replicas, Retention: s.retention, Barrier: barrier, Log: log})
	if err != nil {
		return nil, unusable(err)
	}
	return &session{bus: b, stop: func() {}}, nil
}

// openRunning talks to the node that runs on the data directory.
func (s *settings) openRunning(ctx context.Context, log *slog.Logger, running jetlog.Running) (*session, error) {
	u, err := url.Parse(running.URL)
	if err != nil {
		return nil, unusable(err)
	}
	if running.Token != "" {
		u.User = url.User(running.Token)
	}
	far := &farBarrier{mode: running.More["sync"]}
	plain := *s
	plain.creds, plain.nkey, plain.ca, plain.cert, plain.key, plain.tls, plain.replicas = "", "", "", "", "", false, 1
	ses, err := plain.openNATS(ctx, log, u.String(), far)
	if err != nil {
		return nil, err
	}
	far.notes = ses.bus
	ses.running, ses.found = running, true
	return ses, nil
}

func (s *settings) openEmbedded(ctx context.Context, log *slog.Logger) (*session, error) {
	dir, err := filepath.Abs(s.data)
	if err != nil {
		return nil, unusable(err)
	}
	sc := jetlog.ServerConfig{Dir: dir, Sync: s.sync, Token: s.token, Log: log}
	if err := s.listenAt(&sc); err != nil {
		return nil, err
	}
	b, server, err := jetlog.OpenEmbedded(ctx, sc, jetlog.Config{Retention: s.retention, Log: log})
	if err != nil {
		return nil, unusable(err)
	}
	ses := &session{bus: b, server: server}
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	ses.stop = stop
	ses.wg.Go(func() { ses.lendBarrier(own, log) })
	return ses, nil
}

// listenAt says where the embedded log listens. Other processes of this user
// always can reach it, unless they are told not to.
func (s *settings) listenAt(sc *jetlog.ServerConfig) error {
	switch s.listen {
	case "none":
		return nil
	case "":
		sc.Port = -1
		if sc.Token == "" {
			sc.Token = rand.Text()
		}
		return nil
	}
	host, port, err := net.SplitHostPort(s.listen)
	if err == nil {
		sc.Host = host
		sc.Port, err = strconv.Atoi(port)
	}
	if err != nil || sc.Port < 0 {
		return usage(fmt.Errorf("--listen-nats %q: want host:port", s.listen), "for example 127.0.0.1:4222, or none")
	}
	if sc.Port == 0 {
		sc.Port = -1
	}
	return nil
}

// barrierName is whom other processes ask for the barrier of an embedded log.
const barrierName = "barrier"

// lendBarrier lets other processes wait for this one's barrier.
func (ses *session) lendBarrier(ctx context.Context, log *slog.Logger) {
	for ctx.Err() == nil {
		err := ses.bus.Serve(ctx, barrierName, func([]byte) []byte {
			if err := ses.bus.Barrier().Wait(ctx); err != nil {
				return []byte(err.Error())
			}
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		log.Warn("other processes cannot wait for the barrier", "error", err)
		timer := time.NewTimer(time.Second)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// close gives everything back.
func (ses *session) close() error {
	ses.stop()
	ses.wg.Wait()
	err := ses.bus.Close()
	if ses.server != nil {
		err = errors.Join(err, ses.server.Close())
	}
	return err
}

// farBarrier is the barrier of the process that keeps the log.
type farBarrier struct {
	notes bus.Notes // nil while the bus is being opened
	mode  string
}

// farLimit is how long that process may take to answer.
const farLimit = 30 * time.Second

// Wait is bus.Barrier's.
func (f *farBarrier) Wait(ctx context.Context) error {
	if f.notes == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, farLimit)
	defer stop()
	answer, err := f.notes.Ask(ctx, barrierName, nil)
	if err == nil && len(answer) > 0 {
		err = errors.New(string(answer))
	}
	return err
}

// Mode is bus.Barrier's.
func (f *farBarrier) Mode() string { return f.mode }
