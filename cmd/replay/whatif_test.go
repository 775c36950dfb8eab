package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
)

func TestWhatifSaysNothingThatATerminalObeys(t *testing.T) {
	evil := "x\x1b[2Jy\u202ez\r\n0000 allowed"
	s := &shelf{}
	s.place(lawful("t", "u", evil)...)
	imported := events.Commit{Turn: events.TurnKey{Trace: "i", Turn: "u"}, At: time.Unix(0, 0).UTC(), Records: []events.Record{{
		Call: events.TurnEvent, Seq: 1, Event: &events.TurnSubmitted{Imported: "f", Principal: events.Principal{ID: "x"}, Calls: []events.RawCall{{Tool: evil + "2"}}},
	}}}
	s.place(imported)
	file := filepath.Join(t.TempDir(), "no.cedar")
	if err := os.WriteFile(file, []byte(`@id("no") @reason("{tool}, no.") forbid (principal, action, resource is Tool);`), 0o600); err != nil {
		t.Fatal(err)
	}
	a, out, errs := shown()
	w := &whatIf{app: a, by: &deciding{policy: file}}
	if err := w.run(t.Context(), &reading{source: s, blobs: blank{}}); !errors.Is(err, errSaid) {
		t.Fatal(err)
	}
	if err := a.out.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"\x1b", "\u202e", "\r", "\n0000"} {
		if strings.Contains(out.String(), c) || strings.Contains(errs.String(), c) {
			t.Errorf("%q in %q, %q", c, out, errs)
		}
	}
	for _, want := range []string{`1  x\u001b[2Jy\u202ez\u000d\u000a0000 allowed PERMISSION_DENIED: `, `1  x\u001b[2Jy\u202ez\u000d\u000a0000 allowed2: what it would do was not recorded`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

func TestWhatifPrintsSoManyGroups(t *testing.T) {
	a, out, _ := shown()
	w := &whatIf{app: a, by: &deciding{policy: "p"}, version: "v"}
	var s again.Summary
	for i := range 100 {
		ex := []again.Example{{Call: events.CallKey{Trace: "t", Turn: "u"}, Position: events.Position{Generation: 1, Seq: 2}}}
		s.Groups = append(s.Groups, again.Group{From: again.Allowed, To: again.Denied, Tool: fmt.Sprint("tool", i), Reason: "No.", Count: 1, Examples: ex})
		s.Unjudged = append(s.Unjudged, again.Unjudged{Why: "why", Tool: fmt.Sprint("tool", i), Count: 2, Examples: ex})
	}
	s.Changed, s.NotJudged, s.Calls = 100, 200, 300
	w.tell(s)
	if err := a.out.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"allowed -> denied: 100 calls\n", "  and 60 further groups, in --json\n", "not judged: 200 calls\n", "  and 88 further groups that no policy was asked about, in --json\n", "300 calls: 100 judged by p (version v): 100 changes, 0 the same; 200 cannot be judged\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out.String(), "\n"); n > 110 {
		t.Errorf("%d lines", n)
	}
	if line := w.line(s); len(line.Groups) != 100 || len(line.Unjudged) != 100 || line.OK {
		t.Errorf("in JSON all of them stand: %d, %d", len(line.Groups), len(line.Unjudged))
	}
}

func TestWhatAJobWants(t *testing.T) {
	for _, c := range []struct {
		name   string
		sum    again.Summary
		strict bool
		broken int
		ok     bool
	}{
		{"nothing changes", again.Summary{Calls: 3, Same: 3}, true, 0, true},
		{"something changes", again.Summary{Calls: 3, Same: 2, Changed: 1}, false, 0, false},
		{"a change that --to leaves out", again.Summary{Calls: 3, Same: 3, Unwanted: 1}, false, 0, true},
		{"the policy breaks", again.Summary{Calls: 3, Same: 2, Broken: 1}, false, 0, false},
		{"some cannot be judged", again.Summary{Calls: 3, Same: 2, NotJudged: 1}, false, 0, true},
		{"none may be left out", again.Summary{Calls: 3, Same: 2, NotJudged: 1}, true, 0, false},
		{"none may lack its beginning", again.Summary{Calls: 3, Same: 3, Headless: 1}, true, 0, false},
		{"none can be judged", again.Summary{Calls: 3, NotJudged: 3}, false, 0, false},
		{"a commit is damaged", again.Summary{Calls: 3, Same: 3}, false, 1, false},
	} {
		w := &whatIf{strict: c.strict, damaged: c.broken}
		if got := w.clean(c.sum); got != c.ok {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
