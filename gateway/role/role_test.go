package role_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/gateway/role"
	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestOneHasIt: of several nodes one works at a time, and when it goes another one does.
func TestOneHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{}).View("one")
		defer func() { _ = log.Close() }()
		var at atomic.Int32
		var mu sync.Mutex
		var order []string
		begin := func(name string) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				role.Role{Cells: log.Cells(), Name: "task", Holder: name}.Run(ctx, func(ctx context.Context) error {
					if at.Add(1) > 1 {
						t.Error("two work at once")
					}
					defer at.Add(-1)
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
					<-ctx.Done()
					return ctx.Err()
				})
			})
			return func() { cancel(); wg.Wait() }
		}
		stopA := begin("a")
		synctest.Wait()
		stopB := begin("b")
		time.Sleep(time.Hour) // a renews
		stopA()
		time.Sleep(10 * time.Second) // b looks every third of the lease
		stopB()
		if got := fmt.Sprint(order); got != "[a b]" {
			t.Errorf("worked: %s", got)
		}
		if _, err := log.Cells().Get(t.Context(), bus.BucketLock, "task"); !errors.Is(err, bus.ErrNotFound) {
			t.Errorf("the role was not given back: %v", err)
		}
	})
}

// TestALostLeaseEndsTheWork, as does one that somebody else has taken.
func TestALostLeaseEndsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{}).View("one")
		defer func() { _ = log.Close() }()
		ctx, cancel := context.WithCancel(t.Context())
		var ended atomic.Int32
		var wg sync.WaitGroup
		wg.Go(func() {
			role.Role{Cells: log.Cells(), Name: "task", Holder: "a"}.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				ended.Add(1)
				return errors.New("cut off")
			})
		})
		synctest.Wait()
		cell, err := log.Cells().Get(ctx, bus.BucketLock, "task")
		if err != nil || string(cell.Value) != "a" {
			t.Fatalf("%+v, %v", cell, err)
		}
		if _, err := log.Cells().Put(ctx, bus.BucketLock, "task", []byte("b"), cell.Revision, time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if ended.Load() != 1 {
			t.Errorf("the work ended %d times", ended.Load())
		}
		cancel()
		wg.Wait()
		if cell, err := log.Cells().Get(t.Context(), bus.BucketLock, "task"); err != nil || string(cell.Value) != "b" {
			t.Errorf("the other one's lease: %+v, %v", cell, err)
		}
	})
}
