package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

func TestWrite(t *testing.T) {
	b := newBench(t, map[string]string{"old": "before\n"})
	r := b.ok(WriteName, m{"path": "old", "text": "after\r\n\ufeff\x00"})
	if b.get("old") != "after\r\n\ufeff\x00" || !strings.HasPrefix(r.Text.Text, "wrote old, 11 bytes") {
		t.Errorf("%q: %s", b.get("old"), r.Text.Text)
	}
	r = b.ok(WriteName, m{"path": "a/b/../c/new", "text": ""})
	if b.get("a/c/new") != "" || r.Seen[0].Path != "a/c/new" || r.Seen[0].Digest != Digest(nil) {
		t.Errorf("%+v", r.Seen)
	}
	if info, err := os.Stat(filepath.Join(b.dir, "a/c/new")); err != nil || info.Mode().Perm()&0o600 != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	b.link("a/c/made-by-link", "l")
	if b.ok(WriteName, m{"path": "l", "text": "x"}); b.get("a/c/made-by-link") != "x" {
		t.Error("a link that led nowhere was not followed")
	}
	if l := b.leftovers(); l != nil {
		t.Errorf("left over: %v", l)
	}
}

// stale is a bench for expectations: a file, and the two calls that would change it.
type stale struct {
	*bench
	calls map[string]m
}

func newStale(t *testing.T) stale {
	return stale{newBench(t, nil), map[string]m{
		EditName: {"path": "f", "old_string": "two", "new_string": "2"}, WriteName: {"path": "f", "text": "stale\n"},
	}}
}

// reset writes the file anew, an hour ago, and reads it.
func (s stale) reset() (events.Expectation, time.Time) {
	s.t.Helper()
	s.put("f", "one two\n")
	mtime := time.Now().Add(-time.Hour).Truncate(time.Second)
	s.touch(mtime)
	return expectationOf(s.ok(ReadName, m{"path": "f"}).Seen[0]), mtime
}

func (s stale) touch(at time.Time) {
	s.t.Helper()
	if err := os.Chtimes(filepath.Join(s.dir, "f"), at, at); err != nil {
		s.t.Fatal(err)
	}
}

// conflicts wants that neither call changes the file, which says now.
func (s stale) conflicts(e events.Expectation, now string) {
	s.t.Helper()
	for tool, args := range s.calls {
		err := s.fails(events.Conflict, []string{Digest([]byte(now)), "read it again"}, tool, args, e)
		if err.Class != events.ClassConflict || s.get("f") != now {
			s.t.Errorf("%s: class %s, the file is %q", tool, err.Class, s.get("f"))
		}
	}
}

// The whole of what an optimistic lock by time gets wrong: content counts, and nothing else.
func TestExpectationsGoByContent(t *testing.T) {
	s := newStale(t)
	e, mtime := s.reset()
	s.put("f", "one TWO\n") // the same size, within the millisecond
	s.conflicts(e, "one TWO\n")
	s.touch(mtime)
	s.conflicts(e, "one TWO\n")
	e, mtime = s.reset()
	s.put("f", "another two\n")
	s.touch(mtime)
	s.conflicts(e, "another two\n")
	for tool, args := range s.calls {
		e, _ := s.reset()
		s.touch(time.Now()) // and no change
		s.ok(tool, args, e)
		e, _ = s.reset()
		s.put("f", "x")
		s.put("f", "one two\n") // and back
		s.ok(tool, args, e)
	}
	s.reset()
	s.ok(WriteName, m{"path": "f", "text": "never read"})
}

func TestExpectationsOfFilesThatComeAndGo(t *testing.T) {
	s := newStale(t)
	e, _ := s.reset()
	if err := os.Remove(filepath.Join(s.dir, "f")); err != nil {
		t.Fatal(err)
	}
	for tool, args := range s.calls {
		s.fails(events.Conflict, []string{"is gone"}, tool, args, e)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "f")); err == nil {
		t.Error("it was written")
	}
	s.reset()
	for tool, args := range s.calls {
		s.fails(events.Conflict, []string{"exists now", Digest([]byte("one two\n"))}, tool, args, events.Expectation{Path: "f"})
	}
	s.ok(WriteName, m{"path": "g", "text": "x"}, events.Expectation{Path: "g"})
	e = events.Expectation{Path: "no/such/f", Digest: Digest(nil)}
	s.fails(events.Conflict, []string{"is gone"}, WriteName, m{"path": "no/such/f", "text": "x"}, e)
	if _, err := os.Stat(filepath.Join(s.dir, "no")); err == nil {
		t.Error("a refused write made a folder")
	}
}

func TestExpectationsMeetUnderEveryName(t *testing.T) {
	s := newStale(t)
	e, _ := s.reset()
	s.link("f", "l")
	s.put("f", "one TWO\n")
	s.fails(events.Conflict, nil, WriteName, m{"path": "l", "text": "x"}, e)
	for _, name := range []string{"./l", "l", s.dir + "/f", "x/../f"} {
		e.Path = name
		s.fails(events.Conflict, nil, WriteName, m{"path": "f", "text": "x"}, e)
	}
	e.Path = "other"
	s.ok(WriteName, m{"path": "f", "text": "x"}, e)
}

// The gate has looked, and the file changes before the write: the write itself looks again.
func TestAChangeBetweenTheGateAndTheWrite(t *testing.T) {
	b := newBench(t, map[string]string{"f": "one\n"})
	gate, err := Look(t.Context(), b.dir, "f")
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	in := b.invocation(WriteName, m{"path": "f", "text": "mine\n"})
	in.Expect = []events.Expectation{expectationOf(gate)}
	for name, meddle := range map[string]func(){
		"in place": func() { b.put("f", "their longer one\n") },
		"by rename": func() {
			b.put("g", "one\n")
			if err := os.Rename(filepath.Join(b.dir, "g"), filepath.Join(b.dir, "f")); err != nil {
				t.Error(err)
			}
		},
		"removed": func() { _ = os.Remove(filepath.Join(b.dir, "f")) },
	} {
		b.put("f", "one\n")
		c := &change{root: root, in: in, given: "f"}
		c.next = func(place, []byte, bool) ([]byte, error) { // after the check, before the rename
			meddle()
			return []byte("mine\n"), nil
		}
		err := c.apply(t.Context())
		c.release()
		e, ok := errors.AsType[*tools.Error](err)
		if !ok || e.Code != events.Conflict || e.Effects != events.EffectsNone {
			t.Errorf("%s: got %v", name, err)
		}
		if content, err := os.ReadFile(filepath.Join(b.dir, "f")); err == nil && string(content) == "mine\n" {
			t.Errorf("%s: their change was lost", name)
		}
	}
	c := &change{root: root, in: b.invocation(WriteName, m{}), given: "new"}
	c.next = func(place, []byte, bool) ([]byte, error) { return []byte("mine\n"), nil }
	defer c.release()
	if _, err := c.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.readOld(); err != nil {
		t.Fatal(err)
	}
	c.content = []byte("mine\n")
	b.put("new", "theirs\n")
	err = c.put(t.Context())
	if e, ok := errors.AsType[*tools.Error](err); !ok || e.Code != events.Conflict || b.get("new") != "theirs\n" {
		t.Errorf("a file that was made meanwhile: %v, %q", err, b.get("new"))
	}
	if l := b.leftovers(); l != nil {
		t.Errorf("left over: %v", l)
	}
}

// Of those who base an edit on one reading, one wins; of those who do not, none is lost.
func TestEditsAtTheSameMoment(t *testing.T) {
	const n = 8
	var slots strings.Builder
	for i := range n {
		fmt.Fprintf(&slots, "slot%d=empty\n", i)
	}
	b := newBench(t, map[string]string{"f": slots.String(), "g": "0\n"})
	seen := expectationOf(b.ok(ReadName, m{"path": "g"}).Seen[0])
	var wg sync.WaitGroup
	var mu sync.Mutex
	won, lost := 0, 0
	for i := range n {
		wg.Go(func() {
			if _, err := b.try(EditName, m{"path": "f", "old_string": fmt.Sprintf("slot%d=empty", i), "new_string": fmt.Sprintf("slot%d=full", i)}); err != nil {
				t.Error(err)
			}
			_, err := b.try(WriteName, m{"path": "g", "text": fmt.Sprint(i)}, seen)
			e, told := errors.AsType[*tools.Error](err)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case told && e.Code == events.Conflict:
				lost++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := b.get("f"); strings.Count(got, "full") != n {
		t.Errorf("an edit was lost:\n%s", got)
	}
	if won != 1 || lost != n-1 {
		t.Errorf("%d won and %d lost", won, lost)
	}
	if l := b.leftovers(); l != nil {
		t.Errorf("left over: %v", l)
	}
}

func lockedFolder(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAWriterWaitsForTheLockAndHearsTheEnd(t *testing.T) {
	b := newBench(t, map[string]string{"f": "one\n"})
	tool, _ := b.reg.Lookup(WriteName)
	other := lockedFolder(t, b.dir)
	for want, make := range map[events.Code]func() (context.Context, context.CancelFunc){
		events.Timeout: func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 20*time.Millisecond)
		},
		events.CodeCancelled: func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		ctx, cancel := make()
		_, err := tool.Run(ctx, b.invocation(WriteName, m{"path": "f", "text": "two\n"}))
		cancel()
		e, ok := errors.AsType[*tools.Error](err)
		if !ok || e.Code != want || e.Effects != events.EffectsNone || b.get("f") != "one\n" {
			t.Errorf("got %v, want %s; the file is %q", err, want, b.get("f"))
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := tool.Run(t.Context(), b.invocation(WriteName, m{"path": "f", "text": "two\n"}))
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || b.get("f") != "two\n" {
		t.Errorf("%v, %q", err, b.get("f"))
	}
}

// The lock holds between processes, too.
func TestTheLockIsKnownToOtherProcesses(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("THE PROGRAM flock IS NOT ON THIS MACHINE: the lock is tried inside one process only")
	}
	b := newBench(t, map[string]string{"f": "one\n"})
	cmd := exec.Command("flock", "-x", b.dir, "sh", "-c", "echo held; read line; echo theirs > f")
	cmd.Dir = b.dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	seen, err := Look(t.Context(), b.dir, "f")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.try(WriteName, m{"path": "f", "text": "mine\n"}, expectationOf(seen))
		done <- err
	}()
	if err := in.Close(); err != nil { // lets it write and go
		t.Fatal(err)
	}
	err = <-done
	if e, ok := errors.AsType[*tools.Error](err); !ok || e.Code != events.Conflict || b.get("f") != "theirs\n" {
		t.Errorf("got %v, the file is %q", err, b.get("f"))
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestWhatACrashLeftIsClearedAway(t *testing.T) {
	b := newBench(t, map[string]string{"f": "one\n", tempName("f"): "half", tempName("g"): "half"})
	b.ok(WriteName, m{"path": "f", "text": "two\n"})
	b.ok(WriteName, m{"path": "g", "text": "two\n"})
	if b.get("f") != "two\n" || b.get("g") != "two\n" || b.leftovers() != nil {
		t.Errorf("%q, %q, left over %v", b.get("f"), b.get("g"), b.leftovers())
	}
	outside := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(outside, []byte("safe"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.link(outside, tempName("f"))
	b.ok(WriteName, m{"path": "f", "text": "three\n"})
	if content, err := os.ReadFile(outside); err != nil || string(content) != "safe" {
		t.Errorf("a trap was walked into: %q, %v", content, err)
	}
}

func TestLook(t *testing.T) {
	b := newBench(t, map[string]string{"f": "x"})
	b.link("f", "l")
	if s, err := Look(t.Context(), b.dir, "l"); err != nil || s.Path != "f" || s.Digest != Digest([]byte("x")) || s.Size != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := Look(t.Context(), b.dir, "none"); err != nil || s.Path != "none" || s.Digest != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Look(t.Context(), b.dir, "../x"); err == nil {
		t.Error("it looked outside")
	}
	if _, err := Look(t.Context(), b.dir, "."); err == nil {
		t.Error("a folder has no digest")
	}
}

func TestLargeFilesAreNotEdited(t *testing.T) {
	b := newBench(t, map[string]string{"f": strings.Repeat("x", maxEditFile+1)})
	b.fails(events.TooLarge, []string{"sed"}, EditName, m{"path": "f", "old_string": "a", "new_string": "b"})
	b.fails(events.TooLarge, nil, WriteName, m{"path": "f", "text": "b"})
}
