package jetlog_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

var (
	linearSeed  = flag.Uint64("linear.seed", 0, "the seed of the linearizability tests; 0 takes one from the clock")
	linearTimes = flag.Int("linear.times", 1, "how many times longer than usual the linearizability tests are")
	linearHTML  = flag.String("linear.html", "", "a folder for pictures of histories that are not linearizable")
)

// linearLimit bounds one check. A history of these tests takes milliseconds.
const linearLimit = 5 * time.Minute

// never is the return of an operation that nobody saw end: it may still happen.
const never = math.MaxInt64

// seeded is the test's own randomness, and says how to have it again.
func seeded(t *testing.T) *rand.Rand {
	seed := *linearSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano() % 1_000_000_000)
	}
	t.Logf("reproduce: go test ./bus/jetlog -run '^%s$' -linear.seed=%d -linear.times=%d", t.Name(), seed, *linearTimes)
	return rand.New(rand.NewPCG(seed, 1))
}

// history records operations of many clients on one clock.
type history struct {
	start time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func newHistory() *history { return &history{start: time.Now()} }

func (h *history) now() int64 { return int64(time.Since(h.start)) }

func (h *history) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// appendIn is what a client asks of a turn's history: an append behind a
// sequence or, where id is "", the last commit.
type appendIn struct {
	turn events.TurnKey
	id   string
	at   uint64
}

// appendOut is what the client hears.
type appendOut struct {
	kind answer
	seq  uint64 // kept: the commit's; moved: the one that a conflict names; read: the last
	id   string // read: of the last commit
}

type answer string

const (
	wasKept   answer = "kept"
	wasMoved  answer = "conflict" // another commit is last
	wasUnsure answer = "uncertain"
	wasUnsent answer = "unavailable" // nothing was sent
	wasRead   answer = "read"
)

// tip is the sequential specification's state: a turn's last commit. Where the
// append that made it had no clear answer, its sequence is only known to be beyond seq.
type tip struct {
	seq   uint64
	id    string
	vague bool
}

// at says whether the tip's sequence is, or may be, seq.
func (s tip) at(seq uint64) bool {
	if s.vague {
		return seq > s.seq
	}
	return seq == s.seq
}

// appendSteps is the specification of a turn's history as a register of its last
// commit with compare-and-swap. It returns the states that may follow, none where
// the answer is wrong.
func appendSteps(state, input, output any) []any {
	s, in, out := state.(tip), input.(appendIn), output.(appendOut)
	switch out.kind {
	case wasKept:
		if s.at(in.at) && out.seq > in.at {
			return []any{tip{seq: out.seq, id: in.id}}
		}
	case wasMoved:
		if out.seq != in.at && s.at(out.seq) {
			return []any{tip{seq: out.seq, id: s.id}}
		}
	case wasRead:
		if s.at(out.seq) && out.id == s.id {
			return []any{tip{seq: out.seq, id: s.id}}
		}
	case wasUnsent:
		return []any{s}
	case wasUnsure:
		if s.at(in.at) {
			return []any{s, tip{seq: in.at, id: in.id, vague: true}}
		}
		return []any{s}
	}
	return nil
}

func appendModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			return partitioned(ops, func(in any) string { return in.(appendIn).turn.String() })
		},
		Init: func() []any { return []any{tip{}} },
		Step: appendSteps,
		DescribeOperation: func(input, output any) string {
			in, out := input.(appendIn), output.(appendOut)
			switch out.kind {
			case wasRead:
				return fmt.Sprintf("read: %s at %d", cmp.Or(out.id, "nothing"), out.seq)
			case wasKept, wasMoved:
				return fmt.Sprintf("append %s behind %d: %s %d", in.id, in.at, out.kind, out.seq)
			}
			return fmt.Sprintf("append %s behind %d: %s", in.id, in.at, out.kind)
		},
	}
	return m.ToModel()
}

// partitioned splits a history by what an operation is about, in the order of names.
func partitioned(ops []porcupine.Operation, of func(input any) string) [][]porcupine.Operation {
	by := map[string][]porcupine.Operation{}
	var names []string
	for _, op := range ops {
		name := of(op.Input)
		if by[name] == nil {
			names = append(names, name)
		}
		by[name] = append(by[name], op)
	}
	slices.Sort(names)
	var out [][]porcupine.Operation
	for _, name := range names {
		out = append(out, by[name])
	}
	return out
}

// checkLinear fails the test where a history is not that of the model, and tells
// the part of it that cannot be explained.
func checkLinear(t *testing.T, m porcupine.Model, ops []porcupine.Operation) {
	t.Helper()
	for i, part := range m.Partition(ops) {
		switch porcupine.CheckOperationsTimeout(m, part, linearLimit) {
		case porcupine.Ok:
		case porcupine.Unknown:
			t.Errorf("part %d: %d operations cannot be judged in %v", i, len(part), linearLimit)
		case porcupine.Illegal:
			t.Errorf("part %d is not linearizable:\n%s", i, unexplained(t, m, part, i))
		}
	}
}

// unexplained is the end of the longest explanation of a history, and what
// cannot follow it. With -linear.html it also draws the whole.
func unexplained(t *testing.T, m porcupine.Model, ops []porcupine.Operation, part int) string {
	_, info := porcupine.CheckOperationsVerbose(m, ops, linearLimit)
	if *linearHTML != "" {
		path := filepath.Join(*linearHTML, fmt.Sprintf("%s-%d.html", strings.ReplaceAll(t.Name(), "/", "_"), part))
		if err := errors.Join(os.MkdirAll(*linearHTML, 0o755), porcupine.VisualizePath(m, info, path)); err != nil {
			t.Errorf("draw the history: %v", err)
		}
	}
	var longest []porcupine.Operation
	for _, l := range info.PartialLinearizationsOperations()[0] {
		if len(l) > len(longest) {
			longest = l
		}
	}
	explained := map[[2]int64]bool{}
	for _, op := range longest {
		explained[[2]int64{int64(op.ClientId), op.Call}] = true
	}
	var b strings.Builder
	line := func(op porcupine.Operation) {
		end := "…"
		if op.Return != never {
			end = time.Duration(op.Return).String()
		}
		fmt.Fprintf(&b, "  client %d [%v, %s] %s\n", op.ClientId, time.Duration(op.Call), end, m.DescribeOperation(op.Input, op.Output))
	}
	fmt.Fprintf(&b, " %d of %d operations are explained, the last of them:\n", len(longest), len(ops))
	for _, op := range longest[max(0, len(longest)-8):] {
		line(op)
	}
	b.WriteString(" then none of these can follow:\n")
	rest := slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool {
		return explained[[2]int64{int64(op.ClientId), op.Call}]
	})
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range rest[:min(len(rest), 8)] {
		line(op)
	}
	return b.String()
}

// answerOf is what an append's result tells its caller.
func answerOf(s bus.Stored, err error) (appendOut, error) {
	var c *bus.Conflict
	switch {
	case err == nil:
		return appendOut{kind: wasKept, seq: s.Seq}, nil
	case errors.As(err, &c):
		return appendOut{kind: wasMoved, seq: c.Last}, nil
	case errors.Is(err, bus.ErrUncertain):
		return appendOut{kind: wasUnsure}, nil
	case errors.Is(err, bus.ErrUnavailable):
		return appendOut{kind: wasUnsent}, nil
	}
	return appendOut{}, err
}
