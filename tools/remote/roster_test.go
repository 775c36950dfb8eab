package remote

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// lastTold is the last thing that a worker was told of its definition.
func lastTold(h *hand) string {
	synctest.Wait()
	said := ""
	for {
		select {
		case m := <-h.told:
			if m["type"] == wire.TypeTold {
				said = fmt.Sprint(m["status"], " ", m["why"])
			}
		default:
			return said
		}
	}
}

// TestTheFirstDefinitionStands while somebody serves it, and the next one's turn comes then.
func TestTheFirstDefinitionStands(t *testing.T) {
	staged(t, declared, func(s *stage) {
		a, b, c := s.sit("a", good, "saw"), s.sit("b", good, "saw"), s.sit("c", good, "saw")
		other := definition(events.Readonly)
		other.Description = "saws better"
		a.here("saw", definition(events.Readonly))
		was := s.there("saw", true).Version
		b.here("saw", other)
		c.here("saw", other)
		if told := lastTold(a); !strings.HasPrefix(told, wire.StatusServing) {
			t.Errorf("the first was told %q", told)
		}
		if told := lastTold(b); !strings.HasPrefix(told, wire.StatusRefused) || !strings.Contains(told, was) {
			t.Errorf("the second was told %q", told)
		}
		a.announce("saw", wire.Here{Type: wire.TypeGone})
		a.leave()
		if told := lastTold(b); !strings.HasPrefix(told, wire.StatusServing) {
			t.Errorf("the second was told %q, once the first had left", told)
		}
		if tool := s.there("saw", true); tool.Version == was || tool.Description != "saws better" {
			t.Errorf("the tool is %+v", tool.Spec)
		}
		is(t, s.call(s.t.Context(), "saw", tools.Options{}), events.ClassOK, events.EffectsNone, "attempt 1")
	})
}

// TestTheOldestStands where a node meets several at once.
func TestTheOldestStands(t *testing.T) {
	staged(t, declared, func(s *stage) {
		now := time.Now()
		s.r.mu.Lock() // both are there before either is looked at
		p := &post{name: "saw", seats: map[bus.Worker]*seat{}}
		for i, since := range []time.Time{now.Add(-time.Hour), now.Add(-3 * time.Hour), now.Add(-2 * time.Hour), {}} {
			d := definition(events.Readonly)
			d.Version = fmt.Sprint(i)
			p.seats[bus.Worker{User: "w", Instance: fmt.Sprint(i)}] = &seat{def: d, digest: d.Digest(), here: wire.Here{Since: since}, first: now, heard: now}
		}
		s.r.posts["saw"] = p
		s.r.settle(p, now)
		s.r.mu.Unlock()
		if v := s.r.View().Tools[0]; v.Version != "1" {
			t.Errorf("version %s stands", v.Version)
		}
	})
}

// TestWorkersAgeAway: who is silent is gone, and so is, a while later, what nobody serves.
func TestWorkersAgeAway(t *testing.T) {
	staged(t, declared, func(s *stage) {
		h := s.sit("a", good, "saw")
		h.here("saw", definition(events.Readonly))
		s.there("saw", true)
		for range 20 {
			pass(2 * time.Second)
			h.announce("saw", wire.Here{Running: 3, Room: 7, About: "a hand\x1b[31m", Revision: ""})
		}
		v := s.r.View().Tools[0]
		if len(v.Workers) != 1 || v.Workers[0].Running != 3 || v.Workers[0].Room != 7 || v.Status != wire.StatusServing {
			t.Errorf("the view is %+v", v)
		}
		if st := v.Workers[0].Status; st != wire.StatusServing {
			t.Errorf("it is %s", st)
		}
		var seen []string
		gone := took(func() {
			for ws := s.r.View().Tools[0].Workers; len(ws) > 0; ws = s.r.View().Tools[0].Workers {
				if len(seen) == 0 || seen[len(seen)-1] != ws[0].Status {
					seen = append(seen, ws[0].Status)
				}
				pass(time.Second)
			}
		})
		if fmt.Sprint(seen) != "[serving silent]" {
			t.Errorf("a worker that dies is %v", seen)
		}
		s.there("saw", true)
		away := gone + took(func() {
			for len(s.r.View().Tools) > 0 {
				pass(time.Second)
			}
		})
		s.there("saw", false)
		if gone < 14*time.Second || gone > 18*time.Second || away < 29*time.Second || away > 34*time.Second {
			t.Errorf("the worker was gone after %v, its tool after %v", gone, away)
		}
	})
}

// TestWhoIsNotKnownIsAsked: an announcement without a definition that is not known here, or
// of another revision, has the worker describe itself.
func TestWhoIsNotKnownIsAsked(t *testing.T) {
	staged(t, declared, func(s *stage) {
		h := s.sit("a", good, "saw")
		asked := func() (n int) {
			synctest.Wait()
			for {
				select {
				case m := <-h.told:
					if m["type"] == wire.TypeDescribe {
						n++
					}
				default:
					return n
				}
			}
		}
		for range 5 {
			h.announce("saw", wire.Here{Revision: "1"})
		}
		if n := asked(); n != 1 {
			t.Errorf("it was asked %d times in a moment", n)
		}
		s.there("saw", false)
		d := definition(events.Readonly)
		h.announce("saw", wire.Here{Revision: "1", Tool: &d})
		pass(2 * time.Second)
		h.announce("saw", wire.Here{Revision: "1"})
		if n := asked(); n != 0 {
			t.Error("it was asked for what is known")
		}
		h.announce("saw", wire.Here{Revision: "2"})
		if n := asked(); n != 1 {
			t.Error("it was not asked for what has changed")
		}
	})
}

// TestKnownToolsWaitForTheirWorkers: after a restart they are there before their workers,
// and each change of what stands is kept.
func TestKnownToolsWaitForTheirWorkers(t *testing.T) {
	var kept [][]Known
	c := declared
	c.Known = []Known{
		{"saw", definition(events.Readonly)}, {"__evil", definition(events.Readonly)}, {"broken", wire.Definition{}}, {"Bash", definition(events.Readonly)},
	}
	c.Keep = func(list []Known) { kept = append(kept, slices.Clone(list)) }
	staged(t, c, func(s *stage) {
		s.there("saw", true)
		if v := s.r.View(); len(v.Tools) != 2 || v.Tools[1].Status != "waiting" || v.Tools[0].Status != wire.StatusRefused {
			t.Errorf("the view is %+v", v)
		}
		end := make(chan tools.Report)
		go func() { end <- s.call(s.t.Context(), "saw", tools.Options{}) }()
		pass(2 * time.Second)
		s.sit("a", good, "saw").here("saw", definition(events.Readonly))
		is(t, <-end, events.ClassOK, events.EffectsNone, "attempt 1")
		pass(time.Minute)
		s.there("saw", false)
	})
	if len(kept) < 2 || len(kept[0]) != 2 || len(kept[len(kept)-1]) != 0 {
		t.Errorf("what was kept: %+v", kept)
	}
}

// TestARefusedNameIsHadOnceItIsFree: a worker whose name is taken gets it when it is not.
func TestARefusedNameIsHadOnceItIsFree(t *testing.T) {
	staged(t, declared, func(s *stage) {
		if err := s.reg.Provide("elsewhere", []tools.Tool{local("saw")}); err != nil {
			t.Fatal(err)
		}
		h := s.sit("a", good, "saw")
		h.here("saw", definition(events.Readonly))
		if told := lastTold(h); !strings.HasPrefix(told, wire.StatusRefused) || !strings.Contains(told, "elsewhere") {
			t.Errorf("it was told %q", told)
		}
		if err := s.reg.Provide("elsewhere", nil); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		h.here("saw", definition(events.Readonly))
		if told := lastTold(h); !strings.HasPrefix(told, wire.StatusServing) || s.reg.Source("saw") != Source {
			t.Errorf("it was told %q", told)
		}
	})
}

// TestAnnouncementsAreBounded: a flood of names and workers is not remembered.
func TestAnnouncementsAreBounded(t *testing.T) {
	staged(t, declared, func(s *stage) {
		for i := range maxSeats + 100 {
			s.r.hear(bus.Announcement{Tool: "saw", Worker: bus.Worker{User: "w", Instance: fmt.Sprint(i)}, Body: []byte(`{"v":1,"type":"here","tool":{"schema":{}}}`)})
		}
		for i := range maxPosts + 100 {
			s.r.hear(bus.Announcement{Tool: fmt.Sprint("t", i), Worker: bus.Worker{User: "w", Instance: "a"}, Body: []byte(`[`)})
		}
		v := s.r.View()
		if len(v.Tools) > maxPosts {
			t.Errorf("%d tools are known", len(v.Tools))
		}
		for _, one := range v.Tools {
			if len(one.Workers) > maxSeats {
				t.Errorf("%d workers of %s are known", len(one.Workers), one.Tool)
			}
		}
	})
}

// TestTrust: an operator's word makes a tool's tier, and a worker's own can only make it
// stricter, but where the operator believes it.
func TestTrust(t *testing.T) {
	const ro, rev, irr, app = events.Readonly, events.Reversible, events.Irreversible, events.Approval
	said := Trust{Tools: map[string]events.Tier{"r": ro, "v": rev, "i": irr, "a": app, "d": Declare}}
	for _, c := range []struct {
		trust    Trust
		tool     string
		declared events.Tier
		want     events.Tier
		believed bool
	}{
		{Trust{}, "x", ro, irr, false},
		{Trust{}, "x", "", irr, false},
		{Trust{}, "x", app, app, false},
		{Trust{Declared: true}, "x", ro, ro, true},
		{Trust{Declared: true}, "x", "", irr, true},
		{said, "x", ro, irr, false},
		{said, "r", ro, ro, true},
		{said, "r", irr, irr, true},
		{said, "v", ro, rev, true},
		{said, "i", ro, irr, true},
		{said, "a", ro, app, true},
		{said, "i", app, app, true},
		{said, "d", rev, rev, true},
		{Trust{Tools: map[string]events.Tier{"*": ro, "x": irr}}, "y", ro, ro, true},
		{Trust{Tools: map[string]events.Tier{"*": ro, "x": irr}}, "x", ro, irr, true},
		{Trust{Declared: true, Tools: map[string]events.Tier{"x": irr}}, "x", ro, irr, true},
	} {
		if tier, believed := c.trust.Of(c.tool, c.declared); tier != c.want || believed != c.believed {
			t.Errorf("%+v of %s, declared %q: %s %t, want %s %t", c.trust, c.tool, c.declared, tier, believed, c.want, c.believed)
		}
	}
}

// TestClaimsNeedTrust: that a tool honours keys counts only where its worker is believed,
// and only what is reversible can be undone.
func TestClaimsNeedTrust(t *testing.T) {
	d := definition(events.Reversible)
	d.HonoursKey, d.Compensate, d.Probe, d.Key = true, true, true, "/order"
	staged(t, Config{}, func(s *stage) {
		s.sit("a", good, "saw").here("saw", d)
		tool := s.there("saw", true)
		if tool.Tier != events.Irreversible || tool.HonoursKey || tool.Compensate != nil || tool.Probe == nil {
			t.Errorf("the tool is %+v", tool.Spec)
		}
	})
	staged(t, declared, func(s *stage) {
		s.sit("a", good, "saw").here("saw", d)
		tool := s.there("saw", true)
		if tool.Tier != events.Reversible || !tool.HonoursKey || tool.Compensate == nil || tool.Key([]byte(`{"order":"o-1"}`)) != "o-1" {
			t.Errorf("the tool is %+v", tool.Spec)
		}
	})
}

// TestProbe: a worker is asked what became of an attempt, and its silence tells nothing.
func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		says  wire.Answer
		found bool
		err   string
	}{
		"found":     {wire.Answer{Type: wire.TypeFound, Found: true, Result: &wire.Result{Text: "it is there"}}, true, ""},
		"not found": {wire.Answer{Type: wire.TypeFound}, false, ""},
		"an error":  {wire.Answer{Type: wire.TypeError, Error: &wire.Error{Message: "no"}}, false, "no"},
		"nonsense":  {wire.Answer{Type: wire.TypeResult}, false, "contract"},
		"silence":   {wire.Answer{Type: wire.TypeBeat}, false, "silent"},
	} {
		t.Run(name, func(t *testing.T) {
			staged(t, declared, func(s *stage) {
				d := definition(events.Irreversible)
				d.Probe = true
				s.sit("a", func(h *hand, heard bus.Heard, m map[string]any) {
					switch m["type"] {
					case wire.TypeOffer:
						if m["verb"] != wire.VerbProbe {
							t.Errorf("it is offered %v", m)
						}
						h.accept(heard)
					case wire.TypeGo:
						h.ended(heard, m, c.says)
					}
				}, "saw").here("saw", d)
				f, err := s.there("saw", true).Probe(s.t.Context(), tools.Invocation{Attempt: 1})
				if f.Found != c.found || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("%+v, %v", f, err)
				}
			})
		})
	}
}

// TestARosterThatDoesNotRun refuses attempts, BEFORE its start and behind its end.
func TestARosterThatDoesNotRun(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a Roster of nothing is made")
	}
	staged(t, declared, func(s *stage) {
		s.sit("a", good, "saw").here("saw", definition(events.Readonly))
		s.there("saw", true)
		s.r.Stop()
		is(t, s.call(s.t.Context(), "saw", tools.Options{}), events.ClassUnavailable, events.EffectsNone, "does not speak to workers")
		s.r.Stop()
	})
}

// FuzzHear: whatever a worker announces, a node lives on and remembers little of it.
func FuzzHear(f *testing.F) {
	f.Add([]byte(`{"v":1,"type":"here","tool":{"schema":{"type":"object"},"tier":"readonly"}}`))
	f.Add([]byte(`{"v":1,"type":"gone"}`))
	f.Add([]byte(`{"v":1,"type":"here","revision":"1"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		staged(t, declared, func(s *stage) {
			s.r.hear(bus.Announcement{Tool: "saw", Worker: bus.Worker{User: "w", Instance: "a"}, Body: body})
			if v := s.r.View(); len(v.Tools) > 1 {
				t.Errorf("%+v", v)
			}
		})
	})
}

// TestWhatNobodyTakesStandsInNobodysWay: a definition that no registry takes is its own
// worker's fault, whoever came first.
func TestWhatNobodyTakesStandsInNobodysWay(t *testing.T) {
	staged(t, declared, func(s *stage) {
		a, b := s.sit("a", good, "saw"), s.sit("b", good, "saw")
		broken := definition(events.Readonly)
		broken.Schema = []byte(`{"type":"object","properties":{"x":{"pattern":"("}}}`)
		a.here("saw", broken)
		s.there("saw", false)
		if told := lastTold(a); !strings.HasPrefix(told, wire.StatusRefused) || !strings.Contains(told, "schema cannot be used") || len(told) > 2000 {
			t.Errorf("the first was told %q", told)
		}
		b.here("saw", definition(events.Readonly))
		if told := lastTold(b); !strings.HasPrefix(told, wire.StatusServing) {
			t.Errorf("the second was told %q", told)
		}
		a.here("saw", broken)
		if told := lastTold(a); told != "" {
			t.Errorf("the first was told once more: %q", told)
		}
		is(t, s.call(s.t.Context(), "saw", tools.Options{}), events.ClassOK, events.EffectsNone, "w.b")
	})
}
