//go:build faults

// A node that is built with the tag faults can be told to stop at one place of one
// turn's way, for good: a test then kills it there, and knows what had happened. It
// has tools that write down what they do, too. Such a build is for tests alone.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// The environment of a build with faults. Each may be left out.
const (
	faultVar  = "SLUICE_TEST_FAULT"   // where to stop: a trace, a blank, and a point such as append:before:started:0
	haltVar   = "SLUICE_TEST_HALT"    // file that is made when the process has stopped there
	recordVar = "SLUICE_TEST_RECORD"  // file of the points that were passed, one JSON object a line
	effectVar = "SLUICE_TEST_EFFECTS" // file that the trial tools write their effects to; without it they are not there
)

// Sides of an operation. Killed on the near side it was never asked for; on the far
// side it was done, and nobody in this process has heard of it. An append that was
// not kept has a side of its own.
const (
	sideNear = "before"
	sideFar  = "after"
	sideNot  = "refused"
)

// point is a place on a turn's way.
type point struct {
	Turn string `json:"turn"`           // trace/turn
	Op   string `json:"op"`             // append, push, put, tool, …
	Side string `json:"side"`           // before, after or refused
	What string `json:"what,omitempty"` // what it is about: started:0, keys, …
	Nth  int    `json:"nth"`            // how often this process has come by, 1 for the first time
}

// name is how a fault names the point.
func (p point) name() string {
	out := p.Op + ":" + p.Side
	if p.What != "" {
		out += ":" + p.What
	}
	if p.Nth > 1 {
		out += fmt.Sprintf("#%d", p.Nth)
	}
	return out
}

// passage is one operation on its way past a point, or past several at once: a commit
// is at the point of each of its events.
type passage struct {
	Points []point `json:"points"`
	Seq    uint64  `json:"seq,omitempty"` // of a commit that was kept
}

// hook stops the process at its fault, and writes down what comes by.
type hook struct {
	trace, fault string // "" for nowhere
	halt         string

	mu     sync.Mutex
	record *os.File // nil for none
	seen   map[string]int
	turns  map[string]bool // that were named here
	last   string          // the turn that was appended to last
	told   map[events.CallKey]chan struct{}
}

func newHook() (*hook, error) {
	h := &hook{halt: os.Getenv(haltVar), seen: map[string]int{}, turns: map[string]bool{}, told: map[events.CallKey]chan struct{}{}}
	if fault := os.Getenv(faultVar); fault != "" {
		var ok bool
		if h.trace, h.fault, ok = strings.Cut(fault, " "); !ok || h.halt == "" {
			return nil, fmt.Errorf("%s is %q: want a trace, a blank and a point, and %s beside it", faultVar, fault, haltVar)
		}
	}
	path := os.Getenv(recordVar)
	if path == "" {
		return h, nil
	}
	var err error
	h.record, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return h, err
}

// hooked are the log and the tools with hooks around them.
func hooked(b bus.Bus, r *tools.Registry) (bus.Bus, *tools.Registry, error) {
	h, err := newHook()
	if err != nil {
		return nil, nil, err
	}
	list := r.List()
	if path := os.Getenv(effectVar); path != "" {
		more, err := h.trials(path)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, more...)
	}
	for i := range list {
		list[i] = h.around(list[i])
	}
	r, err = tools.NewRegistry(list...)
	return &hookedBus{Bus: b, h: h}, r, err
}

// pass is called where an operation of a turn begins and where it has been done. It
// does not return where the process has to stop. what may be empty: then there is one
// point.
func (h *hook) pass(turn, op, side string, seq uint64, what ...string) {
	if len(what) == 0 {
		what = []string{""}
	}
	h.mu.Lock()
	here, hit := passage{Seq: seq}, ""
	h.turns[turn] = true
	for _, w := range what {
		p := point{Turn: turn, Op: op, Side: side, What: w}
		at := turn + " " + p.name()
		h.seen[at]++
		p.Nth = h.seen[at]
		here.Points = append(here.Points, p)
		if h.fault != "" && p.name() == h.fault && strings.HasPrefix(turn, h.trace+"/") {
			hit = p.name()
		}
	}
	err := h.write(here)
	if hit != "" {
		h.fault = "" // for whoever comes by now: one stops
	}
	h.mu.Unlock()
	if err != nil {
		panic(fmt.Sprintf("the record cannot be written: %v", err)) // a test that goes on would prove nothing
	}
	if hit != "" {
		h.stop(turn + " " + hit)
	}
}

// write adds a line to the record.
func (h *hook) write(p passage) error {
	if h.record == nil {
		return nil
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = h.record.Write(append(b, '\n'))
	return err
}

// stop says where the process stands, and never returns.
func (h *hook) stop(at string) {
	tmp := h.halt + ".new"
	if err := errors.Join(os.WriteFile(tmp, []byte(at), 0o644), os.Rename(tmp, h.halt)); err != nil {
		panic(fmt.Sprintf("nobody can be told of the stop: %v", err))
	}
	select {}
}

// owner is the turn that a cell's value or a key of it names, "" where it names none
// that has come by.
func (h *hook) owner(text string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := ""
	for turn := range h.turns {
		if strings.Contains(text, turn) && (found == "" || turn < found) {
			found = turn
		}
	}
	return found
}

// appended remembers whose commit was kept last, and tells trial tools of progress.
func (h *hook) appended(s bus.Stored) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = s.Commit.Turn.String()
	for _, r := range s.Commit.Records {
		if r.Event.Kind() == events.KindProgress {
			select {
			case h.progress(s.Commit.Turn.Call(r.Call)) <- struct{}{}:
			default: // it has been told of an earlier one
			}
		}
	}
}

// rests says that the turn has ended here, or waits: barriers are not for it any more.
func (h *hook) rests(turn string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == turn {
		h.last = ""
	}
}

// progress is the channel on which a call's tool hears that its progress is in the
// log. The caller holds mu.
func (h *hook) progress(call events.CallKey) chan struct{} {
	c := h.told[call]
	if c == nil {
		c = make(chan struct{}, 1)
		h.told[call] = c
	}
	return c
}

// lastTurn is the turn that was appended to last, "" for none.
func (h *hook) lastTurn() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}
