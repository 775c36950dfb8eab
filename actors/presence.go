package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// here is the value of a node's presence cell.
type here struct {
	Name       string   `json:"name"`
	Draining   bool     `json:"draining,omitempty"`   // it gives its turns back on purpose
	Placements []string `json:"placements,omitempty"` // whose turns it runs; none: the default one's
}

// drainedFor is how long a node that has drained is remembered as such.
const drainedFor = time.Minute

// present is the revision of this node's presence cell.
type present struct {
	mu  sync.Mutex
	rev uint64
	ok  time.Time // of the last renewal
	// since is when the renewals began that have succeeded without a gap.
	since time.Time
}

// announce writes the presence cell anew.
func (n *Node) announce(ctx context.Context, draining bool) error {
	value, err := json.Marshal(here{Name: n.cfg.Name, Draining: draining, Placements: n.cfg.Placements})
	if err != nil {
		return err
	}
	ttl := n.cfg.Presence
	if draining {
		ttl = max(ttl, drainedFor)
	}
	n.me.mu.Lock()
	had := n.me.rev
	n.me.mu.Unlock()
	rev, err := n.cfg.Bus.Cells().Put(ctx, bus.BucketPresence, n.cfg.Boot, value, had, ttl)
	if errors.Is(err, bus.ErrConflict) { // it had expired, or an earlier answer was lost
		rev, err = n.putOver(ctx, value, ttl)
	}
	if err == nil {
		n.me.mu.Lock()
		defer n.me.mu.Unlock()
		now := n.cfg.Steady()
		if now.Sub(n.me.ok) >= n.cfg.Presence {
			n.me.since = now
		}
		n.me.rev, n.me.ok = rev, now
	}
	return err
}

// putOver writes the presence cell whatever is there: the key is this boot's own.
func (n *Node) putOver(ctx context.Context, value []byte, ttl time.Duration) (uint64, error) {
	cell, err := n.cfg.Bus.Cells().Get(ctx, bus.BucketPresence, n.cfg.Boot)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return 0, err
	}
	return n.cfg.Bus.Cells().Put(ctx, bus.BucketPresence, n.cfg.Boot, value, cell.Revision, ttl)
}

// presence renews the cell every third of its TTL.
func (n *Node) presence() {
	n.every(n.pull, n.cfg.Presence/3, func() { // Stop writes the last one
		ctx, stop := n.timeout(n.pull, n.cfg.Presence)
		defer stop()
		if err := n.announce(ctx, false); err != nil && n.pull.Err() == nil {
			n.log.Warn("the node could not renew its presence: others may think it dead", "err", err)
		}
	})
}

// Writes returns nil where the log takes this node's writes, as far as its presence tells,
// which it renews every third of Config.Presence: an error with the reason where that has
// failed for that long. A log that has lost its quorum may go on answering reads. With
// presence switched off nothing is known, and it is nil.
func (n *Node) Writes() error {
	if n.cfg.Presence < 0 {
		return nil
	}
	n.me.mu.Lock()
	defer n.me.mu.Unlock()
	if since := n.cfg.Steady().Sub(n.me.ok); since >= n.cfg.Presence {
		return fmt.Errorf("the log has taken no write of this node for %v", since.Round(time.Second))
	}
	return nil
}

// gone says whether a boot has no presence. Where nobody has one, nobody is known to
// be gone: then redelivery tells.
func (n *Node) gone(boot string) bool {
	if n.cfg.Presence < 0 {
		return false
	}
	_, err := n.cfg.Bus.Cells().Get(n.ctx, bus.BucketPresence, boot)
	return errors.Is(err, bus.ErrNotFound)
}

// drained says whether a boot has given its turns back on purpose.
func (n *Node) drained(boot string) bool {
	last, err := n.presenceOf(n.ctx, boot)
	return err == nil && last.Draining
}

// presenceOf is what a boot said last: the zero value where that cannot be read. An error
// that is bus.ErrNotFound says that it has no presence.
func (n *Node) presenceOf(ctx context.Context, boot string) (last here, err error) {
	cell, err := n.cfg.Bus.Cells().Get(ctx, bus.BucketPresence, boot)
	if err == nil && json.Unmarshal(cell.Value, &last) != nil {
		return here{}, nil
	}
	return last, err
}

// question is what nodes ask each other: is this turn yours?
type question struct {
	Turn events.TurnKey `json:"turn"`
	Seq  uint64         `json:"seq,omitempty"` // of the commit that it is about, which the owner must see; 0 if unknown
}

type reply struct {
	Mine bool `json:"mine"`
}

// askWait bounds a question to another node.
const askWait = time.Second

// askOwner asks a boot whether it owns the turn, and tells it of the commit at seq.
func (n *Node) askOwner(boot string, key events.TurnKey, seq uint64) (mine bool, err error) {
	data, err := json.Marshal(question{Turn: key, Seq: seq})
	if err != nil {
		return false, err
	}
	ctx, stop := n.timeout(n.ctx, askWait)
	defer stop()
	b, err := n.cfg.Bus.Ask(ctx, boot, data)
	if err != nil {
		return false, err
	}
	var r reply
	err = json.Unmarshal(b, &r)
	return r.Mine, err
}

// answerQuestions serves what other nodes ask this boot. A question about a
// turn is a hint that something was appended to it.
func (n *Node) answerQuestions() {
	answer := func(data []byte) []byte {
		if b := n.status(data); b != nil {
			return b // somebody asks who this is
		}
		var q question
		if json.Unmarshal(data, &q) != nil {
			return nil
		}
		b, err := json.Marshal(reply{Mine: n.nudge(q.Turn, q.Seq, nil) != nil})
		if err != nil {
			return nil
		}
		return b
	}
	for n.ctx.Err() == nil {
		if err := n.cfg.Bus.Serve(n.ctx, n.cfg.Boot, answer); err != nil && n.ctx.Err() == nil {
			n.log.Warn("questions of other nodes cannot be heard: trying again", "err", err)
			n.pause(n.ctx, backOff)
		}
	}
}
