package jetlog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhoComesDuringASyncWaitsForTheNext counts syncs by a virtual clock.
func TestWhoComesDuringASyncWaitsForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var syncs atomic.Int32
		g := newGroup(func() error {
			syncs.Add(1)
			time.Sleep(time.Second) // the virtual disk
			return nil
		})
		defer g.close()
		begin := time.Now()
		var wg sync.WaitGroup
		wait := func(want time.Duration) {
			wg.Go(func() {
				if err := g.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(begin); took != want {
					t.Errorf("it waited until %v, want %v", took, want)
				}
			})
		}
		wait(time.Second)
		synctest.Wait()
		for range 100 {
			wait(2 * time.Second) // the running sync may have passed their writes
		}
		wg.Wait()
		if n := syncs.Load(); n != 2 {
			t.Errorf("%d syncs, want 2: those who wait share one", n)
		}
	})
}

func TestAFailedSyncIsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("input/output error")
		var syncs atomic.Int32
		g := newGroup(func() error {
			syncs.Add(1)
			time.Sleep(time.Second)
			return broken
		})
		defer g.close()
		var wg sync.WaitGroup
		wait := func() {
			wg.Go(func() {
				if err := g.Wait(t.Context()); !errors.Is(err, broken) {
					t.Errorf("got error %v, want %v", err, broken)
				}
			})
		}
		wait()
		synctest.Wait()
		wait() // would have waited for the next one
		select {
		case <-g.failed:
			t.Error("failed before the sync ended")
		default:
		}
		wg.Wait()
		<-g.failed
		wait()
		wg.Wait()
		if n := syncs.Load(); n != 1 {
			t.Errorf("%d syncs: after the first failure nothing can be promised by another", n)
		}
	})
}

func TestBarrierEndsWithItsCallerAndItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(func() error { time.Sleep(time.Second); return nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
		g.close()
		if err := g.Wait(t.Context()); err == nil {
			t.Error("a barrier that is closed promises something")
		}
	})
}

// disk is a folder of message blocks that a test writes as the server does.
type disk struct {
	t      *testing.T
	files  *files
	mu     sync.Mutex
	synced map[string]int64 // size of each block when it was last synced
}

func newDisk(t *testing.T) *disk {
	store := t.TempDir()
	d := &disk{t: t, files: newFiles(store, []string{"S", "T"}), synced: map[string]int64{}}
	d.files.flush = func(f *os.File) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.synced[filepath.Base(filepath.Dir(filepath.Dir(f.Name())))+"/"+filepath.Base(f.Name())] = info.Size()
		return nil
	}
	t.Cleanup(d.files.close)
	return d
}

func (d *disk) write(block string, bytes int) {
	d.t.Helper()
	stream, name := filepath.Split(block)
	folder := filepath.Join(d.files.root, stream, "msgs")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		d.t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, bytes)); err != nil {
		d.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		d.t.Fatal(err)
	}
}

// sync syncs, and fails unless exactly these blocks were synced, at these sizes.
func (d *disk) sync(want map[string]int64) {
	d.t.Helper()
	clear(d.synced)
	if err := d.files.sync(); err != nil {
		d.t.Fatal(err)
	}
	for name, size := range want {
		if got, ok := d.synced[name]; !ok || got != size {
			d.t.Errorf("%s was synced at %d bytes (%v), want %d", name, got, ok, size)
		}
	}
	for name := range d.synced {
		if _, ok := want[name]; !ok {
			d.t.Errorf("%s was synced for nothing", name)
		}
	}
}

func TestASyncCoversWhatWasWritten(t *testing.T) {
	d := newDisk(t)
	d.sync(nil) // nothing is there yet
	d.write("S/1.blk", 10)
	d.write("S/2.blk", 10)
	d.sync(map[string]int64{"S/1.blk": 10, "S/2.blk": 10}) // at first, all that there is
	d.sync(nil)
	d.write("S/2.blk", 5)
	d.sync(map[string]int64{"S/2.blk": 15})
	d.write("S/2.blk", 5) // the old block's last bytes, and two new blocks
	d.write("S/3.blk", 1)
	d.write("S/4.blk", 2)
	d.write("T/1.blk", 3) // and a new stream
	d.sync(map[string]int64{"S/2.blk": 20, "S/3.blk": 1, "S/4.blk": 2, "T/1.blk": 3})
	d.write("S/4.blk", 1)
	d.write("T/1.blk", 1)
	d.sync(map[string]int64{"S/4.blk": 3, "T/1.blk": 4})
}

func TestASyncSurvivesWhatTheServerRemoves(t *testing.T) {
	d := newDisk(t)
	remove := func(path string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(d.files.root, path)); err != nil {
			t.Fatal(err)
		}
	}
	d.write("S/1.blk", 10)
	d.sync(map[string]int64{"S/1.blk": 10})
	d.write("S/2.blk", 10) // the successor comes and goes between two syncs
	d.write("S/3.blk", 7)
	remove("S/msgs/2.blk")
	d.sync(map[string]int64{"S/1.blk": 10, "S/3.blk": 7})
	remove("S/msgs/3.blk") // the newest is replaced by another file
	d.write("S/3.blk", 7)
	d.sync(map[string]int64{"S/3.blk": 7})
	remove("S/msgs/3.blk") // all of it was purged
	remove("S/msgs/1.blk")
	d.sync(nil)
	d.write("S/4.blk", 4)
	d.sync(map[string]int64{"S/4.blk": 4})
	remove("S") // the stream is deleted, and made anew with small numbers
	d.sync(nil)
	d.write("S/1.blk", 2)
	d.sync(map[string]int64{"S/1.blk": 2})
}

func TestASyncPassesOnWhatTheDiskSays(t *testing.T) {
	d := newDisk(t)
	d.write("S/1.blk", 10)
	d.sync(map[string]int64{"S/1.blk": 10})
	good, broken := d.files.flush, errors.New("input/output error")
	d.files.flush = func(*os.File) error { return broken }
	d.write("S/1.blk", 10)
	if err := d.files.sync(); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
	d.files.flush = good
	d.sync(map[string]int64{"S/1.blk": 20}) // it is still owed
}
