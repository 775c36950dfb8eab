package readstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	flag.Parse()
	for name, few := range map[string][2]string{ // a database for each try is not cheap
		"rapid.checks": {"20", "2"}, "kill.times": {"10", "3"}, "scale.events": {"40000", "1280"},
	} {
		n := few[0]
		if racing {
			n = few[1]
		}
		if !given(name) {
			if err := flag.Set(name, n); err != nil {
				panic(err)
			}
		}
	}
	leaks.Main(m, leaks.OfServers...)
}

// given says whether a flag was on the command line.
func given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func must[T any](v T, err error) func(tb) T {
	return func(t tb) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%v", err)
		}
		return v
	}
}

func check(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// fill folds all of a log into a writer, and writes it.
func fill(t tb, w *writer, log Source) {
	t.Helper()
	level, err := w.pass(context.Background(), log, 1<<30)
	if err != nil || !level {
		t.Fatalf("level %t: %v", level, err)
	}
}

// rebuilt is a log folded at once into a new database.
func rebuilt(t tb, dir string, log Source) string {
	t.Helper()
	w := must(openWriter(context.Background(), folder(dir), "store-99.db", nil))(t)
	defer func() {
		check(t, w.close())
		check(t, folder(dir).remove("store-99.db"))
	}()
	fill(t, w, log)
	return dump(t, w.path)
}

// dump is all that a database holds, in words and in order.
func dump(t tb, path string) string {
	t.Helper()
	ctx := context.Background()
	r := must(openReader(path))(t)
	defer func() { check(t, r.Close()) }()
	var b strings.Builder
	line := func(what string, v any) {
		text := must(json.Marshal(v))(t)
		fmt.Fprintf(&b, "%s %s\n", what, text)
	}
	p := must(progressOf(ctx, r.db))(t)
	line("progress", []any{p.next, p.folded})
	for q := (Query{Oldest: true, Limit: 2}); ; {
		page := must(r.Traces(ctx, q))(t)
		for _, tr := range page.Traces {
			line("trace", tr)
			for tq := (TimelineQuery{Limit: 7}); ; {
				tl := must(r.Timeline(ctx, tr.Trace, tq))(t)
				for _, m := range tl.Moments {
					line("moment", m)
				}
				if tq.Cursor = tl.Next; tl.Next == "" {
					break
				}
			}
		}
		if q.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	line("approvals", must(r.Approvals(ctx))(t))
	uses, _, err := r.Usage(ctx, UsageQuery{By: []string{ByDay, ByTool, ByPrincipal}})
	check(t, err)
	for _, u := range uses {
		line("use", u)
	}
	for _, query := range []string{
		`SELECT c.id, c.trace, coalesce(t.word, ''), coalesce(p.word, ''), s.word, c.effects, c.day, c.attempts, c.retries, c.asked, c.run, c.bytes, c.late, c.resolved, c.undone, c.words
			FROM calls c LEFT JOIN words t ON t.id = c.tool LEFT JOIN words p ON p.id = c.who JOIN words s ON s.id = c.status ORDER BY c.id`,
		`SELECT t.id, t.trace, t.turn, coalesce(p.word, ''), coalesce(e.word, ''), t.submitted, t.day, t.input, t.output, t.open, t.events, t.to_seq FROM turns t
			LEFT JOIN words p ON p.id = t.who LEFT JOIN words e ON e.id = t.end ORDER BY t.id`,
		`SELECT seq, why FROM damaged ORDER BY seq`,
	} {
		b.WriteString(rowsOf(t, r.db, query))
	}
	b.WriteString(textsIn(t, path))
	return b.String()
}

// rowsOf are rows as text.
func rowsOf(t tb, db *sql.DB, query string) string {
	t.Helper()
	rows := must(db.Query(query))(t)
	defer rows.Close()
	cols := must(rows.Columns())(t)
	var b strings.Builder
	for rows.Next() {
		vals, into := make([]any, len(cols)), make([]any, len(cols))
		for i := range vals {
			into[i] = &vals[i]
		}
		check(t, rows.Scan(into...))
		for _, v := range vals {
			if raw, ok := v.([]byte); ok {
				v = string(raw)
			}
			fmt.Fprintf(&b, "%v|", v)
		}
		b.WriteString("\n")
	}
	check(t, rows.Err())
	return b.String()
}

// textsIn are the words of all texts, by call.
func textsIn(t tb, path string) string {
	t.Helper()
	db := must(connect(path, true))(t)
	defer func() { check(t, db.Close()) }()
	must(db.Exec(`CREATE VIRTUAL TABLE temp.inside USING fts5vocab(main, texts, instance)`))(t)
	docs := map[int64][]string{}
	words := must(db.Query(`SELECT doc, term FROM temp.inside ORDER BY doc, offset`))(t)
	defer words.Close()
	for words.Next() {
		var doc int64
		var word string
		check(t, words.Scan(&doc, &word))
		docs[doc] = append(docs[doc], word)
	}
	check(t, words.Err())
	rows := must(db.Query(`SELECT call, id FROM docs`))(t)
	defer rows.Close()
	var out []string
	for rows.Next() {
		var call, doc int64
		check(t, rows.Scan(&call, &doc))
		out = append(out, fmt.Sprintf("%d: %s\n", call, strings.Join(docs[doc], " ")))
		delete(docs, doc)
	}
	check(t, rows.Err())
	if len(docs) > 0 {
		t.Errorf("texts of no call: %v", docs)
	}
	slices.Sort(out)
	return strings.Join(out, "")
}
