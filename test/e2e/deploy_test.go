package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/test/collector"
)

// deployed is a file below deploy/.
func deployed(t *testing.T, name ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "deploy"}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// metrics are those that a node tells, with the labels that each has had.
type metrics map[string]map[string]bool

// scraped adds what a node tells now.
func (m metrics) scrape(n *node) {
	n.t.Helper()
	status, body := n.ask(http.MethodGet, "/metrics", nil)
	if status != http.StatusOK {
		n.t.Fatalf("GET /metrics: %d %s", status, body)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		n.t.Fatal(err)
	}
	for name, f := range families {
		names := []string{name}
		if f.GetType().String() == "HISTOGRAM" {
			names = append(names, name+"_bucket", name+"_sum", name+"_count")
		}
		for _, name := range names {
			if m[name] == nil {
				m[name] = map[string]bool{"instance": true, "job": true, "le": true}
			}
			for _, one := range f.Metric {
				for _, l := range one.Label {
					m[name][l.GetName()] = true
				}
			}
		}
	}
}

// check holds an expression against what nodes tell: it parses, and each metric and each
// label that it looks at is there.
func (m metrics) check(t *testing.T, where, expr string) {
	t.Helper()
	parsed, err := parser.ParseExpr(strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(expr))
	if err != nil {
		t.Errorf("%s: %v: %s", where, err, expr)
		return
	}
	found := false
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		found = true
		labels, known := m[v.Name]
		if v.Name == "up" {
			return nil // of Prometheus itself
		}
		if !known {
			t.Errorf("%s: no node tells %s", where, v.Name)
		}
		for _, l := range v.LabelMatchers {
			if l.Name != "__name__" && known && !labels[l.Name] {
				t.Errorf("%s: %s has no label %s", where, v.Name, l.Name)
			}
		}
		return nil
	})
	if !found {
		t.Errorf("%s looks at nothing: %s", where, expr)
	}
}

// alertFile is a file of rules of Prometheus.
type alertFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// dashboard is what is looked at of one of Grafana's.
type dashboard struct {
	Title, UID string
	Panels     []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ H, W, X, Y int }
		Targets                  []struct{ RefID, Expr, LegendFormat string }
	}
	Templating struct{ List []struct{ Name string } }
}

// busy is what a node tells after it has done something of everything.
func busy(t *testing.T) metrics {
	t.Helper()
	c := collector.New()
	b := newBench(t, "--otlp", c.HTTP(t), "--limits", limitsFile(t, "limits: [{id: few, tool: echo, rate: 1/h}]"))
	b.worker()
	n := b.node
	n.run(turn{Trace: "a", Turn: "t", Calls: []call{{Tool: "echo", Args: args{"v": 1}}, {Tool: "echo", Args: args{"v": 2}}, {Tool: "flaky", Args: args{"fail_n": 1}}, {Tool: "nothing"}, charge("o", 1)}})
	for i := range 3 {
		n.run(turn{Trace: "b", Turn: fmt.Sprint("t", i), Calls: []call{{Tool: "flaky", Args: args{"fail_n": 1000, "name": "never"}}}})
	}
	n.submit(turn{Trace: "c", Turn: "t", CanAsk: true, Calls: []call{{Tool: "approve_me", Args: args{"v": 1}}}})
	strange, err := http.NewRequest(http.MethodGet, n.base+"/v1/tools", nil)
	if err != nil {
		t.Fatal(err)
	}
	strange.Host = "elsewhere.example" // refused at the door
	if resp, err := client.Do(strange); err != nil {
		t.Fatal(err)
	} else {
		_ = resp.Body.Close()
	}
	poll(t, "the spans", func() bool { return len(c.Named("turn")) == 4 })
	m := make(metrics)
	poll(t, "every metric", func() bool {
		m.scrape(n)
		return m["sluice_breaker"] != nil && m["sluice_people_waiting"] != nil && m["sluice_node_total"] != nil
	})
	return m
}

// TestDeployedAlertsAndDashboard: each alert and each panel asks for what nodes really
// tell, and says what to do.
func TestDeployedAlertsAndDashboard(t *testing.T) {
	m := busy(t)
	page := string(deployed(t, "..", "docs", "observability.md"))
	var alerts alertFile
	if err := yaml.Unmarshal(deployed(t, "prometheus", "alerts.yml"), &alerts); err != nil {
		t.Fatal(err)
	}
	tests, names := string(deployed(t, "prometheus", "alerts_test.yml")), make(map[string]bool)
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			switch {
			case names[r.Alert]:
				t.Errorf("%s is there twice", r.Alert)
			case r.Annotations["summary"] == "" || r.Annotations["runbook"] == "" || !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]):
				t.Errorf("%s lacks a summary, a runbook or a severity", r.Alert)
			case !strings.Contains(page, "`"+r.Alert+"`"):
				t.Errorf("docs/observability.md does not tell of %s", r.Alert)
			}
			names[r.Alert] = true
			m.check(t, r.Alert, r.Expr)
		}
	}
	for _, said := range regexp.MustCompile("Sluice[A-Z][A-Za-z]+").FindAllString(page+tests, -1) {
		if !names[said] {
			t.Errorf("%s is told of, and there is none", said)
		}
	}
	if len(names) < 15 {
		t.Errorf("only %d alerts were found", len(names))
	}
	var d dashboard
	if err := json.Unmarshal(deployed(t, "grafana", "sluice.json"), &d); err != nil {
		t.Fatal(err)
	}
	ids, places, panels := make(map[int]bool), make(map[string]bool), 0
	for _, p := range d.Panels {
		at := fmt.Sprint(p.GridPos)
		if ids[p.ID] || places[at] || p.ID == 0 || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q: its id %d or its place %s is not its own", p.Title, p.ID, at)
		}
		ids[p.ID], places[at] = true, true
		for _, target := range p.Targets {
			panels++
			m.check(t, "panel "+p.Title, target.Expr)
		}
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
	}
	if d.Title == "" || d.UID == "" || panels < 25 {
		t.Errorf("%q %q, %d expressions", d.Title, d.UID, panels)
	}
}

// TestDeployedFilesRead: the other examples are at least what they say that they are.
func TestDeployedFilesRead(t *testing.T) {
	for _, name := range []string{"prometheus/prometheus.yml", "prometheus/alerts_test.yml", "otel/collector.yml"} {
		var any map[string]any
		if err := yaml.Unmarshal(deployed(t, filepath.FromSlash(name)), &any); err != nil || len(any) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var c struct {
		Receivers, Processors, Exporters map[string]any
		Service                          struct {
			Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
		}
	}
	if err := yaml.Unmarshal(deployed(t, "otel", "collector.yml"), &c); err != nil {
		t.Fatal(err)
	}
	for name, p := range c.Service.Pipelines {
		for _, part := range []struct {
			used []string
			of   map[string]any
		}{{p.Receivers, c.Receivers}, {p.Processors, c.Processors}, {p.Exporters, c.Exporters}} {
			for _, one := range part.used {
				if _, ok := part.of[one]; !ok || len(part.used) == 0 {
					t.Errorf("pipeline %s: there is no %s", name, one)
				}
			}
		}
	}
	if len(c.Service.Pipelines) == 0 {
		t.Error("there is no pipeline")
	}
}
