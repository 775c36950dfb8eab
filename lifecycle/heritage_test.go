package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// estate is a log of one trace: the commit of sequence n is at n-1.
type estate []events.Commit

// left is what Heritage says, worked out without it: everything is gone through again for
// one turn, from a sequence on.
func (log estate) left(turn string, first int, paths, approvals []string) (in events.Inherited, context string) {
	begun, asked := make(map[string]*events.TurnSubmitted), make(map[string]*events.ApprovalRequested)
	tool, shared := make(map[string]string), make(map[string]json.RawMessage)
	for _, c := range log[first-1:] {
		for _, r := range c.Records {
			call := c.Turn.Call(r.Call).String()
			s, begins := r.Event.(*events.TurnSubmitted)
			if begins && !s.Archived() && c.Turn.Turn != turn {
				begun[c.Turn.Turn] = s
			}
			by := begun[c.Turn.Turn]
			if by == nil {
				continue
			}
			switch e := r.Event.(type) {
			case *events.Requested:
				tool[call] = e.Tool
			case *events.ApprovalRequested:
				asked[call] = e
			case *events.Approved:
				if e.Scope != events.ScopeSession {
					continue
				}
				y := events.SessionYes{Tool: tool[call], Hash: e.Hash, Policy: asked[call].Policy, Principal: by.Principal, By: e.By, From: call}
				in.Session = slices.DeleteFunc(in.Session, func(o events.SessionYes) bool {
					return o.Tool == y.Tool && o.Hash == y.Hash && o.Policy == y.Policy && o.Principal.ID == y.Principal.ID
				})
				in.Session = append(in.Session, y)
			case *events.Completed:
				for _, s := range e.Result.Seen {
					in.Seen = slices.DeleteFunc(in.Seen, func(o events.Seen) bool { return o.Path == s.Path })
					in.Seen = append(in.Seen, s)
				}
			case *events.TurnCompleted:
				var changes map[string]json.RawMessage
				_ = json.Unmarshal(e.Context, &changes)
				for name, v := range changes {
					if shared[name] = v; string(v) == "null" {
						delete(shared, name)
					}
				}
			}
		}
	}
	in.Session = slices.DeleteFunc(in.Session, func(y events.SessionYes) bool {
		return !slices.Contains(approvals, lifecycle.SessionApproval(y.Tool, y.Hash))
	})
	in.Seen = slices.DeleteFunc(in.Seen, func(s events.Seen) bool { return !slices.Contains(paths, s.Path) })
	slices.SortFunc(in.Seen, func(a, b events.Seen) int { return strings.Compare(a.Path, b.Path) })
	if len(shared) > 0 {
		b, _ := json.Marshal(shared)
		context = string(b)
	}
	return in, context
}

// chance writes histories: several turns are open at once, and each says what it likes.
type chance struct {
	*rand.Rand
	log  estate
	open []string
	n    int
}

func (c *chance) one(of string) string { return string(of[c.IntN(len(of))]) }

func (c *chance) records(turn string) []events.Record {
	call := c.IntN(3)
	hash := c.one("hi")
	switch c.IntN(4) {
	case 0:
		return []events.Record{
			{Call: call, Event: &events.Requested{Tool: c.one("TU")}},
			{Call: call, Event: &events.ApprovalRequested{Hash: hash, Policy: c.one("pq")}},
			{Call: call, Event: &events.Approved{Hash: hash, Scope: []string{events.ScopeSession, events.ScopeCall}[c.IntN(2)], By: events.Principal{ID: c.one("xy")}}},
		}
	case 1:
		return []events.Record{{Call: events.TurnEvent, Event: &events.TurnParked{}}}
	}
	var seen []events.Seen
	for range c.IntN(3) {
		seen = append(seen, events.Seen{Path: c.one("abcdef"), Digest: fmt.Sprint(len(c.log))})
	}
	return []events.Record{{Call: call, Event: &events.Completed{Outcome: events.Outcome{Result: events.Result{Seen: seen}}}}}
}

// next is one more commit.
func (c *chance) next() {
	i := c.IntN(min(len(c.open)+1, 4))
	if i == len(c.open) || len(c.open) < 2 {
		i = len(c.open)
		s := events.TurnSubmitted{Principal: events.Principal{ID: c.one("mn")}}
		if c.IntN(6) == 0 {
			s.Imported = events.ArchiveMark + "0123@1.1"
		}
		c.n++
		c.open = append(c.open, fmt.Sprint("u", c.n))
		c.log = append(c.log, earlier(c.open[i], events.Record{Call: events.TurnEvent, Event: &s}))
		return
	}
	turn := c.open[i]
	records := c.records(turn)
	if c.IntN(4) == 0 {
		c.open = slices.Delete(c.open, i, i+1)
		end := changed(fmt.Sprintf(`{"%s":%d,"%s":null}`, c.one("vw"), len(c.log), c.one("xyz")))
		if c.IntN(5) == 0 {
			end.Event = &events.TurnAbandoned{}
		}
		records = append(records, end)
	}
	c.log = append(c.log, earlier(turn, records...))
}

// TestHeritageIsFoldedOn: what is folded on, commit by commit, says at each point what
// the whole log says, also where retention has taken its beginning. Where it does not know,
// it says so, and a fold of what there is knows.
func TestHeritageIsFoldedOn(t *testing.T) {
	paths, approvals := strings.Split("a b c d e f", " "), []string{"T h", "T i", "U h"}
	known, asked := 0, 0
	for seed := range uint64(40) {
		c := &chance{Rand: rand.New(rand.NewPCG(seed, 57))}
		var h lifecycle.Heritage
		first := 1
		for range 80 {
			c.next()
			h.Add(uint64(len(c.log)), c.log[len(c.log)-1])
			if seed%2 == 1 && c.IntN(8) == 0 {
				first = min(len(c.log), first+c.IntN(4))
			}
			turn := fmt.Sprint("u", max(1, c.n-c.IntN(2)))
			wantIn, want := c.log.left(turn, first, paths, approvals)
			in, context, ok := h.Leaves(turn, uint64(first), paths, approvals)
			asked++
			if ok {
				known++
			} else {
				again := lifecycle.HeritageWithout(turn, false)
				for i, commit := range c.log[first-1:] {
					again.Add(uint64(first+i), commit)
				}
				in, context, ok = again.Leaves(turn, uint64(first), paths, approvals)
			}
			if d := cmp.Diff(wantIn, in, cmpopts.EquateEmpty()); d != "" || string(context) != want || !ok {
				t.Fatalf("seed %d, from %d of %d, turn %s (-want +got), %v:\n%scontext %s, want %s", seed, first, len(c.log), turn, ok, d, context, want)
			}
		}
	}
	if known < asked/4 {
		t.Errorf("of %d turns it knew what was left to %d", asked, known)
	}
}

// TestHeritageKnows, without a second look, what is left to a turn that has just begun,
// where nothing of the log is gone: that is the case that counts.
func TestHeritageKnows(t *testing.T) {
	c := &chance{Rand: rand.New(rand.NewPCG(1, 57))}
	var h lifecycle.Heritage
	for range 500 {
		before := c.n
		c.next()
		h.Add(uint64(len(c.log)), c.log[len(c.log)-1])
		turn := fmt.Sprint("u", c.n)
		if _, _, ok := h.Leaves(turn, 1, nil, nil); c.n > before && !ok && !c.log[len(c.log)-1].Records[0].Event.(*events.TurnSubmitted).Archived() {
			t.Fatalf("it does not know what is left to %s", turn)
		}
	}
}

// TestHeritageSize is about the memory that it takes, and does not grow with the turns.
func TestHeritageSize(t *testing.T) {
	var h lifecycle.Heritage
	yes := func(i int, hash string) []events.Record {
		return []events.Record{
			{Event: &events.Requested{Tool: "deploy"}},
			{Event: &events.ApprovalRequested{Hash: hash, Asks: strings.Repeat("x", 5000), Policies: []string{fmt.Sprint("p", i)}}},
			{Event: &events.Approved{Hash: hash, Scope: events.ScopeSession}},
		}
	}
	turns := func(n, things int) {
		for i := range n {
			thing := fmt.Sprint("/data/a/longer/path/to/some/file/", i%things)
			c := earlier(fmt.Sprint("u", i), events.Record{Call: events.TurnEvent, Event: &events.TurnSubmitted{Calls: []events.RawCall{{Args: events.Body{Text: strings.Repeat("x", 5000)}}}}})
			c.Records = append(c.Records, yes(i%things, strings.Clone("hash "+thing))...)
			c.Records = append(c.Records, sawFile(thing, "sha256:"+strings.Repeat("0", 60)+fmt.Sprint(i)), changed(fmt.Sprintf(`{%q:%d}`, thing, i)))
			h.Add(uint64(i+1), c)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	turns(5000, 5000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	takes := float64(after.HeapAlloc-before.HeapAlloc) / float64(h.Size())
	if takes < 0.5 || takes > 1.5 {
		t.Errorf("it takes %.2f times the %d bytes that it says", takes, h.Size())
	}
	h = lifecycle.Heritage{}
	turns(100, 10)
	few := h.Size()
	turns(5000, 10)
	if h.Size() > few+200 { // a digit or two
		t.Errorf("%d bytes after 100 turns, %d after 5000 about the same things", few, h.Size())
	}
}
