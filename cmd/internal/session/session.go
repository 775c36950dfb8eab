package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
)

// Session is a log that is open.
type Session struct {
	Bus    *jetlog.Bus
	Server *jetlog.Server  // the log is embedded in this process; else nil
	Found  *jetlog.Running // the node that keeps the log, where OpenRunning has opened it; else nil

	clock *bus.Clock           // nil where the log is in this process
	stop  []context.CancelFunc // end what LendBarrier and KeepTime have begun
	wg    sync.WaitGroup
}

// Open opens the log that conf connects to. ctx bounds the opening only.
func Open(ctx context.Context, conf jetlog.Config) (*Session, error) {
	b, err := jetlog.Open(ctx, conf)
	if err != nil {
		return nil, exit.Unusable(err, "")
	}
	log := conf.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Session{Bus: b, clock: newClock(ctx, b, log)}, nil
}

// OpenRunning opens the log of the node that was found on the data directory. Of
// the place only the hint counts: the node has told the rest.
func (p Place) OpenRunning(ctx context.Context, running jetlog.Running, conf jetlog.Config) (*Session, error) {
	u, err := url.Parse(running.URL)
	if err != nil {
		return nil, exit.Unusable(err, "")
	}
	if running.Token != "" {
		u.User = url.User(running.Token)
	}
	far := &farBarrier{mode: running.More["sync"]}
	conf.Barrier = far
	if conf, err = (Place{NATS: u.String(), Pin: running.Pin, Hint: p.Hint}).Dial(ctx, conf); err != nil {
		return nil, err
	}
	ses, err := Open(ctx, conf)
	if err != nil {
		return nil, err
	}
	far.notes, ses.Found = ses.Bus, &running
	return ses, nil
}

// Silent is the error of a directory that is used by a process which listens for
// nobody.
func Silent(running jetlog.Running, dir string) error {
	return fmt.Errorf("process %d uses %s, and nobody can talk to it", running.PID, dir)
}

// OpenEmbedded keeps the log of sc's directory in this process, and makes it if it
// is not there. ctx bounds the opening only.
func OpenEmbedded(ctx context.Context, sc jetlog.ServerConfig, conf jetlog.Config) (*Session, error) {
	dir, err := filepath.Abs(sc.Dir)
	if err != nil {
		return nil, exit.Unusable(err, "")
	}
	sc.Dir = dir
	b, server, err := jetlog.OpenEmbedded(ctx, sc, conf)
	if err != nil {
		return nil, exit.Unusable(err, "")
	}
	return &Session{Bus: b, Server: server}, nil
}

// LendBarrier lets other processes wait for the barrier of this one, until Close.
// It is called once, of an embedded log.
func (s *Session) LendBarrier(ctx context.Context, log *slog.Logger) {
	own := s.lasting(ctx)
	s.wg.Go(func() { lend(own, s.Bus, log) })
}

// lasting is a context that ends with Close.
func (s *Session) lasting(ctx context.Context) context.Context {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = append(s.stop, stop)
	return own
}

// Close gives everything back. Nothing that the session started runs afterwards.
func (s *Session) Close() error {
	for _, stop := range s.stop {
		stop()
	}
	s.wg.Wait()
	err := s.Bus.Close()
	if s.Server != nil {
		err = errors.Join(err, s.Server.Close()) // says that the log was closed, whatever was done with it
	}
	return err
}
