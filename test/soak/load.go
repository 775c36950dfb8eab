package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Time limits of requests.
const (
	waitLimit  = 5 * time.Second        // that a node is asked to wait for a turn's end
	soonLimit  = 5 * time.Second        // for an answer that needs no waiting
	inboxPause = 400 * time.Millisecond // between looks at what waits for a person
	maxOpen    = 400                    // turns at once; the load waits beyond
)

// load submits turns at a steady pace, and sees each to its end. It remembers each
// call for the verdict, in some 300 bytes.
type load struct {
	mix  mix
	door *door
	gap  time.Duration // between two turns

	mu       sync.Mutex
	o        *outcome
	open     map[string]bool           // trace/turn of those that have not ended
	ended    int                       // calls, since the last look
	retained int                       // calls, all told
	took     []float64                 // seconds of the turns that ended since the last look
	troubles int                       // since the last look
	unknown  int                       // calls, since the last look
	turns    map[string]int            // by kind
	states   map[string]map[string]int // calls, by their turn's kind and how they ended
}

func newLoad(seed uint64, d *door, rate float64) *load {
	return &load{
		mix: mix{seed}, door: d, gap: time.Duration(float64(time.Second) / rate), open: map[string]bool{},
		o:     &outcome{calls: map[string]string{}, answers: map[string]answer{}},
		turns: map[string]int{}, states: map[string]map[string]int{},
	}
}

// run submits turns until submit is done, and returns when all have ended or ctx is done.
func (l *load) run(ctx, submit context.Context) {
	var wg sync.WaitGroup
	answering, stop := context.WithCancel(ctx)
	var person sync.WaitGroup
	person.Go(func() { l.person(answering) })
	tick := time.NewTicker(l.gap)
	defer tick.Stop()
	room := make(chan struct{}, maxOpen)
	for n := 0; submit.Err() == nil; n++ {
		select {
		case room <- struct{}{}:
			p := l.begin(n)
			wg.Go(func() {
				defer func() { <-room }()
				l.turn(ctx, p)
			})
		case <-submit.Done():
		}
		select {
		case <-tick.C:
		case <-submit.Done():
		}
	}
	wg.Wait()
	stop()
	person.Wait()
}

// begin notes a turn that is about to be submitted.
func (l *load) begin(n int) plan {
	p := l.mix.plan(n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns[p.kind]++
	if l.states[p.kind] == nil {
		l.states[p.kind] = map[string]int{}
	}
	l.open[p.key()] = true
	for i, c := range p.Calls {
		l.o.calls[p.callKey(i)] = c.Tool
	}
	return p
}

// turn submits one turn, does what is planned with it, and sees it to its end.
func (l *load) turn(ctx context.Context, p plan) {
	began := time.Now()
	if p.cancel > 0 || p.again {
		if !l.submit(ctx, p, 0) {
			return
		}
	}
	if p.cancel > 0 {
		pause(ctx, p.cancel)
		if _, ok := l.ask(ctx, p.key()+" cancel", http.MethodPost, "/v1/turns/"+p.key()+"/cancel", nil, http.StatusOK, http.StatusAccepted); !ok {
			return
		}
	}
	if !l.submit(ctx, p, waitLimit) {
		return
	}
	r, ok := l.ask(ctx, p.key()+" view", http.MethodGet, "/v1/turns/"+p.key(), nil, http.StatusOK)
	if ok {
		l.end(p, r.body, time.Since(began))
	}
}

// submit submits the turn, which attaches to it from the second time on, until it
// has ended, or where wait is 0 until it is accepted.
func (l *load) submit(ctx context.Context, p plan, wait time.Duration) bool {
	t := p.turn
	t.WaitMS = int(wait.Milliseconds())
	for {
		r, ok := l.ask(ctx, p.key()+" submit", http.MethodPost, "/v1/turns", t, http.StatusOK, http.StatusAccepted)
		if !ok || wait == 0 || r.status == http.StatusOK {
			return ok
		}
	}
}

// ask insists on an answer with one of the statuses. Any other one is noted.
func (l *load) ask(ctx context.Context, what, method, path string, body any, want ...int) (reply, bool) {
	r, err := l.door.insist(ctx, waitLimit+soonLimit, l.trouble, method, path, body)
	if err != nil {
		return r, false // ctx is done: the turn stays open
	}
	if !slices.Contains(want, r.status) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.o.refused = append(l.o.refused, fmt.Sprintf("%s: %d %.300s", what, r.status, r.body))
		return r, false
	}
	return r, true
}

func (l *load) trouble() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.troubles++
}

// view is a turn as a node shows it.
type view struct {
	State string
	Calls []struct{ State, Effects string }
}

// end notes how a turn has ended.
func (l *load) end(p plan, body []byte, took time.Duration) {
	var v view
	err := json.Unmarshal(body, &v)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || len(v.Calls) != len(p.Calls) {
		l.o.refused = append(l.o.refused, fmt.Sprintf("%s: %d calls in its view, %d were submitted, %v", p.key(), len(v.Calls), len(p.Calls), err))
		return
	}
	delete(l.open, p.key())
	l.ended += len(v.Calls)
	l.retained += len(v.Calls)
	if p.kind != "never answered" { // its time is the person's
		l.took = append(l.took, took.Seconds())
	}
	for i, c := range v.Calls {
		l.o.answers[p.callKey(i)] = answer{c.State, c.Effects}
		l.states[p.kind][c.State]++
		if c.State == "unknown" || c.Effects == "possible" {
			l.unknown++
		}
	}
}

// person answers what is asked, as the plans say.
func (l *load) person(ctx context.Context) {
	said := map[string]bool{}
	for pause(ctx, inboxPause) {
		r, err := l.door.ask(ctx, soonLimit, http.MethodGet, "/v1/approvals", nil)
		if err != nil || r.status != http.StatusOK {
			continue
		}
		var inbox struct {
			Approvals []struct {
				Call struct {
					Trace, Turn string
					Call        int
				}
				Hash string `json:"args_hash"`
			}
		}
		if json.Unmarshal(r.body, &inbox) != nil {
			continue
		}
		for _, a := range inbox.Approvals {
			path := fmt.Sprintf("/v1/turns/%s/%s/calls/%d/", a.Call.Trace, a.Call.Turn, a.Call.Call)
			n, ours := l.mix.number(a.Call.Trace, a.Call.Turn)
			say := l.mix.plan(n).say
			if !ours || say == sayNothing || said[path] {
				continue
			}
			body := map[string]string{"principal": "ann"}
			if say == sayYes {
				body["args_hash"] = a.Hash
			}
			r, err := l.door.ask(ctx, soonLimit, http.MethodPost, path+say, body)
			said[path] = err == nil && !r.passing() // else at the next look, if it still asks then
		}
	}
}

// look puts what the load has measured since the last look into a sample.
func (l *load) look(into map[string]float64, since time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	into[loadOpen], into[loadEnded], into[loadRetained] = float64(len(l.open)), float64(l.ended), float64(l.retained)
	into[loadErrors], into[loadUnknown] = float64(l.troubles), float64(l.unknown)
	if since > 0 {
		into[loadRate] = float64(l.ended) / since.Seconds()
	}
	if len(l.took) > 0 {
		into[loadP50], into[loadP99] = quantile(l.took, 0.5), quantile(l.took, 0.99)
	}
	l.ended, l.troubles, l.unknown, l.took = 0, 0, 0, nil
}

// result is what the load knows at the end.
func (l *load) result() *outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.open {
		l.o.unended = append(l.o.unended, key+" has not ended")
	}
	slices.Sort(l.o.unended)
	return l.o
}
