package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

var declared = Config{Trust: Trust{Declared: true}}

func TestAWorkersToolRuns(t *testing.T) {
	staged(t, declared, func(s *stage) {
		h := s.sit("a", good, "saw")
		h.here("saw", definition(events.Readonly))
		tool := s.there("saw", true)
		if tool.Tier != events.Readonly || tool.Description != "saws" || !strings.HasPrefix(tool.Version, "sha256-") || s.reg.Source("saw") != Source {
			t.Errorf("the tool is %+v", tool.Spec)
		}
		is(t, s.call(s.t.Context(), "saw", tools.Options{}), events.ClassOK, events.EffectsNone, "w.a tr/tu/2 attempt 1")
		if m := <-h.told; m["type"] != wire.TypeDescribe && m["status"] != wire.StatusServing {
			t.Errorf("the worker was told %v", m)
		}
	})
}

// TestEveryEndIsTranslated: what a worker answers is what the runtime hears.
func TestEveryEndIsTranslated(t *testing.T) {
	fault := func(e wire.Error) wire.Answer { return wire.Answer{Type: wire.TypeError, Error: &e} }
	for name, c := range map[string]struct {
		says    wire.Answer
		class   events.Class
		effects events.Effects
		part    string
	}{
		"a success":         {text("done"), events.ClassOK, events.EffectsDone, "done"},
		"nothing":           {wire.Answer{Type: wire.TypeResult}, events.ClassOK, events.EffectsDone, ""},
		"a status of error": {wire.Answer{Type: wire.TypeResult, Result: &wire.Result{Status: "error", Text: "x"}}, events.ClassUnavailable, events.EffectsPossible, "say success or partial"},
		"a partial success": {wire.Answer{Type: wire.TypeResult, Result: &wire.Result{Status: events.Partial, Text: "x"}}, events.ClassOK, events.EffectsDone, "x"},
		"its own failure":   {fault(wire.Error{Message: "no"}), events.ClassTool, events.EffectsPossible, "no"},
		"one without effect": {
			fault(wire.Error{Message: "no", Effects: events.EffectsNone}), events.ClassTool, events.EffectsNone, "no",
		},
		"bad arguments":     {fault(wire.Error{Message: "no", Class: events.ClassInvalid}), events.ClassInvalid, events.EffectsNone, "no"},
		"a conflict":        {fault(wire.Error{Message: "no", Class: events.ClassConflict}), events.ClassConflict, events.EffectsNone, "no"},
		"unavailable":       {fault(wire.Error{Message: "no", Class: events.ClassUnavailable}), events.ClassUnavailable, events.EffectsPossible, "no"},
		"a class of none":   {fault(wire.Error{Message: "no", Class: "ok", Code: "x\x00", Effects: "many"}), events.ClassTool, events.EffectsPossible, "no"},
		"an error unsaid":   {wire.Answer{Type: wire.TypeError}, events.ClassTool, events.EffectsPossible, "did not say why"},
		"another verb's":    {wire.Answer{Type: wire.TypeFound, Found: true}, events.ClassUnavailable, events.EffectsPossible, "contract"},
		"a form":            {wire.Answer{Type: wire.TypeAsk, Asks: []events.InputRequest{{ID: "a", Kind: "url", URL: "https://x.org"}}}, events.ClassInput, events.EffectsPossible, ""},
		"a form of nothing": {wire.Answer{Type: wire.TypeAsk}, events.ClassTool, events.EffectsPossible, ""},
	} {
		t.Run(name, func(t *testing.T) {
			staged(t, declared, func(s *stage) {
				h := s.sit("a", func(h *hand, heard bus.Heard, m map[string]any) {
					switch m["type"] {
					case wire.TypeOffer:
						h.accept(heard)
					case wire.TypeGo:
						h.ended(heard, m, c.says)
					}
				}, "saw")
				h.here("saw", definition(events.Irreversible))
				is(t, s.call(s.t.Context(), "saw", tools.Options{}), c.class, c.effects, c.part)
			})
		})
	}
}

// TestWhatIsNoAnswer: a worker that says what cannot be read, or lacks what an answer must
// have, has not died, is not waited for, and is told why.
func TestWhatIsNoAnswer(t *testing.T) {
	for says, why := range map[string]string{
		`{"v":1,"type":"result","id":%q,"seq":1,"result":{"text":"x","data":{"n":NaN}}}`: "no message of it",
		`{"v":1,"type":"result","id":%q`: "no message of it",
		`oops %s`:                        "no message of it",
		`{"v":1,"type":"result","id":%q,"seq":"1","result":{"text":"x"}}`:                        "no message of it",
		`{"v":1,"type":"result","id":%q,"seq":1.5,"result":{"text":"x"}}`:                        "no message of it",
		`{"v":1,"type":"result","id":%q,"seq":9223372036854775808,"result":{"text":"x"}}`:        "no message of it",
		`{"v":1,"type":"result","id":%q,"result":{"text":"x"}}`:                                  "seq 0: it counts",
		`{"v":1,"type":"result","id":%q,"seq":0,"result":{"text":"x"}}`:                          "seq 0: it counts",
		`{"v":1,"type":"error","id":%q,"seq":-1,"error":{"message":"x"}}`:                        "seq -1: it counts",
		`{"v":1,"type":"beat","id":%q}`:                                                          "seq 0: it counts",
		`{"v":1,"type":"part","id":%q,"part":1,"parts":1,"data":"e30="}`:                         "seq 0: it counts",
		`{"v":1,"type":"part","id":%q,"seq":1,"part":1,"parts":1,"data":"e30="}`:                 "in parts: an answer of version 0",
		`{"v":1,"type":"progress","id":%q,"seq":10001,"text":"x"}`:                               "it has said 10001 things",
		`{"v":1,"type":"result","id":%q,"seq":60001,"result":{"text":"x"}}`:                      "it has said 60001 things",
		`{"type":"result","id":%q,"seq":1,"result":{"text":"x"}}`:                                "version 0: want 1",
		`{"v":2,"type":"result","id":%q,"seq":1,"result":{"text":"x"}}`:                          "version 2: want 1",
		`{"v":1,"id":%q,"seq":1,"result":{"text":"x"}}`:                                          `type ""`,
		`{"v":1,"type":"accept","id":%q,"seq":1,"worker":"w.a"}`:                                 `type "accept"`,
		`{"v":1,"type":"refuse","id":%q,"seq":1,"why":"busy"}`:                                   `type "refuse"`,
		`{"v":1,"type":"RESULT","id":%q,"seq":1,"result":{"text":"x"}}`:                          `type "RESULT"`,
		`{"v":1,"type":"result","id":%q,"seq":1,"result":{"text":"x","status":"failed"}}`:        "say success or partial",
		`{"v":1,"type":"result","id":%q,"seq":1,"result":{"text":"x","data":1},"asks":"nobody"}`: "no message of it",
	} {
		staged(t, declared, func(s *stage) {
			h := s.sit("a", sayingRaw(says), "saw")
			h.here("saw", definition(events.Irreversible))
			is(t, s.call(s.t.Context(), "saw", tools.Options{}), events.ClassUnavailable, events.EffectsPossible, why)
			synctest.Wait()
			if cancel, _ := h.last.Load().(string); !strings.Contains(cancel, why) {
				t.Errorf("%s: the worker was told %q", says, cancel)
			}
		})
	}
}

// TestWhoseAnswersNameAnotherAttempt is waited for, and then the caller is told of that.
func TestWhoseAnswersNameAnotherAttempt(t *testing.T) {
	staged(t, declared, func(s *stage) {
		s.sit("a", sayingRaw(`{"v":1,"type":"result","id":"not %s","seq":1,"result":{"text":"x"}}`), "saw").here("saw", definition(events.Irreversible))
		is(t, s.call(s.t.Context(), "saw", tools.Options{}), events.ClassUnavailable, events.EffectsPossible, "1 of its answers do not name this attempt")
	})
}

// sayingRaw is a worker that ends each attempt with a text as it is, its id in it.
func sayingRaw(says string) func(h *hand, heard bus.Heard, m map[string]any) {
	return func(h *hand, heard bus.Heard, m map[string]any) {
		switch m["type"] {
		case wire.TypeOffer:
			h.accept(heard)
		case wire.TypeGo:
			if err := h.seat.Answer(heard.Reply, []byte(fmt.Sprintf(says, m["id"]))); err != nil {
				h.t.Error(err)
			}
		}
	}
}

// TestHalvesOfPairs become U+FFFD where a worker's answer comes in, in data and in what it
// asks.
func TestHalvesOfPairs(t *testing.T) {
	staged(t, declared, func(s *stage) {
		s.sit("a", sayingRaw(`{"v":1,"type":"result","id":%q,"worker":"w.a","seq":1,"result":{"text":"a\ud800","data":{"k\udc00":"\ud83d","n":1e400},"undo":["\ud800"]}}`), "saw").
			here("saw", definition(events.Irreversible))
		r := s.call(s.t.Context(), "saw", tools.Options{})
		if got := r.Result; got.Text.Text != "a\uFFFD" || string(got.Data) != `{"k\ufffd":"\ufffd","n":1e400}` || string(got.Undo) != `["\ufffd"]` {
			t.Errorf("%+v", got)
		}
	})
	staged(t, declared, func(s *stage) {
		s.sit("a", sayingRaw(`{"v":1,"type":"ask","id":%q,"worker":"w.a","seq":1,"asks":[{"id":"q","kind":"form","message":"m","schema":{"type":"object","properties":{"a\ud800":{"type":"string"}}}}]}`), "saw").
			here("saw", definition(events.Irreversible))
		r := s.call(s.t.Context(), "saw", tools.Options{})
		if r.Input == nil || string(r.Input.Requests[0].Schema) != `{"type":"object","properties":{"a\ufffd":{"type":"string"}}}` {
			t.Errorf("%+v: %+v", r, r.Input)
		}
	})
}

// TestNobodyTakesIt: what no worker has begun had no effect, whatever its tier.
func TestNobodyTakesIt(t *testing.T) {
	for name, does := range map[string]func(h *hand, heard bus.Heard, m map[string]any){
		"all are silent":  nil,
		"all are busy":    func(h *hand, heard bus.Heard, m map[string]any) { h.refuse(heard, wire.WhyBusy) },
		"all are leaving": func(h *hand, heard bus.Heard, m map[string]any) { h.refuse(heard, wire.WhyDraining) },
		"who takes it is another one": func(h *hand, heard bus.Heard, m map[string]any) {
			h.answer(heard.Reply, wire.Take{V: wire.Version, Type: wire.TypeAccept, Worker: "w.else"})
		},
		"who takes it has no name": func(h *hand, heard bus.Heard, m map[string]any) {
			h.answer(heard.Reply, wire.Take{V: wire.Version, Type: wire.TypeAccept, Worker: "sluice.ev.>"})
		},
		"it speaks another version": func(h *hand, heard bus.Heard, m map[string]any) {
			h.answer(heard.Reply, wire.Take{V: 7, Type: wire.TypeAccept, Worker: h.name})
		},
		"it says nonsense": func(h *hand, heard bus.Heard, m map[string]any) { h.answer(heard.Reply, "nonsense") },
		"it answers at once": func(h *hand, heard bus.Heard, m map[string]any) {
			h.ended(heard, m, text("I was not even asked to begin"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			staged(t, declared, func(s *stage) {
				s.sit("a", does, "saw").here("saw", definition(events.Irreversible))
				s.there("saw", true)
				var r tools.Report
				if d := took(func() { r = s.call(s.t.Context(), "saw", tools.Options{}) }); d < 4*time.Second || d > 10*time.Second {
					t.Errorf("it was offered for %v", d)
				}
				is(t, r, events.ClassUnavailable, events.EffectsNone, "not begun")
				if r.Absent {
					t.Error("somebody was asked")
				}
			})
		})
	}
	t.Run("nobody is there", func(t *testing.T) {
		staged(t, declared, func(s *stage) {
			h := s.sit("a", good, "saw")
			h.here("saw", definition(events.Irreversible))
			s.there("saw", true)
			h.leave()
			r := s.call(s.t.Context(), "saw", tools.Options{})
			is(t, r, events.ClassUnavailable, events.EffectsNone, "no worker serves it")
			if !r.Absent {
				t.Error("nobody was there to be asked")
			}
		})
	})
}

// TestWhoComesBackTakesIt: a worker that restarts costs its calls a moment.
func TestWhoComesBackTakesIt(t *testing.T) {
	staged(t, declared, func(s *stage) {
		h := s.sit("a", good, "saw")
		h.here("saw", definition(events.Irreversible))
		s.there("saw", true)
		h.announce("saw", wire.Here{Type: wire.TypeGone})
		h.leave()
		s.there("saw", true) // who is about to come back finds its tool
		end := make(chan tools.Report)
		go func() { end <- s.call(s.t.Context(), "saw", tools.Options{}) }()
		pass(2 * time.Second)
		s.sit("b", good, "saw").here("saw", definition(events.Irreversible))
		is(t, <-end, events.ClassOK, events.EffectsDone, "w.b")
	})
}

// silentAfterGo takes what is offered, and is never heard of again.
func silentAfterGo(h *hand, heard bus.Heard, m map[string]any) {
	if m["type"] == wire.TypeOffer {
		h.accept(heard)
	}
}

// TestAWorkerDies: who has begun and is silent is lost, within the silence.
func TestAWorkerDies(t *testing.T) {
	for tier, effects := range map[events.Tier]events.Effects{
		events.Readonly: events.EffectsNone, events.Reversible: events.EffectsPossible, events.Irreversible: events.EffectsPossible,
	} {
		t.Run(string(tier), func(t *testing.T) {
			staged(t, declared, func(s *stage) {
				s.sit("a", silentAfterGo, "saw").here("saw", definition(tier))
				s.there("saw", true)
				var r tools.Report
				if d := took(func() { r = s.call(s.t.Context(), "saw", tools.Options{}) }); d < 4*time.Second || d > 6*time.Second {
					t.Errorf("it was noticed after %v", d)
				}
				is(t, r, events.ClassUnavailable, effects, "silent")
				if r.Answered || r.Confirmed != (tier == events.Readonly) {
					t.Errorf("answered %t, confirmed %t", r.Answered, r.Confirmed)
				}
			})
		})
	}
}

// TestSignsOfLife keep an attempt going, and progress comes in order.
func TestSignsOfLife(t *testing.T) {
	staged(t, declared, func(s *stage) {
		h := s.sit("a", func(h *hand, heard bus.Heard, m map[string]any) {
			switch m["type"] {
			case wire.TypeOffer:
				h.accept(heard)
			case wire.TypeGo:
				go func() {
					for i := range 20 {
						pass(2 * time.Second)
						h.ended(heard, m, wire.Answer{Type: wire.TypeProgress, Seq: i + 1, Text: "cutting", Done: float64(i), Total: 20})
						h.ended(heard, m, wire.Answer{Type: wire.TypeProgress, Seq: 1, Text: "of long ago"})
						h.ended(heard, m, wire.Answer{Type: wire.TypeBeat, Seq: i + 1})
					}
					h.ended(heard, m, text("done"))
				}()
			}
		}, "saw")
		h.here("saw", definition(events.Irreversible))
		var seen []float64
		r := s.call(s.t.Context(), "saw", tools.Options{Progress: func(p events.Progress) {
			if p.Text == "of long ago" {
				t.Error("progress of long ago is told")
			}
			seen = append(seen, p.Done)
		}})
		is(t, r, events.ClassOK, events.EffectsDone, "done")
		if len(seen) < 15 {
			t.Errorf("progress was told %d times", len(seen))
		}
	})
}

// TestCancel: a worker is asked for the end, its word is waited for a moment, and what it
// says later is evidence.
func TestCancel(t *testing.T) {
	for name, c := range map[string]struct {
		after     time.Duration // until it answers the cancel
		confirmed bool
	}{"at once": {0, true}, "late": {30 * time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			staged(t, declared, func(s *stage) {
				var goes bus.Heard
				h := s.sit("a", func(h *hand, heard bus.Heard, m map[string]any) {
					switch m["type"] {
					case wire.TypeOffer:
						h.accept(heard)
					case wire.TypeGo:
						goes = heard
					case wire.TypeCancel:
						go func() {
							pass(c.after)
							h.ended(goes, m, wire.Answer{Type: wire.TypeError, Error: &wire.Error{Class: events.ClassCancelled, Message: "stopped", Effects: events.EffectsNone}})
						}()
					}
				}, "saw")
				h.here("saw", definition(events.Irreversible))
				s.there("saw", true)
				ctx, cancel := context.WithCancel(s.t.Context())
				time.AfterFunc(time.Second, cancel)
				late := make(chan tools.Report, 1)
				r := s.call(ctx, "saw", tools.Options{Late: func(r tools.Report) { late <- r }})
				effects := events.EffectsPossible
				if c.confirmed {
					effects = events.EffectsNone
				}
				is(t, r, events.ClassCancelled, effects, "cancelled")
				if r.Confirmed != c.confirmed {
					t.Errorf("the end is confirmed: %t", r.Confirmed)
				}
				if !c.confirmed {
					is(t, <-late, events.ClassCancelled, events.EffectsNone, "stopped")
				}
			})
		})
	}
}

// TestLateAnswersAreEvidence: who was taken for lost and answers is heard.
func TestLateAnswersAreEvidence(t *testing.T) {
	staged(t, declared, func(s *stage) {
		h := s.sit("a", func(h *hand, heard bus.Heard, m map[string]any) {
			switch m["type"] {
			case wire.TypeOffer:
				h.accept(heard)
			case wire.TypeGo:
				go func() {
					pass(40 * time.Second)
					h.ended(heard, m, text("done, at last"))
				}()
			}
		}, "saw")
		h.here("saw", definition(events.Irreversible))
		late := make(chan tools.Report, 1)
		is(t, s.call(s.t.Context(), "saw", tools.Options{Late: func(r tools.Report) { late <- r }}), events.ClassUnavailable, events.EffectsPossible, "silent")
		is(t, <-late, events.ClassOK, events.EffectsDone, "done, at last")
	})
}

// TestOnlyWhoWasHandedItCounts: of several that take an offer one begins, and what the
// others say is not heard.
func TestOnlyWhoWasHandedItCounts(t *testing.T) {
	staged(t, declared, func(s *stage) {
		var begun, refused atomic.Int32
		does := func(h *hand, heard bus.Heard, m map[string]any) {
			switch m["type"] {
			case wire.TypeOffer: // it takes it twice, and tells its neighbours
				h.accept(heard)
				h.accept(heard)
				for _, other := range []string{"w.a", "w.b", "w.c"} {
					h.answer(heard.Reply, wire.Take{V: wire.Version, Type: wire.TypeAccept, Worker: other})
				}
				h.ended(heard, m, text("forged"))
			case wire.TypeNo:
				refused.Add(1)
			case wire.TypeGo:
				begun.Add(1)
				h.ended(heard, m, text("done"))
				h.ended(heard, m, text("done twice"))
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			s.sit(name, does, "saw").here("saw", definition(events.Irreversible))
		}
		is(t, s.call(s.t.Context(), "saw", tools.Options{}), events.ClassOK, events.EffectsDone, "done")
		synctest.Wait()
		if begun.Load() != 1 {
			t.Errorf("%d workers were told to begin", begun.Load())
		}
	})
}

// TestLarge: what no message can hold comes in parts, both ways, and what is too large is
// refused by whoever has it.
func TestLarge(t *testing.T) {
	staged(t, declared, func(s *stage) {
		big := strings.Repeat("0123456789", 110_000)
		var parts wire.Parts
		var goes bus.Heard
		h := s.sit("a", func(h *hand, heard bus.Heard, m map[string]any) {
			switch m["type"] {
			case wire.TypeOffer:
				h.accept(heard)
			case wire.TypeGo:
				goes = heard
			case wire.TypePart:
				var p wire.Part
				if err := json.Unmarshal(heard.Body, &p); err != nil {
					t.Error(err)
				}
				whole, err := parts.Add(p)
				if err != nil {
					t.Error(err)
				}
				if whole == nil {
					return
				}
				var w wire.Work
				if err := json.Unmarshal(whole, &w); err != nil || len(w.Args) < 1_100_000 {
					t.Errorf("the work came as %d bytes of arguments, %v", len(w.Args), err)
				}
				body, _ := wire.Encode(wire.Answer{V: wire.Version, Type: wire.TypeResult, ID: m["id"].(string), Seq: 1, Result: &wire.Result{Text: big}})
				answer := wire.Split(body)
				for _, p := range append(answer[:2], answer...) { // the first two are said twice, as if something was lost
					p.ID, p.Seq = m["id"].(string), 1
					h.answer(goes.Reply, p)
				}
			}
		}, "saw")
		h.here("saw", definition(events.Readonly))
		tool := s.there("saw", true)
		in := tools.Invocation{Call: events.CallKey{Trace: "tr", Turn: "tu"}, Attempt: 1, Args: []byte(`{"text":"` + big + `"}`)}
		r := tools.Execute(s.t.Context(), tool, in, tools.Options{})
		is(t, r, events.ClassOK, events.EffectsNone, big)
		in.Args = []byte(`{"text":"` + strings.Repeat(big, 16) + `"}`)
		is(t, tools.Execute(s.t.Context(), tool, in, tools.Options{}), events.ClassInvalid, events.EffectsNone, "send less")
	})
}

// TestManyAnswers: as many answers as a worker may give are heard, and one more is not. What
// is dropped because it came too fast may be the end: a worker that does not repeat it is
// given up, and the caller is told why.
func TestManyAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		before int // progress, at a pace at which it is heard
		class  events.Class
		part   string
	}{
		"as many as may be": {wire.MaxAnswers - 1, events.ClassOK, "done"},
		"one more":          {wire.MaxAnswers, events.ClassUnavailable, "say progress a few times a second"},
	} {
		t.Run(name, func(t *testing.T) {
			staged(t, declared, func(s *stage) {
				s.sit("a", func(h *hand, heard bus.Heard, m map[string]any) {
					switch m["type"] {
					case wire.TypeOffer:
						h.accept(heard)
					case wire.TypeGo:
						for i := range c.before {
							h.ended(heard, m, wire.Answer{Type: wire.TypeProgress, Seq: i + 1})
							if i%1000 == 0 {
								synctest.Wait() // until it is heard
							}
						}
						end := text("done")
						end.Seq = c.before + 1
						h.ended(heard, m, end)
					}
				}, "saw").here("saw", definition(events.Irreversible))
				is(t, s.call(s.t.Context(), "saw", tools.Options{}), c.class, map[bool]events.Effects{true: events.EffectsDone, false: events.EffectsPossible}[c.class == events.ClassOK], c.part)
			})
		})
	}
	t.Run("faster than they are heard", func(t *testing.T) {
		staged(t, Config{Trust: declared.Trust, Workers: new(dropping)}, func(s *stage) {
			s.sit("a", func(h *hand, heard bus.Heard, m map[string]any) {
				switch m["type"] {
				case wire.TypeOffer:
					h.accept(heard)
				case wire.TypeGo:
					h.ended(heard, m, wire.Answer{Type: wire.TypeProgress})
					h.ended(heard, m, text("done"))
				}
			}, "saw").here("saw", definition(events.Irreversible))
			is(t, s.call(s.t.Context(), "saw", tools.Options{}), events.ClassUnavailable, events.EffectsPossible, "were lost, perhaps its end with them")
		})
	})
}

// TestFloods: a worker that says too much of one attempt is given up.
func TestFloods(t *testing.T) {
	staged(t, declared, func(s *stage) {
		line := strings.Repeat("x", 900<<10)
		h := s.sit("a", func(h *hand, heard bus.Heard, m map[string]any) {
			switch m["type"] {
			case wire.TypeOffer:
				h.accept(heard)
			case wire.TypeGo:
				for range 100 {
					if err := h.seat.Answer(heard.Reply, []byte(line)); err != nil {
						t.Error(err)
					}
				}
			}
		}, "saw")
		h.here("saw", definition(events.Irreversible))
		is(t, s.call(s.t.Context(), "saw", tools.Options{}), events.ClassUnavailable, events.EffectsPossible, "contract")
	})
}

// TestTheWayIsCut: a node that is cut off from the workers does not take that for their
// silence, and begins nothing meanwhile.
func TestTheWayIsCut(t *testing.T) {
	staged(t, declared, func(s *stage) {
		h := s.sit("a", func(h *hand, heard bus.Heard, m map[string]any) {
			switch m["type"] {
			case wire.TypeOffer:
				h.accept(heard)
			case wire.TypeGo:
				go func() {
					for range 15 {
						pass(time.Second)
						h.ended(heard, m, wire.Answer{Type: wire.TypeBeat})
					}
					h.ended(heard, m, text("done"))
				}()
			}
		}, "saw")
		h.here("saw", definition(events.Irreversible))
		tool := s.there("saw", true)
		end := make(chan tools.Report)
		go func() { end <- s.call(s.t.Context(), "saw", tools.Options{}) }()
		pass(time.Second)
		s.view.Disconnect()
		pass(9 * time.Second)
		in := tools.Invocation{Call: events.CallKey{Trace: "tr", Turn: "other"}, Attempt: 1}
		is(t, tools.Execute(s.t.Context(), tool, in, tools.Options{}), events.ClassUnavailable, events.EffectsNone, "not begun")
		s.view.Connect()
		is(t, <-end, events.ClassOK, events.EffectsDone, "done")
	})
}
