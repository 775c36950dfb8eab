package memlog

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/sluice-run/sluice/bus"
)

// maxUnheard is how many live events wait for one listener before it misses some.
const maxUnheard = 1 << 16

// ear is a listener and what it has not heard yet.
type ear struct {
	view    *View
	pattern []string
	unheard []told
}

type told struct {
	subject string
	body    []byte
}

// Publish is bus.Live's.
func (v *View) Publish(ctx context.Context, s bus.Stored, tools map[int]string) error {
	var all []told
	for i, r := range s.Commit.Records {
		body, err := bus.CloudEvent(s, i, tools[r.Call])
		if err != nil {
			return fmt.Errorf("tell live of commit %s: %w", s.Commit.ID, err)
		}
		for _, subject := range bus.LiveSubjects(r.Event, tools[r.Call], s.Commit.Turn, r.Call) {
			all = append(all, told{subject, body})
		}
	}
	if err := v.enter(ctx); err != nil {
		return fmt.Errorf("tell live of commit %s: %w", s.Commit.ID, err)
	}
	defer v.log.mu.Unlock()
	for e := range v.log.ears {
		e.hear(all)
	}
	v.log.announce()
	return nil
}

// Wanted is bus.Live's. A memory log's barrier costs nothing worth sparing.
func (v *View) Wanted(bus.Stored, map[int]string) bool { return true }

// hear keeps what matches. A listener that is cut off hears nothing.
func (e *ear) hear(all []told) {
	for _, t := range all {
		if !e.view.cut && len(e.unheard) < maxUnheard && matches(e.pattern, strings.Split(t.subject, ".")) {
			e.unheard = append(e.unheard, t)
		}
	}
}

// matches says whether a subject's tokens match a pattern's: * is any one, > is
// one or more at the end.
func matches(pattern, subject []string) bool {
	for i, p := range pattern {
		switch {
		case i >= len(subject):
			return false
		case p == ">":
			return i == len(pattern)-1
		case p != "*" && p != subject[i]:
			return false
		}
	}
	return len(pattern) == len(subject)
}

// Listen is bus.Live's.
func (v *View) Listen(ctx context.Context, pattern string, yield func(subject string, cloudEvent []byte)) error {
	e := &ear{view: v, pattern: strings.Split(bus.LivePrefix+pattern, ".")}
	if err := v.enter(ctx); err != nil {
		return fmt.Errorf("listen to %s: %w", pattern, err)
	}
	v.log.ears[e] = struct{}{}
	v.log.mu.Unlock()
	defer func() {
		v.log.mu.Lock()
		defer v.log.mu.Unlock()
		delete(v.log.ears, e)
	}()
	for {
		var news []told
		err := v.wait(ctx, func() bool {
			news, e.unheard = e.unheard, nil
			return len(news) > 0
		})
		if err != nil {
			return fmt.Errorf("listen to %s: %w", pattern, err)
		}
		for _, n := range news {
			yield(n.subject, n.body)
		}
	}
}

// desk is where a boot answers.
type desk struct {
	view   *View
	mu     sync.Mutex // one question at a time; taken without the log's lock
	closed bool
	answer func([]byte) []byte
}

// Ask is bus.Notes'. The answer is made in the caller's goroutine.
func (v *View) Ask(ctx context.Context, boot string, data []byte) ([]byte, error) {
	if err := v.enter(ctx); err != nil {
		return nil, fmt.Errorf("ask %s: %w", boot, err)
	}
	d := v.log.desks[boot]
	served := d != nil && d.view.reachable() == nil
	v.log.mu.Unlock()
	if served {
		d.mu.Lock()
		defer d.mu.Unlock()
		served = !d.closed
	}
	if !served {
		return nil, fmt.Errorf("ask %s: %w: nobody answers for it", boot, bus.ErrUnavailable)
	}
	return append([]byte{}, d.answer(append([]byte{}, data...))...), nil
}

// Serve is bus.Notes'.
func (v *View) Serve(ctx context.Context, boot string, answer func([]byte) []byte) error {
	stop, err := v.Answer(ctx, boot, answer)
	if err != nil {
		return err
	}
	defer stop()
	if err := v.wait(ctx, func() bool { return false }); err != nil {
		return fmt.Errorf("answer for %s: %w", boot, err)
	}
	return nil
}

// Answer is Serve for whoever must not wait: it returns at once, and the boot
// is served until stop is called. answer runs in the goroutine that asks. stop
// waits for an answer that is being made.
func (v *View) Answer(ctx context.Context, boot string, answer func([]byte) []byte) (stop func(), err error) {
	d := &desk{view: v, answer: answer}
	if err := v.enter(ctx); err != nil {
		return nil, fmt.Errorf("answer for %s: %w", boot, err)
	}
	v.log.desks[boot] = d
	v.log.mu.Unlock()
	return func() {
		v.log.mu.Lock()
		if v.log.desks[boot] == d {
			delete(v.log.desks, boot)
		}
		v.log.mu.Unlock()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.closed = true
	}, nil
}
