package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutantsFlag = flag.Bool("mutants", false, "break the deciders in every way that is listed, and see that somebody notices")

// mutant is a fault put into the deciders: in a file of lifecycle, one text for
// another.
type mutant struct {
	name     string
	file     string
	old, new string
}

var mutants = []mutant{
	{"a cancel is forgotten", "owner.go", "if ok && c.idle() {", "if ok && c.idle() && false {"},
	{"whatever was lost is started again", "claim.go", "case v.Tier == events.Readonly:", `case v.Tier != "":`},
	{"a probe that finds nothing is proof", "settle.go", `case c.Failed || !(v.HonoursKey && v.Key != ""):`, "case c.Failed || v == nil:"},
	{"every failure is tried again", "settle.go", "if !harmless || !passing", "if !harmless && v == nil || !passing"},
	{"an answer of any attempt settles", "decide.go", "c.Phase != PhaseStarted || c.Attempt != n || c.Started.Owner != d.t.Owner", "!c.Open() || c.Verdict == nil"},
	{"any owner may act", "decide.go", `case d.t.Owner.Boot == "" || d.env.Owner != d.t.Owner:`, `case d.t.Owner.Boot == "":`},
	{"a claim keeps the epoch", "claim.go", "Epoch: d.t.Owner.Epoch + 1}", "Epoch: max(1, d.t.Owner.Epoch)}"},
	{"a boot believes what it reads of its own", "claim.go", " && d.t.Claim.Reply == c.Reply:", ":"},
	{"nobody says that it is not known", "claim.go", "if r.Action == events.RecoverUnknown {", "if false {"},
	{"what nobody answered for had no effect", "claim.go", "	return events.EffectsPossible\n}\n\n// abandon", "	return events.EffectsNone\n}\n\n// abandon"},
	{"the last attempt speaks for all", "settle.go", "e == events.EffectsNone && call.Attempt > 1 &&", "false &&"},
	{"a timeout proves that nothing happened", "settle.go", "case !c.Answered:\n		return events.EffectsPossible", "case !c.Answered:\n		return events.EffectsNone"},
	{"an unknown end frees its key", "idempotency.go", "h.Outcome == nil || h.Outcome.Effects == events.EffectsNone && !h.succeeded()", "h.Outcome == nil || !h.succeeded()"},
	{"a key that is held is free", "idempotency.go", "case h.Open():\n		return KeyWait, nil", "case h.Open():\n		return KeyTake, nil"},
	{"other arguments under the same key", "idempotency.go", "if entry.Hash != hash {", "if false {"},
	{"readers share with a writer", "lock.go", "return x.Exclusive || h.Exclusive }", "return x.Exclusive && h.Exclusive }"},
	{"everybody probes", "breaker.go", `if b.Probe != "" && b.Probe != who && now.Before(b.ProbeEnd) {`, "if false {"},
	{"the window never closes the door", "breaker.go", "case BreakerOpen:\n		return b, false\n	}\n	if", "case BreakerOpen:\n		return b, true\n	}\n	if"},
	{"calls on one file share a batch", "plan.go", " || meet(a.Resources, b.Resources):", ":"},
	{"a tool of tier approval is not asked about", "gates.go", "if asks == nil && c.Verdict.Tier != events.Approval {", "if asks == nil {"},
	{"the policy's question is dropped", "gates.go", "			asks = f\n", ""},
	{"an approval comes after a cancel", "anyone.go", "if _, _, ok := d.t.Cancelled(call); ok {\n		return nil, fmt", "if false {\n		return nil, fmt"},
	{"what has run is denied", "owner.go", "case end != nil && end.Ruling == Deny && call.Attempt > 0:", "case false:"},
	{"a poisoned turn is taken over for ever", "claim.go", "if takeovers > MaxTakeovers {", "if false {"},
	{"the turn completes with a call open", "state.go", "return !slices.ContainsFunc(t.Calls, (*Call).Open)", "return !slices.ContainsFunc(t.Calls[:1], (*Call).Open)"},
	{"a late success had no effect", "claim.go", "Effects: events.EffectsDone, Result: &l.Outcome.Result,", "Effects: events.EffectsNone, Result: &l.Outcome.Result,"},
	{"a claim that was cut short is not made up for", "owner.go", "	d.closeLost()\n", ""},
	{"what was requested needs no plan", "due.go", "if t.Planned == nil {\n		return []", "if t.Planned == nil && t.Calls[0].Phase == PhaseNone {\n		return []"},
	{"others' events have no consequences", "due.go", "	if pending {\n", "	if pending && false {\n"},
	{"a door's refusal is passed over", "gates.go", "; r != nil {", "; false {"},
	{"an attempt is started twice", "evolve.go", "= PhaseStarted, e, e.Attempt,", "= PhaseAuthorized, e, e.Attempt,"},
}

// TestMutants: every listed fault still fits the code and, with -mutants, is found
// by the simulator, which says by which law.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		if _, err := m.mutated(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if !*mutantsFlag || t.Failed() {
		return
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			by, err := m.killedBy(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("killed by %s", by)
		})
	}
}

// path is the file that the fault is in.
func (m mutant) path() (string, error) {
	return filepath.Abs(filepath.Join("..", "..", "lifecycle", m.file))
}

// mutated is the file with the fault in it.
func (m mutant) mutated() ([]byte, error) {
	path, err := m.path()
	if err != nil {
		return nil, err
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(src, []byte(m.old)); n != 1 {
		return nil, errors.New(m.file + " does not hold the text that it changes exactly once: " + m.old)
	}
	return bytes.Replace(src, []byte(m.old), []byte(m.new), 1), nil
}

// complaint finds what the simulator says first, and reproduced where.
var complaint = regexp.MustCompile(`(?m)^\s+sim_test\.go:\d+: (.*)$`)

// killedBy runs the simulator on deciders with the fault, and returns the law or the
// check that noticed.
func (m mutant) killedBy(dir string) (string, error) {
	src, err := m.mutated()
	if err != nil {
		return "", err
	}
	path, err := m.path()
	if err != nil {
		return "", err
	}
	file, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": {path: file}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(file, src, 0o600), os.WriteFile(overlay, b, 0o600)); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "test", "-overlay", overlay, "-run", "^TestSim$", ".", "-seeds", "1500").CombinedOutput()
	if err == nil {
		return "", errors.New("it survives 1500 seeds")
	}
	if found := complaint.FindSubmatch(out); found != nil {
		return string(found[1]), nil
	}
	if i := bytes.Index(out, []byte("panic: ")); i >= 0 {
		line, _, _ := bytes.Cut(out[i:], []byte("\n"))
		return string(line), nil
	}
	return "", errors.New("it does not even run:\n" + string(out))
}
