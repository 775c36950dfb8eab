package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/sluice-run/sluice/test/proc"
)

// terminals are the kinds that end a call.
var terminals = []string{"completed", "failed", "timed_out", "cancelled", "denied", "deduplicated", "unknown"}

// ends counts the terminals of every call in the log.
func ends(ctx context.Context, url string) (map[string]int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/events?from=start&follow=false&kind="+strings.Join(terminals, ","), nil)
	if err != nil {
		return nil, err
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET /v1/events: %s", resp.Status)
	}
	out := map[string]int{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 8<<20)
	event := ""
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(name) {
		case "event":
			event = string(value)
		case "data":
			if event == "gap" || event == "error" || event == "rewound" {
				return nil, fmt.Errorf("the log could not be read whole: %s %s", event, value)
			}
			var e struct{ Subject string }
			if err := json.Unmarshal(value, &e); err != nil {
				return nil, err
			}
			out[e.Subject]++
		}
	}
	return out, lines.Err()
}

// effects reads the ledger. A line that a kill has cut short is no effect.
func effects(path string) ([]effect, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []effect
	for line := range bytes.Lines(b) {
		var e effect
		if json.Unmarshal(line, &e) == nil {
			out = append(out, e)
		}
	}
	return out, nil
}

// verify has sluice-replay check the laws over the whole log.
func verify(ctx context.Context, path string, where []string) (bool, string) {
	cmd := exec.CommandContext(ctx, path, append([]string{"verify"}, where...)...)
	cmd.Env = proc.Env()
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	says := lines[len(lines)-1]
	if err != nil {
		return false, fmt.Sprintf("%v: %s", err, says)
	}
	return true, says
}
