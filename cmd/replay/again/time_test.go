package again_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
)

// clock is the real one, put forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) forward(d time.Duration) { c.ahead.Add(int64(d)) }

// counted counts how often a policy is asked.
type counted struct {
	policy.Authorizer
	times atomic.Int64
}

func (c *counted) Authorize(r policy.Request) policy.Verdict {
	c.times.Add(1)
	return c.Authorizer.Authorize(r)
}

func cedarOf(t *testing.T, format string, args ...any) *cedar.Set {
	t.Helper()
	s, err := cedar.Load([]cedar.File{{Name: "window.cedar", Text: fmt.Appendf(nil, format, args...)}}, cedar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instant is a time as Cedar writes it.
func instant(at time.Time) string {
	return fmt.Sprintf("datetime(%q)", at.UTC().Format("2006-01-02T15:04:05.000Z"))
}

const anything = "@id(\"all\") permit (principal, action, resource);\n"

// window lets calls through after a yes until a time, and not at all from then on.
func window(t *testing.T, end time.Time) *cedar.Set {
	t.Helper()
	return cedarOf(t, anything+`
@id("ask") @ask("Somebody must look.") permit (principal, action, resource == Tool::"charge") when { context.time < %[1]s };
@id("over") @reason("The window is over.") forbid (principal, action, resource == Tool::"charge") when { context.time >= %[1]s };`, instant(end))
}

// asking is a house where a charge waits for a person.
func asking(t *testing.T, by policy.Authorizer, c *clock) (*house, events.TurnKey) {
	t.Helper()
	h := newHouseBy(t, by, false, c.now)
	key := h.run("w", events.TurnSubmitted{CanAsk: true, Calls: []events.RawCall{raw("charge", `{"order":"o1","amount":3}`)}})
	h.until(key, func(t lifecycle.Turn) bool { return t.Parked != nil && len(t.Parked.Waiting) == 1 })
	return h, key
}

func lastOf(log []bus.Stored, call int) events.Event {
	var last events.Event
	for _, s := range log {
		for _, r := range s.Commit.Records {
			if r.Call == call {
				last = r.Event
			}
		}
	}
	return last
}

// A yes that comes after the window has closed lets nothing through: the call is judged
// again as it begins. The log says for which moments it was judged, so that the same
// policy decides the same of it ever after.
func TestAYesBehindTheEndOfAWindow(t *testing.T) {
	c := &clock{}
	end := c.now().Add(time.Hour)
	by := &counted{Authorizer: window(t, end)}
	h, key := asking(t, by, c)
	c.forward(2 * time.Hour)
	h.say(key, lifecycle.Approve{Call: 0, By: ann})
	h.until(key, ended)

	log := h.load(key)
	d, ok := lastOf(log, 0).(*events.Denied)
	if !ok || d.Reason != "The window is over." || !slices.Equal(d.Policies, []string{"over"}) || d.Judged.Before(end) || d.Code != events.PermissionDenied {
		t.Fatalf("%+v", lastOf(log, 0))
	}
	if by.times.Load() != 2 {
		t.Errorf("the policy was asked %d times, want as it was planned and as it began", by.times.Load())
	}
	for _, strict := range []bool{false, true} {
		r := again.Turn(key, log, again.Config{Policy: window(t, end), Strict: strict})
		if r.Difference != nil || r.Decided != r.Events || len(r.Notes) > 0 {
			t.Errorf("strict %t: %v, %+v", strict, r.Difference, r.Notes)
		}
	}
	longer := again.Turn(key, log, again.Config{Policy: window(t, end.Add(24*time.Hour))})
	if longer.Difference == nil || !strings.Contains(longer.Difference.String(), "recorded denied PERMISSION_DENIED by authorize, would decide started attempt 1") {
		t.Errorf("with a longer window: %v", longer.Difference)
	}
	s := survey(again.Config{Policy: window(t, end)}, again.Selection{}, log...)
	if s.Changed != 0 || s.Same != 1 {
		t.Errorf("%+v", s)
	}
	if s = survey(again.Config{Policy: window(t, time.Unix(0, 0))}, again.Selection{}, log...); s.Changed != 1 || s.Groups[0].To != again.Denied {
		t.Errorf("%+v", s)
	}
}

// In time it holds, and is judged as it begins all the same.
func TestAYesInTime(t *testing.T) {
	c := &clock{}
	end := c.now().Add(time.Hour)
	by := &counted{Authorizer: window(t, end)}
	h, key := asking(t, by, c)
	h.say(key, lifecycle.Approve{Call: 0, By: ann})
	h.until(key, ended)
	if _, ok := lastOf(h.load(key), 0).(*events.Completed); !ok || by.times.Load() != 2 {
		t.Errorf("%+v, asked %d times", lastOf(h.load(key), 0), by.times.Load())
	}
	log := h.load(key)
	for _, conf := range []again.Config{{Policy: window(t, end)}, {Policy: window(t, end), Strict: true}, {}, {Strict: true}} {
		if r := again.Turn(key, log, conf); r.Difference != nil || r.Decided != r.Events {
			t.Errorf("strict %t: %v", conf.Strict, r.Difference)
		}
	}
	var judged time.Time
	for _, s := range log {
		for _, r := range s.Commit.Records {
			if v, ok := r.Event.(*events.Started); ok {
				judged = v.Judged
			}
		}
	}
	if judged.IsZero() || !judged.Before(end) {
		t.Fatalf("it started as judged at %s", judged)
	}
	// A window that closed between the plan and the start would have kept it from starting.
	r := again.Turn(key, log, again.Config{Policy: window(t, judged)})
	if r.Difference == nil || !strings.Contains(r.Difference.String(), "recorded started attempt 1, would decide denied PERMISSION_DENIED by authorize: The window is over.") {
		t.Errorf("%v", r.Difference)
	}
}

// A yes to one reason is none to another one that the time has brought.
func TestAYesToAnotherReason(t *testing.T) {
	c := &clock{}
	end := instant(c.now().Add(time.Hour))
	by := cedarOf(t, anything+`
@id("day") @ask("Routine.") permit (principal, action, resource == Tool::"charge") when { context.time < %[1]s };
@id("night") @ask("Nobody is at the desk now.") permit (principal, action, resource == Tool::"charge") when { context.time >= %[1]s };`, end)
	h, key := asking(t, by, c)
	c.forward(2 * time.Hour)
	h.say(key, lifecycle.Approve{Call: 0, By: ann})
	h.until(key, func(t lifecycle.Turn) bool {
		call := t.Calls[0]
		return call.Phase == lifecycle.PhaseAsking && lifecycle.ReasonOf(call.Asked) == "Nobody is at the desk now."
	})
	h.say(key, lifecycle.Approve{Call: 0, By: ann})
	h.until(key, ended)
	log := h.load(key)
	if _, ok := lastOf(log, 0).(*events.Completed); !ok {
		t.Errorf("%+v", lastOf(log, 0))
	}
	for _, now := range []again.Config{{}, {Policy: by, Strict: true}} {
		if r := again.Turn(key, log, now); r.Difference != nil || r.Decided != r.Events || len(r.Notes) > 0 {
			t.Errorf("%v %v", r.Difference, r.Notes)
		}
	}
	older := 0 // releases did not tell what had changed
	for _, s := range log {
		for _, r := range s.Commit.Records {
			if a, ok := r.Event.(*events.ApprovalRequested); ok && a.Why != lifecycle.ReasonOf(a) {
				a.Why = lifecycle.ReasonOf(a)
				older++
			}
		}
	}
	for _, now := range []again.Config{{}, {Policy: by, Strict: true}} {
		if r := again.Turn(key, log, now); older != 1 || r.Difference != nil || r.Decided != r.Events || len(r.Notes) > 0 {
			t.Errorf("%d askings as of an older release: %v %v", older, r.Difference, r.Notes)
		}
	}
}

// A policy that does not look at the time is asked once, and its verdicts name no moment.
func TestWithoutTimeAVerdictHolds(t *testing.T) {
	c := &clock{}
	by := &counted{Authorizer: cedarOf(t, anything+`@id("ask") @ask("Look.") permit (principal, action, resource == Tool::"charge");`)}
	h, key := asking(t, by, c)
	c.forward(2 * time.Hour)
	h.say(key, lifecycle.Approve{Call: 0, By: ann})
	h.until(key, ended)
	if by.times.Load() != 1 {
		t.Errorf("asked %d times", by.times.Load())
	}
	for _, s := range h.load(key) {
		for _, r := range s.Commit.Records {
			if a, ok := r.Event.(*events.Authorized); ok && !a.Verdict.Judged.IsZero() {
				t.Errorf("%+v", a.Verdict)
			}
		}
	}
}
