package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var archives = flag.String("archives", "", "also write the recorded archives into this `directory`: for test/corpus/archives")

// recorded is traces of every kind, in one archive as they are, and in another one
// redacted: reads, an approval, a key that two calls have, owners that were lost amid a
// read, a probed and an unknown call, a large answer, and a turn that still waits.
func recorded(t *testing.T) (plain, redacted string, p *place) {
	t.Helper()
	p = newPlace(t)
	n := p.serve()
	n.run(turn{Trace: "plain", Turn: "t", Format: "anthropic", Calls: []call{
		{ID: "toolu_1", Tool: "echo", Args: args{"v": 1}}, {ID: "toolu_2", Tool: "nothing"}, {ID: "toolu_3", Tool: "flaky", Args: args{"fail_n": 1}},
	}})
	n.run(turn{Trace: "large", Turn: "t", Calls: []call{{Tool: "blob", Args: args{"bytes": 200_000, "kind": "text"}}, {Tool: "blob", Args: args{"bytes": 3_000, "kind": "binary"}}}})
	intoTheMiddle(t, p, n)
	n.kill()
	p.write("killed", "")
	n = p.serve()
	for _, trace := range []string{"mid-read", "mid-charge", "mid-bash", "mid-rest", "mid-waits"} {
		n.end(trace, "t")
	}
	n.submit(turn{Trace: "waits", Turn: "t", CanAsk: true, Calls: []call{ask("please")}})
	poll(t, "the turn is parked", func() bool { return n.look("waits", "t").State == "parked" })
	n.stop()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("a key that is no secret: the archive is for tests"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, redacted = filepath.Join(dir, "recorded.sluice"), filepath.Join(dir, "redacted.sluice")
	replayed(t, 0, "export", "--data", p.data, "--all", "-o", plain)
	replayed(t, 0, "export", "--archive", plain, "--all", "-o", redacted, "--redact", "--redact-key", key)
	return plain, redacted, p
}

// TestRecordedTracesAreArchived: what a node has recorded reads the same out of the log,
// out of an archive, and out of another log that it was imported into; a redacted one
// has the same history and none of the texts.
func TestRecordedTracesAreArchived(t *testing.T) {
	t.Parallel()
	plain, redacted, p := recorded(t)
	want := sayings(t, "--data", p.data)
	if got := sayings(t, "--archive", plain); got != want {
		t.Errorf("out of the archive the messages are\n%s\nwant\n%s", tail(got, 4_000), tail(want, 4_000))
	}
	other := filepath.Join(t.TempDir(), "other")
	replayed(t, 0, "import", "--data", other, plain)
	if got := sayings(t, "--data", other); got != want {
		t.Errorf("out of another log the messages are\n%s\nwant\n%s", tail(got, 4_000), tail(want, 4_000))
	}
	for _, where := range [][]string{{"--archive", plain}, {"--archive", redacted}, {"--data", other}} {
		if out := replayed(t, 0, append([]string{"verify"}, where...)...); !strings.Contains(out, "8 traces") {
			t.Errorf("verify %s says %s", where, out)
		}
	}
	for _, trace := range []string{"plain", "large", "mid-charge", "waits"} {
		if was, is := kindsOf(t, plain, trace), kindsOf(t, redacted, trace); was != is {
			t.Errorf("%s: redacted, its events are\n%s\nwere\n%s", trace, is, was)
		}
	}
	text := sayings(t, "--archive", redacted)
	for _, was := range []string{"charged 1", "slept", "quick brown", "no tool named"} {
		if !strings.Contains(want, was) || strings.Contains(text, was) {
			t.Errorf("%q is in the redacted messages, or in none:\n%s", was, text)
		}
	}
	if *archives == "" {
		return
	}
	for _, from := range []string{plain, redacted} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := os.OpenFile(filepath.Join(*archives, filepath.Base(from)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) // what is there is history
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// sayings are the messages of all traces, a line each, sorted: traces end in another order
// where they were imported one by one.
func sayings(t *testing.T, where ...string) string {
	t.Helper()
	lines := strings.SplitAfter(replayed(t, 0, append([]string{"messages", "--all", "--format", "openai", "--json"}, where...)...), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// kindsOf are positions and types of a trace's events, a line each.
func kindsOf(t *testing.T, file, trace string) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(replayed(t, 0, "show", "--archive", file, "--json", trace)) {
		_, rest, _ := strings.Cut(line, `"id":`)
		head, _, _ := strings.Cut(rest, `"data"`)
		out = append(out, head)
	}
	return strings.Join(out, "\n")
}
