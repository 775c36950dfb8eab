package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// books are everything outside the log that a tool could have changed, by path.
func (p *place) books() map[string]string {
	p.t.Helper()
	out := files(p.t, p.work)
	ledger, err := os.ReadFile(p.ledger)
	if err != nil {
		p.t.Fatal(err)
	}
	info, err := os.Stat(p.ledger)
	if err != nil {
		p.t.Fatal(err)
	}
	out[p.ledger] = string(ledger) + info.ModTime().String()
	return out
}

// paid has money spent in every way: at once, by a call whose node is killed while it
// waits for its answer, by one that a person agreed to, and by a command.
func (p *place) paid() {
	p.t.Helper()
	n := p.serve()
	n.run(turn{Trace: "paid", Turn: "done", Calls: []call{charge("one", 5), {Tool: "write", Args: args{"path": "bill.txt", "text": "5"}}, charge("one", 5)}})
	n.submit(turn{Trace: "paid", Turn: "asked", CanAsk: true, Calls: []call{ask("pay"), {Tool: "bash", Args: args{"command": "printf x >> ran.txt"}}}})
	for _, q := range n.inbox("paid", 2) {
		n.post(q.path()+"/approve", nil)
	}
	n.end("paid", "asked")
	n.submit(turn{Trace: "lost", Turn: "t", Calls: []call{charge("two", 7, "stall_ms", forever), {Tool: "reserve", Args: args{"item": "three"}}}})
	poll(p.t, "the charge is in the ledger", func() bool { return p.charged("two") == 1 })
	n.kill()
	n = p.serve()
	n.end("lost", "t")
	if code := n.stop(); code != 0 {
		p.t.Errorf("exit %d", code)
	}
}

// TestReplayPaysForNothing: whatever is asked of a recorded run that has spent money, no
// tool runs, no file changes, and the log stays what it was.
func TestReplayPaysForNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.paid()
	was := p.books()
	if len(p.effects()) != 4 || !strings.Contains(was[p.ledger], "charge") {
		t.Fatalf("the ledger: %s", was[p.ledger])
	}
	file := filepath.Join(t.TempDir(), "paid.sluice")
	replayed(t, 0, "export", "--all", "-o", file, "--data", p.data)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cells := 0
	for _, where := range [][]string{{"--data", p.data}, {"--archive", file}} {
		for _, verb := range [][]string{
			{"fault", "--all", "--all-pairs", "--all-kinds", "--json"},
			{"fault", "lost", "--between", "started,completed", "--kind", "node-death,crash-kept", "--call", "0", "-v"},
			{"fault", "--all", "--seed", "4711", "--rounds", "20"},
			{"whatif", "--policy", "default", "--since", "24h"},
			{"decide", "--all"},
			{"messages", "--all", "--calls"},
			{"verify"},
			{"diff", "paid", "lost"},
		} {
			s := program(t, "", replay(t), append(verb, where...)...)
			if s.code != 0 && verb[0] != "diff" {
				t.Errorf("sluice-replay %q %v: exit %d\n%s\n%s", verb, where, s.code, tail(s.out, 2000), s.err)
			}
			if verb[0] == "fault" {
				cells += strings.Count(s.out, `"verdict":`)
			}
			for path, text := range p.books() {
				if was[path] != text {
					t.Fatalf("sluice-replay %q has changed %s:\n%s\nand it was\n%s", verb, path, text, was[path])
				}
			}
		}
	}
	if cells < 1000 {
		t.Errorf("only %d cells were played", cells)
	}
	again := filepath.Join(t.TempDir(), "again.sluice")
	replayed(t, 0, "export", "--all", "-o", again, "--data", p.data)
	if after, err := os.ReadFile(again); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the log has changed: %d bytes, and %d; %v", len(before), len(after), err)
	}
}
