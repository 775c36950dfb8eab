// Package bustest is the suite of promises that every keeper of a bus.Bus
// passes. A keeper that fails one is no keeper.
package bustest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// patience is how long a promise waits for a fact. It is long because a fact may
// have to wait for an election; a keeper that is well never uses it up.
const patience = time.Minute

// short is how long a promise watches that something does not happen.
const short = 300 * time.Millisecond

// Promise is one thing that a keeper must do.
type Promise struct {
	// Name begins with the promise's number.
	Name string
	// Check fails t if b breaks the promise. It uses names of its own, so that
	// it may run on a bus that was used before, but not beside another check.
	Check func(t *testing.T, b bus.Bus)
}

// Promises are all of them, in the order of their numbers.
func Promises() []Promise {
	var all []Promise
	for _, group := range [][]Promise{
		logPromises, tailPromises, queuePromises, timerPromises, cellPromises, blobPromises, livePromises, doorPromises, workerPromises, measurePromises,
	} {
		all = append(all, group...)
	}
	return all
}

// Run checks each promise in a subtest of its own, on what open returns, and
// closes that bus afterwards. A keeper may be opened anew each time or return
// the same bus with a Close that does nothing. What a promise needs to know of
// time, such as the wait before a redelivery, it measures; the shorter the
// keeper's, the shorter the run.
func Run(t *testing.T, open func(t *testing.T) bus.Bus) {
	for _, p := range Promises() {
		t.Run(p.Name, func(t *testing.T) { Check(t, p, open) })
	}
}

// Check checks one promise in t itself, for tests that have something to put
// around it, such as a clock.
func Check(t *testing.T, p Promise, open func(t *testing.T) bus.Bus) {
	t.Helper()
	b := open(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	p.Check(t, b)
}

// within is a context for one fact.
func within(t *testing.T) context.Context {
	t.Helper()
	return lasting(t, patience)
}

// lasting is a context that ends after d, or with the test.
func lasting(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// newTurn is a turn that nobody else uses.
func newTurn() events.TurnKey {
	return events.TurnKey{Trace: "tr-" + rand.Text(), Turn: "tu-" + rand.Text()}
}

// newCommit is a commit of n progress events from number first on.
func newCommit(turn events.TurnKey, first uint32, n int) events.Commit {
	c := events.Commit{
		ID: "c-" + rand.Text(), Turn: turn, By: events.Owner{Boot: "boot-1", Epoch: 3},
		At: time.Date(2026, 5, 4, 3, 2, 1, 987_654_321, time.UTC),
	}
	for i := range n {
		c.Records = append(c.Records, events.Record{
			Call: i % 3, Seq: first + uint32(i), Event: &events.Progress{Attempt: 1, Text: c.ID, Done: float64(i)},
		})
	}
	return c
}

// mustAppend appends a commit of n events and returns it as stored.
func mustAppend(t *testing.T, b bus.Bus, turn events.TurnKey, at uint64, n int) bus.Stored {
	t.Helper()
	s, err := b.Append(within(t), newCommit(turn, 1, n), at)
	if err != nil {
		t.Fatalf("append at %d: %v", at, err)
	}
	return s
}

// wantIs fails unless err is target.
func wantIs(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: got error %v, want %v", what, err, target)
	}
}

// must fails if err is not nil.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
