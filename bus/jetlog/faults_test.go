package jetlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
)

// raw is a JetStream client that looks behind the bus.
func raw(t testing.TB, connect connector) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := connect("raw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// poll waits for a fact.
func poll(t testing.TB, what string, fact func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func lastSeq(t testing.TB, js jetstream.JetStream, stream string) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

// proxy passes bytes between a client and a server, and can be told to swallow
// what the server says, and to cut all connections.
type proxy struct {
	net.Listener
	target string
	mute   atomic.Bool
	mu     sync.Mutex
	conns  []net.Conn
	wg     sync.WaitGroup
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, target: strings.TrimPrefix(target, "nats://")}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(out, in, false); _ = out.Close() })
		p.wg.Go(func() { p.pass(in, out, true); _ = in.Close() })
	}
}

func (p *proxy) pass(to io.Writer, from io.Reader, answers bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if answers && p.mute.Load() {
			n = 0
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *proxy) dial(name string) (*nats.Conn, error) {
	return nats.Connect("nats://"+p.Addr().String(), jetlog.Options(name, nil)...)
}

// A commit that was kept, and whose answer was lost, is found again by its id:
// the repeated try is refused with 10071, and the commit at that sequence is ours.
func TestAnswerLost(t *testing.T) {
	srv := jettest.Start(t)
	_, js := raw(t, srv.InProcess)
	p := startProxy(t, srv.URL())
	b := srv.Open(jetlog.Config{Connect: p.dial})
	k := turn("lost", "1")
	first, err := b.Append(t.Context(), note(k, "c1", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	p.mute.Store(true)
	done := make(chan error, 1)
	var got bus.Stored
	go func() {
		var err error
		got, err = b.Append(t.Context(), note(k, "c2", 2), first.Seq)
		done <- err
	}()
	poll(t, "the server has the commit", func() bool { return lastSeq(t, js, jetlog.StreamLog) == 2 })
	p.cut()
	p.mute.Store(false)
	if err := <-done; err != nil || got.Seq != 2 || got.Commit.ID != "c2" {
		t.Errorf("append whose answer was lost: %+v, %v; want it as stored at 2", got, err)
	}
	if last := lastSeq(t, js, jetlog.StreamLog); last != 2 {
		t.Errorf("the log ends at %d: the commit was kept twice", last)
	}
	if again, err := b.Append(t.Context(), note(k, "c2", 2), first.Seq); err != nil || again.Seq != 2 {
		t.Errorf("the same commit once more: %+v, %v; want it as stored at 2", again, err)
	}
}

// An append that cannot learn what became of it says so when its caller goes.
func TestUncertain(t *testing.T) {
	srv := jettest.Start(t)
	p := startProxy(t, srv.URL())
	b := srv.Open(jetlog.Config{Connect: p.dial})
	p.mute.Store(true)
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if _, err := b.Append(ctx, note(turn("a", "1"), "c1", 1), 0); !errors.Is(err, bus.ErrUncertain) {
		t.Errorf("append without an answer: %v, want uncertain", err)
	}
	p.cut()
	p.mute.Store(false)
	s, err := b.Append(t.Context(), note(turn("a", "1"), "c1", 1), 0)
	if err != nil || s.Seq != 1 {
		t.Errorf("the same commit later: %+v, %v, want it at 1", s, err)
	}
}

// Appends that meet a restart of the server go on afterwards, each kept once.
func TestRestart(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{Connect: srv.Dial})
	var wg sync.WaitGroup
	half, over := make(chan struct{}, 8), make(chan struct{})
	for i := range 8 {
		k := turn("restart", fmt.Sprint(i))
		wg.Go(func() {
			at := uint64(0)
			for n := 1; ; n++ {
				s, err := b.Append(t.Context(), note(k, fmt.Sprintf("%d-%d", i, n), uint32(n)), at)
				if err != nil {
					t.Errorf("turn %s at %d: %v", k, at, err)
					return
				}
				at = s.Seq
				if n == 50 {
					half <- struct{}{}
				}
				select {
				case <-over:
					checkHistory(t, b, k, at, n)
					return
				default:
				}
			}
		})
	}
	for range 8 {
		<-half
	}
	srv.Stop()
	if _, err := b.Append(expired(t), note(turn("x", "1"), "x", 1), 0); !errors.Is(err, bus.ErrUnavailable) && !errors.Is(err, bus.ErrUncertain) {
		t.Errorf("append while the server is down: %v, want unavailable or uncertain", err)
	}
	srv.Start()
	if _, err := b.Append(t.Context(), note(turn("x", "2"), "x2", 1), 0); err != nil {
		t.Errorf("append after the restart: %v", err)
	}
	close(over)
	wg.Wait()
}

// expired is a context that ends soon.
func expired(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(stop)
	return ctx
}

// checkHistory checks that a turn has the commits "<turn>-1" to "<turn>-n", once each.
func checkHistory(t *testing.T, b *jetlog.Bus, k events.TurnKey, at uint64, n int) {
	t.Helper()
	got, err := b.Load(t.Context(), k, at)
	if err != nil || len(got) != n {
		t.Errorf("turn %s has %d commits, %v; want %d", k, len(got), err, n)
		return
	}
	for i, s := range got {
		if want := fmt.Sprintf("%s-%d", k.Turn, i+1); s.Commit.ID != want {
			t.Errorf("turn %s: commit %d is %s, want %s", k, i+1, s.Commit.ID, want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = jetlog.Dial(t.Context(), jetlog.DialConfig{URL: "nats://me:secret@" + address})
	if !errors.Is(err, bus.ErrUnavailable) || !strings.Contains(err.Error(), address) || strings.Contains(err.Error(), "secret") {
		t.Errorf("dial of nobody: %v; want unavailable, with the address and without the password", err)
	}
	plain := jettest.StartWith(t, server.Options{})
	if _, err = jetlog.Dial(t.Context(), jetlog.DialConfig{URL: plain.URL()}); err == nil || !strings.Contains(err.Error(), "-js") {
		t.Errorf("dial of a server without JetStream: %v; want it to name -js", err)
	}
	if _, err := jetlog.Open(t.Context(), jetlog.Config{Connect: plain.Dial}); err == nil || !strings.Contains(err.Error(), "JetStream is not enabled") {
		t.Errorf("open on a server without JetStream: %v; want it to say so", err)
	}
	srv := jettest.Start(t)
	connect, err := jetlog.Dial(t.Context(), jetlog.DialConfig{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	srv.Open(jetlog.Config{Connect: connect})
}
