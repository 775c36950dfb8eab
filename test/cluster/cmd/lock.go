package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file that says which process runs on a directory. The lock on it
// is the kernel's, and goes with that process.
const lockName = "cluster.lock"

// lock takes the directory, which is made if it is missing, for this process alone.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		who, _ := holder(f)
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by process %d: stop that one (the verb stop does), or use another directory with -dir", dir, who)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // which unlocks it
}

// holder is the process that the file names.
func holder(f *os.File) (int, error) {
	b := make([]byte, 32)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b[:n])))
}

// stop ends what runs on the directory, and waits until it has.
func (s settings) stop(out io.Writer) error {
	f, err := os.Open(filepath.Join(s.dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("nothing was ever started on %s: is it the directory that you mean? See -dir", s.dir)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		fmt.Fprintf(out, "nothing runs on %s\n", s.dir)
		return nil
	}
	pid, err := holder(f)
	if err != nil || pid <= 1 {
		return fmt.Errorf("%s does not say which process runs: end it by hand", f.Name())
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	fmt.Fprintf(out, "process %d has been asked to end …\n", pid)
	late := time.NewTimer(2 * time.Minute)
	defer late.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		select {
		case <-tick.C:
		case <-late.C:
			return fmt.Errorf("process %d has not ended within two minutes: kill -9 %d ends it and everything that it started", pid, pid)
		}
	}
	fmt.Fprintln(out, "everything has ended")
	return nil
}
