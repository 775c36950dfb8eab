package jetlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
)

// Caller asks at doors as one user, over a connection that needs no other right: not
// to the log, not to JetStream. It may be used from many goroutines at once.
type Caller struct {
	nc   *nats.Conn
	user string

	mu   sync.Mutex
	why  error         // of the last requests that nobody will answer
	told chan struct{} // closed once why is that of the requests that wait
}

// DialDoor connects as a user, who may have a password in the URL, an nkey or a
// credentials file. Close it.
func DialDoor(c DialConfig, user string) (*Caller, error) {
	out := &Caller{user: user, told: make(chan struct{})}
	extra, err := c.options()
	if err != nil {
		return nil, err
	}
	o := append(Options("sluice-door", c.Log), extra...)
	o = append(o, nats.CustomInboxPrefix(strings.TrimSuffix(bus.InboxOf(user), ".")), nats.ErrorHandler(out.hear), nats.DisconnectErrHandler(out.lost))
	out.nc, err = nats.Connect(c.url(), o...)
	if err != nil {
		return nil, dialError(c.url(), err)
	}
	return out, nil
}

// hear notes what the server refuses: nobody else would answer.
func (c *Caller) hear(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		c.give(fmt.Errorf("%w: it needs to publish to %s, and to subscribe to %s>: %w", ErrNotPermitted, bus.DoorSubject(c.user, "*"), bus.InboxOf(c.user), err))
	}
}

// lost notes that the connection is gone. An answer that comes once it is back was meant
// for one that is no more.
func (c *Caller) lost(_ *nats.Conn, err error) {
	if err != nil { // otherwise the caller has closed it
		c.give(fmt.Errorf("%w: the connection was lost before an answer came: %w", bus.ErrUnavailable, err))
	}
}

// give has the requests that wait return.
func (c *Caller) give(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = why
	close(c.told)
	c.told = make(chan struct{})
}

// ErrNotPermitted says that the server does not let the user ask.
var ErrNotPermitted = errors.New("the NATS server does not let this user ask at the door")

// Knock is bus.Doors', for the caller's own user, whatever k names. It returns
// ErrNotPermitted where the server refuses the request, and bus.ErrUnavailable as soon as
// the connection is lost.
func (c *Caller) Knock(ctx context.Context, k bus.Knock) (bus.Answer, error) {
	k.User = c.user
	m, err := knockMsg(k)
	if err != nil {
		return bus.Answer{}, err
	}
	c.mu.Lock()
	told := c.told
	c.mu.Unlock()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { // it ends with ctx
		select {
		case <-told:
			c.mu.Lock()
			defer c.mu.Unlock()
			stop(c.why)
		case <-ctx.Done():
		}
	}()
	got, err := c.nc.RequestMsgWithContext(ctx, m)
	return answered(ctx, k, got, err)
}

// Close ends the connection. Requests that wait return bus.ErrUnavailable.
func (c *Caller) Close() { c.nc.Close() }
