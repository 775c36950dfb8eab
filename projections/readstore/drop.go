package readstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// mostRewound is how many turns are folded again by themselves. Where the log has
// lost more, all of it is.
const mostRewound = 2000

// errTooFar says that so much is gone that the database should be built anew.
var errTooFar = errors.New("the log has lost more than is worth mending")

// rewind takes out of the tables what the log has lost: turns that reach beyond the
// fork are folded again from what there is now. It is one transaction.
func (w *writer) rewind(ctx context.Context, log Source) error {
	fork, err := forkOf(ctx, log, w.at.folded)
	if err != nil {
		return err
	}
	if fork == 0 {
		return errTooFar
	}
	w.forget()
	lost, err := w.turnsWhere(ctx, `to_seq >= ?`, mostRewound+1, fork)
	if err != nil {
		return err
	}
	if len(lost) > mostRewound {
		return errTooFar
	}
	kept := make([][]bus.Stored, len(lost))
	for i, t := range lost {
		if kept[i], err = turnUpTo(ctx, log, t.key, fork); err != nil {
			return err
		}
	}
	w.at.folded = events.Position{Generation: w.at.folded.Generation, Seq: fork}
	w.at.next, w.at.id = w.at.folded, ""
	err = w.transact(ctx, func(ctx context.Context, x *txn) error {
		for i, t := range lost {
			if err := x.refold(ctx, t, kept[i]); err != nil {
				return err
			}
		}
		if err := x.exec(ctx, `DELETE FROM damaged WHERE seq >= ?`, fork); err != nil {
			return err
		}
		if err := x.retrace(ctx, lost); err != nil {
			return err
		}
		return x.usage(ctx)
	})
	w.forget()
	return err
}

// turnsWhere loads turns, at most so many, by a condition on their rows.
func (w *writer) turnsWhere(ctx context.Context, where string, most int, args ...any) ([]*turn, error) {
	rows, err := w.db.QueryContext(ctx, `SELECT traces.trace, turns.turn FROM turns LEFT JOIN traces ON traces.id = turns.trace WHERE turns.`+where+` ORDER BY turns.to_seq LIMIT ?`,
		append(args, most)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var keys []events.TurnKey
	for rows.Next() {
		var in sql.NullString
		var k events.TurnKey
		if err := rows.Scan(&in, &k.Turn); err != nil {
			return nil, err
		}
		if !in.Valid {
			return nil, fmt.Errorf("%w: the trace of turn %s is missing", errDamaged, k.Turn)
		}
		k.Trace = in.String
		keys = append(keys, k)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	out := make([]*turn, len(keys))
	for i, k := range keys {
		in, err := w.traceOf(ctx, bus.Stored{Commit: events.Commit{Turn: k}})
		if err != nil {
			return nil, err
		}
		if out[i], err = w.loadTurn(ctx, in, k); err != nil {
			return nil, err
		}
		if out[i] == nil {
			return nil, fmt.Errorf("%w: turn %s is missing", errDamaged, k)
		}
	}
	return out, nil
}

// refold replaces a turn by what its commits give.
func (x *txn) refold(ctx context.Context, t *turn, commits []bus.Stored) error {
	if err := x.drop(ctx, t, true); err != nil || len(commits) == 0 {
		return err
	}
	again := newTurn(t.key)
	again.id, again.trace = int64(commits[0].Seq), t.trace
	var list []moment
	for _, s := range commits {
		again.apply(s, func(p events.Position, m projections.Moment) { list = append(list, moment{p, again, m}) })
	}
	if err := x.turn(ctx, again, x.w.traces[t.key.Trace]); err != nil {
		return err
	}
	return x.moments(ctx, list)
}

// drop removes a turn from every table, and takes back what it added to the usage.
// Its timeline may be left to who removes all before a sequence.
func (x *txn) drop(ctx context.Context, t *turn, timeline bool) error {
	x.use(t.flushedAs, t.flushed, -1)
	for i := range t.calls {
		c := &t.calls[i]
		x.use(t.useKeyOf(c), c.flushed, -1)
	}
	first, last := callID(t.id, 0), callID(t.id, maxCalls-1)
	steps := []struct {
		query string
		args  []any
	}{
		{`DELETE FROM texts WHERE rowid IN (SELECT id FROM docs WHERE call BETWEEN ? AND ?)`, []any{first, last}},
		{`DELETE FROM docs WHERE call BETWEEN ? AND ?`, []any{first, last}},
		{`DELETE FROM calls WHERE id BETWEEN ? AND ?`, []any{first, last}},
		{`DELETE FROM approvals WHERE turn = ?`, []any{t.id}},
		{`DELETE FROM turns WHERE id = ?`, []any{t.id}},
	}
	for _, s := range steps {
		if err := x.exec(ctx, s.query, s.args...); err != nil {
			return err
		}
	}
	if !timeline {
		return nil
	}
	return x.exec(ctx, `DELETE FROM moments WHERE trace = ? AND turn = ?`, t.trace, t.id)
}

// retrace counts the traces of turns that were changed or dropped anew, and removes
// those that have none left.
func (x *txn) retrace(ctx context.Context, turns []*turn) error {
	done := make(map[string]bool)
	for _, t := range turns {
		if done[t.key.Trace] {
			continue
		}
		done[t.key.Trace] = true
		in := x.w.traces[t.key.Trace]
		if err := x.recount(ctx, in); err != nil {
			return err
		}
		if in.events == 0 {
			if err := x.exec(ctx, `DELETE FROM traces WHERE id = ?`, in.id); err != nil {
				return err
			}
			continue
		}
		if err := x.trace(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// recount sums a trace's turns.
func (x *txn) recount(ctx context.Context, in *trace) error {
	rows, err := x.tx.QueryContext(ctx, `SELECT `+sumColumns+` FROM turns WHERE trace = ?`, in.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	in.sums = sums{}
	for rows.Next() {
		var one sums
		into := target{sums: &one}
		if err := rows.Scan(into.into()...); err != nil {
			return err
		}
		if err := into.done(); err != nil {
			return err
		}
		in.merge(one)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	return x.retool(ctx, in)
}

// retool finds a trace's tools anew, in the order in which they came.
func (x *txn) retool(ctx context.Context, in *trace) error {
	rows, err := x.tx.QueryContext(ctx, `SELECT tool FROM calls WHERE trace = ? GROUP BY tool ORDER BY min(id)`, in.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	in.tools, in.more = nil, false
	for rows.Next() {
		var tool int64
		if err := rows.Scan(&tool); err != nil {
			return err
		}
		in.uses(tool)
	}
	return rows.Err()
}

// Bounds of one step of prune.
const (
	pruneTurns   = 256
	pruneMoments = 10_000
)

// prune removes what the log has dropped: all before a sequence. It goes step by
// step, each a transaction, and more says that there is more to do.
func (w *writer) prune(ctx context.Context, first uint64) (more bool, err error) {
	if first <= w.at.first {
		return false, nil
	}
	w.forget()
	gone, err := w.turnsWhere(ctx, `to_seq < ?`, pruneTurns, first)
	if err != nil {
		return false, err
	}
	removed := int64(0)
	before := w.at.first
	if len(gone) < pruneTurns {
		w.at.first = first // unless there is more of the timeline
	}
	err = w.transact(ctx, func(ctx context.Context, x *txn) error {
		for _, t := range gone {
			if err := x.drop(ctx, t, false); err != nil {
				return err
			}
		}
		r, err := x.tx.ExecContext(ctx, `DELETE FROM moments WHERE id IN (SELECT id FROM moments WHERE id < ? LIMIT ?)`, momentID(first, 0), pruneMoments)
		if err != nil {
			return err
		}
		if removed, err = r.RowsAffected(); err != nil {
			return err
		}
		if removed == pruneMoments {
			w.at.first = before
		}
		if err := x.exec(ctx, `DELETE FROM damaged WHERE seq < ?`, first); err != nil {
			return err
		}
		if err := x.retrace(ctx, gone); err != nil {
			return err
		}
		return x.usage(ctx)
	})
	w.forget()
	return err == nil && w.at.first < first, err
}
