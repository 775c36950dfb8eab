package readstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Reader answers from one database. Its methods may be called from many goroutines
// at once.
type Reader struct {
	path string
	db   *sql.DB

	mu    sync.Mutex
	words *words
}

func openReader(path string) (*Reader, error) {
	db, err := connect(path, false)
	if err != nil {
		return nil, err
	}
	return &Reader{path: path, db: db, words: newWords()}, nil
}

// OpenReadOnly opens the store of a directory, which another process may be filling.
// It returns ErrNone where there is none, or none of this version: then who asks
// reads the log. A store that is built anew meanwhile is read on as it was.
func OpenReadOnly(ctx context.Context, dir string) (*Reader, error) {
	f := folder(dir)
	name, err := f.current()
	switch {
	case err != nil:
		return nil, err
	case name == "":
		return nil, fmt.Errorf("%w in %s", ErrNone, dir)
	}
	if _, err := os.Stat(f.path(name)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w in %s", ErrNone, dir)
		}
		return nil, err
	}
	r, err := openReader(f.path(name))
	if err != nil {
		return nil, err
	}
	p, err := progressOf(ctx, r.db)
	switch {
	case err == nil && p.whole:
		return r, nil
	case err == nil, damaged(err):
		err = ErrNone
	}
	return nil, errors.Join(err, r.Close())
}

// Close gives the database back.
func (r *Reader) Close() error { return r.db.Close() }

// Behind is how many commits a log has that the database has not, if the log's head
// is at a position; 0: it is current.
func (r *Reader) Behind(ctx context.Context, head events.Position) (uint64, error) {
	p, err := progressOf(ctx, r.db)
	if err != nil {
		return 0, err
	}
	next := max(p.next.Seq, 1)
	return max(head.Seq, next) - next, nil
}

// pollEach is how often a database is looked at that another process fills.
const pollEach = 20 * time.Millisecond

// Await returns once everything before a position can be read, or ctx's error: some
// other process fills the database.
func (r *Reader) Await(ctx context.Context, head events.Position) error {
	tick := time.NewTicker(pollEach)
	defer tick.Stop()
	for {
		if behind, err := r.Behind(ctx, head); err != nil || behind == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Of says whether the database is of that log: its last commit is there, and what was
// there has not been lost since.
func (r *Reader) Of(ctx context.Context, log bus.Tail) (bool, error) {
	p, err := progressOf(ctx, r.db)
	if err != nil {
		return false, err
	}
	same, err := sameLog(ctx, log, p)
	if err != nil || !same || p.folded == (events.Position{}) {
		return same, err
	}
	return holds(ctx, log, p.folded)
}

// unreadable is how many commits were passed over.
func (r *Reader) unreadable(ctx context.Context) (n int64, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT count(*) FROM damaged`).Scan(&n)
	return n, err
}

// view does something in one snapshot of the database.
func (r *Reader) view(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	err = do(tx)
	return errors.Join(err, tx.Rollback())
}

// name is the name of an id.
func (r *Reader) name(ctx context.Context, q querier, id int64) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.words.name(ctx, q, id)
}

// find is the id of a name; ok is false where there is none.
func (r *Reader) find(ctx context.Context, q querier, name string) (int64, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.words.find(ctx, q, name)
}

// Look is how the store of a directory stands that nobody may be filling: what it has,
// without what the log has more. It returns ErrNone where there is none.
func Look(ctx context.Context, dir string) (Status, error) {
	r, err := OpenReadOnly(ctx, dir)
	if err != nil {
		return Status{}, err
	}
	out := Status{State: StateFollowing, Dir: dir, File: r.path, Version: Version, Bytes: sizeOf(r.path)}
	p, err := progressOf(ctx, r.db)
	out.Position = p.next.String()
	if err == nil {
		out.Unreadable, err = r.unreadable(ctx)
	}
	return out, errors.Join(err, r.Close())
}
