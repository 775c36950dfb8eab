package session

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/policy/secrets"
)

// maxKeyFile is the size in bytes of the largest file of keys.
const maxKeyFile = 64 << 10

// KeyFile reads a file of keys, which only its owner and its group may read. setting
// names it in errors.
func KeyFile(setting, path string) ([][]byte, error) {
	fail := func(err error, hint string) ([][]byte, error) {
		return nil, exit.Misused(fmt.Errorf("--%s: %w", setting, err), hint)
	}
	f, err := os.Open(path)
	if err != nil {
		return fail(err, "name a file that can be read; sluice-node secrets key FILE makes one")
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fail(err, "name a file that can be read")
	case !info.Mode().IsRegular():
		return fail(fmt.Errorf("%s is no regular file", path), "name a file")
	case info.Mode().Perm()&0o027 != 0:
		return fail(fmt.Errorf("others can read %s, or its group can change it (%v)", path, info.Mode().Perm()), "chmod 600 "+path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return fail(err, "name a file that can be read")
	}
	keys, err := secrets.ReadKeys(text)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", path, err), "")
	}
	return keys, nil
}

// MakeKeyFile writes a file with one new key, for its owner only. It returns an error
// that is fs.ErrExist where there is a file already, which stays as it is.
func MakeKeyFile(path string) error {
	text, err := NewKey()
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".key-*") // 0600
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(temporary, "# Keys of Sluice: whoever has them can open what they seal.\n%s\n", text)
	if err == nil {
		err = temporary.Sync()
	}
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Link(temporary.Name(), path) // whole, or not at all, and never over another
	}
	if gone := os.Remove(temporary.Name()); err == nil {
		err = gone
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	var link *os.LinkError
	if errors.As(err, &link) && errors.Is(link.Err, fs.ErrExist) {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	return err
}

// NewKey is a new key, as files of keys have it.
func NewKey() (string, error) {
	key := make([]byte, secrets.KeySize)
	if _, err := rand.Read(key); err != nil {
		return "", err
	}
	return hex.EncodeToString(key), nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
