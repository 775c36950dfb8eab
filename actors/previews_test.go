package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fs"
)

// showing is a node whose second call of a turn waits for a person, and then for the first.
type showing struct {
	t    *testing.T
	bus  bus.Bus
	dir  string
	open chan struct{} // closed: the first call may end
	runs atomic.Int64  // of the tool run
	laws *versioned
}

// versioned is a policy that asks about everything but reading, and whose version changes.
type versioned struct {
	choosy
	version atomic.Value
}

func (v *versioned) Authorize(r policy.Request) policy.Verdict {
	out := v.choosy.Authorize(r)
	switch {
	case slices.Contains(r.Op.Paths, "secret"):
		out.Decision = policy.Deny
	case slices.Contains(r.Op.Paths, "free"):
		out.Decision = policy.Allow
	}
	out.Version = v.Version()
	return out
}

func (v *versioned) Version() string { return v.version.Load().(string) }

func newShowing(t *testing.T) *showing {
	t.Helper()
	s := &showing{t: t, bus: memlog.New(memlog.Config{}).View("a"), dir: t.TempDir(), open: make(chan struct{}), laws: &versioned{}}
	s.laws.version.Store("v1")
	write, err := fs.Write()
	if err != nil {
		t.Fatal(err)
	}
	hold := testTool("hold", events.Readonly, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		select {
		case <-s.open:
		case <-ctx.Done():
		}
		return echo(ctx, in)
	})
	run := counting("run", events.Irreversible, &s.runs, nil)
	run.Operands = func(args json.RawMessage) []string { return []string{stringAt(args, "/script")} }
	testNode(t, s.bus, func(c *Config) { c.Workspace, c.Authorizer = s.dir, s.laws }, write, hold, run)
	return s
}

func (s *showing) put(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *showing) link(to, name string) {
	s.t.Helper()
	_ = os.Remove(filepath.Join(s.dir, name)) // there may be none
	if err := os.Symlink(to, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// agreed submits a call behind one that holds, and says yes to it once it asks.
func (s *showing) agreed(tool, args string) events.TurnKey {
	s.t.Helper()
	key := submit(s.t, s.bus, events.TurnSubmitted{CanAsk: true, Calls: []events.RawCall{{Tool: "hold"}, {Tool: tool, Args: events.Body{Text: args}}}})
	until(s.t, s.bus, key, "asking", func(turn lifecycle.Turn) bool {
		return len(turn.Calls) > 0 && turn.Calls[1].Phase == lifecycle.PhaseAsking
	})
	as(s.t, s.bus, key, lifecycle.Approve{Call: 1, By: boss})
	return key
}

// TestWhatWasShownIsWhatRuns: whatever happens to the files between the yes and the
// start, content that nobody was shown is neither run nor overwritten.
func TestWhatWasShownIsWhatRuns(t *testing.T) {
	for name, c := range map[string]struct {
		tool, args string
		before     func(*showing)
		after      func(*showing)
		completes  bool
	}{
		"a script, untouched":     {"run", `{"script":"s.sh"}`, func(s *showing) { s.put("s.sh", "good") }, nil, true},
		"a script, touched":       {"run", `{"script":"s.sh"}`, func(s *showing) { s.put("s.sh", "good") }, func(s *showing) { s.put("s.sh", "good") }, true},
		"a script changes":        {"run", `{"script":"s.sh"}`, func(s *showing) { s.put("s.sh", "good") }, func(s *showing) { s.put("s.sh", "evil") }, false},
		"a script goes":           {"run", `{"script":"s.sh"}`, func(s *showing) { s.put("s.sh", "good") }, func(s *showing) { _ = os.Remove(filepath.Join(s.dir, "s.sh")) }, false},
		"a script comes":          {"run", `{"script":"s.sh"}`, func(*showing) {}, func(s *showing) { s.put("s.sh", "evil") }, false},
		"a script that never was": {"run", `{"script":"s.sh"}`, func(*showing) {}, nil, true},
		"a link leads elsewhere":  {"run", `{"script":"l"}`, func(s *showing) { s.put("a", "good"); s.put("b", "evil"); s.link("a", "l") }, func(s *showing) { s.link("b", "l") }, false},
		"a link becomes a file":   {"run", `{"script":"l"}`, func(s *showing) { s.put("a", "good"); s.link("a", "l") }, func(s *showing) { _ = os.Remove(filepath.Join(s.dir, "l")); s.put("l", "evil") }, false},
		"a link leads out":        {"run", `{"script":"l"}`, func(s *showing) { s.put("a", "good"); s.link("a", "l") }, func(s *showing) { s.link("/etc/passwd", "l") }, false},
		"a folder comes":          {"run", `{"script":"d"}`, func(*showing) {}, func(s *showing) { _ = os.Mkdir(filepath.Join(s.dir, "d"), 0o700) }, false},
		"a file, untouched":       {"Write", `{"path":"f","text":"new"}`, func(s *showing) { s.put("f", "old") }, nil, true},
		"a file changes":          {"Write", `{"path":"f","text":"new"}`, func(s *showing) { s.put("f", "old") }, func(s *showing) { s.put("f", "theirs") }, false},
		"a file goes":             {"Write", `{"path":"f","text":"new"}`, func(s *showing) { s.put("f", "old") }, func(s *showing) { _ = os.Remove(filepath.Join(s.dir, "f")) }, false},
		"a file comes":            {"Write", `{"path":"f","text":"new"}`, func(*showing) {}, func(s *showing) { s.put("f", "theirs") }, false},
		"a new file":              {"Write", `{"path":"f","text":"new"}`, func(*showing) {}, nil, true},
		"a file's link is turned": {"Write", `{"path":"l","text":"new"}`, func(s *showing) { s.put("a", "old"); s.put("b", "theirs"); s.link("a", "l") }, func(s *showing) { s.link("b", "l") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShowing(t)
			c.before(s)
			key := s.agreed(c.tool, c.args)
			if c.after != nil {
				c.after(s)
			}
			close(s.open)
			turn := ended(t, s.bus, key)
			call := turn.Calls[1]
			if c.completes {
				wantLasts(t, turn, "completed completed")
				return
			}
			d, denied := call.Terminal.(*events.Denied)
			if !denied || d.Code != events.Conflict || call.Attempt > 0 || s.runs.Load() > 0 {
				t.Fatalf("it %s with %+v, %d runs", call.Last, call.Terminal, s.runs.Load())
			}
			for _, name := range []string{"f", "b"} {
				if got, err := os.ReadFile(filepath.Join(s.dir, name)); err == nil && string(got) == "new" {
					t.Errorf("%s was overwritten", name)
				}
			}
		})
	}
}

// TestAChangeThroughALinkThatWasShown: who says yes to it has seen which file it is, and
// it runs; a file that the policy closes is neither shown nor changed.
func TestAChangeThroughALinkThatWasShown(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		runs bool
	}{
		"a file": {"a", true}, "a closed one": {"secret", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShowing(t)
			s.put(c.file, "was-there")
			s.link(c.file, "l")
			key := s.agreed("Write", `{"path":"l","text":"new"}`)
			close(s.open)
			turn := ended(t, s.bus, key)
			p, got := turn.Calls[1].Asked.Preview, content(t, s.dir, c.file)
			shown := p != nil && strings.Contains(p.Text.Text, "was-there")
			if c.runs {
				wantLasts(t, turn, "completed completed")
			}
			if shown != c.runs || (got == "new") != c.runs {
				t.Errorf("shown %+v, and the file holds %q after it %s with %+v", p, got, turn.Calls[1].Last, turn.Calls[1].Outcome)
			}
		})
	}
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestChangedArgumentsThatNobodyIsAskedAbout: the files of what was asked about bind
// nothing else.
func TestChangedArgumentsThatNobodyIsAskedAbout(t *testing.T) {
	s := newShowing(t)
	s.put("s.sh", "good")
	s.put("free", "old")
	key := submit(t, s.bus, events.TurnSubmitted{CanAsk: true, Calls: []events.RawCall{{Tool: "hold"}, {Tool: "Write", Args: events.Body{Text: `{"path":"f","text":"new"}`}}}})
	until(t, s.bus, key, "asking", func(turn lifecycle.Turn) bool {
		return len(turn.Calls) > 0 && turn.Calls[1].Phase == lifecycle.PhaseAsking
	})
	args, err := lifecycle.Parse(`{"path":"free","text":"new"}`)
	if err != nil {
		t.Fatal(err)
	}
	as(t, s.bus, key, lifecycle.Approve{Call: 1, By: boss, Args: &args})
	close(s.open)
	turn := ended(t, s.bus, key)
	wantLasts(t, turn, "completed completed")
	if got := content(t, s.dir, "free"); got != "new" || turn.Calls[1].Asked.Number() != 1 {
		t.Errorf("free holds %q", got)
	}
}

// TestTheWriteItselfIsBoundToo: what was shown is what the tool expects to find, so that
// nobody can change the file between the gate and the write.
func TestTheWriteItselfIsBoundToo(t *testing.T) {
	s := newShowing(t)
	s.put("f", "old")
	key := s.agreed("Write", `{"path":"f","text":"new"}`)
	close(s.open)
	turn := ended(t, s.bus, key)
	if e := turn.Calls[1].Started.Expect; len(e) != 1 || e[0].Path != "f" || e[0].Digest != fs.Digest([]byte("old")) {
		t.Errorf("it started with the expectations %+v", e)
	}
	if p := turn.Calls[1].Asked.Preview; p == nil || p.Kind != events.PreviewDiff || !strings.Contains(p.Text.Text, "-old") || !strings.Contains(p.Text.Text, "+new") {
		t.Errorf("what was shown was %+v", p)
	}
}

// TestAskedAgainIsShownAgain: a new policy asks anew, with the next number, the files as
// they are now, and a preview of them; the old yes lets nothing through.
func TestAskedAgainIsShownAgain(t *testing.T) {
	s := newShowing(t)
	s.put("s.sh", "good")
	key := s.agreed("run", `{"script":"s.sh"}`)
	s.laws.version.Store("v2")
	close(s.open)
	turn := until(t, s.bus, key, "the second asking", func(turn lifecycle.Turn) bool {
		return turn.Calls[1].Asked != nil && turn.Calls[1].Asked.Number() == 2
	})
	asked := turn.Calls[1].Asked
	if !strings.HasPrefix(asked.Why, "asked again: the policy has changed since the yes; ") || asked.Policy != "v2" || len(asked.Operands) != 1 || asked.Operands[0].Digest != fs.Digest([]byte("good")) {
		t.Errorf("asked again with %+v", asked)
	}
	as(t, s.bus, key, lifecycle.Approve{Call: 1, Asking: 2, By: boss})
	wantLasts(t, ended(t, s.bus, key), "completed completed")
	if s.runs.Load() != 1 {
		t.Errorf("%d runs", s.runs.Load())
	}
}

// TestASessionYesIsForTheScriptThatWasShown, in later turns as in this one.
func TestASessionYesIsForTheScriptThatWasShown(t *testing.T) {
	s := newShowing(t)
	close(s.open)
	s.put("s.sh", "good")
	turn := func(name string) (events.TurnKey, lifecycle.Turn) {
		key := events.TurnKey{Trace: "session", Turn: name}
		submitAs(t, s.bus, key, events.TurnSubmitted{CanAsk: true, Calls: []events.RawCall{{Tool: "run", Args: events.Body{Text: `{"script":"s.sh"}`}}}})
		return key, until(t, s.bus, key, "the end, or parking", func(turn lifecycle.Turn) bool { return turn.Ended != nil || turn.Parked != nil })
	}
	key, _ := turn("one")
	as(t, s.bus, key, lifecycle.Approve{Call: 0, By: boss, Scope: events.ScopeSession})
	wantLasts(t, ended(t, s.bus, key), "completed")
	_, second := turn("two")
	wantLasts(t, second, "completed")
	if y := second.Planned.Inherited.Session; len(y) != 1 || y[0].By.ID != boss.ID || y[0].From != "session/one/0" {
		t.Errorf("inherited %+v", y)
	}
	s.put("s.sh", "evil")
	_, third := turn("three")
	wantLasts(t, third, "approval_requested")
	s.put("s.sh", "good")
	_, fourth := turn("four")
	wantLasts(t, fourth, "completed")
	s.laws.version.Store("v2")
	_, fifth := turn("five")
	wantLasts(t, fifth, "approval_requested")
	if s.runs.Load() != 3 {
		t.Errorf("%d runs", s.runs.Load())
	}
}

// TestPreviewsNeverHinderTheAsking: one that fails, panics, says nothing of use or is
// deaf to its deadline is told as such, and the call is asked about.
func TestPreviewsNeverHinderTheAsking(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	long := strings.Repeat("x", maxPreview) + "THE END"
	previews := map[string]func(context.Context, tools.Invocation) (events.Preview, error){
		"none": nil,
		"fails": func(context.Context, tools.Invocation) (events.Preview, error) {
			return events.Preview{}, errors.New("no sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
		},
		"panics": func(context.Context, tools.Invocation) (events.Preview, error) { panic("x") },
		"hangs": func(ctx context.Context, _ tools.Invocation) (events.Preview, error) {
			<-ctx.Done()
			return events.Preview{}, ctx.Err()
		},
		"deaf": func(context.Context, tools.Invocation) (events.Preview, error) {
			<-over
			return events.Preview{}, nil
		},
		"odd": func(context.Context, tools.Invocation) (events.Preview, error) {
			return events.Preview{Kind: "<b>", Text: events.Body{Text: "a\xffb"}, Base: make([]events.Seen, 1000)}, nil
		},
		"secret": func(context.Context, tools.Invocation) (events.Preview, error) {
			return events.Preview{Kind: events.PreviewDiff, Text: events.Body{Text: "-token=sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"}}, nil
		},
		"large": func(context.Context, tools.Invocation) (events.Preview, error) {
			return events.Preview{Kind: events.PreviewDiff, Text: events.Body{Text: long}}, nil
		},
	}
	for name, preview := range previews {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			previewed(t, name, preview)
		})
	}
}

// previewed has a call asked about, and looks at what is recorded of its preview.
func previewed(t *testing.T, name string, preview func(context.Context, tools.Invocation) (events.Preview, error)) {
	wants := map[string]func(*events.Preview) bool{
		"none": func(p *events.Preview) bool { return p == nil },
		"fails": func(p *events.Preview) bool {
			return strings.HasPrefix(p.Failed, "no ") || strings.Contains(p.Failed, "fault") || p.Failed != ""
		},
		"panics": func(p *events.Preview) bool { return p.Failed != "" },
		"hangs":  func(p *events.Preview) bool { return p.Failed != "" },
		"deaf":   func(p *events.Preview) bool { return p.Failed != "" },
		"odd": func(p *events.Preview) bool {
			return p.Kind == events.PreviewText && p.Text.Text == "a\uFFFDb" && len(p.Base) == maxBase && p.Note != ""
		},
		"secret": func(p *events.Preview) bool { return p.Note != "" && strings.Contains(p.Text.Text, "token=") },
		"large":  func(p *events.Preview) bool { return p.Text.Ref != nil && p.Text.Text == "" && p.Note != "" },
	}
	b := memlog.New(memlog.Config{}).View("a")
	tool := testTool("ask", events.Approval, echo)
	tool.Preview = preview
	testNode(t, b, nil, tool)
	key := submit(t, b, events.TurnSubmitted{Calls: calls("ask"), CanAsk: true})
	turn := until(t, b, key, "parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
	p := turn.Calls[0].Asked.Preview
	if !wants[name](p) {
		t.Errorf("recorded: %+v", p)
	}
	if text := fmt.Sprintf("%+v", p); strings.Contains(text, "sk-ant-api03-AAA") {
		t.Errorf("a secret is in the log: %s", text)
	}
	if p != nil && p.Text.Ref != nil {
		whole, err := b.Blobs().Get(t.Context(), *p.Text.Ref)
		if err != nil || !strings.HasSuffix(string(whole), "THE END") || len(whole) > maxPreview+100 {
			t.Errorf("%d bytes, %v", len(whole), err)
		}
	}
	as(t, b, key, lifecycle.Approve{Call: 0, By: boss})
	if name != "odd" { // whose base is no file at all
		wantLasts(t, ended(t, b, key), "completed")
	}
}
