package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// Bounds of a conversation.
const (
	endGrace = 2 * time.Second  // how long a worker may take to confirm the end that it is asked for
	maxHeard = 64 << 20         // bytes that a worker may say of one attempt
	lateFor  = 10 * time.Minute // how long what a worker still says is heard as evidence
)

// listen hears the worker until the errand has ended, and closes the job.
func (c *chat) listen(ctx context.Context) (wire.Answer, error) {
	c.begun = time.Now()
	c.alive()
	for {
		s, err := c.hear(ctx, c.silentAt)
		switch {
		case err == nil:
			a, ended, err := c.read(s)
			switch {
			case err != nil:
				c.tell(c.word(wire.TypeCancel, err.Message))
				c.close()
				return wire.Answer{}, err
			case ended:
				c.close()
				return a, nil
			}
		case ctx.Err() != nil:
			return c.end(ctx)
		case errors.Is(err, bus.ErrUnavailable) && c.r.ctx.Err() == nil:
			c.cut(ctx)
		default:
			return c.lost(ctx)
		}
	}
}

func (c *chat) close() {
	c.job.Close()
	c.tally.running.Add(-1)
	c.r.hold(-1)
}

// alive notes a sign of life.
func (c *chat) alive() { c.silentAt = time.Now().Add(c.r.cfg.silence()) }

// cut waits a moment, where the way to the workers is cut. What they said meanwhile nobody
// has heard, and they may be well: their silence begins anew.
func (c *chat) cut(ctx context.Context) {
	c.wait(ctx, min(time.Until(c.silentAt), c.r.cfg.silence()/beats))
	c.alive()
}

// wait waits, or until nobody wants the errand any more.
func (c *chat) wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.r.ctx.Done():
	}
}

func (c *chat) tell(body any) { c.r.say([]word{{c.worker, body}}) }

// read reads what was said. ended says that a is the end of the errand, and was thanked for.
func (c *chat) read(s bus.Said) (a wire.Answer, ended bool, broken *tools.Error) {
	if !s.Taken {
		c.tooLate(s)
		return a, false, nil
	}
	c.missed = max(c.missed, s.Missed)
	if c.heard += len(s.Body); c.heard > maxHeard {
		return a, false, nonsense("it has said more than %d bytes of one attempt", maxHeard)
	}
	if err := wire.Decode(events.WholeJSON(s.Body), &a); err != nil {
		return a, false, nonsense("it has said what is no message of it: %v", err)
	}
	if a.ID != c.id {
		c.strange++ // a worker that mixes up its attempts: the right word may follow
		return a, false, nil
	}
	if err := a.Check(); err != nil {
		return a, false, nonsense("%v", err)
	}
	c.said = max(c.said+1, a.Seq)
	if err := wire.May(c.said, time.Since(c.begun)); err != nil {
		return a, false, nonsense("%v", err)
	}
	c.alive()
	if a.Type == wire.TypePart {
		whole, err := c.part(s.Body)
		seq := a.Seq
		switch {
		case err != nil:
			return a, false, nonsense("%v", err)
		case whole == nil:
			return a, false, nil
		}
		a = wire.Answer{}
		if err := wire.Decode(events.WholeJSON(whole), &a); err != nil {
			return a, false, nonsense("its answer in parts: %v", err)
		}
		a.Seq = cmp.Or(a.Seq, seq) // the parts have told its number
		if err := a.Check(); err != nil {
			return a, false, nonsense("its answer in parts: %v", err)
		}
	}
	switch a.Type {
	case wire.TypeProgress:
		if a.Seq > c.seq {
			c.seq = a.Seq
			c.in.Progress(events.Progress{Text: a.Text, Done: a.Done, Total: a.Total})
		}
	case wire.TypeResult, wire.TypeError, wire.TypeFound, wire.TypeAsk:
		c.tell(c.word(wire.TypeDone, ""))
		return a, true, nil
	}
	return a, false, nil
}

// part takes a part of an answer.
func (c *chat) part(body []byte) ([]byte, error) {
	var p wire.Part
	if err := wire.Decode(body, &p); err != nil {
		return nil, err
	}
	return c.parts.Add(p)
}

// tooLate answers who takes an offer that somebody else has.
func (c *chat) tooLate(s bus.Said) {
	var t wire.Take
	if json.Unmarshal(s.Body, &t) != nil || t.Type != wire.TypeAccept {
		return
	}
	if w, err := bus.ParseWorker(t.Worker); err == nil && w != c.worker {
		c.r.say([]word{{w, c.word(wire.TypeNo, "somebody else has it")}})
	}
}

// end asks the worker for the end of an attempt whose time is up, or that nobody wants any
// more, and waits a moment for its word. What comes later is evidence.
func (c *chat) end(ctx context.Context) (wire.Answer, error) {
	why := "cancelled"
	if errors.Is(context.Cause(ctx), tools.ErrDeadline) {
		why = "deadline"
	}
	c.tell(c.word(wire.TypeCancel, why))
	until := time.Now().Add(endGrace)
	for c.r.ctx.Err() == nil {
		s, err := c.hear(c.r.ctx, until)
		if err != nil {
			break
		}
		a, ended, broken := c.read(s)
		if broken != nil {
			break
		}
		if ended {
			c.close()
			return a, nil
		}
	}
	tools.Tell(ctx, tools.Ending{Remote: true})
	c.later(ctx)
	return wire.Answer{}, &tools.Error{Class: events.ClassCancelled, Message: "the worker has not confirmed the end"}
}

// lost gives up a worker that is silent.
func (c *chat) lost(ctx context.Context) (wire.Answer, error) {
	c.tally.lost.Add(1)
	c.tell(c.word(wire.TypeCancel, "nothing is heard of you"))
	if !c.harmless() {
		tools.Tell(ctx, tools.Ending{Remote: true}) // it may be at work all the same
	}
	c.later(ctx)
	return wire.Answer{}, &tools.Error{Code: events.ExecutionError, Class: events.ClassUnavailable, Message: c.silence()}
}

// silence is what is known of a worker of which nothing is heard any more.
func (c *chat) silence() string {
	out := "the worker that had begun it is silent: it has died, or cannot be reached"
	if c.missed > 0 {
		out += fmt.Sprintf("; %d of its messages came faster than they could be heard and were lost, perhaps its end with them: it must repeat that until it hears done", c.missed)
	}
	if c.strange > 0 {
		out += fmt.Sprintf("; %d of its answers do not name this attempt: each has the id of the go", c.strange)
	}
	return out
}

// later hears as evidence what the worker says of an attempt that has ended here, for a
// while, and closes the job.
func (c *chat) later(ctx context.Context) {
	say := tools.Later(ctx)
	if c.verb != wire.VerbRun || !c.r.spawn(func() { c.evidence(say) }) {
		c.close()
	}
}

func (c *chat) evidence(say func(events.Result, error)) {
	defer c.close()
	end := time.Now().Add(lateFor)
	for {
		s, err := c.hear(c.r.ctx, end)
		if err != nil {
			return
		}
		a, ended, broken := c.read(s)
		if ended && a.Type != wire.TypeAsk {
			say(resultOf(a))
		}
		if ended || broken != nil {
			return
		}
	}
}
