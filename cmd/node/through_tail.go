package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
)

// tailWait is how long one request at the door waits for the next event.
const tailWait = 20 * time.Second

// tailing is what a tail at the door asks for, page by page.
type tailing struct {
	From   string   `json:"from,omitempty"`
	Trace  string   `json:"trace,omitempty"`
	Turn   string   `json:"turn,omitempty"`
	Kinds  []string `json:"kinds,omitempty"`
	Tools  []string `json:"tools,omitempty"`
	WaitMS int64    `json:"wait_ms,omitempty"`
}

// throughTail shows the events that the door lets its user see.
func (a *app) throughTail(ctx context.Context, d *door, cmd *cobra.Command, _ []string) error {
	f := cmd.Flags()
	text := func(name string) string { return f.Lookup(name).Value.String() }
	in := tailing{From: text("from"), Trace: text("trace"), Turn: text("turn")}
	var err error
	if in.Kinds, err = f.GetStringSlice("kind"); err != nil {
		return err
	}
	if in.Tools, err = f.GetStringSlice("tool"); err != nil {
		return err
	}
	follow, err := f.GetBool("follow")
	if err != nil {
		return err
	}
	for {
		var page struct {
			Events []json.RawMessage
			Next   string
			More   bool
		}
		err := a.askOn(ctx, follow && in.From != text("from"), func() error {
			_, err := d.ask(ctx, "events", in, &page)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil // somebody has seen enough
		case err != nil:
			return err
		}
		for _, e := range page.Events {
			if err := a.showTold(e); err != nil {
				return err
			}
		}
		if in.From = page.Next; !follow && !page.More {
			return nil
		}
		if in.WaitMS = 0; follow && !page.More {
			in.WaitMS = tailWait.Milliseconds()
		}
	}
}

// toldEvent is a CloudEvent, or a notice, as far as a line for a person needs it.
type toldEvent struct {
	Notice, From, To, Error string // of a notice
	Bytes                   int    // of an event that no page can hold

	Position, Subject, Tool, Type string
	Time                          time.Time
	Data                          json.RawMessage
}

// showTold shows an event of a page, or a notice, as showEvent does.
func (a *app) showTold(raw json.RawMessage) error {
	if a.json {
		a.printRaw(raw)
		return a.out.failed()
	}
	var t toldEvent
	if err := json.Unmarshal(raw, &t); err != nil {
		return fmt.Errorf("an event that the door has told cannot be read: %w", err)
	}
	switch {
	case t.Bytes > 0:
		a.print("-- %s: %s has %d bytes\n", show.Short(t.Notice, 40), show.Short(t.Position, 60), t.Bytes)
	case t.Notice != "":
		line := fmt.Sprintf("-- %s: from %s to %s", t.Notice, t.From, t.To)
		if t.Error != "" {
			line += ": " + t.Error
		}
		a.print("%s\n", show.Short(line, 500))
	default:
		e, err := t.event()
		if err != nil {
			return err
		}
		a.print("%s\n", describe(e))
	}
	return a.out.failed()
}

// event is the event that a CloudEvent tells of.
func (t toldEvent) event() (gateway.FeedEvent, error) {
	var out gateway.FeedEvent
	at, err := events.ParsePosition(t.Position)
	if err != nil {
		return out, err
	}
	s := bus.Stored{Generation: at.Generation, Seq: at.Seq, Commit: events.Commit{At: t.Time}}
	rec := events.Record{Call: events.TurnEvent}
	if call, err := events.ParseCallKey(t.Subject); err == nil {
		s.Commit.Turn, rec.Call = call.TurnKey(), call.Offset
	} else if s.Commit.Turn, err = events.ParseTurnKey(t.Subject); err != nil {
		return out, err
	}
	kind, _, _ := strings.Cut(strings.TrimPrefix(t.Type, "run.sluice."), ".v")
	rec.Event = events.Foreign{Name: events.Kind(kind)}
	if row, known := events.KindRow(events.Kind(kind)); known {
		rec.Event = row.New()
		if err := json.Unmarshal(t.Data, rec.Event); err != nil {
			return out, fmt.Errorf("the event %s that the door has told cannot be read: %w", at, err)
		}
	}
	s.Commit.Records = []events.Record{rec}
	return gateway.FeedEvent{Position: at, Stored: s, Tool: t.Tool}, nil
}
