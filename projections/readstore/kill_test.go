package readstore

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

var (
	killTimes = flag.Int("kill.times", 0, "how often TestSIGKILL kills the process")
	killSeed  = flag.Uint64("kill.seed", 0, "seed of TestSIGKILL; 0: any")
)

// childDir tells the test's own program to fill a store, and where.
const childDir = "SLUICE_TEST_READSTORE"

// killLog is the log that the child folds: the same at each start.
func killLog() *bulk { return newBulk(2000) }

// runChild is the process that is killed: it says each place where it is, and ends once
// it has all of the log.
func runChild() bool {
	dir := os.Getenv(childDir)
	if dir == "" {
		return false
	}
	if err := child(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func child(dir string) error {
	ctx := context.Background()
	w, err := openWriter(ctx, folder(dir), "store-1.db", func(where string) error {
		_, err := fmt.Println(where) // not buffered
		return err
	})
	if err != nil {
		return err
	}
	for level := false; !level; {
		if level, err = w.pass(ctx, killLog(), 7); err != nil {
			return err
		}
	}
	return w.close()
}

// TestSIGKILL: a process that fills a store is killed again and again, at any place,
// and the next one goes on. In the end everything is there once.
func TestSIGKILL(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test ./projections/readstore -run SIGKILL -kill.seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	self := must(os.Executable())(t)
	killed := 0
	for killed < *killTimes {
		if !killAfter(t, self, dir, 1+r.IntN(16)) {
			break
		}
		killed++
	}
	for killAfter(t, self, dir, 1<<30) {
		t.Fatal("killed by nobody")
	}
	if killed < 2 {
		t.Errorf("it came to its end after %d kills", killed)
	}
	got := dump(t, folder(dir).path("store-1.db"))
	same(t, fmt.Sprint("after ", killed, " kills"), got, rebuilt(t, dir, killLog()))
}

// killAfter starts a process, and kills it once it has said something so often. It says
// whether that came about.
func killAfter(t *testing.T, self, dir string, lines int) bool {
	t.Helper()
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), childDir+"="+dir)
	c.Stderr = os.Stderr
	out := must(c.StdoutPipe())(t)
	check(t, c.Start())
	said := bufio.NewScanner(out)
	for said.Scan() {
		if lines--; lines == 0 {
			check(t, c.Process.Kill())
		}
	}
	err := c.Wait()
	var exit *exec.ExitError
	switch {
	case lines <= 0 && (err == nil || errors.As(err, &exit)): // it may have been at its end
		return true
	case err != nil:
		t.Fatal(err)
	}
	return false
}
