package gateway

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-run/sluice/policy/access"
)

// Limits bound what the door does at once. Zero fields mean the default beside them.
type Limits struct {
	Requests    int     // at once, of everybody; 4 096
	Each        int     // at once, of one identity; 512. Nobody is told apart where everybody is believed
	Rate        float64 // requests a second of one identity, over time; 0: any number
	Burst       int     // requests that one identity may send at once beyond Rate; as many as Rate allows in two seconds
	Streams     int     // event streams at once, of everybody; 64
	EachStreams int     // event streams at once, of one identity; 16
	Connections int     // at once, of everybody; 4 096
	PerAddress  int     // connections at once from one address that is not this machine's; 256. Negative: any number, for addresses that are a proxy's
}

func (l Limits) filled() Limits {
	l.Requests, l.Each = cmp.Or(l.Requests, 4096), cmp.Or(l.Each, 512)
	l.Streams, l.EachStreams = cmp.Or(l.Streams, maxStreams), cmp.Or(l.EachStreams, 16)
	l.Connections, l.PerAddress = cmp.Or(l.Connections, 4096), cmp.Or(l.PerAddress, 256)
	l.Burst = cmp.Or(l.Burst, int(math.Ceil(2*l.Rate)))
	return l
}

// bucket holds what somebody may still do: it fills with time.
type bucket struct {
	left float64
	at   time.Time // when left was so
}

// fill is the bucket at a time.
func (b bucket) fill(now time.Time, rate, size float64) bucket {
	if b.at.IsZero() {
		return bucket{size, now}
	}
	if d := now.Sub(b.at); d > 0 {
		return bucket{min(size, b.left+d.Seconds()*rate), now}
	}
	return b
}

// until is how long it takes until there is a whole one.
func (b bucket) until(rate float64) time.Duration {
	if b.left >= 1 {
		return 0
	}
	return time.Duration((1 - b.left) / rate * float64(time.Second))
}

// share is what one identity uses of the door.
type share struct {
	id       string
	requests int
	streams  int
	held     int64 // bytes of models' streams that are being read
	bucket   bucket
}

// shares count what each identity uses. It may be used from many goroutines.
type shares struct {
	limits Limits
	mu     sync.Mutex
	of     map[string]*share // those in use, and those whose bucket is not full
}

// maxShares is how many identities are remembered that use nothing.
const maxShares = 1024

// take counts a request of an identity, or says why it has to wait. nil, nil where
// nobody is told apart.
func (s *shares) take(id access.Identity, now time.Time) (*share, *Problem) {
	if id.Trusted {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.of[id.Principal.ID]
	if sh == nil {
		s.prune(now)
		sh = &share{id: id.Principal.ID}
		s.of[sh.id] = sh
	}
	if rate, size := s.limits.Rate, float64(s.limits.Burst); rate > 0 {
		sh.bucket = sh.bucket.fill(now, rate, size)
		if wait := sh.bucket.until(rate); wait > 0 {
			return nil, tooMany(fmt.Sprintf("%s sends more than %g requests a second", sh.id, rate), wait)
		}
	}
	if sh.requests >= s.limits.Each {
		return nil, tooMany(fmt.Sprintf("%s has %d requests open", sh.id, sh.requests), time.Second)
	}
	sh.bucket.left--
	sh.requests++
	return sh, nil
}

// prune forgets identities that use nothing once there are many.
func (s *shares) prune(now time.Time) {
	if len(s.of) < maxShares {
		return
	}
	for id, sh := range s.of {
		full := s.limits.Rate <= 0 || sh.bucket.fill(now, s.limits.Rate, float64(s.limits.Burst)).left >= float64(s.limits.Burst)
		if sh.requests == 0 && sh.streams == 0 && sh.held == 0 && full {
			delete(s.of, id)
		}
	}
}

// give is the end of a request that was taken.
func (s *shares) give(sh *share) {
	if sh == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.requests--
}

// stream counts an event stream of an identity; false: it has too many.
func (s *shares) stream(sh *share, by int) bool {
	if sh == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if by > 0 && sh.streams >= s.limits.EachStreams {
		return false
	}
	sh.streams += by
	return true
}

// hold counts bytes that an identity's streams hold; false: they would be too many.
func (s *shares) hold(sh *share, by int64) bool {
	if sh == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if by > 0 && sh.held+by > eachStreamBudget {
		return false
	}
	sh.held += by
	return true
}

// Bounds of the failures of an address to say who it is.
const (
	failBurst    = 20        // failures at once
	failRate     = 1.0 / 3   // a second, after that
	maxAddresses = 4096      // that are remembered
	failNets     = 64        // bits of an IPv6 address that are one customer's
	failQuiet    = time.Hour // until the first failure of an address is logged again
)

// failures count by address who could not say who they are. It may be used from many
// goroutines, and forgets before it grows.
type failures struct {
	proxy bool // all addresses are a proxy's
	mu    sync.Mutex
	of    map[netip.Prefix]*failed
}

// failed is what an address has failed at.
type failed struct {
	bucket bucket
	logged time.Time
}

// prefixOf is the address that failures are counted by.
func prefixOf(remote string) netip.Prefix {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // one for all that have none
	}
	addr := ap.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = failNets
	}
	p, _ := addr.Prefix(bits) // the length fits
	return p
}

// apart says whether an address can be told from others: behind a proxy, and on this
// machine, many share one, and nobody may shut the others out.
func (f *failures) apart(remote string) bool {
	return !f.proxy && !prefixOf(remote).Addr().IsLoopback()
}

// wait is how long nothing is heard from an address; 0: it is heard.
func (f *failures) wait(remote string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.of[prefixOf(remote)]
	if e == nil {
		return 0
	}
	e.bucket = e.bucket.fill(now, failRate, failBurst)
	return e.bucket.until(failRate)
}

// count notes a failure. first says that it is worth a line in the log, wait that there
// were too many already.
func (f *failures) count(remote string, now time.Time) (first bool, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := prefixOf(remote)
	e := f.of[p]
	if e == nil {
		f.forget(now)
		e = new(failed)
		f.of[p] = e
	}
	e.bucket = e.bucket.fill(now, failRate, failBurst)
	if first = e.logged.IsZero() || now.Sub(e.logged) > failQuiet; first {
		e.logged = now
	}
	if wait = e.bucket.until(failRate); wait == 0 {
		e.bucket.left--
	}
	return first, wait
}

// forget makes room for addresses once there are too many: of those that may fail as
// often as at first, and of others until a quarter is free, so that it is seldom done.
func (f *failures) forget(now time.Time) {
	if len(f.of) < maxAddresses {
		return
	}
	for p, e := range f.of {
		if e.bucket.fill(now, failRate, failBurst).left >= failBurst {
			delete(f.of, p)
		}
	}
	for p := range f.of {
		if len(f.of) <= maxAddresses*3/4 {
			return
		}
		delete(f.of, p)
	}
}

// Budgets of what requests hold in memory, in bytes: who needs a part waits for it. A
// model's stream may take an hour, so streams have a budget of their own, and each
// identity a share of that: approvals and cancels never wait for somebody's stream.
const (
	bodyBudget       = 32 * MaxBody // of bodies
	streamBudget     = 8 * MaxBody  // of models' streams
	eachStreamBudget = streamBudget / 4
)

// hold takes a request's part of the budget for bodies, and returns how much it is.
func (a *API) hold(ctx context.Context, r *http.Request) (int64, error) {
	n := r.ContentLength
	if n < 0 {
		n = MaxBody // it does not say
	}
	ctx, stop := context.WithTimeout(ctx, bodyLimit)
	defer stop()
	if err := a.bodies.Acquire(ctx, n); err != nil {
		return 0, problem(http.StatusServiceUnavailable, "busy", "The door holds as many bodies as it can", err.Error(), "send it again: it is safe")
	}
	return n, nil
}

// letGo gives a request's parts of the budgets back, once.
func (a *API) letGo(v *visit) {
	if v.body > 0 {
		a.bodies.Release(v.body)
		v.body = 0
	}
	if v.stream > 0 {
		a.streamed.Release(v.stream)
		a.shares.hold(v.share, -v.stream)
		v.stream = 0
	}
}

// bounded is a listener that holds no more connections than it may: beyond those of all
// it waits before it takes another one, beyond those of one address it closes it.
type bounded struct {
	net.Listener
	places chan struct{}
	each   int // of one address; negative: any number
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	of     map[netip.Prefix]int
}

func newBounded(l net.Listener, limits Limits) *bounded {
	return &bounded{
		Listener: l, places: make(chan struct{}, limits.Connections), each: limits.PerAddress,
		closed: make(chan struct{}), of: make(map[netip.Prefix]int),
	}
}

// Accept is net.Listener's.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		select {
		case b.places <- struct{}{}:
		case <-b.closed:
			return nil, net.ErrClosed
		}
		c, err := b.Listener.Accept()
		if err != nil {
			<-b.places
			return nil, err
		}
		from := prefixOf(c.RemoteAddr().String())
		if b.enter(from) {
			return &boundedConn{Conn: c, leave: sync.OnceFunc(func() { b.leave(from) })}, nil
		}
		_ = c.Close() // it has enough others
		<-b.places
	}
}

// Close is net.Listener's.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

func (b *bounded) enter(from netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.each >= 0 && b.of[from] >= b.each && !from.Addr().IsLoopback() {
		return false
	}
	b.of[from]++
	return true
}

func (b *bounded) leave(from netip.Prefix) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[from]--; b.of[from] <= 0 {
		delete(b.of, from)
	}
	<-b.places
}

// boundedConn gives its place back when it is closed.
type boundedConn struct {
	net.Conn
	leave func()
}

// Close is net.Conn's.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
