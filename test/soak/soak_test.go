package main

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) {
	cluster.Main() // servers are this program, too
	flag.Parse()
	leaks.Main(m)
}

var long = flag.Duration("soak", 10*time.Second, "how long the load of the soak in the tests lasts")

// TestAShortSoak: one node that is killed once, under load. Everything ends once,
// and what was measured is drawn and written. On a machine that does much else it is
// measured seldom, and then a longer one has to be judged.
func TestAShortSoak(t *testing.T) {
	for lasts := *long; ; lasts *= 3 {
		unjudged := soaked(t, lasts)
		if len(unjudged) == 0 {
			return
		}
		if t.Failed() || lasts > 9**long {
			t.Fatalf("%v of load: %q are not judged", lasts, unjudged)
		}
		t.Logf("%v of load: %q are not judged", lasts, unjudged)
	}
}

// soaked is one soak. It returns what was measured too seldom to be judged.
func soaked(t *testing.T, lasts time.Duration) (unjudged []string) {
	t.Helper()
	var said bytes.Buffer
	c := config{
		duration: lasts, seed: 11, out: t.TempDir(), embedded: true, rate: 6, pace: lasts / 2, every: 500 * time.Millisecond,
		commit: "a test", say: &said, faults: []fault{{"kill a node", killNode}},
	}
	if err := os.Mkdir(filepath.Join(c.out, "house"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, o, keepers, err := run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(c.out, "house", "node.log"))
			t.Logf("%s\nthe node's log:\n%.20000s", said.String(), log)
		}
	})
	all := append(o.account(), r.emptied()...)
	for _, f := range all {
		if !f.ok {
			t.Error(f)
		}
	}
	if len(r.marks) == 0 || len(o.calls) < 20 || len(o.ledger) == 0 || len(r.samples) < 10 {
		unjudged = append(unjudged, fmt.Sprintf("%d faults, %d calls, %d effects, %d samples", len(r.marks), len(o.calls), len(o.ledger), len(r.samples)))
	}
	flat := r.judge(keepers) // in so short a time nothing has to be flat, but all has to be judged
	for _, name := range []string{"rss.node", "heap.node", "goroutines.node", "files.node", "turns.node", "lag.read", "load.open", "goroutines.node at rest", "files.node at rest"} {
		if !slices.ContainsFunc(flat, func(f finding) bool { return f.what == name && strings.Contains(f.says, "→") }) {
			unjudged = append(unjudged, name)
		}
	}
	if len(unjudged) > 0 {
		return unjudged
	}
	if _, err := c.leave(r, "a verdict", true); err != nil {
		t.Fatal(err)
	}
	drawn(t, filepath.Join(c.out, "soak.png"))
	written(t, filepath.Join(c.out, "soak.csv"), len(r.samples))
	return nil
}

// written holds a table against what it has to have.
func written(t *testing.T, path string, samples int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != samples+1 {
		t.Errorf("%d rows for %d samples", len(rows), samples)
	}
	for _, col := range []string{"seconds", "phase", "faults", "rss.node", "goroutines.node", "bytes.SLUICE", "lag.read", "load.p50"} {
		at := slices.Index(rows[0], col)
		if at < 0 {
			t.Errorf("no column %s in %v", col, rows[0])
			continue
		}
		if !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[at] != "" }) {
			t.Errorf("column %s is empty", col)
		}
	}
}

// drawn holds a picture against what it has to have: its size, and something in
// every panel beside white paper.
func drawn(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	panelsDrawn(t, img)
}

func panelsDrawn(t *testing.T, img image.Image) {
	t.Helper()
	if img.Bounds().Dx() != pictureWidth || img.Bounds().Dy() != pictureHeight {
		t.Fatalf("the picture is %v", img.Bounds())
	}
	const rows, top = 6, 80
	wide, high := pictureWidth/pictureCols, (pictureHeight-top)/rows
	for i := range rows * pictureCols {
		x, y := i%pictureCols*wide, top+i/pictureCols*high
		ink, hues := 0, 0
		for dx := range wide {
			for dy := range high {
				c := color.NRGBAModel.Convert(img.At(x+dx, y+dy)).(color.NRGBA)
				if c.R < 128 && c.G < 128 && c.B < 128 {
					ink++
				}
				if max(c.R, c.G, c.B)-min(c.R, c.G, c.B) > 60 {
					hues++
				}
			}
		}
		if ink < 200 || hues < 20 {
			t.Errorf("panel %d has %d dark and %d coloured pixels", i, ink, hues)
		}
	}
}

// TestAPictureOfNothing: a soak that was broken off at once can be drawn.
func TestAPictureOfNothing(t *testing.T) {
	for _, r := range []*record{{title: "nothing"}, {title: "one", samples: []sample{{at: time.Second, values: map[string]float64{"rss.n1": 1, loadP50: 0}}}}} {
		if err := r.picture(io.Discard, "no verdict", false); err != nil {
			t.Error(err)
		}
	}
}

func TestTheCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"":                  "",
		"-embedded -seed 7": "",
		"-servers 2":        "use 1 or 3",
		"-nodes 1":          "use -embedded",
		"-duration 1s":      "use 5s or more",
		"-rate 0":           "-rate 0",
		"-faults 1ms":       "use 1s or more",
		"quickly":           "flags alone",
	} {
		c, err := parse(strings.Fields(line), io.Discard)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
		if err == nil && (c.seed == 0 || c.commit == "") {
			t.Errorf("%q: %+v", line, c)
		}
	}
}
