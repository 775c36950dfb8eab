package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// eventStream is an open event stream of a node.
type eventStream struct {
	resp *http.Response
	in   *bufio.Scanner
}

// heardEvent is an event of a stream, or a notice about it.
type heardEvent struct{ id, kind, data string }

// observe opens an event stream, behind the event with an id where there is one.
func (a *api) observe(query, last string) (*eventStream, error) {
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.base+"/v1/events"+query, nil)
	if err != nil {
		return nil, err
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("GET /v1/events: %s", resp.Status)
	}
	s := &eventStream{resp: resp, in: bufio.NewScanner(resp.Body)}
	s.in.Buffer(nil, 16<<20)
	return s, nil
}

func (s *eventStream) close() { _ = s.resp.Body.Close() } // it was only read from

// next is the next event or notice; ok is false where the stream has ended.
func (s *eventStream) next() (e heardEvent, ok bool) {
	for s.in.Scan() {
		line := s.in.Text()
		for name, field := range map[string]*string{"id: ": &e.id, "event: ": &e.kind, "data: ": &e.data} {
			if v, found := strings.CutPrefix(line, name); found {
				*field = v
			}
		}
		if line == "" && e.kind != "" {
			return e, true
		}
	}
	return heardEvent{}, false
}

// TestAnObserverOutlivesItsNodes: it reads from one node after another, each of which
// dies under it, while their turns are taken over. It reads everything, in order, once.
func TestAnObserverOutlivesItsNodes(t *testing.T) {
	t.Parallel()
	c := muster(t, 3)
	const turns = 45
	submit := func(from, to int) {
		for i := from; i < to; i++ {
			c.node(i).submit(turn{Trace: fmt.Sprint("watched-", i%4), Turn: fmt.Sprint("t", i), Calls: []call{
				charge(fmt.Sprint("watched-", i), 1, "stall_ms", 30*(i%4)), {Tool: "sleep", Args: args{"ms": 20 * (i % 5)}}, {Tool: "echo", Args: args{"v": i}},
			}})
		}
	}
	var ids []string
	notices, reconnects := 0, 0
	for part := range 3 {
		submit(part*turns/3, (part+1)*turns/3)
		at := c.nodes[part%len(c.nodes)]
		last := ""
		if len(ids) > 0 {
			last = ids[len(ids)-1]
		}
		s, err := at.observe(map[bool]string{true: "?from=start"}[last == ""], last)
		if err != nil {
			t.Fatal(err)
		}
		reconnects++
		until := len(ids) + 60
		for e, ok := s.next(); ok; e, ok = s.next() {
			if e.id == "" {
				notices++
				continue
			}
			if ids = append(ids, e.id); len(ids) == until && part < 2 {
				at.kill() // in the middle of whatever it does; what it has sent still comes
			}
			if part == 2 && len(ids) >= until {
				break
			}
		}
		s.close()
		if part < 2 {
			c.nodes = slices.DeleteFunc(c.nodes, func(n *node) bool { return n == at })
			c.add()
		}
	}
	for i := range turns {
		v := c.node(i).end(fmt.Sprint("watched-", i%4), fmt.Sprint("t", i))
		k := c.charged(fmt.Sprint("watched-", i))
		if done := v.Calls[0].State == "completed"; done != (k == 1) || !done && v.Calls[0].State != "unknown" { // its owner may have died before the effect
			t.Errorf("watched-%d: %+v, charged %d times", i, v.Calls[0], k)
		}
	}
	rest, more := c.node(1).feed("?follow=false", ids[len(ids)-1], func([]string) bool { return false })
	all, _ := c.node(2).feed("?follow=false&from=start", "", func([]string) bool { return false })
	if got := slices.Concat(ids, rest); !slices.Equal(got, all) || notices+len(more) != 0 {
		t.Errorf("over %d nodes %d events and then %d were read, and there are %d; %d notices, and %v", reconnects, len(ids), len(rest), len(all), notices, more)
	}
	claims, _ := c.node(0).feed("?follow=false&from=start&kind=turn_claimed", "", func([]string) bool { return false })
	t.Logf("%d events were read over %d nodes; %d claims for %d turns", len(all), reconnects, len(claims), turns)
	proven(t, c.nats.URL())
}

// TestLiveEventsOfATakeOver: who only listens hears the new owner tell of the turn.
func TestLiveEventsOfATakeOver(t *testing.T) {
	t.Parallel()
	c := muster(t, 1)
	nc, err := nats.Connect(c.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ended, claimed := listen(t, nc, "sluice.live.completed.*.live.t.*"), listen(t, nc, "sluice.live.turn_claimed.>")
	c.node(0).submit(turn{Trace: "live", Turn: "t", Calls: []call{waits("killed"), charge("live", 1)}})
	c.node(0).until("live", "t", "started", "0")
	c.add()
	c.nodes[0].kill()
	c.nodes = c.nodes[1:]
	c.write("killed", "")
	for i := range 2 {
		var e event
		if err := json.Unmarshal(next(t, ended).Data, &e); err != nil || e.Boot != c.node(0).Boot || !strings.HasSuffix(e.Subject, fmt.Sprint("/", i)) {
			t.Errorf("event %d: %+v, %v", i, e, err)
		}
	}
	for _, why := range []string{"new", "taken_over"} {
		var e event
		if err := json.Unmarshal(next(t, claimed).Data, &e); err != nil || e.field("why") != why {
			t.Errorf("claimed: %+v, %v; want %s", e, err, why)
		}
	}
	list := c.node(0).events("live", "t")
	told := of(list, "completed", "")
	if len(told) != 2 || !before(t, told[0].Position, told[1].Position) {
		t.Errorf("%+v", told)
	}
}
