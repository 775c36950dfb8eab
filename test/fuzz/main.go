// Command fuzz runs every fuzz test of the packages for a while each, and ends at the first
// that finds something.
//
// The fuzzing of Go before release 1.27 sometimes reports the end of its own time as a
// failure of the test (golang/go#75804). Such a run says nothing, and is made again.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// tries is how often a test is run whose runs say nothing. One that really does not end
// would do so each time.
const tries = 3

func main() {
	span := flag.String("time", "10s", "how long each test runs, a `duration`, or how often, as 1000x")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	if err := all(*span, packages); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func all(span string, patterns []string) error {
	packages, err := words("go", append([]string{"list"}, patterns...)...)
	if err != nil {
		return err
	}
	for _, pkg := range packages {
		names, err := words("go", "test", "-list", "^Fuzz", pkg)
		if err != nil {
			return fmt.Errorf("%s: %w", pkg, err)
		}
		for _, name := range names {
			if !strings.HasPrefix(name, "Fuzz") {
				continue // the closing line of go test
			}
			fmt.Printf("fuzz %s %s for %s\n", pkg, name, span)
			if err := one(pkg, name, span); err != nil {
				return fmt.Errorf("%s %s: %w", pkg, name, err)
			}
		}
	}
	return nil
}

// one runs a test until a run says something.
func one(pkg, name, span string) (err error) {
	for try := 1; try <= tries; try++ {
		var said bytes.Buffer
		cmd := exec.Command("go", "test", pkg, "-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", span, "-fuzzminimizetime", "2s")
		cmd.Stdout = io.MultiWriter(os.Stdout, &said)
		cmd.Stderr = cmd.Stdout
		if err = cmd.Run(); err == nil || !saysNothing(said.String()) {
			return err
		}
		fmt.Printf("fuzz %s %s: its time was over, which Go took for a failure: once more\n", pkg, name)
	}
	return err
}

// bare is the whole of what a test says whose time was over.
var bare = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \([0-9.]+s\)\n    context deadline exceeded\nFAIL$`)

// saysNothing says whether a run that failed has found no input, but the end of its time.
func saysNothing(output string) bool {
	return bare.MatchString(output) && !strings.Contains(output, "Failing input")
}

// words are those that a command prints.
func words(name string, args ...string) ([]string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.Fields(string(out)), err
}
