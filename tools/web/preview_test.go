package web

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// TestPreview names the target in its parts, whatever an address looks like.
func TestPreview(t *testing.T) {
	for url, has := range map[string][]string{
		"https://a.example/x?q=1":      {"method  GET", "scheme  https", "host    a.example", "port    443", "path    /x", "query   q=1 (3 bytes"},
		"http://a.example:8080":        {"scheme  http", "port    8080", "path    /", "not encrypted"},
		"http://10.0.0.1/":             {"host    10.0.0.1 (an address, no name), and not a public one"},
		"https://xn--e1afmkfd.test/":   {"xn--e1afmkfd.test (letters that are not ASCII"},
		"ftp://a.example/":             {"cannot be used"},
		"https://u:p@a.example/":       {"cannot be used"},
		"https://a.example/\x1b[2K":    {"cannot be used"},
		"not an address \u202e at all": {"cannot be used"},
	} {
		raw, err := json.Marshal(map[string]string{"url": url})
		if err != nil {
			t.Fatal(err)
		}
		p, err := preview(t.Context(), tools.Invocation{Args: raw})
		if err != nil || p.Kind != events.PreviewTarget {
			t.Errorf("%q: %s, %v", url, p.Kind, err)
		}
		for _, want := range has {
			if !strings.Contains(p.Text.Text, want) {
				t.Errorf("%q: the preview lacks %q:\n%s", url, want, p.Text.Text)
			}
		}
	}
}
