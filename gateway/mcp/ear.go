package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// heardKinds are the live events that a door hears, beside the ends of turns, which the
// desk hears.
var heardKinds = []events.Kind{events.KindProgress, events.KindApprovalRequested, events.KindInputRequested}

// ear hears of one call, for one request.
type ear struct {
	key  events.TurnKey
	tell func(events.Progress)

	mu      sync.Mutex
	asks    bool   // a person is asked, and nobody was woken for it yet
	awaken  func() // nil: nobody waits
	notes   chan events.Progress
	over    bool
	talking sync.WaitGroup
}

// maxNotes is how many progress notes wait for a slow client; more are dropped.
const maxNotes = 32

// hear begins to hear of a call, until unhear.
func (d *Door) hear(c *calling) *ear {
	e := &ear{key: c.key, tell: c.teller()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ears[e.key] == nil {
		d.ears[e.key] = make(map[*ear]struct{})
	}
	d.ears[e.key][e] = struct{}{}
	return e
}

// unhear ends what hear began: nothing is told to the client afterwards.
func (d *Door) unhear(e *ear) {
	if e == nil {
		return
	}
	d.mu.Lock()
	delete(d.ears[e.key], e)
	if len(d.ears[e.key]) == 0 {
		delete(d.ears, e.key)
	}
	d.mu.Unlock()
	e.mu.Lock()
	e.over = true
	if e.notes != nil {
		close(e.notes)
	}
	e.mu.Unlock()
	e.talking.Wait()
}

// wake says who is woken when a person is asked; at once where that was so already.
func (e *ear) wake(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.awaken = f
	if f != nil && e.asks {
		e.asks = false
		f()
	}
}

func (e *ear) ask() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asks = e.awaken == nil; !e.asks {
		e.awaken()
	}
}

// note takes a progress note. It never blocks: who writes to the client is a goroutine of
// its own, which is there once there is something to write.
func (e *ear) note(p events.Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	if e.notes == nil {
		notes := make(chan events.Progress, maxNotes)
		e.notes = notes
		e.talking.Go(func() {
			for p := range notes {
				e.tell(p)
			}
		})
	}
	select {
	case e.notes <- p:
	default:
	}
}

// listen passes live events of a kind on, until the backend is another one.
func (d *Door) listen(back *backend, kind events.Kind) {
	for back.ctx.Err() == nil && d.life.Err() == nil {
		ctx, stop := context.WithCancel(back.ctx)
		unlife := context.AfterFunc(d.life, stop)
		err := back.Desk.Bus().Listen(ctx, string(kind)+".>", d.heard)
		unlife()
		stop()
		if back.ctx.Err() == nil && d.life.Err() == nil {
			d.cfg.Log.Warn("live events cannot be heard: calls are looked at meanwhile", "kind", kind, "error", err)
			pause(back.ctx, lookEvery)
		}
	}
}

// heard reads one live event. It does not block.
func (d *Door) heard(subject string, event []byte) {
	parts := strings.Split(strings.TrimPrefix(subject, bus.LivePrefix), ".")
	if len(parts) != 5 {
		return
	}
	d.mu.Lock()
	var ears []*ear
	for e := range d.ears[events.TurnKey{Trace: parts[2], Turn: parts[3]}] {
		ears = append(ears, e)
	}
	d.mu.Unlock()
	if len(ears) == 0 {
		return
	}
	if parts[0] != string(events.KindProgress) {
		for _, e := range ears {
			e.ask()
		}
		return
	}
	var ce struct {
		Data events.Progress `json:"data"`
	}
	if json.Unmarshal(event, &ce) != nil {
		return
	}
	for _, e := range ears {
		e.note(ce.Data)
	}
}

// teller tells a client of progress, as it wants to hear of it: by notifications where its
// request has a token, and else as messages of the tool's log, which the SDK sends to who
// has asked for them. The numbers grow, whatever the tool says.
func (c *calling) teller() func(events.Progress) {
	ss, token := c.req.Session, c.req.Params.GetProgressToken()
	last, notes := -1.0, 0.0
	return func(p events.Progress) {
		ctx, stop := context.WithTimeout(c.base, actLimit)
		defer stop()
		if token == nil {
			if p.Text != "" {
				logged(ctx, ss, c.order.tool.Name, p.Text)
			}
			return
		}
		notes++
		at := p.Done
		switch {
		case p.Done == 0 && p.Total == 0: // it does not count
			at = max(notes, last+1)
		case at <= last:
			at = last + 1e-6
		}
		last = at
		_ = ss.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ // best effort
			ProgressToken: token, Progress: at, Total: p.Total, Message: p.Text,
		})
	}
}
