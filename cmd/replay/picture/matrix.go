package picture

import (
	"fmt"
	"strings"
)

// Counts are runs by how they ended.
type Counts struct {
	Same          int // answered, lawful, and with the recorded messages
	Differs       int // answered and lawful; the messages differ, as policy says
	NotApplicable int // the fault cannot occur there
	Unanswered    int // one of the questions has no answer
	Broken        int // a law is broken
}

// Add adds the runs of another one.
func (c *Counts) Add(d Counts) {
	c.Same += d.Same
	c.Differs += d.Differs
	c.NotApplicable += d.NotApplicable
	c.Unanswered += d.Unanswered
	c.Broken += d.Broken
}

// Runs are all that were made: those that are not applicable were not.
func (c Counts) Runs() int { return c.Same + c.Differs + c.Unanswered + c.Broken }

// Cell is what a fault did between two stages.
type Cell struct {
	Counts Counts
	// Title is shown while the pointer rests on the cell. "" means its row, its
	// column and its counts.
	Title string
}

// Matrix is faults by where they were put and of which kind they were.
type Matrix struct {
	Title    string
	Subtitle string   // a line below it
	Rows     []string // pairs of stages, for example "requested → authorized"; what stands before ": " groups them
	Columns  []string // kinds of faults
	Cells    [][]Cell // by row and column; what is missing was not tried
	Notes    []string // lines below the legend
}

// Bounds of what of a matrix is drawn; what is left out is said, and counts.
const (
	maxRows    = 60
	maxColumns = 40
	maxNotes   = 12
)

// Totals are the counts of all cells.
func (m Matrix) Totals() Counts {
	var all Counts
	for _, row := range m.Cells {
		for _, c := range row {
			all.Add(c.Counts)
		}
	}
	return all
}

// verdict is how the runs of a cell ended.
type verdict struct {
	glyph string
	words string // behind a number
	is    string // behind a cell
	fill  string // class of the cell; "" is hollow
	on    string // name of the colour of the glyph upon it
	count func(Counts) int
}

// verdicts in the order of the legend; the worst of those that a cell has is the
// last one but for notApplicable.
var (
	same          = verdict{glyphCheck, "lawful, same messages", "is the same", "f-tint-good", "ink-good", func(c Counts) int { return c.Same }}
	differs       = verdict{glyphUnequal, "lawful, other messages as policy says", "differs as policy says", "f-tint-mild", "ink-mild", func(c Counts) int { return c.Differs }}
	unanswered    = verdict{glyphAsk, "with a question unanswered", "leaves a question unanswered", "f-fill-odd", "on-odd", func(c Counts) int { return c.Unanswered }}
	broken        = verdict{glyphCross, "with a law broken", "breaks a law", "f-fill-bad", "on-bad", func(c Counts) int { return c.Broken }}
	notApplicable = verdict{glyphDash, "not applicable", "is not applicable", "", "ink-soft", func(c Counts) int { return c.NotApplicable }}
	verdicts      = []*verdict{&same, &differs, &notApplicable, &unanswered, &broken}
	worst         = []*verdict{&broken, &unanswered, &differs, &same, &notApplicable}
)

// verdict is the worst one of a cell, nil where nothing was tried.
func (c Counts) verdict() *verdict {
	for _, v := range worst {
		if v.count(c) > 0 {
			return v
		}
	}
	return nil
}

// SVG is the picture of the matrix, at most MaxPicture bytes. It is pure.
func (m Matrix) SVG() []byte {
	rows, columns := m.Rows[:min(len(m.Rows), maxRows)], m.Columns[:min(len(m.Columns), maxColumns)]
	g := m.grid(rows, columns)
	p := pen{full: MaxPicture / 8}
	const margin = 24
	p.text(margin, 34, "t f-ink", fit(plain(m.Title, 100), g.width-2*margin, 16, boldWidth))
	p.text(margin, 54, "f-ink-soft", fit(plain(m.Subtitle, 200), g.width-2*margin, 12, sansWidth))
	g.heads(&p, columns)
	y := g.top
	for i, name := range rows {
		if i > 0 && groupOf(name) != groupOf(rows[i-1]) {
			y += groupGap
		}
		g.row(&p, i, y, name, m, columns)
		y += g.high
	}
	y += 16
	y += p.legend(margin, g.width-margin, y, m.key(&p)) + 8
	for _, note := range m.notes() {
		for i, l := range wrap(note, g.width-2*margin-14, 10.5, 3) {
			p.text(margin+14*float64(min(i, 1)), y+12, "x f-ink-soft", l)
			y += 15
		}
		y += 3
	}
	return p.frame(g.width, y+16, plain(m.Title, 100), m.describe(), "", false)
}

// groupGap stands between groups of rows.
const groupGap = 10

func groupOf(row string) string {
	group, _, found := strings.Cut(row, ": ")
	if !found {
		return ""
	}
	return group
}

// grid is where the cells of a matrix stand.
type grid struct {
	left, top   float64 // of the first cell
	wide, high  float64 // of a cell
	width       float64 // of the picture
	counts      bool    // a cell stands for more than one run
	slope, rise float64 // of the heads of columns
}

func (m Matrix) grid(rows, columns []string) grid {
	g := grid{wide: 36, high: 30, slope: 0.64, rise: 0.77}
	names := 60.0
	for _, r := range rows {
		names = max(names, sansWidth(plain(r, 48), 12))
	}
	g.left = 24 + min(names, 280) + 12
	for _, row := range m.Cells {
		for _, c := range row {
			g.counts = g.counts || c.Counts.Runs()+c.Counts.NotApplicable > 1
		}
	}
	if g.counts {
		g.wide, g.high = 40, 36
	}
	longest, over := 40.0, 0.0
	for i, c := range columns {
		w := min(sansWidth(plain(c, 40), 12), 200)
		longest = max(longest, w)
		over = max(over, float64(i+1)*g.wide-g.wide/2+w*g.slope)
	}
	g.top = 72 + longest*g.rise + 8
	g.width = max(640, g.left+max(float64(len(columns))*g.wide, over)+24)
	return g
}

// heads are the names of the columns, written upwards.
func (g grid) heads(p *pen, columns []string) {
	for i, c := range columns {
		x := g.left + (float64(i)+0.5)*g.wide + 3
		fmt.Fprintf(p, `<text transform="translate(%s %s) rotate(-50)" class="f-ink">%s</text>`, num(x), num(g.top-8), markup(fit(plain(c, 40), 200, 12, sansWidth)))
	}
}

// row is one pair of stages, with its cells.
func (g grid) row(p *pen, i int, y float64, name string, m Matrix, columns []string) {
	if i%2 == 0 {
		p.rect(12, y, g.left+float64(len(columns))*g.wide, g.high, 4, "f-stripe")
	}
	p.text(g.left-12, y+g.high/2+4, "e f-ink", fit(plain(name, 48), 280, 12, sansWidth))
	for j, column := range columns {
		if i >= len(m.Cells) || j >= len(m.Cells[i]) {
			continue
		}
		c := m.Cells[i][j]
		if v := c.Counts.verdict(); v != nil {
			p.open(c.title(name, column))
			g.cell(p, g.left+float64(j)*g.wide, y, c.Counts, v)
			p.close()
		}
	}
	p.WriteByte('\n')
}

// cell draws one cell: the glyph of the worst that happened, and how many runs
// there were. Where only some of them differ, only that part of it is filled so.
func (g grid) cell(p *pen, x, y float64, c Counts, v *verdict) {
	w, h := g.wide-4, g.high-4
	if v.fill == "" {
		p.glyph(x+g.wide/2, y+g.high/2, 1, v.glyph, v.on)
		return
	}
	p.rect(x+2, y+2, w, h, 4, v.fill)
	if v == &differs && c.Same > 0 {
		part := min(max(w*float64(c.Same)/float64(c.Runs()), 4), w-4)
		p.rect(x+2, y+2, part, h, 4, same.fill)
	}
	if !g.counts {
		p.glyph(x+g.wide/2, y+g.high/2, 1.15, v.glyph, v.on)
		return
	}
	ink := "ink"
	if strings.HasPrefix(v.on, "on-") {
		ink = v.on
	}
	p.glyph(x+g.wide/2, y+g.high/2-6, 1, v.glyph, v.on)
	p.text(x+g.wide/2, y+g.high/2+11, "y c f-"+ink, brief(c.Runs()))
}

// title is what a cell says when it is pointed at.
func (c Cell) title(row, column string) string {
	if c.Title != "" {
		return plain(c.Title, 400)
	}
	var parts []string
	for _, v := range worst {
		if n := v.count(c.Counts); n > 0 {
			parts = append(parts, grouped(n)+" "+v.words)
		}
	}
	return plain(column, 40) + " between " + plain(row, 48) + ": " + strings.Join(parts, ", ")
}

// key is the legend: each verdict, and how many runs ended so.
func (m Matrix) key(p *pen) []legendItem {
	total := m.Totals()
	var items []legendItem
	for _, v := range verdicts {
		items = append(items, legendItem{20, grouped(v.count(total)) + " " + v.words, func(x, y float64) {
			if v.fill != "" {
				p.rect(x, y-8, 20, 16, 3, v.fill)
			}
			p.glyph(x+10, y, 0.9, v.glyph, v.on)
		}})
	}
	return items
}

// notes are the lines below, and what was left out.
func (m Matrix) notes() []string {
	var out []string
	for _, n := range m.Notes[:min(len(m.Notes), maxNotes)] {
		out = append(out, plain(n, 300))
	}
	if more := len(m.Notes) - maxNotes; more > 0 {
		out = append(out, "and "+count(more, "more note"))
	}
	rows, columns := len(m.Rows)-maxRows, len(m.Columns)-maxColumns
	if rows > 0 {
		out = append(out, "not drawn, but counted: "+count(rows, "more pair")+" of stages")
	}
	if columns > 0 {
		out = append(out, "not drawn, but counted: "+count(columns, "more kind")+" of faults")
	}
	return out
}

// maxNamed is how many bad cells the description names.
const maxNamed = 20

// describe says the matrix in words, for those who do not see it.
func (m Matrix) describe() string {
	total := m.Totals()
	var parts []string
	for _, v := range verdicts {
		parts = append(parts, grouped(v.count(total))+" "+v.words)
	}
	out := fmt.Sprintf("A table of %s of stages by %s of faults. %s runs: %s.", count(len(m.Rows), "pair"), count(len(m.Columns), "kind"), grouped(total.Runs()), strings.Join(parts, ", "))
	named := 0
	for i, row := range m.Cells {
		for j, c := range row {
			if c.Counts.Broken+c.Counts.Unanswered == 0 || i >= len(m.Rows) || j >= len(m.Columns) {
				continue
			}
			if named++; named <= maxNamed {
				out += fmt.Sprintf(" %s between %s %s.", plain(m.Columns[j], 40), plain(m.Rows[i], 48), c.Counts.verdict().is)
			}
		}
	}
	if named > maxNamed {
		out += fmt.Sprintf(" And %s more.", grouped(named-maxNamed))
	}
	return out
}
