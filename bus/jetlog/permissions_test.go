package jetlog_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
)

// spy is a server's log that notes what clients send, and what they were refused.
type spy struct {
	mu      sync.Mutex
	sent    map[string]map[string]bool // PUB or SUB: subjects
	refused []string
}

func newSpy() *spy {
	return &spy{sent: map[string]map[string]bool{"PUB": {}, "SUB": {}}}
}

var protocol = regexp.MustCompile(`cid:\d+.* <<- \[H?(PUB|SUB) ([^ \]]+)`)

func (s *spy) Tracef(format string, args ...any) {
	m := protocol.FindStringSubmatch(fmt.Sprintf(format, args...))
	if m == nil || strings.HasPrefix(m[2], "$JSC.") { // the server's own
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[m[1]][m[2]] = true
}

func (s *spy) Errorf(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); strings.Contains(line, "Violation") && !strings.Contains(line, `user:ann"`) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused = append(s.refused, line)
	}
}

func (*spy) Noticef(string, ...any) {}
func (*spy) Warnf(string, ...any)   {}
func (*spy) Fatalf(string, ...any)  {}
func (*spy) Debugf(string, ...any)  {}

// covers says whether a subject of the server's permissions matches another one.
func covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case i >= len(s):
			return false
		case token == ">":
			return true
		case token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

// check fails the test where a client was refused something, and where a permission
// was of no use: nothing that was sent needed it, but for those that the caller
// excuses. Had one been missing, what it covers would have been refused.
func (s *spy) check(t *testing.T, p jetlog.Permissions, excused func(string) bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.refused {
		t.Errorf("refused: %s", line)
	}
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // some of the promises were not asked for, and with them what they need
	}
	for op, list := range map[string][]string{"PUB": p.Publish, "SUB": p.Subscribe} {
		for _, allowed := range list {
			needs := func(subject string) bool {
				n := 0
				for _, other := range list {
					if covers(other, subject) {
						n++
					}
				}
				return n == 1 && covers(allowed, subject)
			}
			if needed := slices.ContainsFunc(slices.Collect(maps.Keys(s.sent[op])), needs); !needed && !excused(allowed) {
				t.Errorf("%s %s is allowed, and nothing needs it", op, allowed)
			}
		}
	}
}

// nodeUser is a node as servers of the tests know it. It may in addition ask at doors,
// and watch all buckets, as the promises' tests do and nodes do not.
func nodeUser() *server.User {
	p := jetlog.PermissionsOf(jetlog.User{Name: "node", Node: true})
	pub := append(slices.Clone(p.Publish), bus.DoorPrefix+">")
	for _, verb := range []string{"CREATE", "DELETE"} {
		pub = append(pub, "$JS.API.CONSUMER."+verb+".KV_SLUICE_lock.>")
	}
	return &server.User{Username: "node", Password: "pw", Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: pub},
		Subscribe: &server.SubjectPermission{Allow: append(slices.Clone(p.Subscribe), bus.InboxPrefix+">")},
	}}
}

// permissionsOf are a user's, as the server takes them.
func permissionsOf(u jetlog.User) *server.Permissions {
	p := jetlog.PermissionsOf(u)
	return &server.Permissions{Publish: &server.SubjectPermission{Allow: p.Publish}, Subscribe: &server.SubjectPermission{Allow: p.Subscribe}}
}

// acrossServers has a node that is connected to one server of a cluster asked by somebody
// who is connected to another, in the ways in which that one may, and in others.
func acrossServers(t *testing.T, c *jettest.Cluster, node connector) {
	t.Helper()
	b := openOn(t, node, 3)
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var wg sync.WaitGroup
	served, end := context.WithCancel(ctx)
	defer wg.Wait()
	defer end()
	var asked atomic.Int32
	wg.Go(func() {
		_ = b.(bus.Doors).ServeDoor(served, bus.Door{Name: "test", ID: "one", Version: "1.0.0", Answer: func(_ context.Context, k bus.Knock) bus.Answer {
			if k.Verb == "count" {
				asked.Add(1)
			}
			return bus.Answer{Status: 200, Body: []byte(`"` + k.User + `"`)}
		}})
	})
	for _, n := range c.Nodes {
		caller, err := jetlog.DialDoor(jetlog.DialConfig{URL: strings.Replace(n.URL(), "nats://", "nats://ann:pw@", 1)}, "ann")
		if err != nil {
			t.Fatal(err)
		}
		for {
			a, err := caller.Knock(ctx, bus.Knock{Verb: "whoami"})
			if err == nil && string(a.Body) == `"ann"` {
				break
			}
			if !errors.Is(err, bus.ErrUnavailable) { // the door may not be known there yet
				t.Fatalf("over %s: %+v, %v", n.URL(), a, err)
			}
		}
		caller.Close()
		mine := connectWith(t, n.URL(), "ann", "pw")
		for _, reply := range []string{"sluice.ev.x.y", "_INBOX.bob.x", "_INBOX._node.x", "sluice.api.ann.count"} {
			if err := mine.nc.PublishRequest(bus.DoorSubject("ann", "count"), reply, nil); err != nil {
				t.Fatal(err)
			}
		}
		mine.never(publish, "$JS.API.INFO", "sluice.ev.x.y", bus.DoorSubject("root", "count"), "$SYS.REQ.SERVER.PING")
		mine.never(subscribe, "sluice.>", "_INBOX.>", "$SYS.>")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests were answered whose answer would have gone elsewhere", n)
	}
}

// rootUser may do everything.
func rootUser() *server.User { return &server.User{Username: "root", Password: "pw"} }

// as connects as another user.
func as(connect func(string, ...nats.Option) (*nats.Conn, error), user string) connector {
	return func(name string) (*nats.Conn, error) { return connect(name, nats.UserInfo(user, "pw")) }
}

// alone excuses what only a cluster, or a change of its settings, needs.
func alone(allowed string) bool {
	return strings.HasPrefix(allowed, "$JS.API.STREAM.MSG.GET.KV_") || strings.HasPrefix(allowed, "$JS.API.STREAM.UPDATE.")
}

// further does what nodes do beside the promises of the suite.
func further(t *testing.T, url string, node, root connector) {
	t.Helper()
	if _, err := jetlog.Dial(t.Context(), jetlog.DialConfig{URL: strings.Replace(url, "nats://", "nats://node:pw@", 1)}); err != nil {
		t.Error(err)
	}
	crowd(t, node, root)
	nc, js := raw(t, root)
	defer nc.Close()
	if err := js.DeleteStream(t.Context(), jetlog.StreamLog); err != nil { // its mirror stays, and stands beyond it
		t.Fatal(err)
	}
	b, err := jetlog.Open(t.Context(), jetlog.Config{Connect: node})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// crowd has a node watch more cells than a server sends without being told that they
// arrive.
func crowd(t *testing.T, node, root connector) {
	t.Helper()
	const n = 4000
	nc, _ := raw(t, root)
	defer nc.Close()
	for _, bucket := range []string{bus.BucketPresence, bus.BucketBreaker, bus.BucketLock} {
		for i := range n {
			if err := nc.Publish(fmt.Sprintf("$KV.SLUICE_%s.crowd-%d", bucket, i), make([]byte, 300)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	b, err := jetlog.Open(t.Context(), jetlog.Config{Connect: node})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	enough := errors.New("enough")
	for _, bucket := range []string{bus.BucketPresence, bus.BucketBreaker, bus.BucketLock} {
		seen := 0
		err := b.Cells().Watch(ctx, bucket, "crowd-", func(c bus.Cell) error {
			if seen++; seen == n {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) {
			t.Fatalf("watching %s: %d cells, %v", bucket, seen, err)
		}
	}
}

// TestACallerWhoWaitsHearsThatItsServerHasGone: nobody would answer any more, and who asks
// must be able to ask again.
func TestACallerWhoWaitsHearsThatItsServerHasGone(t *testing.T) {
	users := []jetlog.User{{Name: "ann", Password: "$2a$04$FBQksN6pRmdhsLGOUSzY9eQeJT6sHb/uLy5ESTsTeJSl/rlCVVut2"}}
	log, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: t.TempDir(), Port: -1, Users: users}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	asked, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- log.ServeDoor(ctx, bus.Door{Name: "deaf", ID: "deaf", Version: "1.0.0", Answer: func(ctx context.Context, _ bus.Knock) bus.Answer {
			asked <- struct{}{}
			<-ctx.Done()
			return bus.Answer{Status: 200}
		}})
	}()
	caller, err := jetlog.DialDoor(jetlog.DialConfig{URL: strings.Replace(srv.URL(), "nats://", "nats://ann:pw-ann@", 1)}, "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	told := make(chan error, 1)
	go func() {
		for { // until the door is there
			_, err := caller.Knock(ctx, bus.Knock{Verb: "say"})
			if len(asked) > 0 || !errors.Is(err, bus.ErrUnavailable) {
				told <- err
				return
			}
		}
	}()
	poll(t, "it is asked", func() bool { return len(asked) > 0 })
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-told:
		if !errors.Is(err, bus.ErrUnavailable) {
			t.Errorf("it hears %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it still waits")
	}
	stop()
	<-ended
	_ = log.Close() // its server has gone
}
