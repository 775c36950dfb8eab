package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// ask sends a request to a node, and returns the status and the answer.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(out)
}

// another starts one more node on the log of the first.
func another(t *testing.T, nats, work string, args ...string) string {
	t.Helper()
	v := start(t, append([]string{"serve", "--json", "--nats", nats, "--workspace", work, "--http", "127.0.0.1:0", "--fixtures"}, args...)...)
	var ready struct{ HTTP string }
	if err := json.Unmarshal([]byte(v.until(`"event":"ready"`)), &ready); err != nil {
		t.Fatal(err)
	}
	return ready.HTTP
}

// TestEachNodeHasItsReadStore: what one node was told is found at another one at once,
// which has a store of its own; two do not share one, and a node can do without.
func TestEachNodeHasItsReadStore(t *testing.T) {
	_, dir, ready := startNode(t, "--listen-nats", "127.0.0.1:0")
	nats, first := ready["nats"].(string), ready["http"].(string)
	work, own := filepath.Join(dir, "work"), filepath.Join(dir, "own")
	second := another(t, nats, work, "--read-store", own)
	third := another(t, nats, work, "--read-store", own)
	fourth := another(t, nats, work)
	if status, body := ask(t, http.MethodPost, first+"/v1/turns",
		`{"trace": "tr", "turn": "t", "wait_ms": 60000, "can_ask": true, "calls": [{"tool": "echo", "args": {"v": "needle"}}]}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for _, node := range []string{first, second} {
		if status, body := ask(t, http.MethodGet, node+"/v1/traces?text=needle", ""); status != http.StatusOK || !strings.Contains(body, `{"trace":"tr",`) {
			t.Errorf("%d %s", status, body)
		}
	}
	for _, node := range []string{third, fourth} {
		if status, body := ask(t, http.MethodGet, node+"/v1/traces", ""); status != http.StatusNotFound || !strings.Contains(body, "no-store") {
			t.Errorf("%d %s", status, body)
		}
		if status, body := ask(t, http.MethodGet, node+"/v1/approvals", ""); status != http.StatusOK || body != "{\"approvals\":[]}\n" {
			t.Errorf("%d %s", status, body)
		}
	}
}
