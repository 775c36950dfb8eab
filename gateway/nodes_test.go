package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// crewmate is a node of a test: it says what it is told to.
func crewmate(t *testing.T, d *Desk, s bus.Status, presence string) {
	t.Helper()
	if presence != "" {
		_, err := d.bus.Cells().Put(within(t), bus.BucketPresence, s.Boot, []byte(presence), 0, 0)
		must(t, err)
	}
	if s.Room == 0 {
		return // it does not answer
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.bus.Serve(ctx, s.Boot, func(note []byte) []byte { // it ends with ctx
			if _, ok := bus.ParseWho(note); !ok {
				return nil
			}
			s := s
			s.Now = time.Now()
			if s.Machine.IsZero() {
				s.Machine = time.Now()
			}
			b, err := json.Marshal(s)
			if err != nil {
				return nil
			}
			return b
		})
	}()
	t.Cleanup(func() { stop(); <-done })
	for within := within(t); ; { // until it serves
		if _, err := d.bus.Ask(within, s.Boot, bus.Who{}.Encode()); !errors.Is(err, bus.ErrUnavailable) {
			return
		}
		pause(within, time.Millisecond)
	}
}

// TestCrew: who is there, as presence and they themselves say.
func TestCrew(t *testing.T) {
	d, _ := newDesk(t)
	like := bus.Status{Room: 8, Placements: []string{"default"}, AckWaitMS: 15_000, PresenceMS: 3_000, KeysMS: 1, Failures: 3, WindowMS: 300_000}
	as := func(boot string, change func(*bus.Status)) bus.Status {
		s := like
		s.Boot, s.Name = boot, "name of "+boot
		if change != nil {
			change(&s)
		}
		return s
	}
	crewmate(t, d, as("live", nil), `{"name":"x"}`)
	crewmate(t, d, as("drains", func(s *bus.Status) {
		s.Draining, s.Policy, s.Limits = true, "p1", "none"
		s.PolicySince, s.LimitsSince = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC), time.Unix(1, 0) // since when does not make them differ
	}), `{"name":"x"}`)
	crewmate(t, d, as("late", func(s *bus.Status) { s.Machine = time.Now().Add(time.Hour) }), `{}`)
	crewmate(t, d, as("other", func(s *bus.Status) { s.AckWaitMS, s.PresenceMS, s.Policy, s.Limits = 2_000, 0, "p2", "none" }), `not JSON`)
	crewmate(t, d, bus.Status{Boot: "silent"}, `{"name":"dead or deaf"}`)
	crewmate(t, d, bus.Status{Boot: "drained"}, `{"name":"gone home","draining":true}`)
	c, err := d.Crew(within(t), CrewOptions{})
	must(t, err)
	states := map[string]string{}
	for _, n := range c.Nodes {
		states[n.Boot] = n.State
		if n.Says != nil && n.Name != "name of "+n.Boot || n.Boot == "silent" && n.Name != "dead or deaf" {
			t.Errorf("%s is named %q", n.Boot, n.Name)
		}
	}
	want := map[string]string{"live": NodeLive, "drains": NodeDraining, "late": NodeLive, "other": NodeLive, "silent": NodeSilent, "drained": NodeDrained}
	if len(states) != len(want) {
		t.Errorf("%v", states)
	}
	for boot, state := range want {
		if states[boot] != state {
			t.Errorf("%s is %s, want %s", boot, states[boot], state)
		}
	}
	if c.Running != nil || c.Turns != nil {
		t.Errorf("nobody asked for turns: %+v", c)
	}
	warned := strings.Join(c.Warnings, "\n")
	for _, part := range []string{
		"differ in ack-wait (", "name of other: 2s", "name of live: 15s", "differ in presence (", "name of other: off",
		"differ in policy (name of other: p2, name of drains: p1 since 2026-11-30T10:00:00Z)",
		"the machine of node name of late has a clock that is ", "node dead or deaf (silent) does not answer",
	} {
		if !strings.Contains(warned, part) {
			t.Errorf("no warning of %q in\n%s", part, warned)
		}
	}
	if strings.Contains(warned, "key-retention") || strings.Contains(warned, "limits") || strings.Contains(warned, "name of late goes by") {
		t.Errorf("warned of what is well:\n%s", warned)
	}
}

// TestCrewCountsTheLog: what has not ended, and whose it is.
func TestCrewCountsTheLog(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	crewmate(t, d, bus.Status{Boot: "boot1", Name: "one", Room: 1, Placements: []string{"default"}}, `{}`)
	submit := func(turn, placement string) events.TurnKey {
		s := echo(`{"v":1}`, `{"v":2}`)
		s.Placement = placement
		ticket, err := d.Submit(within(t), events.TurnKey{Trace: "tr", Turn: turn}, s)
		must(t, err)
		return ticket.Key
	}
	submit("ended", "")
	o.take()
	o.finish("x")
	submit("runs", "")
	o.take()
	o.judge(0, events.Readonly)
	o.start(0)
	submit("parked", "")
	o.take()
	o.judge(0, events.Approval)
	o.judge(1, events.Approval)
	o.do(lifecycle.Park{})
	o.boot = "lost"
	submit("orphan", "")
	o.take()
	submit("waits", "")
	submit("far", "far")
	c, err := d.Crew(within(t), CrewOptions{Turns: true})
	must(t, err)
	if c.Running.Turns != 1 || c.Parked.Turns != 1 || c.Gone.Turns != 1 || c.Unclaimed.Turns != 2 || c.Unclaimed.Oldest.IsZero() {
		t.Errorf("running %+v, parked %+v, gone %+v, unclaimed %+v", c.Running, c.Parked, c.Gone, c.Unclaimed)
	}
	states := map[string]string{}
	for _, s := range c.Turns {
		states[strings.TrimPrefix(s.Turn, "tr/")] = s.State
		if s.Turn == "tr/runs" && (!slices.Equal(s.Running, []int{0}) || s.Boot != "boot1" || s.Epoch != 1 || s.Calls != 2 || s.Ended != 0) {
			t.Errorf("%+v", s)
		}
	}
	want := map[string]string{"runs": TurnRunning, "parked": TurnParked, "orphan": TurnGone, "waits": TurnUnclaimed, "far": TurnUnclaimed}
	for turn, state := range want {
		if states[turn] != state {
			t.Errorf("%s is %s, want %s", turn, states[turn], state)
		}
	}
	if len(states) != len(want) || c.Turns[0].Turn != "tr/runs" {
		t.Errorf("%v", c.Turns)
	}
	if i := slices.IndexFunc(c.Nodes, func(n NodeView) bool { return n.Boot == "lost" }); i < 0 || c.Nodes[i].State != NodeGone || c.Nodes[i].Owned != 1 {
		t.Errorf("nodes %+v", c.Nodes)
	}
	if len(c.Waiting) != 2 || c.Waiting[0].Served != true || c.Waiting[1].Served || c.Waiting[1].Placement != "far" || c.Waiting[1].Turns != 1 {
		t.Errorf("waiting %+v", c.Waiting)
	}
	warned := strings.Join(c.Warnings, "\n")
	if !strings.Contains(warned, "1 turns are owned by nodes that are gone") || !strings.Contains(warned, "serves placement far, and 1 turns wait") || strings.Contains(warned, "placement default") {
		t.Errorf("%s", warned)
	}
}

// TestCrewGoesOn: what came since is folded on top of what was read before.
func TestCrewGoesOn(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	_, err := d.Submit(within(t), key1, echo(`{"v":1}`, `{"v":2}`))
	must(t, err)
	o.take()
	o.judge(0, events.Readonly)
	o.start(0)
	c, err := d.Crew(within(t), CrewOptions{Turns: true})
	must(t, err)
	if s := c.Turns[0]; !slices.Equal(s.Running, []int{0}) || s.Ended != 0 {
		t.Errorf("%+v", s)
	}
	o.settle(0, "x")
	o.judge(1, events.Readonly)
	o.start(1)
	c, err = d.Crew(within(t), CrewOptions{Turns: true})
	must(t, err)
	if s := c.Turns[0]; !slices.Equal(s.Running, []int{1}) || s.Ended != 1 {
		t.Errorf("%+v", s)
	}
	o.settle(1, "x")
	if c, err = d.Crew(within(t), CrewOptions{Log: true}); err != nil || c.Gone.Turns+c.Running.Turns != 0 || c.Turns != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestStandingOfALogThatWentBack: turns that the log has lost are not counted any more.
func TestStandingOfALogThatWentBack(t *testing.T) {
	before, _ := newDesk(t)
	for _, turn := range []string{"a", "b", "c"} {
		_, err := before.Submit(within(t), events.TurnKey{Trace: "tr", Turn: turn}, echo(`{}`))
		must(t, err)
	}
	after, _ := newDesk(t)
	_, err := after.Submit(within(t), events.TurnKey{Trace: "tr", Turn: "a"}, echo(`{}`))
	must(t, err)
	var st standing
	for _, c := range []struct {
		log  bus.Bus
		want int
	}{{before.bus, 3}, {before.bus, 3}, {after.bus, 1}} {
		got := 0
		must(t, st.read(within(t), c.log, func(events.TurnKey, openTurn) { got++ }))
		if got != c.want {
			t.Errorf("%d turns, want %d", got, c.want)
		}
	}
}
