package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

var key1 = events.TurnKey{Trace: "trace1", Turn: "turn1"}

// kinds are the kinds of all events of a turn, in order.
func kinds(v View) []events.Kind {
	var out []events.Kind
	for _, s := range v.Commits {
		for _, r := range s.Commit.Records {
			out = append(out, r.Event.Kind())
		}
	}
	return out
}

func TestSubmitAppendsQueuesAndIsDurable(t *testing.T) {
	d, log := newDesk(t)
	ticket, err := d.Submit(within(t), key1, echo(`{"v":1}`))
	must(t, err)
	if ticket.Key != key1 || ticket.Seq != 1 || ticket.Attached {
		t.Errorf("ticket %+v", ticket)
	}
	if lost := log.LoseTail(-1); lost != 0 {
		t.Errorf("%d appends were lost after the answer", lost)
	}
	got, err := d.bus.Pull(within(t), []string{events.DefaultPlacement})
	must(t, err)
	it := got.Item()
	c, err := events.Decode(it.Commit)
	must(t, err)
	if it.Turn != key1 || it.Seq != 1 || c.Turn != key1 || c.ID != it.ID {
		t.Errorf("item %+v carries commit %+v", it, c)
	}
}

func TestSubmitMakesIDs(t *testing.T) {
	d, _ := newDesk(t)
	a, err := d.Submit(within(t), events.TurnKey{}, echo(`{}`))
	must(t, err)
	b, err := d.Submit(within(t), events.TurnKey{Trace: a.Key.Trace}, echo(`{}`))
	must(t, err)
	if a.Key.Check() != nil || b.Key.Trace != a.Key.Trace || b.Key.Turn == a.Key.Turn || b.Attached {
		t.Errorf("tickets %+v and %+v", a, b)
	}
}

func TestSubmitAgainAttaches(t *testing.T) {
	log := memlog.New(memlog.Config{Window: time.Hour}) // a slow machine is not what is tried
	d := NewDesk(DeskConfig{Bus: log.View("door")})
	o := newOwner(t, d.bus)
	large := `{"v":"` + strings.Repeat("x", bus.MaxInline) + `"}`
	s := echo(`{"v":1}`, large, `{"v":"\ud800"}`)
	s.Principal.Parents = []string{}
	first, err := d.Submit(within(t), key1, s)
	must(t, err)
	again, err := d.Submit(within(t), key1, s)
	must(t, err)
	if !again.Attached || again.Seq != first.Seq {
		t.Errorf("again: %+v", again)
	}
	o.take()
	_, err = d.bus.Pull(brief(t), []string{events.DefaultPlacement})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the same item within the duplicate window was queued twice: %v", err)
	}
	claimed, err := d.Submit(within(t), key1, s)
	must(t, err)
	if !claimed.Attached {
		t.Errorf("after the claim: %+v", claimed)
	}
	s.Calls[0].Args.Text = `{"v":2}`
	if _, err := d.Submit(within(t), key1, s); !errors.Is(err, lifecycle.ErrDifferent) {
		t.Errorf("other calls: %v", err)
	}
}

// brief is a context for what must not happen.
func brief(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	t.Cleanup(stop)
	return ctx
}

func TestAttachQueuesAnUnclaimedTurnAgain(t *testing.T) {
	log := memlog.New(memlog.Config{Window: time.Nanosecond})
	d := NewDesk(DeskConfig{Bus: log.View("door")})
	for range 2 {
		_, err := d.Submit(within(t), key1, echo(`{}`))
		must(t, err)
	}
	for range 2 {
		got, err := d.bus.Pull(within(t), []string{events.DefaultPlacement})
		must(t, err)
		must(t, got.Ack())
	}
}

func TestSubmitRefusesAndKeepsNothing(t *testing.T) {
	d, _ := newDesk(t)
	many := echo(make([]string, lifecycle.MaxCalls+1)...)
	for name, s := range map[string]events.TurnSubmitted{
		"no calls": echo(), "too many": many, "large": echo(strings.Repeat("x", lifecycle.MaxArgs+1)),
	} {
		if _, err := d.Submit(within(t), key1, s); !errors.Is(err, lifecycle.ErrSubmission) || errors.Is(err, bus.ErrTooLarge) == (name == "no calls") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.Submit(within(t), events.TurnKey{Trace: "a.b"}, echo(`{}`)); !errors.Is(err, events.ErrID) {
		t.Errorf("bad id: %v", err)
	}
	head, err := d.bus.Head(within(t))
	must(t, err)
	if head.Seq != 1 {
		t.Errorf("the log's head is %s", head)
	}
}

func TestLargeArgumentsGoByReference(t *testing.T) {
	d, _ := newDesk(t)
	args := make([]string, 12)
	for i := range args {
		args[i] = fmt.Sprintf(`{"v":%q}`, strings.Repeat(string(rune('a'+i)), 60_000+i))
	}
	args[3] = fmt.Sprintf(`{"v":%q}`, strings.Repeat("z", 100_000))
	_, err := d.Submit(within(t), key1, echo(args...))
	must(t, err)
	v, err := d.Get(within(t), key1)
	must(t, err)
	refs := 0
	for i, c := range v.Turn.Submitted.Calls {
		if c.Args.Ref == nil {
			continue
		}
		refs++
		b, err := d.Blob(within(t), *c.Args.Ref)
		must(t, err)
		if string(b) != args[i] {
			t.Errorf("call %d: the blob is not its arguments", i)
		}
	}
	if v.Turn.Submitted.Calls[3].Args.Ref == nil || v.Turn.Submitted.Calls[11].Args.Ref == nil || v.Turn.Submitted.Calls[0].Args.Ref != nil {
		t.Errorf("the largest ones must go by reference first")
	}
	if refs < 4 || refs > 6 {
		t.Errorf("%d of 12 went by reference", refs)
	}
}

func TestTextIsMadeWholeOnce(t *testing.T) {
	for in, want := range map[string]string{
		`{"v":"\ud83d\ude00"}`:       `{"v":"\ud83d\ude00"}`,
		`{"v":"\ud83d"}`:             `{"v":"\ufffd"}`,
		`{"v":"\ud83d\ud83d\ude00"}`: `{"v":"\ufffd\ud83d\ude00"}`,
		`{"v":"\udE00x"}`:            `{"v":"\ufffdx"}`,
		`{"v":"\\ud83d"}`:            `{"v":"\\ud83d"}`,
		`{"v":"\u12"}`:               `{"v":"\u12"}`,
		"{\"v\":\"a\xff\xc3\"}":      "{\"v\":\"a\uFFFD\"}",
		`\`:                          `\`,
		`\ud800`:                     `\ufffd`,
	} {
		if got := wholeJSON(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
		if got := wholeJSON(wholeJSON(in)); got != want {
			t.Errorf("%q twice became %q", in, got)
		}
	}
}

func TestRunAnswersAtTheEnd(t *testing.T) {
	d, log := newDesk(t)
	o := newOwner(t, log.View("node"))
	var wg sync.WaitGroup
	wg.Go(func() {
		o.take()
		o.finish("hi")
	})
	ticket, v, err := d.Run(within(t), key1, echo(`{"v":1}`, `{"v":2}`), 0)
	wg.Wait()
	must(t, err)
	if !v.Ended() || ticket.Attached || v.Turn.Calls[1].Outcome.Result.Text.Text != "hi" {
		t.Errorf("ended %t, %+v", v.Ended(), ticket)
	}
	if lost := log.LoseTail(-1); lost != 0 {
		t.Errorf("%d appends were lost after the answer", lost)
	}
	_, v, err = d.Run(within(t), key1, echo(`{"v":1}`, `{"v":2}`), 0)
	must(t, err)
	if !v.Ended() {
		t.Error("attaching to a turn that has ended waits")
	}
}

func TestRunStopsWaiting(t *testing.T) {
	d, log := newDesk(t)
	ticket, v, err := d.Run(within(t), key1, echo(`{}`), time.Millisecond)
	must(t, err)
	if v.Ended() || ticket.Key != key1 || len(v.Commits) != 1 {
		t.Errorf("%+v", v)
	}
	if lost := log.LoseTail(-1); lost != 0 {
		t.Errorf("%d appends were lost after the answer", lost)
	}
}

// local is a Watcher whose turns end when told.
type local struct{ watched chan func(View) }

func (l local) Watch(_ events.TurnKey, ended func(View)) func() {
	l.watched <- ended
	return func() {}
}

func TestWaitHearsInEveryWay(t *testing.T) {
	for name, c := range map[string]struct {
		started bool // listens to live events
		local   bool
	}{"live": {started: true}, "poll": {}, "local": {local: true}} {
		t.Run(name, func(t *testing.T) {
			log := memlog.New(memlog.Config{})
			defer log.Close()
			conf := DeskConfig{Bus: log.View("door"), Poll: time.Hour}
			l := local{make(chan func(View), 1)}
			switch {
			case c.local:
				conf.Local = l
			case !c.started:
				conf.Poll = 5 * time.Millisecond
			}
			d := NewDesk(conf)
			if c.started {
				d.Start(t.Context())
			}
			defer d.Stop()
			_, err := d.Submit(within(t), key1, echo(`{}`))
			must(t, err)
			var wg sync.WaitGroup
			defer wg.Wait()
			o := newOwner(t, log.View("node"))
			o.take()
			o.finish("x")
			must(t, log.View("node").Publish(within(t), o.v.Commits[len(o.v.Commits)-1], nil))
			if c.local {
				wg.Go(func() { (<-l.watched)(View{Turn: o.v.Turn}) })
			}
			v, err := d.Wait(within(t), key1, 0)
			must(t, err)
			if !v.Ended() || len(v.Commits) != len(o.v.Commits) {
				t.Errorf("%d commits, want %d", len(v.Commits), len(o.v.Commits))
			}
		})
	}
}

func TestWaitForATurnThatEndsLater(t *testing.T) {
	d, log := newDesk(t)
	_, err := d.Submit(within(t), key1, echo(`{}`))
	must(t, err)
	o := newOwner(t, log.View("node"))
	o.take()
	done := make(chan error, 1)
	go func() {
		v, err := d.Wait(within(t), key1, 0)
		if err == nil && !v.Ended() {
			err = errors.New("not ended")
		}
		done <- err
	}()
	o.finish("x")
	must(t, <-done)
	if _, err := d.Wait(within(t), events.TurnKey{Trace: "no", Turn: "no"}, 0); !errors.Is(err, lifecycle.ErrNoTurn) {
		t.Errorf("unknown turn: %v", err)
	}
}

func TestCancel(t *testing.T) {
	d, log := newDesk(t)
	_, err := d.Submit(within(t), key1, echo(`{}`, `{}`))
	must(t, err)
	r, err := d.CancelCall(within(t), key1.Call(1), events.Principal{}, "enough")
	must(t, err)
	if !r.Accepted {
		t.Errorf("%+v", r)
	}
	v, err := d.Get(within(t), key1)
	must(t, err)
	last := v.Commits[len(v.Commits)-1]
	woken, err := d.bus.PullWake(within(t))
	must(t, err)
	if woken.Item().ID != last.Commit.ID || woken.Item().Turn != key1 {
		t.Errorf("wake-up %+v, commit %s", woken.Item(), last.Commit.ID)
	}
	if diff := cmp.Diff([]events.Kind{events.KindTurnSubmitted, events.KindRequested, events.KindCancelRequested}, kinds(v)); diff != "" {
		t.Error(diff)
	}
	r, err = d.CancelCall(within(t), key1.Call(1), events.Principal{}, "again")
	must(t, err)
	if v2, err := d.Get(within(t), key1); err != nil || len(v2.Commits) != len(v.Commits) || !r.Accepted {
		t.Errorf("the same again: %+v, %v", r, err)
	}
	o := newOwner(t, log.View("node"))
	o.take()
	o.judge(0, events.Readonly)
	o.start(0)
	o.settle(0, "x")
	r, err = d.CancelCall(within(t), key1.Call(0), events.Principal{}, "")
	must(t, err)
	if r.Accepted || r.Ended != events.KindCompleted {
		t.Errorf("an ended call: %+v", r)
	}
	r, err = d.CancelTurn(within(t), key1, events.Principal{}, "")
	must(t, err)
	if r.Accepted || r.Ended != events.KindTurnCompleted {
		t.Errorf("an ended turn: %+v", r)
	}
	if _, err := d.CancelCall(within(t), key1.Call(7), events.Principal{}, ""); !errors.Is(err, lifecycle.ErrNoCall) {
		t.Errorf("no such call: %v", err)
	}
	if _, err := d.CancelTurn(within(t), events.TurnKey{Trace: "no", Turn: "no"}, events.Principal{}, ""); !errors.Is(err, lifecycle.ErrNoTurn) {
		t.Errorf("no such turn: %v", err)
	}
}

func TestApproveAndReject(t *testing.T) {
	d, log := newDesk(t)
	_, err := d.Submit(within(t), key1, echo(`{"v":1}`, `{"v":2}`, `{"v":3}`))
	must(t, err)
	o := newOwner(t, log.View("node"))
	o.take()
	for i := range 3 {
		o.judge(i, events.Approval)
	}
	anna := events.Principal{ID: "anna"}
	if err := d.Approve(within(t), key1.Call(0), Approval{By: anna, Hash: "sha256:other"}); !errors.Is(err, lifecycle.ErrHash) {
		t.Errorf("other arguments than those seen: %v", err)
	}
	must(t, d.Reject(within(t), key1.Call(1), anna, "no"))
	must(t, d.Approve(within(t), key1.Call(0), Approval{By: anna}))
	must(t, d.Approve(within(t), key1.Call(0), Approval{By: anna}))
	changed := `{"v": 4}`
	must(t, d.Approve(within(t), key1.Call(2), Approval{By: anna, Args: &changed}))
	v, err := d.Get(within(t), key1)
	must(t, err)
	a := v.Turn.Calls[2].Approved
	if a.Args.Text != `{"v":4}` || a.By.Kind != "person" || v.Turn.Calls[1].Last != events.KindDenied {
		t.Errorf("%+v, call 1 is %s", a, v.Turn.Calls[1].Last)
	}
	if err := d.Reject(within(t), key1.Call(0), anna, ""); !errors.Is(err, lifecycle.ErrNotAsking) {
		t.Errorf("reject after approve: %v", err)
	}
	if err := d.Approve(within(t), key1.Call(1), Approval{By: anna}); !errors.Is(err, lifecycle.ErrEnded) {
		t.Errorf("approve after reject: %v", err)
	}
	bad := `[1]`
	if err := d.Approve(within(t), key1.Call(0), Approval{By: anna, Args: &bad}); !errors.Is(err, lifecycle.ErrArgs) {
		t.Errorf("bad arguments: %v", err)
	}
}

// TestActsMeet lets many cancel and approve one turn at once: each is decided
// on what the others left.
func TestActsMeet(t *testing.T) {
	d, log := newDesk(t)
	_, err := d.Submit(within(t), key1, echo(make([]string, 16)...))
	must(t, err)
	o := newOwner(t, log.View("node"))
	o.take()
	for i := range 16 {
		o.judge(i, events.Approval)
	}
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	for i := range 16 {
		for range 2 {
			wg.Go(func() { errs <- d.Approve(within(t), key1.Call(i), Approval{}) })
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		must(t, err)
	}
	v, err := d.Get(within(t), key1)
	must(t, err)
	plain := make([]events.Commit, len(v.Commits))
	for i, s := range v.Commits {
		plain[i] = s.Commit
	}
	if bad := lifecycle.Laws(plain); len(bad) > 0 {
		t.Error(bad)
	}
	for i, c := range v.Turn.Calls {
		if c.Approved == nil {
			t.Errorf("call %d is not approved", i)
		}
	}
}

func TestAStaleMirrorIsNotBelieved(t *testing.T) {
	log := memlog.New(memlog.Config{})
	defer log.Close()
	log.SetFaults(&memlog.Faults{Mirror: func(events.TurnKey, uint64) uint64 { return 0 }})
	d := NewDesk(DeskConfig{Bus: log.View("door")})
	_, err := d.Submit(within(t), key1, echo(`{}`))
	must(t, err)
	r, err := d.CancelTurn(within(t), key1, events.Principal{}, "")
	must(t, err)
	if !r.Accepted {
		t.Errorf("%+v", r)
	}
	if v, err := d.Get(within(t), key1); err != nil || len(v.Commits) != 2 {
		t.Errorf("%d commits, %v", len(v.Commits), err)
	}
}

func TestAnActNobodyHeardOfIsToldAgain(t *testing.T) {
	d, log := newDesk(t)
	_, err := d.Submit(within(t), key1, echo(`{}`))
	must(t, err)
	log.SetFaults(&memlog.Faults{Push: func(bus.Item) (bool, error) { return false, bus.ErrUncertain }})
	if _, err = d.CancelTurn(within(t), key1, events.Principal{}, ""); !errors.Is(err, ErrUntold) {
		t.Fatalf("the wake-up was lost: %v", err)
	}
	log.SetFaults(nil)
	_, err = d.CancelTurn(within(t), key1, events.Principal{}, "")
	must(t, err)
	got, err := d.bus.PullWake(within(t))
	must(t, err)
	if got.Item().Turn != key1 {
		t.Errorf("%+v", got.Item())
	}
}

func TestNothingIsAnsweredWithoutTheBarrier(t *testing.T) {
	d, log := newDesk(t)
	log.SetFaults(&memlog.Faults{Barrier: func() error { return errors.New("disk") }})
	if _, err := d.Submit(within(t), key1, echo(`{}`)); !errors.Is(err, bus.ErrUnavailable) {
		t.Errorf("submit: %v", err)
	}
	if _, err := d.Get(within(t), key1); !errors.Is(err, bus.ErrUnavailable) {
		t.Errorf("get: %v", err)
	}
	if _, err := d.CancelTurn(within(t), key1, events.Principal{}, ""); !errors.Is(err, bus.ErrUnavailable) {
		t.Errorf("cancel: %v", err)
	}
}
