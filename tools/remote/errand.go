package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// errand is something that a worker is to do.
type errand struct {
	verb, tool, digest string
	tier               events.Tier
	in                 tools.Invocation
	honours            bool         // the tool does one effect for one key
	done               *wire.Result // to be undone; nil: nothing is
}

// Pauses of an offer that nobody takes.
const (
	unanswered = 20                     // that part of the whole time: a worker that says nothing by then may hang, and another one is asked
	mostAfter  = time.Second            // a worker that is busy may ask for
	nobodyThis = 200 * time.Millisecond // until it is offered again where nobody serves, who comes back may take it
	otherwise  = 50 * time.Millisecond  // where one refused that another may take
)

// harmless says whether the errand may be done twice.
func (e errand) harmless() bool { return e.tier == events.Readonly || e.honours && e.in.Key != "" }

// work is what the worker gets to see.
func (e errand) work() ([]byte, error) {
	body, err := wire.Encode(wire.Work{
		Verb: e.verb, Tool: e.tool, Call: e.in.Call.String(), Attempt: e.in.Attempt, Deadline: e.in.Deadline.UTC(), Key: e.in.Key,
		Mode: e.in.Mode, Traceparent: e.in.Traceparent, Args: e.in.Args, Given: e.in.Given, Done: e.done,
	})
	if err == nil && len(body) > wire.MaxWhole {
		return nil, &tools.Error{
			Code: events.TooLarge, Class: events.ClassInvalid, Effects: events.EffectsNone,
			Message: fmt.Sprintf("the arguments have %d bytes with what goes along, and a worker takes %d: send less", len(body), wire.MaxWhole),
		}
	}
	return body, err
}

// chat is the conversation about one errand.
type chat struct {
	errand
	r      *Roster
	job    bus.Job
	id     string
	body   []byte     // the work
	worker bus.Worker // who has it

	tally    *tally
	parts    wire.Parts
	seq      int       // of the last progress
	heard    int       // bytes
	said     int       // answers, by their number where some were not heard
	strange  int       // answers that name another attempt
	missed   int       // messages that came too fast
	begun    time.Time // when it was handed over
	silentAt time.Time // when the silence has lasted too long
}

// do has a worker do an errand, and returns its answer: result, error, found or ask. The
// error is the tool's own, or says that nothing was heard.
func (r *Roster) do(ctx context.Context, e errand) (wire.Answer, error) {
	work, err := e.work()
	if err != nil {
		return wire.Answer{}, err
	}
	c := &chat{errand: e, r: r, id: rand.Text(), body: work, tally: r.tallyOf(e.tool)}
	if !r.hold(1) {
		r.hold(-1)
		return wire.Answer{}, absent("this node does not speak to workers now")
	}
	if c.job, err = r.cfg.Workers.OpenJob(ctx, r.cfg.Boot); err != nil {
		r.hold(-1)
		return wire.Answer{}, absent("workers cannot be reached: %v", err)
	}
	c.tally.running.Add(1)
	tools.Tell(ctx, tools.Ending{Grace: endGrace + time.Second})
	if err := c.offer(ctx); err != nil {
		c.close()
		return wire.Answer{}, err
	}
	return c.listen(ctx)
}

// absent is the failure of an attempt that nobody has begun.
func absent(format string, args ...any) *tools.Error {
	return &tools.Error{
		Code: events.ExecutionError, Class: events.ClassUnavailable, Effects: events.EffectsNone,
		Message: fmt.Sprintf(format, args...) + ": it was not begun, try again later",
	}
}

// nonsense is the failure of an attempt whose worker does not keep to the contract.
func nonsense(format string, args ...any) *tools.Error {
	return &tools.Error{
		Code: events.ExecutionError, Class: events.ClassUnavailable,
		Message: "the worker does not keep to the contract: " + fmt.Sprintf(format, args...),
	}
}

// offer finds a worker that takes the errand, and hands it over. Nobody has begun anything
// where it fails: only who is handed the errand may.
func (c *chat) offer(ctx context.Context) error {
	end := time.Now().Add(c.r.cfg.silence())
	why, nobody := "no worker has answered", false
	for {
		if err := c.ask(); err != nil {
			return absent("%v", err)
		}
		again := time.Now().Add(c.r.cfg.silence() / unanswered)
		for {
			s, err := c.hear(ctx, earlier(again, end))
			switch {
			case err == nil && s.Nobody:
				why, again, nobody = "no worker serves it now", time.Now().Add(nobodyThis), true
				continue
			case err == nil:
				nobody = false
				var pause time.Duration
				if pause, err = c.taken(s, &why); err != nil || c.worker != (bus.Worker{}) {
					return err
				}
				if pause > 0 {
					again = time.Now().Add(pause)
				}
				continue
			case ctx.Err() != nil:
				return &tools.Error{Class: events.ClassCancelled, Effects: events.EffectsNone, Message: "no worker had begun it"}
			case errors.Is(err, bus.ErrUnavailable):
				why, nobody = "the way to the workers is cut", false
				c.wait(ctx, nobodyThis)
			}
			break
		}
		if !time.Now().Before(end) || c.r.ctx.Err() != nil {
			err := absent("%s", why)
			err.Absent = nobody
			return err
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// hear hears what is said until a time.
func (c *chat) hear(ctx context.Context, until time.Time) (bus.Said, error) {
	ctx, stop := context.WithDeadline(ctx, until)
	defer stop()
	return c.job.Hear(ctx)
}

// left is how long the deadline is away, in milliseconds, by this node's clock.
func (c *chat) left() int64 {
	if c.in.Deadline.IsZero() {
		return c.r.cfg.silence().Milliseconds()
	}
	return max(c.in.Deadline.Sub(c.r.cfg.Now()).Milliseconds(), 0)
}

// ask offers the errand.
func (c *chat) ask() error {
	body, err := wire.Encode(wire.Offer{
		V: wire.Version, Type: wire.TypeOffer, ID: c.id, Verb: c.verb, Tool: c.tool, Definition: c.digest,
		Call: c.in.Call.String(), Attempt: c.in.Attempt, Deadline: c.in.Deadline.UTC(), LeftMS: c.left(), Bytes: len(c.body),
	})
	if err != nil {
		return err
	}
	if err = c.job.Offer(c.tool, body); err == nil {
		c.tally.offers.Add(1)
	}
	if errors.Is(err, bus.ErrUnavailable) {
		return nil // it may come back while the offer stands
	}
	return err
}

// taken reads an answer to the offer. Where somebody takes it who may, it is handed over;
// else pause says how soon it may be offered again, 0: as if nothing was said.
func (c *chat) taken(s bus.Said, why *string) (pause time.Duration, err error) {
	var t wire.Take
	if s.Taken || json.Unmarshal(s.Body, &t) != nil {
		return 0, nil
	}
	w, err := bus.ParseWorker(t.Worker)
	switch {
	case err != nil || t.V != wire.Version:
		return 0, nil
	case t.Type == wire.TypeRefuse:
		c.tally.refused.Add(1)
		*why = "no worker took it: " + refusal(t.Why)
		return max(otherwise, time.Duration(min(t.AfterMS, mostAfter.Milliseconds()))*time.Millisecond), nil
	case t.Type != wire.TypeAccept:
		return 0, nil
	case !c.r.serves(w, c.tool, c.digest):
		*why = "no worker took it by the definition that it was let through with"
		c.r.say([]word{{w, c.word(wire.TypeNo, "this node knows you by another definition, or not at all")}, {w, wire.Told{V: wire.Version, Type: wire.TypeDescribe}}})
		return otherwise, nil
	}
	return 0, c.hand(w)
}

// refusal is a worker's reason in words of ours.
func refusal(why string) string {
	switch why {
	case wire.WhyBusy:
		return "all are busy"
	case wire.WhyDraining:
		return "who answered is about to stop"
	case wire.WhyDeadline:
		return "too little time was left, by the clock of who answered"
	case wire.WhyDefinition:
		return "who answered serves another definition of it"
	case wire.WhyVerb:
		return "who answered cannot do that"
	}
	return "who answered refused it"
}

func (c *chat) word(kind, why string) wire.Word {
	return wire.Word{V: wire.Version, Type: kind, ID: c.id, Why: why}
}

// hand hands the errand to a worker.
func (c *chat) hand(w bus.Worker) error {
	lost := c.r.cfg.silence()
	g := wire.Go{
		V: wire.Version, Type: wire.TypeGo, ID: c.id, BeatMS: (lost / beats).Milliseconds(), LostMS: lost.Milliseconds(), Message: wire.MaxMessage, LeftMS: c.left(),
	}
	var parts []wire.Part
	if len(c.body) <= wire.PartData {
		g.Work = new(wire.Work)
		if err := json.Unmarshal(c.body, g.Work); err != nil {
			return err
		}
	} else {
		parts = wire.Split(c.body)
		g.Parts = len(parts)
	}
	body, err := wire.Encode(g)
	if err == nil {
		err = c.job.Hand(w, body)
	}
	for i := 0; i < len(parts) && err == nil; i++ {
		parts[i].ID = c.id
		if body, err = wire.Encode(parts[i]); err == nil {
			err = c.r.cfg.Workers.TellWorker(c.r.ctx, w, body)
		}
	}
	if err != nil { // who has not got all of it does not begin
		return absent("it could not be sent to the worker: %v", err)
	}
	c.worker = w
	c.tally.accepted.Add(1)
	return nil
}
