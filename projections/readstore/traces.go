package readstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Traces answers a query. It returns ErrQuery where that is none.
func (r *Reader) Traces(ctx context.Context, q Query) (Page, error) {
	out := Page{Traces: []Trace{}}
	if err := q.Check(); err != nil {
		return out, err
	}
	err := r.view(ctx, func(tx *sql.Tx) error {
		s, err := r.search(ctx, tx, q)
		if err != nil || s == nil {
			return err
		}
		return s.page(ctx, &out)
	})
	return out, err
}

// search is a query on its way through the traces.
type search struct {
	r     *Reader
	tx    *sql.Tx
	q     Query
	low   int64 // ids of traces that may pass: low to high, both included
	high  int64
	tools []int64
	stati []int64
	open  bool // calls that are unresolved pass by their status, too
	whos  []int64
	match string // of texts; "": none
	few   bool   // few calls pass but for their texts, which are looked at one trace after the other
}

// search prepares a query; nil where nothing can pass.
func (r *Reader) search(ctx context.Context, tx *sql.Tx, q Query) (*search, error) {
	s := &search{r: r, tx: tx, q: q, low: 1, high: maxSeq, match: match(termsOf(q.Text))}
	after, err := q.after()
	if err != nil {
		return nil, err
	}
	if after > 0 && q.Oldest {
		s.low = after + 1
	} else if after > 0 {
		s.high = after - 1
	}
	s.open = slices.Contains(q.Statuses, StatusUnresolved)
	for _, f := range []struct {
		names []string
		ids   *[]int64
		more  bool // something passes beside what is named
	}{{q.Tools, &s.tools, false}, {q.Statuses, &s.stati, s.open}, {q.Principals, &s.whos, false}} {
		if *f.ids, err = r.ids(ctx, tx, f.names); err != nil {
			return nil, err
		}
		if len(f.names) > 0 && len(*f.ids) == 0 && !f.more {
			return nil, nil // names that never came up
		}
	}
	if err := s.bound(ctx); err != nil {
		return nil, err
	}
	return s, s.weigh(ctx)
}

// ids are the ids of the names that there are.
func (r *Reader) ids(ctx context.Context, tx *sql.Tx, names []string) ([]int64, error) {
	var out []int64
	for _, name := range names {
		id, ok, err := r.find(ctx, tx, name)
		if err != nil {
			return nil, err
		}
		if ok && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// bound narrows the ids by the times: those of the traces are in the log's order.
func (s *search) bound(ctx context.Context) error {
	for _, b := range []struct {
		zero  bool
		query string
		at    int64
		set   func(int64)
	}{
		{s.q.Since.IsZero(), `SELECT min(id) FROM traces WHERE last_at >= ?`, s.q.Since.UnixMicro(), func(id int64) { s.low = max(s.low, id) }},
		{s.q.Until.IsZero(), `SELECT max(id) FROM traces WHERE first_at < ?`, s.q.Until.UnixMicro(), func(id int64) { s.high = min(s.high, id) }},
	} {
		if b.zero {
			continue
		}
		var id sql.NullInt64
		if err := s.tx.QueryRowContext(ctx, b.query, b.at).Scan(&id); err != nil {
			return err
		}
		if !id.Valid {
			id.Int64, s.low, s.high = 0, 1, 0 // none
			return nil
		}
		b.set(id.Int64)
	}
	return nil
}

// page fills a page, and finds out whether there is another.
func (s *search) page(ctx context.Context, out *Page) error {
	limit := s.q.limit()
	last := ""
	for s.low <= s.high {
		ids, more, err := s.candidates(ctx, limit+1)
		if err != nil {
			return err
		}
		for _, id := range ids {
			t, ok, err := s.trace(ctx, id)
			if err == nil && ok && s.few {
				ok, err = s.says(ctx, id)
			}
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if len(out.Traces) == limit {
				out.Next = last
				return nil
			}
			out.Traces, last = append(out.Traces, t), cursorOf(t, id)
		}
		if !more {
			return nil
		}
		s.behind(ids[len(ids)-1])
	}
	return nil
}

// cursorOf is the position where a trace began. Its first commits may be gone.
func cursorOf(t Trace, id int64) string {
	generation, _, _ := strings.Cut(t.From, ".")
	return generation + "." + strconv.FormatInt(id, 10) + ".0"
}

// behind goes on behind a trace.
func (s *search) behind(id int64) {
	if s.q.Oldest {
		s.low = id + 1
	} else {
		s.high = id - 1
	}
}

func (s *search) direction() string {
	if s.q.Oldest {
		return "ASC"
	}
	return "DESC"
}

// candidates are the next traces with a call that passes, some n of them, in order.
// Where there are more of them, there is one at least.
func (s *search) candidates(ctx context.Context, n int) (ids []int64, more bool, err error) {
	switch {
	case s.match != "" && !s.few:
		return s.byText(ctx, n)
	case s.filtered():
		return s.byCalls(ctx, n)
	}
	ids, err = s.list(ctx, `SELECT id FROM traces WHERE id BETWEEN ? AND ? ORDER BY id `+s.direction()+` LIMIT ?`, s.low, s.high, n)
	return ids, len(ids) == n, err
}

// list are the numbers that a query gives.
func (s *search) list(ctx context.Context, query string, args ...any) ([]int64, error) {
	rows, err := s.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// filtered says whether calls are asked for by more than their texts.
func (s *search) filtered() bool { return len(s.filters()) > 0 }

// fewCalls is how many calls are few enough to look at the texts of each.
var fewCalls = 2000 // a variable for tests

// weigh finds out by which of its parts a query is answered sooner.
func (s *search) weigh(ctx context.Context) error {
	if s.match == "" || !s.filtered() {
		return nil
	}
	total := 0
	for _, v := range s.narrowest() {
		from, args := s.through(v)
		n := 0
		if err := s.tx.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1`+from+` LIMIT ?)`, append(args, fewCalls+1)...).Scan(&n); err != nil {
			return err
		}
		if total += n; total > fewCalls {
			return nil
		}
	}
	s.few = true
	return nil
}

// way is an index of calls, and what stands together in it in the order of traces.
type way struct {
	index string
	filter
}

// through is where a way leads: to the calls that pass all but the text.
func (s *search) through(v way) (string, []any) {
	from, args := ` FROM calls INDEXED BY `+v.index+` WHERE `+v.where+` AND trace BETWEEN ? AND ?`, append(slices.Clone(v.args), s.low, s.high)
	for _, f := range s.filters() {
		if f.column != v.column {
			from, args = from+` AND `+f.where, append(args, f.args...)
		}
	}
	return from, args
}

// filter is a condition that a column of calls must fulfil.
type filter struct {
	column string
	where  string
	args   []any
}

func (s *search) filters() []filter {
	var all []filter
	for _, f := range []struct {
		column string
		ids    []int64
	}{{"tool", s.tools}, {"status", s.stati}, {"who", s.whos}} {
		one := filter{f.column, `calls.` + f.column + ` IN (` + marks(len(f.ids)) + `)`, anys(f.ids)}
		if f.column == "status" && s.open {
			one.where = `(` + one.where + ` OR ` + isUnresolved + `)`
		} else if len(f.ids) == 0 {
			continue
		}
		all = append(all, one)
	}
	return all
}

// byCalls goes through the index of the narrowest filter, one value of it after the
// other, each in the order of traces.
func (s *search) byCalls(ctx context.Context, n int) ([]int64, bool, error) {
	var all []int64
	edge, more := int64(0), false
	for _, v := range s.narrowest() {
		from, args := s.through(v)
		ids, err := s.list(ctx, `SELECT DISTINCT trace`+from+` ORDER BY trace `+s.direction()+` LIMIT ?`, append(args, n)...)
		if err != nil {
			return nil, false, err
		}
		all = append(all, ids...)
		if len(ids) == n { // beyond its last one this value's traces are not known yet
			last := ids[n-1]
			if !more || s.before(last, edge) {
				edge, more = last, true
			}
		}
	}
	slices.SortFunc(all, s.compare)
	all = slices.Compact(all)
	if more {
		all = slices.DeleteFunc(all, func(id int64) bool { return s.before(edge, id) })
	}
	return all, more, nil
}

// narrowest are the ways to what passes the filter that the fewest calls pass, as far as
// that can be guessed.
func (s *search) narrowest() []way {
	column, ids := "tool", s.tools
	switch {
	case len(s.q.Statuses) > 0 && (s.rare() || len(s.tools)+len(s.whos) == 0):
		column, ids = "status", s.stati
	case len(s.whos) > 0:
		column, ids = "who", s.whos
	}
	var ways []way
	for _, id := range ids {
		ways = append(ways, way{"calls_" + column, filter{column, column + ` = ?`, []any{id}}})
	}
	if column == "status" && s.open {
		ways = append(ways, way{"calls_unresolved", filter{column, isUnresolved, nil}})
	}
	return ways
}

// rare says whether only statuses are asked for that few calls have.
func (s *search) rare() bool {
	for _, name := range s.q.Statuses {
		switch name {
		case "completed", "denied", "failed":
			return false
		}
	}
	return true
}

// before says whether a trace comes before another one in the order asked for.
func (s *search) before(a, b int64) bool { return s.compare(a, b) < 0 }

func (s *search) compare(a, b int64) int {
	if a == b {
		return 0
	}
	if (a < b) == s.q.Oldest {
		return -1
	}
	return 1
}

// marks are n question marks.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

func anys(ids []int64) []any {
	out := make([]any, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}

// byText goes through the texts in the order of traces, which is that of their
// numbers, and skips what is left of a trace that has passed.
func (s *search) byText(ctx context.Context, n int) ([]int64, bool, error) {
	rows := max(4*n, 256)
	query, args := s.inTexts(s.low, s.high)
	ids, err := s.list(ctx, query+` ORDER BY texts.rowid `+s.direction()+` LIMIT ?`, append(args, rows)...)
	return slices.Compact(ids), len(ids) == rows, err
}

// inTexts asks for the traces with texts that pass, from one to another.
func (s *search) inTexts(low, high int64) (string, []any) {
	query, where := `SELECT texts.rowid >> 22 FROM texts`, ` WHERE texts MATCH ? AND texts.rowid BETWEEN ? AND ?`
	args := []any{s.match, low << 22, high<<22 | (1<<22 - 1)}
	if s.filtered() {
		query += ` CROSS JOIN docs ON docs.id = texts.rowid CROSS JOIN calls ON calls.id = docs.call`
	}
	for _, f := range s.filters() {
		where, args = where+` AND `+f.where, append(args, f.args...)
	}
	return query + where, args
}

// says says whether a text of a trace passes.
func (s *search) says(ctx context.Context, id int64) (bool, error) {
	query, args := s.inTexts(id, id)
	ids, err := s.list(ctx, query+` LIMIT 1`, args...)
	return len(ids) > 0, err
}

// trace reads a trace; ok is false if its times do not pass.
func (s *search) trace(ctx context.Context, id int64) (Trace, bool, error) {
	t, err := s.r.trace(ctx, s.tx, `id = ?`, id)
	if err != nil {
		return Trace{}, false, err
	}
	if !s.q.Since.IsZero() && t.last < s.q.Since.UnixMicro() || !s.q.Until.IsZero() && t.first >= s.q.Until.UnixMicro() {
		return Trace{}, false, nil
	}
	v, err := s.r.line(ctx, s.tx, t)
	return v, err == nil, err
}

// trace reads one trace, or returns ErrNoTrace.
func (r *Reader) trace(ctx context.Context, tx *sql.Tx, where string, arg any) (*trace, error) {
	t := &trace{}
	into := target{sums: &t.sums}
	var tools string
	err := tx.QueryRowContext(ctx, `SELECT id, trace, tools, `+sumColumns+` FROM traces WHERE `+where, arg).
		Scan(append([]any{&t.id, &t.name, &tools}, into.into()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("trace %.80v: %w", arg, ErrNoTrace)
	}
	if err == nil {
		t.tools, err = parseNumbers(tools)
	}
	t.more = into.flags&flagMore != 0
	return t, errors.Join(err, into.done())
}

// line is a trace as it is listed.
func (r *Reader) line(ctx context.Context, tx *sql.Tx, t *trace) (Trace, error) {
	names := make([]string, len(t.tools))
	for i, id := range t.tools {
		name, err := r.name(ctx, tx, id)
		if err != nil {
			return Trace{}, err
		}
		names[i] = name
	}
	return t.view(names), nil
}
