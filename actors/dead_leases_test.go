package actors

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// TestADeadNodesLeasesOfEndedCalls are given back at its death: nobody takes those calls
// over. What open calls have, and what others do, stays, whatever this node's clock says.
func TestADeadNodesLeasesOfEndedCalls(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{AckWait: time.Hour})
	b := l.View("old")
	n := testNode(t, l.View("n"), func(c *Config) { c.Presence, c.Sweep = time.Second, -1 }, testTool("echo", events.Readonly, echo))
	over := submit(t, b, events.TurnSubmitted{Calls: calls("echo")})
	wantLasts(t, ended(t, b, over), "completed")
	open := submit(t, b, events.TurnSubmitted{Calls: calls("echo"), Placement: "elsewhere"}).Call(0).String()
	past := time.Now().Add(-time.Hour).UTC()
	hold := func(call, boot string) lifecycle.Hold {
		return lifecycle.Hold{Call: call, Boot: boot, Slots: 3, Until: past}
	}
	ended, gone, none := over.Call(0).String(), over.Call(7).String(), "a/b/0"
	mine, others := hold(open, "old"), hold(ended, "another")
	rows := []struct {
		cell      string
		was, want any
	}{
		{bus.LimitCell(bus.SlotCells, "few", ""), lifecycle.LockState{
			Holds:   []lifecycle.Hold{hold(ended, "old"), mine, others},
			Waiting: []lifecycle.Hold{hold(ended, "old"), others},
		}, lifecycle.LockState{Holds: []lifecycle.Hold{mine, others}, Waiting: []lifecycle.Hold{others}}},
		{lockCell("a lock"), lifecycle.LockState{Holds: []lifecycle.Hold{hold(ended, "old")}}, nil},
		{lockCell("another lock"), lifecycle.LockState{Holds: []lifecycle.Hold{others}}, lifecycle.LockState{Holds: []lifecycle.Hold{others}}},
		{
			lockCell("of nobody's"),
			lifecycle.LockState{Holds: []lifecycle.Hold{hold(gone, "old"), hold(none, "old"), hold("?", "old")}},
			lifecycle.LockState{Holds: []lifecycle.Hold{hold(gone, "old"), hold(none, "old"), hold("?", "old")}},
		},
		{bus.LimitCell(bus.RateCells, "few", ""), lifecycle.RateState{}, lifecycle.RateState{}},
		{"other", "no object", "no object"},
	}
	for _, row := range rows {
		value, err := json.Marshal(row.was)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Cells().Put(t.Context(), bus.BucketLock, row.cell, value, 0, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	sayHere(t, b, "old", here{}, 2*time.Second)
	eventually(t, "a lock of the dead", func() bool {
		_, err := b.Cells().Get(t.Context(), bus.BucketLock, lockCell("a lock"))
		return errors.Is(err, bus.ErrNotFound)
	})
	if err := n.freeDead("old"); err != nil { // once more changes nothing, and all is done behind it
		t.Fatal(err)
	}
	for _, row := range rows {
		c, err := b.Cells().Get(t.Context(), bus.BucketLock, row.cell)
		var want []byte
		if row.want != nil && err == nil {
			want, err = json.Marshal(row.want)
		}
		if row.want != nil && err != nil || string(c.Value) != string(want) {
			t.Errorf("%s is %s, want %s (%v)", row.cell, c.Value, want, err)
		}
	}
}
