package main

import (
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// marks draws faults as vertical bands over their time, with a line where each begins.
type marks struct {
	all   []mark
	kinds []string
	clock clock
}

// tint is a kind's colour, at a strength of up to 255.
func tint(kinds []string, kind string, strength uint8) color.Color {
	r, g, b, _ := hue(slices.Index(kinds, kind)).RGBA()
	return color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), strength}
}

// Plot is plot.Plotter's.
func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	pale := min(1, 60/float64(max(1, len(m.all)))) // many are not to hide the curves
	for _, f := range m.all {
		from, to := x(m.clock.of(f.from)), x(m.clock.of(f.to))
		box(c, tint(m.kinds, f.kind, uint8(28*pale)), from, to, c.Min.Y, c.Max.Y)
		c.StrokeLine2(draw.LineStyle{Color: tint(m.kinds, f.kind, uint8(150*pale)), Width: vg.Points(0.6)}, from, c.Min.Y, from, c.Max.Y)
	}
}

func box(c draw.Canvas, fill color.Color, left, right, low, high vg.Length) {
	c.FillPolygon(fill, []vg.Point{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
}

// rows draws faults as bars, a row for each kind.
type rows struct{ marks }

// Plot is plot.Plotter's.
func (m rows) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, f := range m.all {
		i := float64(slices.Index(m.kinds, f.kind))
		from, to := x(m.clock.of(f.from)), x(m.clock.of(f.to))
		box(c, tint(m.kinds, f.kind, 255), from, max(to, from+vg.Points(2)), y(i-0.3), y(i+0.3))
	}
}

// faults is the panel that names the faults.
func (r *record) faults(kinds []string, k clock, length time.Duration) *plot.Plot {
	p := empty("Faults", "", k, length)
	m := marks{r.marks, kinds, k}
	p.Add(m, rows{m})
	if len(kinds) > 0 {
		p.NominalY(kinds...)
	}
	p.Y.Tick.Label.Font = face(8)
	p.X.Min, p.X.Max = 0, k.of(length)
	p.Y.Min, p.Y.Max = -0.6, max(0.6, float64(len(kinds))-0.4)
	return p
}
