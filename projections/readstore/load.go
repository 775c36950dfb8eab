package readstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// trace is what the store keeps of a trace.
type trace struct {
	id   int64 // sequence of its first commit
	name string
	sums
	tools []int64 // ids of words, in the order in which they came; at most mostTools
	more  bool    // there are more tools than that
	docs  int64   // how many texts were numbered

	dirty bool
}

// mostTools bounds the tools that are named of one trace.
const mostTools = 32

// Flags of traces and turns.
const (
	flagImported = 1 << iota
	flagNewer
	flagMore
)

func (m *sums) flags() int64 {
	var f int64
	if m.imported {
		f |= flagImported
	}
	if m.newer {
		f |= flagNewer
	}
	return f
}

// sumColumns are the columns of sums, in the order of values and targets.
const sumColumns = "turns, ended, calls, ends, events, flags, first_at, last_at, from_gen, from_seq, to_gen, to_seq, to_index"

// values are the columns of sums.
func (m *sums) values(flags int64) []any {
	return []any{
		m.turns, m.ended, m.calls, numbers(m.ends), m.events, m.flags() | flags, m.first, m.last,
		m.from.Generation, m.from.Seq, m.to.Generation, m.to.Seq, m.to.Index,
	}
}

// target reads sums from a row.
type target struct {
	sums  *sums
	ends  string
	flags int64
}

func (t *target) into() []any {
	m := t.sums
	return []any{
		&m.turns, &m.ended, &m.calls, &t.ends, &m.events, &t.flags, &m.first, &m.last,
		&m.from.Generation, &m.from.Seq, &m.to.Generation, &m.to.Seq, &m.to.Index,
	}
}

func (t *target) done() error {
	m := t.sums
	m.imported, m.newer = t.flags&flagImported != 0, t.flags&flagNewer != 0
	ends, err := parseNumbers(t.ends)
	if len(ends) > 0 {
		m.ends = ends
	}
	return err
}

// numbers are numbers as text: 1,0,3.
func numbers(list []int64) string {
	var b []byte
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

func parseNumbers(text string) ([]int64, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	out := make([]int64, len(parts))
	for i, p := range parts {
		n, err := strconv.ParseInt(p, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: numbers %q", errDamaged, text)
		}
		out[i] = n
	}
	return out, nil
}

// open is what a turn's folds must know of it while it is open, as it is kept.
type open struct {
	Clock *projections.Clock `json:"clock,omitempty"`
	Asker *projections.Asker `json:"asker,omitempty"`
}

// loadTrace reads a trace by its name; nil if it is in no table.
func (w *writer) loadTrace(ctx context.Context, name string) (*trace, error) {
	t := &trace{name: name}
	into := target{sums: &t.sums}
	var tools string
	row, err := w.row(ctx, `SELECT id, tools, docs, `+sumColumns+` FROM traces WHERE trace = ?`, name)
	if err != nil {
		return nil, err
	}
	err = row.Scan(append([]any{&t.id, &tools, &t.docs}, into.into()...)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	t.more = into.flags&flagMore != 0
	if t.tools, err = parseNumbers(tools); err != nil {
		return nil, err
	}
	return t, into.done()
}

// loadTurn reads a turn of a trace; nil if it is in no table.
func (w *writer) loadTurn(ctx context.Context, in *trace, key events.TurnKey) (*turn, error) {
	t := newTurn(key)
	t.trace = in.id
	into := target{sums: &t.sums}
	var who, end int64
	var kept sql.NullString
	row, err := w.row(ctx, `SELECT id, who, submitted, end, input, output, open, `+sumColumns+` FROM turns WHERE trace = ? AND turn = ?`, in.id, key.Turn)
	if err != nil {
		return nil, err
	}
	err = row.Scan(append([]any{&t.id, &who, &t.submitted, &end, &t.tokens[0], &t.tokens[1], &kept}, into.into()...)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := into.done(); err != nil {
		return nil, err
	}
	name, err := w.words.name(ctx, w.db, end)
	if err == nil {
		t.end = events.Kind(name)
		t.who, err = w.words.name(ctx, w.db, who)
	}
	if err == nil && kept.Valid {
		err = t.reopen(kept.String)
	}
	if err == nil {
		err = w.loadCalls(ctx, t)
	}
	if err == nil {
		err = w.loadAsked(ctx, t)
	}
	t.flushed, t.flushedAs = useOfTurn(t), t.useKey()
	return t, err
}

// reopen gives a turn back what its folds must know.
func (t *turn) reopen(kept string) error {
	var o open
	if err := json.Unmarshal([]byte(kept), &o); err != nil {
		return fmt.Errorf("%w: turn %s: %w", errDamaged, t.key, err)
	}
	if o.Clock != nil {
		t.moments.Open[t.key.String()] = o.Clock
	}
	if o.Asker != nil {
		t.waiting.Turns[t.key.String()] = *o.Asker
	}
	return nil
}

// kept is what reopen reads; nil if there is nothing.
func (t *turn) kept() (any, error) {
	var o open
	o.Clock = t.moments.Open[t.key.String()]
	if a, ok := t.waiting.Turns[t.key.String()]; ok {
		o.Asker = &a
	}
	if o == (open{}) {
		return nil, nil
	}
	text, err := json.Marshal(o)
	return string(text), err
}

func (w *writer) loadCalls(ctx context.Context, t *turn) error {
	rows, err := w.rows(ctx, `SELECT id, tool, status, effects, day, attempts, retries, asked, run, bytes, late, resolved, undone, doc, words
		FROM calls WHERE id BETWEEN ? AND ? ORDER BY id`, callID(t.id, 0), callID(t.id, maxCalls-1))
	if err != nil {
		return err
	}
	defer rows.Close()
	type names struct{ tool, status int64 }
	var ids []names
	for rows.Next() {
		var c call
		var id int64
		var n names
		err := rows.Scan(&id, &n.tool, &n.status, &c.effects, &c.day, &c.attempts, &c.retries, &c.asked, &c.run, &c.bytes,
			&c.late, &c.resolved, &c.undone, &c.doc, &c.words)
		if err != nil {
			return err
		}
		if id != callID(t.id, len(t.calls)) {
			return fmt.Errorf("%w: calls of turn %s are missing", errDamaged, t.key)
		}
		t.calls, ids = append(t.calls, c), append(ids, n)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for i, n := range ids {
		c := &t.calls[i]
		if c.tool, err = w.words.name(ctx, w.db, n.tool); err != nil {
			return err
		}
		status, err := w.words.name(ctx, w.db, n.status)
		if err != nil {
			return err
		}
		if status != StatusOpen {
			c.status = events.Kind(status)
		}
		c.flushed = useOf(c)
	}
	return nil
}

func (w *writer) loadAsked(ctx context.Context, t *turn) error {
	rows, err := w.rows(ctx, `SELECT call, pending FROM approvals WHERE turn = ?`, t.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var offset int
		var text string
		if err := rows.Scan(&offset, &text); err != nil {
			return err
		}
		var p projections.Pending
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return fmt.Errorf("%w: approvals of turn %s: %w", errDamaged, t.key, err)
		}
		t.waiting.Asked[p.Call.String()] = p
		t.asked[offset] = true
	}
	return rows.Err()
}

// callID is the number of a call's row.
func callID(turn int64, offset int) int64 { return turn<<16 | int64(offset) }

// momentID is the number of an event's row.
func momentID(seq uint64, index int) int64 { return int64(seq)<<16 | int64(index&0xffff) }
