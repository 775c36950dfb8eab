package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestRun: it says where it listens, answers there, and ends when it is told to.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-listen", "127.0.0.1:0", "../../../examples/script.json"}, w) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, r) }() // what else it says
	base := regexp.MustCompile(`http://127\.0\.0\.1:\d+/v1`).FindString(line)
	if err != nil || base == "" {
		t.Fatalf("%q, %v", line, err)
	}
	resp, err := http.Post(base+"/chat/completions", "application/json", strings.NewReader(`{"model":"x","messages":[{"role":"user","content":"go"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "I look around first.") {
		t.Errorf("%s %s, %v", resp.Status, body, err)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_ = w.Close()
}

func TestRunRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`[{"txt":"?"}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"a", "b"}, {bad}, {bad + ".missing"}, {"-listen", "nowhere", "../../../examples/script.json"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
