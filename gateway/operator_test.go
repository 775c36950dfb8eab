package gateway

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// TestDoorsAreCounted: what a desk appends is in the metrics of its node.
func TestDoorsAreCounted(t *testing.T) {
	d, _ := newDesk(t)
	m := NewMetrics(MetricsConfig{Known: func(string) bool { return true }})
	d.seen = m.Committed
	o := newOwner(t, d.bus)
	_, err := d.Submit(within(t), key1, echo(`{"v":1}`, `{"v":2}`))
	must(t, err)
	_, err = d.Submit(within(t), key1, echo(`{"v":1}`, `{"v":2}`)) // attaches: nothing is appended
	must(t, err)
	o.take()
	o.judge(0, events.Approval)
	o.judge(1, events.Approval)
	must(t, d.Approve(within(t), key1.Call(0), Approval{}))
	must(t, d.Reject(within(t), key1.Call(1), events.Principal{}, "no"))
	_, err = d.CancelTurn(within(t), key1, events.Principal{}, "")
	must(t, err)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	shown := w.Body.String()
	for _, want := range []string{
		`sluice_events_total{kind="turn_submitted"} 1`, `sluice_events_total{kind="approved"} 1`, `sluice_events_total{kind="denied"} 1`,
		`sluice_events_total{kind="turn_cancel_requested"} 1`, `sluice_calls_ended_total{kind="denied",tool="echo"} 1`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %s in\n%s", want, shown)
		}
	}
	if strings.Contains(shown, `sluice_events_total{kind="turn_claimed"} 1`) {
		t.Error("what others have appended is counted, too")
	}
}

// TestResolveSaysWhatItMeans, and who says otherwise later hears who was first.
func TestResolveSaysWhatItMeans(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	_, err := d.Submit(within(t), key1, echo(`{"v":1}`, `{"v":2}`, `{"v":3}`, `{"v":4}`))
	must(t, err)
	o.take()
	for i, e := range []events.Effects{events.EffectsPossible, events.EffectsPossible, events.EffectsNone} {
		v := events.Verdict{Tier: events.Irreversible}
		if i == 0 {
			v.Key = "agent echo k"
		}
		o.through(i, v)
		o.fails(i, e, "x")
	}
	ann, bob := events.Principal{ID: "ann"}, events.Principal{ID: "bob"}
	r, err := d.Resolve(within(t), key1.Call(0), ann, events.EffectsNone, "looked")
	if err != nil || r.Status != "resolved" || r.Effects != events.EffectsNone || r.By.ID != "ann" || r.Key != KeyFree {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = d.Resolve(within(t), key1.Call(0), bob, events.EffectsNone, "")
	if err != nil || r.By.ID != "ann" {
		t.Errorf("the same again: %+v, %v", r, err)
	}
	r, err = d.Resolve(within(t), key1.Call(1), ann, events.EffectsDone, "")
	if err != nil || r.Key != "" {
		t.Errorf("without a key: %+v, %v", r, err)
	}
	for call, want := range map[int]string{
		0: "ann has resolved it as none already, and that stands",
		2: "it ended as failed, and its effects are known: none",
		3: "nothing to resolve yet: it has not ended, it is requested",
	} {
		if _, err := d.Resolve(within(t), key1.Call(call), bob, events.EffectsDone, ""); !errors.Is(err, lifecycle.ErrNothing) || !strings.Contains(err.Error(), want) {
			t.Errorf("call %d: %v", call, err)
		}
	}
	if _, err := d.Resolve(within(t), key1.Call(9), bob, events.EffectsDone, ""); !errors.Is(err, lifecycle.ErrNoCall) {
		t.Errorf("%v", err)
	}
}

// TestCircuits are shown, closed and opened; who is slower reads anew.
func TestCircuits(t *testing.T) {
	d, _ := newDesk(t)
	cfg := lifecycle.BreakerConfig{Failures: 2, Window: time.Minute}
	now := time.Now().UTC()
	put := func(tool string, b lifecycle.Breaker) {
		t.Helper()
		value, err := json.Marshal(b)
		must(t, err)
		_, err = d.bus.Cells().Put(within(t), bus.BucketBreaker, bus.Token(tool), value, 0, 0)
		must(t, err)
	}
	put("mcp:down", lifecycle.Breaker{Failures: 2, OpenedAt: now})
	put("half", lifecycle.Breaker{Failures: 5, OpenedAt: now.Add(-time.Hour), Probe: "t/u/0 boot", ProbeEnd: now.Add(time.Minute)})
	put("stale", lifecycle.Breaker{Failures: 5, OpenedAt: now.Add(-time.Hour), Probe: "t/u/0 boot", ProbeEnd: now.Add(-time.Minute)})
	_, err := d.bus.Cells().Put(within(t), bus.BucketBreaker, "broken", []byte("no JSON"), 0, 0)
	must(t, err)
	list, err := d.Circuits(within(t), cfg)
	must(t, err)
	if len(list) != 4 || list[0].Tool != "broken" || list[0].State != lifecycle.BreakerClosed || list[2].Tool != "mcp:down" {
		t.Fatalf("%+v", list)
	}
	if half := list[1]; half.State != lifecycle.BreakerHalfOpen || half.Probe != "t/u/0" || half.Boot != "boot" {
		t.Errorf("%+v", half)
	}
	if stale := list[3]; stale.Probe != "" {
		t.Errorf("%+v", stale)
	}
	if down := list[2]; down.State != lifecycle.BreakerOpen || !down.Until.Equal(now.Add(time.Minute)) {
		t.Errorf("%+v", down)
	}
	was, err := d.ResetCircuit(within(t), cfg, "mcp:down")
	if err != nil || was.State != lifecycle.BreakerOpen {
		t.Errorf("%+v, %v", was, err)
	}
	if c, err := d.Circuit(within(t), cfg, "mcp:down"); err != nil || c.State != lifecycle.BreakerClosed || c.Failures != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if was, err = d.ResetCircuit(within(t), cfg, "never"); err != nil || SwitchedOff(was).Status != "already_closed" {
		t.Errorf("%+v, %v", was, err)
	}
	if _, err := d.OpenCircuit(within(t), cfg, "never", time.Hour, events.Principal{ID: "ann"}, "it lies"); err != nil {
		t.Error(err)
	}
	if c, err := d.Circuit(within(t), cfg, "never"); err != nil || c.State != lifecycle.BreakerOpen || c.By != "ann" || c.Reason != "it lies" || time.Until(c.Until) < 59*time.Minute {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"", "a b", "../x", strings.Repeat("x", 65), "é"} {
		if _, err := d.ResetCircuit(within(t), cfg, bad); problemOf(err).Status != 400 {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, off := range []time.Duration{0, -time.Hour, MinOff - 1, MaxOff + 1} {
		if _, err := d.OpenCircuit(within(t), cfg, "x", off, events.Principal{}, ""); problemOf(err).Status != 400 {
			t.Errorf("%v: %v", off, err)
		}
	}
}

// TestHTTPOperator is nodes and circuits at the door.
func TestHTTPOperator(t *testing.T) {
	d := newDoor(t, func(c *APIConfig) { c.Breaker = lifecycle.BreakerConfig{Window: time.Hour} })
	d.want(200, `"nodes":[],"running":{"turns":0}`, "GET", "/v1/nodes", ``)
	d.want(200, `"nodes":[],"warnings":[]}`, "GET", "/v1/nodes?log=false", ``)
	d.want(400, "say true or false", "GET", "/v1/nodes?turns=perhaps", ``)
	d.want(400, "known here: turns, log", "GET", "/v1/nodes?all=true", ``)
	d.want(200, `{"breakers":[]}`, "GET", "/v1/breakers", ``)
	d.want(200, `{"tool":"echo","state":"closed","failures":0}`, "GET", "/v1/breakers/echo", ``)
	d.want(200, `"status":"already_closed"`, "POST", "/v1/breakers/echo/reset", ``)
	d.want(400, "say for how long: 1000 to", "POST", "/v1/breakers/echo/open", `{}`)
	d.want(400, "unknown field", "POST", "/v1/breakers/echo/open", `{"for":"1h"}`)
	d.want(200, `{"tool":"echo","status":"open","was":{"tool":"echo","state":"closed","failures":0}}`, "POST", "/v1/breakers/echo/open", `{"for_ms":60000,"principal":"ann","reason":"x"}`)
	d.want(200, `"opened_by":"ann","reason":"x"`, "GET", "/v1/breakers", ``)
	d.want(200, `{"tool":"echo","status":"closed","was":{"tool":"echo","state":"open"`, "POST", "/v1/breakers/echo/reset", `{}`)
	d.want(405, "use POST", "GET", "/v1/breakers/echo/reset", ``)
	d.want(400, "name a tool", "POST", "/v1/breakers/a%20b/reset", ``)
}
