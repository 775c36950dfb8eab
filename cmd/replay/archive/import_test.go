package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
	"github.com/sluice-run/sluice/test/corpus"
)

// memory is a log in memory that takes and gives stored bytes.
type memory struct{ *memlog.View }

func newMemory() memory { return memory{memlog.New(memlog.Config{}).View("test")} }

// ReadBodies is jetlog.Bus's.
func (m memory) ReadBodies(ctx context.Context, from events.Position, f bus.Filter, yield func(events.Position, events.TurnKey, []byte) error) error {
	return m.Read(ctx, from, f, false, func(s bus.Stored) error {
		body, err := events.Encode(s.Commit)
		if err != nil {
			return err
		}
		return yield(s.Position(0), s.Commit.Turn, body)
	})
}

// AppendBody is jetlog.Bus's.
func (m memory) AppendBody(ctx context.Context, body []byte, at uint64) (bus.Stored, error) {
	c, err := events.Decode(body)
	if err != nil {
		return bus.Stored{}, err
	}
	return m.Append(ctx, c, at)
}

// fill appends commits as they are.
func (m memory) fill(t interface{ Fatal(...any) }, bodies ...[]byte) {
	last := map[events.TurnKey]uint64{}
	for _, b := range bodies {
		c, err := events.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.AppendBody(context.Background(), b, last[c.Turn])
		if err != nil {
			t.Fatal(err)
		}
		last[c.Turn] = s.Seq
	}
}

// spans are the traces of a log.
func spans(t interface{ Fatal(...any) }, from Bodies) []Span {
	var out []Span
	at := map[string]int{}
	err := from.ReadBodies(context.Background(), events.Position{}, bus.Filter{}, func(p events.Position, turn events.TurnKey, _ []byte) error {
		i, known := at[turn.Trace]
		if !known {
			i, at[turn.Trace] = len(out), len(out)
			out = append(out, Span{Trace: turn.Trace, First: p})
		}
		out[i].Last = p
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// exported is the archive of a log.
func exported(t interface{ Fatal(...any) }, e Export) ([]byte, Manifest) {
	var out bytes.Buffer
	o := Options{Release: "test"}
	if e.Redact != nil {
		o.Redaction = e.Redact.About()
	}
	w, err := NewWriter(&out, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(context.Background(), w, spans(t, e.From)); err != nil {
		t.Fatal(err)
	}
	m, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), m
}

// run imports an archive, and returns what became of each trace.
func (im Import) run(t interface{ Fatal(...any) }) []Outcome {
	var out []Outcome
	if err := im.Run(context.Background(), nil, func(o Outcome) error {
		out = append(out, o)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// wholeCorpus is every log of the corpus, one behind the other: a trace for each.
func wholeCorpus(t testing.TB) [][]byte {
	t.Helper()
	logs, err := corpus.Logs()
	if err != nil || len(logs) == 0 {
		t.Fatal(len(logs), err)
	}
	var out [][]byte
	for _, l := range logs {
		out = append(out, l.Bodies...)
	}
	return out
}

// history is the commits of a turn.
type history struct {
	key    events.TurnKey
	bodies [][]byte
}

// histories are the turns of some commits.
func histories(t *testing.T, all [][]byte) []history {
	t.Helper()
	var out []history
	at := map[events.TurnKey]int{}
	for _, b := range all {
		c, err := events.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, known := at[c.Turn]; !known {
			at[c.Turn] = len(out)
			out = append(out, history{key: c.Turn})
		}
		h := &out[at[c.Turn]]
		h.bodies = append(h.bodies, b)
	}
	return out
}

// lawful draws a log: commits of each turn in order, as far as it comes.
func lawful(t *rapid.T, turns []history) [][]byte {
	var out [][]byte
	next := make([]int, len(turns))
	for range rapid.IntRange(1, 40).Draw(t, "n") {
		i := rapid.IntRange(0, len(turns)-1).Draw(t, "turn")
		if n := next[i]; n < len(turns[i].bodies) {
			out = append(out, turns[i].bodies[n])
			next[i]++
		}
	}
	return out
}

// TestAnImportIsTheSameLog: what is exported, imported and exported again is the same,
// trace by trace, to the byte; imported twice it is there already; and nothing of it is
// a turn that a node would run.
func TestAnImportIsTheSameLog(t *testing.T) {
	all := histories(t, wholeCorpus(t))
	rapid.Check(t, func(t *rapid.T) {
		first, second := newMemory(), newMemory()
		first.fill(t, lawful(t, all)...)
		b, m := exported(t, Export{From: first, Blobs: first.Blobs()})
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		im := Import{From: r, To: second}
		for _, o := range im.run(t) {
			if o.Status != Imported || o.Err != nil || o.New != o.Commits {
				t.Fatalf("%+v", o)
			}
		}
		for _, o := range im.run(t) {
			if o.Status != Attached || o.New != 0 || o.More != 0 {
				t.Fatalf("again: %+v", o)
			}
		}
		_, again := exported(t, Export{From: second, Blobs: second.Blobs()})
		if again.Digest != m.Digest || again.Commits != m.Commits || again.Open != m.Open {
			t.Fatalf("exported again: %+v\nwas %+v", again, m)
		}
		neverRun(t, second)
		if d := cmp.Diff(answers(t, first), answers(t, second)); d != "" {
			t.Fatalf("the model is told otherwise:\n%s", d)
		}
	})
}

// answers are what the model is told of each turn.
func answers(t interface{ Fatal(...any) }, log bus.Tail) map[string][]events.Answer {
	conv := projections.Answers.Init()
	err := log.Read(context.Background(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			conv = projections.Answers.Apply(conv, e)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]events.Answer{}
	for _, turn := range conv.Turns {
		list, _ := turn.Answers(nil) // what stands outside stays a reference
		out[turn.Key.String()] = list
	}
	return out
}

// neverRun says that no node may claim any turn of a log.
func neverRun(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, log memory,
) {
	turns := map[events.TurnKey]lifecycle.Turn{}
	err := log.Read(context.Background(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		k := s.Commit.Turn
		if _, known := turns[k]; !known {
			turns[k] = lifecycle.Turn{Key: k}
		}
		turns[k] = lifecycle.FoldOn(turns[k], s.Commit)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for k, turn := range turns {
		if due := lifecycle.Due(turn); len(due) > 0 {
			t.Fatalf("%s: %v is owed", k, due)
		}
		evs, err := lifecycle.Decide(turn, lifecycle.Env{Now: noon}, lifecycle.Claim{Boot: "b"})
		if err == nil || len(evs) > 0 {
			t.Fatalf("%s could be claimed: %v", k, evs)
		}
	}
}

// TestWhatIsThereAlready: a prefix that an import has left is continued, a log's own
// trace is left alone, and what differs is named.
func TestWhatIsThereAlready(t *testing.T) {
	all := wholeCorpus(t)
	own := newMemory()
	own.fill(t, all...)
	b, _ := exported(t, Export{From: own, Blobs: own.Blobs()})
	r := openBytes(t, b)
	defer r.Close()

	t.Run("its own", func(t *testing.T) {
		for _, o := range (Import{From: r, To: own}).run(t) {
			if o.Status != Attached {
				t.Errorf("%+v", o)
			}
		}
	})
	t.Run("cut off", func(t *testing.T) {
		log := newMemory()
		ends, err := collect(r, events.Position{}, bus.Filter{Trace: "ends"})
		if err != nil {
			t.Fatal(err)
		}
		im := Import{From: r, To: &failing{memory: log, after: len(ends) + 3}}
		err = im.Run(context.Background(), nil, func(Outcome) error { return nil })
		if !errors.Is(err, bus.ErrUnavailable) {
			t.Fatal(err)
		}
		neverRun(t, log) // also half a turn
		seen := map[string]int{}
		for _, o := range (Import{From: r, To: log}).run(t) {
			seen[o.Status]++
		}
		if seen[Continued] != 1 || seen[Attached] != 1 || seen[Imported] == 0 || seen[Bad] > 0 {
			t.Errorf("%v", seen)
		}
	})
	t.Run("beside", func(t *testing.T) {
		for _, o := range (Import{From: r, To: own, Prefix: "old-"}).run(t) {
			if o.Status != Imported || !strings.HasPrefix(o.Trace, "old-") {
				t.Errorf("%+v", o)
			}
		}
		for _, o := range (Import{From: r, To: own, Prefix: "old-"}).run(t) {
			if o.Status != Attached {
				t.Errorf("again: %+v", o)
			}
		}
	})
	t.Run("other content", func(t *testing.T) { otherContent(t, r) })
}

// failing is a log that is gone after some appends.
type failing struct {
	memory
	after int
}

// AppendBody is Log's.
func (f *failing) AppendBody(ctx context.Context, body []byte, at uint64) (bus.Stored, error) {
	if f.after--; f.after < 0 {
		return bus.Stored{}, bus.ErrUnavailable
	}
	return f.memory.AppendBody(ctx, body, at)
}

// otherContent imports into logs that have something else of the same trace.
func otherContent(t *testing.T, r *Reader) {
	first, err := collect(r, events.Position{}, bus.Filter{Trace: "ends"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := events.Decode(first[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	other.Records[0].Event.(*events.TurnSubmitted).Calls[1].Args.Text = `{"path":"other.log"}`
	changed, err := events.Encode(other)
	if err != nil {
		t.Fatal(err)
	}
	stranger := other
	stranger.Turn.Turn = "elsewhere"
	strange, err := events.Encode(stranger)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		log  [][]byte
		want string
	}{
		{"another submission", [][]byte{changed}, "event 0, turn_submitted, differs in /calls/1/args/text"},
		{"only its beginning", [][]byte{first[0].Body}, "is this log's own, and the archive has more of it"},
		{"another turn", [][]byte{strange}, "the trace is this log's own, and has no turn t1"},
	} {
		log := newMemory()
		log.fill(t, c.log...)
		for _, o := range (Import{From: r, To: log}).run(t) {
			if o.Trace == "ends" && (o.Status != Bad || !strings.Contains(fmt.Sprint(o.Err), c.want)) {
				t.Errorf("%s: %+v, want %q", c.name, o, c.want)
			}
		}
	}
}

// TestMarksComeOff: to the byte, whatever the submission.
func TestMarksComeOff(t *testing.T) {
	n := 0
	for _, b := range wholeCorpus(t) {
		m, err := mark(b, "0123@1.2")
		if err != nil {
			t.Fatal(err)
		}
		back, err := unmark(m)
		if err != nil || !bytes.Equal(back, b) {
			t.Fatalf("%v", err)
		}
		was, err := events.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		is, err := events.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := is.Records[0].Event.(*events.TurnSubmitted); ok && was.Records[0].Event.(*events.TurnSubmitted).Imported == "" {
			n++
			if s.Imported != events.ArchiveMark+"0123@1.2" || s.Verbatim() {
				t.Errorf("imported %q", s.Imported)
			}
			s.Imported = ""
		}
		if d := cmp.Diff(was, is); d != "" {
			t.Errorf("something else has changed:\n%s", d)
		}
	}
	if n == 0 {
		t.Error("no submission was marked")
	}
}
