package jetlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
)

// Server is a NATS server inside this process, its barrier and the generations
// of its log. Its methods may be used from many goroutines at once.
type Server struct {
	cfg     ServerConfig
	log     *slog.Logger
	ctx     context.Context // the server's own lifetime; ends with Close
	stop    context.CancelFunc
	lock    *os.File
	nats    *server.Server
	admin   *nats.Conn
	js      jetstream.JetStream
	marker  *marker
	gens    spans
	files   *files // what the barrier syncs
	group   *group // nil unless Sync is barrier
	barrier bus.Barrier
	failed  chan struct{} // see lose
	lost    sync.Once
	url     string

	mu      sync.Mutex
	running Running
	closing bool // no users are set any more
	once    sync.Once
	closed  error
}

// StartServer starts a server, or says what is in the way and what to do about
// it. ctx bounds the start only. When it returns:
//
//   - the directory belongs to this process, and Find finds it;
//   - what was in the log is on the disk, and if the server was not closed the
//     last time, a new generation has begun, durably;
//   - the barrier has been shown to sync what it must, or Mode says always.
func StartServer(ctx context.Context, c ServerConfig) (*Server, error) {
	c, err := c.check()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: c, log: c.logger(), failed: make(chan struct{}), running: Running{PID: os.Getpid(), Token: c.Token}}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.start(ctx); err != nil {
		s.halt()
		return nil, errors.Join(fmt.Errorf("start the NATS server: %w", err), s.release())
	}
	return s, nil
}

// OpenEmbedded starts a server and opens a bus on it. Of c, Connect, Replicas,
// Barrier, Generations, Requeue and SubjectInterest are the server's to say. Close the
// bus BEFORE the server.
func OpenEmbedded(ctx context.Context, sc ServerConfig, c Config) (*Bus, *Server, error) {
	if c.Memory {
		return nil, nil, errors.New("an embedded server keeps the log in files: do not set Memory")
	}
	s, err := StartServer(ctx, sc)
	if err != nil {
		return nil, nil, err
	}
	c.Connect, c.Replicas, c.Barrier, c.Generations = s.Connect, 1, s.Barrier(), s.Generations()
	c.SubjectInterest, c.Requeue, c.own = s.nats.GlobalAccount().SubscriptionInterest, true, true
	if c.Log == nil {
		c.Log = sc.Log
	}
	b, err := Open(ctx, c)
	if err == nil {
		if err = s.Barrier().Wait(ctx); err == nil { // the streams that were made
			return b, s, nil
		}
		err = errors.Join(err, b.Close())
	}
	return nil, nil, errors.Join(err, s.Close())
}

// Barrier says what is durable.
func (s *Server) Barrier() bus.Barrier { return s.barrier }

// Generations say where each generation of the log begins, oldest first.
func (s *Server) Generations() []Span { return slices.Clone(s.gens) }

// Failed is closed when a sync fails, or when the server says that it cannot
// write any more, as on a full disk: nothing can be promised then, and what waits
// for an answer may wait for ever. The node must stop.
func (s *Server) Failed() <-chan struct{} {
	return s.failed
}

// URL is where NATS clients can connect; "" if Port was 0.
func (s *Server) URL() string { return s.url }

// Connect opens a connection inside the process, for Config.Connect.
func (s *Server) Connect(name string) (*nats.Conn, error) {
	o := append(Options(name, s.log), nats.InProcessServer(s.nats), nats.Token(s.cfg.Token))
	nc, err := nats.Connect("", o...)
	return nc, unavailable(err)
}

// Announce changes what Find tells of this process, for example its HTTP
// address. PID, URL and Token stay the server's.
func (s *Server) Announce(edit func(*Running)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.running
	next.More = maps.Clone(next.More)
	edit(&next)
	next.PID, next.URL, next.Token, next.Pin = s.running.PID, s.running.URL, s.running.Token, s.running.Pin
	if err := tell(s.cfg.Dir, next); err != nil {
		return err
	}
	s.running = next
	return nil
}

// Close stops the server, makes everything durable and says so in the
// directory, and gives the directory back. After a failed sync nothing is said.
// Nothing runs afterwards. It returns the same error each time.
func (s *Server) Close() error {
	s.once.Do(func() { s.closed = s.close() })
	return s.closed
}

func (s *Server) close() error {
	failed := false
	select {
	case <-s.Failed():
		failed = true
	default:
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	h, err := readHistory(s.ctx, s.js, s.marker)
	s.calm()
	s.halt()
	if err == nil && !failed {
		err = s.seal(h.last)
	}
	return errors.Join(err, s.release())
}

// calmLimit is how long Close waits for what would outlive it, calmPause how
// long between two looks.
const (
	calmLimit = 2 * time.Second
	calmPause = 5 * time.Millisecond
)

// calm waits until the streams that copy from others have found them: a server
// that is shut down while one asks leaves the asking goroutine behind for half
// a minute.
func (s *Server) calm() {
	ctx, cancel := context.WithTimeout(s.ctx, calmLimit)
	defer cancel()
	tick := time.NewTicker(calmPause)
	defer tick.Stop()
	for {
		if asking := s.asking(ctx); !asking {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// asking says whether a stream has not yet heard from the one it copies.
func (s *Server) asking(ctx context.Context) bool {
	for _, name := range []string{StreamRead, StreamTurns} {
		stream, err := s.js.Stream(ctx, name)
		if err != nil {
			continue // there is none, or the server is past being asked
		}
		info := stream.CachedInfo()
		for _, from := range append(slices.Clone(info.Sources), info.Mirror) {
			if from != nil && from.Active < 0 {
				return true
			}
		}
	}
	return false
}

// seal makes everything durable, the mirror included, and says so.
func (s *Server) seal(last uint64) error {
	all := newFiles(s.cfg.Dir, Streams())
	defer all.close()
	if err := all.sync(); err != nil {
		return err
	}
	s.marker.Clean, s.marker.Last = true, last
	return s.marker.write(s.cfg.Dir)
}

// halt stops what runs, as far as it was started.
func (s *Server) halt() {
	if s.group != nil {
		s.group.close()
		s.group = nil
	}
	if s.files != nil {
		s.files.close()
		s.files = nil
	}
	if s.admin != nil {
		s.admin.Close()
		s.admin = nil
	}
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}
}

// release gives the directory back.
func (s *Server) release() error {
	s.stop()
	if s.lock == nil {
		return nil
	}
	return unlock(s.cfg.Dir, s.lock)
}
