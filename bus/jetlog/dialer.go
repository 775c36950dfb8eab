package jetlog

import (
	"net"
	"sync"
	"time"
)

// dialTimeout bounds one try to connect: what the client takes by default.
const dialTimeout = 2 * time.Second

// dialer opens a client's connections, of which it has one at a time. The client drops
// one that ends while it says hello without closing it: where something accepts
// connections and closes them at once, that would be a hundred descriptors a second.
type dialer struct {
	mu   sync.Mutex
	last net.Conn
}

// Dial is nats.CustomDialer's.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil {
		_ = d.last.Close() // closed already, but for one that was dropped
		d.last = nil
	}
	c, err := (&net.Dialer{Timeout: dialTimeout}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	d.last = c
	return c, nil
}
