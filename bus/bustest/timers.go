package bustest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
)

// clockSkew is how far the keeper's clock may be from the test's.
const clockSkew = 50 * time.Millisecond

var timerPromises = []Promise{
	{"P50 a timer wakes its turn once, and not before its time", timerFires},
	{"P51 a timer whose time has passed fires at once", timerPast},
	{"P52 a timer that is set again is replaced", timerReplaced},
	{"P53 a timer that is stopped does not fire", timerStopped},
}

func timerFires(t *testing.T, b bus.Bus) {
	it := newItem("")
	it.Seq = 7
	at := time.Now().Add(1500 * time.Millisecond)
	must(t, "set", b.Set(within(t), "timer-"+rand.Text(), at, it))
	d := mustWake(t, b, it.Turn)
	if early := time.Until(at); early > clockSkew {
		t.Errorf("it fires %v early", early)
	}
	if diff := cmp.Diff(it, d.Item()); diff != "" {
		t.Errorf("the item is not what was set:\n%s", diff)
	}
	must(t, "ack", d.Ack())
	noWake(t, b, 2*time.Second, it.Turn)
}

func timerPast(t *testing.T, b bus.Bus) {
	for _, ago := range []time.Duration{0, time.Second, 1000 * time.Hour} {
		it := newItem("")
		begin := time.Now()
		must(t, "set", b.Set(within(t), "timer-"+rand.Text(), begin.Add(-ago), it))
		must(t, "ack", mustWake(t, b, it.Turn).Ack())
		if took := time.Since(begin); took > patience/4 {
			t.Errorf("a time %v ago fires after %v", ago, took)
		}
	}
}

func timerReplaced(t *testing.T, b bus.Bus) {
	id := "timer-" + rand.Text()
	first, second := newItem(""), newItem("")
	second.Turn = first.Turn
	must(t, "set", b.Set(within(t), id, time.Now().Add(time.Second), first))
	at := time.Now().Add(2500 * time.Millisecond)
	must(t, "set again", b.Set(within(t), id, at, second))
	d := mustWake(t, b, first.Turn)
	if d.Item().ID != second.ID || time.Until(at) > clockSkew {
		t.Errorf("item %s fires %v before its time, want %s", d.Item().ID, time.Until(at), second.ID)
	}
	must(t, "ack", d.Ack())

	third := newItem("")
	must(t, "set", b.Set(within(t), id, time.Now().Add(time.Hour), first))
	must(t, "set to an earlier time", b.Set(within(t), id, time.Now(), third))
	must(t, "ack", mustWake(t, b, third.Turn).Ack())
	noWake(t, b, short, first.Turn)
}

func timerStopped(t *testing.T, b bus.Bus) {
	id := "timer-" + rand.Text()
	must(t, "stop of a timer that does not exist", b.Stop(within(t), id))
	it := newItem("")
	must(t, "set", b.Set(within(t), id, time.Now().Add(time.Second), it))
	must(t, "stop", b.Stop(within(t), id))
	must(t, "stop again", b.Stop(within(t), id))
	noWake(t, b, 2500*time.Millisecond, it.Turn)
}
