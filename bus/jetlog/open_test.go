package jetlog_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
)

func TestOpenTwice(t *testing.T) {
	srv := jettest.Start(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			b, err := jetlog.Open(t.Context(), jetlog.Config{Connect: srv.InProcess})
			if err != nil {
				t.Errorf("open beside others: %v", err)
				return
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	_, js := raw(t, srv.InProcess)
	for _, name := range jetlog.Streams() {
		if _, err := js.Stream(t.Context(), name); err != nil {
			t.Errorf("stream %s: %v", name, err)
		}
	}
	s, err := js.Stream(t.Context(), jetlog.StreamLog)
	if err != nil {
		t.Fatal(err)
	}
	if s.CachedInfo().Config.AllowDirect {
		t.Error("the hot stream allows direct gets")
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		have jetstream.StreamConfig
		want string
	}{
		{"newer format", jetstream.StreamConfig{
			Name: jetlog.StreamLog, Subjects: []string{"sluice.ev.>"}, Metadata: map[string]string{"sluice-format": "99"},
		}, "format 99"},
		{"other subjects", jetstream.StreamConfig{Name: jetlog.StreamLog, Subjects: []string{"mine.>"}}, "subjects"},
		{"in memory", jetstream.StreamConfig{
			Name: jetlog.StreamLog, Subjects: []string{"sluice.ev.>"}, Storage: jetstream.MemoryStorage,
		}, "storage"},
		{"no mirror", jetstream.StreamConfig{Name: jetlog.StreamRead, Subjects: []string{"mine.>"}}, "subjects"},
		{"queue of another kind", jetstream.StreamConfig{
			Name: jetlog.StreamTurns, Subjects: []string{"sluice.turns.>", "sluice.wake.>"},
		}, "retention"},
		{"overlap", jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"sluice.ev.>"}}, "overlap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := jettest.Start(t)
			_, js := raw(t, srv.InProcess)
			if _, err := js.CreateStream(t.Context(), c.have); err != nil {
				t.Fatal(err)
			}
			_, err := jetlog.Open(t.Context(), jetlog.Config{Connect: srv.InProcess})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("open: %v, want it to speak of %q", err, c.want)
			}
			if c.name == "newer format" && !errors.Is(err, events.ErrNewerFormat) {
				t.Errorf("open: %v, want it to be ErrNewerFormat", err)
			}
		})
	}
	for _, c := range []jetlog.Config{
		{},
		{Connect: func(string) (*nats.Conn, error) { return nil, nats.ErrNoServers }},
		{Connect: func(string) (*nats.Conn, error) { return nil, nil }, Replicas: -1},
		{Connect: func(string) (*nats.Conn, error) { return nil, nil }, Generations: []jetlog.Span{{2, 1}, {1, 5}}},
	} {
		if _, err := jetlog.Open(t.Context(), c); err == nil {
			t.Errorf("open with %+v succeeds", c)
		}
	}
}

// A stream that an operator has changed keeps what may be changed, and gets
// back what must be so.
func TestOpenMends(t *testing.T) {
	srv := jettest.Start(t)
	srv.Open(jetlog.Config{})
	_, js := raw(t, srv.InProcess)
	s, err := js.Stream(t.Context(), jetlog.StreamLog)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.AllowDirect, c.MaxBytes = true, 1<<30
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	srv.Open(jetlog.Config{Retention: 1 << 50, ChangeRetention: true})
	if s, err = js.Stream(t.Context(), jetlog.StreamLog); err != nil {
		t.Fatal(err)
	}
	if c = s.CachedInfo().Config; c.AllowDirect || c.MaxBytes != 1<<30 || c.MaxAge != 1<<50 {
		t.Errorf("the stream is %+v, want no direct gets, the operator's size and the new age", c)
	}
}

// TestRetentionInForce: nobody shortens what a log keeps that others share, unless that is
// said; and the mirror keeps what the log does.
func TestRetentionInForce(t *testing.T) {
	const long, short = 900 * time.Hour, 65 * time.Second
	srv := jettest.Start(t)
	_, js := raw(t, srv.InProcess)
	for i, c := range []struct {
		want    time.Duration
		change  bool
		inForce time.Duration
		refused bool
		says    string
	}{
		{want: long, inForce: long},
		{want: 0, inForce: long},
		{want: short, inForce: long, refused: true},
		{want: 2 * long, inForce: long},
		{want: long, inForce: long},
		{want: short, change: true, inForce: short, says: "before=\"for 900h0m0s\""},
		{want: long, inForce: short},
		{want: 0, change: true, inForce: 0, says: "longer time from now on"},
		{want: long, inForce: 0, refused: true},
	} {
		var said strings.Builder
		b, err := jetlog.Open(t.Context(), jetlog.Config{
			Connect: srv.InProcess, Retention: c.want, ChangeRetention: c.change, Log: slog.New(slog.NewTextHandler(&said, nil)),
		})
		var shortens *jetlog.Shortens
		switch {
		case errors.As(err, &shortens) != c.refused || !c.refused && err != nil:
			t.Fatalf("%d: open for %v: %v", i, c.want, err)
		case c.refused && (shortens.Have != c.inForce || shortens.Want != c.want):
			t.Errorf("%d: %v", i, err)
		case !c.refused && b.Retention() != c.inForce:
			t.Errorf("%d: the bus says %v, want %v", i, b.Retention(), c.inForce)
		}
		if !c.refused {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		if (said.Len() > 0) != (c.says != "") || !strings.Contains(said.String(), c.says) {
			t.Errorf("%d: it says %q, want %q", i, said.String(), c.says)
		}
		for _, name := range []string{jetlog.StreamLog, jetlog.StreamRead} {
			s, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.CachedInfo().Config.MaxAge; got != c.inForce {
				t.Errorf("%d: stream %s keeps %v, want %v", i, name, got, c.inForce)
			}
		}
	}
}

// TestRetentionOfAnOwnLog is as it is said, and a shorter one is warned of.
func TestRetentionOfAnOwnLog(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct {
		want, inForce time.Duration
		warned        bool
	}{{0, 0, false}, {time.Hour, time.Hour, true}, {0, time.Hour, false}, {2 * time.Hour, 2 * time.Hour, false}, {time.Minute, time.Minute, true}} {
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
		b, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: dir}, jetlog.Config{Retention: c.want, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		if b.Retention() != c.inForce || b.Clustered() || b.Replicas() != 1 {
			t.Errorf("%d: it keeps %v, want %v", i, b.Retention(), c.inForce)
		}
		if strings.Contains(said.String(), "shorter time from now on") != c.warned {
			t.Errorf("%d: it says %s", i, said.String())
		}
		if err := errors.Join(b.Close(), srv.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// restored is a server whose log was put back to an earlier state, which its
// mirror does not know: five commits of ten are left.
func restored(t *testing.T) *jettest.Server {
	t.Helper()
	dir := t.TempDir()
	srv := jettest.StartWith(t, server.Options{JetStream: true, StoreDir: dir})
	folder := filepath.Join(dir, "jetstream", "$G", "streams", jetlog.StreamLog)
	k := turn("rewind", "1")
	write := func(from, to uint64) {
		b, err := jetlog.Open(t.Context(), jetlog.Config{Connect: srv.InProcess})
		if err != nil {
			t.Fatal(err)
		}
		for at := from; at < to; at++ {
			if _, err := b.Append(t.Context(), note(k, "old"+string(rune('a'+at)), uint32(at+1)), at); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Load(t.Context(), k, to); err != nil { // the mirror has it
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(0, 5)
	srv.Stop()
	saved := filepath.Join(t.TempDir(), "saved")
	if err := os.CopyFS(saved, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	srv.Start()
	write(5, 10)
	srv.Stop()
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(folder, os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}
	srv.Start()
	return srv
}

func TestMirrorMadeAnew(t *testing.T) {
	for _, regrown := range []uint64{0, 5, 9} {
		srv := restored(t)
		nc, js := raw(t, srv.InProcess)
		gens := []jetlog.Span{{1, 1}, {2, 6}}
		at := uint64(5)
		for range regrown { // another node writes before we look
			at++
			appendRaw(t, nc, note(turn("rewind", "1"), "new"+string(rune('a'+at)), uint32(at)))
		}
		b := srv.Open(jetlog.Config{Generations: gens})
		s, err := b.Append(t.Context(), note(turn("rewind", "1"), "last", uint32(at+1)), at)
		if err != nil || s.Generation != 2 {
			t.Fatalf("append: %+v, %v, want generation 2", s, err)
		}
		got, err := b.Load(t.Context(), turn("rewind", "1"), s.Seq)
		if err != nil || len(got) != int(at+1) {
			t.Fatalf("load after %d new ones: %d commits, %v; want %d", regrown, len(got), err, at+1)
		}
		for _, s := range got {
			if old := strings.HasPrefix(s.Commit.ID, "old"); old != (s.Seq <= 5) || (s.Generation == 1) != old {
				t.Errorf("sequence %d of generation %d is %s", s.Seq, s.Generation, s.Commit.ID)
			}
		}
		if last := lastSeq(t, js, jetlog.StreamRead); last != s.Seq {
			t.Errorf("the mirror ends at %d, the log at %d", last, s.Seq)
		}
	}
}

// appendRaw writes a commit as another node would, without a bus.
func appendRaw(t *testing.T, nc *nats.Conn, c events.Commit) {
	t.Helper()
	body, err := events.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Request(bus.EventSubject(c.Turn), body, nats.DefaultTimeout); err != nil {
		t.Fatal(err)
	}
}

// Positions of a generation that lost its tail are good up to where the next one
// began; a node that does not know the generations reads them beside the log.
func TestRewound(t *testing.T) {
	srv := jettest.Start(t)
	first := srv.Open(jetlog.Config{Generations: []jetlog.Span{{1, 1}, {3, 4}}})
	at := uint64(0)
	for n := range 6 {
		s, err := first.Append(t.Context(), note(turn("a", "1"), string(rune('a'+n)), uint32(n+1)), at)
		if err != nil {
			t.Fatal(err)
		}
		at = s.Seq
	}
	b := srv.Open(jetlog.Config{})
	if b.Generation() != 3 {
		t.Errorf("generation %d, want 3", b.Generation())
	}
	for _, c := range []struct {
		from events.Position
		want int // commits; -1: rewound
	}{
		{events.Position{}, 6},
		{events.Position{Generation: 1, Seq: 1}, 6},
		{events.Position{Generation: 1, Seq: 3, Index: 1}, 3}, // has one event
		{events.Position{Generation: 1, Seq: 4}, 3},
		{events.Position{Generation: 1, Seq: 4, Index: 1}, -1},
		{events.Position{Generation: 1, Seq: 5}, -1},
		{events.Position{Generation: 2, Seq: 1}, -1},
		{events.Position{Generation: 3, Seq: 4}, 3},
		{events.Position{Generation: 3, Seq: 7}, 0},
		{events.Position{Generation: 3, Seq: 8}, -1},
		{events.Position{Generation: 4, Seq: 1}, -1},
		{events.Position{Seq: 2}, -1},
	} {
		n := 0
		err := b.Read(t.Context(), c.from, bus.Filter{}, false, func(s bus.Stored) error {
			if want := uint32(1 + 2*min(s.Seq/4, 1)); s.Generation != want {
				t.Errorf("sequence %d is of generation %d, want %d", s.Seq, s.Generation, want)
			}
			n++
			return nil
		})
		if rewound := errors.Is(err, bus.ErrRewound); rewound != (c.want < 0) || !rewound && (err != nil || n != c.want) {
			t.Errorf("read from %s: %d commits, %v; want %d", c.from, n, err, c.want)
		}
	}
}

// A follower hears that the log was rewound while it waited.
func TestFollowerRewound(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{Connect: srv.Dial})
	at := uint64(0)
	for n := range 4 {
		s, err := b.Append(t.Context(), note(turn("a", "1"), string(rune('a'+n)), uint32(n+1)), at)
		if err != nil {
			t.Fatal(err)
		}
		at = s.Seq
	}
	ended := make(chan error, 1)
	seen := make(chan uint64, 16)
	go func() {
		ended <- b.Read(t.Context(), events.Position{}, bus.Filter{}, true, func(s bus.Stored) error {
			seen <- s.Seq
			return nil
		})
	}()
	for range 4 {
		<-seen
	}
	srv.Open(jetlog.Config{Generations: []jetlog.Span{{1, 1}, {2, 3}}})
	srv.Stop()
	srv.Start()
	if err := <-ended; !errors.Is(err, bus.ErrRewound) {
		t.Errorf("the follower ends with %v, want rewound", err)
	}
	if b.Generation() != 2 {
		t.Errorf("generation %d, want 2", b.Generation())
	}
}

func TestClose(t *testing.T) {
	b := one(t, jetlog.Config{})
	calls := map[string]func(ctx context.Context) error{
		"pull":  func(ctx context.Context) error { _, err := b.Pull(ctx, []string{"default"}); return err },
		"wake":  func(ctx context.Context) error { _, err := b.PullWake(ctx); return err },
		"load":  func(ctx context.Context) error { _, err := b.Load(ctx, turn("a", "1"), 9); return err },
		"serve": func(ctx context.Context) error { return b.Serve(ctx, "boot", func(q []byte) []byte { return q }) },
		"listen": func(ctx context.Context) error {
			return b.Listen(ctx, ">", func(string, []byte) {})
		},
		"watch": func(ctx context.Context) error {
			return b.Cells().Watch(ctx, bus.BucketLock, "", func(bus.Cell) error { return nil })
		},
		"follow": func(ctx context.Context) error {
			return b.Read(ctx, events.Position{}, bus.Filter{}, true, func(bus.Stored) error { return nil })
		},
	}
	var begun, wg sync.WaitGroup
	for name, call := range calls {
		begun.Add(1)
		wg.Go(func() {
			begun.Done()
			if err := call(t.Context()); !errors.Is(err, bus.ErrUnavailable) {
				t.Errorf("%s: %v, want unavailable", name, err)
			}
		})
	}
	begun.Wait()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	calls["append"] = func(ctx context.Context) error { _, err := b.Append(ctx, note(turn("a", "1"), "c", 1), 0); return err }
	calls["push"] = func(ctx context.Context) error { return b.Push(ctx, bus.Item{Turn: turn("a", "1")}) }
	calls["head"] = func(ctx context.Context) error { _, err := b.Head(ctx); return err }
	calls["ask"] = func(ctx context.Context) error { _, err := b.Ask(ctx, "boot", nil); return err }
	calls["put"] = func(ctx context.Context) error {
		_, err := b.Cells().Put(ctx, bus.BucketLock, "k", nil, 0, 0)
		return err
	}
	calls["get"] = func(ctx context.Context) error { _, err := b.Cells().Get(ctx, bus.BucketLock, "k"); return err }
	calls["blob"] = func(ctx context.Context) error { _, err := b.Blobs().Put(ctx, []byte("x"), ""); return err }
	for name, call := range calls {
		if err := call(t.Context()); !errors.Is(err, bus.ErrUnavailable) {
			t.Errorf("%s after close: %v, want unavailable", name, err)
		}
	}
}
