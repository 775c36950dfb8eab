package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// createBeside makes a file that is to take another one's place. Only its owner can
// read it: it has what agents were told.
func createBeside(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
}

// Write is io.Writer's.
func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	o.n += int64(n)
	return n, err
}

// close puts the file in its place, durable, if it is whole: failed is why it is not.
func (o *output) close(failed error) error {
	err := errors.Join(failed, o.Flush())
	if o.file == nil {
		return err
	}
	if err == nil {
		err = o.file.Sync()
	}
	err = errors.Join(err, o.file.Close())
	if err == nil {
		err = os.Rename(o.file.Name(), o.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(o.file.Name()))
	}
	dir, err := os.Open(filepath.Dir(o.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
