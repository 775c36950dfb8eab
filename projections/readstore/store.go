package readstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Config says what a store is kept of, and where. Dir and Log are required; zero
// elsewhere means the default beside the field.
type Config struct {
	Dir string // is made; one process at a time may fill it
	Log Source
	// Every is how long a log in which nothing happens is left alone; 0 means 200 ms.
	// While nothing comes it grows to five times that. Who awaits a position does
	// not wait for it.
	Every time.Duration
	// Rest is how long the store rests after work, as a multiple of how long that
	// took, so that it leaves the machine to the node; 0 means 3, which is a quarter of
	// one processor at most. Where nothing can be read yet it is a third of that.
	// Negative: it does not rest.
	Rest   float64
	Now    func() time.Time // nil means time.Now
	Logger *slog.Logger     // nil discards
	// Fault is called at places where a process may die or a disk may fail, and its
	// error is theirs. For tests; nil: nothing.
	Fault func(where string) error
}

// Store keeps one directory up to date with a log, and answers from it. Its methods
// may be called from many goroutines at once. Before the first database is whole
// those that ask return ErrNone.
type Store struct {
	cfg  Config
	dir  folder
	lock *os.File
	log  *slog.Logger

	stop context.CancelFunc
	wg   sync.WaitGroup
	kick chan struct{} // somebody waits

	// The goroutine's own, between Start and Stop.
	cur    *writer // is read; nil: there is none
	next   *writer // is being built; nil: there is none
	last   int     // number of the newest database
	dropTo uint64  // nothing before this sequence is in the log
	chores time.Time
	sure   bool // cur is known to be of this log

	mu      sync.Mutex
	open    *handle       // of cur; nil: nothing can be read
	bad     *handle       // that a reader found damaged
	moved   chan struct{} // closed when at moves
	at      progress      // of what is read
	level   time.Time     // everything that was in the log then is in it; without one: since when
	making  events.Position
	rebuild bool // is wanted, or goes on
	errs    int64
	lastErr string
	stopped bool
}

// handle is a database that is read. It is closed once nobody reads it.
type handle struct {
	*Reader
	refs sync.WaitGroup
}

// Open takes the directory for this process, and opens what it has. It starts
// nothing: see Start. It returns ErrInUse where another process fills the store.
func Open(ctx context.Context, c Config) (*Store, error) {
	c.Every = cmp.Or(c.Every, 200*time.Millisecond)
	c.Rest = cmp.Or(c.Rest, 3)
	s := &Store{cfg: c, dir: folder(c.Dir), log: c.Logger, kick: make(chan struct{}, 1), moved: make(chan struct{})}
	if c.Now == nil {
		s.cfg.Now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.level = s.cfg.Now()
	var err error
	if s.lock, err = s.dir.lock(); err != nil {
		return nil, err
	}
	if err := s.find(ctx); err != nil {
		return nil, errors.Join(err, s.closeAll(), s.lock.Close())
	}
	return s, nil
}

// find opens the database that is read, and one that was in the making when the
// last process ended. All others go.
func (s *Store) find(ctx context.Context) error {
	current, err := s.dir.current()
	if err != nil {
		return err
	}
	all, err := s.dir.databases()
	if err != nil {
		return err
	}
	for _, name := range all { // the newest first
		use := name == current || s.next == nil && number(name) > number(current)
		if use {
			if use, err = s.take(ctx, name, name == current); err != nil {
				return err
			}
		}
		if !use {
			if err := s.dir.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// take opens a database, and says whether it is of use.
func (s *Store) take(ctx context.Context, name string, current bool) (bool, error) {
	w, err := openWriter(ctx, s.dir, name, s.cfg.Fault)
	switch {
	case errors.Is(err, ErrNone) || err != nil && damaged(err):
		s.log.Warn("the read store is built anew", "file", s.dir.path(name), "why", err)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read store %s: %w", s.dir.path(name), err)
	case current && w.at.whole:
		s.cur = w
	default:
		s.next = w
	}
	s.last = max(s.last, number(name))
	return true, nil
}

// Start begins to follow the log, until ctx ends or Stop is called.
func (s *Store) Start(ctx context.Context) {
	ctx, s.stop = context.WithCancel(ctx)
	s.wg.Go(func() { s.run(ctx) })
}

// Stop ends what Start began, waits for those who read, and gives the directory back.
// A second call does nothing.
func (s *Store) Stop() error {
	if s.stop != nil {
		s.stop()
	}
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return nil
	}
	s.stopped = true
	old := s.open
	s.open = nil
	s.announce()
	s.mu.Unlock()
	s.retire(old, nil, "")
	s.wg.Wait()
	return errors.Join(s.closeAll(), s.lock.Close())
}

func (s *Store) closeAll() error {
	var errs []error
	for _, w := range []*writer{s.cur, s.next} {
		if w != nil {
			errs = append(errs, w.close())
		}
	}
	s.cur, s.next = nil, nil
	return errors.Join(errs...)
}

// announce wakes who awaits something. The lock is held.
func (s *Store) announce() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// retire closes a database once nobody reads it, and removes its file where a name is
// given.
func (s *Store) retire(h *handle, w *writer, name string) {
	s.wg.Go(func() {
		var errs []error
		if h != nil {
			h.refs.Wait()
			errs = append(errs, h.Close())
		}
		if w != nil {
			errs = append(errs, w.close())
		}
		if name != "" {
			errs = append(errs, s.dir.remove(name))
		}
		if err := errors.Join(errs...); err != nil {
			s.log.Warn("an old read store is not gone", "err", err)
		}
	})
}

// use lends the database that is read.
func (s *Store) use(do func(*Reader) error) error {
	s.mu.Lock()
	h := s.open
	if h == nil {
		err := s.none()
		s.mu.Unlock()
		return err
	}
	h.refs.Add(1)
	s.mu.Unlock()
	defer h.refs.Done()
	err := do(h.Reader)
	if err != nil && damaged(err) {
		s.mu.Lock()
		s.bad = h
		s.mu.Unlock()
		s.wake()
		return fmt.Errorf("%w: it was damaged: %w", ErrNone, err)
	}
	return err
}

// none is why nothing can be read. The lock is held.
func (s *Store) none() error {
	if s.stopped {
		return fmt.Errorf("%w: it is closed", ErrNone)
	}
	return fmt.Errorf("%w: it is being built, and has come to %s", ErrNone, s.making)
}

func (s *Store) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Await returns once everything before a position of the log can be read, or ctx's
// error, or ErrStalled where something keeps the store from going on. Who has read the log's head awaits that, and then finds what was written
// before.
func (s *Store) Await(ctx context.Context, head events.Position) error {
	for {
		s.mu.Lock()
		done, moved, stopped, why := s.open != nil && max(s.at.next.Seq, 1) >= head.Seq, s.moved, s.stopped, s.lastErr
		s.mu.Unlock()
		switch {
		case done:
			return nil
		case stopped:
			return fmt.Errorf("%w: it is closed", ErrNone)
		case why != "":
			return fmt.Errorf("%w: %s", ErrStalled, why)
		}
		s.wake()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Rebuild has the store built anew from the log, while the one there is goes on
// answering. It returns at once, and false if that is going on already.
func (s *Store) Rebuild() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rebuild || s.open == nil {
		return false
	}
	s.rebuild = true
	s.wake()
	return true
}

// Status is how a store stands.
type Status struct {
	State    string `json:"state"` // following; building: nothing can be read yet; rebuilding: a new one is in the making
	Dir      string `json:"dir"`
	File     string `json:"file,omitempty"` // that is read
	Bytes    int64  `json:"bytes,omitempty"`
	Version  string `json:"version"`
	Position string `json:"position,omitempty"` // where reading goes on
	Building string `json:"building,omitempty"` // how far the one in the making has come
	Head     string `json:"head,omitempty"`     // of the log
	Behind   uint64 `json:"behind"`             // commits that cannot be read yet
	// BehindMS says that everything older can be read, in milliseconds; 0 where nothing
	// is missing. While there is nothing to read it says since when.
	BehindMS int64 `json:"behind_ms"`
	// Unreadable is how many commits of the log could not be read, and are not in it.
	Unreadable int64  `json:"unreadable,omitempty"`
	Errors     int64  `json:"errors,omitempty"` // of the log or the database, since the start
	Error      string `json:"error,omitempty"`  // the last one, if that is what keeps it
}

// The states of a store.
const (
	StateFollowing  = "following"
	StateBuilding   = "building"
	StateRebuilding = "rebuilding"
)

// Status asks the log for its head, and tells how the store stands.
func (s *Store) Status(ctx context.Context) (Status, error) {
	head, err := s.cfg.Log.Head(ctx)
	if err != nil {
		return Status{}, err
	}
	unreadable := int64(0)
	err = s.use(func(r *Reader) (err error) {
		unreadable, err = r.unreadable(ctx)
		return err
	})
	if err != nil && !errors.Is(err, ErrNone) {
		return Status{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Status{Unreadable: unreadable, State: StateFollowing, Dir: string(s.dir), Version: Version, Head: head.String(), Errors: s.errs, Error: s.lastErr}
	at := s.at.next
	switch {
	case s.open == nil:
		out.State, out.Building, at = StateBuilding, s.making.String(), s.making
	case s.rebuild:
		out.State, out.Building = StateRebuilding, s.making.String()
	}
	if s.open != nil {
		out.File, out.Position, out.Bytes = s.open.path, at.String(), sizeOf(s.open.path)
	}
	if from := max(at.Seq, 1); head.Seq > from {
		out.Behind = head.Seq - from
		out.BehindMS = max(1, s.cfg.Now().Sub(s.level).Milliseconds())
	}
	return out, nil
}

// Source is what the log must be able to do: see Config.
var _ Source = bus.Bus(nil)
