package shell

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks for goroutines that are left, and is the little program that
// tests run as a command which escapes by every means.
func TestMain(m *testing.M) {
	switch os.Getenv("SHELL_TEST_DAEMON") {
	case "":
	case "headless":
		headless()
	default:
		daemon()
		return
	}
	goleak.VerifyTestMain(m)
}
