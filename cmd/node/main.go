// Command sluice-node runs the tool calls of AI agents, and is the operator's
// way to look at them and to step in.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
