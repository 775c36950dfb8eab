package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Budgets of the serialised messages.
const (
	callBudget = 50_000
	turnBudget = 200_000
)

// TestLargeResultsAreCutAndStayReadable is about what a model is given of a
// result, and where the whole of it is.
func TestLargeResultsAreCutAndStayReadable(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	for _, c := range []struct {
		name string
		test func(*testing.T, *place, *node)
	}{
		{"60 KB", sixtyKB},
		{"a batch of 210 KB", batch210KB},
		{"no rune is cut", noRuneIsCut},
		{"bytes that are no text", noText},
		{"outputs larger than any message of the bus", largerThanTheBus},
		{"arguments larger than any message of the bus", largeArguments},
		{"long errors and echoed arguments", longErrors},
		{"a turn ends however large its parts are", largeParts},
		{"nothing is spilled into the workspace", nothingSpilled},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := *n
			at.api = &api{t: t, base: n.base}
			c.test(t, p, &at)
		})
	}
}

func blob(size int, kind string) call {
	return call{ID: fmt.Sprintf("blob-%s-%d", kind, size), Tool: "blob", Args: args{"bytes": size, "kind": kind}}
}

// total is the size in bytes of messages in one form.
func total(messages []json.RawMessage) (n int) {
	for _, m := range messages {
		n += len(m)
	}
	return n
}

// content is what each call's answer comes to, by the form's own fields.
func content(t *testing.T, format string, messages []json.RawMessage) []string {
	t.Helper()
	var out []string
	if format == "anthropic" {
		for _, b := range anthropic(t, messages) {
			out = append(out, string(b.Content))
		}
		return out
	}
	for _, m := range messages {
		out = append(out, string(m))
	}
	return out
}

var digestIn = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// whole is what is kept of an answer that was cut, found by what the answer says.
func whole(t *testing.T, n *node, answer string) []byte {
	t.Helper()
	d := digestIn.FindString(answer)
	if d == "" {
		t.Fatalf("the answer does not say where its whole is: …%s", tail(answer, 400))
	}
	return n.blob(d)
}

func sixtyKB(t *testing.T, _ *place, n *node) {
	v := n.run(turn{Calls: []call{blob(60_000, "text")}})
	v.Calls[0].is(t, "completed", "", "")
	for _, f := range []string{"openai", "anthropic", "json"} {
		one := content(t, f, n.messages(v.Trace, v.Turn, f))[0]
		if len(one) > callBudget {
			t.Errorf("%s: %d bytes", f, len(one))
		}
		if len(one) < callBudget/2 {
			t.Errorf("%s: only %d bytes are left", f, len(one))
		}
		if got := whole(t, n, one); len(got) != 60_000 || !bytes.HasPrefix(got, []byte("The quick brown fox")) {
			t.Errorf("%s: the whole has %d bytes", f, len(got))
		}
	}
	if w := v.Calls[0].Whole; w == nil || w.Size != 60_000 || len(n.blob(w.Digest)) != 60_000 {
		t.Errorf("the turn's view names %+v", w)
	}
}

func batch210KB(t *testing.T, _ *place, n *node) {
	var calls []call
	for i := range 5 {
		calls = append(calls, blob(42_000+i, "text"))
	}
	calls = append(calls, call{Tool: "echo", Args: args{"v": "small"}})
	v := n.run(turn{Calls: calls})
	for _, f := range []string{"openai", "anthropic", "json"} {
		messages := n.messages(v.Trace, v.Turn, f)
		if sum := total(messages); sum > turnBudget || sum < turnBudget*3/4 {
			t.Errorf("%s: %d bytes", f, sum)
		}
		all := content(t, f, messages)
		cut := 0
		for i, one := range all {
			if len(one) > callBudget {
				t.Errorf("%s, call %d: %d bytes", f, i, len(one))
			}
			if digestIn.MatchString(one) {
				cut++
				if got := whole(t, n, one); len(got) != 42_000+i {
					t.Errorf("%s, call %d: the whole has %d bytes", f, i, len(got))
				}
			}
		}
		if cut == 0 || !strings.Contains(all[5], "small") {
			t.Errorf("%s: %d answers are cut; the small one is %s", f, cut, all[5])
		}
	}
}

func noRuneIsCut(t *testing.T, _ *place, n *node) {
	var calls []call
	for d := -3; d <= 3; d++ {
		calls = append(calls, blob(callBudget+d, "utf8"), blob(51_200+d, "utf8"))
	}
	for i := 0; i < len(calls); i += 2 { // two a turn, so that only the call's budget counts
		v := n.run(turn{Calls: calls[i : i+2]})
		for k, a := range answers(t, v.Messages) {
			text := a.Content.Text
			if !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) && a.Content.Data == nil {
				// The tool itself ends in the middle of a rune; what stands before the cut must be whole.
				if at := strings.IndexRune(text, utf8.RuneError); at >= 0 && at < len(text)-1000 {
					t.Errorf("turn %d, call %d: a broken rune at %d of %d", i/2, k, at, len(text))
				}
			}
			if len(v.Messages[k]) > callBudget {
				t.Errorf("turn %d, call %d: %d bytes", i/2, k, len(v.Messages[k]))
			}
		}
	}
}

func noText(t *testing.T, _ *place, n *node) {
	v := n.run(turn{Calls: []call{blob(1024, "binary"), blob(300, "nul"), blob(300, "invalid"), {Tool: "echo", Args: args{"v": "a\u0000b"}}}})
	got := answers(t, v.Messages)
	for i := range 2 {
		v.Calls[i].is(t, "completed", "", "")
		if !strings.Contains(fmt.Sprint(got[i].Content), []string{"1024", "300"}[i]) {
			t.Errorf("call %d does not say how large it was: %+v", i, got[i])
		}
		if b := whole(t, n, string(v.Messages[i])); len(b) != []int{1024, 300}[i] || i == 0 && (b[0] != 0 || b[255] != 255) {
			t.Errorf("call %d: %d bytes are kept", i, len(b))
		}
	}
	for i, m := range v.Messages {
		if !json.Valid(m) || !utf8.Valid(m) {
			t.Errorf("message %d is not JSON: %q", i, m)
		}
	}
}

func largerThanTheBus(t *testing.T, _ *place, n *node) {
	for _, size := range []int{900_000, 1<<20 - 1, 1 << 20, 5 << 20} {
		for _, kind := range []string{"text", "json", "nul"} {
			v := n.run(turn{Calls: []call{blob(size, kind)}})
			v.Calls[0].is(t, "completed", "", "")
			if len(v.Messages[0]) > callBudget {
				t.Errorf("%s of %d: %d bytes", kind, size, len(v.Messages[0]))
			}
			got := whole(t, n, string(v.Messages[0]))
			if kind == "json" { // the whole of an answer that is JSON is the answer
				var a struct{ Data json.RawMessage }
				if err := json.Unmarshal(got, &a); err != nil {
					t.Errorf("json of %d: %v", size, err)
				}
				got = a.Data
			}
			if len(got) != size {
				t.Errorf("%s of %d: the whole has %d bytes", kind, size, len(got))
			}
		}
	}
}

func largeArguments(t *testing.T, _ *place, n *node) {
	// 1 MiB is let in; with it the serialised echo is cut, and the whole readable.
	text := strings.Repeat("x", 1<<20-len(`{"v":""}`))
	v := n.run(turn{Calls: []call{{Tool: "echo", Args: args{"v": text}}}})
	v.Calls[0].is(t, "completed", "", "")
	if len(v.Messages[0]) > callBudget {
		t.Errorf("%d bytes", len(v.Messages[0]))
	}
	for size, status := range map[int]int{1 << 20: http.StatusRequestEntityTooLarge, 2 << 20: http.StatusRequestEntityTooLarge} {
		got, body := n.ask(http.MethodPost, "/v1/turns", turn{Calls: []call{{Tool: "echo", Args: args{"v": strings.Repeat("x", size)}}}})
		if got != status {
			t.Errorf("%d bytes of arguments: %d %s", size, got, body)
		}
	}
}

func longErrors(t *testing.T, _ *place, n *node) {
	long := strings.Repeat("long ", 40_000)
	var calls []call
	for i := range 10 {
		calls = append(calls, call{Tool: "Edit", Args: args{"path": fmt.Sprintf("missing-%d.txt", i), "old_string": long[:100_000], "new_string": "x"}})
	}
	calls = append(calls,
		call{Tool: long[:200], Args: args{}},
		call{Tool: "read", Args: args{"path": strings.Repeat("d/", 50_000) + "f"}},
		call{Tool: "Read", Args: args{"path": "a.txt", long: 1}},
		call{Tool: "sleep", Args: args{"ms": long}},
		call{Tool: "echo", Args: args{"v": long}},
	)
	v := n.run(turn{Calls: calls})
	for _, f := range []string{"openai", "anthropic", "json"} {
		messages := n.messages(v.Trace, v.Turn, f)
		if sum := total(messages); sum > turnBudget {
			t.Errorf("%s: %d bytes", f, sum)
		}
		for i, one := range content(t, f, messages) {
			if len(one) > callBudget {
				t.Errorf("%s, call %d (%s): %d bytes", f, i, v.Calls[i].State, len(one))
			}
		}
	}
}

// largeParts: what tools and gates derive from arguments must fit the log, too.
func largeParts(t *testing.T, _ *place, n *node) {
	big := strings.Repeat("x", 600_000)
	for _, c := range []call{
		{Tool: "charge", Args: args{"order": big, "amount": 1}},
		{Tool: "charge", Args: args{"order": big + "y", "amount": 1}}, // another key
		{Tool: "reserve", Args: args{"item": big}},
		{Tool: "approve_me", Args: args{"v": big}},
		{Tool: "Bash", Args: args{"command": "mv a " + big}},
		{Tool: "Read", Args: args{"path": "a.txt", big: 1}},
		{Tool: big, Args: args{}},
		{Tool: "fetch", Args: args{"url": "http://" + big}},
	} {
		v := n.run(turn{CanAsk: true, Calls: []call{c}})
		want := "denied"
		if c.Tool == "charge" || c.Tool == "reserve" {
			want = "completed"
		}
		v.Calls[0].is(t, want, "", "")
		if len(v.Messages[0]) > callBudget {
			t.Errorf("%.20s: %d bytes", c.Tool, len(v.Messages[0]))
		}
	}
}

func nothingSpilled(t *testing.T, p *place, n *node) {
	n.run(turn{Calls: []call{blob(300_000, "text"), blob(300_000, "lines")}})
	var found []string
	err := filepath.WalkDir(p.work, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) > 0 {
		t.Errorf("the workspace holds %q, %v", found, err)
	}
}
