package readstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// soon is how long a fact may take that must come.
const soon = 90 * time.Second

// start begins to keep a store of a log, until the test ends.
func start(t *testing.T, dir string, log Source, change ...func(*Config)) *Store {
	t.Helper()
	c := Config{Dir: dir, Log: log, Every: 5 * time.Millisecond, Rest: -1}
	for _, f := range change {
		f(&c)
	}
	s := must(Open(t.Context(), c))(t)
	s.Start(context.WithoutCancel(t.Context()))
	t.Cleanup(func() { check(t, s.Stop()) })
	return s
}

// level waits until a store has all of a log.
func level(t *testing.T, s *Store, log Source) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), soon)
	defer stop()
	check(t, s.Await(ctx, must(log.Head(ctx))(t)))
}

// until waits for a fact.
func until(t *testing.T, what string, fact func() bool) {
	t.Helper()
	tick, late := time.NewTicker(2*time.Millisecond), time.After(soon)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v: %s", soon, what)
		}
	}
}

// simple puts n traces of one call each into a log.
func simple(log *paper, n int) {
	for range n {
		i := len(log.entries)
		log.put(events.Commit{ID: fmt.Sprint("s", i), Turn: events.TurnKey{Trace: fmt.Sprint("trace-", i), Turn: "1"}, At: noon.Add(time.Duration(i) * time.Second), Records: []events.Record{
			{Call: -1, Seq: 1, Event: &events.TurnSubmitted{Principal: events.Principal{ID: "ann"}, Calls: []events.RawCall{{Tool: "Read", Args: events.Body{Text: fmt.Sprint("word", i)}}}}},
			{Call: 0, Seq: 1, Event: &events.Denied{Gate: "allow", Code: events.PermissionDenied, Reason: "no"}},
			{Call: -1, Seq: 2, Event: &events.TurnCompleted{}},
		}})
	}
}

func count(t *testing.T, s *Store) int {
	t.Helper()
	n := 0
	q := Query{Limit: MaxLimit}
	for {
		page := must(s.Traces(t.Context(), q))(t)
		n += len(page.Traces)
		if q.Cursor = page.Next; page.Next == "" {
			return n
		}
	}
}

// TestStoreFollows, and goes on where it was when it is opened again.
func TestStoreFollows(t *testing.T) {
	dir, log := t.TempDir(), newPaper()
	simple(log, 3)
	s := start(t, dir, log)
	level(t, s, log)
	simple(log, 4)
	level(t, s, log)
	if n := count(t, s); n != 7 {
		t.Errorf("%d traces", n)
	}
	check(t, s.Stop())
	if _, err := s.Traces(t.Context(), Query{}); !errors.Is(err, ErrNone) {
		t.Errorf("closed: %v", err)
	}
	simple(log, 1)
	s = must(Open(t.Context(), Config{Dir: dir, Log: log}))(t)
	s.Start(t.Context())
	level(t, s, log)
	if n := count(t, s); n != 8 {
		t.Errorf("%d traces after another start", n)
	}
	if st := must(s.Status(t.Context()))(t); !strings.HasSuffix(st.File, "store-1.db") {
		t.Errorf("it was built anew: %s", st.File)
	}
	check(t, s.Stop())
}

// TestOneProcessFillsAStore at a time.
func TestOneProcessFillsAStore(t *testing.T) {
	dir, log := t.TempDir(), newPaper()
	start(t, dir, log)
	if _, err := Open(t.Context(), Config{Dir: dir, Log: log}); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
}

// TestAnEmptyLogHasAStore that says that there is nothing.
func TestAnEmptyLogHasAStore(t *testing.T) {
	log := newPaper()
	s := start(t, t.TempDir(), log)
	level(t, s, log)
	if n := count(t, s); n != 0 {
		t.Errorf("%d traces", n)
	}
	st := must(s.Status(t.Context()))(t)
	if st.State != StateFollowing || st.Behind != 0 || st.BehindMS != 0 {
		t.Errorf("%+v", st)
	}
}

// TestWhatIsNotOursIsBuiltAnew: of another version, damaged, gone, of another log, or
// no database at all.
func TestWhatIsNotOursIsBuiltAnew(t *testing.T) {
	sql := func(query string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			db := must(connect(filepath.Join(dir, "store-1.db"), true))(t)
			must(db.Exec(query))(t)
			check(t, db.Close())
		}
	}
	write := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	for name, harm := range map[string]func(*testing.T, string){
		"another version": sql(`UPDATE state SET version = 'older'`),
		"no state":        sql(`DELETE FROM state`),
		"no table":        sql(`DROP TABLE state`),
		"another log":     sql(`UPDATE state SET folded_id = 'somebody else''s'`),
		"no database":     write("store-1.db", strings.Repeat("this is no database", 1000)),
		"empty":           write("store-1.db", ""),
		"cut off": func(t *testing.T, dir string) {
			check(t, os.Truncate(filepath.Join(dir, "store-1.db"), 3*4096+17))
		},
		"gone":           func(t *testing.T, dir string) { check(t, os.Remove(filepath.Join(dir, "store-1.db"))) },
		"nothing":        func(t *testing.T, dir string) { check(t, os.RemoveAll(dir)) },
		"points nowhere": write("current", "../../etc/passwd\n"),
	} {
		t.Run(name, func(t *testing.T) {
			dir, log := filepath.Join(t.TempDir(), "store"), newPaper()
			simple(log, 9)
			s := start(t, dir, log)
			level(t, s, log)
			check(t, s.Stop())
			harm(t, dir)
			simple(log, 1)
			s = must(Open(t.Context(), Config{Dir: dir, Log: log, Every: time.Millisecond, Rest: -1}))(t)
			s.Start(t.Context())
			level(t, s, log)
			until(t, "all traces are there", func() bool {
				page, err := s.Traces(t.Context(), Query{Limit: MaxLimit})
				return err == nil && len(page.Traces) == 10
			})
			s.mu.Lock()
			path := s.open.path
			s.mu.Unlock()
			check(t, s.Stop())
			same(t, name, dump(t, path), rebuilt(t, dir, log))
		})
	}
}

// TestAFileThatGoesWhileItIsUsed is made again.
func TestAFileThatGoesWhileItIsUsed(t *testing.T) {
	dir, log := t.TempDir(), newPaper()
	simple(log, 5)
	s := start(t, dir, log)
	level(t, s, log)
	check(t, os.Remove(filepath.Join(dir, "store-1.db")))
	until(t, "another file", func() bool {
		st, err := s.Status(t.Context())
		return err == nil && st.State == StateFollowing && strings.HasSuffix(st.File, "store-2.db")
	})
	level(t, s, log)
	if n := count(t, s); n != 5 {
		t.Errorf("%d traces", n)
	}
}

// TestAFileThatIsDamagedWhileItIsUsed is found out by who reads or writes it.
func TestAFileThatIsDamagedWhileItIsUsed(t *testing.T) {
	dir, log := t.TempDir(), newPaper()
	simple(log, 200)
	s := start(t, dir, log)
	level(t, s, log)
	check(t, s.Stop())
	path := filepath.Join(dir, "store-1.db")
	info := must(os.Stat(path))(t)
	f := must(os.OpenFile(path, os.O_WRONLY, 0))(t)
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(i*7 + 1)
	}
	for at := int64(4096 * 4); at < info.Size(); at += 4096 { // all but what tells how far it was filled
		must(f.WriteAt(noise, at))(t)
	}
	check(t, f.Close())
	simple(log, 1)
	s = must(Open(t.Context(), Config{Dir: dir, Log: log, Every: time.Millisecond, Rest: -1}))(t)
	s.Start(t.Context())
	until(t, "all traces are there", func() bool {
		page, err := s.Traces(t.Context(), Query{Limit: MaxLimit})
		return err == nil && len(page.Traces) == 201
	})
	check(t, s.Stop())
}

// TestRebuildWhileItIsRead: whoever asks gets whole answers, of the old one until the
// new one is there.
func TestRebuildWhileItIsRead(t *testing.T) {
	dir, log := t.TempDir(), newPaper()
	simple(log, 50)
	s := start(t, dir, log)
	level(t, s, log)
	var wg sync.WaitGroup
	var done atomic.Bool
	var asked atomic.Int64
	for range 3 {
		wg.Go(func() {
			for !done.Load() {
				page, err := s.Traces(t.Context(), Query{Limit: MaxLimit})
				if err != nil || len(page.Traces) < 50 {
					t.Errorf("%d traces, %v", len(page.Traces), err)
					return
				}
				tl, err := s.Timeline(t.Context(), page.Traces[0].Trace, TimelineQuery{})
				if err != nil || len(tl.Moments) != 3 {
					t.Errorf("%d moments, %v", len(tl.Moments), err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for round := 2; round < 4; round++ {
		if !s.Rebuild() {
			t.Error("a rebuild goes on already")
		}
		name := fmt.Sprintf("store-%d.db", round)
		until(t, "the new database is read", func() bool {
			st, err := s.Status(t.Context())
			return err == nil && st.State == StateFollowing && strings.HasSuffix(st.File, name)
		})
		simple(log, 5)
		level(t, s, log)
	}
	done.Store(true)
	wg.Wait()
	if asked.Load() == 0 {
		t.Error("nobody has asked")
	}
	check(t, s.Stop())
	if all := must(folder(dir).databases())(t); len(all) != 1 {
		t.Errorf("left over: %v", all)
	}
	same(t, "rebuilt", dump(t, filepath.Join(dir, "store-3.db")), rebuilt(t, dir, log))
}

// TestDyingInASwap: at any place of a rebuild the process may die, and the next one
// finds a store that is whole, and ends what was begun.
func TestDyingInASwap(t *testing.T) {
	for _, at := range []string{faultBefore, faultAfter, faultPoint, faultSwap} {
		t.Run(at, func(t *testing.T) {
			dir, log := t.TempDir(), newPaper()
			simple(log, 40)
			s := start(t, dir, log)
			level(t, s, log)
			check(t, s.Stop())
			died := make(chan struct{})
			var once sync.Once
			s = must(Open(t.Context(), Config{Dir: dir, Log: log, Every: time.Millisecond, Rest: -1, Fault: func(where string) error {
				if where == at {
					once.Do(func() { close(died) })
					return errDied
				}
				return nil
			}}))(t)
			s.Start(t.Context())
			until(t, "it can be read", func() bool { _, err := s.Traces(t.Context(), Query{}); return err == nil })
			s.Rebuild()
			<-died
			check(t, s.Stop())
			s = start(t, dir, log)
			level(t, s, log)
			if n := count(t, s); n != 40 {
				t.Errorf("%d traces", n)
			}
			until(t, "one database is left", func() bool {
				all, err := folder(dir).databases()
				st, serr := s.Status(t.Context())
				return err == nil && serr == nil && len(all) == 1 && st.State == StateFollowing
			})
		})
	}
}

// TestAReaderOfAnotherProcess reads what a store has, and knows whether that is all.
func TestAReaderOfAnotherProcess(t *testing.T) {
	dir, log := t.TempDir(), newPaper()
	if _, err := OpenReadOnly(t.Context(), dir); !errors.Is(err, ErrNone) {
		t.Errorf("no store: %v", err)
	}
	simple(log, 5)
	s := start(t, dir, log)
	level(t, s, log)
	r := must(OpenReadOnly(t.Context(), dir))(t)
	head := must(log.Head(t.Context()))(t)
	if behind := must(r.Behind(t.Context(), head))(t); behind != 0 {
		t.Errorf("%d behind", behind)
	}
	if !must(r.Of(t.Context(), log))(t) {
		t.Error("it is not of its log")
	}
	if must(r.Of(t.Context(), newPaper()))(t) {
		t.Error("it is of an empty log")
	}
	simple(log, 2)
	ctx, stop := context.WithTimeout(t.Context(), soon)
	defer stop()
	check(t, r.Await(ctx, must(log.Head(ctx))(t)))
	s.Rebuild()
	until(t, "a new database", func() bool {
		st, err := s.Status(t.Context())
		return err == nil && strings.HasSuffix(st.File, "store-2.db")
	})
	if page := must(r.Traces(t.Context(), Query{}))(t); len(page.Traces) != 7 {
		t.Errorf("%d traces of the old one", len(page.Traces))
	}
	check(t, r.Close())
	check(t, s.Stop())
	r = must(OpenReadOnly(t.Context(), dir))(t) // nobody fills it now
	if page := must(r.Traces(t.Context(), Query{}))(t); len(page.Traces) != 7 {
		t.Errorf("%d traces of a store that nobody fills", len(page.Traces))
	}
	check(t, r.Close())
}

// TestALogThatCannotBeReached is waited for, and what was read stays.
func TestALogThatCannotBeReached(t *testing.T) {
	log := &moody{paper: newPaper()}
	simple(log.paper, 5)
	s := start(t, t.TempDir(), log)
	level(t, s, log)
	log.down.Store(true)
	until(t, "it says so", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.lastErr != ""
	})
	if n := count(t, s); n != 5 {
		t.Errorf("%d traces", n)
	}
	if err := s.Await(t.Context(), events.Position{Generation: 1, Seq: 99}); !errors.Is(err, ErrStalled) {
		t.Errorf("who waits hears %v", err)
	}
	log.down.Store(false)
	simple(log.paper, 1)
	until(t, "it goes on", func() bool { page, err := s.Traces(t.Context(), Query{}); return err == nil && len(page.Traces) == 6 })
}

// moody is a log that may be away.
type moody struct {
	*paper
	down atomic.Bool
}

func (m *moody) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	if m.down.Load() {
		return bus.ErrUnavailable
	}
	return m.paper.Read(ctx, from, f, follow, yield)
}
