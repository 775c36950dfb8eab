package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
)

// reader is a bus that counts the commits of traces that are read from it.
type reader struct {
	bus.Bus
	read int
}

func (r *reader) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	return r.Bus.Read(ctx, from, f, follow, func(s bus.Stored) error {
		r.read++
		return yield(s)
	})
}

// scribe appends turns of one trace that see files and change the shared context, several
// at once, through the views of several nodes.
type scribe struct {
	t     testing.TB
	views []bus.Bus
	last  map[events.TurnKey]uint64
	open  []events.TurnKey
	n     int
}

func newScribe(t testing.TB, log *memlog.Log, nodes int) *scribe {
	s := &scribe{t: t, last: make(map[events.TurnKey]uint64)}
	for i := range nodes {
		s.views = append(s.views, log.View(fmt.Sprint("writer", i)))
	}
	return s
}

func (s *scribe) commit(key events.TurnKey, records ...events.Record) {
	s.t.Helper()
	s.n++
	got, err := s.views[s.n%len(s.views)].Append(s.t.Context(), events.Commit{ID: fmt.Sprint("c", s.n), Turn: key, Records: records}, s.last[key])
	if err != nil {
		s.t.Fatal(err)
	}
	s.last[key] = got.Seq
}

// submit begins a turn, and returns it.
func (s *scribe) submit(trace string) (events.TurnKey, *events.TurnSubmitted) {
	s.t.Helper()
	key, is := events.TurnKey{Trace: trace, Turn: fmt.Sprint("u", s.n)}, &events.TurnSubmitted{Principal: events.Principal{ID: "a"}}
	s.commit(key, events.Record{Call: events.TurnEvent, Event: is})
	s.open = append(s.open, key)
	return key, is
}

// say is the next commit of an open turn, which ends if it is told to.
func (s *scribe) say(i int, path string, end bool) {
	s.t.Helper()
	key := s.open[i]
	saw := events.Outcome{Result: events.Result{Seen: []events.Seen{{Path: path, Digest: fmt.Sprint(s.n)}}}}
	records := []events.Record{{Event: &events.Completed{Outcome: saw}}}
	if end {
		s.open = append(s.open[:i:i], s.open[i+1:]...)
		records = append(records, events.Record{Call: events.TurnEvent, Event: &events.TurnCompleted{Context: json.RawMessage(fmt.Sprintf(`{"%s":%d}`, path, s.n))}})
	}
	s.commit(key, records...)
}

// lost forgets what the log has lost.
func (s *scribe) lost() {
	for i := len(s.open) - 1; i >= 0; i-- {
		stored, err := s.views[0].Load(s.t.Context(), s.open[i], 0)
		switch {
		case err != nil:
			s.t.Fatal(err)
		case len(stored) == 0:
			s.open = append(s.open[:i:i], s.open[i+1:]...)
		default:
			s.last[s.open[i]] = stored[len(stored)-1].Seq
		}
	}
}

// TestWhatIsRememberedIsWhatTheLogSays of a trace, at each point, whatever has become of
// the log since: nodes that have followed it say what one says that has just started.
func TestWhatIsRememberedIsWhatTheLogSays(t *testing.T) {
	paths := []string{"a", "b", "c", "d"}
	for seed := range uint64(30) {
		chance := rand.New(rand.NewPCG(seed, 57))
		log := memlog.New(memlog.Config{})
		s := newScribe(t, log, 2)
		var nodes []*Node
		for i := range 3 {
			nodes = append(nodes, &Node{cfg: Config{Bus: log.View(fmt.Sprint("n", i))}})
		}
		for range 40 {
			for range chance.IntN(4) {
				if i := chance.IntN(4); i < len(s.open) {
					s.say(i, paths[chance.IntN(len(paths))], chance.IntN(3) == 0)
				}
			}
			switch chance.IntN(12) {
			case 0:
				log.LoseTail(chance.IntN(3))
				s.lost()
			case 1:
				head, err := s.views[0].Head(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				log.Expire(head.Seq - uint64(chance.IntN(int(min(head.Seq, 8)))))
				s.lost()
			case 2:
				log.Tick()
			}
			key, is := s.submit("t")
			fresh := &Node{cfg: Config{Bus: log.View("fresh")}}
			want, shared, err := fresh.inherited(t.Context(), key, is, paths, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, context, err := nodes[chance.IntN(len(nodes))].inherited(t.Context(), key, is, paths, nil)
			if d := cmp.Diff(want, got); err != nil || d != "" || string(context) != string(shared) {
				t.Fatalf("seed %d, turn %s: %v, context %s, want %s (-want +got):\n%s", seed, key, err, context, shared, d)
			}
		}
	}
}

// TestTracesAreReadOn: each commit is read once, several turns may be planned at once, and
// what is remembered is bounded.
func TestTracesAreReadOn(t *testing.T) {
	log := memlog.New(memlog.Config{})
	s := newScribe(t, log, 1)
	b := &reader{Bus: log.View("n")}
	n := &Node{cfg: Config{Bus: b}}
	for range 50 {
		key, is := s.submit("t1")
		if _, _, err := n.inherited(t.Context(), key, is, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if b.read != 50 {
		t.Errorf("50 commits were read %d times", b.read)
	}
	var group sync.WaitGroup
	n.cfg.Bus = log.View("m")
	for i := range 20 {
		s.say(0, fmt.Sprint("f", i), true)
		key, is := s.submit("t1")
		group.Go(func() {
			in, _, err := n.inherited(t.Context(), key, is, []string{fmt.Sprint("f", i)}, nil)
			if err != nil || len(in.Seen) != 1 {
				t.Errorf("%v, %v", in, err)
			}
		})
	}
	group.Wait()
}

// TestRecallIsBounded in traces and in bytes.
func TestRecallIsBounded(t *testing.T) {
	saw := func(bytes int) bus.Stored {
		o := events.Outcome{Result: events.Result{Seen: []events.Seen{{Path: "p", Digest: string(make([]byte, bytes))}}}}
		return bus.Stored{Generation: 1, Seq: 1, Commit: events.Commit{Turn: events.TurnKey{Turn: "u"}, Records: []events.Record{
			{Call: events.TurnEvent, Event: &events.TurnSubmitted{}}, {Event: &events.Completed{Outcome: o}},
		}}}
	}
	var r recall
	put := func(trace string, bytes int) {
		l := r.get(trace, 1)
		r.add(l, saw(bytes))
		r.count(trace, l)
	}
	for i := range 3 * mostTraces {
		put(fmt.Sprint("x", i), 10)
	}
	if len(r.of) != mostTraces || r.of[fmt.Sprint("x", 3*mostTraces-1)] == nil {
		t.Errorf("%d traces", len(r.of))
	}
	put("huge", mostBytes+1)
	if r.of["huge"] != nil || len(r.of) == 0 {
		t.Errorf("what is larger than all may be is remembered, or all is forgotten for it: %d", len(r.of))
	}
	put("large", mostBytes-1<<20)
	put("larger", 2<<20)
	sum := 0
	for _, l := range r.of {
		sum += l.bytes
	}
	if r.of["large"] != nil && r.of["larger"] != nil || r.bytes > mostBytes || r.bytes != sum {
		t.Errorf("%d traces, %d bytes, which are %d", len(r.of), r.bytes, sum)
	}
	if l := r.get("larger", 2); l.heritage.Size() != 0 {
		t.Error("of a generation before this one something counts")
	}
}

// TestAnotherGeneration that begins while a trace is read has it read again.
func TestAnotherGeneration(t *testing.T) {
	log := memlog.New(memlog.Config{})
	s := newScribe(t, log, 1)
	key, is := s.submit("t")
	n := &Node{cfg: Config{Bus: &turning{Bus: log.View("n"), log: log}}}
	if _, _, err := n.inherited(t.Context(), key, is, nil, nil); err != nil {
		t.Error(err)
	}
	n.cfg.Bus.(*turning).always = true
	if _, _, err := n.inherited(t.Context(), key, is, nil, nil); !errors.Is(err, bus.ErrRewound) {
		t.Errorf("a log that is another one each time: %v", err)
	}
}

// turning is a bus whose log begins a generation during its first read, or each.
type turning struct {
	bus.Bus
	log    *memlog.Log
	turned bool
	always bool
}

func (b *turning) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	err := b.Bus.Read(ctx, from, f, follow, yield)
	if !b.turned || b.always {
		b.log.LoseTail(0)
		b.turned = true
	}
	return err
}

// BenchmarkPlanLongTrace is the planning of a turn that may write, in a trace with that many
// turns before it.
func BenchmarkPlanLongTrace(b *testing.B) {
	for _, turns := range []int{10, 1000, 20000} {
		b.Run(fmt.Sprint(turns, "turns"), func(b *testing.B) {
			log := memlog.New(memlog.Config{})
			s := newScribe(b, log, 1)
			for i := range turns {
				s.submit("t")
				s.say(0, fmt.Sprint("file", i%100), true)
			}
			n := &Node{cfg: Config{Bus: log.View("n")}}
			look := func() {
				key, is := s.submit("t")
				in, _, err := n.inherited(b.Context(), key, is, []string{"file1"}, nil)
				if err != nil || len(in.Seen) != 1 {
					b.Fatal(in, err)
				}
				s.say(0, "file1", true)
			}
			look() // what was there before this node is read once
			b.ReportAllocs()
			for b.Loop() {
				look()
			}
		})
	}
}
