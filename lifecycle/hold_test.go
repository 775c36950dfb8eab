package lifecycle

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
)

// TestAToolThatIsHeldOff stays so whatever is reported, until its time; then one
// probe decides, as behind any window.
func TestAToolThatIsHeldOff(t *testing.T) {
	now := time.Date(2026, 11, 30, 5, 0, 0, 0, time.UTC)
	c := BreakerConfig{Window: time.Minute}
	var b Breaker
	b, _ = b.Admit(c, now, "before")
	b = b.Hold(now, now.Add(time.Hour), "ann", "it lies")
	for _, class := range []events.Class{events.ClassOK, events.ClassTool, events.ClassUnavailable, events.ClassTimeout, events.ClassCancelled} {
		b = b.Report(c, now.Add(time.Second), "before", class)
	}
	late := now.Add(time.Hour)
	if b.State(c, late.Add(-1)) != BreakerOpen || b.Peek(c, late.Add(-1)) || b.State(c, late) != BreakerHalfOpen || !b.Ends(c).Equal(late) {
		t.Errorf("%+v is %s just before its time, %s then", b, b.State(c, late.Add(-1)), b.State(c, late))
	}
	if _, ok := b.Admit(c, late.Add(-1), "early"); ok {
		t.Error("a call is let through before its time")
	}
	probing, ok := b.Admit(c, late, "probe")
	if _, second := probing.Admit(c, late, "other"); !ok || second {
		t.Errorf("then a probe: %t, and a second: %t", ok, second)
	}
	if well := probing.Report(c, late, "probe", events.ClassOK); well != (Breaker{}) {
		t.Errorf("after a good probe it is %+v", well)
	}
	ill := probing.Report(c, late, "probe", events.ClassTimeout)
	if ill.By != "" || ill.Reason != "" || !ill.Ends(c).Equal(late.Add(time.Minute)) {
		t.Errorf("after a bad probe it is %+v", ill)
	}
}

// TestAHoldTakesTheProbesSlot: what it reports later decides nothing.
func TestAHoldTakesTheProbesSlot(t *testing.T) {
	now := time.Date(2026, 11, 30, 5, 0, 0, 0, time.UTC)
	c := BreakerConfig{}
	b := Breaker{Failures: 3, OpenedAt: now.Add(-BreakerWindow)}
	b, ok := b.Admit(c, now, "probe")
	if !ok {
		t.Fatal("no probe is let through")
	}
	held := b.Hold(now, now.Add(time.Hour), "ann", "")
	if after := held.Report(c, now, "probe", events.ClassOK); after.State(c, now) != BreakerOpen {
		t.Errorf("the probe's success has made it %s", after.State(c, now))
	}
	if (Breaker{}).Ends(c) != (time.Time{}) {
		t.Error("a closed one ends")
	}
}

func TestUndoNamesItsCall(t *testing.T) {
	call := events.TurnKey{Trace: "t", Turn: "u"}.Call(3)
	raw := Undo(call, `a "reason"`)
	args, err := Parse(raw.Args.Text)
	if err != nil {
		t.Fatal(err)
	}
	if of, ok := UndoOf(args.JSON); !ok || of != call || raw.Tool != UndoTool {
		t.Errorf("%+v is about %v, %t", raw, of, ok)
	}
	for _, bad := range []string{`{}`, `{"call":"t/u"}`, `{"call":7}`, `nonsense`} {
		if of, ok := UndoOf([]byte(bad)); ok {
			t.Errorf("%s is about %v", bad, of)
		}
	}
}
