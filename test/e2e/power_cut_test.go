package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

var powerRuns = flag.Int("power", 1, "how often the power fails under load")

// blackout has clients at work on a node that dies in the middle of it.
func blackout(t *testing.T, r *rand.Rand, p *place, record string) *clients {
	t.Helper()
	const turns = 50
	n := p.recorded(record)
	nc, err := nats.Connect(n.NATS, nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := &clients{t: t, at: n}
	c.hear(nc)
	c.work(r, turns)
	waiting := 0
	for _, x := range c.told {
		if x.WaitMS > 0 {
			waiting++
		}
	}
	stage := 1 + r.IntN(waiting*3/4)
	poll(t, "enough was answered, and read", func() bool { return c.count() >= stage && c.read.Load() >= 50 })
	n.kill()
	c.wg.Wait()
	return c
}

// TestPowerFailsUnderLoad: what no sync had covered when the machine went is lost, in
// many ways. Nothing that anybody was told is missing, and every call ends as its
// tier demands.
func TestPowerFailsUnderLoad(t *testing.T) {
	t.Parallel()
	r := powerSeed(t, "PowerFailsUnderLoad")
	for range max(*powerRuns, 1) {
		p, record := newPlace(t), filepath.Join(t.TempDir(), "synced.jsonl")
		c := blackout(t, r, p, record)
		for i, how := range []way{wayCut, wayZeros, wayTorn} {
			im := p.leftBy(record)
			im.powerFails(r, how, i == 0)
			n := im.serve()
			if n.Generation != 2 || !strings.Contains(n.log.String(), "a new generation begins") {
				t.Errorf("generation %d; it says %s", n.Generation, n.log.String())
			}
			c.kept(im, n)
			poll(t, "nothing is under way", func() bool {
				return n.measure("sluice_turns_running") == 0 && n.measure("sluice_attempts_running") == 0
			})
			verified(t, im.place, n)
			if t.Failed() {
				t.Fatalf("what was lost:\n\t%v", im)
			}
			t.Logf("%s, %d blocks lost something", how, len(im.cuts))
		}
	}
}

// TestADiskThatLied: also what syncs had covered is lost. The node says so, begins a
// generation where the log now ends, and goes on from there: cursors hear of it, what
// was derived is made anew, no law breaks, and what was lost can be submitted again.
func TestADiskThatLied(t *testing.T) {
	t.Parallel()
	r := powerSeed(t, "ADiskThatLied")
	for range max(*powerRuns, 1) {
		p, record := newPlace(t), filepath.Join(t.TempDir(), "synced.jsonl")
		c := blackout(t, r, p, record)
		for _, logOnly := range []bool{true, false} {
			im := p.leftBy(record)
			im.cutBefore(r, logOnly)
			n := im.serve()
			if n.Generation != 2 || !strings.Contains(n.log.String(), "a new generation begins") {
				t.Errorf("generation %d; it says %s", n.Generation, n.log.String())
			}
			im.rewound(c, n)
			for _, x := range c.told {
				if x.asks() {
					continue // people are asked again, or not: see TestPowerFailsUnderLoad
				}
				x.WaitMS = 0
				n.submit(x.turn)
				if v := n.end(x.Trace, x.Turn); len(v.Messages) != len(x.Calls) {
					t.Errorf("%s/%s: %d answers for %d calls", x.Trace, x.Turn, len(v.Messages), len(x.Calls))
				}
			}
			poll(t, "nothing is under way", func() bool {
				return n.measure("sluice_turns_running") == 0 && n.measure("sluice_attempts_running") == 0
			})
			verified(t, im.place, n)
			if t.Failed() {
				t.Fatalf("what was lost:\n\t%v", im)
			}
		}
	}
}

// rewound holds what an observer hears who had read further than the log now goes.
func (im *image) rewound(c *clients, n *node) {
	im.t.Helper()
	var marker struct {
		Generations []struct {
			First int `json:"first_sequence"`
		}
	}
	text, err := os.ReadFile(filepath.Join(im.data, "sluice.json"))
	if err == nil {
		err = json.Unmarshal(text, &marker)
	}
	if err != nil || len(marker.Generations) != 2 {
		im.t.Fatalf("%s: %v", text, err)
	}
	first := marker.Generations[1].First
	last := positionOf(im.t, c.seen[len(c.seen)-1])
	never := func([]string) bool { return false }
	rest, notices := n.feed("?follow=false", last.text, never)
	if beyond := last.seq >= first; beyond != slices.Contains(notices, "rewound") {
		im.t.Errorf("a cursor at %s, in a log that goes on from %d, hears %v", last.text, first, notices)
	}
	kept := 0
	for _, e := range c.seen {
		if positionOf(im.t, e).seq < first {
			kept++
		}
	}
	all, _ := n.everything() // the node works on meanwhile
	if len(all) < kept+len(rest) || !slices.Equal(c.seen[:kept], all[:kept]) {
		im.t.Fatalf("%d of the %d events that were read are left, %d come anew: the log has %d, and begins otherwise", kept, len(c.seen), len(rest), len(all))
	}
	for i, id := range rest {
		if p := positionOf(im.t, all[kept+i]); p.text != id {
			im.t.Errorf("behind what is left comes %s, want %s", id, p.text)
			break
		}
	}
	im.t.Logf("the log goes on from %d; an observer had read %d events, hears %v, keeps %d and reads %d more", first, len(c.seen), notices, kept, len(rest))
}

// place of an event in the log.
type logPlace struct {
	text            string
	gen, seq, index int
}

func positionOf(t *testing.T, cloudEvent string) (p logPlace) {
	t.Helper()
	var e struct{ Position string }
	if err := json.Unmarshal([]byte(cloudEvent), &e); err != nil {
		t.Fatal(err)
	}
	p.text = e.Position
	if _, err := fmt.Sscanf(p.text, "%d.%d.%d", &p.gen, &p.seq, &p.index); err != nil {
		t.Fatalf("position %q: %v", p.text, err)
	}
	return p
}
