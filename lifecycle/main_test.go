package lifecycle_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("rapid.nofailfile", "true"); err != nil { // the seed is printed: that is enough to reproduce
		panic(err)
	}
	os.Exit(m.Run())
}
