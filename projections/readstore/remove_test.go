package readstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "readstore")
	if was, err := Remove(dir); was || err != nil {
		t.Errorf("what is not there: %t, %v", was, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(names ...string) {
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("store-3.db", "store-3.db-wal", "store-3.db-shm", "store-4.db-journal", "current", "current.new", "lock", "own.txt")
	held, err := folder(dir).lock()
	if err != nil {
		t.Fatal(err)
	}
	if was, err := Remove(dir); was || !errors.Is(err, ErrInUse) {
		t.Errorf("in use: %t, %v", was, err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if was, err := Remove(dir); !was || err != nil {
		t.Errorf("%t, %v", was, err)
	}
	if left, err := os.ReadDir(dir); len(left) != 1 || left[0].Name() != "own.txt" || err != nil {
		t.Errorf("left are %v, %v", left, err)
	}
	if err := os.Remove(filepath.Join(dir, "own.txt")); err != nil {
		t.Fatal(err)
	}
	write("store-1.db")
	if was, err := Remove(dir); !was || err != nil {
		t.Errorf("%t, %v", was, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory stays: %v", err)
	}
}
