package corpus

import (
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/test/data"
)

// scripts are the traces of an export: to add one, write it and its row.
var scripts = []struct {
	name  string
	write func() *world
}{
	{"ends", ends},
	{"people", people},
	{"owners", owners},
	{"inputs", inputs},
	{"imported", imported},
}

// ends has calls that end in every way that needs neither a person nor a lost owner.
func ends() *world {
	w := newWorld("ends")
	w.submit("t1", events.TurnSubmitted{
		Format: "openai", Workspace: "/srv/work", Mode: events.ModeWrite,
		Calls: []events.RawCall{
			call("call_1", "Read", `{"path":"a.txt"}`), call("call_1", "Read", `{"path":"big.log"}`), call("call_2", "Write", `{"path":"notes.md","text":"x\u001b[2K"}`),
			call("call_3", "Teleport", `{"to":"the moon"}`), call("call_4", "Read", `{"path":`), call("call_5", "charge", `{"order":"o-9","amount":10}`),
			call("call_6", "Read", `{"path":"slow.txt"}`), call("call_7", "post", `{"url":"https://example.com/hook"}`), call("", "Read", ""),
		},
	})
	w.do(lifecycle.Note{Event: &events.ModelStarted{Model: "gpt-4o"}})
	w.do(lifecycle.Note{Event: &events.ModelCompleted{Model: "gpt-4o", Reason: "tool_calls", Input: 812, Output: 96}})
	w.claim(false)
	w.perform = func(w *world, c *lifecycle.Call) lifecycle.Settle {
		switch c.Offset {
		case 0:
			w.do(lifecycle.Tell{Call: 0, Progress: events.Progress{Attempt: 1, Text: "half", Done: 1, Total: 2}})
			s := done(c, "one\ntwo\n")
			s.Result.Seen = []events.Seen{{Path: "a.txt", Digest: lifecycle.Digest([]byte("one\ntwo\n")), Size: 8}}
			return s
		case 1:
			s := done(c, strings.Repeat("0123456789abcdef\n", 40))
			s.Result.Status, s.Result.Cut = events.Partial, &events.Cut{Bytes: 91_000, Lines: 1200, Whole: ref("the whole log")}
			s.Result.Stats = events.Stats{Bytes: 91_680, Lines: 1240, More: map[string]int64{"matches": 3, "files": 1}}
			return s
		case 2:
			s := done(c, "written")
			s.Result.Context = []events.Modifier{{Name: "cwd", Value: raw(`"/srv/work"`)}}
			return s
		case 5:
			s := failed(c, events.ClassTool, events.ExecutionError, "the card was declined")
			s.Effects, s.Exit = events.EffectsNone, new(1)
			return s
		case 6:
			if c.Attempt == 1 {
				return failed(c, events.ClassUnavailable, events.ExecutionError, "connection refused")
			}
			s := failed(c, events.ClassTimeout, events.Timeout, "no answer in 30 s")
			s.Run = 30 * time.Second
			return s
		case 7:
			return failed(c, events.ClassTimeout, events.Timeout, "no answer in 30 s")
		}
		s := done(c, "")
		s.Result.Data = raw(`{"rows":[1,2,9007199254740993]}`)
		return s
	}
	w.runTo(10 * time.Minute)
	w.do(lifecycle.Resolve{Call: 7, By: person, Effects: events.EffectsDone, Note: "the hook's own log has it"})
	w.do(lifecycle.Undone{Call: 2, By: person, Result: events.Result{Status: events.Success, Text: events.Body{Text: "put back"}}})
	w.submit("t2", events.TurnSubmitted{Format: "anthropic", Mode: events.ModeRead, OnError: events.OnErrorAbortRest, Calls: []events.RawCall{
		call("toolu_1", "Write", `{"path":"b"}`), call("toolu_2", "upsert", `{"id":1}`), call("toolu_3", "Read", `{"path":"c"}`),
	}})
	w.claim(false)
	w.runTo(time.Second)
	w.dedupe()
	return w
}

// dedupe has a call that another one's result answers.
func (w *world) dedupe() {
	twin := call("call_9", "charge", `{"order":"o-10","amount":3}`)
	twin.Key = "k-10"
	w.submit("t3", events.TurnSubmitted{Format: "openai", Calls: []events.RawCall{twin}})
	w.claim(false)
	w.do(w.plan())
	c := w.turn.Calls[0]
	j := w.judge(c)
	j.Findings = []lifecycle.Finding{{Gate: lifecycle.GateDedupe, Ruling: lifecycle.Reuse, Reuse: &events.Deduplicated{
		Of: "ends/t0/0", Key: "charge k-10", As: events.KindCompleted,
		Outcome: events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsDone, Result: events.Result{Status: events.Success, Text: events.Body{Text: "charged"}}},
	}}}
	w.do(j)
	w.run()
}

// people has approvals and cancels.
func people() *world {
	w := newWorld("people")
	w.submit("t1", events.TurnSubmitted{Format: "anthropic", CanAsk: true, Calls: []events.RawCall{
		call("toolu_1", "Bash", `{"command":"make deploy # \u202etxt.exe"}`), call("toolu_2", "deploy", `{"to":"prod"}`), call("toolu_3", "Bash", `{"command":"rm -r build"}`),
		call("toolu_4", "Bash", `{"command":"sleep 1"}`), call("toolu_5", "charge", `{"order":"o-1"}`),
	}})
	w.claim(false)
	w.perform = func(w *world, c *lifecycle.Call) lifecycle.Settle { return done(c, "deployed "+c.Args.Text) }
	w.run()
	w.do(lifecycle.Park{})
	w.do(lifecycle.Reject{Call: 2, By: person, Note: "keep the build"})
	w.do(lifecycle.Approve{Call: 0, By: person, Scope: events.ScopeSession, Note: "fine"})
	changed, _ := lifecycle.Parse(`{"to":"staging"}`) // it parses
	w.do(lifecycle.Approve{Call: 1, By: person, Args: &changed})
	w.claim(false)
	w.run()
	if c := w.turn.Calls[1]; c.Phase == lifecycle.PhaseAsking {
		w.do(lifecycle.Approve{Call: 1, By: person})
	}
	w.do(lifecycle.CancelCall{Call: 4, By: person, Reason: "not today"})
	w.runTo(2 * time.Hour) // nobody answers call 3
	w.submit("t2", events.TurnSubmitted{Format: "anthropic", Calls: []events.RawCall{call("toolu_6", "Read", `{"path":"x"}`), call("toolu_7", "charge", `{"order":"o-2"}`)}})
	w.claim(false)
	w.perform = func(w *world, c *lifecycle.Call) lifecycle.Settle {
		if c.Offset == 0 {
			return done(c, "x")
		}
		w.do(lifecycle.CancelTurn{By: person, Reason: "stop"})
		s := failed(w.turn.Calls[1], events.ClassCancelled, events.CodeCancelled, "it was stopped")
		s.Signal = "terminated"
		return s
	}
	w.run()
	return w
}

// form is one that a tool asks a person to fill in.
func form(message string) events.InputRequest {
	return events.InputRequest{
		ID: "q1", Kind: events.InputForm, Message: message,
		Schema: raw(`{"type":"object","properties":{"name":{"type":"string"},"size":{"type":"string","enum":["s","l"]},"pin":{"type":"string","format":"password"}},"required":["name"]}`),
	}
}

// asking is the end of an attempt whose tool asks a person.
func asking(c *lifecycle.Call, requests ...events.InputRequest) lifecycle.Settle {
	return lifecycle.Settle{
		Call: c.Offset, Attempt: c.Attempt, Class: events.ClassInput, Answered: true, Confirmed: true, Run: 2300 * time.Microsecond,
		Asks: &lifecycle.Asks{Requests: requests, State: "state of attempt " + strconv.Itoa(c.Attempt), Expire: time.Hour},
	}
}

// inputs has tools that ask a person before they go on.
func inputs() *world {
	w := newWorld("inputs")
	keyed := call("i2", "charge", `{"order":"o-1","ask":"pin"}`)
	keyed.Key = "o-1"
	w.submit("t1", events.TurnSubmitted{Format: "anthropic", CanAsk: true, Calls: []events.RawCall{
		call("i1", "Read", `{"ask":"who"}`), keyed, call("i3", "post", `{"ask":"twice"}`), call("i4", "Read", `{"ask":"nobody"}`),
		call("i5", "charge", `{"ask":"late"}`), call("i6", "charge", `{"ask":"lost"}`), call("i7", "Read", `{"ask":"nonsense"}`),
	}})
	w.perform = func(w *world, c *lifecycle.Call) lifecycle.Settle {
		switch {
		case c.Offset == 6:
			return asking(c, events.InputRequest{ID: "q1", Kind: events.InputForm, Schema: raw(`{"properties":{"a":{"type":"object"}}}`)})
		case c.Answered == nil && c.Offset == 1:
			return asking(c, form("pin?"), events.InputRequest{ID: "q2", Kind: events.InputURL, Message: "sign \x1b[2K here", URL: "https://example.com/sign?x=1"},
				events.InputRequest{ID: "q3", Kind: "sampling/createMessage", Raw: raw(`{"messages":[{"role":"user"}]}`)})
		case c.Answered == nil || c.Offset == 2 && c.Rounds() == 1:
			return asking(c, form("who?"))
		}
		return done(c, "goes on with "+c.Answered.Answers[0].Action+" and "+c.Goes().State)
	}
	w.claim(false)
	w.run()
	accept := events.InputAnswer{ID: "q1", Action: events.InputAccept, Content: raw(`{"name":"Mira","size":"l"}`)}
	w.do(lifecycle.Answer{Call: 0, By: person, Answers: []events.InputAnswer{accept}, Note: "as agreed"})
	w.run()
	w.do(lifecycle.Park{})
	secret := events.InputAnswer{
		ID: "q1", Action: events.InputAccept, Content: raw(`{"name":"Mira","pin":"sluice-secret-00112233445566778899aabbccddeeff"}`),
		Secrets: []events.SecretRef{{ID: "00112233445566778899aabbccddeeff", Path: "/pin"}},
	}
	w.do(lifecycle.Answer{Call: 1, By: person, Round: 1, Answers: []events.InputAnswer{{ID: "q3", Action: events.InputDecline}, {ID: "q2", Action: events.InputAccept}, secret}})
	w.claim(false)
	w.run() // and call 2 asks
	w.do(lifecycle.Answer{Call: 2, By: person, Answers: []events.InputAnswer{{ID: "q1", Action: events.InputDecline}}})
	w.run()        // and asks again
	w.claim(false) // its owner is lost meanwhile
	w.do(lifecycle.Answer{Call: 2, By: person, Round: 2, Answers: []events.InputAnswer{accept}})
	w.run()                   // call 3 asks, and nobody answers
	w.runTo(61 * time.Minute) // call 4 asks
	w.do(lifecycle.CancelCall{Call: 4, By: person, Reason: "not today"})
	w.run() // call 5 asks
	w.do(lifecycle.Answer{Call: 5, By: person, Answers: []events.InputAnswer{accept}})
	w.do(w.begin(w.turn.Calls[5]))
	w.claim(false) // its owner is lost with the answers in its hands
	w.run()
	w.submit("t2", events.TurnSubmitted{Format: "openai", Calls: []events.RawCall{call("i8", "Read", `{"ask":"nobody can be asked"}`)}})
	w.perform = func(w *world, c *lifecycle.Call) lifecycle.Settle {
		if c.Answered == nil {
			return asking(c, form("anybody?"))
		}
		return failed(c, events.ClassTool, events.ExecutionError, "nobody answered: "+c.Answered.Answers[0].Action)
	}
	w.claim(false)
	w.run()
	w.submit("t3", events.TurnSubmitted{Format: "openai", CanAsk: true, Calls: []events.RawCall{call("i9", "post", `{"ask":"open"}`)}})
	w.perform = func(_ *world, c *lifecycle.Call) lifecycle.Settle { return asking(c, form("open")) }
	w.claim(false)
	w.run()
	w.do(lifecycle.Park{}) // and there the log ends
	return w
}

// owners has turns whose owners are lost.
func owners() *world {
	w := newWorld("owners")
	w.submit("t1", events.TurnSubmitted{Format: "openai", Limits: events.Limits{Concurrency: 2, DeadlineMS: 60_000}, Calls: []events.RawCall{
		call("a", "Read", `{"path":"a"}`), call("b", "charge", `{"order":"o-1"}`), call("c", "post", `{"url":"https://example.com"}`), call("d", "upsert", `{"id":7}`),
	}})
	w.claim(false)
	w.do(w.plan())
	for _, c := range w.turn.Calls {
		w.do(w.judge(c))
	}
	lost := w.turn.Owner
	w.do(w.begin(w.turn.Calls[0]))
	w.claim(false) // the first owner is lost while it reads
	w.perform = func(w *world, c *lifecycle.Call) lifecycle.Settle { return done(c, "result of "+c.Tool) }
	w.do(lifecycle.Late{Call: 0, Owner: lost, Outcome: events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsNone, Result: events.Result{Status: events.Success, Text: events.Body{Text: "too late"}}}})
	w.do(w.begin(w.turn.Calls[0]))
	w.do(done(w.turn.Calls[0], "a"))
	w.do(w.begin(w.turn.Calls[1]))
	lost = w.turn.Owner
	w.claim(false) // the second one while it charges
	w.do(lifecycle.Late{Call: 1, Owner: lost, Outcome: events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsDone, Result: events.Result{Status: events.Success, Text: events.Body{Text: "charged"}}}})
	w.do(w.begin(w.turn.Calls[2]))
	w.claim(false) // the third one while it posts: the tool can be asked
	w.do(lifecycle.Probed{Call: 2, Attempt: 1, Found: true, Result: events.Result{Status: events.Success, Text: events.Body{Text: "posted"}}})
	w.do(w.begin(w.turn.Calls[3]))
	w.claim(true) // the fourth gives it back
	w.run()
	w.submit("t2", events.TurnSubmitted{Format: "openai", Calls: []events.RawCall{call("e", "charge", `{"order":"o-2"}`), call("f", "Read", `{"path":"f"}`)}})
	w.claim(false)
	w.do(w.plan())
	w.do(w.judge(w.turn.Calls[0]))
	w.do(w.begin(w.turn.Calls[0]))
	w.do(lifecycle.Abandon{Reason: "nobody serves its placement"})
	w.submit("t3", events.TurnSubmitted{Format: "openai", Calls: []events.RawCall{call("g", "Read", `{"path":"g"}`), call("h", "Read", `{"path":"h"}`)}})
	w.claim(false)
	w.do(w.plan())
	w.do(w.judge(w.turn.Calls[0]))
	w.do(w.begin(w.turn.Calls[0])) // and there the log ends
	return w
}

// imported is a recorded conversation.
func imported() *world {
	text, err := data.Read("coding_marshmallow.jsonl")
	if err != nil {
		panic(err)
	}
	rec, err := codec.Transcript(text)
	if err != nil {
		panic(err)
	}
	w := newWorld("imported")
	for _, t := range rec.Turns {
		w.now = w.now.Add(time.Second)
		s := events.TurnSubmitted{Principal: events.Principal{ID: "import", Kind: "service"}, Calls: t.Calls, Format: string(rec.Format), Imported: "coding_marshmallow.jsonl:1"}
		key := events.TurnKey{Trace: w.trace, Turn: t.Turn}
		records, err := lifecycle.Import(key, s, t.Results(), w.now)
		if err != nil {
			panic(err)
		}
		w.turn = lifecycle.Turn{Key: key}
		w.keep(records[:1], events.Owner{})
		w.keep(records[1:], events.Owner{Boot: "import", Epoch: 1})
	}
	return w
}

// runTo pays what is due, also what waits for a time that is not too far off.
func (w *world) runTo(most time.Duration) {
	until := w.now.Add(most)
	for w.run(); w.turn.Ended == nil; w.run() {
		next := time.Time{}
		for _, e := range lifecycle.Due(w.turn) {
			if e.Do != lifecycle.DoPark && e.At.After(w.now) && (next.IsZero() || e.At.Before(next)) {
				next = e.At
			}
		}
		if next.IsZero() || next.After(until) {
			return
		}
		w.now = next
	}
}

func ref(s string) events.BlobRef {
	return events.BlobRef{Digest: lifecycle.Digest([]byte(s)), Size: int64(len(s))}
}
