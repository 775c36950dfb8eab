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
	of := func(tool, endpoint string) lifecycle.Circuit { return lifecycle.Circuit{Tool: tool, Of: endpoint} }
	put := func(c lifecycle.Circuit, b lifecycle.Breaker) {
		t.Helper()
		value, err := json.Marshal(b)
		must(t, err)
		_, err = d.bus.Cells().Put(within(t), bus.BucketBreaker, bus.CircuitCell(c.Tool, c.Of), value, 0, 0)
		must(t, err)
	}
	put(of("mcp:down", ""), lifecycle.Breaker{Failures: 2, OpenedAt: now})
	put(of("half", ""), lifecycle.Breaker{Failures: 5, OpenedAt: now.Add(-time.Hour), Probe: "t/u/0 boot", ProbeEnd: now.Add(time.Minute)})
	put(of("stale", ""), lifecycle.Breaker{Failures: 5, OpenedAt: now.Add(-time.Hour), Probe: "t/u/0 boot", ProbeEnd: now.Add(-time.Minute)})
	_, err := d.bus.Cells().Put(within(t), bus.BucketBreaker, "broken", []byte("no JSON"), 0, 0)
	must(t, err)
	list, err := d.Circuits(within(t), cfg)
	must(t, err)
	if len(list) != 3 || list[0].Tool != "half" || list[1].Tool != "mcp:down" || list[2].Tool != "stale" { // what cannot be read is closed
		t.Fatalf("%+v", list)
	}
	if half := list[0]; half.State != lifecycle.BreakerHalfOpen || half.Probe != "t/u/0" || half.Boot != "boot" {
		t.Errorf("%+v", half)
	}
	if stale := list[2]; stale.Probe != "" {
		t.Errorf("%+v", stale)
	}
	if down := list[1]; down.State != lifecycle.BreakerOpen || !down.Until.Equal(now.Add(time.Minute)) {
		t.Errorf("%+v", down)
	}
	done, err := d.ResetCircuit(within(t), cfg, of("mcp:down", ""), events.Principal{ID: "bob"})
	if err != nil || done.Was.State != lifecycle.BreakerOpen || done.Status != "closed" || done.Endpoints != 0 || done.By.ID != "bob" || done.By.Kind != "person" {
		t.Errorf("%+v, %v", done, err)
	}
	if c, err := d.Circuit(within(t), cfg, of("mcp:down", "")); err != nil || c.State != lifecycle.BreakerClosed || c.Failures != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if done, err = d.ResetCircuit(within(t), cfg, of("never", ""), events.Principal{ID: "bob"}); err != nil || done.Status != "already_closed" {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := d.OpenCircuit(within(t), cfg, of("never", ""), time.Hour, events.Principal{ID: "ann"}, "it lies sk-AAAAAAAAAAAAAAAAAAAAAAAA"); err != nil {
		t.Error(err)
	}
	if c, err := d.Circuit(within(t), cfg, of("never", "")); err != nil || c.State != lifecycle.BreakerOpen || c.By != "ann" || !strings.HasPrefix(c.Reason, "it lies ") || strings.Contains(c.Reason, "AAAA") || time.Until(c.Until) < 59*time.Minute {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []lifecycle.Circuit{
		{},
		of("a b", ""), of("../x", ""), of(strings.Repeat("x", 65), ""), of("é", ""),
		of("x", "a b"), of("x", "é"), of("x", "a\x1b[2J"), of("x", strings.Repeat("/", bus.MaxCircuit)), of("", "https://a.example"),
	} {
		if _, err := d.ResetCircuit(within(t), cfg, bad, events.Principal{ID: "bob"}); problemOf(err).Status != 400 {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, off := range []time.Duration{0, -time.Hour, MinOff - 1, MaxOff + 1} {
		if _, err := d.OpenCircuit(within(t), cfg, of("x", ""), off, events.Principal{}, ""); problemOf(err).Status != 400 {
			t.Errorf("%v: %v", off, err)
		}
	}
}

// TestCircuitsOfEndpoints: each is shown, opened and closed by itself; a reset of their
// tool closes them all, and those of no other tool.
func TestCircuitsOfEndpoints(t *testing.T) {
	d, _ := newDesk(t)
	cfg := lifecycle.BreakerConfig{}
	a, b := lifecycle.Circuit{Tool: "Fetch", Of: "https://a.example"}, lifecycle.Circuit{Tool: "Fetch", Of: "http://b.example:8080"}
	other := lifecycle.Circuit{Tool: "Fetch_", Of: a.Of}
	for _, c := range []lifecycle.Circuit{other, b, a} {
		if _, err := d.OpenCircuit(within(t), cfg, c, time.Hour, events.Principal{ID: "ann"}, ""); err != nil {
			t.Fatal(err)
		}
	}
	open := func() string {
		t.Helper()
		list, err := d.Circuits(within(t), cfg)
		must(t, err)
		var out []string
		for _, c := range list {
			if c.State == lifecycle.BreakerOpen {
				out = append(out, lifecycle.Circuit{Tool: c.Tool, Of: c.Circuit}.String())
			}
		}
		return strings.Join(out, ", ")
	}
	if got := open(); got != "Fetch http://b.example:8080, Fetch https://a.example, Fetch_ https://a.example" {
		t.Fatal(got)
	}
	if whole, err := d.Circuit(within(t), cfg, a.Own()); err != nil || whole.State != lifecycle.BreakerClosed {
		t.Errorf("%+v, %v", whole, err)
	}
	if done, err := d.ResetCircuit(within(t), cfg, a, events.Principal{ID: "bob"}); err != nil || done.Status != "closed" || done.Circuit != a.Of || done.Was.By != "ann" {
		t.Errorf("%+v, %v", done, err)
	}
	if got := open(); got != "Fetch http://b.example:8080, Fetch_ https://a.example" {
		t.Error(got)
	}
	if done, err := d.ResetCircuit(within(t), cfg, a.Own(), events.Principal{ID: "bob"}); err != nil || done.Status != "closed" || done.Endpoints != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if done, err := d.ResetCircuit(within(t), cfg, a.Own(), events.Principal{ID: "bob"}); err != nil || done.Status != "already_closed" || open() != "Fetch_ https://a.example" {
		t.Errorf("%+v, %v, %s", done, err, open())
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
	d.want(200, `{"tool":"echo","status":"open","by":{"id":"ann","kind":"person","via":"loopback"},"was":{"tool":"echo","state":"closed","failures":0}}`, "POST", "/v1/breakers/echo/open", `{"for_ms":60000,"principal":"ann","reason":"x"}`)
	d.want(200, `"opened_by":"ann","reason":"x"`, "GET", "/v1/breakers", ``)
	d.want(200, `{"tool":"echo","status":"closed","by":{"id":"operator","kind":"person","via":"loopback"},"was":{"tool":"echo","state":"open"`, "POST", "/v1/breakers/echo/reset", `{}`)
	d.want(405, "use POST", "GET", "/v1/breakers/echo/reset", ``)
	d.want(200, `"circuit":"https://a.example","status":"open"`, "POST", "/v1/breakers/Fetch/open?circuit=https://a.example", `{"for_ms":60000}`)
	d.want(200, `"circuit":"https://a.example","state":"open"`, "GET", "/v1/breakers/Fetch?circuit=https%3A%2F%2Fa.example", ``)
	d.want(200, `{"tool":"Fetch","state":"closed","failures":0}`, "GET", "/v1/breakers/Fetch", ``)
	d.want(200, `"endpoints":1`, "POST", "/v1/breakers/Fetch/reset", ``)
	d.want(400, "name one circuit", "GET", "/v1/breakers/Fetch?circuit=", ``)
	d.want(400, "circuit", "GET", "/v1/breakers/Fetch?circuit=a&circuit=b", ``)
	d.want(400, "name it as the list", "POST", "/v1/breakers/Fetch/reset?circuit=a%20b", ``)
	d.want(400, "name it as the list", "GET", "/v1/breakers/"+strings.Repeat(".:", 32)+"?circuit="+strings.Repeat("a", 130), ``) // no cell has such a key
	d.want(400, "name a tool", "POST", "/v1/breakers/a%20b/reset", ``)
}
