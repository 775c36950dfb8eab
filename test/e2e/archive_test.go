package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// replayed runs a verb of sluice-replay that has to end with that code, and returns
// what it printed.
func replayed(t *testing.T, code int, args ...string) string {
	t.Helper()
	s := program(t, "", replay(t), args...)
	if s.code != code {
		t.Fatalf("sluice-replay %q: exit %d, want %d\n%s%s", args, s.code, code, s.out, s.err)
	}
	return s.out
}

// TestImportedTurnsNeverRun: turns that were open when their node was killed come into
// the log of a node that runs, which serves their placements and has their tools. It is
// asked for them in every way, restarted, and has other work; and nothing of them runs.
func TestImportedTurnsNeverRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "open.sluice")
	first := newPlace(t)
	told := killedAmid(t, first, file)

	p := newPlace(t)
	n := p.serve("--placements", "default,later")
	if out := replayed(t, 0, "import", "--data", p.data, file); strings.Count(out, "  imported  ") != 5 {
		t.Errorf("import says:\n%s", out)
	}
	before := p.imported(n.api)
	n.inbox("asked", 0) // nobody is asked for what would not be done
	if status, body := n.ask(http.MethodPost, "/v1/turns/done/t/calls/0/compensate", nil); status < 300 {
		t.Errorf("a call that never ran here is undone: %d %s", status, body)
	}
	for trace, again := range openTurns() {
		if status, body := n.ask(http.MethodPost, "/v1/turns", again); status >= 300 || !strings.Contains(string(body), `"attached":true`) {
			t.Errorf("submit %s again: %d %s", trace, status, body)
		}
	}
	n.ask(http.MethodPost, "/v1/turns/asked/t/calls/0/approve", nil) // whatever the answer
	n.run(turn{Calls: []call{charge("own-1", 1)}})
	n.stop()
	n = p.serve("--placements", "default,later")
	n.run(turn{Calls: []call{charge("own-2", 1)}})
	if e := p.effects(); len(e) != 2 || e[0].Order != "own-1" || e[1].Order != "own-2" {
		t.Errorf("the ledger: %+v", e)
	}
	if after := p.imported(n.api); !slices.Equal(before, after) {
		t.Errorf("events of imported turns:\n%v\nwere\n%v", after, before)
	}
	if now := string(asRaw(n.messages("done", "t", "json"))); now != told {
		t.Errorf("the messages are\n%s\nand were\n%s", now, told)
	}
	n.stop()
	replayed(t, 0, "verify", "--data", p.data)
	if out := replayed(t, 0, "import", "--data", p.data, file); strings.Count(out, "  attached  ") != 5 {
		t.Errorf("imported again:\n%s", out)
	}
}

// openTurns are the turns that are open when the node is killed, by trace.
func openTurns() map[string]any {
	return map[string]any{
		"charged": turn{Trace: "charged", Turn: "t", Calls: []call{charge("c-1", 5, "stall_ms", forever)}},
		"behind":  turn{Trace: "behind", Turn: "t", Calls: []call{{Tool: "sleep", Args: args{"ms": forever}}, charge("c-2", 5)}},
		"asked":   turn{Trace: "asked", Turn: "t", CanAsk: true, Calls: []call{ask("please")}},
		"unclaimed": args{"trace": "unclaimed", "turn": "t", "placement": "later", "calls": []call{
			{Tool: "echo", Args: args{"v": 1}}, charge("c-3", 5),
		}},
	}
}

// killedAmid kills a node amid its work, and exports what was recorded. It returns the
// messages of the turn that had ended.
func killedAmid(t *testing.T, p *place, file string) (told string) {
	n := p.serve()
	n.run(turn{Trace: "done", Turn: "t", Calls: []call{charge("c-0", 5), {Tool: "blob", Args: args{"bytes": 100_000, "kind": "text"}}}})
	told = string(asRaw(n.messages("done", "t", "json")))
	for trace, tu := range openTurns() {
		if status, body := n.ask(http.MethodPost, "/v1/turns", tu); status >= 300 {
			t.Fatalf("submit %s: %d %s", trace, status, body)
		}
	}
	n.until("charged", "t", "started", "0")
	n.until("behind", "t", "started", "0")
	poll(t, "the turn is parked", func() bool { return n.look("asked", "t").State == "parked" })
	n.kill()
	var out struct {
		Manifest struct {
			Traces     int
			OpenTurns  int `json:"open_turns"`
			Blobs      int
			Unreadable int `json:"unreadable_commits"`
		}
	}
	text := replayed(t, 0, "export", "--data", p.data, "--all", "-o", file, "--json")
	if err := json.Unmarshal([]byte(text), &out); err != nil || out.Manifest.Traces != 5 || out.Manifest.OpenTurns != 4 || out.Manifest.Blobs == 0 {
		t.Fatalf("export says %s: %v", text, err)
	}
	replayed(t, 0, "verify", "--archive", file)
	return told
}

// imported are the events of the turns that were open, but for those of persons.
func (p *place) imported(at *api) []string {
	p.t.Helper()
	var out []string
	for trace := range openTurns() {
		for _, e := range at.events(trace, "t") {
			if k := e.kind(); k != "approved" {
				out = append(out, e.Subject+" "+k)
			}
		}
	}
	slices.Sort(out)
	return out
}
