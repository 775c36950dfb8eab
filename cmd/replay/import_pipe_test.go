//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAPipeWaitsForItsWriter, and for nobody else: not where the user has had enough.
func TestAPipeWaitsForItsWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readable([]string{path}); err != nil {
		t.Errorf("a pipe without a writer: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := openFile(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	wrote := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
		if err == nil {
			_, err = w.WriteString("hello")
			err = errors.Join(err, w.Close())
		}
		wrote <- err
	}()
	f, err := openFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close(), <-wrote); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
}
