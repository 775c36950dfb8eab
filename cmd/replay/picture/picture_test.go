package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	rewrite = flag.Bool("rewrite", false, "write the golden files anew")
	into    = flag.String("into", "", "write every sample into this folder, to be looked at")
)

// golden are the pictures that are kept as files. A change of them is looked at.
var golden = map[string]func() []byte{
	"incident.svg":    func() []byte { return incident().Waterfall() },
	"approval.svg":    func() []byte { return approval().Waterfall() },
	"single.svg":      func() []byte { return single().Waterfall() },
	"hostile.svg":     func() []byte { return hostile().Waterfall() },
	"faults.svg":      func() []byte { return faults().SVG() },
	"many-faults.svg": func() []byte { return manyFaults().SVG() },
	"incident.html":   func() []byte { return document(incident()).Page() },
}

// large are pictures that are too large to be kept.
var large = map[string]func() []byte{
	"empty.svg":           func() []byte { return Trace{}.Waterfall() },
	"empty.html":          func() []byte { return Document{}.Page() },
	"empty-matrix.svg":    func() []byte { return Matrix{}.SVG() },
	"wide.svg":            func() []byte { return wide(200).Waterfall() },
	"wide.html":           func() []byte { return document(wide(200)).Page() },
	"long.svg":            func() []byte { return long(1000).Waterfall() },
	"long.html":           func() []byte { return document(long(1000)).Page() },
	"approval.html":       func() []byte { return document(approval()).Page() },
	"hostile.html":        func() []byte { return document(hostile()).Page() },
	"hostile-matrix.svg":  func() []byte { return hostileMatrix().SVG() },
	"vast-matrix.svg":     func() []byte { return vastMatrix().SVG() },
	"fifty-thousand.svg":  func() []byte { return fiftyThousand().Waterfall() },
	"fifty-thousand.html": func() []byte { return document(fiftyThousand()).Page() },
	"one-turn.svg":        func() []byte { return wide(10_000).Waterfall() },
	"heavy.svg":           func() []byte { return heavy().Waterfall() },
	"heavy.html":          func() []byte { return heavyDocument().Page() },
}

// TestGolden holds every picture against its file, to the byte.
func TestGolden(t *testing.T) {
	for name, draw := range golden {
		t.Run(name, func(t *testing.T) {
			got, path := draw(), filepath.Join("testdata", name)
			if *rewrite {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s has changed: look at it, and run go test ./cmd/replay/picture -rewrite", path)
			}
		})
	}
}

// TestPictures: each is well formed, bounded, drawn the same twice and in another
// time zone, and fetches nothing.
func TestPictures(t *testing.T) {
	for name, draw := range each() {
		t.Run(name, func(t *testing.T) {
			got := drawn(name, draw)
			if *into != "" {
				if err := os.WriteFile(filepath.Join(*into, name), got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if len(got) < MaxPicture/2 && !bytes.Equal(got, draw()) {
				t.Error("drawn twice, it is not the same")
			}
			if filepath.Ext(name) != ".svg" {
				if len(got) > MaxPage {
					t.Errorf("%d bytes, at most %d are allowed", len(got), MaxPage)
				}
				return
			}
			if len(got) > MaxPicture {
				t.Errorf("%d bytes, at most %d are allowed", len(got), MaxPicture)
			}
			checkSVG(t, got)
		})
	}
}

func each() map[string]func() []byte {
	all := map[string]func() []byte{}
	for _, m := range []map[string]func() []byte{golden, large} {
		for name, draw := range m {
			all[name] = draw
		}
	}
	return all
}

var kept = map[string][]byte{}

// drawn is a picture of the samples, drawn once.
func drawn(name string, draw func() []byte) []byte {
	if kept[name] == nil {
		kept[name] = draw()
	}
	return kept[name]
}

// allowed are the elements of a picture.
var allowed = []string{"svg", "title", "desc", "style", "defs", "pattern", "g", "rect", "path", "circle", "text"}

// checkSVG reads a picture as XML: what it is made of, that it can be read aloud,
// and that no coordinate is no number.
func checkSVG(t *testing.T, got []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(got))
	seen := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		seen[e.Name.Local]++
		if !slices.Contains(allowed, e.Name.Local) {
			t.Errorf("it holds %s", e.Name.Local)
		}
		for _, a := range e.Attr {
			if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") || strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
				t.Errorf("%s has %s=%q", e.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
	if seen["svg"] != 1 || seen["style"] != 1 || seen["desc"] != 1 || seen["title"] == 0 {
		t.Errorf("it has %v", seen)
	}
	for _, want := range []string{`role="img" aria-labelledby="sl-title sl-desc"`, "prefers-color-scheme:dark"} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("it lacks %s", want)
		}
	}
}

// TestZone: the same moments in another zone are the same picture.
func TestZone(t *testing.T) {
	there := incident()
	zone := time.FixedZone("elsewhere", -7*3600)
	for i := range there.Turns {
		there.Turns[i].Start = there.Turns[i].Start.In(zone)
		there.Turns[i].calls(func(_ int, _ *Batch, c *Call) bool {
			for j := range c.Events {
				c.Events[j].At = c.Events[j].At.In(zone)
			}
			return true
		})
	}
	if !bytes.Equal(document(there).Page(), document(incident()).Page()) {
		t.Error("the page depends on the zone of the times")
	}
}

// TestSharp: nothing that a stranger wrote reaches a picture as it is.
func TestSharp(t *testing.T) {
	for name, draw := range each() {
		if !strings.HasPrefix(name, "hostile") {
			continue
		}
		got := string(drawn(name, draw))
		for _, bad := range []string{"\x1b", "\u202e", "\x00", "\ufeff", "\ufffe", "<script>alert", "alert(1)</script>", "]]>"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
		if !strings.Contains(got, `\u202e`) {
			t.Errorf("%s does not show that there was something", name)
		}
	}
}

// TestLeftOut: what is left out of a long trace is said, the counts are right, and
// what did not end well is there.
func TestLeftOut(t *testing.T) {
	trace := long(1000)
	got := string(trace.Waterfall())
	var all tally
	bad := 0
	for i := range trace.Turns {
		all.addTurn(&trace.Turns[i])
		trace.Turns[i].calls(func(_ int, _ *Batch, c *Call) bool {
			if c.State == Unknown {
				bad++
			}
			return true
		})
	}
	if n := strings.Count(got, ">unknown</text>"); n != bad || bad == 0 {
		t.Errorf("%d calls that are unknown are drawn, there are %d", n, bad)
	}
	drawn := strings.Count(got, `class="m b f-ink"`)
	left := fmt.Sprintf("Not drawn: %s calls: %s completed.", grouped(all.all()-drawn), grouped(all.all()-drawn))
	if !strings.Contains(got, left) {
		t.Errorf("%d of %d calls are drawn, and it does not say %q", drawn, all.all(), left)
	}
	if drawn > maxCalls {
		t.Errorf("%d calls are drawn", drawn)
	}
}

func hostileMatrix() Matrix {
	m := faults()
	m.Title, m.Subtitle, m.Notes = evil, evil, []string{evil}
	for i := range m.Rows {
		m.Rows[i] = evil
		for j := range m.Cells[i] {
			m.Columns[j] = evil
			m.Cells[i][j].Title = evil
		}
	}
	return m
}

// vastMatrix has more rows, columns and notes than are drawn, and rows of any length.
func vastMatrix() Matrix {
	m := Matrix{Title: strings.Repeat("vast ", 100)}
	for i := range 250 {
		m.Rows = append(m.Rows, fmt.Sprintf("stage %d → %s", i, strings.Repeat("stage", i)))
		m.Columns = append(m.Columns, strings.Repeat("kind", 1+i%20))
		m.Notes = append(m.Notes, strings.Repeat("\"", 1000))
		row := make([]Cell, i)
		for j := range row {
			row[j] = Cell{Counts{Same: i * 1000, Differs: j, Broken: i / 240}, strings.Repeat("&", 1000)}
		}
		m.Cells = append(m.Cells, row)
	}
	return m
}

// fiftyThousand is a trace of 50 000 events.
func fiftyThousand() Trace { return long(6250) }

// heavy is a trace in which each call has more of everything than is drawn, and
// texts that become six times as long when they are escaped.
func heavy() Trace {
	t := Trace{Title: strings.Repeat("\"", 5000)}
	for range 1000 {
		t.Warnings = append(t.Warnings, strings.Repeat("'", 5000))
	}
	quotes := strings.Repeat("\"", 5000)
	var call Call
	for i := range 300 {
		from := time.Duration(i) * ms
		call.Segments = append(call.Segments, Segment{Kind(i % int(kinds)), at(from), at(from + 900*us), quotes, quotes})
		call.Marks = append(call.Marks, Mark{Sign(i % int(signs)), at(from), quotes})
		call.Facts = append(call.Facts, Fact{quotes, quotes})
		call.Events = append(call.Events, Event{quotes, at(from), quotes, quotes, quotes, i%2 == 0})
	}
	call.Tool, call.Hint, call.Status, call.Effects, call.State = quotes, quotes, quotes, quotes, Failed
	for range 100 {
		turn := Turn{Name: quotes, Status: quotes, Segments: call.Segments, Marks: call.Marks, Events: call.Events, Start: zero}
		for range 10 {
			turn.About = append(turn.About, quotes)
			turn.Batches = append(turn.Batches, Batch{Calls: []Call{call, call, call}})
		}
		t.Turns = append(t.Turns, turn)
	}
	return t
}

func heavyDocument() Document {
	d := document(heavy())
	d.Messages = nil
	for range 200 {
		d.Messages = append(d.Messages, Message{d.Trace.Title, d.Trace.Title, strings.Repeat("\x00", 100_000), Failed})
	}
	for range 100 {
		d.Summary = append(d.Summary, Fact{d.Trace.Title, d.Trace.Title})
	}
	return d
}
