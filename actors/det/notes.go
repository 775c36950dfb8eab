package det

import (
	"context"
	"fmt"

	"github.com/sluice-run/sluice/bus"
)

// desk is where a boot answers.
type desk struct {
	b         *Bus
	news      chan struct{} // room for one: somebody asks
	questions []*question
}

type question struct {
	data   []byte
	answer []byte
	done   chan struct{} // closed once the answer has come
}

// Ask is bus.Notes'. The answer is made by a task of the boot that is asked: one that
// stands still does not answer, and one that is cut off is not reached.
func (b *Bus) Ask(ctx context.Context, boot string, data []byte) (answer []byte, err error) {
	err = b.call(ctx, "ask", func() error {
		answer, err = b.ask(ctx, boot, data)
		return err
	}, bus.ErrUnavailable)
	return answer, err
}

func (b *Bus) ask(ctx context.Context, boot string, data []byte) ([]byte, error) {
	d := b.m.w.desks[boot]
	switch {
	case b.cut, d == nil, d.b.m.dead, d.b.cut:
		return nil, fmt.Errorf("ask %s: %w: nobody answers for it", boot, bus.ErrUnavailable)
	}
	q := &question{data: append([]byte{}, data...), done: make(chan struct{})}
	d.questions = append(d.questions, q)
	select {
	case d.news <- struct{}{}:
	default:
	}
	if b.m.Wait(0, q.done, ctx.Done()) != 0 {
		return nil, ctx.Err()
	}
	return q.answer, nil
}

// Serve is bus.Notes'.
func (b *Bus) Serve(ctx context.Context, boot string, answer func([]byte) []byte) error {
	if b.m.dead {
		return b.gone()
	}
	d := &desk{b: b, news: make(chan struct{}, 1)}
	b.m.w.desks[boot] = d
	defer func() {
		if b.m.w.desks[boot] == d {
			delete(b.m.w.desks, boot)
		}
	}()
	for {
		if b.m.Wait(0, ctx.Done(), d.news) == 0 {
			return fmt.Errorf("answer for %s: %w", boot, ctx.Err())
		}
		asked := d.questions
		d.questions = nil
		for _, q := range asked {
			a := answer(q.data)
			if !b.cut { // otherwise nobody hears it
				q.answer = append([]byte{}, a...)
				close(q.done)
			}
		}
	}
}
