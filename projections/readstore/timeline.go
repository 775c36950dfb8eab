package readstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// TimelineQuery says which part of a trace's timeline is asked for. Its zero value is
// the beginning.
type TimelineQuery struct {
	Cursor string // TimelinePage.Next of the page before, or the position of an event: what is behind it
	Limit  int    // events; 0 means DefaultLimit
}

// TimelinePage is a part of a trace's timeline, in the log's order.
type TimelinePage struct {
	Trace   Trace                `json:"summary"`
	Moments []projections.Moment `json:"moments"`
	Next    string               `json:"next,omitempty"` // cursor of the next page; "": there is none yet
}

// Check returns nil for a query that can be asked, or an ErrQuery.
func (q TimelineQuery) Check() error {
	if q.Limit < 0 || q.Limit > MaxLimit {
		return fmt.Errorf("%w: limit %d: want 1 to %d", ErrQuery, q.Limit, MaxLimit)
	}
	_, err := q.after()
	return err
}

func (q TimelineQuery) after() (int64, error) {
	if q.Cursor == "" {
		return 0, nil
	}
	p, err := events.ParsePosition(q.Cursor)
	if err != nil || p.Index > 0xffff || p.Seq > maxSeq {
		return 0, fmt.Errorf("%w: cursor %.80q: take it from the page before, or give the position of an event", ErrQuery, q.Cursor)
	}
	return momentID(p.Seq, p.Index), nil
}

// Timeline is a page of a trace's timeline. It returns ErrNoTrace where there is no
// such trace, and ErrQuery.
func (r *Reader) Timeline(ctx context.Context, name string, q TimelineQuery) (TimelinePage, error) {
	out := TimelinePage{Moments: []projections.Moment{}}
	if err := q.Check(); err != nil {
		return out, err
	}
	err := r.view(ctx, func(tx *sql.Tx) error {
		t, err := r.trace(ctx, tx, `trace = ?`, name)
		if err != nil {
			return err
		}
		if out.Trace, err = r.line(ctx, tx, t); err != nil {
			return err
		}
		return r.moments(ctx, tx, t, q, &out)
	})
	return out, err
}

func (r *Reader) moments(ctx context.Context, tx *sql.Tx, t *trace, q TimelineQuery, out *TimelinePage) error {
	after, err := q.after()
	if err != nil {
		return err
	}
	limit := q.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	rows, err := tx.QueryContext(ctx, `SELECT m.id, m.gen, m.call, m.seq, m.at, m.attempt, m.after, m.detail, turns.turn, k.word, coalesce(tools.word, '')
		FROM moments AS m INDEXED BY moments_trace
		LEFT JOIN turns ON turns.id = m.turn LEFT JOIN words AS k ON k.id = m.kind LEFT JOIN words AS tools ON tools.id = m.tool
		WHERE m.trace = ? AND m.id > ? ORDER BY m.id LIMIT ?`, t.id, after, limit+1)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if len(out.Moments) == limit {
			out.Next = out.Moments[limit-1].Pos
			return nil
		}
		m, err := momentOf(rows, t.name)
		if err != nil {
			return err
		}
		out.Moments = append(out.Moments, m)
	}
	return rows.Err()
}

func momentOf(rows *sql.Rows, in string) (projections.Moment, error) {
	var m projections.Moment
	var id, at int64
	var gen uint32
	var turn, kind sql.NullString
	if err := rows.Scan(&id, &gen, &m.Call, &m.Seq, &at, &m.Attempt, &m.AfterUS, &m.Detail, &turn, &kind, &m.Tool); err != nil {
		return m, err
	}
	if !turn.Valid || !kind.Valid {
		return m, fmt.Errorf("%w: the turn or the kind of event %s is missing", errDamaged, positionOf(gen, id))
	}
	m.Pos, m.Turn, m.Kind = positionOf(gen, id).String(), events.TurnKey{Trace: in, Turn: turn.String}, events.Kind(kind.String)
	m.At = time.UnixMicro(at).UTC()
	return m, nil
}

// Trace is one trace's line. It returns ErrNoTrace where there is no such trace.
func (r *Reader) Trace(ctx context.Context, name string) (out Trace, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		t, err := r.trace(ctx, tx, `trace = ?`, name)
		if err == nil {
			out, err = r.line(ctx, tx, t)
		}
		return err
	})
	return out, err
}

// Approvals is every approval that waits for a person, soonest expiry first.
func (r *Reader) Approvals(ctx context.Context) ([]projections.Pending, error) {
	w := projections.Waiting{Asked: map[string]projections.Pending{}}
	rows, err := r.db.QueryContext(ctx, `SELECT pending FROM approvals`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		var p projections.Pending
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return nil, fmt.Errorf("%w: an approval: %w", errDamaged, err)
		}
		w.Asked[p.Call.String()] = p
	}
	return w.List(), rows.Err()
}

// Dimensions of usage.
const (
	ByDay       = "day"
	ByTool      = "tool"
	ByPrincipal = "principal"
)

// UsageQuery says which usage is asked for, and by what it is told apart.
type UsageQuery struct {
	Since time.Time // the day of it is the first; zero: no bound
	Until time.Time // the day of it is the last; zero: no bound
	By    []string  // ByDay, ByTool, ByPrincipal; empty: one row of all
	Tools []string  // only of calls of these; empty: of all
	// Principals are those whose usage is asked for; empty: everybody's.
	Principals []string
	Limit      int // rows; 0 means MaxLimit
}

// Use is a row of usage. Days are those of the submissions, UTC; what came later
// counts for the same day.
type Use struct {
	Day       string `json:"day,omitempty"` // 2026-11-30
	Tool      string `json:"tool,omitempty"`
	Principal string `json:"principal,omitempty"`

	// Of turns; 0 where usage is told apart by tool, but in the row without one.
	Turns        int64 `json:"turns"`
	Completed    int64 `json:"turns_completed"`
	Abandoned    int64 `json:"turns_abandoned"`
	InputTokens  int64 `json:"input_tokens"` // as callers noted
	OutputTokens int64 `json:"output_tokens"`

	// Of calls.
	Calls    int64            `json:"calls"`
	Attempts int64            `json:"attempts"`
	Retries  int64            `json:"retries"`
	Asked    int64            `json:"asked"` // approvals asked for
	RunUS    int64            `json:"run_us"`
	Bytes    int64            `json:"output_bytes"`
	Late     int64            `json:"late"`     // answers after their attempt had ended
	Resolved int64            `json:"resolved"` // ends that were settled later
	Undone   int64            `json:"undone"`
	Ends     map[string]int64 `json:"ends"`    // by kind
	Effects  map[string]int64 `json:"effects"` // of the ends
}

// Check returns nil for a query that can be asked, or an ErrQuery.
func (q UsageQuery) Check() error {
	for _, by := range q.By {
		if by != ByDay && by != ByTool && by != ByPrincipal {
			return fmt.Errorf("%w: by %.80q: want %s, %s, %s", ErrQuery, by, ByDay, ByTool, ByPrincipal)
		}
	}
	return Query{Tools: q.Tools, Principals: q.Principals, Limit: q.Limit}.Check()
}

// Usage is what was used. Rows come in the order of their days, tools and principals;
// more says that there are others. It returns ErrQuery.
func (r *Reader) Usage(ctx context.Context, q UsageQuery) (out []Use, more bool, err error) {
	if err := q.Check(); err != nil {
		return nil, false, err
	}
	out = []Use{}
	err = r.view(ctx, func(tx *sql.Tx) error {
		query, args, err := r.usageSQL(ctx, tx, q)
		if err != nil || query == "" {
			return err
		}
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			u, err := useRow(rows, q)
			if err != nil {
				return err
			}
			out = append(out, u)
		}
		return rows.Err()
	})
	if limit := q.limit(); len(out) > limit {
		out, more = out[:limit], true
	}
	return out, more, err
}

func (q UsageQuery) limit() int {
	if q.Limit == 0 {
		return MaxLimit
	}
	return q.Limit
}

// usageSQL is the question in SQL; "" where nothing can pass.
func (r *Reader) usageSQL(ctx context.Context, tx *sql.Tx, q UsageQuery) (string, []any, error) {
	var args []any
	where := "TRUE"
	if !q.Since.IsZero() {
		where, args = where+" AND day >= ?", append(args, dayOf(q.Since.UnixMicro()))
	}
	if !q.Until.IsZero() {
		where, args = where+" AND day <= ?", append(args, dayOf(q.Until.UnixMicro()))
	}
	for _, f := range []struct {
		column string
		names  []string
	}{{"u.tool", q.Tools}, {"who", q.Principals}} {
		if len(f.names) == 0 {
			continue
		}
		ids, err := r.ids(ctx, tx, f.names)
		if err != nil || len(ids) == 0 {
			return "", nil, err
		}
		where, args = where+" AND "+f.column+" IN ("+marks(len(ids))+")", append(args, anys(ids)...)
	}
	dims := map[string]string{ByDay: "day", ByTool: "coalesce(t.word, '')", ByPrincipal: "coalesce(p.word, '')"}
	columns, group, order := make([]string, 0, 3), "", ""
	for i, by := range []string{ByDay, ByTool, ByPrincipal} {
		if !contains(q.By, by) {
			columns = append(columns, []string{"0", "''", "''"}[i])
			continue
		}
		columns = append(columns, dims[by])
		group += ", " + dims[by]
	}
	sums, some := make([]string, len(usageNames)), make([]string, len(usageNames))
	for i, name := range usageNames {
		sums[i], some[i] = "coalesce(sum("+name+"), 0)", "sum("+name+") <> 0"
	}
	if group != "" {
		group = strings.TrimPrefix(group, ", ")
		group, order = " GROUP BY "+group+" HAVING "+strings.Join(some, " OR "), " ORDER BY "+group
	}
	return `SELECT ` + strings.Join(append(columns, sums...), ", ") + ` FROM usage AS u LEFT JOIN words AS t ON t.id = u.tool LEFT JOIN words AS p ON p.id = u.who WHERE ` +
		where + group + order + ` LIMIT ?`, append(args, q.limit()+1), nil
}

func contains(list []string, v string) bool {
	for _, one := range list {
		if one == v {
			return true
		}
	}
	return false
}

func useRow(rows *sql.Rows, q UsageQuery) (Use, error) {
	var u Use
	var day int64
	var n usage
	into := []any{&day, &u.Tool, &u.Principal}
	for i := range usageNames {
		into = append(into, &n[i])
	}
	if err := rows.Scan(into...); err != nil {
		return u, err
	}
	if contains(q.By, ByDay) {
		u.Day = time.UnixMicro(day * dayMicros).UTC().Format(time.DateOnly)
	}
	for i, p := range []*int64{
		&u.Turns, &u.Completed, &u.Abandoned, &u.InputTokens, &u.OutputTokens,
		&u.Calls, &u.Attempts, &u.Retries, &u.Asked, &u.RunUS, &u.Bytes, &u.Late, &u.Resolved, &u.Undone,
	} {
		*p = n[i]
	}
	u.Effects, u.Ends = map[string]int64{}, map[string]int64{}
	for i, e := range []events.Effects{events.EffectsNone, events.EffectsPossible, events.EffectsDone} {
		if v := n[useEffects+i]; v > 0 {
			u.Effects[string(e)] = v
		}
	}
	for i, kind := range endings {
		if v := n[useEnds+i]; v > 0 {
			u.Ends[string(kind)] = v
		}
	}
	return u, nil
}
