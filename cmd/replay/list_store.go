package main

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections/readstore"
)

// storeOff says that no read store is to be asked.
const storeOff = "off"

// storePatience is how long a store may take to see all that the log holds now.
const storePatience = 2 * time.Second

// fromStore asks the read store; done is false where there is none of this log, or
// none that is up to date: the log is read then, with the same answer.
func (l *lister) fromStore(ctx context.Context, r *reading) (list []readstore.Trace, more int, done bool, err error) {
	dir := l.storeDir(r)
	if dir == "" {
		return nil, 0, false, nil
	}
	store, err := readstore.OpenReadOnly(ctx, dir)
	if err != nil {
		return nil, 0, false, ctx.Err()
	}
	defer store.Close() // it was only read
	if !l.current(ctx, r, store) {
		return nil, 0, false, ctx.Err()
	}
	list, more, err = l.pages(ctx, store)
	if err != nil {
		return nil, 0, false, ctx.Err()
	}
	return list, more, true, nil
}

// storeDir is where the read store of the log would be, "" if nobody knows.
func (l *lister) storeDir(r *reading) string {
	switch {
	case r.session == nil, l.store == storeOff:
		return ""
	case l.store != "":
		return l.store
	case l.app.set.NATS != "":
		return "" // it is on the machine of some node
	}
	return filepath.Join(l.app.set.Data, readstore.DirName)
}

// current says whether the store is of this log, and has seen all of it. A node that
// runs gets a moment.
func (l *lister) current(ctx context.Context, r *reading, store *readstore.Reader) bool {
	if same, err := store.Of(ctx, r.session.Bus); err != nil || !same {
		return false
	}
	head, err := r.session.Bus.Head(ctx)
	if err != nil {
		return false
	}
	if behind, err := store.Behind(ctx, head); err != nil || behind == 0 || r.session.Found == nil {
		return err == nil && behind == 0
	}
	ctx, stop := context.WithTimeout(ctx, storePatience)
	defer stop()
	return store.Await(ctx, head) == nil
}

// pages are the newest traces that the query lets through, the newest last, and how
// many of them the limit leaves out.
func (l *lister) pages(ctx context.Context, store *readstore.Reader) (list []readstore.Trace, more int, err error) {
	q := l.query
	q.Limit = readstore.MaxLimit
	for {
		page, err := store.Traces(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		for _, t := range page.Traces {
			switch from, err := events.ParsePosition(t.From); {
			case err != nil:
				return nil, 0, err
			case l.before != (events.Position{}) && from.Compare(l.before) >= 0:
			case l.limit > 0 && len(list) == l.limit:
				more++
			default:
				list = append(list, t)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			slices.Reverse(list)
			return list, more, nil
		}
	}
}
