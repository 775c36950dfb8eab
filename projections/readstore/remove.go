package readstore

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Remove removes the read store of a directory, with what a process that was killed has
// left of one, and the directory where nothing else is in it. It says whether there was
// one. It returns ErrInUse where a process fills the store.
func Remove(dir string) (was bool, err error) {
	f := folder(dir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	held, err := f.lock()
	if err != nil {
		return false, err
	}
	var errs []error
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, filePrefix) || strings.HasPrefix(name, currentName) {
			was = true
			errs = append(errs, os.Remove(f.path(name)))
		}
	}
	errs = append(errs, os.Remove(f.path(lockName)), held.Close())
	if err := errors.Join(errs...); err != nil {
		return was, err
	}
	_ = os.Remove(dir) // what else is there is somebody's own
	return was, nil
}
