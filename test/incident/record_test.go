package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestRecord lets the incident happen once more: it goes as the page tells, and each
// customer is charged once.
func TestRecord(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"node", "replay"} {
		if b, err := exec.Command("go", "build", "-o", filepath.Join(bin, "sluice-"+name), root+"/cmd/"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
	}
	archive := filepath.Join(dir, "incident.sluice")
	if err := run(t.Context(), bin, archive, dir); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]int{"shop-A16": {"completed": 4}, "shop-A17": {"completed": 3, "denied": 1, "unknown": 1}}
	for trace, statuses := range listed(t.Context(), t, bin, archive) {
		if !maps.Equal(statuses, want[trace]) {
			t.Errorf("%s: %v, want %v", trace, statuses, want[trace])
		}
		delete(want, trace)
	}
	if len(want) > 0 {
		t.Errorf("not in the archive: %v", want)
	}
	ledger, err := os.ReadFile(filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{"A-16", "A-17"} {
		if n := strings.Count(string(ledger), `"order":"`+order+`"`); n != 1 {
			t.Errorf("%s was charged %d times:\n%s", order, n, ledger)
		}
	}
}

// listed are how the calls of an archive's traces ended.
func listed(ctx context.Context, t *testing.T, bin, archive string) map[string]map[string]int {
	t.Helper()
	b, err := exec.CommandContext(ctx, filepath.Join(bin, "sluice-replay"), "list", "--json", "--archive", archive).Output()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]int{}
	for line := range bytes.Lines(b) {
		var row struct {
			Trace    string         `json:"trace"`
			Statuses map[string]int `json:"statuses"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if row.Trace != "" {
			out[row.Trace] = row.Statuses
		}
	}
	return out
}
