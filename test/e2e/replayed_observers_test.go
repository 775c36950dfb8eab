package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// tailed is a line of sluice-replay tail --json: an event, or a notice.
type tailed struct{ Position, Notice, From string }

// onlooker is somebody who reads a log with sluice-replay tail, and goes away and comes
// back with a cursor.
type onlooker struct {
	p      *place
	cursor string
	seen   []string // positions
	told   []tailed // notices
}

// look follows the log until enough was read, and then goes away, having read what had
// been written for it.
func (o *onlooker) look(enough func() bool, more ...string) {
	o.p.t.Helper()
	run := launch(o.p.t, nil, true, replay(o.p.t), append([]string{"tail", "--json", "--data", o.p.data, "--cursor", o.cursor}, more...)...)
	gone := false
	in := bufio.NewScanner(run.out)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var l tailed
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			o.p.t.Fatalf("tail says %q: %v", in.Text(), err)
		}
		if l.Notice != "" {
			o.told = append(o.told, l)
		} else {
			o.seen = append(o.seen, l.Position)
		}
		if !gone && enough() {
			gone = true
			run.signal(syscall.SIGTERM)
		}
	}
	if code := run.wait(o.p.t); code != 0 {
		o.p.t.Errorf("tail: exit %d: %s", code, run.log.String())
	}
}

// watcher is somebody who reads /v1/events, and comes back with the last id.
type watcher struct {
	seen []string
	told []heardEvent
}

func (w *watcher) look(t *testing.T, at *api, query string, enough func() bool) {
	t.Helper()
	last := ""
	if len(w.seen) > 0 {
		last, query = w.seen[len(w.seen)-1], ""
	}
	s, err := at.observe(query, last)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for !enough() {
		e, ok := s.next()
		switch {
		case !ok:
			return // its node has gone
		case e.id == "":
			w.told = append(w.told, e)
		default:
			w.seen = append(w.seen, e.id)
		}
	}
}

// watchedTurn is a turn that observers read of: some thirty events.
func watchedTurn(r *rand.Rand, i int) turn {
	tu := turn{Trace: fmt.Sprint("seen-", i%3), Turn: fmt.Sprint("t", i)}
	for c := range 4 {
		tu.Calls = append(tu.Calls, []call{
			charge(fmt.Sprintf("seen-%d-%d", i, c), 1, "stall_ms", r.IntN(15)),
			{Tool: "sleep", Args: args{"ms": r.IntN(20)}},
			{Tool: "echo", Args: args{"v": i}},
			{Tool: "panic"},
		}[r.IntN(4)])
	}
	return tu
}

// TestObserversThatComeAndGo read all events, in order, each once, one over HTTP and one
// with sluice-replay tail: while turns run, over many reconnections, and over a node that
// is killed. Who was away for longer than the log is kept hears of a gap, and where it
// ends.
func TestObserversThatComeAndGo(t *testing.T) {
	t.Parallel()
	r := powerSeed(t, "ObserversThatComeAndGo")
	p := newPlace(t)
	n := p.serve()
	const turns = 24
	w, o := &watcher{}, &onlooker{p: p, cursor: filepath.Join(t.TempDir(), "cursor")}
	submit := func(from, to int) {
		for i := from; i < to; i++ {
			n.submit(watchedTurn(r, i))
		}
	}
	for part := range 6 {
		submit(part*turns/6, (part+1)*turns/6)
		until := len(w.seen) + 5 + r.IntN(40)
		w.look(t, n.api, "?from=start", func() bool { return len(w.seen) >= until })
		until = len(o.seen) + 5 + r.IntN(40)
		o.look(func() bool { return len(o.seen) >= until }, "--from", "start")
		if part == 3 {
			n.kill()
			n = p.serve()
		}
	}
	for i := range turns {
		n.end(fmt.Sprint("seen-", i%3), fmt.Sprint("t", i))
	}
	all, _ := n.feed("?follow=false&from=start", "", func([]string) bool { return false })
	w.look(t, n.api, "", func() bool { return len(w.seen) >= len(all) })
	if len(o.seen) < len(all) {
		o.look(func() bool { return len(o.seen) >= len(all) })
	}
	for name, seen := range map[string][]string{"over HTTP": w.seen, "with tail": o.seen} {
		if !slices.Equal(seen, all) {
			t.Errorf("%s %d events were read, of %d: %s", name, len(seen), len(all), firstApart(seen, all))
		}
	}
	if len(w.told)+len(o.told) != 0 {
		t.Errorf("notices: %v and %v", w.told, o.told)
	}
	p.gapAnnounced(n, w, o, submit)
}

// firstApart is where two lists begin to differ.
func firstApart(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("the %dth is %s, want %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("the first %d are the same", min(len(a), len(b)))
}

// gapAnnounced has the log lose its beginning, as retention does, up to somewhere behind
// what the observers have read.
func (p *place) gapAnnounced(n *node, w *watcher, o *onlooker, submit func(from, to int)) {
	p.t.Helper()
	read := len(w.seen)
	submit(100, 104)
	for i := 100; i < 104; i++ {
		n.end(fmt.Sprint("seen-", i%3), fmt.Sprint("t", i))
	}
	rest, _ := n.feed("?follow=false", w.seen[read-1], func([]string) bool { return false })
	kept := rest[len(rest)/2]
	purgeBefore(p.t, n, uint64(numbers(p.t, kept)[1]))
	left := slices.IndexFunc(rest, func(id string) bool { return numbers(p.t, id)[1] == numbers(p.t, kept)[1] })
	want := rest[left:]
	w.look(p.t, n.api, "", func() bool { return len(w.seen) >= read+len(want) })
	o.look(func() bool { return len(o.seen) >= read+len(want) })
	if got := w.seen[read:]; !slices.Equal(got, want) {
		p.t.Errorf("over HTTP behind the gap: %s", firstApart(got, want))
	}
	if got := o.seen[read:]; !slices.Equal(got, want) {
		p.t.Errorf("with tail behind the gap: %s", firstApart(got, want))
	}
	n.run(turn{Trace: "seen-0", Turn: "whole", Calls: []call{{Tool: "echo", Args: args{"v": 1}}}}) // one that has lost nothing
	begins := strings.TrimSuffix(want[0], ".0")
	if len(w.told) != 1 || w.told[0].kind != "gap" || !strings.Contains(w.told[0].data, begins) {
		p.t.Errorf("over HTTP the notices are %v, want a gap up to %s", w.told, begins)
	}
	if len(o.told) != 1 || o.told[0].Notice != "gap" || !strings.HasPrefix(o.told[0].Position, begins) {
		p.t.Errorf("with tail the notices are %v, want a gap up to %s", o.told, begins)
	}
}

// purgeBefore removes all commits before a sequence, of the log and of its mirror.
func purgeBefore(t *testing.T, n *node, seq uint64) {
	t.Helper()
	nc, err := nats.Connect(n.NATS, nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SLUICE", "SLUICE_READ"} {
		s, err := js.Stream(t.Context(), name)
		if err == nil {
			err = s.Purge(t.Context(), jetstream.WithPurgeSequence(seq))
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}
