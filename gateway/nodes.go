package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// The states of a node.
const (
	NodeLive     = "live"     // it answers
	NodeDraining = "draining" // it answers, and gives its turns back
	NodeSilent   = "silent"   // its presence stands, and it does not answer: hung, cut off, or dead for less than the TTL
	NodeDrained  = "drained"  // it has given its turns back and gone
	NodeGone     = "gone"     // it has no presence and does not answer, and turns name it as their owner
)

// NodeView is a node as the cluster sees it. Its JSON form is what GET /v1/nodes
// and sluice-node nodes --json give.
type NodeView struct {
	Boot  string `json:"boot"`
	Name  string `json:"name,omitempty"`
	State string `json:"state"`
	Owned int    `json:"owned"` // turns that the log says are its own, parked ones not counted
	// Placements that it serves, as it says itself, or its presence.
	Placements []string `json:"placements,omitempty"`

	// What it says of itself; nil where it does not answer, or is of a release that
	// does not tell.
	Says *bus.Status `json:"says,omitempty"`
	// ClockMS is how far its machine's clock is ahead of the asker's time, in
	// milliseconds, give or take ClockErrorMS, and TimeMS the same of the time that it
	// goes by, which is the log's; nil where it was not told.
	ClockMS      *float64 `json:"clock_ms,omitempty"`
	TimeMS       *float64 `json:"time_ms,omitempty"`
	ClockErrorMS float64  `json:"clock_error_ms,omitempty"`
}

// TurnStand is a turn that has not ended.
type TurnStand struct {
	Turn      string    `json:"turn"`  // trace/turn
	State     string    `json:"state"` // running, parked, unclaimed; gone: its owner is
	Boot      string    `json:"boot,omitempty"`
	Epoch     uint32    `json:"epoch,omitempty"`
	Placement string    `json:"placement"`
	Calls     int       `json:"calls"`
	Ended     int       `json:"ended"`             // of them
	Running   []int     `json:"running,omitempty"` // calls with an attempt that is open
	Submitted time.Time `json:"submitted_at"`
	Claimed   time.Time `json:"claimed_at,omitzero"`
	Due       time.Time `json:"due,omitzero"` // of one that is parked; zero: it waits for people only
}

// The states of a turn that has not ended.
const (
	TurnRunning   = "running"
	TurnParked    = "parked"
	TurnUnclaimed = "unclaimed"
	TurnGone      = "gone"
)

// Count is how many turns there are of a kind, and since when the oldest waits.
type Count struct {
	Turns  int       `json:"turns"`
	Oldest time.Time `json:"oldest,omitzero"`
}

func (c *Count) add(at time.Time) {
	c.Turns++
	if c.Oldest.IsZero() || at.Before(c.Oldest) {
		c.Oldest = at
	}
}

// Waiting are the unclaimed turns of one placement.
type Waiting struct {
	Count
	Placement string `json:"placement"`
	Served    bool   `json:"served"` // a node that answers serves it
}

// Crew is who is there, and who has what.
type Crew struct {
	At    time.Time  `json:"at"` // the asker's clock
	Nodes []NodeView `json:"nodes"`

	// Counts of the turns that have not ended; nil where the log was not read.
	Running   *Count    `json:"running,omitempty"`
	Gone      *Count    `json:"gone,omitempty"` // owned by a boot that is gone
	Parked    *Count    `json:"parked,omitempty"`
	Unclaimed *Count    `json:"unclaimed,omitempty"`
	Waiting   []Waiting `json:"waiting,omitempty"` // the unclaimed ones, by placement

	Turns    []TurnStand `json:"turns,omitempty"` // only where they were asked for; oldest first
	Warnings []string    `json:"warnings"`        // what an operator should look at
}

// CrewOptions say what of a Crew is wanted.
type CrewOptions struct {
	Log   bool // count the turns that have not ended: the first time the whole log is read
	Turns bool // name them; implies Log

	// Hello is said to the nodes: of a node that has just begun. The zero value says nothing.
	Hello bus.Who
}

// Bounds of a question to all nodes.
const (
	askPatience = time.Second // for each node
	asksAtOnce  = 32
)

// Crew asks the presence cells, the nodes themselves and, as o says, the log. A node
// that does not answer within a second is silent.
func (d *Desk) Crew(ctx context.Context, o CrewOptions) (Crew, error) {
	o.Log = o.Log || o.Turns
	out := Crew{At: d.now().UTC(), Warnings: []string{}}
	present, err := d.present(ctx)
	if err != nil {
		return out, err
	}
	owners := make(map[string]int)
	var turns []TurnStand
	if o.Log {
		err := d.standing.read(ctx, d.bus, func(key events.TurnKey, t openTurn) {
			s := standOf(key, t)
			turns = append(turns, s)
			if s.State == TurnRunning {
				owners[s.Boot]++
			}
		})
		if err != nil {
			return out, err
		}
	}
	if d.boot != "" {
		owners[d.boot] += 0
	}
	for boot := range owners {
		if _, ok := present[boot]; !ok {
			present[boot] = presence{}
		}
	}
	o.Hello.Turns = o.Turns
	out.Nodes = d.askAll(ctx, present, o.Hello)
	for i := range out.Nodes {
		out.Nodes[i].Owned = owners[out.Nodes[i].Boot]
	}
	if o.Log {
		out.count(turns)
	}
	if o.Turns {
		out.Turns = turns
	}
	out.warn()
	return out, ctx.Err()
}

// presence is what a node's presence cell says.
type presence struct {
	Name       string   `json:"name"`
	Draining   bool     `json:"draining"`
	Placements []string `json:"placements"`

	there bool // there is a cell
}

// Serves says whether the value of a presence cell is of a node that takes turns: it is
// there, and does not drain.
func Serves(value []byte) bool {
	var p presence
	_ = json.Unmarshal(value, &p) // of a release that says it otherwise: it is there all the same
	return !p.Draining
}

func (d *Desk) present(ctx context.Context) (map[string]presence, error) {
	out := make(map[string]presence)
	err := bus.Each(ctx, d.bus.Cells(), bus.BucketPresence, func(c bus.Cell) {
		var p presence
		_ = json.Unmarshal(c.Value, &p) // of a release that says it otherwise: it is there all the same
		p.there = true
		out[c.Key] = p
	})
	return out, err
}

// askAll asks every boot who it is, sorted by name.
func (d *Desk) askAll(ctx context.Context, boots map[string]presence, who bus.Who) []NodeView {
	list := make([]NodeView, 0, len(boots))
	for boot, p := range boots {
		list = append(list, NodeView{Boot: boot, Name: p.Name, Placements: p.Placements})
	}
	slices.SortFunc(list, func(a, b NodeView) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Boot, b.Boot))
	})
	var wg sync.WaitGroup
	places := make(chan struct{}, asksAtOnce)
	for i := range list {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			d.ask(ctx, &list[i], boots[list[i].Boot], who)
		})
	}
	wg.Wait()
	return list
}

// ask asks one boot.
func (d *Desk) ask(ctx context.Context, v *NodeView, p presence, who bus.Who) {
	ctx, stop := context.WithTimeout(ctx, askPatience)
	defer stop()
	sent := d.now()
	note, err := d.bus.Ask(ctx, v.Boot, who.Encode())
	got := d.now()
	switch {
	case err == nil:
		v.State = NodeLive
	case p.Draining && errors.Is(err, bus.ErrUnavailable):
		v.State = NodeDrained
	case p.there:
		v.State = NodeSilent
	default:
		v.State = NodeGone
	}
	if p.Draining && v.State == NodeLive {
		v.State = NodeDraining
	}
	s, told := bus.ParseStatus(note)
	if err != nil || !told || s.Boot != v.Boot {
		return
	}
	v.Says, v.Name, v.Placements = &s, s.Name, s.Placements
	if s.Draining {
		v.State = NodeDraining
	}
	then := sent.Add(got.Sub(sent) / 2)
	clock, goesBy := ms(s.Machine.Sub(then)), ms(s.Now.Sub(then))
	v.ClockMS, v.TimeMS, v.ClockErrorMS = &clock, &goesBy, ms(got.Sub(sent)/2)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func standOf(key events.TurnKey, t openTurn) TurnStand {
	s := TurnStand{
		Turn: key.String(), State: TurnRunning, Boot: t.owner.Boot, Epoch: t.owner.Epoch, Placement: t.placement,
		Calls: t.calls, Ended: t.ended, Running: t.running, Submitted: t.submitted, Claimed: t.claimed, Due: t.due,
	}
	switch {
	case t.parked:
		s.State = TurnParked
	case t.owner.Boot == "":
		s.State = TurnUnclaimed
	}
	return s
}

// count sorts the turns into their kinds, oldest first.
func (c *Crew) count(turns []TurnStand) {
	gone, served := make(map[string]bool), make(map[string]bool)
	for _, n := range c.Nodes {
		gone[n.Boot] = n.State == NodeGone || n.State == NodeDrained
		if n.State == NodeLive {
			for _, p := range n.Placements {
				served[p] = true
			}
		}
	}
	c.Running, c.Gone, c.Parked, c.Unclaimed = new(Count), new(Count), new(Count), new(Count)
	waiting := make(map[string]*Waiting)
	for i := range turns {
		t := &turns[i]
		switch {
		case t.State == TurnParked:
			c.Parked.add(t.Submitted)
		case t.State == TurnUnclaimed:
			c.Unclaimed.add(t.Submitted)
			if waiting[t.Placement] == nil {
				waiting[t.Placement] = &Waiting{Placement: t.Placement, Served: served[t.Placement]}
			}
			waiting[t.Placement].add(t.Submitted)
		case gone[t.Boot]:
			t.State = TurnGone
			c.Gone.add(t.Submitted)
		default:
			c.Running.add(t.Submitted)
		}
	}
	for _, w := range waiting {
		c.Waiting = append(c.Waiting, *w)
	}
	slices.SortFunc(c.Waiting, func(a, b Waiting) int { return strings.Compare(a.Placement, b.Placement) })
	slices.SortFunc(turns, func(a, b TurnStand) int {
		return cmp.Or(a.Submitted.Compare(b.Submitted), strings.Compare(a.Turn, b.Turn))
	})
}

// clockAlarm is how many milliseconds the clocks of a cluster may differ before it is
// worth a word.
const clockAlarm = 1000

func offBy(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond)
}

// warn says what an operator should look at.
func (c *Crew) warn() {
	for _, d := range c.Unlike() {
		c.Warnings = append(c.Warnings, d.Says)
	}
	say := func(format string, args ...any) { c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...)) }
	for _, n := range c.Nodes {
		if n.State == NodeSilent {
			say("node %s (%s) does not answer: it hangs, is cut off, or has just died", n.Name, n.Boot)
		}
	}
	if c.Gone != nil && c.Gone.Turns > 0 {
		say("%d turns are owned by nodes that are gone: others take them over, within their ack-wait at the latest", c.Gone.Turns)
	}
	for _, w := range c.Waiting {
		if !w.Served {
			say("no node that answers serves placement %s, and %d turns wait for one", w.Placement, w.Turns)
		}
	}
}
