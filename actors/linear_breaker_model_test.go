package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// own is the circuit of a tool as a whole.
func own(tool string) lifecycle.Circuit { return lifecycle.Circuit{Tool: tool} }

// Numbers of the breakers of these tests.
const (
	linearFailures = 3
	linearWindow   = 300 * time.Millisecond
	linearLease    = 700 * time.Millisecond
)

// breakerIn is what a client does: it asks to be admitted or, with a class, reports
// how its call has ended. It knows when, since windows and leases are times.
type breakerIn struct {
	of    lifecycle.Circuit
	who   string
	class events.Class // "" asks
	call  int64
}

// breakerOut is what it hears, and when.
type breakerOut struct {
	said breakerSaid
	end  int64
}

type breakerSaid string

const (
	saidPass  breakerSaid = "closed"  // it may run
	saidProbe breakerSaid = "probe"   // it may run, alone
	saidOpen  breakerSaid = "open"    // it may not
	saidDone  breakerSaid = "done"    // a report, kept
	saidDoubt breakerSaid = "unknown" // asked or reported, and nobody knows whether it was kept
)

// span is when something happened: somewhere in it.
type span struct{ from, to int64 }

// breakerView is the specification's state of one breaker.
type breakerView struct {
	failures int
	open     bool
	opened   span
	probe    string // "": none
	admitted span   // of the probe
}

// breakerSteps is the specification: consecutive failures open it, and behind its
// window one probe at a time may pass, alone until it has reported or its lease is
// over. It returns the states that may follow.
func breakerSteps(state, input, output any) []any {
	s, in, out := state.(breakerView), input.(breakerIn), output.(breakerOut)
	at := span{in.call, out.end}
	switch {
	case out.said == saidDoubt && in.class == "":
		if next, ok := s.admit(in.who, at); ok {
			return []any{s, next}
		}
		return []any{s}
	case out.said == saidDoubt:
		return []any{s, s.report(in.who, in.class, at)}
	case out.said == saidDone:
		return []any{s.report(in.who, in.class, at)}
	case out.said == saidPass && !s.open, out.said == saidOpen && s.open:
		return []any{s}
	case out.said == saidProbe:
		if next, ok := s.admit(in.who, at); ok {
			return []any{next}
		}
	}
	return nil
}

func (s breakerView) admit(who string, at span) (breakerView, bool) {
	late := at.to >= s.opened.from+int64(linearWindow)
	alone := s.probe == "" || s.probe == who || at.to >= s.admitted.from+int64(linearLease)
	if !s.open || !late || !alone {
		return s, false
	}
	s.probe, s.admitted = who, at
	return s, true
}

func (s breakerView) report(who string, class events.Class, at span) breakerView {
	probing := s.open && s.probe == who
	if probing {
		s.probe, s.admitted = "", span{}
	}
	switch {
	case class == events.ClassOK && (probing || !s.open):
		return breakerView{}
	case class == events.ClassUnavailable && probing:
		return breakerView{open: true, opened: at}
	case class == events.ClassUnavailable && !s.open:
		if s.failures++; s.failures >= linearFailures {
			return breakerView{open: true, opened: at}
		}
	}
	return s
}

func breakerModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			return partitioned(ops, func(in any) string { return BreakerCell(in.(breakerIn).of) })
		},
		Init: func() []any { return []any{breakerView{}} },
		Step: breakerSteps,
		DescribeOperation: func(input, output any) string {
			in, out := input.(breakerIn), output.(breakerOut)
			if in.class == "" {
				return fmt.Sprintf("%s: admit %s: %s", in.of, in.who, out.said)
			}
			return fmt.Sprintf("%s: report %s of %s: %s", in.of, in.class, in.who, out.said)
		},
	}
	return m.ToModel()
}

// The specification of breakers refuses wrong histories.
func TestLinearBreakerModel(t *testing.T) {
	type ops = []porcupine.Operation
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	op := func(call, end int64, who string, class events.Class, said breakerSaid) porcupine.Operation {
		return porcupine.Operation{Call: ms(call), Return: ms(end), Input: breakerIn{own("t"), who, class, ms(call)}, Output: breakerOut{said, ms(end)}}
	}
	const ok, bad, gone = events.ClassOK, events.ClassUnavailable, events.ClassCancelled
	opened := func(more ...porcupine.Operation) ops {
		return append(ops{op(1, 2, "x", bad, saidDone), op(3, 4, "y", bad, saidDone), op(5, 6, "z", bad, saidDone)}, more...)
	}
	probing := func(more ...porcupine.Operation) ops {
		return opened(append(ops{op(400, 401, "a", "", saidProbe)}, more...)...)
	}
	for name, c := range map[string]struct {
		ok  bool
		ops ops
	}{
		"closed":                          {true, ops{op(1, 2, "a", "", saidPass)}},
		"denied where it is closed":       {false, ops{op(1, 2, "a", "", saidOpen)}},
		"a probe where it is closed":      {false, ops{op(1, 2, "a", "", saidProbe)}},
		"it opens":                        {true, opened(op(7, 8, "a", "", saidOpen))},
		"it does not open":                {false, opened(op(7, 8, "a", "", saidPass))},
		"a success in between":            {true, ops{op(1, 2, "x", bad, saidDone), op(3, 4, "y", bad, saidDone), op(5, 6, "y", ok, saidDone), op(7, 8, "z", bad, saidDone), op(9, 10, "a", "", saidPass)}},
		"a cancel is no failure":          {true, ops{op(1, 2, "x", bad, saidDone), op(3, 4, "y", bad, saidDone), op(5, 6, "z", gone, saidDone), op(7, 8, "a", "", saidPass)}},
		"a probe in the window":           {false, opened(op(100, 101, "a", "", saidProbe))},
		"a probe":                         {true, probing()},
		"two probes":                      {false, probing(op(402, 403, "b", "", saidProbe))},
		"two probes at once":              {false, opened(op(400, 450, "a", "", saidProbe), op(400, 450, "b", "", saidProbe))},
		"the next probe after a lease":    {true, probing(op(1101, 1102, "b", "", saidProbe))},
		"within the lease":                {false, probing(op(1098, 1099, "b", "", saidProbe))},
		"the probe again":                 {true, probing(op(402, 403, "a", "", saidProbe))},
		"a cancel frees the slot":         {true, probing(op(402, 403, "a", gone, saidDone), op(404, 405, "b", "", saidProbe))},
		"another's cancel does not":       {false, probing(op(402, 403, "c", gone, saidDone), op(404, 405, "b", "", saidProbe))},
		"a success closes":                {true, probing(op(402, 403, "a", ok, saidDone), op(404, 405, "b", "", saidPass))},
		"a success that does not close":   {false, probing(op(402, 403, "a", ok, saidDone), op(404, 405, "b", "", saidOpen))},
		"another's success does not":      {false, probing(op(402, 403, "c", ok, saidDone), op(404, 405, "b", "", saidPass))},
		"a failure reopens":               {true, probing(op(402, 403, "a", bad, saidDone), op(404, 405, "b", "", saidOpen), op(703, 704, "b", "", saidProbe))},
		"a failure reopens a full window": {false, probing(op(402, 403, "a", bad, saidDone), op(690, 691, "b", "", saidProbe))},
		"a report in doubt, kept":         {true, probing(op(402, 9000, "a", ok, saidDoubt), op(404, 405, "b", "", saidPass))},
		"a report in doubt, lost":         {true, probing(op(402, 9000, "a", ok, saidDoubt), op(404, 405, "b", "", saidOpen))},
	} {
		if got := porcupine.CheckOperations(breakerModel(), c.ops); got != c.ok {
			t.Errorf("%s: linearizable %v, want %v", name, got, c.ok)
		}
	}
}
