package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// freeze stops a process where it stands, as a long pause of its machine does.
func (n *node) freeze() {
	n.place.t.Helper()
	stat := fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid)
	if _, err := os.Stat(stat); err != nil {
		n.place.t.Skipf("this machine cannot show that a process is stopped: %v", err)
	}
	n.signal(syscall.SIGSTOP)
	poll(n.place.t, "the process is stopped", func() bool {
		text, err := os.ReadFile(stat)
		return err == nil && strings.HasPrefix(string(text[strings.LastIndexByte(string(text), ')')+1:]), " T")
	})
}

// thaw lets it go on.
func (n *node) thaw() { n.signal(syscall.SIGCONT) }

// takenOver waits until the turn is another node's, and returns that claim.
func (c *crew) takenOver(by *node, v view, from *node) (last event) {
	c.t.Helper()
	poll(c.t, v.Trace+" is taken over", func() bool {
		claims := of(by.events(v.Trace, v.Turn), "turn_claimed", "")
		last = claims[len(claims)-1]
		return last.Boot != from.Boot
	})
	return last
}

// heard waits until a zombie has noticed that it is one, and has done what it still
// would have done: nothing is left in its memory.
func (c *crew) heard(zombie *node) {
	c.t.Helper()
	poll(c.t, "the zombie has nothing left to do", func() bool {
		return zombie.measure("sluice_turns_running") == 0 && zombie.measure("sluice_attempts_running") == 0
	})
}

// silent wants no event of a node behind the first claim of another one, but late
// results and what follows from them.
func (c *crew) silent(by *node, v view, zombie *node) {
	c.t.Helper()
	lost := false
	for _, e := range by.events(v.Trace, v.Turn) {
		lost = lost || e.kind() == "turn_claimed" && e.Boot != zombie.Boot
		if lost && e.Boot == zombie.Boot && e.kind() != "late_result" && e.kind() != "resolved" {
			c.t.Errorf("%s: the old owner wrote %s at %s, after it had lost the turn", v.Trace, e.kind(), e.Position)
		}
	}
}

// flock locks a folder of the workspace against the tools that write there.
func (c *crew) flock(folder string) (release func()) {
	c.t.Helper()
	path := filepath.Join(c.work, folder)
	if err := os.MkdirAll(path, 0o755); err != nil {
		c.t.Fatal(err)
	}
	f, err := os.Open(path)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	release = func() { _ = f.Close() } // it was only locked; twice is no matter
	c.t.Cleanup(release)
	return release
}

// standstill is a node that becomes a zombie, one that has what it waits for, and one that
// takes its turns over. Each runs the turns of its own placement.
type standstill struct {
	*crew
	zombie, holder, heir *node
}

// newStandstill starts the first two. The heir comes when the zombie is at work.
func newStandstill(t *testing.T, flags ...string) *standstill {
	t.Helper()
	s := &standstill{crew: muster(t, 0, flags...)}
	s.zombie = s.join(s.nats.URL(), append(flags, "--placements", "zombie")...)
	s.holder = s.join(s.nats.URL(), append(flags, "--placements", "holder")...)
	s.nodes = []*node{s.zombie, s.holder}
	return s
}

// on submits a turn that one of the two runs.
func (s *standstill) on(at *node, trace string, tu turn) view {
	s.t.Helper()
	tu.Trace, tu.Turn = trace, "t"
	body := struct {
		turn
		Placement string `json:"placement"`
	}{tu, "zombie"}
	if at == s.holder {
		body.Placement = "holder"
	}
	if status, text := s.holder.ask(http.MethodPost, "/v1/turns", body); status != http.StatusAccepted {
		s.t.Fatalf("submit %s: %d %s", trace, status, text)
	}
	return view{Trace: trace, Turn: "t"}
}

// plight is a turn, and what becomes of it. Each part may be nil.
type plight struct {
	name     string
	turn     view
	parked   bool   // nobody has to take it over
	frozen   func() // the zombie is stopped, and its turn is the heir's; the ledger and the folder are still locked
	released func() // they are not any more
	thawed   func() // the zombie has gone on, and has nothing left to do
}

// play has the zombie stopped in the middle of all plights at once.
func (s *standstill) play(set ...func(*standstill) plight) {
	s.t.Helper()
	ledger, folder := s.hold(), s.flock("held")
	var all []plight
	for _, f := range set {
		all = append(all, f(s))
	}
	s.heir = s.join(s.nats.URL(), append(s.flags, "--placements", "zombie,holder,default")...)
	s.nodes = append(s.nodes, s.heir)
	s.zombie.freeze()
	for _, x := range all {
		if !x.parked {
			s.takenOver(s.heir, x.turn, s.zombie)
		}
	}
	do := func(part func(plight) func()) {
		for _, x := range all {
			if f := part(x); f != nil {
				f()
			}
		}
	}
	do(func(x plight) func() { return x.frozen })
	ledger()
	folder()
	do(func(x plight) func() { return x.released })
	s.zombie.thaw()
	s.heard(s.zombie)
	do(func(x plight) func() { return x.thawed })
	for _, x := range all {
		s.silent(s.heir, x.turn, s.zombie)
		s.t.Logf("%s: %s", x.name, chain(s.heir.events(x.turn.Trace, "t"), "0"))
	}
}

// allDone wants every call of a turn to be completed, by the heir's word.
func (s *standstill) allDone(v view, effects string) {
	s.t.Helper()
	for _, k := range s.heir.end(v.Trace, v.Turn).Calls {
		k.is(s.t, "completed", "", effects)
	}
}

// did counts the ledger's lines of a call.
func (p *place) did(v view, call int) (n int) {
	p.t.Helper()
	for _, e := range p.effects() {
		if e.Call == fmt.Sprintf("%s/%s/%d", v.Trace, v.Turn, call) {
			n++
		}
	}
	return n
}
