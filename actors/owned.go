package actors

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/tools"
)

// status answers a note that asks who this node is; nil for every other note.
func (n *Node) status(note []byte) []byte {
	w, ok := bus.ParseWho(note)
	if !ok {
		return nil
	}
	if own := n.ackWait().Milliseconds(); w.AckWaitMS != 0 && w.AckWaitMS != own {
		n.log.Warn("a node that has just begun has another ack-wait than this one, and the queue goes by the one that was set last: give all nodes of a log the same",
			"node", tools.Visible(w.Name), "its", time.Duration(w.AckWaitMS)*time.Millisecond, "own", time.Duration(own)*time.Millisecond)
	}
	b, err := json.Marshal(n.about(w))
	if err != nil {
		return nil // a struct of plain members always has a JSON form
	}
	return b
}

// about is what the node says of itself.
func (n *Node) about(w bus.Who) bus.Status {
	c := n.cfg
	s := bus.Status{
		Boot: c.Boot, Name: c.Name, Version: c.Version, Placements: c.Placements, Since: bootTime(c.Boot), Room: c.Room,
		AckWaitMS: n.ackWait().Milliseconds(), PresenceMS: max(0, c.Presence).Milliseconds(), KeysMS: c.Keys.Milliseconds(),
		Failures: c.Breaker.Opens(), WindowMS: c.Breaker.Stays().Milliseconds(),
	}
	if c.Setup != nil {
		s.Setup = c.Setup()
	}
	n.mu.Lock()
	s.Turns, s.Draining = len(n.turns), n.draining
	if w.Turns {
		for key := range n.turns {
			s.InMemory = append(s.InMemory, key.String())
		}
	}
	n.mu.Unlock()
	running := n.hands.list()
	s.Attempts = len(running)
	if w.Turns {
		s.Running = running
	}
	if w.Tools {
		for _, t := range c.Registry.List() {
			s.Tools = append(s.Tools, t.Name)
		}
		slices.Sort(s.Tools)
		s.Tools = s.Tools[:min(len(s.Tools), bus.MaxStatusList)]
	}
	slices.Sort(s.InMemory)
	slices.SortFunc(s.Running, func(a, b bus.Running) int {
		return cmp.Or(strings.Compare(a.Call, b.Call), cmp.Compare(a.Attempt, b.Attempt))
	})
	s.InMemory = s.InMemory[:min(len(s.InMemory), bus.MaxStatusList)]
	s.Running = s.Running[:min(len(s.Running), bus.MaxStatusList)]
	s.Now, s.Machine = c.Now().UTC(), time.Now().UTC() // last: whoever asks compares them with the time of the answer
	return s
}

// ackWait is how long the queue waits for a sign of life, as this node believes: it
// gives three in that time.
func (n *Node) ackWait() time.Duration { return (3 * n.cfg.Heartbeat).Round(time.Millisecond) }

// list is every attempt that has not ended.
func (h *hands) list() []bus.Running {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []bus.Running
	for key, w := range h.at {
		if w.done == nil {
			out = append(out, bus.Running{Call: key.call.String(), Attempt: key.attempt})
		}
	}
	return out
}

// bootTime is when a boot began, if its id is a ULID; zero otherwise.
func bootTime(boot string) time.Time {
	id, err := ulid.ParseStrict(boot)
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(id.Time()).UTC()
}
