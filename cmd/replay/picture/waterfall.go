package picture

import (
	"fmt"
	"strings"
	"time"
)

// Measures of a waterfall, in pixels.
const (
	fallWidth  = 1080.0
	fallMargin = 20.0
	axisLeft   = 274.0
	axisRight  = 846.0
	barHeight  = 14.0
	rowHigh    = 38.0 // of a row with a second line or marks
	rowLow     = 28.0
	rowNote    = 24.0 // of a row that says what is left out
)

// roomForRows is how large a picture may become before rows are left out.
const roomForRows = MaxPicture * 3 / 4

// maxWarnings is how many warnings are drawn.
const maxWarnings = 8

// fall is a waterfall while it is drawn.
type fall struct {
	pen
	y     float64
	links map[place]bool // the calls of the page that it stands in; nil: in none
	left  tally
	kinds [kinds]bool
	signs [signs]bool
	folds bool
	group bool
}

// Waterfall is the picture of a trace: its turns, batches and calls on axes of time,
// at most MaxPicture bytes of SVG. Every turn has its own axis, counted from the
// turn's start; a strip on top shows where all of them stand. Long waits in which
// nothing runs are folded, visibly. Of a trace of more than 200 calls or 60 turns
// it shows the calls that did not end well, and then the first and last ones, and
// says how many of which kind it left out. It is pure.
func (t Trace) Waterfall() []byte { return t.waterfall(nil) }

func (t Trace) waterfall(links map[place]bool) []byte {
	f := &fall{pen: pen{full: MaxPicture / 2}, links: links, y: 16}
	f.head(t)
	picked := choose(t.Turns, maxCalls, maxTurns)
	if len(t.Turns) > 1 {
		f.strip(t.Turns)
	}
	var before *Turn
	for i := 0; i < len(t.Turns); {
		if picked.turns[i] && f.Len() < roomForRows {
			f.turn(i, &t.Turns[i], before, picked)
			before = &t.Turns[i]
			i++
			continue
		}
		var left tally
		n := i
		for ; i < len(t.Turns) && (!picked.turns[i] || f.Len() >= roomForRows); i++ {
			left.addTurn(&t.Turns[i])
			before = &t.Turns[i]
		}
		f.skip(i-n, left)
	}
	f.foot()
	return f.frame(fallWidth, f.y+12, "Trace "+plain(t.Title, 80), t.describe(), patterns, links != nil)
}

// head is the title, and what is wrong.
func (f *fall) head(t Trace) {
	if f.links == nil {
		f.text(fallMargin, f.y+16, "t f-ink", fit("trace "+plain(t.Title, 80), fallWidth-2*fallMargin, 16, boldWidth))
		f.y += 24
		if t.Subtitle != "" {
			f.text(fallMargin, f.y+12, "f-ink-soft", fit(plain(t.Subtitle, 200), fallWidth-2*fallMargin, 12, sansWidth))
			f.y += 20
		}
		for i, w := range t.Warnings {
			if i == maxWarnings {
				w = "and " + count(len(t.Warnings)-maxWarnings, "more warning")
			}
			f.glyph(fallMargin+7, f.y+9, 1, glyphWarning, "ink-bad")
			f.text(fallMargin+20, f.y+13, "f-ink-bad", fit(plain(w, 300), fallWidth-2*fallMargin-20, 12, sansWidth))
			f.y += 19
			if i == maxWarnings {
				break
			}
		}
	}
	if len(t.Turns) == 0 {
		f.text(fallMargin, f.y+16, "f-ink-soft", "nothing is recorded")
		f.y += 24
	}
}

// stripMost is how many turns the strip shows one by one.
const stripMost = 400

// strip is where all turns stand in time.
func (f *fall) strip(turns []Turn) {
	var first, last time.Time
	for i := range turns {
		from, to := turns[i].bounds()
		first, last = earlier(first, from), later(last, to)
	}
	if first.IsZero() {
		return
	}
	var moments []time.Duration
	for i := range turns {
		if from, to := turns[i].bounds(); !from.IsZero() {
			moments = append(moments, since(first, from), since(first, to))
		}
	}
	f.y += 8
	a := newAxis(first, moments, nil, axisLeft, axisRight)
	f.text(fallMargin, f.y+13, "f-ink", "all "+count(len(turns), "turn"))
	f.text(axisRight+12, f.y+13, "x f-ink-soft", span(last.Sub(first))+" in all")
	f.rect(axisLeft, f.y+2, axisRight-axisLeft, 14, 3, "f-stripe")
	edge, drawn := -1.0, 0
	for i := range turns {
		t := &turns[i]
		from, to := t.bounds()
		x0, x1 := a.x(from), a.x(to)
		if from.IsZero() || drawn >= stripMost || x1 < edge && t.worst().fine() {
			continue
		}
		x0 = min(max(x0, edge), axisRight-2)
		x1 = max(x1, x0+2)
		edge, drawn = x1+0.5, drawn+1
		f.open(t.headline() + ", " + stamp(from))
		f.rect(x0, f.y+3, x1-x0, 12, 1, "f-"+t.worst().look().ink)
		f.close()
	}
	f.foldsOf(a, f.y+2, f.y+16)
	f.text(axisLeft, f.y+29, "y f-ink-soft", stamp(first))
	f.text(axisRight, f.y+29, "y e f-ink-soft", stamp(last))
	f.y += 36
}

// skip is the line in place of turns that are left out.
func (f *fall) skip(turns int, left tally) {
	if turns == 0 {
		return
	}
	for s, n := range left {
		f.left[s] += n
	}
	f.y += 6
	f.glyph(fallMargin+8, f.y+10, 1, glyphDots, "ink-soft")
	f.text(fallMargin+22, f.y+14, "f-ink-soft", count(turns, "turn")+" not drawn, with "+left.String())
	f.y += 22
	f.WriteByte('\n')
}

// headline is a turn in a line.
func (t *Turn) headline() string {
	from, to := t.bounds()
	out := "turn " + plain(t.Name, 64) + " " + t.status()
	if !from.IsZero() {
		out += ", " + span(to.Sub(from))
	}
	return out
}

// lasted is how a turn stands, and since when.
func (t *Turn) lasted() string {
	from, to := t.bounds()
	d := span(to.Sub(from))
	switch {
	case from.IsZero():
		return t.status()
	case t.State == Failed || t.State == Cancelled:
		return t.status() + " after " + d
	case !t.State.fine():
		return t.status() + ", " + d + " so far"
	case from.Equal(to):
		return t.status() + " at once"
	}
	return t.status() + " in " + d
}

// worst is how the turn stands, or, if that is well, how the first of its calls
// stands that did not end well.
func (t *Turn) worst() State {
	worst := t.State
	t.calls(func(_ int, _ *Batch, c *Call) bool {
		if worst.fine() && !c.State.fine() {
			worst = c.State
		}
		return worst.fine()
	})
	return worst
}

func (t *Turn) status() string {
	if t.Status == "" {
		return t.State.look().words
	}
	return plain(t.Status, 80)
}

func (c *Call) status() string {
	if c.Status == "" {
		return c.State.look().words
	}
	return plain(c.Status, 60)
}

func (c *Call) tool() string {
	if c.Tool == "" {
		return "–"
	}
	return plain(c.Tool, 100)
}

// bounds are a turn's first and last moments; both zero where no time is known.
func (t *Turn) bounds() (from, to time.Time) {
	from, to = t.Start, t.End
	if !from.IsZero() && !to.IsZero() {
		return from, later(from, to)
	}
	first, last := t.drawn()
	if from.IsZero() {
		from = earlier(first, to)
	}
	if to.IsZero() {
		to = later(last, from)
	}
	return from, later(from, to)
}

// drawn are the first and the last moment of what is drawn of a turn, which may lie
// outside its bounds: a late result, a person's finding.
func (t *Turn) drawn() (first, last time.Time) {
	see := func(s []Segment, m []Mark) {
		for i := range s {
			first, last = earlier(first, s[i].Start), later(later(last, s[i].Start), s[i].End)
		}
		for i := range m {
			first, last = earlier(first, m[i].At), later(last, m[i].At)
		}
	}
	see(t.Segments, t.Marks)
	t.calls(func(_ int, _ *Batch, c *Call) bool {
		see(c.Segments, c.Marks)
		return true
	})
	return first, last
}

// earlier is the earlier one of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// foot is the legend of what occurs, and what was left out.
func (f *fall) foot() {
	var items []legendItem
	for k, used := range f.kinds {
		if used {
			look := Kind(k).look()
			items = append(items, legendItem{26, look.words, func(x, y float64) { f.bar(look, x, x+26, y) }})
		}
	}
	for s, used := range f.signs {
		if used {
			look := Sign(s).look()
			items = append(items, legendItem{12, look.words, func(x, y float64) { f.sign(Sign(s), x+6, y) }})
		}
	}
	if f.group {
		items = append(items, legendItem{6, "run at the same time", func(x, y float64) { f.bracket(x+3, y-7, y+7) }})
	}
	if f.folds {
		items = append(items, legendItem{14, "folded: a long time in which nothing happened", func(x, y float64) {
			f.rect(x, y-7, 14, 14, 0, "p-fold")
		}})
	}
	f.y += 10
	f.y += f.legend(fallMargin, fallWidth-fallMargin, f.y, items)
	if n := f.left.all(); n > 0 {
		f.text(fallMargin, f.y+15, "x f-ink-soft", fmt.Sprintf("Not drawn: %s. Drawn are those that did not end well, then the first and the last ones.", f.left.String()))
		f.y += 20
	}
}

// sign draws a sign of the legend.
func (f *fall) sign(s Sign, x, y float64) {
	if s == Note {
		fmt.Fprintf(f, `<circle cx="%s" cy="%s" r="2.2" class="f-ink-soft"/>`, num(x), num(y))
		return
	}
	look := s.look()
	f.glyph(x, y, 0.85, look.glyph, look.ink)
}

// maxTold is how many calls the description tells.
const maxTold = 20

// describe says the trace in words, for those who do not see it.
func (t Trace) describe() string {
	var all tally
	var told []string
	more := 0
	for i := range t.Turns {
		turn := &t.Turns[i]
		all.addTurn(turn)
		turn.calls(func(_ int, _ *Batch, c *Call) bool {
			if !c.telling() {
				return true
			}
			if len(told) == maxTold {
				more++
				return true
			}
			text := fmt.Sprintf("Call %d of turn %s, %s, is %s", c.Number, plain(turn.Name, 64), c.tool(), c.status())
			if c.Effects != "" {
				text += ", effects " + plain(c.Effects, 60)
			}
			told = append(told, text+".")
			return true
		})
	}
	out := fmt.Sprintf("A waterfall of %s with %s.", count(len(t.Turns), "turn"), all.String())
	if len(t.Turns) == 1 {
		out += " " + strings.ToUpper(t.Turns[0].headline()[:1]) + t.Turns[0].headline()[1:] + "."
	}
	if len(told) > 0 {
		out += " " + strings.Join(told, " ")
	}
	if more > 0 {
		out += fmt.Sprintf(" And %s that did not simply end well.", count(more, "more call"))
	}
	return out
}
