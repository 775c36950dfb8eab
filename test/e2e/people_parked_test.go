package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var parkedTurns = flag.Int("parked", 500, "turns that wait for people at once")

// footprint is what turns that wait could hold in a crew.
type footprint struct {
	Goroutines, Heap, RSS float64 // of all nodes together
	Seats, Attempts       float64
	Unacked               int    // messages in somebody's hands
	Waiting               uint64 // messages in the queue
}

func (f footprint) String() string {
	return fmt.Sprintf("%.0f goroutines, %.1f MB heap, %.1f MB resident, %.0f turns and %.0f attempts in memory, %d messages unacked, %d in the queue",
		f.Goroutines, f.Heap/1e6, f.RSS/1e6, f.Seats, f.Attempts, f.Unacked, f.Waiting)
}

func (c *crew) footprint() (f footprint) {
	c.t.Helper()
	f = footprint{
		Goroutines: c.measure("go_goroutines"), Heap: c.measure("go_memstats_heap_inuse_bytes"), RSS: c.measure("process_resident_memory_bytes"),
		Seats: c.measure("sluice_turns_running"), Attempts: c.measure("sluice_attempts_running"),
	}
	nc, err := nats.Connect(c.nats.URL())
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(c.t.Context(), patience)
	defer stop()
	s, err := js.Stream(ctx, "SLUICE_TURNS")
	if err != nil {
		c.t.Fatal(err)
	}
	f.Waiting = s.CachedInfo().State.Msgs
	list := s.ListConsumers(ctx)
	for i := range list.Info() {
		f.Unacked += i.NumAckPending
	}
	if err := list.Err(); err != nil {
		c.t.Fatal(err)
	}
	return f
}

// bare is how many goroutines a node may have beside those of a node without work:
// the connections of this test, and what runs now and then.
const bare = 40

// quiet waits until nothing is under way in the crew, as long as it gets on, and
// returns what it then holds. Goroutines that have nothing to do are kept a while:
// they have to go, too.
func (c *crew) quiet() footprint {
	c.t.Helper()
	limit := c.idle + bare*float64(len(c.nodes))
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for events := -1.0; ; {
		f := c.footprint()
		if f.Seats == 0 && f.Attempts == 0 && f.Unacked == 0 && f.Waiting == 0 && (c.idle == 0 || f.Goroutines <= limit) {
			return f
		}
		if now := c.measure("sluice_events_total"); now != events {
			events = now
			late.Reset(patience)
		}
		select {
		case <-tick.C:
		case <-late.C:
			c.t.Fatalf("for %v nothing has got on, and still there are %v", patience, f)
		}
	}
}

// sideBySide does something for each number below n, eight at once.
func sideBySide(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// manyAsk submits turns that each wait for a person; every third has work beside.
func (c *crew) manyAsk(trace string, from, to int) {
	c.t.Helper()
	sideBySide(to-from, func(i int) {
		i += from
		tu := turn{Trace: fmt.Sprintf("%s-%d", trace, i%50), Turn: fmt.Sprint("t", i), CanAsk: true, Calls: []call{ask(fmt.Sprint(trace, i))}}
		if i%3 == 0 {
			tu.Calls = append([]call{{Tool: "echo", Args: args{"v": i}}}, tu.Calls...)
		}
		if status, body, err := c.node(i).try(http.MethodPost, "/v1/turns", tu); err != nil || status != http.StatusAccepted {
			c.t.Errorf("submit %s/%s: %d %s %v", tu.Trace, tu.Turn, status, body, err)
		}
	})
}

func askedAt(trace string, i int) view {
	return view{Trace: fmt.Sprintf("%s-%d", trace, i%50), Turn: fmt.Sprint("t", i)}
}

func askedCall(i int) int {
	if i%3 == 0 {
		return 1
	}
	return 0
}

// TestThousandsOfTurnsWaitForPeople, and hold nothing in any process while they do:
// no seat, no message, no goroutine, no timer. After a restart of everything some
// get their yes, and the timers end the rest.
func TestThousandsOfTurnsWaitForPeople(t *testing.T) {
	t.Parallel()
	n := max(*parkedTurns, 60)
	c := muster(t, 2)
	c.idle = c.footprint().Goroutines
	t.Logf("with none: %v", c.footprint())
	c.manyAsk("many", 0, n/10)
	few := c.quiet()
	c.manyAsk("many", n/10, n)
	many := c.quiet()
	t.Logf("with %d turns that wait: %v", n/10, few)
	t.Logf("with %d turns that wait: %v", n, many)
	c.restart()
	again := c.quiet()
	t.Logf("after a restart of everything: %v", again)
	if got := len(c.node(0).inboxAll()); got != n {
		t.Errorf("%d approvals wait, want %d", got, n)
	}
	yes := n / 4
	sideBySide(yes, func(i int) {
		v := askedAt("many", i)
		if status, body, err := c.node(i+1).try(http.MethodPost, v.path(askedCall(i))+"/approve", nil); err != nil || status >= 300 {
			t.Errorf("approve %s/%s: %d %s %v", v.Trace, v.Turn, status, body, err)
		}
	})
	c.quiet()
	done := map[string]int{}
	for _, e := range c.effects() {
		done[e.Call]++
	}
	for i := range yes {
		v := askedAt("many", i)
		if k := done[fmt.Sprintf("%s/%s/%d", v.Trace, v.Turn, askedCall(i))]; k != 1 {
			t.Errorf("%s/%s was done %d times", v.Trace, v.Turn, k)
		}
	}
	if len(done) != yes || len(c.node(1).inboxAll()) != n-yes {
		t.Errorf("%d were done, %d wait; want %d and %d", len(done), len(c.node(1).inboxAll()), yes, n-yes)
	}
	c.expireMany(n / 2)
	proven(t, c.nats.URL())
}

// expireMany has turns wait for people who never answer, through a restart of everything.
func (c *crew) expireMany(n int) {
	c.t.Helper()
	c.down()
	c.nats.Start()
	life := 3*time.Second + time.Duration(n)*10*time.Millisecond
	c.flags = []string{"--approval", life.String()}
	c.add()
	c.add()
	c.manyAsk("late", 0, n)
	asked := time.Now()
	f := c.quiet()
	c.t.Logf("with %d more: %v", n, f)
	c.down()
	past := time.NewTimer(time.Until(asked.Add(life)))
	defer past.Stop()
	<-past.C
	c.nats.Start()
	c.add()
	c.add()
	begin := time.Now()
	c.quiet() // as long as it gets on
	poll(c.t, "all have expired", func() bool { return c.measure("sluice_turns_running") == 0 && c.late() == 0 })
	c.t.Logf("%d approvals expired within %v of the restart", n, time.Since(begin).Round(time.Millisecond))
	sideBySide(n, func(i int) {
		v := askedAt("late", i)
		status, body, err := c.node(i).try(http.MethodGet, "/v1/turns/"+v.Trace+"/"+v.Turn, nil)
		if err != nil || status != http.StatusOK || !strings.Contains(string(body), `"state":"completed"`) || !strings.Contains(string(body), "APPROVAL_EXPIRED") {
			c.t.Errorf("%s/%s: %d %s %v", v.Trace, v.Turn, status, body, err)
		}
	})
	c.t.Logf("at the end: %v", c.quiet())
}

// late counts the approvals of expireMany that still wait.
func (c *crew) late() (n int) {
	for _, p := range c.node(0).inboxAll() {
		if strings.HasPrefix(p.Call.Trace, "late-") {
			n++
		}
	}
	return n
}

// inboxAll are all approvals that wait.
func (a *api) inboxAll() []pending {
	a.t.Helper()
	var all []pending
	for cursor := ""; ; {
		var page struct {
			Approvals []pending
			Next      string
		}
		a.get("/v1/approvals?cursor="+url.QueryEscape(cursor), &page)
		all = append(all, page.Approvals...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}
