package readstore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// writer fills one database. It belongs to one goroutine at a time.
type writer struct {
	name  string
	path  string
	file  os.FileInfo // as it was opened
	db    *sql.DB
	fault func(where string) error // for tests; nil: none

	at     progress // what has been folded, written or not
	words  *words
	turns  map[events.TurnKey]*turn
	traces map[string]*trace
	stmts  map[string]*sql.Stmt

	// What is in no table yet.
	batch   []moment
	touched []*turn
	broken  []damage
	again   uint64 // what was noted from this sequence on does not count any more; 0: all does
	commits int
}

// moment is one row of a timeline.
type moment struct {
	pos  events.Position
	turn *turn
	projections.Moment
}

// damage is a commit that cannot be read.
type damage struct {
	seq uint64
	why string
}

// Bounds of a batch, which is one transaction, and of what is remembered of turns
// and traces behind it.
const (
	batchMoments = 8192
	batchCommits = 4096
	mostCached   = 8192
)

// openWriter opens a database, or makes it where there is none. It returns ErrNone
// for one that is of another version.
func openWriter(ctx context.Context, f folder, name string, fault func(string) error) (*writer, error) {
	path := f.path(name)
	if err := touch(path); err != nil {
		return nil, err
	}
	db, err := connect(path, true)
	if err != nil {
		return nil, err
	}
	w := &writer{name: name, path: path, db: db, fault: fault}
	w.forget()
	err = w.begin(ctx)
	if err == nil {
		w.file, err = os.Stat(path)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// begin reads how far the database was filled, and makes its tables if it is empty.
func (w *writer) begin(ctx context.Context) error {
	var tables int
	if err := w.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		if err := create(ctx, w.db); err != nil {
			return err
		}
	}
	var err error
	if w.at, err = progressOf(ctx, w.db); err != nil {
		return err
	}
	for _, query := range []string{putTrace, putTurn, putCall, putMoment, manyMoments, putDoc, putText, putTextOn, putUsage} {
		if _, err := w.prepared(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

// forget drops all that is in memory: what is in tables stays.
func (w *writer) forget() {
	w.words, w.turns, w.traces = newWords(), make(map[events.TurnKey]*turn), make(map[string]*trace)
	w.batch, w.touched, w.broken, w.again, w.commits = nil, nil, nil, 0, 0
}

// reload goes back to what is in the tables, after a transaction that failed.
func (w *writer) reload(ctx context.Context) error {
	w.forget()
	var err error
	w.at, err = progressOf(ctx, w.db)
	return err
}

func (w *writer) close() error {
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}

// there says whether the file is still the one that was opened.
func (w *writer) there() bool {
	now, err := os.Stat(w.path)
	return err == nil && os.SameFile(now, w.file)
}

// prepared is a statement that is kept.
func (w *writer) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := w.stmts[query]; s != nil {
		return s, nil
	}
	s, err := w.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if w.stmts == nil {
		w.stmts = make(map[string]*sql.Stmt)
	}
	w.stmts[query] = s
	return s, nil
}

func (w *writer) row(ctx context.Context, query string, args ...any) (*sql.Row, error) {
	s, err := w.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryRowContext(ctx, args...), nil
}

func (w *writer) rows(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := w.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// add folds one more commit of the log. What follows from it is written by the next
// flush.
func (w *writer) add(ctx context.Context, s bus.Stored) error {
	if err := w.fold(ctx, s); err != nil {
		return err
	}
	w.at.folded = events.Position{Generation: s.Generation, Seq: s.Seq + 1}
	w.at.next, w.at.id = w.at.folded, s.Commit.ID
	if len(w.batch) >= batchMoments || w.commits >= batchCommits {
		return w.flush(ctx)
	}
	return nil
}

func (w *writer) fold(ctx context.Context, s bus.Stored) error {
	in, err := w.traceOf(ctx, s)
	if err != nil {
		return err
	}
	t, err := w.turnOf(ctx, in, s)
	if err != nil {
		return err
	}
	in.add(s)
	in.dirty = true
	if !t.dirty {
		w.touched = append(w.touched, t)
	}
	t.apply(s, func(p events.Position, m projections.Moment) { w.batch = append(w.batch, moment{p, t, m}) })
	w.commits++
	return nil
}

// traceOf is the trace of a commit, which may be its first.
func (w *writer) traceOf(ctx context.Context, s bus.Stored) (*trace, error) {
	name := s.Commit.Turn.Trace
	if t := w.traces[name]; t != nil {
		return t, nil
	}
	t, err := w.loadTrace(ctx, name)
	if err != nil {
		return nil, err
	}
	if t == nil {
		t = &trace{id: int64(s.Seq), name: name}
	}
	w.traces[name] = t
	return t, nil
}

// turnOf is the turn of a commit, which may be its first.
func (w *writer) turnOf(ctx context.Context, in *trace, s bus.Stored) (*turn, error) {
	key := s.Commit.Turn
	if t := w.turns[key]; t != nil {
		return t, nil
	}
	t, err := w.loadTurn(ctx, in, key)
	if err != nil {
		return nil, err
	}
	if t == nil {
		t = newTurn(key)
		t.id, t.trace = int64(s.Seq), in.id
	}
	w.turns[key] = t
	return t, nil
}

// note remembers a commit that cannot be read. Reading goes on at next, behind it.
func (w *writer) note(next events.Position, bad *bus.Unreadable) {
	w.broken = append(w.broken, damage{bad.Seq, bad.Err.Error()})
	w.at.next = next
}

// back goes on behind the last commit that was folded: what was noted there is looked
// at again.
func (w *writer) back() {
	w.at.next = w.at.folded
	w.again = max(w.at.folded.Seq, 1)
	w.broken = slices.DeleteFunc(w.broken, func(d damage) bool { return d.seq >= w.again })
}

// pending says whether there is something to write.
func (w *writer) pending() bool { return w.commits > 0 || len(w.broken) > 0 || w.again > 0 }

// trim forgets turns that are not likely to be needed again. Nothing is dirty.
func (w *writer) trim() {
	for key, t := range w.turns {
		if t.end != "" || len(w.turns) > mostCached {
			delete(w.turns, key)
		}
	}
	if len(w.traces) > mostCached {
		clear(w.traces)
	}
}
