package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// spoken is a log that can be read while it is written.
type spoken struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *spoken) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// asked asks a boot until somebody serves it.
func asked(t *testing.T, b bus.Bus, boot string, w bus.Who) bus.Status {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	for {
		note, err := b.Ask(ctx, boot, w.Encode())
		if err == nil {
			s, ok := bus.ParseStatus(note)
			if !ok {
				t.Fatalf("it says %s", note)
			}
			return s
		}
		if !errors.Is(err, bus.ErrUnavailable) || !pause(ctx, time.Millisecond) {
			t.Fatal(err)
		}
	}
}

// TestANodeSaysWhoItIs, what it is set to, and what it has in memory.
func TestANodeSaysWhoItIs(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	boot := ulid.Make().String()
	var log spoken
	holds := testTool("holds", events.Readonly, func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
		<-ctx.Done()
		return events.Result{}, ctx.Err()
	})
	testNode(t, b, func(c *Config) {
		c.Boot, c.Name, c.Version, c.Placements, c.Room, c.Drain = boot, "one", "v1", []string{"x", "default"}, 7, time.Millisecond
		c.Heartbeat, c.Presence, c.Keys = 4*time.Second, 2*time.Second, time.Hour
		c.Breaker = lifecycle.BreakerConfig{Failures: 9, Window: time.Minute}
		c.Setup = func() bus.Setup { return bus.Setup{Policy: "v7", Limits: "none"} }
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	}, holds)
	key := submit(t, b, events.TurnSubmitted{Calls: calls("holds", "holds")})
	until(t, b, key, "both run", func(turn lifecycle.Turn) bool {
		return !slices.ContainsFunc(turn.Calls, func(c *lifecycle.Call) bool { return c.Phase != lifecycle.PhaseStarted }) && len(turn.Calls) == 2
	})
	var s bus.Status
	for len(s.Running) < 2 { // the log says so first
		s = asked(t, b, boot, bus.Who{Turns: true})
	}
	want := bus.Status{
		Boot: boot, Name: "one", Version: "v1", Placements: []string{"x", "default"}, Room: 7, Turns: 1, Attempts: 2,
		AckWaitMS: 12_000, PresenceMS: 2_000, KeysMS: 3_600_000, Failures: 9, WindowMS: 60_000, Setup: bus.Setup{Policy: "v7", Limits: "none"},
	}
	if s.Boot != want.Boot || s.Name != want.Name || s.Version != want.Version || !slices.Equal(s.Placements, want.Placements) || s.Room != want.Room ||
		s.Turns != want.Turns || s.Attempts != want.Attempts || s.AckWaitMS != want.AckWaitMS || s.PresenceMS != want.PresenceMS ||
		s.KeysMS != want.KeysMS || s.Failures != want.Failures || s.WindowMS != want.WindowMS || s.Setup != want.Setup || s.Draining {
		t.Errorf("it says %+v\nwant %+v", s, want)
	}
	if !slices.Equal(s.InMemory, []string{key.String()}) || !slices.Equal(s.Running, []bus.Running{{Call: key.Call(0).String(), Attempt: 1}, {Call: key.Call(1).String(), Attempt: 1}}) {
		t.Errorf("in memory %v, running %v", s.InMemory, s.Running)
	}
	if s.Since.IsZero() || time.Since(s.Since) > time.Minute || time.Since(s.Now) > time.Minute {
		t.Errorf("since %v, now %v", s.Since, s.Now)
	}
	if s := asked(t, b, boot, bus.Who{}); len(s.InMemory)+len(s.Running) > 0 || s.Turns != 1 {
		t.Errorf("without being asked for its turns it says %+v", s)
	}
	if strings.Contains(log.String(), "ack-wait") {
		t.Errorf("nobody was said to be set otherwise: %s", log.String())
	}
	asked(t, b, boot, bus.Who{Name: "two\x1b", AckWaitMS: 15_000})
	if said := log.String(); !strings.Contains(said, "another ack-wait") || !strings.Contains(said, "its=15s own=12s") || strings.Contains(said, "\x1b") {
		t.Errorf("of a node that is set otherwise it says %s", said)
	}
}

// TestPresenceOff: there is no cell, nobody is mourned, and a drained node still says
// that it has drained.
func TestPresenceOff(t *testing.T) {
	l := memlog.New(memlog.Config{})
	b := l.View("a")
	n := testNode(t, b, func(c *Config) { c.Boot, c.Presence = "off", -1 }, testTool("echo", events.Readonly, echo))
	ran(t, b, events.TurnSubmitted{Calls: calls("echo")})
	if s := asked(t, b, "off", bus.Who{}); s.PresenceMS != 0 {
		t.Errorf("it says %+v", s)
	}
	if cell, err := b.Cells().Get(t.Context(), bus.BucketPresence, "off"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("its presence is %s, %v", cell.Value, err)
	}
	if n.gone("nobody") {
		t.Error("it believes somebody dead, and cannot know")
	}
	stopNode(t, n)
	cell, err := b.Cells().Get(t.Context(), bus.BucketPresence, "off")
	if err != nil || !strings.Contains(string(cell.Value), `"draining":true`) {
		t.Errorf("once it has drained its presence is %s, %v", cell.Value, err)
	}
}

// TestAToolThatIsSwitchedOff is denied with an operator's words.
func TestAToolThatIsSwitchedOff(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	n := testNode(t, b, nil, testTool("echo", events.Readonly, echo))
	now := time.Now().UTC()
	off, err := json.Marshal(lifecycle.Breaker{}.Hold(now, now.Add(time.Hour), "ann", "it lies"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cells().Put(t.Context(), bus.BucketBreaker, BreakerCell(own("echo")), off, 0, 0); err != nil {
		t.Fatal(err)
	}
	for ctx := t.Context(); n.breaks.closed(own("echo")); { // until its watch has seen it
		if !pause(ctx, time.Millisecond) {
			t.Fatal("it never hears of it")
		}
	}
	denied, ok := ran(t, b, events.TurnSubmitted{Calls: calls("echo")}).Calls[0].Terminal.(*events.Denied)
	if !ok || denied.Code != events.CircuitOpen || !strings.Contains(denied.Reason, "switched off by an operator") || !strings.Contains(denied.Reason, "it lies") || strings.Contains(denied.Reason, "failed") {
		t.Errorf("%+v", denied)
	}
}
