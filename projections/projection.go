// Package projections holds pure folds of the log: what the model is told, what
// happened when, what waits for a person, what was used. Each has a version: a
// new one means that whatever was kept of it must be rebuilt.
//
// Nothing here has a clock, does I/O, or asks a registry. A fold belongs to one
// goroutine at a time.
package projections

import (
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Event is one event at its place in the log.
type Event struct {
	Pos    events.Position
	Turn   events.TurnKey
	At     time.Time // of its commit, UTC
	By     events.Owner
	Commit string // id
	events.Record
}

// Kind is the event's stored name.
func (e Event) Kind() events.Kind { return e.Event.Kind() }

// Events are the events of a commit that stands at seq of the generation, in order.
func Events(generation uint32, seq uint64, c events.Commit) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for i, r := range c.Records {
			e := Event{
				Pos:  events.Position{Generation: generation, Seq: seq, Index: i},
				Turn: c.Turn, At: c.At.UTC(), By: c.By, Commit: c.ID, Record: r,
			}
			if !yield(e) {
				return
			}
		}
	}
}

// Projection is a view: a fold with a version.
type Projection[S any] struct {
	Name    string
	Version int // from 1; a new one whenever the same events give another state
	// Init is the state before any event.
	Init func() S
	// Apply is the state after one more event. It is total: kinds of a newer
	// release change nothing that is built upon. It may change and return s, so
	// the old s must not be used again. States survive a trip through JSON.
	Apply func(s S, e Event) S
}

// Fold is the state after the events, in order.
func (p Projection[S]) Fold(evs iter.Seq[Event]) S {
	s := p.Init()
	for e := range evs {
		s = p.Apply(s, e)
	}
	return s
}

// View is a projection whose state's type is hidden, so that all can be kept alike.
type View struct {
	Name    string
	Version int
	// New goes on from a state that Folder.State gave, as JSON; nil means from
	// the start. It fails if the JSON is not such a state.
	New func(state json.RawMessage) (Folder, error)
}

// Folder folds one view.
type Folder interface {
	// Add folds one more event.
	Add(Event)
	// State is the state as it is now. It changes with the next Add: marshal it first.
	State() any
}

// View hides the type of p's state.
func (p Projection[S]) View() View {
	return View{Name: p.Name, Version: p.Version, New: func(state json.RawMessage) (Folder, error) {
		f := &folder[S]{p: p, s: p.Init()}
		if state != nil {
			if err := json.Unmarshal(state, &f.s); err != nil {
				return nil, fmt.Errorf("state of %s, version %d: %w: build it anew", p.Name, p.Version, err)
			}
		}
		return f, nil
	}}
}

type folder[S any] struct {
	p Projection[S]
	s S
}

func (f *folder[S]) Add(e Event) { f.s = f.p.Apply(f.s, e) }

func (f *folder[S]) State() any { return f.s }
