package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// tableOf are the rows of the table in a document whose head begins with a text.
func tableOf(t *testing.T, path, head string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, there := strings.Cut(string(text), "\n"+head)
	if !there {
		t.Fatalf("%s has no table that begins with %q", path, head)
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	var rows []string
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, line)
		}
	}
	return rows
}

var inTicks = regexp.MustCompile("`([^`]+)`")

// TestEverySettingIsDocumented: the table has each setting, and nothing that is none.
func TestEverySettingIsDocumented(t *testing.T) {
	said, first := make(map[string]bool), make(map[string]bool)
	for _, row := range tableOf(t, "../../docs/operations.md", "| setting |") {
		cells := strings.Split(row, "|")
		for _, m := range inTicks.FindAllStringSubmatch(cells[1], -1) {
			first[m[1]] = true
		}
		for _, m := range inTicks.FindAllStringSubmatch(row, -1) {
			said[m[1]] = true
		}
	}
	all := allSettings()
	all.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && !said[f.Name] {
			t.Errorf("docs/operations.md: the table of settings has no `%s`: %s", f.Name, f.Usage)
		}
	})
	for name := range first {
		if all.Lookup(name) == nil {
			t.Errorf("docs/operations.md: `%s` stands in the table of settings, and is none", name)
		}
	}
	if len(first) < 20 {
		t.Errorf("only %d settings were found in the table", len(first))
	}
}
