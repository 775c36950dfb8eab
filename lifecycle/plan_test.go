package lifecycle_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// together is the dumb reading of which two calls may share a batch.
func together(a, b lifecycle.CallFacts, disjoint bool) bool {
	if a.Hash == "" || b.Hash == "" || !a.Known || !b.Known {
		return false
	}
	for _, x := range a.Resources {
		for _, y := range b.Resources {
			if x.Name == y.Name && (x.Exclusive || y.Exclusive) {
				return false
			}
		}
	}
	declared := len(a.Resources) > 0 && len(b.Resources) > 0
	return a.Safe && b.Safe || disjoint && declared
}

// Batches keep the model's order; no two calls in one contradict; and none of them
// could have been larger.
func TestBatches(t *testing.T) {
	fact := rapid.Custom(func(t *rapid.T) lifecycle.CallFacts {
		f := lifecycle.CallFacts{
			Hash: rapid.SampledFrom([]string{"h", "h", "h", ""}).Draw(t, "hash"), Known: rapid.IntRange(0, 5).Draw(t, "known") > 0,
			Safe: rapid.Bool().Draw(t, "safe"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "resources") {
			f.Resources = append(f.Resources, events.ResourceUse{
				Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), Exclusive: rapid.Bool().Draw(t, "exclusive"),
			})
		}
		return f
	})
	rapid.Check(t, func(t *rapid.T) {
		facts := rapid.SliceOfN(fact, 0, 12).Draw(t, "facts")
		disjoint := rapid.Bool().Draw(t, "disjoint")
		got := lifecycle.Batches(facts, disjoint)
		for i, f := range slices.Concat(got...) {
			if f != i {
				t.Fatalf("%v is not the model's order", got)
			}
		}
		if n := len(slices.Concat(got...)); n != len(facts) {
			t.Fatalf("%v holds %d of %d calls", got, n, len(facts))
		}
		for n, b := range got {
			for _, i := range b {
				for _, j := range b {
					if i != j && !together(facts[i], facts[j], disjoint) {
						t.Fatalf("%v: %d and %d may not run together", got, i, j)
					}
				}
			}
			if n+1 < len(got) && !slices.ContainsFunc(b, func(i int) bool { return !together(facts[i], facts[got[n+1][0]], disjoint) }) {
				t.Fatalf("%v: %d could have joined the batch before it", got, got[n+1][0])
			}
		}
	})
}

func TestCheckSubmission(t *testing.T) {
	good := func() events.TurnSubmitted {
		return events.TurnSubmitted{Principal: events.Principal{ID: "agent"}, Calls: []events.RawCall{{Tool: "read"}}}
	}
	calls := func(n int, c events.RawCall) func(*events.TurnSubmitted) {
		return func(s *events.TurnSubmitted) { s.Calls = slices.Repeat([]events.RawCall{c}, n) }
	}
	inline := func(n int) events.RawCall { return events.RawCall{Args: events.Body{Text: strings.Repeat("x", n)}} }
	byRef := func(n int64) events.RawCall { return events.RawCall{Args: events.Body{Ref: &events.BlobRef{Size: n}}} }
	for _, c := range []struct {
		says   string // "" means accepted
		change func(*events.TurnSubmitted)
	}{
		{"", func(*events.TurnSubmitted) {}},
		{"no calls", calls(0, events.RawCall{})},
		{"", calls(256, events.RawCall{})},
		{"257 calls: at most 256", calls(257, events.RawCall{})},
		{"principal.id", func(s *events.TurnSubmitted) { s.Principal.ID = "" }},
		{`mode "rw"`, func(s *events.TurnSubmitted) { s.Mode = "rw" }},
		{"", func(s *events.TurnSubmitted) { s.Mode, s.OnError = events.ModeRead, events.OnErrorAbortRest }},
		{`on_error "stop"`, func(s *events.TurnSubmitted) { s.OnError = "stop" }},
		{`placement "_end"`, func(s *events.TurnSubmitted) { s.Placement = events.EndPlacement }},
		{`placement "a.b"`, func(s *events.TurnSubmitted) { s.Placement = "a.b" }},
		{"", func(s *events.TurnSubmitted) { s.Placement = "gpu-1" }},
		{"max_concurrency -1", func(s *events.TurnSubmitted) { s.Limits.Concurrency = -1 }},
		{"max_concurrency 65", func(s *events.TurnSubmitted) { s.Limits.Concurrency = 65 }},
		{"negative", func(s *events.TurnSubmitted) { s.Limits.DeadlineMS = -1 }},
		{"negative", func(s *events.TurnSubmitted) { s.Limits.CallMS = -1 }},
		{"negative", func(s *events.TurnSubmitted) { s.Limits.TurnBytes = -1 }},
		{"negative", func(s *events.TurnSubmitted) { s.Limits.CallBytes = -1 }},
		{"", calls(8, inline(1<<20))},
		{"call 0: 1048577 bytes", calls(1, inline(1<<20+1))},
		{"call 0: 1048577 bytes", calls(1, byRef(1<<20+1))},
		{"more than 8388608 bytes", calls(9, byRef(1<<20))},
		{"call 0: a name of 129 bytes", calls(1, events.RawCall{Tool: strings.Repeat("x", 129)})},
		{"call 0: an id of 16385 bytes, at most 16384", calls(1, events.RawCall{ProviderID: strings.Repeat("x", lifecycle.MaxProviderID+1)})},
		{"more than 65536 bytes of ids", calls(5, events.RawCall{ProviderID: strings.Repeat("x", lifecycle.MaxProviderID)})},
		{"call 0: a key of 257 bytes", calls(1, events.RawCall{Key: strings.Repeat("x", 257)})},
		{"", calls(2, events.RawCall{ProviderID: "the same"})},
	} {
		s := good()
		c.change(&s)
		err := lifecycle.CheckSubmission(s)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, lifecycle.ErrSubmission) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("got %v, want %q in it", err, c.says)
		}
	}
}

// An absent list and an empty one are stored alike, so they are one submission.
func TestSubmitAttaches(t *testing.T) {
	w := newWorld()
	sub := events.TurnSubmitted{Principal: events.Principal{ID: "agent", Parents: []string{}}, Calls: []events.RawCall{rawCall(0, "read", "", "")}}
	sub.Calls[0].Secrets = []events.SecretRef{}
	if _, err := w.do(events.Owner{}, lifecycle.Submit{Turn: sub}); err != nil {
		t.Fatal(err)
	}
	if records, err := w.do(events.Owner{}, lifecycle.Submit{Turn: sub}); err != nil || len(records) > 0 {
		t.Errorf("the same again: %v, %v", records, err)
	}
	for i, change := range []func(*events.TurnSubmitted){
		func(s *events.TurnSubmitted) { s.Principal.Parents = []string{"parent"} },
		func(s *events.TurnSubmitted) { s.Calls = append(slices.Clone(s.Calls), s.Calls[0]) },
		func(s *events.TurnSubmitted) { s.Calls = []events.RawCall{rawCall(0, "read", "", "key")} },
		func(s *events.TurnSubmitted) { s.Calls = []events.RawCall{rawCall(1, "read", "", "")} },
	} {
		other := sub
		change(&other)
		if _, err := w.do(events.Owner{}, lifecycle.Submit{Turn: other}); !errors.Is(err, lifecycle.ErrDifferent) {
			t.Errorf("another submission, %d: got %v, want %v", i, err, lifecycle.ErrDifferent)
		}
	}
}

// Facts that are not those of the turn's calls are a bug at the edge.
func TestPlanNeedsAllFacts(t *testing.T) {
	w := newWorld()
	sp := &speaker{world: w}
	sp.line(t, "submit read read")
	sp.line(t, "claim n1")
	if _, err := w.do(w.me, lifecycle.Plan{Facts: facts(w.turn)[:1]}); err == nil || !strings.Contains(fmt.Sprint(err), "1 calls for a turn of 2") {
		t.Errorf("got %v", err)
	}
}
