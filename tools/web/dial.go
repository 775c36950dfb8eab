package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"github.com/sluice-run/sluice/policy"
)

const (
	maxAddresses  = 16              // of one name; more are not looked at, and not dialled
	connectWait   = 5 * time.Second // for one address
	handshakeWait = 10 * time.Second
	headerWait    = 20 * time.Second
	maxHeader     = 64 << 10 // bytes of an answer's header
	wireRoom      = 1 << 20  // bytes that may come over the wire beside the body: headers, TLS, framing
)

// dialer connects to public addresses alone. A name is resolved once, all that it
// leads to is looked at, and what was looked at is what is dialled: a resolver that
// changes its mind meanwhile is not asked again.
type dialer struct {
	guard    *ssrf.Guardian
	loopback bool
	wire     int64 // most bytes read of one connection

	// lookup finds the addresses of a name, and connect is what dials one; both
	// are the system's but in tests.
	lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)
	connect func(ctx context.Context, network, address string) (net.Conn, error)
}

func newDialer(c Config) *dialer {
	d := &dialer{guard: c.guard(), loopback: c.Loopback, wire: c.body() + wireRoom, lookup: net.DefaultResolver.LookupNetIP}
	control := func(network, address string, _ syscall.RawConn) error { return d.permits(network, address) }
	d.connect = (&net.Dialer{Timeout: connectWait, KeepAlive: -1, Control: control}).DialContext
	return d
}

// permits is the last word on what is dialled, whatever led there.
func (d *dialer) permits(network, address string) error {
	if err := d.guard.Safe(network, address, nil); err != nil {
		return err
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ssrf.ErrInvalidHostPort, address)
	}
	if d.loopback && at.Addr().IsLoopback() {
		return nil
	}
	if policy.CheckAddr(at.Addr()) != nil {
		return fmt.Errorf("%w: %s is not public", ssrf.ErrProhibitedIP, at.Addr())
	}
	return nil
}

// dial connects to one of the addresses that host:port leads to. Where one of them is
// not public, none is dialled: an honest name has no such address.
func (d *dialer) dial(ctx context.Context, _, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ssrf.ErrInvalidHostPort, err)
	}
	addresses, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if err := d.permits(family(a), net.JoinHostPort(a.String(), port)); err != nil {
			return nil, err
		}
	}
	var failed []error
	for _, a := range addresses {
		c, err := d.connect(ctx, family(a), net.JoinHostPort(a.String(), port))
		if err == nil {
			return &boundedConn{Conn: c, left: d.wire, asked: make(chan struct{})}, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failed...)
}

// resolve is the addresses of a host, as they would be dialled. The name is taken as
// it stands: no search list of this machine makes an internal name of it.
func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if strings.Contains(host, ".") {
		host = strings.TrimSuffix(host, ".") + "."
	}
	found, err := d.lookup(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	found = found[:min(len(found), maxAddresses)]
	for i, a := range found {
		found[i] = a.Unmap()
	}
	return found, nil
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// errTooMuch says that a server sends without an end.
var errTooMuch = errors.New("it sends more than is read")

// boundedConn reads no more than was agreed, whatever a body unpacks to, and nothing
// before anything was asked: what comes unasked net/http would write to the log.
type boundedConn struct {
	net.Conn
	left  int64
	asked chan struct{} // closed by the first Write, or by Close
	once  sync.Once
}

func (c *boundedConn) ask() { c.once.Do(func() { close(c.asked) }) }

func (c *boundedConn) Write(p []byte) (int, error) {
	c.ask()
	return c.Conn.Write(p)
}

func (c *boundedConn) Close() error {
	c.ask()
	return c.Conn.Close()
}

func (c *boundedConn) Read(p []byte) (int, error) {
	<-c.asked
	if c.left <= 0 {
		return 0, errTooMuch
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// transport asks one request over one connection, over HTTP/1.1 and with the
// certificates of the system. Nothing is kept: no connection, no cookie, no proxy.
func (d *dialer) transport() *http.Transport {
	only := new(http.Protocols)
	only.SetHTTP1(true)
	return &http.Transport{
		Proxy:       nil, // an environment variable must not choose who is asked
		DialContext: d.dial, DisableKeepAlives: true, Protocols: only, MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout: handshakeWait, ResponseHeaderTimeout: headerWait,
	}
}
