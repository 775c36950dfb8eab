package actors

import (
	"encoding/json"
	"testing"

	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// A turn that waits for a key must not take the room of the turn that holds it.
func TestWaitingForAKeyTakesNoRoom(t *testing.T) {
	charge := testTool("charge", events.Approval, echo)
	charge.Key = func(json.RawMessage) string { return "order-7" }
	b := memlog.New(memlog.Config{}).View("a")
	n := testNode(t, b, func(c *Config) { c.Room = 1 }, charge)
	one := []events.RawCall{{Tool: "charge", Args: events.Body{Text: `{"amount":10}`}}}
	parked := func(turn lifecycle.Turn) bool { return turn.Parked != nil }
	first := submit(t, b, events.TurnSubmitted{Calls: one, CanAsk: true})
	until(t, b, first, "parking for a person", parked)
	second := submit(t, b, events.TurnSubmitted{Calls: one, CanAsk: true})
	until(t, b, second, "parking for the key", parked)
	eventually(t, "an empty memory", func() bool { turns, _ := n.Running(); return turns == 0 })
	as(t, b, first, lifecycle.Approve{Call: 0, By: events.Principal{ID: "boss", Kind: "person"}})
	wantLasts(t, ended(t, b, first), "completed")
	turn := ended(t, b, second)
	wantLasts(t, turn, "deduplicated")
	if d := turn.Calls[0].Terminal.(*events.Deduplicated); d.Of != first.Call(0).String() {
		t.Errorf("deduplicated of %s", d.Of)
	}
}
