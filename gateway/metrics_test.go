package gateway

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections/readstore"
)

// everyMetric is a node's metrics with every part there is.
func everyMetric(t *testing.T) (*Metrics, bus.Bus) {
	log := memlog.New(memlog.Config{})
	t.Cleanup(func() { must(t, log.Close()) })
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	m := NewMetrics(MetricsConfig{
		Known:    func(tool string) bool { return tool == "echo" },
		Tier:     func(string) events.Tier { return events.Readonly },
		Breakers: func() (map[string]string, error) { return map[string]string{"echo": "open"}, nil },
		Running:  func() (int, int) { return 1, 2 },
		Policy:   func() string { return "p1" },
		Unserved: func() int { return 4 },
		Unlike:   func() map[string]time.Duration { return map[string]time.Duration{"policy": time.Minute, "limits": 0} },
		Look: func() (Outlook, error) {
			return Outlook{
				Measures: bus.Measures{
					Queues:    []bus.QueueMeasure{{Placement: "default", Waiting: 3, Held: 1}, {Placement: bus.WakesQueue}},
					Streams:   []bus.StreamMeasure{{Name: "SLUICE", Messages: 7, Bytes: 70}},
					Retention: time.Hour, Replicas: 3,
				},
				Oldest: map[string]time.Time{"default": now.Add(-time.Minute)}, Nodes: 2,
			}, nil
		},
		Now: func() time.Time { return now }, Sync: "memory", Version: "v1",
	})
	m.Store(func() (readstore.Status, error) { return readstore.Status{State: readstore.StateFollowing}, nil })
	m.Standing(func() (readstore.Standing, error) {
		return readstore.Standing{Waiting: map[string]int{"approval": 2, "input": 1}, Oldest: now.Add(-time.Hour), Unresolved: 4}, nil
	}, func() time.Time { return now })
	b := m.Around(log.View("one"))
	return m, b
}

func commit(seq uint32, records ...events.Record) bus.Stored {
	for i := range records {
		records[i].Seq = seq + uint32(i)
	}
	return bus.Stored{Generation: 1, Seq: uint64(seq), Commit: events.Commit{ID: "c", Turn: key1, At: time.Now(), Records: records}}
}

// TestMetricsAreWellFormed: names, units and help as Prometheus asks for.
func TestMetricsAreWellFormed(t *testing.T) {
	m, b := everyMetric(t)
	exercise(t, m, b)
	problems, err := testutil.GatherAndLint(m.registry)
	must(t, err)
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "go_") && !strings.HasPrefix(p.Metric, "process_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// exercise makes something of every kind happen.
func exercise(t *testing.T, m *Metrics, b bus.Bus) {
	t.Helper()
	owner := events.Owner{Boot: "b", Epoch: 1}
	out := events.Outcome{Attempt: 1, Stages: events.Stages{Run: 5}}
	m.Committed(commit(1,
		events.Record{Call: -1, Event: &events.TurnClaimed{Owner: owner, Why: events.ClaimTakenOver}},
		events.Record{Call: -1, Event: &events.TurnClaimed{Owner: owner, Why: "made\nup"}},
		events.Record{Call: 0, Event: &events.Retrying{Attempt: 1}},
		events.Record{Call: 0, Event: &events.Recovered{Attempt: 2}},
		events.Record{Call: 0, Event: &events.Recovered{}}, // no attempt had begun
		events.Record{Call: 0, Event: &events.Completed{Outcome: out}},
		events.Record{Call: 1, Event: &events.Failed{Outcome: out}},
		events.Record{Call: 1, Event: &events.LateResult{Outcome: out}},
		events.Record{Call: 1, Event: &events.Denied{Gate: "authorize", Code: events.PermissionDenied}},
		events.Record{Call: 1, Event: &events.Denied{Gate: "dedupe", Code: events.UnknownOutcome}},
		events.Record{Call: 1, Event: &events.Denied{Gate: "validate", Code: events.ExecutionError}},
		events.Record{Call: 1, Event: &events.Denied{Gate: "made up", Code: "sk-AAAA"}},
		events.Record{Call: 1, Event: events.Foreign{Name: "dreamt"}},
	), map[int]string{0: "echo", 1: "made_up_by_a_model"})
	m.Count("conflicts", 1)
	m.request("GET /v1/turns", 200, time.Second)
	m.refused.WithLabelValues("rate").Inc()
	c := events.Commit{ID: "one", Turn: key1, At: time.Now(), Records: []events.Record{{Call: -1, Seq: 1, Event: &events.TurnSubmitted{}}}}
	_, err := b.Append(within(t), c, 0)
	must(t, err)
	c.ID = "two"
	if _, err := b.Append(within(t), c, 0); !errors.Is(err, bus.ErrConflict) {
		t.Fatalf("%v", err)
	}
	must(t, b.Barrier().Wait(within(t)))
}

// TestMetricsAreBounded: what a model, a door or a newer release makes up is one label,
// and everything else is counted where it belongs.
func TestMetricsAreBounded(t *testing.T) {
	m, b := everyMetric(t)
	exercise(t, m, b)
	want := `
# HELP sluice_attempts_ended_total Attempts that this node has ended, by tool, tier and how.
# TYPE sluice_attempts_ended_total counter
sluice_attempts_ended_total{outcome="completed",tier="readonly",tool="echo"} 1
sluice_attempts_ended_total{outcome="failed",tier="_unknown",tool="_unknown"} 1
sluice_attempts_ended_total{outcome="recovered",tier="readonly",tool="echo"} 1
sluice_attempts_ended_total{outcome="retrying",tier="readonly",tool="echo"} 1
# HELP sluice_calls_denied_total Calls that were denied on this node, by gate and code.
# TYPE sluice_calls_denied_total counter
sluice_calls_denied_total{code="EXECUTION_ERROR",gate="validate"} 1
sluice_calls_denied_total{code="PERMISSION_DENIED",gate="authorize"} 1
sluice_calls_denied_total{code="UNKNOWN_OUTCOME",gate="dedupe"} 1
sluice_calls_denied_total{code="_other",gate="_other"} 1
# HELP sluice_turns_claimed_total Turns that this node has claimed, by why.
# TYPE sluice_turns_claimed_total counter
sluice_turns_claimed_total{why="_other"} 1
sluice_turns_claimed_total{why="drained"} 0
sluice_turns_claimed_total{why="new"} 0
sluice_turns_claimed_total{why="taken_over"} 1
sluice_turns_claimed_total{why="woken"} 0
# HELP sluice_queue_turns Turns in the queue, by placement and whether a node has them; _wakes are wake-ups.
# TYPE sluice_queue_turns gauge
sluice_queue_turns{placement="_wakes",state="held"} 0
sluice_queue_turns{placement="_wakes",state="waiting"} 0
sluice_queue_turns{placement="default",state="held"} 1
sluice_queue_turns{placement="default",state="waiting"} 3
# HELP sluice_queue_oldest_seconds Age of the turn that was queued first of those that nobody is done with; 0 where there is none.
# TYPE sluice_queue_oldest_seconds gauge
sluice_queue_oldest_seconds{placement="default"} 60
# HELP sluice_people_oldest_seconds How long the first of them has waited; 0 where none waits.
# TYPE sluice_people_oldest_seconds gauge
sluice_people_oldest_seconds 3600
# HELP sluice_people_waiting Calls of the log that wait for a person, by what they wait for.
# TYPE sluice_people_waiting gauge
sluice_people_waiting{kind="approval"} 2
sluice_people_waiting{kind="input"} 1
# HELP sluice_unknown_unresolved Calls of the log that may have had an effect, however they ended, and that nobody has resolved.
# TYPE sluice_unknown_unresolved gauge
sluice_unknown_unresolved 4
# HELP sluice_nodes Nodes that renew their presence and do not drain.
# TYPE sluice_nodes gauge
sluice_nodes 2
# HELP sluice_log_retention_seconds How long the log keeps its events; 0: for ever.
# TYPE sluice_log_retention_seconds gauge
sluice_log_retention_seconds 3600
# HELP sluice_log_replicas How many servers keep each event of the log.
# TYPE sluice_log_replicas gauge
sluice_log_replicas 3
# HELP sluice_nodes_unlike_seconds For how long the nodes have differed in what they should have alike, as this node sees it; 0: they are alike.
# TYPE sluice_nodes_unlike_seconds gauge
sluice_nodes_unlike_seconds{what="limits"} 0
sluice_nodes_unlike_seconds{what="policy"} 60
# HELP sluice_policy_info The policy in force on this node.
# TYPE sluice_policy_info gauge
sluice_policy_info{version="p1"} 1
# HELP sluice_turns_unserved Turns that nobody owns and whose placement no node serves, as the node that sweeps sees it; 0 on the others.
# TYPE sluice_turns_unserved gauge
sluice_turns_unserved 4
`
	names := []string{
		"sluice_attempts_ended_total", "sluice_calls_denied_total", "sluice_turns_claimed_total", "sluice_queue_turns", "sluice_queue_oldest_seconds", "sluice_people_oldest_seconds", "sluice_people_waiting",
		"sluice_unknown_unresolved", "sluice_nodes", "sluice_log_retention_seconds", "sluice_log_replicas", "sluice_nodes_unlike_seconds", "sluice_policy_info", "sluice_turns_unserved",
	}
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// TestDurationsAreMeasured, each where it belongs.
func TestDurationsAreMeasured(t *testing.T) {
	m, b := everyMetric(t)
	exercise(t, m, b)
	families, err := m.registry.Gather()
	must(t, err)
	counts := make(map[string]uint64)
	for _, f := range families {
		for _, one := range f.Metric {
			if h := one.GetHistogram(); h != nil {
				name := f.GetName()
				for _, l := range one.Label {
					name += " " + l.GetValue()
				}
				counts[name] = h.GetSampleCount()
			}
		}
	}
	for _, name := range []string{"sluice_append_seconds ok", "sluice_append_seconds conflict", "sluice_barrier_seconds", "sluice_http_request_seconds GET /v1/turns"} {
		if counts[name] != 1 {
			t.Errorf("%s: %d observations in %v", name, counts[name], counts)
		}
	}
}

// TestAScrapeOutlivesALookThatFails: what the node itself knows is told all the same.
func TestAScrapeOutlivesALookThatFails(t *testing.T) {
	m := NewMetrics(MetricsConfig{Look: func() (Outlook, error) { return Outlook{}, bus.ErrUnavailable }})
	families, err := m.registry.Gather()
	if err == nil {
		t.Error("a failed look is no error")
	}
	found := false
	for _, f := range families {
		found = found || f.GetName() == "sluice_info"
	}
	if !found {
		t.Error("nothing else is told")
	}
}

// TestWorkerMetrics are of the tools that the node knows, and begin at 0.
func TestWorkerMetrics(t *testing.T) {
	m := NewMetrics(MetricsConfig{Workers: func() bus.WorkerTools {
		return bus.WorkerTools{Tools: []bus.WorkerView{
			{Tool: "saw", Workers: []bus.WorkerSeat{{Status: "serving"}, {Status: "serving"}, {Status: "refused"}}, Counts: bus.WorkerCounts{Offers: 5, Accepted: 3, Refused: 2, Lost: 1, Running: 4}},
			{Tool: "drill"},
		}}
	}})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`sluice_workers{status="serving",tool="saw"} 2`, `sluice_workers{status="refused",tool="saw"} 1`, `sluice_workers{status="silent",tool="saw"} 0`,
		`sluice_worker_offers_total{tool="saw"} 5`, `sluice_worker_answers_total{answer="accepted",tool="saw"} 3`,
		`sluice_worker_answers_total{answer="refused",tool="saw"} 2`, `sluice_worker_lost_total{tool="saw"} 1`, `sluice_worker_attempts{tool="saw"} 4`,
		`sluice_worker_lost_total{tool="drill"} 0`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in\n%s", want, w.Body)
		}
	}
}
