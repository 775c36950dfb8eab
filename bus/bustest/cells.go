package bustest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
)

var cellPromises = []Promise{
	{"P60 a cell is written where its revision is the one named", cellSwap},
	{"P61 a cell that was deleted can be made again", cellDeleted},
	{"P62 of many writers at one revision one is accepted", cellRaces},
	{"P63 a cell expires after its time to live", cellExpires},
	{"P64 a renewal keeps a cell, and each write sets its time anew", cellRenewed},
	{"P65 buckets and keys are apart, and bad names are refused", cellNames},
	{"P66 an empty value is no deletion", cellEmpty},
	{"P67 a watcher sees what is there, the mark, and each change", cellWatch},
	{"P68 a watcher sees an expiry", cellWatchExpiry},
	{"P69 a watcher's error ends its watch", cellWatchEnds},
}

func newKey() string { return "k-" + rand.Text() }

func mustPut(t *testing.T, b bus.Bus, bucket, key, value string, rev uint64, ttl time.Duration) uint64 {
	t.Helper()
	rev, err := b.Cells().Put(within(t), bucket, key, []byte(value), rev, ttl)
	must(t, "put", err)
	if rev == 0 {
		t.Fatal("put returns revision 0")
	}
	return rev
}

func wantCell(t *testing.T, b bus.Bus, bucket, key, value string, rev uint64) {
	t.Helper()
	c, err := b.Cells().Get(within(t), bucket, key)
	must(t, "get", err)
	if c.Key != key || string(c.Value) != value || c.Revision != rev {
		t.Fatalf("got %q at %d under %s, want %q at %d", c.Value, c.Revision, c.Key, value, rev)
	}
}

func cellSwap(t *testing.T, b bus.Bus) {
	for _, bucket := range bus.Buckets {
		key := newKey()
		_, err := b.Cells().Get(within(t), bucket, key)
		wantIs(t, "get of nothing", err, bus.ErrNotFound)
		first := mustPut(t, b, bucket, key, "one", 0, 0)
		wantCell(t, b, bucket, key, "one", first)
		second := mustPut(t, b, bucket, key, "two", first, 0)
		if second <= first {
			t.Errorf("revision %d after %d", second, first)
		}
		for _, rev := range []uint64{0, first, second + 1000} {
			_, err := b.Cells().Put(within(t), bucket, key, []byte("three"), rev, 0)
			wantIs(t, "put at another revision", err, bus.ErrConflict)
		}
		wantCell(t, b, bucket, key, "two", second)
	}
}

func cellDeleted(t *testing.T, b bus.Bus) {
	key := newKey()
	first := mustPut(t, b, bus.BucketLock, key, "one", 0, 0)
	second := mustPut(t, b, bus.BucketLock, key, "two", first, 0)
	wantIs(t, "delete at an old revision", b.Cells().Delete(within(t), bus.BucketLock, key, first), bus.ErrConflict)
	wantCell(t, b, bus.BucketLock, key, "two", second)
	must(t, "delete", b.Cells().Delete(within(t), bus.BucketLock, key, second))
	_, err := b.Cells().Get(within(t), bus.BucketLock, key)
	wantIs(t, "get of what was deleted", err, bus.ErrNotFound)
	_, err = b.Cells().Put(within(t), bus.BucketLock, key, []byte("x"), second, 0)
	wantIs(t, "put at the revision before the deletion", err, bus.ErrConflict)
	third := mustPut(t, b, bus.BucketLock, key, "three", 0, 0)
	if third <= second {
		t.Errorf("revision %d after %d: a holder from before the deletion is not fenced", third, second)
	}
	wantCell(t, b, bus.BucketLock, key, "three", third)
}

func cellRaces(t *testing.T, b bus.Bus) {
	key := newKey()
	rev := uint64(0)
	for round := range 20 {
		var won atomic.Uint64
		var wins atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				got, err := b.Cells().Put(within(t), bus.BucketBreaker, key, []byte("x"), rev, 0)
				switch {
				case err == nil:
					won.Store(got)
					wins.Add(1)
				case !errors.Is(err, bus.ErrConflict):
					t.Errorf("put: %v", err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 {
			t.Fatalf("round %d: %d writers are accepted at one revision", round, wins.Load())
		}
		rev = won.Load()
	}
}

// waitGone polls until the cell is gone, and returns when.
func waitGone(t *testing.T, b bus.Bus, bucket, key string) time.Time {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := b.Cells().Get(ctx, bucket, key)
		if errors.Is(err, bus.ErrNotFound) {
			return time.Now()
		}
		must(t, "get until it has expired", err)
		<-tick.C
	}
}

func cellExpires(t *testing.T, b bus.Bus) {
	key := newKey()
	begin := time.Now()
	rev := mustPut(t, b, bus.BucketPresence, key, "here", 0, time.Second)
	wantCell(t, b, bus.BucketPresence, key, "here", rev)
	if lived := waitGone(t, b, bus.BucketPresence, key).Sub(begin); lived < time.Second {
		t.Errorf("it lived for %v, want 1s at least", lived)
	}
	again := mustPut(t, b, bus.BucketPresence, key, "back", 0, 0)
	if again <= rev {
		t.Errorf("revision %d after %d: a holder from before the expiry is not fenced", again, rev)
	}
	_, err := b.Cells().Put(within(t), bus.BucketPresence, newKey(), []byte("x"), 0, time.Millisecond)
	if err == nil {
		t.Error("a time to live under a second is accepted, and cannot be kept")
	}
}

func cellRenewed(t *testing.T, b bus.Bus) {
	renewed, forever, late := newKey(), newKey(), newKey()
	rev := mustPut(t, b, bus.BucketPresence, renewed, "here", 0, 2*time.Second)
	kept := mustPut(t, b, bus.BucketPresence, forever, "a", 0, time.Second)
	kept = mustPut(t, b, bus.BucketPresence, forever, "b", kept, 0)
	given := mustPut(t, b, bus.BucketPresence, late, "a", 0, 0)
	mustPut(t, b, bus.BucketPresence, late, "b", given, time.Second)

	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-tick.C {
		rev = mustPut(t, b, bus.BucketPresence, renewed, "here", rev, 2*time.Second)
	}
	wantCell(t, b, bus.BucketPresence, renewed, "here", rev)
	wantCell(t, b, bus.BucketPresence, forever, "b", kept)
	waitGone(t, b, bus.BucketPresence, late)
	waitGone(t, b, bus.BucketPresence, renewed)
}

func cellNames(t *testing.T, b bus.Bus) {
	key := newKey()
	lock := mustPut(t, b, bus.BucketLock, key, "lock", 0, 0)
	_, err := b.Cells().Get(within(t), bus.BucketKeys, key)
	wantIs(t, "get from another bucket", err, bus.ErrNotFound)
	for _, good := range []string{key + ".a", key + "/a=b_c-D9", key + strings.Repeat("x", 200-len(key))} {
		rev := mustPut(t, b, bus.BucketLock, good, good, 0, 0)
		wantCell(t, b, bus.BucketLock, good, good, rev)
	}
	wantCell(t, b, bus.BucketLock, key, "lock", lock)
	for _, bad := range []string{"", "*", ">", "a b", "a\r\n", "ü", key + ".*", ".a", "a.", "a..b", strings.Repeat("x", 201)} {
		if _, err := b.Cells().Put(within(t), bus.BucketLock, bad, []byte("x"), 0, 0); err == nil {
			t.Errorf("key %q is accepted", bad)
		}
		if _, err := b.Cells().Get(within(t), bus.BucketLock, bad); err == nil {
			t.Errorf("key %q can be read", bad)
		}
	}
	if _, err := b.Cells().Put(within(t), "no-such-bucket", key, []byte("x"), 0, 0); err == nil {
		t.Error("a bucket that does not exist is accepted")
	}
}

func cellEmpty(t *testing.T, b bus.Bus) {
	key := newKey()
	rev := mustPut(t, b, bus.BucketKeys, key, "", 0, 0)
	c, err := b.Cells().Get(within(t), bus.BucketKeys, key)
	must(t, "get", err)
	if c.Value == nil || len(c.Value) != 0 || c.Revision != rev {
		t.Errorf("got %#v at %d, want an empty value at %d", c.Value, c.Revision, rev)
	}
	big := bytes.Repeat([]byte{0, 255, 10, 13}, 16<<10)
	rev, err = b.Cells().Put(within(t), bus.BucketKeys, key, big, rev, 0)
	must(t, "put of 64 KiB", err)
	wantCell(t, b, bus.BucketKeys, key, string(big), rev)
}

// watch runs a watch and passes on what it yields.
func watch(t *testing.T, b bus.Bus, bucket, prefix string) (seen <-chan bus.Cell, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	cells := make(chan bus.Cell, 64)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Cells().Watch(ctx, bucket, prefix, func(c bus.Cell) error {
			select {
			case cells <- c:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	return cells, func() error {
		cancel()
		return <-ended
	}
}

// wantSeen fails unless the next cell that a watcher sees is this one.
func wantSeen(t *testing.T, seen <-chan bus.Cell, key, value string, rev uint64) {
	t.Helper()
	select {
	case c := <-seen:
		if c.Key != key || string(c.Value) != value || c.Revision != rev || c.Value == nil {
			t.Fatalf("saw %q at %d under %q, want %q at %d under %q", c.Value, c.Revision, c.Key, value, rev, key)
		}
	case <-within(t).Done():
		t.Fatalf("the watcher does not see %s", key)
	}
}

// wantGone fails unless the next cell that a watcher sees is an end of this one.
func wantGone(t *testing.T, seen <-chan bus.Cell, key string) {
	t.Helper()
	select {
	case c := <-seen:
		if c.Key != key || c.Value != nil {
			t.Fatalf("saw %q at %d under %q, want the end of %q", c.Value, c.Revision, c.Key, key)
		}
	case <-within(t).Done():
		t.Fatalf("the watcher does not see the end of %s", key)
	}
}

func wantMark(t *testing.T, seen <-chan bus.Cell) {
	t.Helper()
	select {
	case c := <-seen:
		if c.Key != "" || c.Value != nil {
			t.Fatalf("saw %+v, want the mark that all were seen", c)
		}
	case <-within(t).Done():
		t.Fatal("the watcher does not see the mark")
	}
}

func cellWatch(t *testing.T, b bus.Bus) {
	prefix := newKey()
	there := map[string]uint64{}
	for _, k := range []string{prefix + "a", prefix + "b", prefix + ".c"} {
		there[k] = mustPut(t, b, bus.BucketLock, k, "old "+k, 0, 0)
	}
	deleted := mustPut(t, b, bus.BucketLock, prefix+"d", "gone", 0, 0)
	must(t, "delete", b.Cells().Delete(within(t), bus.BucketLock, prefix+"d", deleted))
	mustPut(t, b, bus.BucketLock, newKey(), "other", 0, 0)

	seen, stop := watch(t, b, bus.BucketLock, prefix)
	var first []string
	for range len(there) + 1 { // a server that lags tells the last ones behind the mark
		var c bus.Cell
		select {
		case c = <-seen:
		case <-within(t).Done():
			t.Fatalf("saw only %q of %v", first, there)
		}
		if c.Key != "" && (c.Revision != there[c.Key] || string(c.Value) != "old "+c.Key) {
			t.Fatalf("saw %+v first, want one of %v", c, there)
		}
		first = append(first, c.Key)
	}
	slices.Sort(first)
	if len(slices.Compact(first)) != len(there)+1 {
		t.Fatalf("saw %q, want each of %v and the mark once", first, there)
	}
	rev := mustPut(t, b, bus.BucketLock, prefix+"a", "new", there[prefix+"a"], 0)
	wantSeen(t, seen, prefix+"a", "new", rev)
	mustPut(t, b, bus.BucketLock, newKey(), "other", 0, 0)
	made := mustPut(t, b, bus.BucketLock, prefix+"e", "made", 0, 0)
	wantSeen(t, seen, prefix+"e", "made", made)
	must(t, "delete", b.Cells().Delete(within(t), bus.BucketLock, prefix+"a", rev))
	wantGone(t, seen, prefix+"a")
	wantIs(t, "a watch that was told to stop", stop(), context.Canceled)
}

func cellWatchExpiry(t *testing.T, b bus.Bus) {
	key := newKey()
	seen, stop := watch(t, b, bus.BucketPresence, key)
	wantMark(t, seen)
	rev := mustPut(t, b, bus.BucketPresence, key, "here", 0, time.Second)
	wantSeen(t, seen, key, "here", rev)
	rev = mustPut(t, b, bus.BucketPresence, key, "still", rev, time.Second)
	wantSeen(t, seen, key, "still", rev)
	wantGone(t, seen, key)
	again := mustPut(t, b, bus.BucketPresence, key, "back", 0, 0)
	wantSeen(t, seen, key, "back", again)
	wantIs(t, "a watch that was told to stop", stop(), context.Canceled)
}

func cellWatchEnds(t *testing.T, b bus.Bus) {
	enough := errors.New("enough")
	err := b.Cells().Watch(within(t), bus.BucketLock, newKey(), func(bus.Cell) error { return enough })
	wantIs(t, "watch", err, enough)
}
