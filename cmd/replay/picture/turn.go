package picture

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// row is a line of a turn: a call, the turn itself, or what is left out.
type row struct {
	at    place
	batch *Batch
	call  *Call  // nil: the turn itself, or what is left out
	left  *tally // what is left out
	high  float64
}

// rows are the lines of a turn.
func (f *fall) rows(i int, t *Turn, picked choice) []row {
	var out []row
	if !t.idle() {
		out = append(out, row{high: heightOf("", t.Marks)})
	}
	var left *tally
	t.calls(func(n int, b *Batch, c *Call) bool {
		at := place{i, n}
		if picked.calls[at] {
			left = nil
			out = append(out, row{at: at, batch: b, call: c, high: heightOf(c.Hint+c.Effects, c.Marks)})
			return true
		}
		if left == nil {
			left = &tally{}
			out = append(out, row{left: left, high: rowNote})
		}
		left.add(c.State)
		f.left.add(c.State)
		return true
	})
	return out
}

// idle says that there is nothing to see of the turn itself: no time passed in it,
// and nothing happened but that it was noted.
func (t *Turn) idle() bool {
	return !slices.ContainsFunc(t.Marks, aboveBars) &&
		!slices.ContainsFunc(t.Segments, func(s Segment) bool { return !s.End.Equal(s.Start) })
}

func heightOf(second string, marks []Mark) float64 {
	if second == "" && !slices.ContainsFunc(marks, aboveBars) {
		return rowLow
	}
	return rowHigh
}

// aboveBars says that a mark stands above the bars; notes are dots below them.
func aboveBars(m Mark) bool { return m.Sign > Note && m.Sign < signs }

// turn draws a turn: its head, its axis, its rows.
func (f *fall) turn(i int, t, before *Turn, picked choice) {
	f.turnHead(t, before)
	rows := f.rows(i, t, picked)
	high := 0.0
	for _, r := range rows {
		high += r.high
	}
	from, to := t.bounds()
	a := t.axis(from, to)
	if a.long() {
		f.axis(a, high)
	}
	top := f.y
	for n, r := range rows {
		if n%2 == 0 {
			f.rect(10, f.y, fallWidth-20, r.high, 4, "f-stripe")
		}
		f.grid(a, f.y, f.y+r.high)
		switch {
		case r.left != nil:
			f.glyph(46, f.y+r.high/2, 1, glyphDots, "ink-soft")
			f.text(60, f.y+r.high/2+4, "x f-ink-soft", r.left.String()+" not drawn")
		case r.call == nil:
			f.text(60, f.y+r.high/2+4, "f-ink-soft", "the turn itself")
			f.bars(a, to, t.Segments, t.Marks, r.high, "")
		case f.Len() >= roomForRows:
			f.left.add(r.call.State)
			f.text(60, f.y+r.high/2+4, "x f-ink-soft", "not drawn: the picture would become too large")
		default:
			f.call(a, to, r)
		}
		f.y += r.high
		f.WriteByte('\n')
	}
	f.brackets(rows, top)
	f.foldsOf(a, top, f.y)
	f.y += 8
}

// turnHead is the line above a turn's axis.
func (f *fall) turnHead(t, before *Turn) {
	from, _ := t.bounds()
	if before != nil {
		if _, end := before.bounds(); !from.IsZero() && !end.IsZero() {
			gap := span(from.Sub(end)) + " later"
			if from.Before(end) {
				gap = "begins before the one above has ended"
			}
			f.text(axisLeft, f.y+12, "x f-ink-soft", "↓ "+gap)
			f.y += 8
		}
	}
	f.y += 10
	look := t.State.look()
	f.glyph(fallMargin+8, f.y+11, 1.1, look.glyph, look.ink)
	name := fit("turn "+plain(t.Name, 64), axisLeft-fallMargin-30, 13, boldWidth)
	f.text(fallMargin+22, f.y+16, "h f-ink", name)
	text := fit(t.lasted(), 300, 12, sansWidth)
	f.text(axisLeft, f.y+16, "f-"+look.ink, text)
	if bad := t.bad(); bad != "" {
		f.text(axisLeft+sansWidth(text, 12)+10, f.y+16, "f-"+t.worst().look().ink, fit(bad, 220, 12, sansWidth))
	}
	f.text(fallWidth-fallMargin, f.y+16, "x e f-ink-soft", stamp(from))
	f.y += 24
}

// bad are the calls of a turn that did not end well, by how they stand.
func (t *Turn) bad() string {
	var n tally
	n.addTurn(t)
	n[Completed], n[Deduplicated] = 0, 0
	if n.all() == 0 {
		return ""
	}
	_, states, _ := strings.Cut(n.String(), ": ")
	return states
}

// axis lays out the time of a turn.
func (t *Turn) axis(from, to time.Time) axis {
	var moments []time.Duration
	var busy [][2]time.Duration
	see := func(s []Segment, m []Mark) {
		for i := range s {
			end := s[i].until(to)
			a, b := since(from, s[i].Start), since(from, end)
			moments = append(moments, a, b)
			if s[i].Kind.look().busy {
				busy = append(busy, [2]time.Duration{a, b})
			}
		}
		for i := range m {
			moments = append(moments, since(from, m[i].At))
		}
	}
	see(t.Segments, t.Marks)
	t.calls(func(_ int, _ *Batch, c *Call) bool {
		see(c.Segments, c.Marks)
		return true
	})
	return newAxis(from, append(moments, since(from, to)), busy, axisLeft+4, axisRight-4)
}

// until is where a segment ends, if it has not, at the end of what is drawn.
func (s *Segment) until(last time.Time) time.Time {
	if s.End.IsZero() || s.End.Before(s.Start) {
		return later(s.Start, last)
	}
	return s.End
}

// axis draws the labels above a turn's rows.
func (f *fall) axis(a axis, high float64) {
	f.y += 16
	if high == 0 {
		return
	}
	var folds []float64
	for _, p := range a.pieces {
		if p.folded {
			x := (p.x0 + p.x1) / 2
			folds = append(folds, x)
			f.text(x, f.y-4, "x b c f-ink-soft", span(p.to-p.from))
		}
	}
	for _, t := range a.ticks() {
		if slices.ContainsFunc(folds, func(x float64) bool { return t.x > x-56 && t.x < x+56 }) {
			continue
		}
		class := "y c f-ink-soft"
		switch {
		case t.x < axisLeft+12:
			class = "y f-ink-soft"
		case t.x > axisRight-16:
			class = "y e f-ink-soft"
		}
		f.text(t.x, f.y-4, class, t.label)
	}
}

// grid draws the lines of ticks behind a row.
func (f *fall) grid(a axis, from, to float64) {
	d := ""
	if !a.long() {
		return
	}
	for _, t := range a.ticks() {
		d += fmt.Sprintf("M%s %sV%s", num(t.x), num(from), num(to))
	}
	if d != "" {
		f.path(d, "s-line")
	}
}

// foldsOf draws the breaks of an axis over what stands there.
func (f *fall) foldsOf(a axis, from, to float64) {
	for _, p := range a.pieces {
		if p.folded && to > from {
			f.folds = true
			fmt.Fprintf(f, `<g transform="translate(%s %s)">`, num((p.x0+p.x1)/2-7), num(from))
			f.title("folded: " + span(p.to-p.from))
			f.rect(0, 0, 14, to-from, 0, "p-fold")
			f.close()
		}
	}
}

// brackets join the calls of a batch that run at the same time.
func (f *fall) brackets(rows []row, y float64) {
	for i := 0; i < len(rows); {
		from, n := y, 0
		b := rows[i].batch
		for ; i < len(rows) && rows[i].batch == b && (n == 0 || b != nil); i++ {
			y += rows[i].high
			n++
		}
		if b != nil && n > 1 && !b.Loose {
			f.group = true
			f.bracket(25, from+5, y-5)
		}
	}
}

func (f *fall) bracket(x, from, to float64) {
	fmt.Fprintf(f, `<path class="g s-ink-soft" d="M%s %sH%sV%sH%s"/>`, num(x+3), num(from), num(x), num(to), num(x+3))
}

// call draws the row of a call.
func (f *fall) call(a axis, last time.Time, r row) {
	c := r.call
	y := f.y + r.high/2 + 4
	if r.high == rowHigh {
		y = f.y + 17
	}
	if f.links[r.at] {
		fmt.Fprintf(f, `<a href="#%s">`, anchor(r.at))
	}
	f.WriteString("<g>")
	f.title(c.tool() + " " + plain(c.Hint, 200))
	f.text(52, y, "x m e f-ink-soft", fmt.Sprint(c.Number))
	f.text(60, y, "m b f-ink", fit(c.tool(), axisLeft-70, 12, mono))
	room := axisLeft - 72
	if !a.long() { // no bars
		room = axisRight - 72
	}
	f.text(60, y+14, "x f-ink-soft", fit(plain(c.Hint, 200), room, 10.5, sansWidth))
	f.close()
	if f.links[r.at] {
		f.WriteString("</a>")
	}
	f.bars(a, last, c.Segments, c.Marks, r.high, c.took(last))
	look := c.State.look()
	f.glyph(axisRight+16, y-4, 1, look.glyph, look.ink)
	f.text(axisRight+27, y, "f-"+look.ink, fit(c.status(), fallWidth-axisRight-38, 12, sansWidth))
	if c.Effects != "" {
		ink := "ink-soft"
		if c.State == Unknown {
			ink = "ink-odd"
		}
		f.text(axisRight+27, y+14, "x f-"+ink, fit("effects "+plain(c.Effects, 60), fallWidth-axisRight-38, 10.5, sansWidth))
	}
}

// took is how long a call took in all, "" where no time passed or none is known.
func (c *Call) took(last time.Time) string {
	var from, to time.Time
	for i := range c.Segments {
		from, to = earlier(from, c.Segments[i].Start), later(to, c.Segments[i].until(last))
	}
	if !to.After(from) {
		return ""
	}
	return span(to.Sub(from))
}

// anchor is the name of a call in a page.
func anchor(at place) string { return fmt.Sprintf("t%dc%d", at.turn, at.call) }
