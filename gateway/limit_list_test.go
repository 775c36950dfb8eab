package gateway

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

func limitsOf(t *testing.T, rules ...lifecycle.LimitRule) lifecycle.Limits {
	t.Helper()
	l, err := lifecycle.NewLimits(rules)
	must(t, err)
	return l
}

// TestLimitsAreListed as they stand in the cluster: those of here, and those that only
// cells tell of. A cell that cannot be read says nothing.
func TestLimitsAreListed(t *testing.T) {
	d, _ := newDesk(t)
	now := d.now().UTC()
	put := func(name string, v any) {
		t.Helper()
		b, err := json.Marshal(v)
		must(t, err)
		_, err = d.bus.Cells().Put(within(t), bus.BucketLock, name, b, 0, 0)
		must(t, err)
	}
	long := strings.Repeat("é", 100)
	hold := lifecycle.Hold{Call: "t/u/0", Boot: "b", Slots: 2, Until: now.Add(time.Minute)}
	over := lifecycle.Hold{Call: "t/u/1", Boot: "dead", Slots: 2, Until: now}
	put(bus.LimitCell(bus.SlotCells, "few", ""), lifecycle.LockState{Holds: []lifecycle.Hold{hold, over}, Waiting: []lifecycle.Hold{hold, hold}})
	put(bus.LimitCell(bus.RateCells, "each", "bot 1"), lifecycle.RateState{Debt: 2 * int64(time.Hour), At: now})
	put(bus.LimitCell(bus.RateCells, "each", "bot 0"), lifecycle.RateState{})
	put(bus.LimitCell(bus.SlotCells, "gone", long), lifecycle.LockState{Holds: []lifecycle.Hold{hold}})
	put("of-a-lock", lifecycle.LockState{Holds: []lifecycle.Hold{hold}})
	put(bus.LimitCells+"strange.x", 1)
	put(bus.SlotCells+"few.=", 1)
	put(bus.RateCells+"few.a", "no state")

	list, err := d.Limits(within(t), limitsOf(
		t,
		lifecycle.LimitRule{ID: "few", Concurrency: 2, Wait: time.Second},
		lifecycle.LimitRule{ID: "each", Principal: "bot*", Each: true, Rate: lifecycle.Rate{N: 2, Per: time.Hour}},
		lifecycle.LimitRule{ID: "idle", Tool: "x", Rate: lifecycle.Rate{N: 1, Per: time.Second, Burst: 7}},
	))
	must(t, err)
	b, err := json.Marshal(list)
	must(t, err)
	got := string(b)
	for _, want := range []string{
		`{"id":"each","here":true,"principal":"bot*","each":true,"rate":"2/h","buckets":[{"principal":"bot 0","tokens":2},{"principal":"bot 1","tokens":0,"next":`,
		`{"id":"few","here":true,"concurrency":2,"wait_ms":1000,"buckets":[{"holders":[{"call":"t/u/0","boot":"b","until":"` + hold.Until.Format(time.RFC3339Nano) + `"},{"call":"t/u/1","boot":"dead","until":"` + now.Format(time.RFC3339Nano) + `","over":true}],"waiting":2}`,
		`{"id":"gone","here":false,"buckets":[{"principal":"sha256:`,
		`{"id":"idle","here":true,"tool":"x","rate":"1/s","burst":7,"buckets":[]}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if len(list) != 4 {
		t.Errorf("%d limits: %s", len(list), got)
	}
}

// TestManyBuckets: no more are shown than anybody can read.
func TestManyBuckets(t *testing.T) {
	l := &Limit{}
	for i := range maxLimitBuckets + 3 {
		l.bucket(fmt.Sprint("p", i))
	}
	if len(l.Buckets) != maxLimitBuckets || l.LeftOut != 3 || l.bucket("p7") == nil {
		t.Errorf("%d shown, %d left out", len(l.Buckets), l.LeftOut)
	}
}

// TestLimitMetrics have no more labels than there are rules.
func TestLimitMetrics(t *testing.T) {
	rules := limitsOf(t, lifecycle.LimitRule{ID: "few", Concurrency: 1})
	m := NewMetrics(MetricsConfig{Limits: func() lifecycle.Limits { return rules }})
	for _, e := range []events.Event{
		&events.Started{Limits: []events.Limit{{Rule: "few", Principal: "a"}, {Rule: "few", Principal: "b"}, {Rule: "other"}}, LimitWaitMS: 2000},
		&events.Started{},
		&events.Denied{Gate: "limit", Policies: []string{"few"}}, &events.Denied{Gate: "limit", Policies: []string{"x"}}, &events.Denied{Gate: "authorize", Policies: []string{"few"}},
	} {
		m.Committed(bus.Stored{Commit: events.Commit{Records: []events.Record{{Event: e}}}}, nil)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`sluice_limit_passed_total{limit="few"} 1`, `sluice_limit_passed_total{limit="_other"} 1`, `sluice_limit_denied_total{limit="few"} 1`,
		`sluice_limit_denied_total{limit="_other"} 1`, `sluice_limit_wait_seconds_count 1`, `sluice_limit_wait_seconds_sum 2`, `sluice_calls_denied_total{code="_other",gate="limit"} 2`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}
