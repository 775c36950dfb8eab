package picture

import (
	"bytes"
	"fmt"
	"strings"
)

// pen writes the elements of a picture.
type pen struct {
	bytes.Buffer
	full int // how large it may become before titles are left away
}

// rect draws a rectangle with rounded corners.
func (p *pen) rect(x, y, w, h, round float64, class string) {
	fmt.Fprintf(p, `<rect x="%s" y="%s" width="%s" height="%s"`, num(x), num(y), num(max(w, 0)), num(max(h, 0)))
	if round > 0 {
		fmt.Fprintf(p, ` rx="%s"`, num(round))
	}
	p.class(class)
	p.WriteString("/>")
}

// path draws a line of the given class.
func (p *pen) path(d, class string) {
	fmt.Fprintf(p, `<path d="%s" fill="none"`, d)
	p.class(class)
	p.WriteString("/>")
}

// class writes the attributes of a class; names beginning with p- are patterns.
func (p *pen) class(class string) {
	var names []string
	for name := range strings.FieldsSeq(class) {
		if pattern, ok := strings.CutPrefix(name, "p-"); ok {
			fmt.Fprintf(p, ` fill="url(#sl-%s)"`, pattern)
		} else {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(p, ` class="%s"`, strings.Join(names, " "))
	}
}

// text writes a text that is safe already at a base line.
func (p *pen) text(x, y float64, class, s string) {
	if s == "" {
		return
	}
	fmt.Fprintf(p, `<text x="%s" y="%s" class="%s">%s</text>`, num(x), num(y), class, markup(s))
}

// glyph draws a glyph around a centre.
func (p *pen) glyph(x, y, scale float64, path, ink string) {
	move := fmt.Sprintf("translate(%s %s)", num(x-6*scale), num(y-6*scale))
	if scale != 1 {
		move += fmt.Sprintf("scale(%g)", scale)
	}
	fmt.Fprintf(p, `<path class="g s-%s" transform="%s" d="%s"/>`, ink, move, path)
}

// open begins a group that has a title.
func (p *pen) open(title string) {
	p.WriteString("<g>")
	p.title(title)
}

func (p *pen) close() { p.WriteString("</g>") }

// title says what the element around it is, to those who point at it.
func (p *pen) title(s string) {
	if s != "" && p.Len() < p.full {
		fmt.Fprintf(p, "<title>%s</title>", markup(s))
	}
}

// frame is the picture around what was drawn.
// Within a page the style sheet is the page's.
func (p *pen) frame(width, height float64, title, desc, extra string, page bool) []byte {
	var out bytes.Buffer
	role := "img"
	if page {
		role = "group" // what is in it can be reached: it has links
	}
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="%s" aria-labelledby="sl-title sl-desc">`, num(width), num(height), num(width), num(height), role)
	fmt.Fprintf(&out, "\n"+`<title id="sl-title">%s</title>`+"\n"+`<desc id="sl-desc">%s</desc>`+"\n", markup(title), markup(desc))
	if !page {
		fmt.Fprintf(&out, "<style>%s</style>\n", style(""))
	}
	if extra != "" {
		fmt.Fprintf(&out, "<defs>%s</defs>\n", extra)
	}
	fmt.Fprintf(&out, `<rect class="f-paper" width="%s" height="%s" rx="6"/>`+"\n", num(width), num(height))
	out.Write(p.Bytes())
	out.WriteString("\n</svg>\n")
	return out.Bytes()
}

// legend draws items in rows below each other, and returns how high they are. An
// item is drawn at its left end and its middle.
func (p *pen) legend(left, right, y float64, items []legendItem) float64 {
	const high = 20
	x, top := left, y
	for _, it := range items {
		w := it.wide + sansWidth(it.words, 10.5) + 20
		if x > left && x+w > right {
			x, y = left, y+high
		}
		it.draw(x, y+high/2)
		p.text(x+it.wide+6, y+high/2+4, "x f-ink", it.words)
		x += w
	}
	if len(items) == 0 {
		return 0
	}
	return y + high - top
}

// legendItem is a sample of what is drawn, and what it means.
type legendItem struct {
	wide  float64 // of the sample
	words string
	draw  func(x, middle float64)
}
