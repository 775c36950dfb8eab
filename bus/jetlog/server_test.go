package jetlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// opened is an embedded bus in a directory. Both ends are closed with the test.
func opened(t *testing.T, sc ServerConfig) (*Bus, *Server) {
	t.Helper()
	b, s, err := OpenEmbedded(t.Context(), sc, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, b, s) })
	return b, s
}

func shut(t *testing.T, b *Bus, s *Server) {
	t.Helper()
	if err := errors.Join(b.Close(), s.Close()); err != nil {
		t.Errorf("close: %v", err)
	}
}

var testTurn = events.TurnKey{Trace: "trace", Turn: "turn"}

// commits appends n commits named prefix0, prefix1 … after a sequence, and
// returns the last one's.
func commits(t *testing.T, b bus.Log, prefix string, n int, at uint64) uint64 {
	t.Helper()
	for i := range n {
		s, err := b.Append(t.Context(), events.Commit{
			ID: fmt.Sprintf("%s%d", prefix, i), Turn: testTurn,
			Records: []events.Record{{Call: 0, Seq: 1, Event: &events.Progress{Attempt: 1, Text: strings.Repeat(prefix, 100)}}},
		}, at)
		if err != nil {
			t.Fatal(err)
		}
		at = s.Seq
	}
	return at
}

// held are the ids of the turn's commits, as the tail gives them.
func heldIDs(t *testing.T, b *Bus) string {
	t.Helper()
	var out []string
	err := b.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		out = append(out, s.Commit.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

// wantError fails unless err says all of the words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestEmbeddedComesBackAsItWas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "the", "start")
	b, s, err := OpenEmbedded(t.Context(), ServerConfig{Dir: dir, Port: -1}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	last := commits(t, b, "a", 5, 0)
	nc, err := nats.Connect(s.URL()) // a plain client
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if err := s.Announce(func(r *Running) { r.HTTP, r.More = "127.0.0.1:8080", map[string]string{"boot": "b1"} }); err != nil {
		t.Fatal(err)
	}
	r, running, err := Find(dir)
	if err != nil || !running || r.PID != os.Getpid() || r.URL != s.URL() || r.HTTP != "127.0.0.1:8080" || r.More["boot"] != "b1" {
		t.Errorf("found %+v, %v, %v", r, running, err)
	}
	shut(t, b, s)
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if r, running, err := Find(dir); err != nil || running {
		t.Errorf("found %+v after the close, %v", r, err)
	}

	b, s = opened(t, ServerConfig{Dir: dir})
	if s.URL() != "" {
		t.Errorf("it listens at %s, and was not asked to", s.URL())
	}
	if got := heldIDs(t, b); got != "a0 a1 a2 a3 a4" {
		t.Errorf("the log holds %s", got)
	}
	if g := s.Generations(); len(g) != 1 || b.Generation() != 1 {
		t.Errorf("generations %v after a clean close", g)
	}
	commits(t, b, "b", 1, last)
}

func TestModes(t *testing.T) {
	for sync, want := range map[string]string{"": "barrier", "barrier": "barrier", "always": "always", "interval=50ms": "interval=50ms"} {
		dir := t.TempDir()
		b, s, err := OpenEmbedded(t.Context(), ServerConfig{Dir: dir, Sync: sync}, Config{})
		if err != nil {
			t.Fatalf("sync %q: %v", sync, err)
		}
		if got := s.Barrier().Mode(); got != want || b.Barrier().Mode() != want {
			t.Errorf("sync %q: mode %s, want %s", sync, got, want)
		}
		commits(t, b, "a", 3, 0)
		if err := b.Barrier().Wait(t.Context()); err != nil {
			t.Errorf("sync %q: %v", sync, err)
		}
		shut(t, b, s)
		b, _ = opened(t, ServerConfig{Dir: dir, Sync: sync})
		if got := heldIDs(t, b); got != "a0 a1 a2" || b.Generation() != 1 {
			t.Errorf("sync %q: generation %d holds %s", sync, b.Generation(), got)
		}
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for want, c := range map[string]ServerConfig{
		"set Dir":                  {},
		"use barrier, always or":   {Dir: "d", Sync: "never"},
		"use a time from":          {Dir: "d", Sync: "interval=1h"},
		"for example interval=10s": {Dir: "d", Sync: "interval=0s"},
		"-1 for any free one":      {Dir: "d", Port: 70000},
		"set a token or name its users, or listen on": {Dir: "d", Port: -1, Host: "0.0.0.0"},
		"must not be negative":                        {Dir: "d", MaxStore: -1},
		"do not set Memory":                           {Dir: "d"},
	} {
		_, _, err := OpenEmbedded(t.Context(), c, Config{Memory: want == "do not set Memory"})
		wantError(t, err, want)
	}
	if _, err := os.Stat("d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused configuration left a directory: %v", err)
	}
}

func TestAStartSaysWhatIsInTheWay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := StartServer(t.Context(), ServerConfig{Dir: filepath.Join(file, "sub")})
	wantError(t, err, "is not a directory: use another one")

	full := func(string) (int64, error) { return 1 << 20, nil }
	_, err = StartServer(t.Context(), ServerConfig{Dir: t.TempDir(), faults: serverFaults{free: full}})
	wantError(t, err, "only 1 MiB are left", "free some space, or use another directory")

	newer := t.TempDir()
	m := &marker{Format: events.Format + 1, Generations: []markedSpan{{1, 1}}}
	if err := m.write(newer); err != nil {
		t.Fatal(err)
	}
	_, err = StartServer(t.Context(), ServerConfig{Dir: newer})
	wantError(t, err, "upgrade this one")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, err = StartServer(t.Context(), ServerConfig{Dir: t.TempDir(), Port: l.Addr().(*net.TCPAddr).Port})
	wantError(t, err, "is in use: stop what listens there, or choose another one (port 0")
	for errno, want := range map[error]string{
		unix.EACCES: "is not writable: change its owner or its rights",
		unix.EROFS:  "is not writable",
		unix.ENOSPC: "the disk of /d is full",
		unix.EIO:    "use of /d",
	} {
		wantError(t, explain("/d", &fs.PathError{Op: "open", Path: "/d/x", Err: errno}), want)
	}
}

func TestADirectoryBelongsToOneProcess(t *testing.T) {
	dir := t.TempDir()
	if r, running, err := Find(filepath.Join(dir, "nothing")); err != nil || running {
		t.Errorf("found %+v where nothing is, %v", r, err)
	}
	b, s := opened(t, ServerConfig{Dir: dir, Port: -1})
	_, _, err := OpenEmbedded(t.Context(), ServerConfig{Dir: dir}, Config{})
	wantError(t, err, dir, fmt.Sprintf("process %d", os.Getpid()), s.URL(), "stop that one, or use another directory")
	if _, running, err := Find(dir); err != nil || !running {
		t.Errorf("the one that was refused took the other one's word: %v, %v", running, err)
	}
	commits(t, b, "a", 1, 0) // and disturbed nothing
}

func TestATokenIsAskedFor(t *testing.T) {
	b, s := opened(t, ServerConfig{Dir: t.TempDir(), Port: -1, Host: "0.0.0.0", Token: "s3cret"})
	commits(t, b, "a", 1, 0)
	if nc, err := nats.Connect(s.URL()); err == nil {
		nc.Close()
		t.Error("a client without the token is let in")
	}
	nc, err := nats.Connect(s.URL(), nats.Token("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestAStoreThatIsKeptOtherwiseIsSyncedAlways(t *testing.T) {
	odd := func() error { return errors.New("the blocks are elsewhere") }
	b, s := opened(t, ServerConfig{Dir: t.TempDir(), faults: serverFaults{prove: odd}})
	if got := b.Barrier().Mode(); got != SyncAlways {
		t.Errorf("the mode is %s", got)
	}
	commits(t, b, "a", 3, 0)
	if err := s.Barrier().Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if got := heldIDs(t, b); got != "a0 a1 a2" {
		t.Errorf("the log holds %s", got)
	}
}

// TestTheProofFindsOtherLayouts breaks what it rests on.
func TestTheProofFindsOtherLayouts(t *testing.T) {
	_, s := opened(t, ServerConfig{Dir: t.TempDir()})
	if err := proveLayout(t.Context(), s.js, s.cfg.Dir, false); err != nil {
		t.Errorf("this layout: %v", err)
	}
	wantError(t, proveLayout(t.Context(), s.js, t.TempDir(), false), "has no block after an acknowledged message")
	stale := filepath.Join(s.cfg.Dir, "stale")
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantError(t, proveOpen(stale), "has not opened")
	log, err := s.js.Stream(t.Context(), StreamTurns)
	if err != nil {
		t.Fatal(err)
	}
	c := log.CachedInfo().Config
	c.Compression = 1 // S2
	if _, err := s.js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	wantError(t, proveLayout(t.Context(), s.js, s.cfg.Dir, false), StreamTurns, "is compressed")
}

func TestAFailedSyncStopsTheNode(t *testing.T) {
	var broken atomic.Bool
	flush := func(f *os.File) error {
		if broken.Load() {
			return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: unix.EIO}
		}
		return datasync(f)
	}
	dir := t.TempDir()
	b, s, err := OpenEmbedded(t.Context(), ServerConfig{Dir: dir, faults: serverFaults{flush: flush}}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	last := commits(t, b, "a", 1, 0)
	if err := b.Barrier().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	commits(t, b, "b", 1, last)
	err = b.Barrier().Wait(t.Context())
	wantError(t, err, "durability is lost, stop this node")
	if !errors.Is(err, unix.EIO) {
		t.Errorf("got %v", err)
	}
	select {
	case <-s.Failed():
	default:
		t.Error("Failed says nothing")
	}
	broken.Store(false)
	wantError(t, b.Barrier().Wait(t.Context()), "durability is lost")
	err = b.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error { return nil })
	wantError(t, err, "durability is lost")
	shut(t, b, s)

	b, _ = opened(t, ServerConfig{Dir: dir})
	if b.Generation() != 2 {
		t.Errorf("generation %d after a failed sync: what was promised cannot be told from what was not", b.Generation())
	}
}

func TestAStartThatIsCalledOffLeavesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := StartServer(ctx, ServerConfig{Dir: dir}); err == nil {
		t.Fatal("a start by nobody succeeds")
	}
	opened(t, ServerConfig{Dir: dir})
}
