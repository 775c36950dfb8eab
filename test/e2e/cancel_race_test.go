package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	raceRounds = flag.Int("cancel-rounds", 40, "rounds that each worker races a cancel against a call's end")
	raceSeed   = flag.Uint64("cancel-seed", 0, "seed of the races; 0: the clock")
)

// TestACancelRacesWithTheEnd: whatever comes first, there is one end, the log says
// which, and so do the reply to the cancel and the answer.
func TestACancelRacesWithTheEnd(t *testing.T) {
	t.Parallel()
	n := newPlace(t).serve()
	seed := *raceSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	ends := map[string]int{}
	var all sync.WaitGroup
	for worker := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(worker)))
		within := 16 * time.Millisecond // of the submission, and as much nearer or later as the last ends came before or behind
		all.Go(func() {
			for i := range *raceRounds {
				end := n.race(fmt.Sprintf("race-%d-%d", worker, i), rng, within)
				if strings.HasSuffix(end, "already_terminal") {
					within = within*3/4 + 1
				} else {
					within += within/3 + time.Microsecond
				}
				mu.Lock()
				ends[end]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("ends and replies: %v", ends)
	if ends["completed after already_terminal"] == 0 || ends["cancelled after accepted"] == 0 {
		t.Errorf("one side has always won: %v", ends)
	}
}

// race is one round: a call that takes some milliseconds beside one that takes
// none, and a cancel within a time of its submission. It returns how it went.
func (n *node) race(trace string, rng *rand.Rand, within time.Duration) string {
	takes := rng.IntN(8)
	one := []call{
		{Tool: "sleep", Args: args{"ms": takes}},
		charge(trace, 1, "stall_ms", takes),
		{Tool: "Bash", Args: args{"command": "ls"}},
	}[rng.IntN(3)]
	path := "/v1/turns/" + trace + "/t/calls/0/cancel"
	if rng.IntN(2) == 0 {
		path = "/v1/turns/" + trace + "/t/cancel"
	}
	n.submit(turn{Trace: trace, Turn: "t", Calls: []call{one, {Tool: "echo", Args: args{"v": trace}}}})
	<-time.After(time.Duration(rng.Int64N(int64(within))))
	r := n.post(path, nil)
	v := n.end(trace, "t")
	list := n.events(trace, "t")
	var end []event
	for _, e := range list {
		if terminals[e.kind()] && strings.HasSuffix(e.Subject, "/0") {
			end = append(end, e)
		}
	}
	if len(end) != 1 {
		n.t.Errorf("%s has %d terminals", trace, len(end))
		return "broken"
	}
	n.agree(trace, path, r.Status, r.State, end[0], list, v)
	return end[0].kind() + " after " + r.Status
}

// agree compares what everybody was told with the log.
func (n *node) agree(trace, path, status, state string, end event, list []event, v view) {
	asked := of(list, "turn_cancel_requested", "")
	ofCall := strings.Contains(path, "/calls/")
	if ofCall {
		asked = of(list, "cancel_requested", "0")
	}
	switch {
	case status == "accepted" && (len(asked) != 1 || ofCall && !before(n.t, asked[0].Position, end.Position)):
		n.t.Errorf("%s: accepted, and %d requests in the log before %s", trace, len(asked), end.kind())
	case status == "already_terminal" && len(asked) != 0:
		n.t.Errorf("%s: already ended, and %d requests in the log", trace, len(asked))
	case status == "already_terminal" && ofCall && state != end.kind():
		n.t.Errorf("%s: told that it had %s, the log says %s", trace, state, end.kind())
	case status == "already_terminal" && !ofCall && state != "turn_completed":
		n.t.Errorf("%s: told that the turn is %s", trace, state)
	}
	if v.Calls[0].State != end.kind() {
		n.t.Errorf("%s: shown as %s, the log says %s", trace, v.Calls[0].State, end.kind())
	}
	got := answers(n.t, v.Messages)
	if len(got) != 2 || got[0].Call != 0 || got[1].Call != 1 {
		n.t.Errorf("%s: answers %+v", trace, got)
		return
	}
	want := "success"
	switch {
	case end.kind() != "completed" && end.field("effects") == "possible":
		want = "unknown"
	case end.kind() != "completed":
		want = "failed"
	}
	if got[0].Answer != want {
		n.t.Errorf("%s: the model is told %s, the log says %s with effects %s", trace, got[0].Answer, end.kind(), end.field("effects"))
	}
}
