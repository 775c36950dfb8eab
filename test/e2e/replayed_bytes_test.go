package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/sluice-run/sluice/gateway/codec"
)

// shuffled is always the same turn, whose calls take as long as chance wills: some of
// them fail once, and are tried again a while later.
func shuffled(r *rand.Rand, trace string) turn {
	tu := turn{Trace: trace, Turn: "t"}
	for i := range 5 {
		id := fmt.Sprint("call_", i)
		tu.Calls = append(tu.Calls,
			call{ID: id + "f", Tool: "flaky", Args: args{"fail_n": 1, "name": fmt.Sprint(trace, "-", i), "after_ms": 1 + r.IntN(50)}},
			call{ID: id + "e", Tool: "echo", Args: args{"v": args{"z": i, "a": 9007199254740993}}},
			call{ID: id + "m", Tool: "read", Args: args{"path": "missing.txt"}})
	}
	return tu
}

// TestMessagesAreTheSameBytesWhateverHappened: of twenty runs in which calls end in
// twenty orders, what the node tells, and what replay renders from its log while it
// serves, from the files that it leaves and from an archive, are the same bytes.
func TestMessagesAreTheSameBytesWhateverHappened(t *testing.T) {
	t.Parallel()
	r := powerSeed(t, "TheSameBytesWhatever")
	const runs = 20
	p := newPlace(t)
	n := p.serve("--breaker-failures", "1000")
	want, orders := map[codec.Format]string{}, map[string]bool{}
	for i := range runs {
		trace := fmt.Sprint("run-", i)
		n.run(shuffled(r, trace))
		order := ""
		for _, e := range of(n.events(trace, "t"), "completed", "") {
			order += e.Subject[len(trace):]
		}
		orders[order] = true
		for _, f := range codec.Formats() {
			told := ""
			for _, m := range n.messages(trace, "t", string(f)) {
				told += string(m) + "\n"
			}
			if want[f] == "" {
				want[f] = told
			}
			if told != want[f] {
				t.Errorf("%s, run %d:\n%s\nand the first\n%s", f, i, tail(told, 2000), tail(want[f], 2000))
			}
		}
	}
	if len(orders) < 2 {
		t.Errorf("the calls ended in %d orders in %d runs", len(orders), runs)
	}
	file := filepath.Join(t.TempDir(), "runs.sluice")
	rendered(t, runs, want, "--data", p.data) // through the node
	n.stop()
	rendered(t, runs, want, "--data", p.data)
	replayed(t, 0, "export", "--all", "-o", file, "--data", p.data)
	rendered(t, runs, want, "--archive", file)
}

// rendered holds what sluice-replay renders of all traces against what was told.
func rendered(t *testing.T, runs int, want map[codec.Format]string, where ...string) {
	t.Helper()
	for _, f := range codec.Formats() {
		out := replayed(t, 0, append([]string{"messages", "--all", "--json", "--format", string(f)}, where...)...)
		lines := bytes.Split(bytes.TrimSpace([]byte(out)), []byte("\n"))
		if len(lines) != runs {
			t.Errorf("%v, %s: %d traces", where, f, len(lines))
		}
		for _, line := range lines {
			var trace struct {
				Trace    string
				Messages []json.RawMessage
			}
			if err := json.Unmarshal(line, &trace); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			told := ""
			for _, m := range trace.Messages {
				told += string(m) + "\n"
			}
			if told != want[f] {
				t.Errorf("%v, %s, %s:\n%s\nand the node told\n%s", where, f, trace.Trace, tail(told, 2000), tail(want[f], 2000))
			}
		}
	}
}
