package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// Bounds of a mark.
const (
	markLife  = 48 * time.Hour         // longer than a person may take to answer, by default
	sameFor   = time.Hour              // how long behind its end an answer that was not delivered is for whoever asks the same
	farGiving = 100 * time.Millisecond // how long another door may take to note that it has delivered an answer
	actLimit  = 10 * time.Second       // for what is done though whoever asked has gone
	markTries = 64
)

// mark says which turn a call from outside has become, from before the turn is submitted
// until its answer was delivered. It is a cell that all doors share: whoever asks for the
// same meanwhile, because an answer was lost on its way, meets that turn.
type mark struct {
	cell  string
	rev   uint64
	value markValue
}

type markValue struct {
	Trace string `json:"trace"`
	Turn  string `json:"turn"`
	Door  string `json:"door"`           // that waits for it
	Again int    `json:"again,omitzero"` // how often the same was asked for meanwhile
}

func (m mark) key() events.TurnKey { return events.TurnKey{Trace: m.value.Trace, Turn: m.value.Turn} }

// errMoved says that somebody else waits for the answer by now.
var errMoved = errors.New("somebody else waits for the answer")

// same names what makes two requests one: who asks, in which trace, or by which key, for
// which tool with which arguments.
func same(parts ...string) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic("mcp: strings have no JSON: " + err.Error())
	}
	return "mcp/" + lifecycle.Digest(text)[len("sha256:"):]
}

// take makes a mark for a call, or finds the one that is there. fresh is the turn of a
// call that is none of those. attached says that the call is one that was asked for before.
func (d *Door) take(ctx context.Context, back *backend, cell string, fresh events.TurnKey) (m mark, attached bool, err error) {
	for range markTries {
		m, attached, err = d.tryTake(ctx, back, cell, fresh)
		if !errors.Is(err, errMoved) {
			return m, attached, err
		}
	}
	return m, false, fmt.Errorf("%w: others ask for the same at the same time", bus.ErrUnavailable)
}

func (d *Door) tryTake(ctx context.Context, back *backend, cell string, fresh events.TurnKey) (mark, bool, error) {
	m, err := d.marked(ctx, back, cell)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		m = mark{cell: cell, value: markValue{Trace: fresh.Trace, Turn: fresh.Turn, Door: d.id}}
		return m, false, d.put(ctx, back, &m)
	case err != nil:
		return m, false, err
	}
	if g := d.onItsWay(m.key()); g != nil {
		select {
		case <-g.done: // who has the answer already wants another one
			return m, false, errMoved
		case <-ctx.Done():
			return m, false, ctx.Err()
		}
	}
	open, err := d.stillOpen(ctx, back, m)
	if err != nil {
		return m, false, err
	}
	if !open {
		m.value = markValue{Trace: fresh.Trace, Turn: fresh.Turn, Door: d.id}
		return m, false, d.put(ctx, back, &m)
	}
	m.value.Door, m.value.Again = d.id, m.value.Again+1
	return m, true, d.put(ctx, back, &m)
}

// cellOf is the cell of a call's mark. found says that it is one that waits for a person,
// which the same call meets from any session: an agent that has begun anew asks in another.
func (d *Door) cellOf(ctx context.Context, back *backend, o order) (cell string, found bool, err error) {
	if o.held == "" {
		return o.mark, false, nil
	}
	m, err := d.marked(ctx, back, o.held)
	if err == nil {
		if g := d.onItsWay(m.key()); g != nil {
			select {
			case <-g.done:
				m, err = d.marked(ctx, back, o.held)
			case <-ctx.Done():
				return "", false, ctx.Err()
			}
		}
	}
	switch {
	case errors.Is(err, bus.ErrNotFound) || err == nil && o.named && m.value.Trace != o.trace:
		return o.mark, false, nil
	case err != nil:
		return "", false, err
	}
	if found, err = d.stillOpen(ctx, back, m); err != nil || !found {
		return o.mark, false, err
	}
	return o.held, true, nil
}

// stillOpen says whether the answer of a marked turn is still for whoever asks the same.
func (d *Door) stillOpen(ctx context.Context, back *backend, m mark) (bool, error) {
	v, err := back.Desk.Get(ctx, m.key())
	switch {
	case errors.Is(err, lifecycle.ErrNoTurn): // who made the mark came no further: this is the turn then
		return true, nil
	case err != nil:
		return false, err
	case !v.Ended():
		return true, nil
	case withdrawn(v):
		return false, nil
	}
	if m.value.Door != d.id { // that one may be about to note that it has delivered
		pause(ctx, farGiving)
		if now, err := d.marked(ctx, back, m.cell); err != nil || now.rev != m.rev {
			return false, errMoved
		}
	}
	return d.cfg.Now().Sub(endedAt(v)) < sameFor, nil
}

// withdrawn says that a turn's call was cancelled before it had any effect: as nobody has
// heard of it, whoever asks again means it to be made.
func withdrawn(v gateway.View) bool {
	c := v.Turn.Call(0)
	return c != nil && c.Last == events.KindCancelled && c.Outcome != nil && c.Outcome.Effects == events.EffectsNone
}

func endedAt(v gateway.View) time.Time {
	if n := len(v.Commits); n > 0 {
		return v.Commits[n-1].Commit.At
	}
	return time.Time{}
}

func (d *Door) marked(ctx context.Context, back *backend, cell string) (mark, error) {
	c, err := back.Desk.Bus().Cells().Get(ctx, bus.BucketKeys, cell)
	if err != nil {
		return mark{}, err
	}
	m := mark{cell: cell, rev: c.Revision}
	if err := json.Unmarshal(c.Value, &m.value); err != nil || m.key().Check() != nil {
		return m, fmt.Errorf("the mark of a call cannot be read: %w", errors.Join(err, m.key().Check()))
	}
	return m, nil
}

// put writes a mark where it is as it was read.
func (d *Door) put(ctx context.Context, back *backend, m *mark) error {
	b, err := json.Marshal(m.value)
	if err != nil {
		return err
	}
	rev, err := back.Desk.Bus().Cells().Put(ctx, bus.BucketKeys, m.cell, b, m.rev, markLife)
	if errors.Is(err, bus.ErrConflict) {
		return errMoved
	}
	m.rev = rev
	return err
}

// unmark takes a mark away that nobody has touched since.
func (d *Door) unmark(ctx context.Context, m mark) error {
	back, err := d.soon(ctx)
	if err != nil {
		return err
	}
	err = back.Desk.Bus().Cells().Delete(ctx, bus.BucketKeys, m.cell, m.rev)
	if errors.Is(err, bus.ErrConflict) {
		return errMoved
	}
	return err
}

// alone says whether nobody else waits for a marked turn.
func (d *Door) alone(ctx context.Context, back *backend, m mark) bool {
	now, err := d.marked(ctx, back, m.cell)
	return err == nil && now.rev == m.rev
}

// pause waits for a time, or for ctx's end.
func pause(ctx context.Context, t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
