package cluster

import (
	"errors"
	"io"
	"net"
	"sync"
)

// Proxy passes TCP connections on to one address until it is told not to. A node
// that is told its address instead of a server's can be cut off.
type Proxy struct {
	l      net.Listener
	target string

	mu     sync.Mutex
	cut    bool
	mute   chan struct{} // closed when bytes flow again; nil while they do
	conns  map[net.Conn]bool
	closed bool
	wg     sync.WaitGroup
}

// NewProxy listens on a free port of the loopback address. Close ends it.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{l: l, target: target, conns: make(map[net.Conn]bool)}
	p.wg.Go(p.accept)
	return p, nil
}

// URL is the proxy's address for NATS clients.
func (p *Proxy) URL() string { return "nats://" + p.l.Addr().String() }

// Cut ends all connections, and refuses new ones, until Restore.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		_ = c.Close() // that is what is wanted
	}
}

// Silence keeps all connections and lets no byte through, as a network does that
// loses everything, until Restore: what was sent meanwhile arrives then.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mute == nil {
		p.mute = make(chan struct{})
	}
}

// Restore ends Cut and Silence.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	if p.mute != nil {
		close(p.mute)
		p.mute = nil
	}
}

// Close ends the proxy and all of its connections, and waits for its goroutines.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.Restore()
	err := p.l.Close()
	p.wg.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() { p.pass(c) })
	}
}

// keep notes a connection; false where it must not be there.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.closed {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// pass connects one client, until either side ends it.
func (p *Proxy) pass(client net.Conn) {
	defer client.Close()
	if !p.keep(client) {
		return
	}
	defer p.forget(client)
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return // the client sees its connection end
	}
	defer server.Close()
	if !p.keep(server) {
		return
	}
	defer p.forget(server)
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		wg.Go(func() {
			_ = p.copy(way[1], way[0]) // either end is as good as the other
			_ = client.Close()
			_ = server.Close()
		})
	}
	wg.Wait()
}

func (p *Proxy) copy(to io.Writer, from io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.await()
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err != nil {
			return err
		}
	}
}

// await returns once bytes may flow.
func (p *Proxy) await() {
	p.mu.Lock()
	mute := p.mute
	p.mu.Unlock()
	if mute != nil {
		<-mute
	}
}
