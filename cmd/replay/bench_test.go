package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/events"
)

var (
	benchEvents = flag.Int("bench.events", 50_000, "of the trace that is opened")
	benchLog    = flag.Int("bench.log", 5_000_000, "events of the log in which a trace is found")
	benchSeed   = flag.Uint64("bench.seed", 1, "of the positions that are asked for")
)

// broad is a lawful turn of four calls with bodies of an ordinary size: 23 events in
// 13 commits.
func broad(trace string, n int) []events.Commit {
	c := compose(trace, fmt.Sprintf("t%07d", n))
	c.at = c.at.Add(time.Duration(n) * time.Second)
	calls := rawCalls("Grep", 4)
	for i := range calls {
		calls[i].ProviderID = fmt.Sprintf("call_%d_%d", n, i)
		calls[i].Args.Text = fmt.Sprintf(`{"path":"src/%d/%d.go","pattern":"%s"}`, n, i, strings.Repeat("x", 100))
	}
	c.begin(events.Readonly, calls...)
	for i := range calls {
		c.start(i, 1)
		if i%2 == 0 {
			c.add(i, &events.Progress{Attempt: 1, Text: "half"})
		}
		c.add(i, &events.Completed{Outcome: outcome(1, events.ClassOK, strings.Repeat("found it\n", 60))})
	}
	return c.end()
}

// eventsIn are the events of commits.
func eventsIn(commits []events.Commit) int {
	n := 0
	for _, c := range commits {
		n += len(c.Records)
	}
	return n
}

// figure prints what was measured: what benchmarks log is cut.
func figure(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// benchKeeper keeps a log as a node does.
func benchKeeper(t testing.TB, dir string) *session.Session {
	t.Helper()
	ses, err := session.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: dir, Port: -1, Token: "secret"}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ses.LendBarrier(t.Context(), slog.New(slog.DiscardHandler))
	return ses
}

// benchWrite writes traces, some at a time, until they hold n events, and returns the
// log's positions of the first one.
func benchWrite(t testing.TB, log bus.Log, n, writers int, name func(turn int) string) []events.Position {
	t.Helper()
	var mu sync.Mutex
	var places []events.Position
	turn, left := 0, n
	var failed error
	take := func() []events.Commit {
		mu.Lock()
		defer mu.Unlock()
		if left <= 0 || failed != nil {
			return nil
		}
		commits := broad(name(turn), turn)
		turn++
		left -= eventsIn(commits)
		return commits
	}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for commits := take(); commits != nil; commits = take() {
				at := uint64(0)
				for _, c := range commits {
					s, err := log.Append(context.Background(), c, at)
					mu.Lock()
					failed = errors.Join(failed, err)
					if err == nil && c.Turn.Trace == name(0) {
						for i := range c.Records {
							places = append(places, s.Position(i))
						}
					}
					mu.Unlock()
					at = s.Seq
				}
			}
		})
	}
	wg.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	return places
}

// benchBinary builds the command.
func benchBinary(t testing.TB) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "sluice-replay")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// benchRun runs the command, and returns what it says on standard error.
func benchRun(t testing.TB, bin, in string, args ...string) (out []byte, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", bin, args, err, stderr.String())
	}
	return stdout.Bytes(), stderr.String()
}

// BenchmarkOpen measures how long a long trace takes to open, how much memory it needs,
// and how long show at any of its events takes then. The bars are 2 s, 256 MiB and 200 ms. It is run once (-benchtime 1x).
func BenchmarkOpen(t *testing.B) {
	dir := t.TempDir()
	ses := benchKeeper(t, dir)
	began := time.Now()
	places := benchWrite(t, ses.Bus, *benchEvents, 1, func(int) string { return "long" })
	figure("%d events written in %s", len(places), time.Since(began).Round(time.Millisecond))
	bin := benchBinary(t)
	r := rand.New(rand.NewPCG(*benchSeed, 0))
	var asks strings.Builder
	for range 500 {
		fmt.Fprintln(&asks, places[r.IntN(len(places))])
	}
	measure := func(what string, args ...string) {
		out, said := benchRun(t, bin, asks.String(), append([]string{"open", "long", "--times"}, args...)...)
		lines := strings.Split(strings.TrimSpace(said), "\n")
		for _, l := range lines {
			if strings.HasPrefix(l, "opened") || strings.HasPrefix(l, "peak") || strings.Contains(l, "answers:") {
				figure("%s: %s", what, l)
			}
		}
		began := time.Now()
		first, _ := benchRun(t, bin, "", append([]string{"show", "long"}, args...)...)
		figure("%s: show prints its first page, %d KiB, in %s; the answers were %d KiB", what, len(first)>>10, time.Since(began).Round(time.Millisecond), len(out)>>10)
		began = time.Now()
		benchRun(t, bin, "", append([]string{"show", "long", "--at", places[len(places)/2].String()}, args...)...)
		figure("%s: show --at the middle, as a process of its own: %s", what, time.Since(began).Round(time.Millisecond))
		for _, form := range []string{"--svg", "--html"} {
			began = time.Now()
			page, _ := benchRun(t, bin, "", append([]string{"show", "long", form, "-"}, args...)...)
			figure("%s: show %s is %d KiB, in %s", what, form, len(page)>>10, time.Since(began).Round(time.Millisecond))
		}
	}
	measure("through a running node", "--data", dir)
	if err := ses.Close(); err != nil {
		t.Fatal(err)
	}
	measure("the directory itself", "--data", dir)
	file := filepath.Join(t.TempDir(), "long.sluice")
	benchRun(t, bin, "", "export", "long", "--data", dir, "-o", file)
	measure("an archive", "--archive", file)
}

// BenchmarkFind measures how long it takes to find and show one trace of a large log,
// through a running node. The bar is 1 s. It is run once.
func BenchmarkFind(t *testing.B) {
	dir := t.TempDir()
	ses := benchKeeper(t, dir)
	defer func() {
		if err := ses.Close(); err != nil {
			t.Error(err)
		}
	}()
	const turns = 40 // of a trace: about a thousand events
	began := time.Now()
	benchWrite(t, ses.Bus, *benchLog, 64, func(turn int) string { return fmt.Sprintf("trace-%06d", turn/turns) })
	figure("%d events written in %s", *benchLog, time.Since(began).Round(time.Millisecond))
	bin := benchBinary(t)
	n := *benchLog / (eventsIn(broad("x", 0)) * turns)
	r := rand.New(rand.NewPCG(*benchSeed, 1))
	for _, verb := range []string{"show", "messages", "verify"} {
		var longest, sum time.Duration
		const times = 10
		for range times {
			began := time.Now()
			benchRun(t, bin, "", verb, fmt.Sprintf("trace-%06d", r.IntN(n)), "--data", dir)
			took := time.Since(began)
			longest, sum = max(longest, took), sum+took
		}
		figure("%s of one trace of %d, as a process of its own: %s on average, the longest %s", verb, n, (sum / times).Round(time.Millisecond), longest.Round(time.Millisecond))
	}
}
