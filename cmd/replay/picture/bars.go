package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// bars draws the segments and marks of a row, and behind them how long it took.
func (f *fall) bars(a axis, last time.Time, segments []Segment, marks []Mark, high float64, took string) {
	y := f.y + high/2
	if slices.ContainsFunc(marks, aboveBars) {
		y = f.y + 25
	}
	if !a.long() && !slices.ContainsFunc(marks, aboveBars) {
		return // all at one moment
	}
	first, end := axisRight, axisLeft
	for i, s := range most(a, last, segments) {
		x0, x1 := a.x(s.Start), a.x(s.until(last))
		if i > 0 && s.Start.IsZero() {
			continue
		}
		f.segment(s, x0, max(x1, x0+1.6), y, last)
		first, end = min(first, x0), max(end, x1)
	}
	if n := len(segments) - maxSegments; n > 0 {
		took += ", " + grouped(n) + " short stretches not drawn"
	}
	if took != "" && len(segments) > 0 {
		w := sansWidth(took, 9.5)
		for _, m := range marks { // a label stands behind marks, or before them, and on none
			if x := a.x(m.At); x > end-9 && x < end+w+16 {
				end = x + 9
			}
		}
		switch {
		case end+8+w < axisRight:
			f.text(end+6, y+3.5, "y f-ink-soft", took)
		case first-8-w > axisLeft:
			f.text(first-6, y+3.5, "y e f-ink-soft", took)
		}
	}
	f.marks(a, marks, y)
}

// most are the segments that are drawn of a row: all, or the longest.
func most(a axis, last time.Time, segments []Segment) []Segment {
	if len(segments) <= maxSegments {
		return segments
	}
	order := make([]int, len(segments))
	for i := range order {
		order[i] = i
	}
	wide := func(i int) float64 { return a.x(segments[i].until(last)) - a.x(segments[i].Start) }
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(wide(j), wide(i)) })
	order = order[:maxSegments]
	slices.Sort(order)
	out := make([]Segment, 0, maxSegments)
	for _, i := range order {
		out = append(out, segments[i])
	}
	return out
}

// segment draws one stretch of time.
func (f *fall) segment(s Segment, x0, x1, y float64, last time.Time) {
	look := s.Kind.look()
	f.kinds[min(max(s.Kind, 0), kinds-1)] = true
	label := plain(s.Label, 60)
	title := plain(s.Title, 300)
	if title == "" {
		title = look.words
		if label != "" {
			title += ": " + label
		}
		title += ", " + span(s.until(last).Sub(s.Start))
	}
	open := s.End.IsZero() || s.End.Before(s.Start)
	if open {
		title += ", and goes on"
	}
	f.WriteString("<g>")
	f.title(title)
	f.bar(look, x0, x1, y)
	if label != "" && look.height > 9 && look.on != "" && sansWidth(label, 9.5)+8 < x1-x0 {
		class := "y c f-" + look.on
		if strings.HasPrefix(look.fill, "p-") {
			class += " w s-paper"
		}
		f.text((x0+x1)/2, y+3.4, class, label)
	}
	if open {
		f.glyph(x1+8, y, 0.8, glyphDots, "ink-calm")
	}
	f.close()
}

// bar draws the shape of a kind.
func (f *fall) bar(look kindLook, x0, x1, y float64) {
	if look.height == 0 {
		fmt.Fprintf(f, `<path d="M%s %sH%s" fill="none" stroke-width="1.6" class="%s %s"/>`, num(x0), num(y), num(x1), look.stroke, look.dash)
		return
	}
	f.rect(x0, y-look.height/2, x1-x0, look.height, min(2, (x1-x0)/2), look.fill+" "+look.stroke+" "+look.dash)
}

// marks draws the moments of a row: notes as dots below the bars, the others
// above them, none over another.
func (f *fall) marks(a axis, marks []Mark, y float64) {
	marks = telling(marks)
	above := 0
	for _, m := range marks {
		if aboveBars(m) {
			above++
		}
	}
	edge := -1.0
	for _, m := range marks {
		at := a.x(m.At)
		look := m.Sign.look()
		f.signs[min(max(m.Sign, 0), signs-1)] = true
		title := plain(m.Title, 300)
		if title == "" {
			title = look.words
		}
		f.open(title + ", " + stamp(m.At))
		if !aboveBars(m) {
			fmt.Fprintf(f, `<circle cx="%s" cy="%s" r="2.2" class="f-ink-soft"/>`, num(at), num(y+barHeight/2+3.2))
			f.close()
			continue
		}
		above--
		x := min(max(at, edge), axisRight+2-13*float64(above))
		edge = x + 13
		f.path(fmt.Sprintf("M%s %sL%s %sV%s", num(x), num(y-12), num(at), num(y-8), num(y+8)), "s-"+look.ink)
		fmt.Fprintf(f, `<circle cx="%s" cy="%s" r="6" class="f-paper"/>`, num(x), num(y-16))
		f.glyph(x, y-16, 0.8, look.glyph, look.ink)
		f.close()
	}
}

// telling are the marks that are drawn of a row: all, or those that tell most.
func telling(marks []Mark) []Mark {
	if len(marks) <= maxMarks {
		return marks
	}
	var out []Mark
	room := maxMarks
	for _, note := range []bool{false, true} {
		for i := range marks {
			if aboveBars(marks[i]) != note && room > 0 {
				out = append(out, marks[i])
				room--
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Mark) int { return a.At.Compare(b.At) })
	return out
}
