package fs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fs"
)

// An edit that was decided on what a file no longer says is refused.
func ExampleTools() {
	workspace, err := os.MkdirTemp("", "workspace")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(workspace)
	file := filepath.Join(workspace, "plan.txt")
	_ = os.WriteFile(file, []byte("buy milk\n"), 0o644)

	family, err := fs.Tools()
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := tools.NewRegistry(family...)
	if err != nil {
		fmt.Println(err)
		return
	}
	call := func(name, args string, expect ...events.Expectation) (events.Result, error) {
		tool, _ := registry.Lookup(name)
		return tool.Run(context.Background(), tools.Invocation{Args: []byte(args), Workspace: workspace, Expect: expect})
	}

	read, err := call("Read", `{"path":"plan.txt"}`)
	fmt.Println(read.Text.Text, err)

	_ = os.WriteFile(file, []byte("buy wine\n"), 0o644) // somebody else
	seen := read.Seen[0]
	_, err = call("Edit", `{"path":"plan.txt","old_string":"buy","new_string":"sell"}`,
		events.Expectation{Path: seen.Path, Digest: seen.Digest, Size: seen.Size})
	if e, ok := errors.AsType[*tools.Error](err); ok {
		fmt.Println(e.Code, e.Effects)
	}
	// Output:
	//      1	buy milk <nil>
	// CONFLICT none
}
