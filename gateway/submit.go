package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
)

// maxCarried is the size in bytes of the largest commit that travels in its
// queue item, so that a claim need not read.
const maxCarried = 16 << 10

// Ticket says where a submission stands in the log.
type Ticket struct {
	Key      events.TurnKey
	Seq      uint64 // stream sequence of its first commit
	Attached bool   // the turn was there already
	// NotTaken are settings of a submission that attached which the turn does not have, by the
	// names of an Envelope's fields, each with what stands in the turn instead; nil: none.
	NotTaken map[string]any
}

// Submit puts a turn in the log, queues it, and returns once that is durable. An
// empty trace or turn id is made. The same ids with the same calls attach to
// the turn that is there, whose settings stay as they are, and which is queued again if
// nobody has claimed it.
//
// It returns lifecycle.ErrSubmission for one that is out of bounds (with
// bus.ErrTooLarge where that is its size), lifecycle.ErrDifferent where the ids
// are taken, and the errors of bus.Log. The ticket names the ids with an error,
// too: repeating them is safe.
func (d *Desk) Submit(ctx context.Context, key events.TurnKey, s events.TurnSubmitted) (Ticket, error) {
	key, s, secret, err := d.admit(ctx, key, s)
	if err != nil {
		return Ticket{Key: key}, err
	}
	t, v, err := d.enter(ctx, key, s)
	d.unkeep(ctx, v, secret, err)
	if err != nil {
		return t, err
	}
	if err := d.durable(ctx); err != nil {
		return t, err
	}
	if !t.Attached {
		d.publish(ctx, v.Turn, v.Commits[0])
	}
	return t, nil
}

// Run is Submit and Wait in one: it answers once the turn has ended and that is
// durable, so that nobody waits for a barrier in between. If limit passes
// first (0: no limit), the view has not ended, and the submission is durable.
func (d *Desk) Run(ctx context.Context, key events.TurnKey, s events.TurnSubmitted, limit time.Duration) (Ticket, View, error) {
	key, s, secret, err := d.admit(ctx, key, s)
	if err != nil {
		return Ticket{Key: key}, View{}, err
	}
	w := d.watch(key) // BEFORE anybody can run it
	defer w.cancel()
	t, v, err := d.enter(ctx, key, s)
	d.unkeep(ctx, v, secret, err)
	if err != nil {
		return t, v, err
	}
	if first := v.Commits[0]; !t.Attached && d.bus.Wanted(first, nil) {
		before := v.Turn
		d.wg.Go(func() { // the caller waits for no barrier of its own
			if ctx := context.WithoutCancel(ctx); d.durable(ctx) == nil {
				d.publish(ctx, before, first)
			}
		})
	}
	v, err = d.await(ctx, w, v, limit)
	return t, v, err
}

// admit checks a submission, makes text and ids of it, takes its secrets out and
// keeps them, and stores its large bodies. Nothing is kept of one that is refused.
func (d *Desk) admit(ctx context.Context, key events.TurnKey, s events.TurnSubmitted) (events.TurnKey, events.TurnSubmitted, []sealed, error) {
	if key.Trace == "" {
		key.Trace = d.newID()
	}
	if key.Turn == "" {
		key.Turn = d.newID()
	}
	if err := key.Check(); err != nil {
		return key, s, nil, fmt.Errorf("%w: %w", lifecycle.ErrSubmission, err)
	}
	s = named(whole(s))
	if err := checkSize(s); err != nil {
		return key, s, nil, err
	}
	s, secret, err := d.seal(s)
	if err != nil {
		return key, s, nil, err
	}
	if err := checkSize(s); err != nil { // a placeholder may be longer than what it stands for
		return key, s, nil, err
	}
	if err := d.keep(ctx, key, secret); err != nil {
		return key, s, nil, err
	}
	s, err = d.refer(ctx, s)
	return key, s, secret, err
}

// named is a submission that names each tool as it is registered, whatever spelling the
// model or its agent uses. What it changes is the caller's own copy: see whole.
func named(s events.TurnSubmitted) events.TurnSubmitted {
	for i, c := range s.Calls {
		s.Calls[i].Tool, s.Calls[i].Said = events.ToolName(c.Tool), ""
		if s.Calls[i].Tool != c.Tool {
			s.Calls[i].Said = c.Tool // some providers pair calls and answers by it
		}
	}
	for i := range s.Allow {
		s.Allow[i] = events.ToolName(s.Allow[i])
	}
	return s
}

// ErrNothingToRun says that a message asks for no call, as a model's last word: it is an
// ErrSubmission, about which there is nothing to mend.
var ErrNothingToRun = fmt.Errorf("%w: it has no calls", lifecycle.ErrSubmission)

// checkSize returns nil for a submission within the bounds, or an ErrSubmission.
func checkSize(s events.TurnSubmitted) error {
	if len(s.Calls) == 0 {
		return ErrNothingToRun
	}
	err := lifecycle.CheckSubmission(s)
	if err != nil && large(s.Calls) {
		err = fmt.Errorf("%w: %w", bus.ErrTooLarge, err)
	}
	return err
}

// large says whether it is the amount that is wrong with the calls of a
// submission that was refused.
func large(calls []events.RawCall) bool {
	total := 0
	for _, c := range calls {
		n, extra := len(c.Args.Text), len(c.Extra.Text)
		if total += n + extra; n > lifecycle.MaxArgs || extra > lifecycle.MaxExtra || total > lifecycle.MaxSubmission {
			return true
		}
	}
	return len(calls) > lifecycle.MaxCalls
}

// enter appends the submission and queues it. It does not wait for the barrier.
func (d *Desk) enter(ctx context.Context, key events.TurnKey, s events.TurnSubmitted) (Ticket, View, error) {
	v := View{Turn: lifecycle.Turn{Key: key}}
	for range maxTries {
		stored, done, err := d.append(ctx, v, lifecycle.Submit{Turn: s})
		var moved *bus.Conflict
		switch {
		case errors.As(err, &moved):
			if v, err = d.load(ctx, key, moved.Last); err != nil {
				return Ticket{Key: key}, v, err
			}
			s = sameIDs(v.Turn.Submitted, s)
			continue
		case err != nil:
			return Ticket{Key: key}, v, err
		case done:
			return d.attach(ctx, v, s)
		}
		d.seen(stored, nil)
		v = viewOf(key, []bus.Stored{stored})
		return Ticket{Key: key, Seq: stored.Seq}, v, d.queue(ctx, v)
	}
	return Ticket{Key: key}, v, fmt.Errorf("turn %s: %w: it moved on %d times: try again", key, bus.ErrConflict, maxTries)
}

// sameIDs is a submission with the ids of the turn that is there, where it names them all as
// messages of this door do: an agent that got those may send them back.
func sameIDs(have *events.TurnSubmitted, s events.TurnSubmitted) events.TurnSubmitted {
	if have == nil || len(have.Calls) != len(s.Calls) {
		return s
	}
	ids, err := codec.IDs(cmp.Or(codec.Format(s.Format), codec.OpenAI), have.Calls, codec.Options{})
	if err != nil || renamed(ids, s.Calls) {
		return s
	}
	s.Calls = slices.Clone(s.Calls)
	for i := range s.Calls {
		s.Calls[i].ProviderID = have.Calls[i].ProviderID
	}
	return s
}

// attach answers a submission that is in the log already.
func (d *Desk) attach(ctx context.Context, v View, s events.TurnSubmitted) (Ticket, View, error) {
	t := Ticket{Key: v.Turn.Key, Seq: v.Commits[0].Seq, Attached: true, NotTaken: notTaken(*v.Turn.Submitted, s, d.workspace)}
	unclaimed := v.Turn.Owner.Boot == "" && v.Turn.Ended == nil && v.Turn.Submitted.Imported == ""
	if !unclaimed {
		return t, v, nil
	}
	return t, v, d.queue(ctx, v)
}

// queue hands the turn to the nodes. The item is a hint: a turn that is in the
// log and could not be queued is queued by submitting it again.
func (d *Desk) queue(ctx context.Context, v View) error {
	first := v.Commits[0]
	it := bus.Item{ID: first.Commit.ID, Turn: v.Turn.Key, Placement: placement(v.Turn), Seq: first.Seq}
	if len(v.Commits) == 1 && first.Size <= maxCarried {
		if b, err := events.Encode(first.Commit); err == nil {
			it.Commit, it.Generation = b, first.Generation
		}
	}
	if err := d.bus.Push(ctx, it); err != nil {
		return fmt.Errorf("turn %s: %w: %w", v.Turn.Key, ErrUntold, err)
	}
	return nil
}

// refer stores large arguments, and what a provider wants back, outside the commit: those
// over bus.MaxInline, and then the largest ones until the commit fits.
func (d *Desk) refer(ctx context.Context, s events.TurnSubmitted) (events.TurnSubmitted, error) {
	for i := range s.Calls {
		for _, b := range []*events.Body{&s.Calls[i].Args, &s.Calls[i].Extra} {
			if len(b.Text) <= bus.MaxInline {
				continue
			}
			if err := d.byRef(ctx, b); err != nil {
				return s, err
			}
		}
	}
	for roughSize(s) > bus.MaxCommit-(16<<10) {
		b := largest(s.Calls)
		if b == nil {
			return s, fmt.Errorf("submission without its arguments: %w: send fewer calls or a shorter allow list", bus.ErrTooLarge)
		}
		if err := d.byRef(ctx, b); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (d *Desk) byRef(ctx context.Context, b *events.Body) error {
	ref, err := d.bus.Blobs().Put(ctx, []byte(b.Text), "")
	if err != nil {
		return fmt.Errorf("store a body of %d bytes: %w", len(b.Text), err)
	}
	*b = events.Body{Ref: &ref}
	return nil
}

// minReferred is the size in bytes of the smallest body for which a reference
// is shorter.
const minReferred = 256

// largest is the largest body of the calls that stands inline, the first of equals; nil
// where a reference would shorten nothing.
func largest(calls []events.RawCall) *events.Body {
	var out *events.Body
	size := minReferred
	for i := range calls {
		for _, b := range []*events.Body{&calls[i].Args, &calls[i].Extra} {
			if len(b.Text) > size {
				out, size = b, len(b.Text)
			}
		}
	}
	return out
}

// roughSize bounds the size in bytes of a submission's commit from above.
func roughSize(s events.TurnSubmitted) int {
	n := 1024 + len(s.Workspace) + len(s.Traceparent) + len(s.Imported) + len(s.Principal.ID) + len(s.Principal.Kind)
	for _, list := range [][]string{s.Allow, s.Principal.Parents} {
		for _, v := range list {
			n += len(v) + 5
		}
	}
	for _, c := range s.Calls {
		n += 300 + len(c.Args.Text) + len(c.Extra.Text) + len(c.Tool) + len(c.Said) + len(c.ProviderID) + len(c.Key)
		for _, r := range c.Secrets {
			n += 32 + len(r.ID) + len(r.Path)
		}
		if c.Refused != nil {
			n += 48 + len(c.Refused.Code) + len(c.Refused.Reason)
		}
	}
	return n
}
