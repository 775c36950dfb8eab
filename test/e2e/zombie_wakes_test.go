package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// plights are the places of a turn's way at which a zombie stands.
var plights = []func(*standstill) plight{
	beforeAStart, inAnEffect, ofAnEndedTurn, ofARunningTurn, waitingForAKey, waitingForAPerson, thatIsResolved, holdingAFile,
}

// TestAZombieThatWakesUp: a node is stopped in the middle of many turns, another one
// takes them over, and the first one goes on. It settles nothing, starts nothing,
// writes no file; what it had begun is evidence.
func TestAZombieThatWakesUp(t *testing.T) {
	t.Parallel()
	s := newStandstill(t, "--ack-wait", "6s")
	s.play(plights...)
	proven(t, s.nats.URL())
}

// TestAZombieThatNobodyMissed: there is no presence; only its messages, which come
// again, tell that it is gone.
func TestAZombieThatNobodyMissed(t *testing.T) {
	t.Parallel()
	s := newStandstill(t, "--ack-wait", "5s", "--presence", "off")
	s.play(plights...)
	proven(t, s.nats.URL())
}

// The call waits for a lock that another call holds; when the zombie wakes, the lock
// is free, and only the log says that it must not start.
func beforeAStart(s *standstill) plight {
	seat := turn{Calls: []call{{Tool: "reserve", Args: args{"item": "seat"}}, charge("behind", 1)}}
	holds := s.on(s.holder, "start-holds", turn{Calls: seat.Calls[:1]})
	s.holder.until(holds.Trace, "t", "started", "0")
	v := s.on(s.zombie, "start", seat)
	s.holder.until("start", "t", "authorized", "0")
	return plight{name: "about to start something", turn: v, thawed: func() {
		s.allDone(v, "done")
		s.allDone(holds, "done")
		if a, b, c := s.did(holds, 0), s.did(v, 0), s.did(v, 1); a != 1 || b != 1 || c != 1 {
			s.t.Errorf("start: effects %d, %d and %d times", a, b, c)
		}
	}}
}

// The effect comes late, after its call was found to be unknown.
func inAnEffect(s *standstill) plight {
	v := s.on(s.zombie, "inside", turn{Calls: []call{charge("inside", 1), charge("inside-next", 1)}})
	s.holder.until("inside", "t", "started", "0")
	return plight{
		name: "in the middle of something", turn: v,
		frozen: func() { s.heir.until("inside", "t", "unknown", "0") },
		released: func() {
			s.heir.end("inside", "t").Calls[1].is(s.t, "completed", "", "done")
			if k := s.charged("inside"); k != 0 {
				s.t.Errorf("inside: charged %d times before the zombie goes on", k)
			}
		},
		thawed: func() {
			s.heir.until("inside", "t", "late_result", "0")
			k := s.heir.look("inside", "t").Calls[0]
			k.is(s.t, "unknown", "UNKNOWN_OUTCOME", "possible")
			if k.Resolved != "done" || s.charged("inside") != 1 || s.charged("inside-next") != 1 {
				s.t.Errorf("inside: %+v, %+v", k, s.effects())
			}
			if kind, _ := s.heir.told(v, 0); kind != "unknown" {
				s.t.Errorf("inside: the model's answer was rewritten: %s", kind)
			}
			s.heir.run(turn{Calls: []call{charge("inside", 1)}}).Calls[0].is(s.t, "deduplicated", "", "") // now it is known
		},
	}
}

func ofAnEndedTurn(s *standstill) plight {
	v := s.on(s.zombie, "ended", turn{Calls: []call{waits("ended.go"), charge("ended", 1)}})
	s.holder.until("ended", "t", "started", "0")
	said := ""
	return plight{
		name: "of a turn that has ended meanwhile", turn: v,
		frozen: func() { s.write("ended.go", "") },
		released: func() {
			s.allDone(v, "")
			said = asText(s.t, s.heir.messages("ended", "t", "openai"))
		},
		thawed: func() {
			if now := asText(s.t, s.heir.messages("ended", "t", "openai")); now != said || s.charged("ended") != 1 {
				s.t.Errorf("ended: it said\n%s\nand says\n%s; charged %d times", said, now, s.charged("ended"))
			}
			w := s.on(s.zombie, "ended-after", turn{Calls: []call{charge("ended-after", 1)}}) // it works on as if nothing had been
			s.allDone(w, "done")
		},
	}
}

// The zombie's own read is over as it wakes: it would settle the call, and go on.
func ofARunningTurn(s *standstill) plight {
	v := s.on(s.zombie, "running", turn{Calls: []call{waits("running.go"), charge("running", 1), waits("running.end")}})
	s.holder.until("running", "t", "started", "0")
	goes := func() { s.write("running.go", "") }
	return plight{name: "of a turn that runs elsewhere", turn: v, released: goes, thawed: func() {
		s.write("running.end", "")
		s.allDone(v, "")
		list := s.heir.events("running", "t")
		if x := of(list, "started", "1"); len(x) != 1 || x[0].Boot != s.heir.Boot || s.charged("running") != 1 {
			s.t.Errorf("running: started %+v, charged %d times", x, s.charged("running"))
		}
		if done := of(list, "completed", "0"); len(done) != 1 || done[0].Boot != s.heir.Boot {
			s.t.Errorf("running: completed by %+v, want %s", done, s.heir.Boot)
		}
	}}
}

func waitingForAKey(s *standstill) plight {
	one := charge("key", 1)
	holds := s.on(s.holder, "key-holds", turn{Calls: []call{one}})
	s.holder.until("key-holds", "t", "started", "0")
	v := s.on(s.zombie, "key", turn{Calls: []call{one, {Tool: "reserve", Args: args{"item": "key"}}}})
	s.holder.until("key", "t", "requested", "0")
	return plight{
		name: "waiting for a key", turn: v, parked: true, // or not yet
		released: func() {
			s.allDone(holds, "done")
			end := s.heir.end("key", "t")
			end.Calls[0].is(s.t, "deduplicated", "", "")
			end.Calls[1].is(s.t, "completed", "", "done")
		},
		thawed: func() {
			if a, b := s.charged("key"), s.did(v, 1); a != 1 || b != 1 {
				s.t.Errorf("key: effects %d and %d times", a, b)
			}
		},
	}
}

func waitingForAPerson(s *standstill) plight {
	v := s.on(s.zombie, "person", turn{CanAsk: true, Calls: []call{ask("person"), charge("person", 1)}})
	poll(s.t, "the turn is parked", func() bool { return s.holder.look("person", "t").State == "parked" })
	return plight{
		name: "waiting for a person", turn: v, parked: true,
		frozen:   func() { s.holder.post(v.path(0)+"/approve", nil) },
		released: func() { s.allDone(v, "done") },
		thawed: func() {
			if a, b := s.agreed("person"), s.charged("person"); a != 1 || b != 1 {
				s.t.Errorf("person: effects %d and %d times", a, b)
			}
		},
	}
}

// What a person has said stands, whatever the zombie tells later.
func thatIsResolved(s *standstill) plight {
	v := s.on(s.zombie, "resolved", turn{Calls: []call{charge("resolved", 1)}})
	s.holder.until("resolved", "t", "started", "0")
	return plight{
		name: "of a call that somebody has resolved", turn: v,
		frozen: func() {
			s.heir.end("resolved", "t").Calls[0].is(s.t, "unknown", "UNKNOWN_OUTCOME", "possible")
			s.heir.post(v.path(0)+"/resolve", args{"effects": "none"})
		},
		thawed: func() {
			s.heir.until("resolved", "t", "late_result", "0")
			if k := s.heir.look("resolved", "t").Calls[0]; k.Resolved != "none" || len(of(s.heir.events("resolved", "t"), "resolved", "0")) != 1 {
				s.t.Errorf("resolved: %+v", k)
			}
		},
	}
}

// A Write, and an Edit, of the zombie must not undo what others wrote since.
func holdingAFile(s *standstill) plight {
	s.write("held/edit.txt", "first line\nold\n")
	v := s.on(s.zombie, "file", turn{Disjoint: true, Calls: []call{
		{Tool: "Write", Args: args{"path": "held/write.txt", "text": "of the zombie\n"}},
		{Tool: "Edit", Args: args{"path": "held/edit.txt", "old_string": "old", "new_string": "of the zombie"}},
	}})
	s.holder.until("file", "t", "started", "0")
	s.holder.until("file", "t", "started", "1")
	before := ""
	return plight{
		name: "holding a file", turn: v,
		frozen: func() {
			for _, k := range s.heir.end("file", "t").Calls { // nothing was done yet, and nobody can say that it will not be
				k.is(s.t, "unknown", "UNKNOWN_OUTCOME", "possible")
			}
		},
		released: func() {
			next := s.heir.run(turn{Calls: []call{
				{Tool: "Write", Args: args{"path": "held/write.txt", "text": "of the next one\n"}},
				{Tool: "Edit", Args: args{"path": "held/edit.txt", "old_string": "first line", "new_string": "first line of the next one"}},
			}})
			for _, k := range next.Calls {
				k.is(s.t, "completed", "", "done")
			}
			before = s.read("held/edit.txt")
		},
		thawed: func() {
			if got := s.read("held/write.txt"); got != "of the next one\n" {
				s.t.Errorf("file: it holds %q", got)
			}
			if got := s.read("held/edit.txt"); got != before {
				s.t.Errorf("file: it holds %q, and held %q", got, before)
			}
		},
	}
}

// TestTwoZombies: the one that took over is stopped, too.
func TestTwoZombies(t *testing.T) {
	t.Parallel()
	c := muster(t, 1, "--ack-wait", "6s")
	first := c.nodes[0]
	v := first.submit(turn{Trace: "two", Turn: "t", Calls: []call{waits("two.go"), charge("two", 1), {Tool: "reserve", Args: args{"item": "two"}}}})
	first.until("two", "t", "started", "0")
	second := c.add()
	first.freeze()
	c.takenOver(second, v, first)
	second.until("two", "t", "recovered", "0")
	second.freeze()
	c.write("two.go", "")
	eye := c.add()
	for _, k := range eye.end("two", "t").Calls {
		k.is(t, "completed", "", "")
	}
	second.thaw()
	first.thaw()
	c.heard(first)
	c.heard(second)
	owner := ""
	for _, e := range eye.events("two", "t") {
		if e.kind() == "turn_claimed" {
			owner = e.Boot
		}
		if owner != "" && e.Boot != owner && e.kind() != "late_result" {
			t.Errorf("%s wrote %s at %s, while the turn was %s's", e.Boot, e.kind(), e.Position, owner)
		}
	}
	if owner != eye.Boot || c.charged("two") != 1 || len(c.effects()) != 2 {
		t.Errorf("the last owner is %s, want %s; %+v", owner, eye.Boot, c.effects())
	}
	proven(t, c.nats.URL())
}

// TestAZombieThatProbed: the slot of a circuit's probe is a lease; another call probes
// while the zombie sleeps, and what it then tells changes nothing.
func TestAZombieThatProbed(t *testing.T) {
	t.Parallel()
	c := muster(t, 1, "--ack-wait", "6s", "--breaker-window", "2s")
	a := c.nodes[0]
	if err := os.Mkdir(c.ledger, 0o755); err != nil { // nothing can be charged
		t.Fatal(err)
	}
	for i := 0; a.tools()["charge"]; i++ {
		a.run(turn{Calls: []call{charge(fmt.Sprint("down-", i), 1)}})
	}
	if err := os.Remove(c.ledger); err != nil {
		t.Fatal(err)
	}
	release := c.hold()
	poll(t, "the tool is listed again", func() bool { return a.tools()["charge"] })
	v := a.submit(turn{Trace: "probe", Turn: "t", Calls: []call{charge("probe", 1)}})
	a.until("probe", "t", "started", "0")
	b, d := c.add(), c.add()
	d.run(turn{Calls: []call{charge("other", 1)}}).Calls[0].is(t, "denied", "CIRCUIT_OPEN", "none")
	a.freeze()
	b.end("probe", "t").Calls[0].is(t, "unknown", "UNKNOWN_OUTCOME", "possible")
	release()
	begin, tries := time.Now(), 0
	poll(t, "another call may probe", func() bool {
		tries++
		return d.run(turn{Calls: []call{charge(fmt.Sprint("next-", tries), 1)}}).Calls[0].State == "completed"
	})
	t.Logf("the slot was free %v after the take-over", time.Since(begin).Round(time.Millisecond))
	a.thaw()
	b.until("probe", "t", "late_result", "0")
	c.heard(a)
	c.silent(b, v, a)
	for i, n := range c.nodes {
		poll(t, fmt.Sprintf("node %d lists the tool", i), func() bool { return n.tools()["charge"] })
		n.run(turn{Calls: []call{charge(fmt.Sprint("after-", i), 1)}}).Calls[0].is(t, "completed", "", "done")
	}
	proven(t, c.nats.URL())
}
