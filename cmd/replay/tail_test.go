package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/events"
)

// tailing is a tail that runs, and its lines.
type tailing struct {
	lines chan string
	errs  *bytes.Buffer
	code  chan int
	stop  context.CancelFunc
}

// follow runs tail until stop is called.
func follow(t *testing.T, args ...string) *tailing {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	f := &tailing{lines: make(chan string, 10_000), errs: &bytes.Buffer{}, code: make(chan int, 1), stop: stop}
	go func() {
		f.code <- run(ctx, append([]string{"tail", "--json"}, args...), strings.NewReader(""), w, f.errs)
		_ = w.Close() // of a pipe: never fails
	}()
	go func() {
		defer close(f.lines)
		in := bufio.NewScanner(r)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			f.lines <- in.Text()
		}
	}()
	t.Cleanup(func() { f.end(t) })
	return f
}

// end stops the tail, and wants it to have ended well.
func (f *tailing) end(t *testing.T) {
	t.Helper()
	f.stop()
	if code, ok := <-f.code; ok {
		close(f.code)
		if code != 0 {
			t.Errorf("tail: exit %d: %s", code, f.errs)
		}
	}
}

// next are the positions of so many lines; a notice is its name and where it goes on.
func (f *tailing) next(t *testing.T, n int) []string {
	t.Helper()
	late := time.After(2 * time.Minute)
	var out []string
	for len(out) < n {
		select {
		case line, ok := <-f.lines:
			if !ok {
				t.Fatalf("tail has ended after %v: %s", out, f.errs)
			}
			out = append(out, positionOf(t, line))
		case <-late:
			t.Fatalf("%d of %d lines came: %v", len(out), n, out)
		}
	}
	return out
}

func positionOf(t *testing.T, line string) string {
	t.Helper()
	var l struct{ Position, Notice, From, Of string }
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if l.Notice != "" {
		return strings.TrimSpace(fmt.Sprintf("%s %s-%s %s", l.Notice, l.From, l.Position, l.Of))
	}
	return l.Position
}

// writer appends turns of one call to a log: eight events each, in two commits.
type writer struct {
	log  bus.Log
	n    int
	want []string // positions of all that was written
}

func (w *writer) write(t *testing.T, turns int) {
	t.Helper()
	for range turns {
		w.n++
		at := uint64(0)
		for _, c := range quick("watched", fmt.Sprintf("t%03d", w.n)) {
			s, err := w.log.Append(t.Context(), c, at)
			if err != nil {
				t.Fatal(err)
			}
			at = s.Seq
			for i := range s.Commit.Records {
				w.want = append(w.want, s.Position(i).String())
			}
		}
	}
}

// nodeOn keeps a directory's log as a node does, until close is called.
func nodeOn(t *testing.T, dir string) *session.Session {
	t.Helper()
	ses, err := session.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: dir, Port: -1, Token: "secret"}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ses.LendBarrier(context.Background(), slog.New(slog.DiscardHandler))
	return ses
}

// TestAnObserverThatReconnectsGoesOnBehindWhatItSaw: with its cursor, in order, each
// event once; whether the observer went away or the node did.
func TestAnObserverThatReconnectsGoesOnBehindWhatItSaw(t *testing.T) {
	dir, cursor := t.TempDir(), filepath.Join(t.TempDir(), "cursor")
	ses := nodeOn(t, dir)
	w := &writer{log: ses.Bus}
	w.write(t, 8)
	from := 40
	f := follow(t, "--data", dir, "--from", w.want[from], "--cursor", cursor)
	got := f.next(t, len(w.want)-from)
	f.end(t)
	w.write(t, 4) // while nobody looks

	f = follow(t, "--data", dir, "--cursor", cursor)
	got = append(got, f.next(t, 32)...)
	if err := ses.Close(); err != nil { // and now the node goes
		t.Fatal(err)
	}
	ses = nodeOn(t, dir)
	defer func() {
		if err := ses.Close(); err != nil {
			t.Error(err)
		}
	}()
	w.log = ses.Bus
	w.write(t, 3)
	got = append(got, f.next(t, 24)...)
	f.end(t)
	if !slices.Equal(got, w.want[from:]) {
		t.Errorf("heard %v\nwant  %v", got, w.want[from:])
	}
	text, err := os.ReadFile(cursor)
	last, perr := events.ParsePosition(w.want[len(w.want)-1])
	behind := events.Position{Generation: last.Generation, Seq: last.Seq + 1}
	if err := errors.Join(err, perr); err != nil || strings.TrimSpace(string(text)) != behind.String() {
		t.Errorf("the cursor is %q behind %s: %v", text, last, err)
	}
	if said := f.errs.String(); !strings.Contains(said, "is waited for") || !strings.Contains(said, "is there again") {
		t.Errorf("said %q", said)
	}
}

// thinned is a log some of whose commits are gone, or cannot be read.
type thinned struct {
	bus.Bus
	gone map[uint64]bool
	bad  map[uint64]bool
}

func (l *thinned) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	broken := uint64(0)
	err := l.Bus.Read(ctx, from, f, follow, func(s bus.Stored) error {
		switch {
		case l.gone[s.Seq]:
			return nil
		case l.bad[s.Seq]:
			broken = s.Seq
			return errEnough
		}
		return yield(s)
	})
	if broken > 0 && errors.Is(err, errEnough) {
		return &bus.Unreadable{Seq: broken, Err: events.ErrFormat}
	}
	return err
}

// heard is what a tail of a log prints.
func heard(t *testing.T, log bus.Bus, change func(*tailer)) []string {
	t.Helper()
	var out bytes.Buffer
	tl := &tailer{app: quietApp(&out), start: true, seen: make(map[events.TurnKey]*sequence)}
	tl.app.json = true
	if change != nil {
		change(tl)
	}
	if err := tl.read(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	tl.app.out.Flush()
	var list []string
	for line := range strings.Lines(out.String()) {
		list = append(list, positionOf(t, line))
	}
	return list
}

func TestTailAnnouncesWhatIsNotThere(t *testing.T) {
	log := memlog.New(memlog.Config{})
	w := &writer{log: log.View("w")}
	w.write(t, 3) // 1.1.0, 1.2.0 … 1.2.6, 1.3.0, …
	view := log.View("r")
	if got := heard(t, &thinned{Bus: view}, nil); !slices.Equal(got, w.want) {
		t.Fatalf("%v", got)
	}
	got := heard(t, &thinned{Bus: view, gone: map[uint64]bool{2: true, 3: true}}, nil)
	want := slices.Concat([]string{"1.1.0", "gap 1.2.0-1.4.0"}, w.want[9:])
	if !slices.Equal(got, want) {
		t.Errorf("missing commits: %v, want %v", got, want)
	}
	got = heard(t, &thinned{Bus: view, bad: map[uint64]bool{2: true}}, nil)
	want = slices.Concat([]string{"1.1.0", "unreadable 1.2.0-1.3.0"}, w.want[8:])
	if !slices.Equal(got, want) {
		t.Errorf("an unreadable commit: %v, want %v", got, want)
	}
	// Of one trace the log's sequences say nothing: the turns' own numbers do.
	later := quick("watched", "t001")[1]
	later.Records = []events.Record{{Call: events.TurnEvent, Seq: 7, Event: &events.ModelStarted{Model: "m"}}}
	later.ID = "later"
	one := memlog.New(memlog.Config{})
	first := quick("watched", "t001")[0]
	s, err := one.View("w").Append(t.Context(), first, 0)
	if err == nil {
		_, err = one.View("w").Append(t.Context(), later, s.Seq)
	}
	if err != nil {
		t.Fatal(err)
	}
	got = heard(t, one.View("r"), func(tl *tailer) { tl.filter.Trace = "watched" })
	if want := []string{"1.1.0", "gap 1.2.0-1.2.0 watched/t001", "1.2.0"}; !slices.Equal(got, want) {
		t.Errorf("missing numbers: %v, want %v", got, want)
	}
}

// TestTailSaysThatTheLogWasRewound: who has read a tail that was lost must drop it.
func TestTailSaysThatTheLogWasRewound(t *testing.T) {
	log := memlog.New(memlog.Config{})
	w := &writer{log: log.View("w")}
	w.write(t, 2)
	log.LoseTail(2)
	w2 := &writer{log: log.View("w"), n: 1}
	w2.write(t, 1)
	got := heard(t, log.View("r"), func(tl *tailer) {
		tl.at = events.Position{Generation: 1, Seq: 5} // all of what was there had been read
		tl.start = false
	})
	if len(got) != 9 || !strings.HasPrefix(got[0], "rewound ") || !slices.Equal(got[1:], w2.want) {
		t.Errorf("%v, want rewound and %v", got, w2.want)
	}
}

// TestTailFilters: what is filtered out is read all the same, and not printed.
func TestTailFilters(t *testing.T) {
	dir := keptLog(t, "ends", "people")
	count := func(args ...string) int {
		out, errs, code := sluice(t.Context(), "", append([]string{"tail", "--data", dir, "--from", "start", "--follow=false"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, errs)
		}
		return strings.Count(out, "\n")
	}
	for want, args := range map[int][]string{
		61 + 41: nil,
		41:      {"--trace", "people"},
		5:       {"--kind", "turn_submitted"},
		3:       {"--kind", "turn_submitted", "--trace", "ends"},
		1:       {"--kind", "denied", "--tool", "Teleport"},
	} {
		if got := count(args...); got != want {
			t.Errorf("%v: %d lines, want %d", args, got, want)
		}
	}
	if _, errs, code := sluice(t.Context(), "", "tail", "--data", dir, "--kind", "exploded"); code != 2 || !strings.Contains(errs, "exploded") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, errs, code := sluice(t.Context(), "", "tail", "--data", dir); code != 3 || !strings.Contains(errs, "--follow=false") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
