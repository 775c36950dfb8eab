package memlog

import (
	"cmp"
	"container/heap"
	"context"
	"time"
)

// appointment is something that happens by itself at a time. It may have become
// void since it was made: its settle function looks.
type appointment struct {
	at     time.Time
	rank   uint64 // ties are settled in the order they were made
	settle func()
	void   func() bool
}

// agenda is a heap of appointments, earliest first.
type agenda struct {
	list []appointment
	made uint64
}

func (a *agenda) Len() int { return len(a.list) }
func (a *agenda) Less(i, j int) bool {
	return cmp.Or(a.list[i].at.Compare(a.list[j].at), cmp.Compare(a.list[i].rank, a.list[j].rank)) < 0
}
func (a *agenda) Swap(i, j int) { a.list[i], a.list[j] = a.list[j], a.list[i] }
func (a *agenda) Push(x any)    { a.list = append(a.list, x.(appointment)) }

func (a *agenda) Pop() any {
	last := a.list[len(a.list)-1]
	a.list[len(a.list)-1] = appointment{}
	a.list = a.list[:len(a.list)-1]
	return last
}

func (a *agenda) add(at time.Time, void func() bool, settle func()) {
	a.made++
	heap.Push(a, appointment{at: at, rank: a.made, settle: settle, void: void})
}

// next is the time of the earliest appointment that still stands.
func (a *agenda) next() (time.Time, bool) {
	for len(a.list) > 0 {
		if !a.list[0].void() {
			return a.list[0].at, true
		}
		heap.Pop(a)
	}
	return time.Time{}, false
}

// settle lets happen what has fallen due. The lock is held.
func (l *Log) settle() {
	now := l.now()
	for {
		at, ok := l.due.next()
		if !ok || at.After(now) {
			return
		}
		heap.Pop(&l.due).(appointment).settle()
		l.announce()
	}
}

// wait calls try, with the lock held, until it is done, the node is cut off, or
// ctx ends; between calls it waits for a change or, by the real clock, for what
// falls due next.
func (v *View) wait(ctx context.Context, try func() (done bool)) error {
	if v.waits != nil {
		return v.waits(ctx, func() (bool, error) {
			if err := v.enter(ctx); err != nil {
				return false, err
			}
			defer v.log.mu.Unlock()
			return try(), nil
		})
	}
	for {
		if err := v.enter(ctx); err != nil {
			return err
		}
		if try() {
			v.log.mu.Unlock()
			return nil
		}
		changed := v.log.change()
		at, ok := v.log.due.next()
		ok = ok && v.log.real
		in := at.Sub(v.log.now())
		v.log.mu.Unlock()
		if err := pause(ctx, changed, in, ok); err != nil {
			return err
		}
	}
}

// pause waits for a change, for ctx, or, if timed, for a duration.
func pause(ctx context.Context, changed <-chan struct{}, in time.Duration, timed bool) error {
	var rings <-chan time.Time
	if timed {
		t := time.NewTimer(in)
		defer t.Stop()
		rings = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-rings:
	}
	return nil
}
