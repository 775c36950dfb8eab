package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// told is what a feed yields, in a line each.
func told(e FeedEvent) string {
	if e.Notice != "" {
		return fmt.Sprintf("%s %s %s", e.Notice, e.From, e.Position)
	}
	return fmt.Sprintf("%s %s %s", e.Position, e.Record().Event.Kind(), e.Tool)
}

func read(t *testing.T, d *Desk, from events.Position, f FeedFilter) []string {
	t.Helper()
	var out []string
	must(t, d.Events(within(t), from, f, false, func(e FeedEvent) error {
		out = append(out, told(e))
		return nil
	}))
	return out
}

func TestFeedNamesToolsFromAnywhere(t *testing.T) {
	d, log := newDesk(t)
	_, err := d.Submit(within(t), key1, echo(`{}`, `{}`))
	must(t, err)
	o := newOwner(t, log.View("node"))
	o.take()
	fresh := NewDesk(DeskConfig{Bus: log.View("other")}) // has not seen the submission
	got := read(t, fresh, events.Position{Generation: 1, Seq: 3}, FeedFilter{Kinds: []events.Kind{events.KindRequested}})
	if len(got) != 2 || !strings.HasSuffix(got[0], " requested echo") || !strings.HasSuffix(got[1], " requested echo") {
		t.Error(got)
	}
	got = read(t, fresh, events.Position{}, FeedFilter{Kinds: []events.Kind{events.KindTurnClaimed}})
	if diff := cmp.Diff([]string{"1.2.0 turn_claimed "}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFeedForgetsOldNames(t *testing.T) {
	var n names
	for i := range maxNamed + 10 {
		s := echo(`{}`)
		n.keep(events.TurnKey{Trace: "t", Turn: fmt.Sprint(i)}, &s)
	}
	if len(n.byKey) != maxNamed || len(n.order) != maxNamed {
		t.Errorf("%d names, %d in order", len(n.byKey), len(n.order))
	}
}

// aged is a log whose first commits are gone.
type aged struct {
	bus.Bus
	first uint64
}

func (a aged) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	return a.Bus.Read(ctx, from, f, follow, func(s bus.Stored) error {
		if s.Seq < a.first {
			return nil
		}
		return yield(s)
	})
}

func TestFeedAnnouncesWhatIsTooOld(t *testing.T) {
	d, _ := newDesk(t)
	for i := range 4 {
		_, err := d.Submit(within(t), events.TurnKey{Trace: "t", Turn: fmt.Sprint(i)}, echo(`{}`))
		must(t, err)
	}
	old := NewDesk(DeskConfig{Bus: aged{d.bus, 3}})
	want := []string{"gap 1.1.1 1.3.0", "1.3.0 turn_submitted ", "1.4.0 turn_submitted "}
	if diff := cmp.Diff(want, read(t, old, events.Position{Generation: 1, Seq: 1, Index: 1}, FeedFilter{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[1:], read(t, old, events.Position{}, FeedFilter{})); diff != "" {
		t.Errorf("from the beginning of what is left:\n%s", diff)
	}
}

func TestFeedOfAnotherLog(t *testing.T) {
	d, _ := newDesk(t)
	_, err := d.Submit(within(t), key1, echo(`{}`))
	must(t, err)
	want := []string{"rewound 0.0.0 0.0.0", "1.1.0 turn_submitted "}
	if diff := cmp.Diff(want, read(t, d, events.Position{Generation: 7, Seq: 9}, FeedFilter{})); diff != "" {
		t.Error(diff)
	}
	want = []string{"rewound 1.2.0 1.2.0"}
	if diff := cmp.Diff(want, read(t, d, events.Position{Generation: 1, Seq: 9}, FeedFilter{})); diff != "" {
		t.Error(diff)
	}
}

// number is an event at a place.
func number(n int) FeedEvent {
	return FeedEvent{Position: events.Position{Generation: 1, Seq: uint64(n)}, Stored: bus.Stored{
		Generation: 1, Seq: uint64(n), Commit: events.Commit{Records: []events.Record{{Event: &events.Progress{}}}},
	}}
}

func TestSpoolWaitsForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(4, 10*time.Second)
		done := make(chan error, 1)
		go func() {
			for i := range 100 {
				if err := s.put(t.Context(), number(i)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		next := 0
		for next < 100 {
			time.Sleep(9 * time.Second) // slow, and within the patience: of a fake clock
			for _, e := range s.take() {
				if e.Position.Seq != uint64(next) {
					t.Fatalf("%s, want %d", told(e), next)
				}
				next++
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestSpoolAnnouncesWhatAReaderMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(4, 10*time.Second)
		began := time.Now()
		for i := range 10 { // nobody reads
			if err := s.put(t.Context(), number(i)); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("it waited %v for a reader who does not come", waited)
		}
		var got []string
		for list := s.take(); len(list) > 0; list = s.take() {
			for _, e := range list {
				got = append(got, told(e))
			}
		}
		if err := s.put(t.Context(), number(10)); err != nil {
			t.Fatal(err)
		}
		got = append(got, told(s.take()[0]))
		want := []string{"1.0.0 progress ", "1.1.0 progress ", "1.2.0 progress ", "1.3.0 progress ", "gap 1.4.0 1.9.1", "1.10.0 progress "}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSpoolEndsWithItsContext(t *testing.T) {
	s := newSpool(1, 0)
	must(t, s.put(t.Context(), number(0)))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.put(ctx, number(1)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
