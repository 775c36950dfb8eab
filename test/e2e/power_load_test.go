package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// promise is what a client was told.
type promise struct {
	turn
	accepted bool   // it was taken
	messages string // how it ended; "" where nobody was told
	yes      bool   // an approval was taken
}

// clients submit turns, wait for some, approve what is asked, and watch, until their
// node dies. They remember what they were told, and nothing else.
type clients struct {
	t    *testing.T
	at   *node
	mu   sync.Mutex
	told []*promise
	wg   sync.WaitGroup

	read  atomic.Int64 // how many events an observer has read so far
	seen  []string     // which, in order
	heard []string     // ids of those that came live
}

// sharedKeys is how many idempotency keys turns have in common.
const sharedKeys = 5

// work begins with so many turns, eight clients side by side.
func (c *clients) work(r *rand.Rand, turns int) {
	next := make(chan *promise)
	for range 8 {
		c.wg.Go(func() {
			for p := range next {
				c.one(p)
			}
		})
	}
	for i := range turns {
		tu := stormy(r, i)
		switch r.IntN(4) {
		case 0: // keys that others have, too
			k := r.IntN(sharedKeys)
			tu.Calls = append(tu.Calls, charge(fmt.Sprint("shared-", k), k, "stall_ms", 2*k))
		case 1:
			tu.CanAsk = true
			tu.Calls = append(tu.Calls, ask(fmt.Sprint("power-", i)))
		}
		p := &promise{turn: tu}
		if r.IntN(2) == 0 && !p.asks() {
			p.WaitMS = 60_000
		}
		c.told = append(c.told, p)
	}
	c.wg.Go(func() {
		defer close(next)
		for _, p := range c.told {
			select {
			case next <- p:
			case <-c.at.ended:
				return
			}
		}
	})
	c.wg.Go(func() { c.seen = c.watch() })
}

func (c *clients) one(p *promise) {
	status, text, err := c.at.try(http.MethodPost, "/v1/turns", p.turn)
	if err != nil {
		return // the node is dead: nothing was promised
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if status != http.StatusOK && status != http.StatusAccepted {
		c.t.Errorf("submit %s/%s: %d %s", p.Trace, p.Turn, status, text)
		return
	}
	p.accepted = true
	var v view
	if err := json.Unmarshal(text, &v); err != nil {
		c.t.Errorf("submit %s/%s: %s: %v", p.Trace, p.Turn, text, err)
	}
	if v.State == "completed" {
		p.messages = string(asRaw(v.Messages))
	}
	if p.asks() && len(p.Calls)%2 == 0 {
		c.wg.Go(func() { c.approve(p) })
	}
}

func asRaw(list []json.RawMessage) []byte {
	b, err := json.Marshal(list)
	if err != nil {
		panic(err) // it was JSON a moment ago
	}
	return b
}

// approve says yes as soon as it can.
func (c *clients) approve(p *promise) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	call := len(p.Calls) - 1
	for {
		select {
		case <-tick.C:
		case <-c.at.ended:
			return
		}
		status, _, err := c.at.try(http.MethodPost, p.view().path(call)+"/approve", nil)
		if err != nil {
			return
		}
		if status == http.StatusOK {
			c.mu.Lock()
			p.yes = true
			c.mu.Unlock()
			return
		}
	}
}

func (p *promise) view() view { return view{Trace: p.Trace, Turn: p.Turn} }

// asks says whether the last call is one that a person has to agree to.
func (p *promise) asks() bool { return p.Calls[len(p.Calls)-1].Tool == "approve_me" }

// watch reads all events from the beginning, until the node dies.
func (c *clients) watch() (seen []string) {
	resp, err := http.Get(c.at.HTTP + "/v1/events?from=start")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 16<<20)
	whole := "" // an event is one only once its blank line has come
	for in.Scan() {
		switch text, data := strings.CutPrefix(in.Text(), "data: "); {
		case data:
			whole = text
		case in.Text() == "" && whole != "":
			seen, whole = append(seen, whole), ""
			c.read.Add(1)
		}
	}
	return seen
}

// hear takes the live events as they come, until the node dies.
func (c *clients) hear(nc *nats.Conn) {
	sub, err := nc.SubscribeSync("sluice.live.>")
	if err != nil {
		c.t.Error(err)
		return
	}
	c.wg.Go(func() {
		for {
			m, err := sub.NextMsg(patience)
			if err != nil {
				return // the server has gone
			}
			var e struct{ ID, Type string }
			if err := json.Unmarshal(m.Data, &e); err != nil {
				c.t.Errorf("live: %s: %v", m.Data, err)
			}
			if !strings.Contains(e.Type, ".progress.") { // it waits for no barrier
				c.heard = append(c.heard, e.ID)
			}
		}
	})
}

// count is how many clients were told of an end.
func (c *clients) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, p := range c.told {
		if p.messages != "" {
			n++
		}
	}
	return n
}

// everything is all events of a node, as CloudEvents.
func (a *api) everything() (all []string, ids map[string]bool) {
	a.t.Helper()
	status, body := a.ask(http.MethodGet, "/v1/events?from=start&follow=false", nil)
	if status != http.StatusOK {
		a.t.Fatalf("events: %d", status)
	}
	ids = map[string]bool{}
	for line := range strings.Lines(string(body)) {
		text, data := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !data {
			continue
		}
		var e struct{ ID string }
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			a.t.Fatal(err)
		}
		all, ids[e.ID] = append(all, text), true
	}
	return all, ids
}

// kept wants everything that the clients were told to be there, and every turn to
// end as its tiers demand.
func (c *clients) kept(im *image, n *node) {
	im.t.Helper()
	all, ids := n.everything()
	if len(c.seen) > len(all) || !slices.Equal(c.seen, all[:len(c.seen)]) {
		im.t.Errorf("an observer had heard %d events, and the log does not begin with them", len(c.seen))
	}
	for _, id := range c.heard {
		if !ids[id] {
			im.t.Errorf("live event %s is not in the log", id)
		}
	}
	lost := 0
	for _, p := range c.told {
		status, body := n.ask(http.MethodGet, "/v1/turns/"+p.Trace+"/"+p.Turn, nil)
		switch {
		case status == http.StatusOK:
			c.ended(im, n, p)
		case status != http.StatusNotFound || p.accepted:
			im.t.Errorf("%s/%s, accepted %v: %d %s", p.Trace, p.Turn, p.accepted, status, body)
		default: // nobody was told of it: it can be submitted as if for the first time
			lost++
			p.WaitMS = 0
			n.submit(p.turn)
			c.ended(im, n, p)
		}
	}
	for k := range sharedKeys {
		if n := im.charged(fmt.Sprint("shared-", k)); n > 1 {
			im.t.Errorf("shared-%d was charged %d times", k, n)
		}
	}
	im.t.Logf("%d turns, %d were told of an end, %d were lost or never came; an observer had heard %d events and %d live ones",
		len(c.told), c.count(), lost, len(c.seen), len(c.heard))
}

// ended has a turn end, and holds it against what was promised and what was done.
func (c *clients) ended(im *image, n *node, p *promise) {
	im.t.Helper()
	last := fmt.Sprint(len(p.Calls) - 1)
	if p.asks() && p.messages == "" {
		approved := len(of(n.events(p.Trace, p.Turn), "approved", last)) > 0
		if p.yes && !approved {
			im.t.Errorf("%s/%s: a yes that was taken is not in the log", p.Trace, p.Turn)
		}
		if !approved {
			n.until(p.Trace, p.Turn, "approval_requested", last)
			n.ask(http.MethodPost, p.view().path(len(p.Calls)-1)+"/deny", nil)
		}
	}
	v := n.end(p.Trace, p.Turn)
	if now := string(asRaw(v.Messages)); p.messages != "" && p.messages != now {
		im.t.Errorf("%s/%s: somebody was told\n%s\nand now it says\n%s", p.Trace, p.Turn, p.messages, now)
	}
	for i, k := range v.Calls {
		if k.State != "deduplicated" { // its effect is another call's
			onceOnly(im.t, im.place, p.turn, i, k)
		}
	}
}
