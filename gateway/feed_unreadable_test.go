package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// damaged is a log in which one commit cannot be read.
type damaged struct {
	bus.Bus
	bad uint64
}

func (d damaged) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	err := d.Bus.Read(ctx, from, f, follow, func(s bus.Stored) error {
		if s.Seq == d.bad {
			return &bus.Unreadable{Seq: s.Seq, Err: events.ErrFormat}
		}
		return yield(s)
	})
	return err
}

func (d damaged) Load(ctx context.Context, key events.TurnKey, atLeast uint64) ([]bus.Stored, error) {
	list, err := d.Bus.Load(ctx, key, atLeast)
	for _, s := range list {
		if s.Seq == d.bad {
			return nil, &bus.Unreadable{Seq: s.Seq, Err: events.ErrFormat}
		}
	}
	return list, err
}

// withDamage is a desk over a log of three turns, of which one commit cannot be read: 1 is
// the first turn's submission, 2 its claim, 3 the second's submission.
func withDamage(t *testing.T, bad uint64) *Desk {
	t.Helper()
	d, log := newDesk(t)
	_, err := d.Submit(within(t), key1, echo(`{}`))
	must(t, err)
	o := newOwner(t, log.View("node"))
	o.take()
	for _, turn := range []string{"second", "third"} {
		_, err := d.Submit(within(t), events.TurnKey{Trace: "other", Turn: turn}, echo(`{}`))
		must(t, err)
	}
	out := NewDesk(DeskConfig{Bus: damaged{d.bus, bad}})
	return out
}

// TestFeedGoesOnBehindWhatCannotBeRead: one lost commit hides nothing but itself, whoever
// asks, for whatever, and from wherever.
func TestFeedGoesOnBehindWhatCannotBeRead(t *testing.T) {
	all := read(t, withDamage(t, 1<<40), events.Position{}, FeedFilter{})
	for bad := uint64(1); bad <= 4; bad++ {
		d := withDamage(t, bad)
		at := events.Position{Generation: 1, Seq: bad}.String()
		notice := "unreadable " + at + " " + events.Position{Generation: 1, Seq: bad + 1}.String()
		var want []string
		for _, line := range all {
			if strings.HasPrefix(line, strings.TrimSuffix(at, "0")) {
				if strings.HasPrefix(line, at+" ") {
					want = append(want, notice)
				}
				continue
			}
			if bad == 1 { // nobody can say any more which tools the turn's calls have
				line = strings.ReplaceAll(line, " requested echo", " requested ")
				line = strings.ReplaceAll(line, " authorized echo", " authorized ")
			}
			want = append(want, line)
		}
		if diff := cmp.Diff(want, read(t, d, events.Position{}, FeedFilter{})); diff != "" {
			t.Errorf("commit %d (-want +got):\n%s", bad, diff)
		}
		if got := read(t, d, events.Position{Generation: 1, Seq: bad}, FeedFilter{}); got[0] != notice {
			t.Errorf("from commit %d on: %q", bad, got)
		}
		last := events.Position{Generation: 1, Seq: bad + 1}
		if got := read(t, d, last, FeedFilter{}); len(got) > 0 && strings.HasPrefix(got[0], "unreadable") {
			t.Errorf("behind commit %d it is told of again: %q", bad, got)
		}
	}
}

// TestFeedOfAnotherTurnHearsNothing: what cannot be read is told to who would have read it.
func TestFeedOfAnotherTurnHearsNothing(t *testing.T) {
	d := withDamage(t, 2)
	got := read(t, d, events.Position{}, FeedFilter{Trace: "other"})
	if len(got) != 2 || strings.Contains(strings.Join(got, "\n"), "unreadable") {
		t.Errorf("another trace: %q", got)
	}
}

// TestFeedFindsTheForkBehindDamage: a reader that is ahead of a log with a commit that cannot
// be read hears how far back it must go, and no error.
func TestFeedFindsTheForkBehindDamage(t *testing.T) {
	for bad := uint64(1); bad <= 4; bad++ {
		got := read(t, withDamage(t, bad), events.Position{Generation: 1, Seq: 99}, FeedFilter{})
		if len(got) == 0 || !strings.HasPrefix(got[0], "rewound 1.") {
			t.Errorf("commit %d: %q", bad, got)
		}
	}
}

// TestDoorsTellWhatCannotBeRead: a stream and a page have the notice, with why, and what
// follows.
func TestDoorsTellWhatCannotBeRead(t *testing.T) {
	d := withDamage(t, 3)
	p := &page{limit: 100}
	must(t, p.fill(within(t), d, events.Position{Generation: 1, Seq: 5}, FeedFilter{}))
	body, err := json.Marshal(p.out)
	must(t, err)
	for _, part := range []string{`{"notice":"unreadable","from":"1.3.0","to":"1.4.0","error":"`, `"id":"1.4.0"`} {
		if !bytes.Contains(body, []byte(part)) {
			t.Errorf("no %s in %s", part, body)
		}
	}
	var b strings.Builder
	s := &stream{gaps: func() { t.Error("it counts as a gap") }}
	must(t, d.Events(within(t), events.Position{}, FeedFilter{}, false, func(e FeedEvent) error { return s.event(&b, e) }))
	if !strings.Contains(b.String(), "event: unreadable\ndata: {\"from\":\"1.3.0\",\"to\":\"1.4.0\",\"error\":\"") || !strings.Contains(b.String(), "id: 1.4.0\n") {
		t.Error(b.String())
	}
}
