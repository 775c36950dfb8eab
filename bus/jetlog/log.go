package jetlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// settleLimit is how long an append is repeated at the same expectation while
// the server says nothing that settles it. It outlasts an election.
const settleLimit = 30 * time.Second

// behindLimit is how long a server of a cluster may name a sequence below the
// expectation: one that has just become leader catches up in far less.
const behindLimit = 3 * time.Second

// Append is bus.Log's. Every writer compares and swaps; the calls in flight are
// bounded by Config.InFlight.
func (b *Bus) Append(ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	s, err := b.append(ctx, c, at)
	if err != nil {
		return bus.Stored{}, fmt.Errorf("append to turn %s after %d: %w", c.Turn, at, err)
	}
	return s, nil
}

func (b *Bus) append(ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	if err := ctx.Err(); err != nil {
		return bus.Stored{}, fmt.Errorf("%w: %w", bus.ErrUnavailable, err)
	}
	if err := checkCommit(c); err != nil {
		return bus.Stored{}, err
	}
	body, err := events.Encode(c)
	if err != nil {
		return bus.Stored{}, err
	}
	return b.put(ctx, c, body, at)
}

// put stores a commit in its encoded form.
func (b *Bus) put(ctx context.Context, c events.Commit, body []byte, at uint64) (bus.Stored, error) {
	if len(body) > bus.MaxCommit {
		return bus.Stored{}, fmt.Errorf("%d bytes: %w", len(body), bus.ErrTooLarge)
	}
	m := &nats.Msg{Subject: bus.EventSubject(c.Turn), Header: commitHeader(c, at), Data: body}
	a, err := b.appends.try(ctx, m)
	if err == nil {
		return b.acknowledged(ctx, c, a, body)
	}
	return b.settle(ctx, c, m, at, err)
}

// acknowledged is what an acknowledgement says was stored. The id of a repeated
// try is known to the server; then the turn must have that commit.
func (b *Bus) acknowledged(ctx context.Context, c events.Commit, a ack, body []byte) (bus.Stored, error) {
	if !a.duplicate {
		return b.stored(a.seq, body)
	}
	s, found, err := b.find(ctx, c.Turn, a.seq, a.seq, c.ID)
	switch {
	case found:
		return s, nil
	case err != nil:
		return s, fmt.Errorf("%w: the server has the id at %d: %w", bus.ErrUncertain, a.seq, err)
	}
	return s, fmt.Errorf("the commit's id %s is that of another commit, at %d: ids must be unique", c.ID, a.seq)
}

func (b *Bus) stored(seq uint64, body []byte) (bus.Stored, error) {
	c, err := events.Decode(body)
	if err != nil {
		return bus.Stored{}, &bus.Unreadable{Seq: seq, Err: err}
	}
	return bus.Stored{Generation: b.spans().of(seq), Seq: seq, Size: len(body), Commit: c}, nil
}

// attempt is an append whose first try was not simply kept.
type attempt struct {
	bus    *Bus
	msg    *nats.Msg
	id     string
	turn   events.TurnKey
	at     uint64
	unsure bool // a try may have been kept

	behind time.Time // since when every refusal names a sequence that is not beyond at
	last   uint64    // that sequence
}

// settle repeats the same commit at the same expectation until it is known what
// became of it.
func (b *Bus) settle(ctx context.Context, c events.Commit, m *nats.Msg, at uint64, err error) (bus.Stored, error) {
	a := attempt{bus: b, msg: m, id: c.ID, turn: c.Turn, at: at}
	limit, stop := context.WithTimeout(ctx, settleLimit)
	defer stop()
	pause := backoff{500 * time.Microsecond, 100 * time.Millisecond}
	for {
		s, done, why := a.judge(limit, err)
		if done {
			return s, why
		}
		if pause.wait(limit) != nil {
			return bus.Stored{}, a.giveUp(errors.Join(why, ctx.Err()))
		}
		var k ack
		if k, err = b.appends.try(limit, m); err == nil {
			return b.acknowledged(limit, c, k, m.Data)
		}
	}
}

// judge says what a failed try means: done with a result or an error for good,
// or that the same must be tried again.
func (a *attempt) judge(ctx context.Context, err error) (s bus.Stored, done bool, out error) {
	var refused *apiError
	switch {
	case !errors.As(err, &refused):
		a.unsure = a.unsure || !errors.Is(err, errNotSent) && !errors.Is(err, errNobody)
		if ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed) {
			return s, true, a.giveUp(err)
		}
		if errors.Is(err, nats.ErrMaxPayload) {
			return s, true, fmt.Errorf("%w: the server takes no message of %d bytes", bus.ErrTooLarge, len(a.msg.Data))
		}
		return s, false, err
	case refused.ErrCode == codeTooLarge:
		return s, true, fmt.Errorf("%w: %w", bus.ErrTooLarge, refused)
	case refused.passes():
		return s, false, err
	}
	last, ok := refused.wrongLast()
	if !ok {
		return s, true, fmt.Errorf("%w: %w", bus.ErrUnavailable, refused)
	}
	if last <= a.at {
		return s, a.bus.replicas == 1 || a.late(last), &bus.Conflict{Last: last}
	}
	s, found, err := a.bus.find(ctx, a.turn, a.at+1, last, a.id)
	switch {
	case err != nil:
		return s, true, fmt.Errorf("%w: the turn moved on to %d: %w", bus.ErrUncertain, last, err)
	case !found:
		return s, true, &bus.Conflict{Last: last}
	}
	return s, true, nil
}

// late says whether a server names a sequence that is not beyond the expectation
// for longer than one that is catching up: the log lost its tail.
func (a *attempt) late(last uint64) bool {
	if a.last = last; a.behind.IsZero() {
		a.behind = time.Now()
	}
	return time.Since(a.behind) > behindLimit
}

// giveUp is the error of an append that nothing has settled in time.
func (a *attempt) giveUp(err error) error {
	switch {
	case a.unsure:
		return fmt.Errorf("%w: %w", bus.ErrUncertain, err)
	case !a.behind.IsZero():
		return &bus.Conflict{Last: a.last}
	}
	return fmt.Errorf("%w: %w", bus.ErrUnavailable, err)
}

// Head is bus.Log's.
func (b *Bus) Head(ctx context.Context) (events.Position, error) {
	_, last, err := b.state(ctx)
	if err != nil {
		return events.Position{}, fmt.Errorf("head of the log: %w", err)
	}
	return events.Position{Generation: b.Generation(), Seq: last + 1}, nil
}

// Headers of a commit. The CloudEvents attributes describe it in binary mode.
const (
	headerKinds = "Sluice-Kinds"
	headerBoot  = "Sluice-Boot"
	headerEpoch = "Sluice-Epoch"
	headerTrace = "traceparent"
	contentType = "application/msgpack"
)

// commitHeader is one map and one backing array: appends are many.
func commitHeader(c events.Commit, at uint64) nats.Header {
	h := make(nats.Header, 15)
	values := make([]string, 0, 15)
	set := func(k, v string) {
		values = append(values, v)
		h[k] = values[len(values)-1 : len(values) : len(values)]
	}
	set(headerExpect, strconv.FormatUint(at, 10))
	set(headerMsgID, c.ID)
	set(headerKinds, kinds(c))
	if c.By.Boot != "" {
		set(headerBoot, c.By.Boot)
		set(headerEpoch, strconv.FormatUint(uint64(c.By.Epoch), 10))
	}
	if sub, ok := c.Records[0].Event.(*events.TurnSubmitted); ok && headerSafe(sub.Traceparent) {
		set(headerTrace, sub.Traceparent)
	}
	set("Content-Type", contentType)
	set("ce-specversion", bus.CloudEventsVersion)
	set("ce-id", c.ID)
	set("ce-source", bus.CloudEventSource(c.Turn))
	set("ce-type", "run.sluice.commit.v1")
	set("ce-subject", c.Turn.String())
	set("ce-time", c.At.Format(time.RFC3339Nano))
	set("ce-datacontenttype", contentType)
	return h
}

func kinds(c events.Commit) string {
	if len(c.Records) == 1 {
		return string(c.Records[0].Event.Kind())
	}
	var b strings.Builder
	for i, r := range c.Records {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(r.Event.Kind()))
	}
	return b.String()
}

// checkCommit refuses what cannot be put in subjects and headers as it is.
func checkCommit(c events.Commit) error {
	if err := c.Turn.Check(); err != nil {
		return err
	}
	switch {
	case len(c.Records) == 0:
		return errors.New("the commit has no events")
	case !headerSafe(c.ID) || len(c.ID) > 128:
		return fmt.Errorf("commit id %q must be 1 to 128 printable characters without blanks", clip([]byte(c.ID)))
	case c.By.Boot != "" && (!headerSafe(c.By.Boot) || len(c.By.Boot) > 128):
		return fmt.Errorf("boot id %q must be at most 128 printable characters without blanks", clip([]byte(c.By.Boot)))
	}
	for _, r := range c.Records {
		if k := string(r.Event.Kind()); !headerSafe(k) || len(k) > 64 {
			return fmt.Errorf("kind %q must be 1 to 64 printable characters without blanks", clip([]byte(k)))
		}
	}
	return nil
}

// headerSafe says whether a value stays one header: printable ASCII, no blanks.
func headerSafe(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}
