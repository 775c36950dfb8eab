package jetlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/thw"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// copyLive copies the files of a running server as they are: what a killed
// process leaves to the next one.
func copyLive(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the server renames some while we look
		}
		rel, relErr := filepath.Rel(from, path)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, os.WriteFile(filepath.Join(to, rel), text, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// blockSizes are the sizes of a stream's blocks, by path below the directory.
func blockSizes(t *testing.T, dir, stream string) map[string]int64 {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "jetstream", "$G", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no blocks of %s: %v", stream, err)
	}
	out := map[string]int64{}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(p, dir)] = info.Size()
	}
	return out
}

// cut is the power failure: blocks lose what is beyond their sizes, all if they
// have none.
func cut(t *testing.T, dir, stream string, sizes map[string]int64, more int64) {
	t.Helper()
	for p := range blockSizes(t, dir, stream) {
		size, ok := sizes[p]
		err := os.Truncate(dir+p, max(size-more, 0))
		if !ok {
			err = os.Remove(dir + p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatWasAcknowledgedSurvivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	b, _ := opened(t, ServerConfig{Dir: dir})
	last := commits(t, b, "a", 200, 0)
	ref, err := b.Blobs().Put(t.Context(), []byte("blob"), "")
	if err != nil {
		t.Fatal(err)
	}
	rev, err := b.Cells().Put(t.Context(), bus.BucketLock, "k", []byte("v"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Push(t.Context(), bus.Item{ID: "i", Turn: testTurn}); err != nil {
		t.Fatal(err)
	}
	killed := copyLive(t, dir)

	again, s := opened(t, ServerConfig{Dir: killed})
	if got, want := heldIDs(t, again), heldIDs(t, b); got != want {
		t.Errorf("the log holds\n%s, want\n%s", got, want)
	}
	if g := s.Generations(); len(g) != 2 || g[1] != (Span{2, last + 1}) || again.Generation() != 2 {
		t.Errorf("generations %v: want a new one from %d", g, last+1)
	}
	if got, err := again.Blobs().Get(t.Context(), ref); err != nil || string(got) != "blob" {
		t.Errorf("the blob: %q, %v", got, err)
	}
	if c, err := again.Cells().Get(t.Context(), bus.BucketLock, "k"); err != nil || c.Revision != rev {
		t.Errorf("the cell: %+v, %v", c, err)
	}
	d, err := again.Pull(t.Context(), []string{events.DefaultPlacement})
	if err != nil || d.Item().ID != "i" {
		t.Fatalf("the item: %v", err)
	}
	if err := d.Ack(); err != nil {
		t.Error(err)
	}
	stored, err := again.Append(t.Context(), events.Commit{
		ID: "new", Turn: testTurn, Records: []events.Record{{Call: 0, Seq: 1, Event: &events.Progress{}}},
	}, last)
	if err != nil || stored.Generation != 2 {
		t.Errorf("appended in generation %d, %v", stored.Generation, err)
	}
}

// crashed appends before and after a barrier, and returns a copy of the files
// as they are then, with the sizes that the log's blocks had at the barrier.
func crashed(t *testing.T) (dir string, atBarrier map[string]int64, last uint64) {
	t.Helper()
	from := t.TempDir()
	b, _ := opened(t, ServerConfig{Dir: from})
	last = commits(t, b, "a", 20, 0)
	if err := b.Barrier().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	atBarrier = blockSizes(t, from, StreamLog)
	after := commits(t, b, "b", 20, last)
	if _, err := b.Load(t.Context(), testTurn, after); err != nil { // the mirror has it all
		t.Fatal(err)
	}
	return copyLive(t, from), atBarrier, last
}

func TestAPowerFailureLosesNothingBeforeTheBarrier(t *testing.T) {
	dir, sizes, last := crashed(t)
	cut(t, dir, StreamLog, sizes, 0)
	b, s := opened(t, ServerConfig{Dir: dir})
	got := heldIDs(t, b)
	if n := strings.Count(got, "a"); n != 20 || strings.Contains(got, "b") {
		t.Errorf("the log holds %s: want all that the barrier covered, and no more", got)
	}
	if g := s.Generations(); g[len(g)-1] != (Span{2, last + 1}) {
		t.Errorf("generations %v, want a new one from %d", g, last+1)
	}
	// The mirror had what was lost. It must not come back, nor hide what follows.
	end := commits(t, b, "c", 3, last)
	all, err := b.Load(t.Context(), testTurn, end)
	if err != nil || len(all) != 23 || all[20].Commit.ID != "c0" || all[20].Generation != 2 {
		t.Errorf("the mirror shows %d commits, %v", len(all), err)
	}
	var rewound error
	for seq := range uint64(20) {
		p := events.Position{Generation: 1, Seq: last + 2 + seq}
		rewound = errors.Join(rewound, b.Read(t.Context(), p, bus.Filter{}, false, func(bus.Stored) error { return nil }))
	}
	if !errors.Is(rewound, bus.ErrRewound) {
		t.Errorf("a cursor behind what was lost: %v", rewound)
	}
}

func TestALogThatWasCutFurtherBeginsAgainWhereItEnds(t *testing.T) {
	dir, sizes, last := crashed(t)
	cut(t, dir, StreamLog, sizes, 3) // inside the last commit
	b, s := opened(t, ServerConfig{Dir: dir})
	if n := strings.Count(heldIDs(t, b), "a"); n != 19 {
		t.Errorf("%d commits, want 19", n)
	}
	if g := s.Generations(); g[len(g)-1] != (Span{2, last}) {
		t.Errorf("generations %v, want a new one from %d", g, last)
	}
	end := commits(t, b, "c", 1, last-1)
	all, err := b.Load(t.Context(), testTurn, end)
	if err != nil || len(all) != 20 || all[19].Commit.ID != "c0" {
		t.Errorf("the mirror shows %d commits, %v", len(all), err)
	}
}

func TestTheMirrorIsMadeAnewWhereItHasAHole(t *testing.T) {
	from := t.TempDir()
	b, s := opened(t, ServerConfig{Dir: from})
	last := commits(t, b, "a", 20, 0)
	if _, err := b.Load(t.Context(), testTurn, last); err != nil {
		t.Fatal(err)
	}
	mirror, err := s.js.Stream(t.Context(), StreamRead)
	if err != nil {
		t.Fatal(err)
	}
	if err := mirror.DeleteMsg(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	b, _ = opened(t, ServerConfig{Dir: copyLive(t, from)})
	if all, err := b.Load(t.Context(), testTurn, last); err != nil || len(all) != 20 {
		t.Errorf("the mirror shows %d commits, %v; want 20", len(all), err)
	}
}

// TestAHoleInTheLogIsSaid loses the end of a block, and keeps the next block:
// disks write in any order.
func TestAHoleInTheLogIsSaid(t *testing.T) {
	from := t.TempDir()
	b, _ := opened(t, ServerConfig{Dir: from})
	at := uint64(0)
	for i := 0; len(blockSizes(t, from, StreamLog)) < 2 || i < 3; i++ {
		s, err := b.Append(t.Context(), events.Commit{ID: fmt.Sprint("c", i), Turn: testTurn, Records: []events.Record{
			{Call: 0, Seq: uint32(i + 1), Event: &events.Progress{Text: strings.Repeat("x", 500<<10)}},
		}}, at)
		if err != nil {
			t.Fatal(err)
		}
		at = s.Seq
	}
	if _, err := b.Load(t.Context(), testTurn, at); err != nil {
		t.Fatal(err)
	}
	dir := copyLive(t, from)
	first := filepath.Join(dir, "jetstream", "$G", "streams", StreamLog, "msgs", "1.blk")
	info, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(first, info.Size()-100); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	b, s, err := OpenEmbedded(t.Context(), ServerConfig{Dir: dir, Log: slog.New(slog.NewTextHandler(&said, nil))}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	got := heldIDs(t, b)
	shut(t, b, s)
	if !strings.Contains(said.String(), "level=ERROR") || !strings.Contains(said.String(), "missing=1") {
		t.Errorf("it says only: %s", &said)
	}
	lost := fmt.Sprint("c", at-2) // the last one of its block
	if strings.Contains(got+" ", lost+" ") || !strings.Contains(got, fmt.Sprint("c", at-1)) {
		t.Errorf("the mirror shows %s: want what the log has, which is all but %s", got, lost)
	}
}

// TestWhatHasExpiredIsGoneAfterACrash loses the time of a cell's end from the server's own
// list: as where a crash brings the cell back from behind the marker of its expiry.
func TestWhatHasExpiredIsGoneAfterACrash(t *testing.T) {
	dir := t.TempDir()
	b, s, err := OpenEmbedded(t.Context(), ServerConfig{Dir: dir}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cells().Put(t.Context(), bus.BucketPresence, "boot", []byte("v"), 0, time.Second); err != nil {
		t.Fatal(err)
	}
	rev, err := b.Cells().Put(t.Context(), bus.BucketLock, "lock", []byte("v"), 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	killed := copyLive(t, dir)
	shut(t, b, s)
	list := filepath.Join(killed, "jetstream", "$G", "streams", kvStream(bus.BucketPresence), "msgs", "thw.db")
	if err := os.WriteFile(list, thw.NewHashWheel().Encode(1000), 0o600); err != nil {
		t.Fatal(err)
	}

	b, _ = opened(t, ServerConfig{Dir: killed})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		_, err := b.Cells().Get(ctx, bus.BucketPresence, "boot")
		if errors.Is(err, bus.ErrNotFound) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("a cell whose second is over is still there: %v", err)
		}
	}
	c, err := b.Cells().Get(ctx, bus.BucketLock, "lock")
	if err != nil || c.Revision != rev || c.Left.IsZero() || c.Left.After(time.Now()) {
		t.Errorf("the cell that was left behind: %+v, %v", c, err)
	}
	if _, err := b.Cells().Put(ctx, bus.BucketLock, "lock", []byte("w"), rev, time.Hour); err != nil {
		t.Fatal(err)
	}
	if c, err = b.Cells().Get(ctx, bus.BucketLock, "lock"); err != nil || !c.Left.IsZero() {
		t.Errorf("the cell that was written since: %+v, %v", c, err)
	}
}
