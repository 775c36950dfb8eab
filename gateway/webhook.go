package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/role"
	"github.com/sluice-run/sluice/projections"
)

// WebhookConfig is what a webhook is made of. Desk, URL and Holder are required; zero
// elsewhere means the default beside the field.
type WebhookConfig struct {
	Desk    *Desk
	URL     *url.URL // see CheckWebhook
	Secrets [][]byte // what bodies are signed with, each by itself; none: they are not
	Holder  string   // who sends: unlike any other in the cluster

	Timeout  time.Duration // of one request; 0 means 10 s
	Attempts int           // for one notice before it is given up; 0 means 12
	Pause    time.Duration // before the second attempt; it doubles up to a minute; 0 means 1 s
	Look     time.Duration // between looks at the log; 0 means 500 ms
	Lease    time.Duration // how long the role of the sender outlives who has it; 0 means 10 s

	Log   *slog.Logger             // nil discards
	Count func(name string, n int) // webhook_sent, webhook_failed, webhook_given_up; nil counts nothing
	Rand  func() float64           // from 0 to 1, for jitter; nil means half
}

// Cells of webhooks. Those of locks have hexadecimal names.
const (
	webhookLease  = "webhook-lease"
	webhookCursor = "webhook-cursor"
)

// Webhook tells somebody else's server of what waits for people, and of how it was
// answered: at least once each, in the log's order, from a cursor that all nodes share.
// One node of a cluster sends. It never holds a turn up.
type Webhook struct {
	WebhookConfig
	bus    bus.Bus
	sender *webhookSender
	stop   context.CancelFunc
	wg     sync.WaitGroup
}

// NewWebhook makes a webhook. It starts nothing: see Start.
func NewWebhook(c WebhookConfig) *Webhook {
	c.Timeout, c.Pause = cmp.Or(c.Timeout, 10*time.Second), cmp.Or(c.Pause, time.Second)
	c.Look, c.Lease = cmp.Or(c.Look, 500*time.Millisecond), cmp.Or(c.Lease, 10*time.Second)
	c.Attempts = cmp.Or(c.Attempts, 12)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Count == nil {
		c.Count = func(string, int) {}
	}
	if c.Rand == nil {
		c.Rand = func() float64 { return 0.5 }
	}
	return &Webhook{WebhookConfig: c, bus: c.Desk.bus, sender: newWebhookSender(c)}
}

// Start begins to send, until ctx ends or Stop is called.
func (w *Webhook) Start(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	w.wg.Go(func() {
		defer w.sender.close()
		role.Role{Cells: w.bus.Cells(), Name: webhookLease, Holder: w.Holder, Lease: w.Lease, Log: w.Log}.Run(ctx, w.send)
	})
}

// Stop ends what Start began, and waits for it. What was being sent is sent again by
// whoever comes next.
func (w *Webhook) Stop() {
	if w.stop != nil {
		w.stop()
	}
	w.wg.Wait()
}

// webhookAt is the cursor's value.
type webhookAt struct {
	Next string `json:"next"` // position of the first event that was not told
}

// cursor is how far the log was told; fresh says that nothing ever was.
func (w *Webhook) cursor(ctx context.Context) (at events.Position, rev uint64, fresh bool, err error) {
	cell, err := w.bus.Cells().Get(ctx, bus.BucketLock, webhookCursor)
	if errors.Is(err, bus.ErrNotFound) {
		return at, 0, true, nil
	}
	if err != nil {
		return at, 0, false, err
	}
	var v webhookAt
	if json.Unmarshal(cell.Value, &v) == nil {
		at, err = events.ParsePosition(v.Next)
	}
	if err != nil || at == (events.Position{}) { // not ours
		return events.Position{}, cell.Revision, true, nil
	}
	return at, cell.Revision, false, nil
}

// keep moves the cursor. A conflict means that somebody else has the role by now.
func (w *Webhook) keep(ctx context.Context, at events.Position, rev uint64) (uint64, error) {
	value, err := json.Marshal(webhookAt{Next: at.String()})
	if err != nil {
		return rev, err
	}
	return w.bus.Cells().Put(ctx, bus.BucketLock, webhookCursor, value, rev, 0)
}

// send tells of everything from the cursor on, until ctx ends or the role is lost.
func (w *Webhook) send(ctx context.Context) error {
	at, rev, fresh, err := w.cursor(ctx)
	if err != nil {
		return err
	}
	if fresh {
		if at, rev, err = w.begin(ctx, rev); err != nil {
			return err
		}
	}
	for saved := at; ; {
		batch, err := w.read(ctx, at)
		switch {
		case errors.Is(err, bus.ErrRewound): // what was told is not in the log any more
			if at, rev, err = w.begin(ctx, rev); err != nil {
				return err
			}
			saved = at
			continue
		case err != nil:
			return err
		}
		for _, n := range batch.notices {
			if err := w.tell(ctx, n); err != nil {
				return err
			}
			next := n.Pos
			next.Index++
			if rev, err = w.keep(ctx, next, rev); err != nil {
				return err
			}
			at, saved = next, next
		}
		at = batch.next
		if at.Seq > saved.Seq+webhookStride || len(batch.notices) > 0 {
			if rev, err = w.keep(ctx, at, rev); err != nil {
				return err
			}
			saved = at
		}
		if !batch.more && !role.Waited(ctx, w.Look) {
			return nil
		}
	}
}

// begin tells of what waits now, and begins at the log's head.
func (w *Webhook) begin(ctx context.Context, rev uint64) (events.Position, uint64, error) {
	head, err := w.bus.Head(ctx) // BEFORE the list: what comes between is told twice, and never not at all
	if err != nil {
		return head, rev, err
	}
	list, err := w.Desk.Inbox(ctx)
	if err != nil {
		return head, rev, err
	}
	for _, p := range list {
		if err := w.tell(ctx, notice{Call: p.Call, Asking: p.Asking, Input: p.Kind == projections.PendingInput, What: noticeRequested}); err != nil {
			return head, rev, err
		}
	}
	rev, err = w.keep(ctx, head, rev)
	return head, rev, err
}

// Bounds of a read.
const (
	webhookBatch  = 64    // notices at once
	webhookStride = 10000 // commits that hold none before the cursor is moved all the same
	webhookReach  = 20000 // commits at once
)

// batch is what was read of the log.
type batch struct {
	notices []notice
	next    events.Position
	more    bool
}

var errEnough = errors.New("enough for now")

// read collects what is to be told, from a position on.
func (w *Webhook) read(ctx context.Context, from events.Position) (batch, error) {
	b, commits := batch{next: from}, 0
	head, err := w.bus.Head(ctx)
	if err != nil || head == from {
		return b, err
	}
	err = w.bus.Read(ctx, from, bus.Filter{}, false, func(s bus.Stored) error {
		for i, r := range s.Commit.Records {
			at := s.Position(i)
			if at.Seq == from.Seq && at.Generation == from.Generation && i < from.Index {
				continue
			}
			if n, ok := noticeOf(s.Commit.Turn, at, r); ok {
				b.notices = append(b.notices, n)
			}
		}
		b.next = events.Position{Generation: s.Generation, Seq: s.Seq + 1}
		if commits++; len(b.notices) >= webhookBatch || commits >= webhookReach {
			return errEnough
		}
		return nil
	})
	var unreadable *bus.Unreadable
	switch {
	case errors.Is(err, errEnough):
		b.more, err = true, nil
	case errors.As(err, &unreadable): // its turn is not one that this release can tell of
		w.Log.Warn("a commit cannot be read, and is passed over", "seq", unreadable.Seq, "err", err)
		b.next, b.more, err = events.Position{Generation: b.next.Generation, Seq: unreadable.Seq + 1}, true, nil
	}
	return b, err
}

// tell sends a notice until it has arrived, or is given up.
func (w *Webhook) tell(ctx context.Context, n notice) error {
	body, id, err := w.body(ctx, n)
	if err != nil || body == nil {
		return err
	}
	for attempt, pause := 1, w.Pause; ; attempt, pause = attempt+1, min(2*pause, time.Minute) {
		after, err := w.sender.post(ctx, id, body, w.Desk.now())
		switch {
		case err == nil:
			w.Count("webhook_sent", 1)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		w.Count("webhook_failed", 1)
		if attempt >= w.Attempts {
			w.Count("webhook_given_up", 1)
			w.Log.Error("the webhook did not take a notice, and it is given up", "id", id, "approval", n.id(), "attempts", attempt, "err", err)
			return nil
		}
		w.Log.Warn("the webhook did not take a notice: trying again", "id", id, "approval", n.id(), "attempt", attempt, "err", err)
		jittered := pause/2 + time.Duration(w.Rand()*float64(pause))
		if !role.Waited(ctx, max(jittered, min(after, time.Minute))) {
			return ctx.Err()
		}
	}
}

func (n notice) id() string { return ApprovalID{n.Call, n.Asking, n.Input}.String() }
