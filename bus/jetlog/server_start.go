package jetlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/events"
)

// readyLimit is how long a server that has started may take to accept connections.
const readyLimit = 30 * time.Second

func (s *Server) start(ctx context.Context) error {
	var err error
	if s.lock, err = lock(ctx, s.cfg.Dir); err != nil {
		return err
	}
	was, err := readMarker(s.cfg.Dir)
	if err != nil {
		return err
	}
	if err := errors.Join(s.cfg.roomy(), s.cfg.portFree()); err != nil {
		return err
	}
	if s.cfg.storeKey, err = s.cfg.keyed(); err != nil {
		return err
	}
	there, err := s.cfg.logThere()
	if err != nil {
		return err
	}
	if was != nil { // from here on, whoever comes next must know that the log was in use
		used := *was
		used.Clean = false
		if err := used.write(s.cfg.Dir); err != nil {
			return err
		}
	}
	if was == nil || !was.Clean {
		if err := forgetExpiries(s.cfg.Dir); err != nil {
			return err
		}
	}
	if err := s.launch(); err != nil {
		return err
	}
	if err := s.found(ctx, there); err != nil {
		return err
	}
	if err := s.prove(ctx); err != nil {
		return err
	}
	if err := s.begin(ctx, was); err != nil {
		return err
	}
	s.guard()
	if s.cfg.Port != 0 {
		s.url = s.nats.ClientURL()
	}
	s.running.URL = s.url
	s.log.Info("NATS server runs in this process", "dir", s.cfg.Dir, "url", s.url,
		"sync", s.barrier.Mode(), "generation", s.gens.current())
	return s.Announce(func(*Running) {})
}

// forgetExpiries has the server find out anew, from the messages themselves, when
// each of them ends. After a crash it makes a stream anew from its blocks, and there
// a message is back whose successor was removed: the value of a cell behind the marker
// of its expiry. The server's own list of expiries no longer has that one: it would
// stay for ever.
func forgetExpiries(dir string) error {
	for _, name := range Streams() {
		err := os.Remove(filepath.Join(dir, "jetstream", "$G", "streams", name, "msgs", "thw.db"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the list of what expires, which the server makes anew: %w", err)
		}
	}
	return nil
}

// launch runs the server and connects to it.
func (s *Server) launch() error {
	o := s.cfg.options()
	if err := s.cfg.secure(o); err != nil {
		return err
	}
	s.running.Pin = pinOf(o)
	srv, err := server.NewServer(o)
	if err != nil {
		return err
	}
	l := &serverLog{ctx: s.ctx, log: s.log, lose: s.lose}
	srv.SetLoggerV2(l, false, false, false)
	s.nats = srv
	srv.Start() // returns when the store was recovered
	if text := l.fatal.Load(); text != nil {
		return errors.New(*text)
	}
	if !srv.ReadyForConnections(readyLimit) {
		return fmt.Errorf("it is not ready after %v: look at its log", readyLimit)
	}
	if s.admin, err = s.Connect("sluice-server"); err != nil {
		return err
	}
	s.js, err = jetstream.New(s.admin)
	return err
}

// prove sees that the barrier will sync what it must, or has the server sync
// everything itself.
func (s *Server) prove(ctx context.Context) error {
	if s.cfg.Sync != SyncBarrier {
		return nil
	}
	err := proveLayout(ctx, s.js, s.cfg.Dir, len(s.cfg.storeKey) > 0)
	if s.cfg.faults.prove != nil {
		err = errors.Join(err, s.cfg.faults.prove())
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	s.log.Warn("the store is not kept as the barrier needs it: each message is synced by itself, which is slow",
		"sync", SyncAlways, "why", err)
	s.halt()
	s.cfg.Sync = SyncAlways
	return s.launch()
}

// begin makes durable what is in the log, and begins a generation if the log
// may have lost its tail.
func (s *Server) begin(ctx context.Context, was *marker) error {
	s.files = newFiles(s.cfg.Dir, barrierStreams())
	if s.cfg.faults.flush != nil {
		s.files.flush = s.cfg.faults.flush
	}
	if err := s.files.sync(); err != nil { // a process that died left what it wrote to the kernel
		return err
	}
	h, err := readHistory(ctx, s.js, was)
	if err != nil {
		return err
	}
	gens, why := h.next()
	if why != "" {
		s.log.Warn("the log may have lost its tail: a new generation begins", "why", why,
			"generation", gens.current(), "first_sequence", h.last+1)
		if err := s.mend(ctx, h); err != nil {
			return err
		}
	}
	s.marker = &marker{Format: events.Format, Last: h.last}
	s.marker.set(gens)
	s.gens = gens
	return s.marker.write(s.cfg.Dir)
}

// mend looks at what the last process left behind.
func (s *Server) mend(ctx context.Context, h history) error {
	if h.holes > 0 {
		s.log.Error("commits are missing in the middle of the log: turns that have a hole cannot go on; restore a backup, or abandon them",
			"stream", StreamLog, "missing", h.holes)
	}
	why, err := mendMirror(ctx, s.js)
	if why != "" {
		s.log.Warn("the mirror is made anew from the log", "stream", StreamRead, "why", why)
	}
	return err
}

// guard starts the barrier.
func (s *Server) guard() {
	if s.cfg.Sync != SyncBarrier {
		s.barrier = stated(s.cfg.Sync)
		return
	}
	s.group = newGroup(s.files.sync, s.lose)
	s.barrier = s.group
}

// lose says, once, that the store cannot be written any more.
func (s *Server) lose() { s.lost.Do(func() { close(s.failed) }) }

// barrierStreams are the streams that the barrier covers: all but the mirror,
// which can be made anew from the log.
func barrierStreams() []string {
	var out []string
	for _, name := range Streams() {
		if name != StreamRead {
			out = append(out, name)
		}
	}
	return out
}
