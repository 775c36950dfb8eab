package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/codec"
)

// throughWait is how long one request at the door waits for a turn's end; then the same
// ids are asked for again.
const throughWait = time.Minute

// throughSubmit submits a turn at the door, and waits for its end.
func (a *app) throughSubmit(ctx context.Context, sub *submission, from string) error {
	if err := a.set.noNodeFlags(); err != nil {
		return err
	}
	return a.atDoor(func(d *door) error {
		e, err := a.envelope(sub, from)
		if err != nil {
			return err
		}
		if sub.stream && sub.calls == 0 {
			a.tellUnanswered(sub.left)
			return a.saidNothing(sub)
		}
		var late time.Time
		if sub.timeout > 0 {
			late = time.Now().Add(sub.timeout)
		}
		var first *gateway.Ticket // it says whether the turn was there already
		for {
			e.WaitMS = nextWait(sub, late).Milliseconds()
			var out struct {
				Trace, Turn, State string
				Attached           bool
				NotTaken           map[string]any `json:"not_taken"`
				Unanswered         []codec.Unanswered
			}
			if _, err := d.ask(ctx, "submit", e, &out); err != nil {
				return err
			}
			if first == nil {
				first = &gateway.Ticket{Key: events.TurnKey{Trace: out.Trace, Turn: out.Turn}, Attached: out.Attached, NotTaken: out.NotTaken}
				a.tellNotTaken(*first)
				a.tellUnanswered(out.Unanswered)
			}
			t := *first
			switch {
			case !sub.wait:
				return a.printTicket(t)
			case out.State == "completed" || out.State == "abandoned":
				return a.throughMessages(ctx, d, t, sub, e)
			case !late.IsZero() && !time.Now().Before(late):
				return &exit.Failure{Err: fmt.Errorf("turn %s has not ended after %v", t.Key, sub.timeout), Hint: "it goes on: the same command with its ids attaches to it", Code: exitNotEnded}
			}
		}
	})
}

// nextWait is how long the next request waits.
func nextWait(sub *submission, late time.Time) time.Duration {
	switch {
	case !sub.wait:
		return 0
	case late.IsZero():
		return throughWait
	}
	return max(time.Millisecond, min(throughWait, time.Until(late)))
}

// throughMessages prints the messages of a turn that has ended.
func (a *app) throughMessages(ctx context.Context, d *door, t gateway.Ticket, sub *submission, e gateway.Envelope) error {
	var m struct {
		Format   codec.Format      `json:"format"`
		Asked    json.RawMessage   `json:"assistant"`
		Messages []json.RawMessage `json:"messages"`
	}
	body := struct {
		named
		Format string `json:"format,omitempty"`
	}{named{Trace: t.Key.Trace, Turn: t.Key.Turn}, cmp.Or(sub.format, string(e.Format))}
	if _, err := d.ask(ctx, "messages", body, &m); err != nil {
		return err
	}
	out := gateway.Messages{Format: m.Format, Asked: m.Asked, Answered: m.Messages, Renamed: otherIDs(e, m.Format, m.Asked)}
	if sent, err := codec.Decode(e.Format, e.Message); err == nil {
		out.Mended, _ = codec.Mended(m.Format, sent.Calls, codec.Options{}) // the door knows the format
	}
	return a.printMessages(t, out)
}

// otherIDs says whether the message asked has other ids than the one that was submitted.
func otherIDs(e gateway.Envelope, f codec.Format, asked json.RawMessage) bool {
	sent, err := codec.Decode(e.Format, e.Message)
	got, err2 := codec.Decode(f, asked)
	if err != nil || err2 != nil || f == codec.Neutral || len(sent.Calls) != len(got.Calls) {
		return false
	}
	for i, c := range sent.Calls {
		if c.ProviderID != got.Calls[i].ProviderID {
			return true
		}
	}
	return false
}

// envelope is what is submitted, with ids, so that it can be asked for again.
func (a *app) envelope(sub *submission, from string) (gateway.Envelope, error) {
	input, body, err := a.body(sub, from)
	if err != nil {
		return gateway.Envelope{}, err
	}
	e := sub.Envelope
	e.Message, e.Format = body, input
	e.Principal = gateway.Who{ID: sub.principal}
	e.Trace, e.Turn = cmp.Or(e.Trace, ulid.Make().String()), cmp.Or(e.Turn, ulid.Make().String())
	if a.set.workspaceNamed() {
		if e.Workspace, err = a.set.directory(); err != nil {
			return e, err
		}
	}
	if sub.progress && a.set.from["progress"] == "flag" {
		return e, exit.Misused(errors.New("--progress with --as: the door answers, and tells nothing by itself"), "leave one of them out")
	}
	return e, nil
}
