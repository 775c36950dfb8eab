package mcp

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/policy/access"
)

// visitHeader names a request's visit to the handler of its message: the SDK hands a
// handler the headers of its own request, and nothing else of it. What a client sends
// under that name is taken out.
const visitHeader = "Sluice-Visit"

// visit is what is known of one request from outside while it is answered.
type visit struct {
	id          string
	who         access.Identity
	said        events.Principal // who acts, where everybody is believed
	stream      bool             // its end is all that tells of a cancel, and a lost network looks the same
	session     string           // what its calls belong together by; "" where the client says so by itself
	workspace   string           // where its turns run; "" means as who has it
	traceparent string           // of the request around it; "" means none
	request     context.Context  // of the request around it, whose cause says why it ended; nil: there is none
	unwanted    bool             // its end was asked for, at streams; guarded by their connection
	listed      atomic.Int64     // which list of tools it is answered with; 0: none

	mu   sync.Mutex
	way  []*giving // answers that are on their way
	over bool      // nothing more is delivered
}

// closing says that it is this side that ends the request.
func (v *visit) closing() bool {
	return v.request != nil && errors.Is(context.Cause(v.request), gateway.ErrClosing)
}

// gives says whether an answer is on its way of which it counts whether it comes through.
func (v *visit) gives() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.way) > 0
}

// errNoVisit is what a message gets that came in by no way that is known.
var errNoVisit = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "nobody knows who sends this"}

// principal is in whose name a visit's calls are made.
func (v *visit) principal() events.Principal {
	if !v.who.Trusted {
		return v.who.Principal
	}
	p := v.said
	p.ID = cmp.Or(p.ID, gateway.DefaultPrincipal)
	return p
}

// enter makes a visit known until leave.
func (d *Door) enter(v *visit) *visit {
	v.id = d.cfg.NewID()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.visits[v.id] = v
	return v
}

// leave is the end of a visit. delivered says that its answers have reached whoever asked,
// as far as this side of the connection can tell.
func (d *Door) leave(v *visit, delivered bool) {
	d.mu.Lock()
	delete(d.visits, v.id)
	d.mu.Unlock()
	v.mu.Lock()
	way := v.way
	v.way, v.over = nil, true
	v.mu.Unlock()
	for _, g := range way {
		d.given(g, delivered)
	}
}

// visitOf is the visit of a message, or nil.
func (d *Door) visitOf(extra *sdk.RequestExtra) *visit {
	if extra == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.visits[extra.Header.Get(visitHeader)]
}

// giving is an answer on its way to whoever asked for it.
type giving struct {
	mark mark
	done chan struct{} // closed once it is known what became of it
}

// give says that a visit's answer is on its way which the mark is about.
func (d *Door) give(v *visit, m mark) {
	g := &giving{mark: m, done: make(chan struct{})}
	d.mu.Lock()
	d.giving[m.key()] = g
	d.mu.Unlock()
	v.mu.Lock()
	over := v.over
	if !over {
		v.way = append(v.way, g)
	}
	v.mu.Unlock()
	if over {
		d.given(g, false) // whoever asked has gone
	}
}

// given is what became of an answer. Once it was delivered, the same call again is
// another one.
func (d *Door) given(g *giving, delivered bool) {
	if delivered {
		ctx, stop := context.WithTimeout(context.WithoutCancel(d.life), actLimit)
		defer stop()
		if err := d.unmark(ctx, g.mark); err != nil && !errors.Is(err, errMoved) {
			d.cfg.Log.Warn("an answer was given, and cannot be noted as given: the same call again within the hour gets it once more", "turn", g.mark.key().String(), "err", err)
		}
	}
	d.mu.Lock()
	if d.giving[g.mark.key()] == g {
		delete(d.giving, g.mark.key())
	}
	d.mu.Unlock()
	close(g.done)
}

// onItsWay is the answer of a turn that is on its way, or nil.
func (d *Door) onItsWay(key events.TurnKey) *giving {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.giving[key]
}
