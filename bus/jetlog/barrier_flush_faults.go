//go:build faults

package jetlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

// syncedVar names the file that a build with faults writes to how much of each block
// is durable: what a power failure leaves, for a test that cuts the rest off.
const syncedVar = "SLUICE_TEST_SYNCED"

// synced is a line of that file. What is beyond Size may be lost.
type synced struct {
	Path  string `json:"path"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
}

var syncedFile = sync.OnceValues(func() (*os.File, error) {
	path := os.Getenv(syncedVar)
	if path == "" {
		return nil, nil
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
})

// flushFile is datasync. It writes down what was there before, once that is durable and
// BEFORE anybody hears of it.
func flushFile(f *os.File) error {
	out, err := syncedFile()
	if err != nil || out == nil {
		return errors.Join(err, datasync(f))
	}
	was, err := statOf(f)
	if err != nil {
		return err
	}
	if err := datasync(f); err != nil {
		return err
	}
	line, err := json.Marshal(synced{f.Name(), was.inode, was.size})
	if err != nil {
		return fmt.Errorf("%s: %w", syncedVar, err)
	}
	_, err = out.Write(append(line, '\n')) // O_APPEND: several streams are synced at once
	return err
}
