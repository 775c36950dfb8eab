package bustest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

var livePromises = []Promise{
	{"P80 each event is told live by itself, as a CloudEvent on its subject", liveTells},
	{"P81 a listener hears what its pattern matches, until it goes", liveListens},
	{"P82 a boot that is served answers", notesAnswer},
	{"P83 a boot that nobody serves is unavailable", notesNobody},
}

type heard struct {
	subject string
	body    []byte
}

// listen runs a listener and returns once it hears: probe is told again and
// again until then. What it hears of other turns is left out.
func listen(t *testing.T, b bus.Bus, pattern string, turn events.TurnKey) (<-chan heard, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	all := make(chan heard, 1024)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Listen(ctx, pattern, func(subject string, body []byte) {
			select {
			case all <- heard{subject, bytes.Clone(body)}:
			default:
			}
		})
	}()
	probe := mustAppend(t, b, newTurn(), 0, 1)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for hears := false; !hears; {
		must(t, "publish", b.Publish(within(t), probe, map[int]string{0: "probe"}))
		select {
		case <-all:
			hears = true
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the listener hears nothing")
		}
	}
	if !b.Wanted(probe, map[int]string{0: "probe"}) {
		t.Error("what somebody listens to is said not to be wanted")
	}
	ours := make(chan heard, 1024)
	go func() {
		for {
			select {
			case h := <-all:
				if strings.Contains(h.subject, "."+turn.Trace+"."+turn.Turn+".") {
					ours <- h
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ours, func() error {
		cancel()
		return <-ended
	}
}

// four is a commit of a call event with a tool, one without, a turn event, and an end that
// leaves open what its call has done.
func four(t *testing.T, b bus.Bus) bus.Stored {
	t.Helper()
	c := newCommit(newTurn(), 1, 2)
	c.Records = append(c.Records, events.Record{Call: events.TurnEvent, Seq: 1, Event: &events.TurnParked{}},
		events.Record{Call: 0, Seq: 2, Event: &events.Failed{Outcome: events.Outcome{Effects: events.EffectsPossible}}})
	s, err := b.Append(within(t), c, 0)
	must(t, "append", err)
	must(t, "barrier", b.Barrier().Wait(within(t)))
	return s
}

func liveTells(t *testing.T, b bus.Bus) {
	s := four(t, b)
	turn := s.Commit.Turn
	seen, stop := listen(t, b, ">", turn)
	must(t, "publish", b.Publish(within(t), s, map[int]string{0: "read.file"}))
	want := []string{
		bus.LiveSubject(events.KindProgress, "read.file", turn, 0),
		bus.LiveSubject(events.KindProgress, "", turn, 1),
		bus.LiveSubject(events.KindTurnParked, "", turn, events.TurnEvent),
		bus.LiveSubject(events.KindFailed, "read.file", turn, 0),
		bus.LiveSubject(bus.LiveUnresolved, "read.file", turn, 0), // the same event
	}
	var got []string
	ids := map[string]bool{}
	for range want {
		select {
		case h := <-seen:
			got = append(got, h.subject)
			ids[cloudEvent(t, h.body)] = true
		case <-within(t).Done():
			t.Fatalf("heard only %v", got)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the subjects differ:\n%s", diff)
	}
	if events := len(want) - 1; len(ids) != events {
		t.Errorf("%d ids for %d events", len(ids), events)
	}
	wantIs(t, "a listener that was told to stop", stop(), context.Canceled)
}

// cloudEvent checks what every CloudEvent has, and returns its id.
func cloudEvent(t *testing.T, body []byte) string {
	t.Helper()
	var ce struct {
		SpecVersion, ID, Source, Type, Time string
		Data                                json.RawMessage
	}
	if err := json.Unmarshal(body, &ce); err != nil {
		t.Fatalf("no JSON: %v: %s", err, body)
	}
	if ce.SpecVersion != "1.0" || ce.ID == "" || ce.Source == "" || ce.Type == "" || len(ce.Data) == 0 {
		t.Errorf("no CloudEvent: %s", body)
	}
	if _, err := time.Parse(time.RFC3339Nano, ce.Time); err != nil {
		t.Errorf("its time: %v", err)
	}
	return ce.ID
}

func liveListens(t *testing.T, b bus.Bus) {
	s := four(t, b)
	turn := s.Commit.Turn
	seen, stop := listen(t, b, string(events.KindProgress)+".*."+">", turn)
	must(t, "publish", b.Publish(within(t), s, nil))
	last := bus.LiveSubject(events.KindProgress, "", turn, 1)
	for {
		var h heard
		select {
		case h = <-seen:
		case <-within(t).Done():
			t.Fatal("heard too little")
		}
		if !strings.HasPrefix(h.subject, bus.LivePrefix+string(events.KindProgress)+".") {
			t.Errorf("heard %s", h.subject)
		}
		if h.subject == last {
			break
		}
	}
	wantIs(t, "a listener that was told to stop", stop(), context.Canceled)
	must(t, "publish to nobody", b.Publish(within(t), s, nil))
}

// serve answers for a boot, and returns once it is asked.
func serve(t *testing.T, b bus.Bus, boot string, answer func([]byte) []byte) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx, boot, answer) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := b.Ask(lasting(t, 5*time.Second), boot, []byte("?")); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("nobody answers")
		}
		<-tick.C
	}
	return func() error {
		cancel()
		return <-ended
	}
}

func notesAnswer(t *testing.T, b bus.Bus) {
	one, two := "boot-"+rand.Text(), "boot-"+rand.Text()
	stopOne := serve(t, b, one, func(q []byte) []byte { return append([]byte("one:"), q...) })
	stopTwo := serve(t, b, two, func(q []byte) []byte { return append([]byte("two:"), q...) })
	for boot, want := range map[string]string{one: "one:mine?", two: "two:mine?"} {
		got, err := b.Ask(within(t), boot, []byte("mine?"))
		must(t, "ask", err)
		if string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	wantIs(t, "a server that was told to stop", stopOne(), context.Canceled)
	wantIs(t, "a server that was told to stop", stopTwo(), context.Canceled)
}

func notesNobody(t *testing.T, b bus.Bus) {
	boot := "boot-" + rand.Text()
	_, err := b.Ask(within(t), boot, []byte("mine?"))
	wantIs(t, "ask of nobody", err, bus.ErrUnavailable)
	stop := serve(t, b, boot, func(q []byte) []byte { return q })
	if err := stop(); err == nil {
		t.Error("a server that was told to stop returns no error")
	}
	_, err = b.Ask(within(t), boot, []byte("mine?"))
	wantIs(t, "ask of one that has gone", err, bus.ErrUnavailable)
}
