package readstore

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// About how many commits are folded in one go of the loop: few while others want the
// processors, so that no turn waits long for one.
const (
	stride     = 512
	longStride = 4096 // where nothing can be read yet, or nobody else is there
)

// choresEvery is how often it is looked whether the log has dropped something, and
// is still the same.
const choresEvery = time.Minute

// Pauses of the loop.
const (
	maxIdle  = 5                // times Config.Every
	maxRest  = time.Second      // however long the work took
	firstErr = time.Second      // after an error; it doubles
	lastErr  = 30 * time.Second // at most
)

// run follows the log until ctx ends.
func (s *Store) run(ctx context.Context) {
	idle, failing := s.cfg.Every, firstErr
	for ctx.Err() == nil {
		began := s.cfg.Now()
		more, err := s.step(ctx)
		pause := idle
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.fail(err)
			pause, failing = failing, min(2*failing, lastErr)
		case more:
			pause, idle = s.rest(s.cfg.Now().Sub(began)), s.cfg.Every
		default:
			idle = min(idle*2, maxIdle*s.cfg.Every)
		}
		if err == nil {
			s.fail(nil)
			failing = firstErr
		}
		if s.pause(ctx, pause, err == nil) {
			idle = s.cfg.Every
		}
	}
}

// rest is how long to rest after work: a third of it while nothing can be read yet.
func (s *Store) rest(worked time.Duration) time.Duration {
	if s.cur == nil {
		worked /= 3
	}
	return min(time.Duration(s.cfg.Rest*float64(worked)), maxRest)
}

// stride is how much is done in one go.
func (s *Store) stride() int {
	if s.cur == nil || s.cfg.Rest < 0 {
		return longStride
	}
	return stride
}

// pause waits, and says whether somebody woke it, if it may be woken.
func (s *Store) pause(ctx context.Context, d time.Duration, wakes bool) bool {
	kick := s.kick
	if !wakes {
		kick = nil
	}
	if d <= 0 {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-kick:
		return true
	case <-ctx.Done():
	}
	return false
}

// fail notes what keeps the store from following; nil: nothing does.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.lastErr = ""
		return
	}
	s.errs++
	if s.lastErr == "" {
		s.log.Warn("the read store cannot follow the log: trying again", "err", err)
	}
	s.lastErr = err.Error()
	s.announce()
}

// step goes on a little with the database that is read, and with the one in the
// making. more says that something was done, and that there is more to do.
func (s *Store) step(ctx context.Context) (more bool, err error) {
	switch {
	case s.cur != nil && !s.cur.there():
		s.lose("its file has gone")
	case s.cur != nil && s.isBad():
		s.lose("a reader found it damaged")
	}
	if s.next != nil && !s.next.there() {
		s.abandon()
	}
	if err := s.prepare(ctx); err != nil {
		return false, err
	}
	began := s.cfg.Now()
	if s.cur != nil {
		more, err = s.follow(ctx, began)
		if s.lost(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	if s.next == nil {
		return more, nil
	}
	level, err := s.advance(ctx, s.next)
	switch {
	case err != nil && spoilt(err):
		s.abandon()
		return true, nil
	case err != nil:
		return false, err
	case level:
		return more, s.swap(ctx, began)
	}
	s.built()
	return true, nil
}

// follow goes on with the database that is read, and removes a little of what the log
// has dropped.
func (s *Store) follow(ctx context.Context, began time.Time) (more bool, err error) {
	level, err := s.advance(ctx, s.cur)
	s.progress(level, began)
	if err != nil {
		return false, err
	}
	pruning, err := s.cur.prune(ctx, s.dropTo)
	return !level || pruning, err
}

// isBad says whether a reader of the database found it damaged.
func (s *Store) isBad() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open != nil && s.open == s.bad
}

// prepare does the chores, and makes a new database where one is wanted.
func (s *Store) prepare(ctx context.Context) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	wanted := s.rebuild || s.cur == nil
	s.mu.Unlock()
	if s.next != nil || !wanted {
		return nil
	}
	name, err := s.dir.fresh(s.last)
	if err != nil {
		return err
	}
	s.last = number(name)
	s.next, err = openWriter(ctx, s.dir, name, s.cfg.Fault)
	return err
}

// look sees, from time to time, that the databases are of this log, and what the log
// has dropped.
func (s *Store) look(ctx context.Context) error {
	if s.sure && s.cfg.Now().Sub(s.chores) < choresEvery {
		return nil
	}
	if s.next != nil {
		same, err := sameLog(ctx, s.cfg.Log, s.next.at)
		if err != nil {
			return err
		}
		if !same {
			s.abandon()
		}
	}
	if s.cur != nil {
		same, err := sameLog(ctx, s.cfg.Log, s.cur.at)
		if err != nil {
			return err
		}
		if !same {
			s.lose(errOther.Error())
		}
	}
	if s.cur != nil {
		if err := s.show(); err != nil {
			return err
		}
	}
	first, err := firstOf(ctx, s.cfg.Log)
	if err != nil {
		return err
	}
	s.dropTo, s.sure, s.chores = first, true, s.cfg.Now()
	return nil
}

// advance folds some more into a database, and mends it where the log has lost its
// tail.
func (s *Store) advance(ctx context.Context, w *writer) (level bool, err error) {
	if err := s.dir.room(); err != nil {
		return false, err
	}
	level, err = w.pass(ctx, s.cfg.Log, s.stride())
	if !errors.Is(err, bus.ErrRewound) {
		return level, err
	}
	s.log.Warn("the log has lost its tail: the read store takes out what is gone", "position", w.at.folded.String())
	return false, w.rewind(ctx, s.cfg.Log)
}

// spoilt says whether an error means that a database must be built anew.
func spoilt(err error) bool { return err != nil && (damaged(err) || errors.Is(err, errTooFar)) }

// lost gives the database that is read up, if an error says so.
func (s *Store) lost(err error) bool {
	if !spoilt(err) {
		return false
	}
	s.lose(err.Error())
	return true
}

// lose gives up the database that is read: another one is built.
func (s *Store) lose(why string) {
	s.log.Warn("the read store is built anew", "file", s.cur.path, "why", why)
	old := s.cur
	s.cur = nil
	s.mu.Lock()
	h := s.open
	s.open, s.rebuild, s.at, s.level = nil, false, progress{}, s.cfg.Now()
	s.making = events.Position{}
	s.announce()
	s.mu.Unlock()
	s.retire(h, old, old.name)
}

// abandon gives up the database in the making.
func (s *Store) abandon() {
	old := s.next
	s.next = nil
	s.retire(nil, old, old.name)
}

// show lets the database be read that is followed.
func (s *Store) show() error {
	s.mu.Lock()
	there := s.open != nil
	s.mu.Unlock()
	if there {
		return nil
	}
	r, err := openReader(s.cur.path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return r.Close()
	}
	s.open, s.at = &handle{Reader: r}, s.cur.at
	s.announce()
	return nil
}

// progress tells how far the database that is read has come. level says that it has
// everything that was in the log when a time was read.
func (s *Store) progress(level bool, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if level {
		s.level = began
	}
	if s.at != s.cur.at {
		s.at = s.cur.at
		s.announce()
	}
}

// built tells how far the one in the making has come.
func (s *Store) built() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making = s.next.at.next
}

// swap makes the database in the making the one that is read. It is whole: it has all
// that was in the log when a time was read.
func (s *Store) swap(ctx context.Context, began time.Time) error {
	w := s.next
	if !w.at.whole {
		w.at.whole = true
		if err := w.transact(ctx, func(context.Context, *txn) error { return nil }); err != nil {
			return err
		}
	}
	if err := w.hit(faultPoint); err != nil {
		return err
	}
	r, err := openReader(w.path)
	if err != nil {
		return err
	}
	if err := s.dir.point(w.name); err != nil {
		return errors.Join(err, r.Close())
	}
	old := s.cur
	s.cur, s.next = w, nil
	s.mu.Lock()
	h := s.open
	stopped := s.stopped
	if !stopped {
		s.open, s.at, s.level, s.rebuild, s.making = &handle{Reader: r}, w.at, began, false, events.Position{}
	}
	s.announce()
	s.mu.Unlock()
	if stopped {
		return errors.Join(r.Close(), old.closeIf())
	}
	if old != nil {
		if err := w.hit(faultSwap); err != nil {
			s.retire(h, old, "")
			return err
		}
		s.retire(h, old, old.name)
	}
	return nil
}

// closeIf closes a writer that may be nil.
func (w *writer) closeIf() error {
	if w == nil {
		return nil
	}
	return w.close()
}

// Fill brings the store up to the log's head in this goroutine, and returns; anew says
// that it is to be built anew. It is for a store that was not started.
func (s *Store) Fill(ctx context.Context, anew bool) error {
	s.mu.Lock()
	s.rebuild = anew
	s.mu.Unlock()
	for {
		more, err := s.step(ctx)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !more && s.next == nil && s.cur != nil {
			return nil
		}
	}
}
