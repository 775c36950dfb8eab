package bustest

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

var queuePromises = []Promise{
	{"P30 an item is delivered whole, and to one puller", queueOne},
	{"P31 an ack is final", queueAck},
	{"P32 what is neither acked nor extended comes back", queueRedelivers},
	{"P33 an extension keeps an item", queueExtend},
	{"P34 a nak brings an item back at once", queueNak},
	{"P35 a nak with a delay brings an item back after it", queueNakDelay},
	{"P36 anyone can give an item back by its reply subject", queueReturn},
	{"P37 a repeated id is added once within the window", queueRepeats},
	{"P38 a pull of several placements gives one item", queuePlacements},
	{"P39 no placement is the default placement", queueDefault},
	{"P40 a pull ends with its caller", queueEmpty},
	{"P41 an item whose caller has gone is given back", queueGone},
	{"P42 nothing is fetched ahead of a caller who waits", queuePrefetch},
	{"P43 wake-ups have a queue of their own", queueWake},
	{"P44 a wake-up is acked, given back and returned as an item is", queueWakeAnswers},
	{"P45 what is in hands can be seen", queueHeld},
	{"P46 the oldest item that is not acked can be seen", queueOldest},
}

// place is a placement that nobody else uses.
func place() string { return "p-" + rand.Text() }

func newItem(placement string) bus.Item {
	return bus.Item{ID: "i-" + rand.Text(), Turn: newTurn(), Placement: placement}
}

func mustPush(t *testing.T, b bus.Bus, it bus.Item) bus.Item {
	t.Helper()
	must(t, "push", b.Push(within(t), it))
	return it
}

func mustPull(t *testing.T, b bus.Bus, placements ...string) bus.Delivery {
	t.Helper()
	d, err := b.Pull(within(t), placements)
	must(t, "pull", err)
	return d
}

// noPull fails if something is delivered within d.
func noPull(t *testing.T, b bus.Bus, d time.Duration, placements ...string) {
	t.Helper()
	got, err := b.Pull(lasting(t, d), placements)
	if err == nil {
		t.Fatalf("delivery %d of item %s, want none", got.Deliveries(), got.Item().ID)
	}
	wantIs(t, "pull of nothing", err, context.DeadlineExceeded)
}

// ackWait pushes and pulls an item, and measures when it comes back by itself.
// The item is acked.
func ackWait(t *testing.T, b bus.Bus) time.Duration {
	t.Helper()
	p := place()
	it := mustPush(t, b, newItem(p))
	mustPull(t, b, p)
	begin := time.Now()
	d := mustPull(t, b, p)
	wait := time.Since(begin)
	if d.Item().ID != it.ID || d.Deliveries() != 2 {
		t.Fatalf("delivery %d of item %s, want the second of %s", d.Deliveries(), d.Item().ID, it.ID)
	}
	must(t, "ack", d.Ack())
	if wait < short {
		t.Fatalf("an item comes back after %v: too soon to work with", wait)
	}
	return wait
}

func queueOne(t *testing.T, b bus.Bus) {
	p := place()
	want := map[string]bus.Item{}
	for i := range 40 {
		it := newItem(p)
		it.Seq = uint64(i)
		if i%2 == 0 {
			it.Commit = []byte{0, 1, 2, byte(i), 255}
		}
		want[it.ID] = mustPush(t, b, it)
	}
	var mu sync.Mutex
	got := map[string]bus.Item{}
	pull := func() {
		for {
			mu.Lock()
			done := len(got) == len(want)
			mu.Unlock()
			if done {
				return
			}
			d, err := b.Pull(lasting(t, time.Second), []string{p})
			if err != nil {
				continue // perhaps another has the last one
			}
			mu.Lock()
			if _, twice := got[d.Item().ID]; twice || d.Deliveries() != 1 {
				t.Errorf("delivery %d of item %s, twice: %v", d.Deliveries(), d.Item().ID, twice)
			}
			got[d.Item().ID] = d.Item()
			mu.Unlock()
			if err := d.Ack(); err != nil {
				t.Errorf("ack: %v", err)
			}
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(pull)
	}
	wg.Wait()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delivered is not what was pushed:\n%s", diff)
	}
}

func queueAck(t *testing.T, b bus.Bus) {
	wait := ackWait(t, b)
	p := place()
	mustPush(t, b, newItem(p))
	d := mustPull(t, b, p)
	must(t, "ack", d.Ack())
	noPull(t, b, wait+wait/2, p)
	must(t, "return of what is acked", b.Return(within(t), d.Reply()))
	noPull(t, b, short, p)
}

func queueRedelivers(t *testing.T, b bus.Bus) {
	wait := ackWait(t, b)
	p := place()
	it := mustPush(t, b, newItem(p))
	for n := 1; n <= 3; n++ {
		begin := time.Now()
		d := mustPull(t, b, p)
		if d.Item().ID != it.ID || d.Deliveries() != n {
			t.Fatalf("delivery %d of item %s, want number %d of %s", d.Deliveries(), d.Item().ID, n, it.ID)
		}
		if took := time.Since(begin); n > 1 && took < wait/2 {
			t.Errorf("it came back after %v, before its time of %v", took, wait)
		}
	}
}

func queueExtend(t *testing.T, b bus.Bus) {
	wait := ackWait(t, b)
	p := place()
	mustPush(t, b, newItem(p))
	d := mustPull(t, b, p)
	none := lasting(t, 3*wait)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(wait / 4)
		defer tick.Stop()
		for {
			select {
			case <-none.Done():
				return
			case <-tick.C:
				if err := d.Extend(); err != nil {
					t.Errorf("extend: %v", err)
				}
			}
		}
	})
	if again, err := b.Pull(none, []string{p}); err == nil {
		t.Errorf("delivery %d of an item that is extended", again.Deliveries())
	}
	wg.Wait()
	if d := mustPull(t, b, p); d.Deliveries() != 2 {
		t.Errorf("delivery %d after the extensions ended, want 2", d.Deliveries())
	}
}

func queueNak(t *testing.T, b bus.Bus) {
	p := place()
	it := mustPush(t, b, newItem(p))
	for n := 1; n <= 5; n++ {
		d := mustPull(t, b, p)
		if d.Item().ID != it.ID || d.Deliveries() != n {
			t.Fatalf("delivery %d of item %s, want number %d of %s", d.Deliveries(), d.Item().ID, n, it.ID)
		}
		must(t, "nak", d.Nak(0))
	}
	wait := ackWait(t, b) // the item waits meanwhile, and nobody's time runs
	begin := time.Now()
	mustPull(t, b, p)
	if took := time.Since(begin); took >= wait {
		t.Errorf("an item that was given back came after %v", took)
	}
}

func queueNakDelay(t *testing.T, b bus.Bus) {
	p := place()
	mustPush(t, b, newItem(p))
	d := mustPull(t, b, p)
	const delay = 2 * time.Second
	begin := time.Now()
	must(t, "nak", d.Nak(delay))
	d = mustPull(t, b, p)
	if took := time.Since(begin); took < delay-10*time.Millisecond || d.Deliveries() != 2 {
		t.Errorf("delivery %d after %v, want the second after %v", d.Deliveries(), took, delay)
	}
	must(t, "ack", d.Ack())
}

func queueReturn(t *testing.T, b bus.Bus) {
	p := place()
	it := mustPush(t, b, newItem(p))
	d := mustPull(t, b, p)
	if d.Reply() == "" {
		t.Fatal("a delivery without a reply subject")
	}
	for n := 2; n <= 4; n++ {
		must(t, "return", b.Return(within(t), d.Reply()))
		d = mustPull(t, b, p)
		if d.Item().ID != it.ID || d.Deliveries() != n {
			t.Fatalf("delivery %d of item %s, want number %d of %s", d.Deliveries(), d.Item().ID, n, it.ID)
		}
	}
	must(t, "ack", d.Ack())
}

// queueRepeats holds a keeper to the window that it declares by a method
// DuplicateWindow. One that declares none promises only that no push is lost.
func queueRepeats(t *testing.T, b bus.Bus) {
	window := time.Duration(0)
	if w, ok := b.(interface{ DuplicateWindow() time.Duration }); ok {
		window = w.DuplicateWindow()
	}
	p := place()
	begin := time.Now()
	it := mustPush(t, b, newItem(p))
	mustPush(t, b, it)
	inside := time.Since(begin) < window
	must(t, "ack", mustPull(t, b, p).Ack())
	if inside {
		noPull(t, b, short, p)
	} else {
		t.Logf("the pushes took longer than the window of %v: only that none is lost was checked", window)
	}
	other := mustPush(t, b, newItem(p))
	for d := mustPull(t, b, p); d.Item().ID != other.ID; d = mustPull(t, b, p) {
		must(t, "ack", d.Ack())
	}
}

func queuePlacements(t *testing.T, b bus.Bus) {
	places := []string{place(), place(), place()}
	want := map[string]bool{}
	for _, p := range places {
		for range 2 {
			want[mustPush(t, b, newItem(p)).ID] = true
		}
	}
	for range 6 {
		d := mustPull(t, b, places...)
		if !want[d.Item().ID] || d.Deliveries() != 1 {
			t.Errorf("delivery %d of item %s", d.Deliveries(), d.Item().ID)
		}
		delete(want, d.Item().ID)
		must(t, "ack", d.Ack())
	}
	noPull(t, b, short, places...)
	other := mustPush(t, b, newItem(place()))
	noPull(t, b, short, places...)
	if d := mustPull(t, b, other.Placement); d.Item().ID != other.ID {
		t.Errorf("got item %s, want %s", d.Item().ID, other.ID)
	}
}

func queueDefault(t *testing.T, b bus.Bus) {
	it := mustPush(t, b, newItem(""))
	for {
		d := mustPull(t, b, events.DefaultPlacement)
		must(t, "ack", d.Ack())
		if d.Item().ID == it.ID {
			return
		}
	}
}

func queueEmpty(t *testing.T, b bus.Bus) {
	noPull(t, b, short, place(), place())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Pull(ctx, []string{place()}); err == nil {
		t.Error("a pull by nobody gives something")
	}
}

func queueGone(t *testing.T, b bus.Bus) {
	wait := ackWait(t, b)
	places := []string{place(), place()}
	for round := range 20 {
		ctx, cancel := context.WithCancel(within(t))
		type pulled struct {
			d   bus.Delivery
			err error
		}
		done := make(chan pulled, 1)
		go func() {
			d, err := b.Pull(ctx, places)
			done <- pulled{d, err}
		}()
		go cancel()
		it := mustPush(t, b, newItem(places[round%2]))
		first := <-done
		if first.err == nil { // the push was sooner
			must(t, "ack", first.d.Ack())
			continue
		}
		begin := time.Now()
		d := mustPull(t, b, places...)
		if d.Item().ID != it.ID {
			t.Fatalf("got item %s, want %s", d.Item().ID, it.ID)
		}
		if took := time.Since(begin); took >= wait-wait/8 {
			t.Errorf("round %d: the item of a caller who has gone came after %v: it was held, not given back", round, took)
		}
		must(t, "ack", d.Ack())
	}
}

func queuePrefetch(t *testing.T, b bus.Bus) {
	wait := ackWait(t, b)
	p := place()
	for range 4 {
		mustPush(t, b, newItem(p))
	}
	must(t, "ack", mustPull(t, b, p).Ack())
	aged := lasting(t, wait+wait/2)
	<-aged.Done() // whatever was fetched ahead has now come back by itself
	for range 3 {
		d := mustPull(t, b, p)
		if d.Deliveries() != 1 {
			t.Errorf("delivery %d of an item that nobody had asked for", d.Deliveries())
		}
		must(t, "ack", d.Ack())
	}
}

// pullWake pulls wake-ups until one is of the turn, and acks others.
func pullWake(ctx context.Context, b bus.Bus, turn events.TurnKey) (bus.Delivery, error) {
	for {
		d, err := b.PullWake(ctx)
		if err != nil || d.Item().Turn == turn {
			return d, err
		}
		if err := d.Ack(); err != nil {
			return nil, err
		}
	}
}

func mustWake(t *testing.T, b bus.Bus, turn events.TurnKey) bus.Delivery {
	t.Helper()
	d, err := pullWake(within(t), b, turn)
	must(t, "pull a wake-up", err)
	return d
}

// noWake fails if the turn is woken within d.
func noWake(t *testing.T, b bus.Bus, d time.Duration, turn events.TurnKey) {
	t.Helper()
	if got, err := pullWake(lasting(t, d), b, turn); err == nil {
		t.Fatalf("delivery %d of wake-up %s, want none", got.Deliveries(), got.Item().ID)
	}
}

func queueWake(t *testing.T, b bus.Bus) {
	p := place()
	it := newItem(p)
	it.Seq = 42
	must(t, "wake", b.Wake(within(t), it))
	noPull(t, b, short, p, events.DefaultPlacement)
	d := mustWake(t, b, it.Turn)
	if diff := cmp.Diff(it, d.Item()); diff != "" {
		t.Errorf("the wake-up is not what was sent:\n%s", diff)
	}
	must(t, "ack", d.Ack())

	pushed := mustPush(t, b, newItem(p))
	noWake(t, b, short, pushed.Turn)
	held := mustPull(t, b, p)
	second := newItem(p)
	must(t, "wake", b.Wake(within(t), second))
	must(t, "ack", mustWake(t, b, second.Turn).Ack())
	must(t, "ack", held.Ack())
}

func queueWakeAnswers(t *testing.T, b bus.Bus) {
	it := newItem("")
	must(t, "wake", b.Wake(within(t), it))
	d := mustWake(t, b, it.Turn)
	must(t, "nak", d.Nak(0))
	d = mustWake(t, b, it.Turn)
	must(t, "extend", d.Extend())
	must(t, "return", b.Return(within(t), d.Reply()))
	first := d.Reply()
	d = mustWake(t, b, it.Turn)
	if !d.Of(first) || !d.Of(d.Reply()) || d.Of("") {
		t.Errorf("%s of %s: want deliveries of one message to know each other", d.Reply(), first)
	}
	other := newItem("")
	must(t, "wake", b.Wake(within(t), other))
	if o := mustWake(t, b, other.Turn); o.Of(first) {
		t.Errorf("%s of %s: another message", o.Reply(), first)
	} else {
		must(t, "ack", o.Ack())
	}
	if d.Deliveries() != 3 {
		t.Errorf("delivery %d, want 3", d.Deliveries())
	}
	must(t, "ack", d.Ack())
	noWake(t, b, short, it.Turn)
}

func queueHeld(t *testing.T, b bus.Bus) {
	p := place()
	mine, done := mustPush(t, b, newItem(p)), newItem(p)
	d := mustPull(t, b, p)
	mustPush(t, b, done)
	must(t, "ack", mustPull(t, b, p).Ack())
	ctx := within(t)
	for { // an ack has no answer: it takes a moment
		seen := map[string]bool{}
		must(t, "held", b.Held(ctx, func(it bus.Item) error { seen[it.ID] = true; return nil }))
		if !seen[mine.ID] {
			t.Fatal("an item in hands was not seen")
		}
		if !seen[done.ID] {
			break
		}
	}
	must(t, "ack", d.Ack())
}

func queueOldest(t *testing.T, b bus.Bus) {
	p := place()
	_, err := b.Oldest(within(t), p)
	wantIs(t, "oldest of nothing", err, bus.ErrNotFound)
	first, second := mustPush(t, b, newItem(p)), mustPush(t, b, newItem(p))
	mustPush(t, b, newItem(place()))
	oldest := func() string {
		it, err := b.Oldest(within(t), p)
		must(t, "oldest", err)
		return it.ID
	}
	if got := oldest(); got != first.ID {
		t.Fatalf("oldest %s, want the one pushed first", got)
	}
	d := mustPull(t, b, p)
	if got := oldest(); got != first.ID {
		t.Fatalf("oldest %s while the first is in hands, want that", got)
	}
	must(t, "ack", d.Ack())
	for ctx := within(t); oldest() != second.ID; { // an ack has no answer: it takes a moment
		must(t, "the second to be the oldest", ctx.Err())
	}
	must(t, "ack", mustPull(t, b, p).Ack())
}
