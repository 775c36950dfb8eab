package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// args are arguments by name.
type args map[string]any

// call is one call of a submission.
type call struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
	Args args   `json:"args,omitempty"`
}

// turn is a submission.
type turn struct {
	Trace     string         `json:"trace"`
	Turn      string         `json:"turn"`
	Principal string         `json:"principal"`
	Calls     []call         `json:"calls"`
	CanAsk    bool           `json:"can_ask,omitempty"`
	Limits    map[string]int `json:"limits,omitempty"`
	WaitMS    int            `json:"wait_ms,omitempty"`
}

// What a person says who is asked.
const (
	sayNothing = ""
	sayYes     = "approve"
	sayNo      = "deny"
)

// plan is a turn, and what is done with it from outside.
type plan struct {
	turn
	kind   string
	cancel time.Duration // after it was accepted; 0: never
	again  bool          // it is submitted a second time at once
	say    string
}

// key is the turn's name, trace/turn.
func (t turn) key() string { return t.Trace + "/" + t.Turn }

// callKey is the name of one of its calls.
func (t turn) callKey(i int) string { return t.key() + "/" + strconv.Itoa(i) }

// perTrace is how many turns a trace has.
const perTrace = 8

// mix makes turns: the same ones for the same seed.
type mix struct{ seed uint64 }

// kinds of turns, and how many of a hundred are of each.
var kinds = []struct {
	name  string
	share int
	calls func(r *rand.Rand, n int, p *plan)
}{
	{"reads", 28, reads},
	{"writes", 12, writes},
	{"charges", 16, charges},
	{"key again", 6, keyAgain},
	{"approvals", 8, approvals},
	{"never answered", 3, neverAnswered},
	{"cancelled", 8, cancelled},
	{"flaky", 7, flaky},
	{"large", 5, large},
	{"deadlines", 3, deadlines},
	{"shell", 2, lines},
	{"doomed", 2, doomed},
}

// plan is turn n.
func (m mix) plan(n int) plan {
	r := rand.New(rand.NewPCG(m.seed, uint64(n)))
	p := plan{turn: turn{Trace: fmt.Sprintf("soak-%x-%d", m.seed, n/perTrace), Turn: "t" + strconv.Itoa(n), Principal: "soak"}}
	at := r.IntN(total())
	for _, k := range kinds {
		if at -= k.share; at < 0 {
			p.kind = k.name
			k.calls(r, n, &p)
			break
		}
	}
	p.again = r.IntN(20) == 0
	for i := range p.Calls {
		p.Calls[i].ID = "c" + strconv.Itoa(i)
	}
	return p
}

func total() int {
	sum := 0
	for _, k := range kinds {
		sum += k.share
	}
	return sum
}

// number is which turn an id names; false for one that is not ours.
func (m mix) number(trace, turn string) (int, bool) {
	if !strings.HasPrefix(trace, fmt.Sprintf("soak-%x-", m.seed)) {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimPrefix(turn, "t"))
	return n, err == nil
}

func (p *plan) add(tool string, a args) { p.Calls = append(p.Calls, call{Tool: tool, Args: a}) }

func reads(r *rand.Rand, n int, p *plan) {
	for i := range 2 + r.IntN(4) {
		if i%3 == 1 {
			p.add("sleep", args{"ms": r.IntN(60)})
			continue
		}
		p.add("echo", args{"v": args{"turn": n, "call": i}})
	}
}

// files is how many files are written, again and again.
const files = 50

func writes(r *rand.Rand, n int, p *plan) {
	name := fmt.Sprintf("f%d.txt", r.IntN(files))
	p.add("write", args{"path": name, "text": fmt.Sprintf("turn %d\n", n)})
	p.add("read", args{"path": name})
	p.add("reserve", args{"item": fmt.Sprintf("item-%d", n)})
}

// order is what turn n pays for, the same at each time of asking.
func order(n int) args {
	return args{"order": fmt.Sprintf("o%d", n), "amount": n%100 + 1, "stall_ms": n * 37 % 150}
}

func charges(_ *rand.Rand, n int, p *plan) {
	p.add("echo", args{"v": n})
	p.add("charge", order(n))
}

// keyAgain pays for what an earlier turn may have paid for, or be about to.
func keyAgain(r *rand.Rand, n int, p *plan) { p.add("charge", order(max(0, n-1-r.IntN(30)))) }

func approvals(r *rand.Rand, n int, p *plan) {
	p.CanAsk, p.say = true, sayYes
	if r.IntN(4) == 0 {
		p.say = sayNo
	}
	p.add("echo", args{"v": n})
	p.add("approve_me", args{"v": n})
}

func neverAnswered(_ *rand.Rand, n int, p *plan) {
	p.CanAsk = true
	p.add("approve_me", args{"v": n})
}

func cancelled(r *rand.Rand, n int, p *plan) {
	p.cancel = time.Duration(1+r.IntN(700)) * time.Millisecond
	p.add("sleep", args{"ms": 30_000})
	if r.IntN(2) == 0 {
		a := order(n)
		a["stall_ms"] = 30_000
		p.add("charge", a)
	}
}

// flaky works at once in a third of all turns: the probe of an open circuit has to
// succeed now and then.
func flaky(r *rand.Rand, n int, p *plan) {
	p.add("flaky", args{"fail_n": r.IntN(3), "name": fmt.Sprintf("f%d", n)})
}

func large(r *rand.Rand, _ int, p *plan) {
	p.add("blob", args{"bytes": 60_000 + r.IntN(200_000), "kind": "text"})
}

// deadlines end before their tools do; the charge has happened by then.
func deadlines(r *rand.Rand, n int, p *plan) {
	p.Limits = map[string]int{"call_deadline_ms": 200}
	if r.IntN(2) == 0 {
		p.add("sleep", args{"ms": 20_000})
		return
	}
	a := order(n)
	a["stall_ms"] = 20_000
	p.add("charge", a)
}

func lines(r *rand.Rand, n int, p *plan) {
	p.add("bash", args{"command": fmt.Sprintf("echo turn %d; seq 1 %d", n, 1+r.IntN(200))})
}

func doomed(_ *rand.Rand, n int, p *plan) {
	p.add("no_such_tool", args{"v": n})
	p.add("panic", nil)
	p.add("charge", args{"order": n}) // not a string, and no amount
	p.add("echo", args{"v": "still here"})
}
