package tools

import (
	"context"
	"sync"

	"github.com/sluice-run/sluice/events"
)

// Later returns how a tool tells what the other side answered in the end, once Run has
// returned without it: because ctx had ended, and nobody waits any more. Like Run's own
// return it is a result or an error. It becomes Options.Late's, as evidence that settles
// nothing; what is told BEFORE Run has returned waits until then. The first word counts,
// and the function may be called from any goroutine. A ctx that is not Execute's gives a
// function that does nothing.
func Later(ctx context.Context) func(events.Result, error) {
	a, ok := ctx.Value(laterKey{}).(*attempt)
	if !ok || a.o.Late == nil {
		return func(events.Result, error) {}
	}
	var once sync.Once
	return func(r events.Result, err error) {
		once.Do(func() {
			tier, known := a.tier.Load().(events.Tier)
			if !known {
				tier = events.Irreversible
			}
			report := a.report(ended{result: r, err: err, tier: tier, run: a.o.Now().Sub(a.began), told: a.board.read()})
			a.later.do(func() { a.o.Late(report) })
		})
	}
}

type laterKey struct{}

func withLater(ctx context.Context, a *attempt) context.Context {
	return context.WithValue(ctx, laterKey{}, a)
}

// afterwards holds what is to be done once an attempt has been reported.
type afterwards struct {
	mu   sync.Mutex
	come bool
	held []func()
}

func (w *afterwards) do(f func()) {
	w.mu.Lock()
	if !w.come {
		w.held = append(w.held, f)
		f = nil
	}
	w.mu.Unlock()
	if f != nil {
		f()
	}
}

func (w *afterwards) begin() {
	w.mu.Lock()
	held := w.held
	w.come, w.held = true, nil
	w.mu.Unlock()
	for _, f := range held {
		f()
	}
}
