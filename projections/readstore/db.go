package readstore

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// schemaVersion is of the tables and of what is counted in them. It grows whenever
// the same log gives other rows.
const schemaVersion = 2

// Version is what a database must have been built by: the tables, and the folds that
// fill them. One of another version is built anew.
var Version = func() string {
	kinds := make([]string, len(endings))
	for i, k := range endings {
		kinds[i] = string(k)
	}
	return fmt.Sprintf("%d timeline:%d inbox:%d ends:%s", schemaVersion, projections.Timeline.Version, projections.Inbox.Version, strings.Join(kinds, ","))
}()

//go:embed schema.sql
var schema string

var (
	// ErrNone says that there is no store that could be read: none was made, it is
	// being built, or it is of another version.
	ErrNone = errors.New("there is no read store to read")
	// ErrQuery says that what is asked for is not a question.
	ErrQuery = errors.New("not a query")
	// ErrNoTrace says that the store has no such trace.
	ErrNoTrace = errors.New("no such trace")
	// ErrStalled says that something keeps the store from following the log: it tries
	// again by itself, and can be read as it is.
	ErrStalled = errors.New("the read store cannot go on now")

	errDamaged = errors.New("the database is damaged")
)

// progress is how far a database was filled.
type progress struct {
	whole  bool
	next   events.Position // where reading goes on
	folded events.Position // behind the last commit that was folded; zero: none was
	id     string          // that commit's
	first  uint64          // nothing before this sequence is kept
}

// Bounds of what a connection holds in memory, in KiB.
const (
	writerCache = 24 << 10
	readerCache = 4 << 10
)

// readers is how many queries of one database run at once.
const readers = 4

// connect opens a database file. A writer has one connection, readers have several.
func connect(path string, write bool) (*sql.DB, error) {
	q := url.Values{}
	pragma := func(p string) { q.Add("_pragma", p) }
	pragma("busy_timeout(10000)")
	if write {
		q.Set("_txlock", "immediate")
		pragma("journal_mode(WAL)")
		pragma("synchronous(NORMAL)")
		pragma(fmt.Sprintf("cache_size(-%d)", writerCache))
		pragma("journal_size_limit(67108864)")
		pragma("temp_store(MEMORY)")
	} else {
		pragma("query_only(1)")
		pragma(fmt.Sprintf("cache_size(-%d)", readerCache))
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}
	if !write {
		u.RawQuery += "&mode=rw" // which a reader of a write-ahead log needs; query_only keeps it from writing
	}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	conns := readers
	if write {
		conns = 1
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// touch makes the file of a database, which only this user may read: it holds what
// agents have said and seen.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// sizeOf is what a database takes on the disk, in bytes.
func sizeOf(path string) (n int64) {
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(path + suffix); err == nil {
			n += info.Size()
		}
	}
	return n
}

// create makes the tables of an empty database.
func create(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, schema+usageSchema())
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO state VALUES (1, ?, 0, 0, 0, 0, 0, '', 0)`, Version)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// querier is a database, or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// progressOf reads how far a database was filled. It returns ErrNone for one that is
// of another version, or of nobody.
func progressOf(ctx context.Context, q querier) (progress, error) {
	var p progress
	var version string
	err := q.QueryRowContext(ctx, `SELECT version FROM state`).Scan(&version)
	switch {
	case err != nil && (strings.Contains(err.Error(), "no such") || errors.Is(err, sql.ErrNoRows)):
		return p, ErrNone
	case err != nil:
		return p, err
	case version != Version:
		return p, fmt.Errorf("%w: it is of version %q, and this is %q", ErrNone, version, Version)
	}
	err = q.QueryRowContext(ctx, `SELECT whole, next_gen, next_seq, folded_gen, folded_seq, folded_id, first_seq FROM state`).
		Scan(&p.whole, &p.next.Generation, &p.next.Seq, &p.folded.Generation, &p.folded.Seq, &p.id, &p.first)
	return p, err
}

// save writes how far the database was filled, in the transaction of what it holds.
func (p progress) save(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `UPDATE state SET whole = ?, next_gen = ?, next_seq = ?, folded_gen = ?, folded_seq = ?, folded_id = ?, first_seq = ?`,
		p.whole, p.next.Generation, p.next.Seq, p.folded.Generation, p.folded.Seq, p.id, p.first)
	return err
}

// damaged says whether an error of SQL means that the file is not what it was.
func damaged(err error) bool {
	var e *sqlite.Error
	if errors.Is(err, errDamaged) {
		return true
	}
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_SCHEMA:
		return true
	}
	return false
}
