package gateway

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docPage is a page of the documentation.
func docPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", name))
	must(t, err)
	return string(text)
}

var documentedRoute = regexp.MustCompile("`((?:GET|POST|PUT|DELETE) [^`]+)`")

// TestRoutesAreDocumented: the page's table has each way in with its parameters' place, and
// none that there is not.
func TestRoutesAreDocumented(t *testing.T) {
	table, _, _ := strings.Cut(docPage(t, "http.md"), "\n## ")
	listed := make(map[string]bool)
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(line[1:], "|")
		for _, m := range documentedRoute.FindAllStringSubmatch(cell, -1) {
			way, _, _ := strings.Cut(m[1], "?")
			listed[strings.Replace(way, "…/", "/v1/turns/{trace}/{turn}/", 1)] = true
		}
	}
	for _, rt := range NewAPI(APIConfig{Desk: NewDesk(DeskConfig{})}).routes() {
		if !listed[rt.pattern] {
			t.Errorf("docs/http.md: the table of routes has no `%s`", rt.pattern)
		}
		delete(listed, rt.pattern)
	}
	for way := range listed {
		t.Errorf("docs/http.md: `%s` stands in the table of routes, and there is none", way)
	}
}

// sources are the package's files, without its tests.
func sources(t *testing.T, pattern string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	must(t, err)
	out := make(map[string]string)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		must(t, err)
		out[name] = string(text)
	}
	if len(out) == 0 {
		t.Fatalf("no files are %s", pattern)
	}
	return out
}

var (
	problemMade = regexp.MustCompile(`problem\(http\.Status(\w+), "([a-z-]+)"`)
	problemRow  = regexp.MustCompile(`(?m)^\| ([45][0-9]{2}) \| (.*) \|$`)
)

// TestProblemsAreDocumented: the page has each type of problem beside its status.
func TestProblemsAreDocumented(t *testing.T) {
	documented := make(map[string]bool)
	for _, row := range problemRow.FindAllStringSubmatch(docPage(t, "http.md"), -1) {
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[2], -1) {
			documented[row[1]+" "+m[1]] = true
		}
	}
	status := make(map[string]int)
	for code := 400; code < 600; code++ {
		status[strings.NewReplacer(" ", "", "-", "").Replace(http.StatusText(code))] = code
	}
	var wanted []string
	for _, h := range halted {
		wanted = append(wanted, "422 "+h.word)
	}
	for _, v := range verdicts {
		wanted = append(wanted, fmt.Sprint(v.status, " ", v.word))
	}
	for name, text := range sources(t, "*.go") {
		for _, m := range problemMade.FindAllStringSubmatch(text, -1) {
			if status[m[1]] == 0 {
				t.Errorf("%s: no status %s", name, m[1])
			}
			if !strings.HasPrefix(name, "natsdoor") {
				wanted = append(wanted, fmt.Sprint(status[m[1]], " ", m[2]))
			}
		}
	}
	if len(wanted) < 40 {
		t.Errorf("only %q were found", wanted)
	}
	slices.Sort(wanted)
	for _, w := range slices.Compact(wanted) {
		if !documented[w] {
			t.Errorf("docs/http.md: the table of problems has no %s", w)
		}
	}
}

var (
	metricName = regexp.MustCompile(`"(sluice_[a-z_]+)"`)
	counted    = regexp.MustCompile(`\.Count\("([a-z_]+)"`)
)

// TestMetricsAreDocumented: the page has each metric, and what the node's own counter counts.
func TestMetricsAreDocumented(t *testing.T) {
	page := docPage(t, "operations.md")
	_, table, _ := strings.Cut(page, "\n| metric |")
	table, _, _ = strings.Cut(table, "\n\n")
	names := make(map[string]bool)
	for _, pattern := range []string{"*.go", "otlp/*.go", "../actors/*.go", "../cmd/node/*.go"} {
		for _, text := range sources(t, pattern) {
			for _, m := range append(metricName.FindAllStringSubmatch(text, -1), counted.FindAllStringSubmatch(text, -1)...) {
				names[m[1]] = true
			}
		}
	}
	if len(names) < 25 {
		t.Errorf("only %v were found", names)
	}
	for name := range names {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("docs/operations.md: the table of metrics has no `%s`", name)
		}
	}
}
