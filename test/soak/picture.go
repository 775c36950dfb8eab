package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// The picture's size in pixels.
const (
	pictureWidth  = 1900
	pictureHeight = 2100
	pictureDPI    = 100
	pictureCols   = 2
)

// palette can be told apart by whoever sees no red or no green.
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255},
	color.RGBA{213, 94, 0, 255},
	color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255},
	color.RGBA{90, 90, 90, 255},
	color.RGBA{230, 159, 0, 255},
	color.RGBA{86, 180, 233, 255},
	color.RGBA{120, 60, 20, 255},
	color.RGBA{0, 0, 0, 255},
	color.RGBA{160, 160, 0, 255},
}

func hue(i int) color.Color { return palette[i%len(palette)] }

// face is a font of a size in points.
func face(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
}

// clock is the unit of the horizontal axes.
type clock struct {
	unit time.Duration
	name string
}

func clockFor(length time.Duration) clock {
	switch {
	case length > 3*time.Hour:
		return clock{time.Hour, "hours"}
	case length > 3*time.Minute:
		return clock{time.Minute, "minutes"}
	}
	return clock{time.Second, "seconds"}
}

func (c clock) of(d time.Duration) float64 { return float64(d) / float64(c.unit) }

// picture draws everything that was measured, as a PNG. verdict stands below the title.
func (r *record) picture(w io.Writer, verdict string, ok bool) error {
	canvas := vgimg.NewWith(vgimg.UseWH(vg.Inch*pictureWidth/pictureDPI, vg.Inch*pictureHeight/pictureDPI), vgimg.UseDPI(pictureDPI))
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Path())
	head := vg.Points(50)
	heading(draw.Crop(whole, vg.Points(14), 0, 0, 0), r.title, verdict, ok)
	if err := r.draw(draw.Crop(whole, 0, 0, 0, -head)); err != nil {
		return err
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// heading writes the title and the verdict at the top.
func heading(c draw.Canvas, title, verdict string, ok bool) {
	sty := text.Style{Color: color.Black, Font: face(16), YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
	c.FillText(sty, vg.Point{X: c.Min.X, Y: c.Max.Y - vg.Points(6)}, title)
	sty.Font = face(11)
	if sty.Color = hue(2); !ok {
		sty.Color = color.RGBA{190, 0, 0, 255}
	}
	c.FillText(sty, vg.Point{X: c.Min.X, Y: c.Max.Y - vg.Points(28)}, verdict)
}

// draw draws all panels.
func (r *record) draw(c draw.Canvas) error {
	length := time.Second
	if n := len(r.samples); n > 0 {
		length = max(length, r.samples[n-1].at)
	}
	k := clockFor(length)
	kinds := r.kinds()
	var plots []*plot.Plot
	var legends []plot.Legend
	for _, p := range r.panels() {
		drawn, legend, err := r.one(p, k, length)
		if err != nil {
			return fmt.Errorf("panel %q: %w", p.title, err)
		}
		plots, legends = append(plots, drawn), append(legends, legend)
	}
	plots, legends = append(plots, r.faults(kinds, k, length)), append(legends, plot.NewLegend())
	rows := slices.Collect(slices.Chunk(plots, pictureCols))
	side := vg.Points(135) // the legends' place
	tiles := draw.Tiles{
		Rows: len(rows), Cols: pictureCols, PadX: side, PadRight: side, PadLeft: vg.Points(6),
		PadY: vg.Points(14), PadBottom: vg.Points(8),
	}
	for row, line := range plot.Align(rows, tiles, c) {
		for col, at := range line {
			i := row*pictureCols + col
			plots[i].Draw(at)
			beside := at
			beside.Min.X, beside.Max.X = at.Max.X+vg.Points(6), at.Max.X+side
			beside.Max.Y -= vg.Points(20) // below the title
			legends[i].Draw(beside)
		}
	}
	return nil
}

// kinds are the kinds of faults, in the order of their names.
func (r *record) kinds() []string {
	var out []string
	for _, m := range r.marks {
		if !slices.Contains(out, m.kind) {
			out = append(out, m.kind)
		}
	}
	slices.Sort(out)
	return out
}

// empty is a plot without curves.
func empty(title, unit string, k clock, length time.Duration) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Title.Padding, p.Title.TextStyle.Font = title, vg.Points(5), face(11)
	p.X.Label.Text, p.Y.Label.Text = k.name, unit
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = face(9), face(8)
	}
	p.X.Min, p.X.Max, p.X.Tick.Marker = 0, k.of(length), plot.TickerFunc(ticks)
	return p
}

// ticks are four to eight round numbers, and one between each two of them.
func ticks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, m := range []float64{5, 2} {
		if (high-low)/(step*m) >= 4 {
			step *= m
			break
		}
	}
	var out []plot.Tick
	for i := math.Ceil(2 * low / step); i*step/2 <= high; i++ {
		t := plot.Tick{Value: i * step / 2}
		if math.Mod(i, 2) == 0 {
			t.Label = strconv.FormatFloat(t.Value, 'g', 6, 64)
		}
		out = append(out, t)
	}
	return out
}

// one is a panel, and what its lines mean.
func (r *record) one(n panel, k clock, length time.Duration) (*plot.Plot, plot.Legend, error) {
	p := empty(n.title, n.unit, k, length)
	p.Add(marks{r.marks, r.kinds(), k}, grid())
	legend := plot.NewLegend()
	legend.Left, legend.Top, legend.Padding, legend.TextStyle.Font, legend.ThumbnailWidth = true, true, vg.Points(3), face(8), vg.Points(14)
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, 1, plot.TickerFunc(ticks)
	if n.log {
		p.Y.Min, p.Y.Max = math.Inf(1), math.Inf(-1)
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	for i, c := range n.curves {
		for j, part := range parts(c.points, r.gap(), n.log) {
			line, err := plotter.NewLine(xys(part, k))
			if err != nil {
				return nil, legend, err
			}
			line.Color, line.Width = hue(i), vg.Points(1.3)
			if i >= len(palette) {
				line.Dashes = []vg.Length{vg.Points(3), vg.Points(2)}
			}
			p.Add(line)
			if j == 0 {
				legend.Add(c.name, line)
			}
		}
	}
	if n.log && p.Y.Min > p.Y.Max {
		p.Y.Min, p.Y.Max = 0.01, 1 // nothing was measured
	}
	p.X.Min, p.X.Max = 0, k.of(length)
	if n.log {
		p.Y.Min, p.Y.Max = p.Y.Min/1.5, p.Y.Max*1.5
	} else {
		p.Y.Max *= 1.06 // the highest line does not lie on the frame
	}
	return p, legend, nil
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	pale := draw.LineStyle{Color: color.Gray{225}, Width: vg.Points(0.5)}
	g.Horizontal, g.Vertical = pale, pale
	return g
}

// gap is the time without a value behind which a line is broken.
func (r *record) gap() time.Duration {
	var steps []float64
	for i := 1; i < len(r.samples); i++ {
		steps = append(steps, float64(r.samples[i].at-r.samples[i-1].at))
	}
	if len(steps) == 0 {
		return time.Hour
	}
	return time.Duration(2.5 * quantile(steps, 0.5))
}

// parts breaks points where some are missing. A lone one becomes a short line. On
// a logarithmic axis only what is over 0 has a place.
func parts(all []point, gap time.Duration, positive bool) [][]point {
	var out [][]point
	for _, p := range all {
		if positive && p.v <= 0 || math.IsNaN(p.v) || math.IsInf(p.v, 0) {
			continue
		}
		if n := len(out); n > 0 && p.at-out[n-1][len(out[n-1])-1].at <= gap {
			out[n-1] = append(out[n-1], p)
			continue
		}
		out = append(out, []point{p})
	}
	for i, part := range out {
		if len(part) == 1 {
			out[i] = append(part, point{part[0].at + gap/8, part[0].v})
		}
	}
	return out
}

func xys(all []point, k clock) plotter.XYs {
	out := make(plotter.XYs, len(all))
	for i, p := range all {
		out[i] = plotter.XY{X: k.of(p.at), Y: p.v}
	}
	return out
}
