// Package e2e runs the built programs as real processes, with the log that is
// embedded in them or a NATS server of the test's own, and speaks to them only as
// anybody could: over HTTP, over NATS, on the command line, and with signals.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/tools/mcp/mcptest"
)

// bin is the folder of the programs under test.
var bin string

func TestMain(m *testing.M) {
	mcptest.Main(context.Background()) // a scripted MCP server, in a process that is to be one
	workerMain()                       // a worker that serves tools, likewise
	os.Exit(run(m))
}

// run builds the node once, runs the tests, and sees that nothing of them still runs.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sluice-e2e-")
	if err == nil {
		bin = dir
		defer os.RemoveAll(dir)
		err = build("node")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return leaks.Run(m, leaks.OfServers...)
}

// build makes bin/sluice-NAME of cmd/NAME, without the race detector: a node has
// to be as quick as it is.
func build(name string) error {
	cmd := exec.Command("go", "build", "-o", filepath.Join(bin, "sluice-"+name), "../../cmd/"+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ../../cmd/%s: %w\n%s", name, err, out)
	}
	return nil
}

var replayBuilt = sync.OnceValue(func() error { return build("replay") })

// replay is the path of sluice-replay.
func replay(t *testing.T) string {
	t.Helper()
	if err := replayBuilt(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(bin, "sluice-replay")
}
