package readstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Places where a fault can be put: BEFORE a transaction is committed, and behind it.
const (
	faultBefore = "before commit"
	faultAfter  = "after commit"
	faultPoint  = "before the new database is the one that is read"
	faultSwap   = "before the old database is removed"
)

func (w *writer) hit(where string) error {
	if w.fault == nil {
		return nil
	}
	return w.fault(where)
}

// flush writes what was folded, and how far that is, in one transaction. After an
// error what is in memory is what is in the tables.
func (w *writer) flush(ctx context.Context) error {
	if !w.pending() {
		return nil
	}
	err := w.transact(ctx, w.write)
	if err != nil {
		return err
	}
	for _, t := range w.touched {
		t.dirty = false
	}
	w.batch, w.touched, w.broken, w.again, w.commits = w.batch[:0], w.touched[:0], w.broken[:0], 0, 0
	w.trim()
	return w.hit(faultAfter)
}

// transact does something in one transaction, with the progress. Where that fails,
// what is in memory is read again.
func (w *writer) transact(ctx context.Context, do func(context.Context, *txn) error) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return w.failed(ctx, err)
	}
	x := &txn{w: w, tx: tx, uses: make(map[usageKey]usage)}
	err = do(ctx, x)
	if err == nil {
		err = w.at.save(ctx, tx)
	}
	if err == nil {
		err = x.say(ctx)
	}
	if err == nil {
		err = w.hit(faultBefore)
	}
	if err != nil {
		return w.failed(ctx, errors.Join(err, tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return w.failed(ctx, err)
	}
	return nil
}

// failed is the error of a transaction that is not in the tables.
func (w *writer) failed(ctx context.Context, err error) error {
	return errors.Join(err, w.reload(context.WithoutCancel(ctx)))
}

// txn is a transaction of a writer.
type txn struct {
	w    *writer
	tx   *sql.Tx
	uses map[usageKey]usage // what is added to it
	said []said             // texts to write
}

// said is a text of a call.
type said struct {
	doc   int64
	words string
	again bool // there is a row already, which it replaces
}

func (x *txn) exec(ctx context.Context, query string, args ...any) error {
	s := x.w.stmts[query]
	if s == nil { // the one connection is the transaction's: a statement made here is its own
		_, err := x.tx.ExecContext(ctx, query, args...)
		return err
	}
	_, err := x.tx.StmtContext(ctx, s).ExecContext(ctx, args...)
	return err
}

func (x *txn) id(ctx context.Context, name string) (int64, error) {
	return x.w.words.id(ctx, x.tx, name)
}

// write writes all that is in no table yet.
func (w *writer) write(ctx context.Context, x *txn) error {
	slices.SortFunc(w.touched, func(a, b *turn) int { return cmp.Compare(a.id, b.id) })
	for _, t := range w.touched {
		if err := x.turn(ctx, t, w.traces[t.key.Trace]); err != nil {
			return err
		}
	}
	for _, t := range w.touched {
		if in := w.traces[t.key.Trace]; in.dirty {
			if err := x.trace(ctx, in); err != nil {
				return err
			}
			in.dirty = false
		}
	}
	if err := x.moments(ctx, w.batch); err != nil {
		return err
	}
	if w.again > 0 {
		if err := x.exec(ctx, `DELETE FROM damaged WHERE seq >= ?`, w.again); err != nil {
			return err
		}
	}
	for _, d := range w.broken {
		if err := x.exec(ctx, `INSERT OR REPLACE INTO damaged VALUES (?, ?)`, d.seq, d.why); err != nil {
			return err
		}
	}
	return x.usage(ctx)
}

const putTrace = `INSERT OR REPLACE INTO traces (id, trace, tools, docs, ` + sumColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (x *txn) trace(ctx context.Context, t *trace) error {
	var more int64
	if t.more {
		more = flagMore
	}
	return x.exec(ctx, putTrace, append([]any{t.id, t.name, numbers(t.tools), t.docs}, t.values(more)...)...)
}

const putTurn = `INSERT OR REPLACE INTO turns (id, trace, turn, who, submitted, end, day, input, output, open, ` + sumColumns +
	`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// turn writes a turn, its calls, and what they ask.
func (x *txn) turn(ctx context.Context, t *turn, in *trace) error {
	who, err := x.id(ctx, t.who)
	if err != nil {
		return err
	}
	end, err := x.id(ctx, string(t.end))
	if err != nil {
		return err
	}
	kept, err := t.kept()
	if err != nil {
		return err
	}
	row := []any{t.id, t.trace, t.key.Turn, who, t.submitted, end, dayOf(t.first), t.tokens[0], t.tokens[1], kept}
	if err := x.exec(ctx, putTurn, append(row, t.values(0)...)...); err != nil {
		return err
	}
	x.use(t.flushedAs, t.flushed, -1)
	t.flushed, t.flushedAs = useOfTurn(t), t.useKey()
	x.use(t.flushedAs, t.flushed, 1)
	for i := range t.calls {
		if c := &t.calls[i]; c.dirty {
			if err := x.call(ctx, t, i, who, in); err != nil {
				return err
			}
			c.dirty = false
		}
	}
	return x.asked(ctx, t)
}

const putCall = `INSERT OR REPLACE INTO calls (id, trace, tool, who, status, effects, day, attempts, retries, asked, run, bytes, late, resolved, undone, doc, words)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (x *txn) call(ctx context.Context, t *turn, i int, who int64, in *trace) error {
	c := &t.calls[i]
	tool, err := x.id(ctx, c.tool)
	if err != nil {
		return err
	}
	in.uses(tool)
	status, err := x.id(ctx, c.statusOf())
	if err != nil {
		return err
	}
	if err := x.texts(ctx, callID(t.id, i), c, in); err != nil {
		return err
	}
	if c.status != "" {
		c.words = nil
	}
	key := t.useKeyOf(c)
	x.use(key, c.flushed, -1)
	c.flushed = useOf(c)
	x.use(key, c.flushed, 1)
	return x.exec(ctx, putCall, callID(t.id, i), t.trace, tool, who, status, string(c.effects), c.day,
		c.attempts, c.retries, c.asked, c.run, c.bytes, c.late, c.resolved, c.undone, c.doc, c.words)
}

// uses remembers a tool of the trace.
func (t *trace) uses(tool int64) {
	switch {
	case slices.Contains(t.tools, tool):
	case len(t.tools) == mostTools:
		t.more = true
	default:
		t.tools = append(t.tools, tool)
	}
}

// mostDocs is how many texts of a trace have numbers.
const mostDocs = 1 << 22

// texts writes the words of a call: those up to its end in one row, which is
// replaced while they grow, and what came behind in rows of their own.
func (x *txn) texts(ctx context.Context, id int64, c *call, in *trace) error {
	if c.texts {
		again := c.doc != 0
		if !again {
			doc, err := x.doc(ctx, id, in)
			if err != nil {
				return err
			}
			c.doc = doc
		}
		x.text(c.doc, c.words, again)
	}
	for _, words := range c.more {
		doc, err := x.doc(ctx, id, in)
		if err != nil {
			return err
		}
		x.text(doc, words, false)
	}
	c.texts, c.more = false, nil
	return nil
}

// doc numbers one more text of a call; 0 where the trace has too many.
func (x *txn) doc(ctx context.Context, call int64, in *trace) (int64, error) {
	if in.docs+1 >= mostDocs {
		return 0, nil
	}
	in.docs++
	in.dirty = true
	doc := in.id<<22 | in.docs
	return doc, x.exec(ctx, putDoc, doc, call)
}

func (x *txn) text(doc int64, words []byte, again bool) {
	if doc != 0 {
		x.said = append(x.said, said{doc, string(words), again})
	}
}

const (
	putDoc    = `INSERT INTO docs VALUES (?, ?)`
	putText   = `INSERT INTO texts (rowid, words) VALUES (?, ?)`
	putTextOn = `INSERT OR REPLACE INTO texts (rowid, words) VALUES (?, ?)`
)

// say writes the texts, BEHIND everything else and in the order of their numbers:
// FTS5 gathers in memory what is added to the index, and writes it where a number is
// lower than the one before, or where some other statement begins.
func (x *txn) say(ctx context.Context) error {
	slices.SortFunc(x.said, func(a, b said) int { return cmp.Compare(a.doc, b.doc) })
	for _, t := range x.said {
		query := putText
		if t.again {
			query = putTextOn
		}
		if err := x.exec(ctx, query, t.doc, t.words); err != nil {
			return err
		}
	}
	return nil
}

// asked writes which calls of a turn wait for a person.
func (x *txn) asked(ctx context.Context, t *turn) error {
	now := make(map[int]bool, len(t.waiting.Asked))
	for _, p := range t.waiting.Asked {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		now[p.Call.Offset] = true
		if err := x.exec(ctx, `INSERT OR REPLACE INTO approvals VALUES (?, ?, ?)`, t.id, p.Call.Offset, string(text)); err != nil {
			return err
		}
	}
	for offset := range t.asked {
		if !now[offset] {
			if err := x.exec(ctx, `DELETE FROM approvals WHERE turn = ? AND call = ?`, t.id, offset); err != nil {
				return err
			}
		}
	}
	t.asked = now
	return nil
}

// rowsAtOnce is how many moments one statement writes.
const rowsAtOnce = 32

var (
	oneMoment   = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	putMoment   = `INSERT INTO moments VALUES ` + oneMoment
	manyMoments = putMoment + strings.Repeat(", "+oneMoment, rowsAtOnce-1)
)

func (x *txn) moments(ctx context.Context, list []moment) error {
	args := make([]any, 0, 12*rowsAtOnce)
	for len(list) > 0 {
		query, n := manyMoments, rowsAtOnce
		if len(list) < n {
			query, n = putMoment, 1
		}
		args = args[:0]
		for _, m := range list[:n] {
			kind, err := x.id(ctx, string(m.Kind))
			if err != nil {
				return err
			}
			tool, err := x.id(ctx, m.Tool)
			if err != nil {
				return err
			}
			args = append(args, momentID(m.pos.Seq, m.pos.Index), m.pos.Generation, m.turn.trace, m.turn.id, m.Call, m.Seq,
				m.At.UnixMicro(), kind, tool, m.Attempt, m.AfterUS, m.Detail)
		}
		if err := x.exec(ctx, query, args...); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// use adds to the usage that is written at the end.
func (x *txn) use(key usageKey, u usage, sign int64) {
	if u == (usage{}) {
		return
	}
	sum := x.uses[key]
	sum.add(u, sign)
	x.uses[key] = sum
}

var putUsage = func() string {
	sets := make([]string, len(usageNames))
	for i, name := range usageNames {
		sets[i] = fmt.Sprintf("%s = %s + excluded.%s", name, name, name)
	}
	return `INSERT INTO usage (day, tool, who, ` + strings.Join(usageNames, ", ") + `) VALUES (?, ?, ?` + strings.Repeat(", ?", len(usageNames)) +
		`) ON CONFLICT DO UPDATE SET ` + strings.Join(sets, ", ")
}()

// usageSchema makes the table of usage, whose columns follow the table of kinds.
func usageSchema() string {
	var b strings.Builder
	b.WriteString("CREATE TABLE usage (\n\tday INTEGER NOT NULL,\n\ttool INTEGER NOT NULL,\n\twho INTEGER NOT NULL,\n")
	for _, name := range usageNames {
		b.WriteString("\t" + name + " INTEGER NOT NULL,\n")
	}
	b.WriteString("\tPRIMARY KEY (day, tool, who)\n) WITHOUT ROWID;\n")
	return b.String()
}

func (x *txn) usage(ctx context.Context) error {
	for key, u := range x.uses {
		if u == (usage{}) {
			continue
		}
		tool, err := x.id(ctx, key.tool)
		if err != nil {
			return err
		}
		who, err := x.id(ctx, key.who)
		if err != nil {
			return err
		}
		args := []any{key.day, tool, who}
		for _, n := range u[:len(usageNames)] {
			args = append(args, n)
		}
		if err := x.exec(ctx, putUsage, args...); err != nil {
			return err
		}
	}
	return nil
}
