package jetlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Files in the server's folder that say who is using it. The lock is the
// kernel's: it goes with its process, however that ends.
const (
	lockName    = "sluice.lock"
	runningName = "sluice.run"
)

// Running is what a running node has told about itself.
type Running struct {
	PID  int    `json:"pid"`
	URL  string `json:"url,omitempty"`  // for NATS clients; "" if it listens for none
	HTTP string `json:"http,omitempty"` // of the node's HTTP door; "" if not told
	// Token is what NATS clients must give; "" means nothing. The file that it
	// is told in can be read by the same user only.
	Token string `json:"token,omitempty"`
	// Pin is the SHA-256 of the server's certificate, in hex; "" means no TLS. See
	// DialConfig.
	Pin string `json:"pin,omitempty"`
	// More is what else was told, by name.
	More map[string]string `json:"more,omitempty"`
}

// Find says whether a process runs a server in the directory, and what it has
// told about itself: one that is only just starting, its PID at most. In a
// directory that does not exist nothing runs.
func Find(dir string) (Running, bool, error) {
	r, err := readRunning(dir)
	if err == nil {
		err = held(dir)
	}
	switch {
	case err == nil:
		return r, true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errFree):
		return Running{}, false, nil
	}
	return Running{}, false, fmt.Errorf("find what runs in %s: %w", dir, err)
}

var errFree = errors.New("nobody has the lock")

// held returns nil if somebody has the lock, and errFree if nobody has.
func held(dir string) error {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return err
	}
	err = flock(f, unix.LOCK_SH)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return f.Close()
	}
	return errors.Join(cmp.Or(err, errFree), f.Close()) // this gives the lock back, too
}

func readRunning(dir string) (r Running, err error) {
	text, err := os.ReadFile(filepath.Join(dir, runningName))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// lockTries is how often a lock is tried for, lockPause apart: whoever only
// looks who has it holds it for a moment.
const (
	lockTries = 5
	lockPause = 20 * time.Millisecond
)

// lock takes the directory for this process, or says who has it.
func lock(ctx context.Context, dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, explain(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, explain(dir, err)
	}
	err = flock(f, unix.LOCK_EX)
	tick := time.NewTicker(lockPause)
	defer tick.Stop()
	for try := 1; errors.Is(err, unix.EWOULDBLOCK) && try < lockTries && ctx.Err() == nil; try++ {
		<-tick.C
		err = flock(f, unix.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(inUse(dir, err), f.Close())
	}
	// Whoever finds the lock taken must not read of the last one that had it.
	if err := os.Remove(filepath.Join(dir, runningName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(explain(dir, err), f.Close())
	}
	if err := tell(dir, Running{PID: os.Getpid()}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func inUse(dir string, err error) error {
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%s cannot be locked: use a directory on a local disk: %w", dir, err)
	}
	r, err := readRunning(dir)
	who := "another process"
	switch {
	case err == nil && r.URL != "":
		who = fmt.Sprintf("process %d, which answers at %s", r.PID, r.URL)
	case err == nil && r.PID != 0:
		who = fmt.Sprintf("process %d", r.PID)
	}
	return fmt.Errorf("%s is in use by %s: stop that one, or use another directory", dir, who)
}

// tell replaces what is told about the running process.
func tell(dir string, r Running) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, runningName), append(text, '\n'))
}

// unlock ends what lock began. The lock file stays: one that is deleted could
// be locked by two.
func unlock(dir string, f *os.File) error {
	err := os.Remove(filepath.Join(dir, runningName))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// flock takes a lock at once or not at all.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err != unix.EINTR {
			return err
		}
	}
}

// explain says what to do about an error with the server's folder.
func explain(dir string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("the disk of %s is full: free some space, or use another directory: %w", dir, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s is not writable: change its owner or its rights, or use another directory: %w", dir, err)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s is not a directory: use another one: %w", dir, err)
	}
	return fmt.Errorf("use of %s: %w", dir, err)
}
