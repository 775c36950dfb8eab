//go:build !linux

package e2e

import (
	"os"
	"testing"
)

// readOnly takes the right to write in a directory from everybody, until the test ends.
func readOnly(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("THIS IS NOT TESTED HERE: root may write everywhere")
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) }) // for the removal
}
