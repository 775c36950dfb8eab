package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// lookEvery is how often a turn is looked at whose live events may have been lost.
const lookEvery = 5 * time.Second

// calling is one tools/call on its way.
type calling struct {
	door  *Door
	visit *visit
	req   *sdk.CallToolRequest
	order order
	base  context.Context // of the request, without its end: by it the SDK finds the request's stream

	key    events.TurnKey
	marked bool // mark counts
	mark   mark
	again  bool // it was asked for before

	since time.Time // since when it waits for a person; zero: it does not
	ear   *ear
	asked map[string]bool // what was put before whoever is at the client
	open  int             // questions that they have not answered
	mu    sync.Mutex      // guards open
	wg    sync.WaitGroup  // of questions
}

// call is the handler of every tool.
func (d *Door) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	v := d.visitOf(req.Extra)
	if v == nil {
		return nil, errNoVisit
	}
	o, err := d.read(v, req)
	if err != nil {
		return nil, err
	}
	c := &calling{door: d, visit: v, req: req, order: o, base: context.WithoutCancel(ctx), asked: make(map[string]bool)}
	asker := ctx // questions end with the request
	work, stop := context.WithCancelCause(c.base)
	defer stop(nil)
	defer context.AfterFunc(d.life, func() { stop(errClosed) })()
	defer context.AfterFunc(asker, func() { stop(context.Cause(asker)) })()
	res, err := c.run(work)
	stop(nil)
	c.wg.Wait()
	if err != nil && ctx.Err() != nil && d.life.Err() == nil && !v.closing() {
		c.left(context.Cause(ctx))
	}
	return res, err
}

// run makes the call, and waits for what there is to answer.
func (c *calling) run(ctx context.Context) (*sdk.CallToolResult, error) {
	defer func() { c.door.unhear(c.ear) }()
	late := c.door.cfg.Now().Add(unreachable)
	for {
		back, err := c.door.soon(ctx)
		if err != nil {
			return c.refused(err)
		}
		res, err := c.try(ctx, back)
		switch {
		case err == nil:
			return res, nil
		case ctx.Err() != nil:
			return c.refused(err)
		case back.ctx.Err() != nil: // another node is behind the door, or will be
			late = c.door.cfg.Now().Add(unreachable)
		case errors.Is(err, bus.ErrUnavailable) && c.door.cfg.Now().Before(late): // it may be going
			pause(ctx, again)
		default:
			return c.refused(err)
		}
	}
}

// How long a log that cannot be reached is tried, and how often.
const (
	unreachable = 15 * time.Second
	again       = 100 * time.Millisecond
)

// try makes the call at one backend.
func (c *calling) try(ctx context.Context, back *backend) (*sdk.CallToolResult, error) {
	if err := c.enter(ctx, back); err != nil {
		return nil, err
	}
	if c.ear == nil {
		c.ear = c.door.hear(c)
	}
	return c.wait(ctx, back)
}

// enter settles which turn the call is.
func (c *calling) enter(ctx context.Context, back *backend) error {
	if c.key.Turn != "" {
		return nil
	}
	fresh := events.TurnKey{Trace: c.order.trace, Turn: c.door.cfg.NewID()}
	cell, found, err := c.door.cellOf(ctx, back, c.order)
	switch {
	case err != nil:
		return err
	case !found && c.order.tool.readonly() && c.order.key == "":
		c.key = fresh // nothing comes of making it twice
		return nil
	}
	m, again, err := c.door.take(ctx, back, cell, fresh)
	if err != nil {
		return err
	}
	c.key, c.mark, c.marked, c.again = m.key(), m, true, again
	return nil
}

// wait submits the call, or attaches to it, and waits until there is something to answer.
func (c *calling) wait(ctx context.Context, back *backend) (*sdk.CallToolResult, error) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	defer context.AfterFunc(back.ctx, func() { leave(errLeft) })()
	if c.again { // it may be at a point of which nothing more is heard
		v, err := back.Desk.Get(ctx, c.key)
		if err == nil {
			res, err := c.next(ctx, back, v)
			if res != nil || err != nil {
				return res, err
			}
		} else if !errors.Is(err, lifecycle.ErrNoTurn) {
			return nil, err
		}
	}
	for submitted := false; ; submitted = true {
		v, err := c.look(ctx, back, submitted)
		if err != nil {
			return nil, err
		}
		if res, err := c.next(ctx, back, v); res != nil || err != nil {
			return res, err
		}
	}
}

// look is the turn once it has ended, or a person is asked, or it is worth looking at.
func (c *calling) look(ctx context.Context, back *backend, submitted bool) (v gateway.View, err error) {
	within, asks := context.WithCancelCause(ctx)
	defer asks(nil)
	c.ear.wake(func() { asks(errAsks) })
	if submitted {
		v, err = back.Desk.Wait(within, c.key, c.patience())
	} else {
		_, v, err = back.Desk.Run(within, c.key, c.order.turn, c.patience())
	}
	c.ear.wake(nil)
	if err == nil || ctx.Err() != nil || !errors.Is(context.Cause(within), errAsks) {
		return v, err
	}
	v, err = back.Desk.Get(ctx, c.key)
	if errors.Is(err, lifecycle.ErrNoTurn) {
		err = bus.ErrUnavailable // it was heard of, and is not there
	}
	return v, err
}

// next is what there is to answer of a turn; nil means: wait on.
func (c *calling) next(ctx context.Context, back *backend, v gateway.View) (*sdk.CallToolResult, error) {
	if v.Ended() {
		return c.answer(ctx, back, v)
	}
	return c.people(ctx, back, v)
}

// errAsks ends a wait because a person is asked for something.
var errAsks = errors.New("a person is asked")

// patience is how long the next wait may take.
func (c *calling) patience() time.Duration {
	if c.since.IsZero() || c.asking() {
		return lookEvery
	}
	return max(time.Millisecond, min(lookEvery, c.door.cfg.Patience-c.door.cfg.Now().Sub(c.since)))
}

// answer is the result of a call that has ended.
func (c *calling) answer(ctx context.Context, back *backend, v gateway.View) (*sdk.CallToolResult, error) {
	res, err := c.door.result(ctx, back, v, c.req)
	if err != nil {
		return nil, err
	}
	if c.again {
		res.Meta[MetaAgain] = true
	}
	if c.marked {
		c.door.give(c.visit, c.mark)
	}
	return res, nil
}

// refused is the answer where the call could not be made, or not be waited for.
func (c *calling) refused(err error) (*sdk.CallToolResult, error) {
	if _, ours := errors.AsType[*jsonrpc.Error](err); ours || errors.Is(err, context.Canceled) || errors.Is(err, errClosed) {
		return nil, err
	}
	refusal := errors.Is(err, lifecycle.ErrSubmission) || errors.Is(err, lifecycle.ErrWords) || errors.Is(err, bus.ErrTooLarge)
	if c.marked && !c.again && refusal { // nothing came of it
		ctx, stop := context.WithTimeout(context.WithoutCancel(c.door.life), actLimit)
		defer stop()
		_ = c.door.unmark(ctx, c.mark) // it would only be found to name no turn
	}
	if refusal || errors.Is(err, lifecycle.ErrDifferent) {
		return failure(err.Error()), nil
	}
	c.door.cfg.Log.Warn("a call could not be made or waited for", "turn", c.key.String(), "tool", c.order.tool.Name, "err", err)
	if c.marked {
		return failure("It is not known how this call stands: " + err.Error() + ". Ask again for the same: it is not made twice."), nil
	}
	return failure("This call could not be made: " + err.Error() + ". Try again."), nil
}

// left is what is done where whoever asked does not want the answer any more. Where that
// is only a closed stream, it may have been lost on its way: then the same request may come
// again, and meets the call. cause is why the request has ended.
func (c *calling) left(cause error) {
	if c.key.Turn == "" {
		return
	}
	d := c.door
	d.left.Go(func() {
		back, err := d.behind(d.life)
		if err != nil {
			return
		}
		why := "the client has cancelled its request"
		switch {
		case c.visit.stream:
			why = "the client has closed the stream of its request"
			if c.marked && d.cfg.Linger > 0 {
				if pause(d.life, d.cfg.Linger); d.life.Err() != nil {
					return // this door closes: the request may come to another one
				}
			}
		case !errors.Is(cause, context.Canceled): // the connection's own end
			why = "its client has gone"
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(d.life), actLimit)
		defer stop()
		if c.marked && !d.alone(ctx, back, c.mark) {
			return
		}
		by := c.visit.principal()
		by.Via = events.ViaMCP
		_, err = back.Desk.CancelCall(ctx, c.key.Call(0), by, why)
		if err != nil && !errors.Is(err, lifecycle.ErrNoTurn) && !errors.Is(err, lifecycle.ErrNoCall) {
			d.cfg.Log.Warn("a call whose client has gone could not be cancelled", "call", c.key.Call(0).String(), "err", err)
		}
	})
}
