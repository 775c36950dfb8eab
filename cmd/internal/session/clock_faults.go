//go:build faults

package session

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// Steady is this machine's clock, moved by SLUICE_TEST_CLOCK: for tests of clocks that
// are off.
func Steady() time.Time { return time.Now().Add(skew()) }

var skew = sync.OnceValue(func() time.Duration {
	text := os.Getenv("SLUICE_TEST_CLOCK")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "SLUICE_TEST_CLOCK:", err)
		os.Exit(2)
	}
	return d
})
