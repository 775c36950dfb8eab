package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// stage is a node's Roster, and a bus where workers can sit, by a virtual clock.
type stage struct {
	t    *testing.T
	log  *memlog.Log
	view *memlog.View
	reg  *tools.Registry
	r    *Roster
}

// staged runs a test on a stage.
func staged(t *testing.T, c Config, test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, log: memlog.New(memlog.Config{}), reg: &tools.Registry{}}
		s.view = s.log.View("node")
		if err := s.reg.Add(local("Bash")); err != nil {
			t.Fatal(err)
		}
		if d, ok := c.Workers.(*dropping); ok {
			d.Workers = s.view
		} else {
			c.Workers = s.view
		}
		c.Registry, c.Boot = s.reg, "boot-1"
		var err error
		if s.r, err = New(c); err != nil {
			t.Fatal(err)
		}
		if err := s.r.Start(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		defer s.r.Stop()
		test(s)
	})
}

// dropping are workers whose ends come faster than they are heard.
type dropping struct{ bus.Workers }

// OpenJob is bus.Workers'.
func (d dropping) OpenJob(ctx context.Context, boot string) (bus.Job, error) {
	j, err := d.Workers.OpenJob(ctx, boot)
	return droppingJob{j}, err
}

type droppingJob struct{ bus.Job }

// Hear is bus.Job's.
func (j droppingJob) Hear(ctx context.Context) (bus.Said, error) {
	for {
		s, err := j.Job.Hear(ctx)
		s.Missed = 1
		if err != nil || !contains(string(s.Body), `"type":"result"`) {
			return s, err
		}
	}
}

// local is a tool of the node's own.
func local(name string) tools.Tool {
	return tools.Tool{
		Spec: tools.Spec{Name: name, Schema: json.RawMessage(`{"type":"object"}`)},
		Run:  func(context.Context, tools.Invocation) (events.Result, error) { return events.Result{}, nil },
	}
}

// definition is one of a tool of that tier.
func definition(tier events.Tier) wire.Definition {
	return wire.Definition{Description: "saws", Schema: json.RawMessage(`{"type":"object"}`), Tier: tier}
}

// hand is a worker that a test moves.
type hand struct {
	t    *testing.T
	name string
	seat bus.Seat
	told chan map[string]any                              // what it is told that is of no attempt
	does func(h *hand, heard bus.Heard, m map[string]any) // nil: nothing
	last atomic.Value                                     // why it was last asked for an end, a string
	stop context.CancelFunc
	over chan struct{}
}

// sit makes a worker; does is called with all that it hears of attempts.
func (s *stage) sit(instance string, does func(h *hand, heard bus.Heard, m map[string]any), names ...string) *hand {
	s.t.Helper()
	view := s.log.View(instance)
	seat, err := view.Seat(s.t.Context(), bus.Worker{User: "w", Instance: instance}, names...)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	h := &hand{t: s.t, name: "w." + instance, seat: seat, told: make(chan map[string]any, 256), does: does, stop: stop, over: make(chan struct{})}
	go h.run(ctx)
	s.t.Cleanup(h.leave)
	return h
}

func (h *hand) run(ctx context.Context) {
	defer close(h.over)
	for {
		heard, err := h.seat.Hear(ctx)
		if err != nil {
			return
		}
		var m map[string]any
		if err := json.Unmarshal(heard.Body, &m); err != nil {
			h.t.Errorf("the node says %q", heard.Body)
		}
		if kind := m["type"]; kind == wire.TypeTold || kind == wire.TypeDescribe {
			select {
			case h.told <- m:
			default:
			}
			continue
		}
		if m["type"] == wire.TypeCancel {
			h.last.Store(fmt.Sprint(m["why"]))
		}
		if h.does != nil {
			h.does(h, heard, m)
		}
	}
}

// leave ends a worker, as a kill does.
func (h *hand) leave() {
	h.stop()
	<-h.over
	h.seat.Close()
}

// here announces a tool.
func (h *hand) here(tool string, d wire.Definition) { h.announce(tool, wire.Here{Tool: &d}) }

func (h *hand) announce(tool string, m wire.Here) {
	h.t.Helper()
	m.V = wire.Version
	if m.Type == "" {
		m.Type = wire.TypeHere
	}
	h.say(func(b []byte) error { return h.seat.Announce(tool, b) }, m)
}

func (h *hand) say(how func([]byte) error, v any) {
	h.t.Helper()
	body, err := wire.Encode(v)
	if err == nil {
		err = how(body)
	}
	if err != nil {
		h.t.Errorf("a worker cannot speak: %v", err)
	}
}

func (h *hand) answer(reply string, v any) {
	h.t.Helper()
	h.say(func(b []byte) error { return h.seat.Answer(reply, b) }, v)
}

// accept takes an offer.
func (h *hand) accept(heard bus.Heard) {
	h.answer(heard.Reply, wire.Take{V: wire.Version, Type: wire.TypeAccept, Worker: h.name})
}

// refuse does not.
func (h *hand) refuse(heard bus.Heard, why string) {
	h.answer(heard.Reply, wire.Take{V: wire.Version, Type: wire.TypeRefuse, Worker: h.name, Why: why})
}

// ended says how an attempt ended.
func (h *hand) ended(heard bus.Heard, m map[string]any, a wire.Answer) {
	a.V, a.ID, a.Worker = wire.Version, m["id"].(string), h.name
	if a.Seq == 0 {
		a.Seq = 1
	}
	h.answer(heard.Reply, a)
}

func text(s string) wire.Answer {
	return wire.Answer{Type: wire.TypeResult, Result: &wire.Result{Text: s}}
}

// good is a worker that keeps to the contract, and answers with what it is asked.
func good(h *hand, heard bus.Heard, m map[string]any) {
	switch m["type"] {
	case wire.TypeOffer:
		h.accept(heard)
	case wire.TypeGo:
		work := m["work"].(map[string]any)
		h.ended(heard, m, text(fmt.Sprintf("%s %v attempt %v", h.name, work["call"], work["attempt"])))
	}
}

// there waits until the registry has a tool, or has not.
func (s *stage) there(name string, want bool) tools.Tool {
	s.t.Helper()
	synctest.Wait()
	t, ok := s.reg.Lookup(name)
	if ok != want {
		s.t.Fatalf("%s is there: %t, want %t", name, ok, want)
	}
	return t
}

// call runs an attempt of a tool as a node does.
func (s *stage) call(ctx context.Context, name string, o tools.Options) tools.Report {
	s.t.Helper()
	return tools.Execute(ctx, s.there(name, true), tools.Invocation{
		Call: events.CallKey{Trace: "tr", Turn: "tu", Offset: 2}, Attempt: 1, Tool: name, Args: json.RawMessage(`{"n":1.50}`), Key: "k",
	}, o)
}

// is fails unless an attempt ended so.
func is(t *testing.T, r tools.Report, class events.Class, effects events.Effects, part string) {
	t.Helper()
	words := r.Result.Text.Text
	if r.Result.Error != nil {
		words += " " + r.Result.Error.Message
	}
	if r.Class != class || r.Effects != effects || !contains(words, part) {
		t.Errorf("the attempt ended %s with effects %s: %q; want %s, %s, %q", r.Class, r.Effects, words, class, effects, part)
	}
}

func contains(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		if s[i:i+len(part)] == part {
			return true
		}
	}
	return false
}

// took is how long something took by the virtual clock.
func took(f func()) time.Duration {
	from := time.Now()
	f()
	return time.Since(from)
}

// pass lets the virtual clock go on.
func pass(d time.Duration) { <-time.After(d) }
