package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/projections"
)

// noticeLine is a notice in JSON. Scripts read it.
type noticeLine struct {
	Notice   string `json:"notice"`          // gap, rewound or unreadable
	From     string `json:"from"`            // from this position on something is not as the reader may think
	Position string `json:"position"`        // where the reading goes on
	Of       string `json:"of,omitempty"`    // trace/turn or trace/turn/call, where only that is meant
	Error    string `json:"error,omitempty"` // why a commit cannot be decoded
}

// read prints events until the log is lost, or its head was reached.
func (t *tailer) read(ctx context.Context, log bus.Bus) error {
	if t.at == (events.Position{}) && !t.start {
		head, err := log.Head(ctx)
		if err != nil {
			return err
		}
		t.at = head
		if err := t.keep(); err != nil {
			return err
		}
	}
	desk := gateway.NewDesk(gateway.DeskConfig{Bus: log})
	all := gateway.FeedFilter{Trace: t.filter.Trace, Turn: t.filter.Turn}
	return desk.Events(ctx, t.at, all, t.follow, t.take)
}

// take prints an event or a notice of the feed.
func (t *tailer) take(e gateway.FeedEvent) error {
	if e.Notice != "" {
		return t.notice(e)
	}
	if err := t.numbers(e); err != nil {
		return err
	}
	last := len(e.Stored.Commit.Records) - 1
	if t.wanted(e) {
		if err := t.print(e); err != nil {
			return err
		}
	}
	t.at = events.Position{Generation: e.Position.Generation, Seq: e.Position.Seq, Index: e.Index + 1}
	if e.Index < last {
		return nil
	}
	t.at = events.Position{Generation: e.Position.Generation, Seq: e.Position.Seq + 1}
	return t.keep()
}

func (t *tailer) wanted(e gateway.FeedEvent) bool {
	return (len(t.filter.Kinds) == 0 || slices.Contains(t.filter.Kinds, e.Record().Event.Kind())) &&
		(len(t.filter.Tools) == 0 || slices.Contains(t.filter.Tools, e.Tool))
}

func (t *tailer) print(e gateway.FeedEvent) error {
	if t.app.json {
		ce, err := e.CloudEvent()
		if err != nil {
			return err
		}
		t.app.print("%s\n", ce)
		return nil
	}
	c := e.Stored.Commit
	r := e.Record()
	of := c.Turn.String()
	if r.Call != events.TurnEvent {
		of = c.Turn.Call(r.Call).String()
	}
	ev := projections.Event{Pos: e.Position, Turn: c.Turn, At: c.At, By: c.By, Commit: c.ID, Record: r}
	text := fmt.Sprintf("%-9s  %s  %-21s  %s", e.Position, stamp(c.At), show.Short(string(r.Event.Kind()), 64), of)
	if e.Tool != "" {
		text += "  " + show.Short(e.Tool, 64)
	}
	if d := show.Short(detailOf(ev), 200); d != "" {
		text += "  " + d
	}
	t.app.print("%s\n", text)
	return nil
}

// notice tells of a gap, of a commit that cannot be decoded, or that the log was rewound.
// Behind the others what was seen of turns counts no more: their next numbers may be any.
func (t *tailer) notice(e gateway.FeedEvent) error {
	if e.Notice != gateway.NoticeUnreadable { // whose turn it was, its next number tells
		clear(t.seen)
	}
	t.at = e.Position
	t.start = t.start || t.at == (events.Position{}) // nothing is left of what was read
	n := noticeLine{Notice: string(e.Notice), From: e.From.String(), Position: e.Position.String()}
	switch {
	case e.Err != nil:
		n.Error = e.Err.Error()
		return t.say(n, n.Error)
	case e.Notice == gateway.NoticeRewound:
		return t.say(n, "the log has lost its tail: drop what was read from there on")
	}
	return t.say(n, "what stood between is not in the log any more")
}

func (t *tailer) say(n noticeLine, why string) error {
	if t.app.json {
		if err := t.app.printJSON(n); err != nil {
			return err
		}
	} else {
		of := n.Of
		if of != "" {
			of += ": "
		}
		t.app.print("--- %s from %s to %s: %s%s\n", n.Notice, n.From, n.Position, of, show.Short(why, 300))
	}
	return t.keep()
}

// mostSeen is of how many turns the last numbers are remembered.
const mostSeen = 4096

// numbers looks whether events are missing before one: its call, or its turn, counts
// them.
func (t *tailer) numbers(e gateway.FeedEvent) error {
	key, r := e.Stored.Commit.Turn, e.Record()
	seq := t.seen[key]
	if seq == nil {
		if r.Event.Kind() != events.KindTurnSubmitted {
			return nil // its beginning was not seen, so its numbers say nothing
		}
		if len(t.seen) == mostSeen {
			clear(t.seen)
		}
		seq = &sequence{calls: make(map[int]uint32)}
		t.seen[key] = seq
	}
	last, of := seq.turn, key.String()
	if r.Call != events.TurnEvent {
		last, of = seq.calls[r.Call], key.Call(r.Call).String()
	}
	if r.Call == events.TurnEvent {
		seq.turn = r.Seq
	} else {
		seq.calls[r.Call] = r.Seq
	}
	if events.EndsTurn(r.Event.Kind()) {
		delete(t.seen, key)
	}
	if r.Seq <= last+1 {
		return nil
	}
	return t.say(noticeLine{Notice: string(gateway.NoticeGap), From: t.at.String(), Position: e.Position.String(), Of: of},
		fmt.Sprintf("the events %d to %d are missing", last+1, r.Seq-1))
}
