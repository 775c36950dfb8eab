package shell_test

import (
	"fmt"

	"github.com/sluice-run/sluice/policy/shell"
)

func ExampleClassify() {
	for _, line := range []string{"git log --oneline | head -5", "mv a b", "git status && r\\m x"} {
		a := shell.Classify(line)
		fmt.Printf("%-5s %v %q\n", a.Decision, a.Policies, a.Commands)
	}
	// Output:
	// allow [shell.read] ["git log --oneline" "head -5"]
	// ask   [shell.move-copy] ["mv a b"]
	// deny  [shell.remove] ["git status" "rm x"]
}
