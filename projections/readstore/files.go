package readstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DirName is the store's folder in a node's data directory.
const DirName = "readstore"

// Names in a store's directory.
const (
	currentName = "current" // holds the name of the database that is read
	lockName    = "lock"    // held by the process that writes
	filePrefix  = "store-"
	fileSuffix  = ".db"
)

// folder is a store's directory. Databases are never written over: a new one has a
// name of its own, so that who still reads the old one keeps it.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// current is the name of the database that is read; "" if there is none.
func (f folder) current() (string, error) {
	text, err := os.ReadFile(f.path(currentName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	name := strings.TrimSpace(string(text))
	if number(name) == 0 {
		return "", nil // whoever wrote that meant no database of ours
	}
	return name, nil
}

// point makes a database the one that is read. It is durable when it returns.
func (f folder) point(name string) error {
	temporary := f.path(currentName + ".new")
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(name + "\n")
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, f.path(currentName))
}

// number is a database's, 0 for what is none.
func number(name string) int {
	digits, ok := strings.CutSuffix(strings.TrimPrefix(name, filePrefix), fileSuffix)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || fileName(n) != name {
		return 0
	}
	return n
}

func fileName(n int) string { return filePrefix + strconv.Itoa(n) + fileSuffix }

// databases are the names of all databases there are, the newest first.
func (f folder) databases() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if number(e.Name()) > 0 {
			out = append(out, e.Name())
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(number(b), number(a)) })
	return out, nil
}

// fresh is a name that no database has, nor had one with the number of last or less.
// The directory is made if somebody has removed it.
func (f folder) fresh(last int) (string, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return "", err
	}
	all, err := f.databases()
	if len(all) > 0 {
		last = max(last, number(all[0]))
	}
	return fileName(last + 1), err
}

// remove removes a database, with what SQL keeps beside it.
func (f folder) remove(name string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(f.path(name) + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ErrInUse says that another process fills the store.
var ErrInUse = errors.New("another process fills it")

// lock makes the directory, and takes it for this process. The lock is the
// kernel's, and goes with the process.
func (f folder) lock() (*os.File, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.path(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read store %s: %w", f, err), file.Close())
	}
	return file, nil
}

// minFree is how much of the disk is left to the log, in bytes.
const minFree = 128 << 20

// room returns an error where the disk is nearly full: the log, which may be on the
// same one, needs what is left.
func (f folder) room() error {
	var at unix.Statfs_t
	if err := unix.Statfs(string(f), &at); err != nil {
		return err
	}
	if free := uint64(at.Bsize) * at.Bavail; free < minFree {
		return fmt.Errorf("%d MiB are free where the read store is: it leaves %d to the log", free>>20, minFree>>20)
	}
	return nil
}
