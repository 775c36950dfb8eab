package shell_test

import (
	"context"
	"fmt"
	"os"

	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/shell"
)

// A command that leaves something in the background: its answer comes at once,
// and nothing of it is left.
func ExampleNew() {
	bash, err := shell.New(shell.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := tools.Invocation{Attempt: 1, Args: []byte(`{"command":"sleep 60 & echo hi; exit 3"}`), Workspace: os.TempDir()}
	r := tools.Execute(context.Background(), bash, in, tools.Options{})
	fmt.Print(r.Result.Text.Text)
	fmt.Println(r.Class, *r.Exit, r.Confirmed, r.Result.Error.Message)
	// Output:
	// hi
	// [ended, because the command left it running: sleep]
	// tool 3 true exit status 3
}

// What a person reads before a command runs.
func ExampleNew_asks() {
	bash, err := shell.New(shell.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(bash.Asks([]byte(`{"command":"make install #\u001b[1Gls","description":"looks around"}`)))
	// Output:
	// run in bash:
	//   | make install #\u001b[1Gls
	// the model says of it: looks around
}
