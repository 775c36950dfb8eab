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

// mutant is a fault put into the product: in a file, one text for another.
type mutant struct {
	name     string
	file     string // in the package that the list is of
	old, new string
}

// ofActors are the faults in the shell: of package actors.
var ofActors = []mutant{
	{"debts of another owner are paid", "effects.go", `a.owner.Boot == "" || a.state.Owner != a.owner {
		return nil`, `a.owner.Boot == "" {
		return nil`},
	{"an attempt runs before its start is in the log", "effects.go", "|| e.Do == lifecycle.DoStart\n}", "|| e.Do == lifecycle.DoStart || e.Do == lifecycle.DoPerform\n}"},
	{"no barrier before what cannot be undone", "hands.go", "if j.call.Verdict.Tier != events.Readonly {\n		if err := h.n.cfg.Bus.Barrier()", "if j.call == nil {\n		if err := h.n.cfg.Bus.Barrier()"},
	{"an end is told before it is durable", "effects.go", "if err := n.cfg.Bus.Barrier().Wait(n.ctx); err != nil {\n			n.barrierFailed(n.ctx, err)\n			n.root.Send(self, giveUp{})", "if err := n.ctx.Err(); err != nil {\n			n.barrierFailed(n.ctx, err)\n			n.root.Send(self, giveUp{})"},
	{"a lease is not renewed", "locks.go", "a.tick = a.n.after(a.n.cfg.LockTTL/3,", "a.tick = a.n.after(a.n.cfg.LockTTL*1000,"},
	{"another actor's claim is adopted", "turn.go", "a.mine == (claimed{a.state.Owner, a.state.Claim.Reply}) {", "a.state.Owner.Boot == a.n.cfg.Boot {"},
	{"a nudge that was not heard is forgotten", "take.go", "if had && s.nudged > heard && !over {", "if had && s.nudged > heard && over {"},
	{"keys are taken before the request is in the log", "effects.go", "return e.Do == lifecycle.DoJudge && a.n.keyed(a.asked[e.Call])", "return e.Do == lifecycle.DoJudge && a.n.keyed(a.asked[e.Call]) && a.drain"},
	{"everybody is admitted", "breakers.go", "	default:\n		open(&f, c, now.is)\n", "	default:\n		view.State, view.Revision, view.Probe = string(lifecycle.BreakerHalfOpen), now.rev, true\n"},
	{"a host's failure is its tool's", "breakers.go", "Of: call.Started.Breaker.Circuit}", "Of: \"\"}"},
	{"all hosts have one circuit", "gates.go", "Of: g.learn(tool, a).circuit}", "Of: g.learn(tool, a).circuit[:min(4, len(g.learn(tool, a).circuit))]}"},
	{"an ended call keeps its leases", "effects.go", "n.do(func() { n.unheld(key, call, workspace) })", "_, _ = key, workspace"},
	{"a room is lost", "take.go", "	if had {\n		n.room <- struct{}{}\n	}", "	if had && over {\n		n.room <- struct{}{}\n	}"},
	{"a reload believes a mirror that lags", "turn.go", "	atLeast = max(atLeast, a.at)\n", ""},
	{"a parked turn keeps its seat", "effects.go", "	c.Stop(c.Self())\n}\n\n// handBack", "	if a.state.Ended != nil {\n		c.Stop(c.Self())\n	}\n}\n\n// handBack"},
	{"a turn is parked without its timer", "effects.go", "		if !at.IsZero() {\n			err = n.cfg.Bus.Set(", "		if at.IsZero() {\n			err = n.cfg.Bus.Set("},
	{"a timer that has come already is not missed", "effects.go", "	case m.heard == a.heard:\n		a.command(m.park)", "	case m.err == nil:\n		a.command(m.park)"},
	{"one who has the lease stands in line", "locks.go", "	return max(i, 0)\n", "	return min(max(i, 0), 0)\n"},
	{"a resource has two actors", "locks.go", "s.takes == 0 && s.told == 0 && len(s.held) == 0", "s.takes == 0 && len(s.held) == 0"},
	{"a tool is not given its answers", "input.go", "	j.in.Given = given\n", "	_ = given\n"},
	{"a call that waits for answers keeps its leases", "turn.go", "		a.letGo(call)\n", ""},
	{"a limit is passed where nobody can be asked", "limits.go", "			if err != nil || f.Ruling != lifecycle.Pass {\n", "			if f.Ruling != lifecycle.Pass {\n"},
	{"a token is taken and not written", "rates.go", "		if next == was {\n			return is\n		}", "		if next == was || is.ok {\n			return is\n		}"},
	{"a slot is not the call's any more once it has ended", "slots.go", "	return append(slices.Clone(s.Locks), slotsOf(s.Limits)...)\n", "	return slices.Clone(s.Locks)\n"},
	{"a timer's wake-up is taken for an earlier one", "ending.go", `"timer." + n.cfg.ID()`, `"timer." + key.Trace + "." + key.Turn`},
}

// ofDeciders are the faults in package lifecycle.
var ofDeciders = []mutant{
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
	{"the last attempt speaks for all", "settle.go", "e == events.EffectsNone && call.Doubt &&", "e != e &&"},
	{"a timeout proves that nothing happened", "settle.go", "case !c.Answered:\n		return events.EffectsPossible", "case !c.Answered:\n		return events.EffectsNone"},
	{"an unknown end frees its key", "idempotency.go", "h.Outcome == nil || h.Outcome.Effects == events.EffectsNone && !h.succeeded()", "h.Outcome == nil || !h.succeeded()"},
	{"a key that is held is free", "idempotency.go", "case h.Open():\n		return KeyWait, nil", "case h.Open():\n		return KeyTake, nil"},
	{"other arguments under the same key", "idempotency.go", "if entry.Hash != hash {", "if false {"},
	{"readers share with a writer", "lock.go", "return x.Exclusive || h.Exclusive }", "return x.Exclusive && h.Exclusive }"},
	{"one more has a slot than there are", "lock.go", "len(others)+ahead >= h.Slots", "len(others)+ahead > h.Slots"},
	{"a token costs nothing", "limit_rate.go", "	is.Debt += token\n", "	is.Debt += token / 4\n"},
	{"everybody probes", "breaker.go", `if b.Probe != "" && !sameCall(b.Probe, who) && now.Before(b.ProbeEnd) {`, "if false {"},
	{"the window never closes the door", "breaker.go", "case BreakerOpen:\n		return b, false\n	}\n	if", "case BreakerOpen:\n		return b, true\n	}\n	if"},
	{"calls on one file share a batch", "plan.go", " || meet(a.Resources, b.Resources):", ":"},
	{"a tool of tier approval is not asked about", "gates.go", "if asks == nil && c.Verdict.Tier != events.Approval {", "if asks == nil {"},
	{"the policy's question is dropped", "gates.go", "			asks = f\n", ""},
	{"an approval comes after a cancel", "people.go", "if _, _, ok := d.t.Cancelled(call); ok {\n		return nil, fmt", "if false {\n		return nil, fmt"},
	{"an agent says yes", "people.go", "case by.Kind != KindPerson && by.Kind != KindService:", "case false:"},
	{"what has run is denied", "owner.go", "case end != nil && end.Ruling == Deny && call.Attempt > 0:", "case false:"},
	{"a poisoned turn is taken over for ever", "claim.go", "if takeovers > MaxTakeovers {", "if takeovers > MaxTakeovers && false {"},
	{"the turn completes with a call open", "state.go", "return !slices.ContainsFunc(t.Calls, (*Call).Open)", "return !slices.ContainsFunc(t.Calls[:1], (*Call).Open)"},
	{"a late success had no effect", "claim.go", "Effects: events.EffectsDone, Result: &l.Outcome.Result,", "Effects: events.EffectsNone, Result: &l.Outcome.Result,"},
	{"a claim that was cut short is not made up for", "owner.go", "	d.closeLost()\n", ""},
	{"what was requested needs no plan", "due.go", "if t.Planned == nil {\n		return []", "if t.Planned == nil && t.Calls[0].Phase == PhaseNone {\n		return []"},
	{"others' events have no consequences", "due.go", "	if pending {\n", "	if pending && false {\n"},
	{"a door's refusal is passed over", "gates.go", "; r != nil {", "; false {"},
	{"an agent answers a tool", "input.go", "if err := MayDecide(c.By, d.t.Submitted.Principal); err != nil {", "if err := error(nil); err != nil {"},
	{"a tool is answered after a cancel", "input.go", "	case cancelled:\n		return fmt", "	case cancelled && false:\n		return fmt"},
	{"the second answer counts", "input.go", "if have := call.Answered; have != nil {", "if have := call.Answered; have != nil && false {"},
	{"a tool goes on without its answers", "owner.go", "|| c.Phase == PhaseGiven\n", "|| c.Phase == PhaseGiven || c.Phase == PhaseInput\n"},
	{"nobody's answer is a yes", "input.go", "Action: events.InputCancel})", "Action: events.InputAccept})"},
	{"an attempt is started twice", "evolve.go", "= PhaseStarted, e, e.Attempt,", "= PhaseAuthorized, e, e.Attempt,"},
}

// TestMutants: every listed fault still fits the code and, with -mutants, is found
// by a simulator, which says by which law.
func TestMutants(t *testing.T) {
	for _, list := range []struct {
		pkg     string
		mutants []mutant
	}{{"actors", ofActors}, {"lifecycle", ofDeciders}} {
		for _, m := range list.mutants {
			path, err := filepath.Abs(filepath.Join("..", "..", list.pkg, m.file))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.mutated(path); err != nil {
				t.Errorf("%s: %v", m.name, err)
				continue
			}
			if !*mutantsFlag {
				continue
			}
			t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
				by, err := m.killedBy(path, list.pkg, t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("killed by %s", by)
			})
		}
	}
}

// mutated is the file with the fault in it.
func (m mutant) mutated(path string) ([]byte, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(src, []byte(m.old)); n != 1 {
		return nil, errors.New(m.file + " does not hold the text that it changes exactly once: " + m.old)
	}
	return bytes.Replace(src, []byte(m.old), []byte(m.new), 1), nil
}

// killers are the simulators that a fault in a package is shown to, the quicker first.
func killers(pkg string) [][]string {
	all := []string{"test", "-run", "^TestSim$", ".", "-seeds", "1000"}
	if pkg == "actors" {
		return [][]string{all}
	}
	return [][]string{{"test", "-run", "^TestDeciders$", "./deciders", "-seeds", "1500"}, all}
}

// complaint finds what a simulator says first.
var complaint = regexp.MustCompile(`(?m)^\s+sim_test\.go:\d+: (.*)$`)

// killedBy runs the simulators on a package with the fault, and returns the law or the
// check that noticed.
func (m mutant) killedBy(path, pkg, dir string) (string, error) {
	src, err := m.mutated(path)
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
	for _, args := range killers(pkg) {
		out, err := exec.Command("go", append([]string{args[0], "-overlay", overlay}, args[1:]...)...).CombinedOutput()
		if err == nil {
			continue
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
	return "", errors.New("it survives")
}
