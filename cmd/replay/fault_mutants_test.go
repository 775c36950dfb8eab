package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

var mutantsFlag = flag.Bool("fault.mutants", false, "break each law on purpose, and see that the fault run names it")

// lawMutant is a fault put into the product, in a file one text for another, that breaks
// a law.
type lawMutant struct {
	law      string
	name     string
	file     string
	old, new string
	short    bool // also without the flag
}

var lawMutants = []lawMutant{
	{"L1", "two events of a call have one number", "lifecycle/decide.go", "r.Seq = d.t.Calls[call].Seq + 1", "r.Seq = max(1, d.t.Calls[call].Seq)", false},
	{"L2", "a late answer settles a call again", "lifecycle/anyone.go", "	d.emit(c.Call, e)\n	if c.Outcome.Class", "	d.emit(c.Call, &events.Completed{Outcome: c.Outcome})\n	if c.Outcome.Class", false},
	{"L3", "a tool of tier approval is not asked about", "lifecycle/gates.go", "if asks == nil && c.Verdict.Tier != events.Approval {", "if asks == nil {", false},
	{"L4", "no barrier before what cannot be undone", "actors/hands.go", "if j.call.Verdict.Tier != events.Readonly {\n		if err := h.n.cfg.Bus.Barrier()", "if j.call == nil {\n		if err := h.n.cfg.Bus.Barrier()", true},
	{"L5", "an attempt is started twice", "lifecycle/evolve.go", "= PhaseStarted, e, e.Attempt,", "= PhaseAuthorized, e, e.Attempt,", false},
	{"L6", "whatever was lost is started again", "lifecycle/claim.go", "case v.Tier == events.Readonly:", `case v.Tier != "":`, true},
	{"L7", "the turn completes with a call open", "lifecycle/state.go", "return !slices.ContainsFunc(t.Calls, (*Call).Open)", "return !slices.ContainsFunc(t.Calls[:1], (*Call).Open)", false},
	{"L8", "the last batch comes first", "lifecycle/due.go", "for _, b := range t.Planned.Batches {", "for _, b := range slices.Backward(t.Planned.Batches) {", false},
	{"L9", "it is decided by a time that is not stored", "actors/turn.go", "return a.n.cfg.Now().UTC().Truncate(time.Microsecond) }", "return a.n.cfg.Now().UTC() }", false},
	{"L10", "what has run is denied", "lifecycle/owner.go", "case end != nil && end.Ruling == Deny && call.Attempt > 0:", "case false:", false},
	{"L11", "a claim keeps the epoch", "lifecycle/claim.go", "Epoch: d.t.Owner.Epoch + 1}", "Epoch: max(1, d.t.Owner.Epoch)}", false},
}

// TestLawMutants: for each law there is a fault in the product that breaks it, which the
// built command finds and names.
func TestLawMutants(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var dir string
	for _, m := range lawMutants {
		path := filepath.Join(root, filepath.FromSlash(m.file))
		src, err := m.mutated(path)
		if err != nil {
			t.Errorf("%s, %s: %v", m.law, m.name, err)
			continue
		}
		if !*mutantsFlag && !m.short {
			continue
		}
		if dir == "" {
			dir = recordedLog(t)
			var out, errw strings.Builder
			if code := run(t.Context(), []string{"fault", "--data", dir, "--all", "--all-pairs", "--all-kinds"}, strings.NewReader(""), &out, &errw); code != 0 {
				t.Fatalf("without a fault in the product: exit status %d\n%s%s", code, out.String(), errw.String())
			}
		}
		t.Run(m.law, func(t *testing.T) {
			bin := buildWith(t, path, src)
			out, code := runFault(t, bin, dir)
			if code != 1 || !strings.Contains(out, m.law+": ") {
				t.Errorf("%s: exit status %d, want 1 and %s named:\n%s", m.name, code, m.law, out)
			}
			t.Logf("%s: found by %q", m.name, firstWith(out, m.law+": "))
		})
	}
}

// mutated is the file with the fault in it.
func (m lawMutant) mutated(path string) ([]byte, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(src, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s holds the text that it changes %d times: %s", m.file, n, m.old)
	}
	return bytes.Replace(src, []byte(m.old), []byte(m.new), 1), nil
}

// buildWith builds the command with another text of a file.
func buildWith(t *testing.T, path string, src []byte) string {
	t.Helper()
	dir := t.TempDir()
	file, overlay, bin := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sluice-replay")
	b, err := json.Marshal(map[string]map[string]string{"Replace": {path: file}})
	err = errors.Join(err, os.WriteFile(file, src, 0o600), os.WriteFile(overlay, b, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

func runFault(t *testing.T, bin, dir string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, "fault", "--data", dir, "--all", "--all-pairs", "--all-kinds")
	b, err := cmd.CombinedOutput()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

func firstWith(out, word string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, word) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// recordedLog is a data directory with turns that have what each law is about: calls that
// end in every way, people, and two writes of one file.
func recordedLog(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	b, srv, err := jetlog.OpenEmbedded(context.Background(), jetlog.ServerConfig{Dir: dir}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m := &maker{log: b, last: map[events.TurnKey]uint64{}}
	var commits []events.Commit
	for _, name := range []string{"ends", "people"} {
		commits = append(commits, corpusLog(name)...)
	}
	err = m.add(append(commits, twoWrites())...)
	if err := errors.Join(err, b.Close(), srv.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// twoWrites is a turn that writes one file twice.
func twoWrites() events.Commit {
	owner := events.Owner{Boot: "b1", Epoch: 1}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sub := &events.TurnSubmitted{Principal: events.Principal{ID: "agent"}}
	c := events.Commit{ID: "writes", Turn: events.TurnKey{Trace: "writes", Turn: "t1"}, At: at, By: owner, Records: []events.Record{
		{Call: events.TurnEvent, Seq: 1, Event: sub},
		{Call: events.TurnEvent, Seq: 2, Event: &events.TurnClaimed{Owner: owner, Why: events.ClaimNew}},
	}}
	planned := events.Record{Call: events.TurnEvent, Seq: 3, Event: &events.TurnPlanned{Batches: [][]int{{0}, {1}}, Policy: "p"}}
	var calls []events.Record
	for i := range 2 {
		raw := events.RawCall{ProviderID: fmt.Sprint("w", i), Tool: "Write", Args: events.Body{Text: fmt.Sprintf(`{"path":"a","text":"%d"}`, i)}}
		sub.Calls = append(sub.Calls, raw)
		hash := hashOf(raw.Args.Text)
		v := events.Verdict{
			Operation: events.Operation{Class: events.OpWrite}, Tier: events.Reversible, Hash: hash, Policy: "p", Resources: []events.ResourceUse{{Name: "file:a", Exclusive: true}},
		}
		done := events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsDone, Result: events.Result{Status: events.Success, Text: events.Body{Text: "written"}}}
		for j, e := range []events.Event{
			&events.Requested{ProviderID: raw.ProviderID, Tool: raw.Tool, Args: raw.Args, Hash: hash}, &events.Authorized{Verdict: v, Decision: "allow"},
			&events.Started{Attempt: 1, Owner: owner, Deadline: at.Add(time.Minute), Hash: hash}, &events.Completed{Outcome: done},
		} {
			calls = append(calls, events.Record{Call: i, Seq: uint32(j + 1), Event: e})
		}
	}
	c.Records = slices.Concat(c.Records, []events.Record{calls[0], calls[4], planned}, calls[1:4], calls[5:8], []events.Record{
		{Call: events.TurnEvent, Seq: 4, Event: &events.TurnCompleted{Counts: map[events.Kind]int{events.KindCompleted: 2}}},
	})
	return c
}

func hashOf(args string) string {
	a, err := lifecycle.Parse(args)
	if err != nil {
		panic(err)
	}
	return a.Hash
}
