package fault

import (
	"fmt"
	"testing"

	"github.com/sluice-run/sluice/events"
)

// tiers are calls whose effects behave in every way that policy tells apart.
var tiers = []struct {
	name string
	call taped
}{
	{"readonly", taped{tool: "read", verdict: events.Verdict{Tier: events.Readonly, Retries: 2}}},
	{"reversible", taped{tool: "write", verdict: events.Verdict{Tier: events.Reversible, Resources: []events.ResourceUse{{Name: "file:a", Exclusive: true}}}}},
	{"honours its key", taped{tool: "upsert", key: "k", verdict: events.Verdict{Tier: events.Reversible, HonoursKey: true, Key: "agent upsert k", Retries: 2}}},
	{"irreversible", taped{tool: "charge", verdict: events.Verdict{Tier: events.Irreversible}}},
	{"can be asked", taped{tool: "post", verdict: events.Verdict{Tier: events.Irreversible, Probe: true}}},
	{"approval", taped{tool: "deploy", verdict: events.Verdict{Tier: events.Approval}}},
}

// TestKinds puts each kind of fault where it tells most, for each tier. What is told is
// the answer, how often the tool was run, and how often its effect happened.
func TestKinds(t *testing.T) {
	started := [2]string{"started", "completed"}
	for _, row := range []struct {
		kind Kind
		at   [2]string
		want [6]string // by tier: readonly, reversible, honours its key, irreversible, can be asked, approval
	}{
		{CrashLost, started, [6]string{"= 2/0", "unknown 1/1", "= 2/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{CrashKept, started, [6]string{"= 1/0", "= 1/1", "= 1/1", "= 1/1", "= 1/1", "= 1/1"}},
		{NodeDeath, started, [6]string{"= 2/0", "unknown 1/1", "= 2/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{Zombie, started, [6]string{"= 2/0", "unknown 1/1", "= 2/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{PowerLoss, started, [6]string{"= 2/0", "unknown 1/1", "= 2/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{Redelivery, started, [6]string{"= 1/0", "= 1/1", "= 1/1", "= 1/1", "= 1/1", "= 1/1"}},
		{Uncertain, started, [6]string{"= 1/0", "= 1/1", "= 1/1", "= 1/1", "= 1/1", "= 1/1"}},
		{Hang, started, [6]string{"= 2/0", "unknown 1/1", "= 2/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{errorKind(events.ClassTool), started, [6]string{"failed 1/0", "unknown 1/1", "unknown 1/1", "unknown 1/1", "unknown 1/1", "unknown 1/1"}},
		{errorKind(events.ClassInvalid), started, [6]string{"failed 1/0", "failed 1/0", "failed 1/0", "failed 1/0", "failed 1/0", "failed 1/0"}},
		{errorKind(events.ClassConflict), started, [6]string{"failed 1/0", "failed 1/0", "failed 1/0", "failed 1/0", "failed 1/0", "failed 1/0"}},
		{errorKind(events.ClassUnavailable), started, [6]string{"= 2/0", "unknown 1/1", "= 2/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{errorKind(events.ClassTimeout), started, [6]string{"= 2/0", "unknown 1/1", "= 2/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{errorKind(events.ClassCancelled), started, [6]string{"failed 1/0", "unknown 1/1", "unknown 1/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{errorKind(events.ClassPanic), started, [6]string{"failed 1/0", "unknown 1/1", "unknown 1/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{errorKind(events.ClassLost), started, [6]string{"failed 1/0", "unknown 1/1", "unknown 1/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{Cancel, started, [6]string{"failed 1/0", "unknown 1/1", "unknown 1/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{LateResult, started, [6]string{"failed 1/0", "unknown 1/1", "unknown 1/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{LeaseLoss, started, [6]string{"-", "unknown 1/0", "-", "-", "-", "-"}},
		{BreakerOpen, started, [6]string{"= 1/0", "= 1/1", "= 1/1", "= 1/1", "= 1/1", "= 1/1"}},
		{Expiry, started, [6]string{"-", "-", "-", "-", "-", "-"}},

		{CrashLost, [2]string{"authorized", "started"}, [6]string{"= 1/0", "= 1/1", "= 1/1", "= 1/1", "= 1/1", "= 1/1"}},
		{CrashKept, [2]string{"authorized", "started"}, [6]string{"= 1/0", "unknown 0/0", "= 1/1", "unknown 0/0", "unknown 0/0", "unknown 0/0"}},
		{PowerLoss, [2]string{"completed", "end"}, [6]string{"= 2/0", "unknown 1/1", "= 2/1", "unknown 1/1", "= 1/1", "unknown 1/1"}},
		{Cancel, [2]string{"authorized", "started"}, [6]string{"failed 0/0", "failed 0/0", "failed 0/0", "failed 0/0", "failed 0/0", "failed 0/0"}},
		{Expiry, [2]string{"approval_requested", "approved"}, [6]string{"", "", "", "", "", "denied 0/0"}},
		{CrashLost, [2]string{"approval_requested", "approved"}, [6]string{"", "", "", "", "", "= 1/1"}},
		{BreakerOpen, [2]string{"approval_requested", "approved"}, [6]string{"", "", "", "", "", "denied 0/0"}},
		{PowerLoss, [2]string{"approved", "authorized"}, [6]string{"", "", "", "", "", "= 1/1"}},
	} {
		for i, tier := range tiers {
			t.Run(fmt.Sprintf("%s_%s_%s", row.kind, row.at[1], tier.name), func(t *testing.T) {
				p := tierPlan(t, i)
				cells := p.Cells(Selection{Kinds: []Kind{row.kind}, From: row.at[0], To: row.at[1], Call: 0, One: true})
				if row.want[i] == "" {
					if len(cells) > 0 {
						t.Fatalf("the stages are there: %v", cells[0].Pair)
					}
					return
				}
				if len(cells) != 1 {
					t.Fatalf("%d cells", len(cells))
				}
				_ = Runner{Story: true}.Play(t.Context(), cells, func(r Result) {
					if got := inShort(r); got != row.want[i] {
						t.Errorf("it is %s, want %s\n%+v %+v\n%s", got, row.want[i], r.Failures, r.Differences, story(t, p, r))
					}
				})
			})
		}
	}
}

var tierPlans = map[int]*Plan{}

func tierPlan(t *testing.T, i int) *Plan {
	if tierPlans[i] == nil {
		tape := newTape(t)
		tape.turn("u", tiers[i].call)
		tierPlans[i] = planOf(t, tape.trace, Options{})
	}
	return tierPlans[i]
}

// inShort is what came of a cell of one call, in short.
func inShort(r Result) string {
	if r.Verdict == NotApplicable {
		return "-"
	}
	told := "="
	for _, d := range r.Differences {
		told = ""
		for _, c := range d.Now {
			if c == ' ' {
				break
			}
			told += string(c)
		}
	}
	if len(r.Failures) > 0 {
		told = "FAILED"
	}
	return fmt.Sprintf("%s %d/%d", told, r.Effects[0].Runs, r.Effects[0].Effects)
}
