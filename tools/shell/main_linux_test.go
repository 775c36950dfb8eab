package shell

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/tools/sandbox"
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
	flag.Parse()
	if err := contain(*inSandbox); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	leaks.Main(m)
}

var inSandbox = flag.String("sandbox", "off", "what contains the commands of all tests: off, landlock or all that the machine has")

// contain sets contained.
func contain(what string) error {
	m, err := sandbox.Look(context.Background())
	if err != nil {
		return err
	}
	switch what {
	case "off":
		return nil
	case "landlock":
		m.Use.Namespaces = false
	case "all":
	default:
		return fmt.Errorf("-sandbox %q: want off, landlock or all", what)
	}
	me, err := os.Executable()
	contained = sandbox.Policy{Use: m.Use, Read: []string{filepath.Dir(me)}} // the tests' own program is a command of some
	return err
}
