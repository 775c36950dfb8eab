// Command sluice-replay reads, checks and imports recorded traces. It never runs
// a tool.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
