package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/events/near"
)

// target is what a command is about: a trace, one of its turns, or one call.
type target struct {
	trace string
	turn  string // "" means all
	call  int    // noCall means all
}

const noCall = -1

// parseTarget reads TRACE, TRACE/TURN or TRACE/TURN/CALL; most says how many parts
// may be given.
func parseTarget(s string, most int) (target, error) {
	parts := strings.Split(s, "/")
	t := target{trace: parts[0], call: noCall}
	if len(parts) > most {
		return t, exit.Misused(fmt.Errorf("%q has %d parts: want %s", s, len(parts), []string{"", "trace", "trace/turn", "trace/turn/call"}[most]),
			"sluice-replay list shows the traces, and show TRACE its turns and calls")
	}
	err := events.CheckID("trace", t.trace)
	if len(parts) > 1 {
		t.turn = parts[1]
		err = errors.Join(err, events.CheckID("turn", t.turn))
	}
	if err != nil {
		return t, err
	}
	if len(parts) > 2 {
		n, err := strconv.Atoi(parts[2])
		if err != nil || n < 0 || strconv.Itoa(n) != parts[2] {
			return t, exit.Misused(fmt.Errorf("call %q of %s: want its number in the turn, from 0", parts[2], parts[0]+"/"+parts[1]),
				"sluice-replay show "+parts[0]+"/"+parts[1]+" shows the calls")
		}
		t.call = n
	}
	return t, nil
}

// String is the target as it was given.
func (t target) String() string {
	switch {
	case t.turn == "":
		return t.trace
	case t.call == noCall:
		return t.trace + "/" + t.turn
	}
	return t.trace + "/" + t.turn + "/" + strconv.Itoa(t.call)
}

// end is behind every position.
var end = events.Position{Generation: math.MaxUint32, Seq: math.MaxUint64, Index: math.MaxInt}

// parseAt reads the position of the last event that counts. Without an index it
// is the whole commit; "" is all that there is.
func parseAt(s string) (events.Position, error) {
	if s == "" {
		return end, nil
	}
	p, err := events.ParsePosition(s)
	if err != nil {
		return p, exit.Misused(fmt.Errorf("--at: %w", err), "give a position as show has it before each event, for example 1.42.0; 1.42 is the whole commit")
	}
	if strings.Count(s, ".") == 1 {
		p.Index = math.MaxInt
	}
	return p, nil
}

// upTo is a commit without the events behind a position; false says that none is left.
func upTo(s bus.Stored, at events.Position) (bus.Stored, bool) {
	for i := range s.Commit.Records {
		if s.Position(i).Compare(at) > 0 {
			s.Commit.Records = s.Commit.Records[:i]
			break
		}
	}
	return s, len(s.Commit.Records) > 0
}

// history is the commits of a trace, in the log's order.
type history struct {
	trace   string
	commits []bus.Stored
	damaged []damage
	cut     bool // there is more behind the position that was asked for
}

// readTrace reads a trace up to a position. A trace that is not there is an
// error that names those that are called nearly so.
func readTrace(ctx context.Context, log source, trace string, at events.Position) (history, error) {
	h := history{trace: trace}
	var first *events.Position
	err := scan(ctx, log, bus.Filter{Trace: trace}, func(d damage) { h.damaged = append(h.damaged, d) }, func(s bus.Stored) error {
		if first == nil {
			p := s.Position(0)
			first = &p
		}
		kept, some := upTo(s, at)
		h.cut = h.cut || len(kept.Commit.Records) < len(s.Commit.Records)
		if !some {
			return errEnough
		}
		h.commits = append(h.commits, kept)
		return nil
	})
	switch {
	case err != nil:
		return h, err
	case first == nil && len(h.damaged) == 0:
		return h, unknownTrace(ctx, log, trace)
	case first != nil && len(h.commits) == 0:
		return h, beginsBehind(trace, *first)
	}
	return h, nil
}

// turnKeys are the turns of a trace, in the order in which they began.
func (h history) turnKeys() []events.TurnKey {
	var out []events.TurnKey
	seen := make(map[events.TurnKey]bool)
	for _, s := range h.commits {
		if k := s.Commit.Turn; !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

// has returns nil if the trace has that turn and call, or says what it has.
func (h history) has(t target, calls int) error {
	if t.turn == "" {
		return nil
	}
	var names []string
	for _, k := range h.turnKeys() {
		names = append(names, k.Turn)
	}
	switch {
	case !slices.Contains(names, t.turn):
		return &exit.Failure{Err: fmt.Errorf("trace %s has no turn %s", t.trace, t.turn), Hint: nearly(t.turn, names, "its turns are: "), Code: exit.Failed}
	case t.call >= calls:
		return &exit.Failure{Err: fmt.Errorf("turn %s/%s has no call %d: it has %s", t.trace, t.turn, t.call, count(calls, "call")), Hint: "calls are numbered from 0", Code: exit.Failed}
	}
	return nil
}

// nearLimit is how long the log is looked through for similar names.
const nearLimit = 3 * time.Second

// unknownTrace is the error of a trace that is not there.
func unknownTrace(ctx context.Context, log source, trace string) error {
	ctx, stop := context.WithTimeout(ctx, nearLimit)
	defer stop()
	seen := make(map[string]bool)
	var names []string
	// An error only ends the looking: what was asked for is missing either way.
	_ = scan(ctx, log, bus.Filter{}, func(damage) {}, func(s bus.Stored) error {
		if id := s.Commit.Turn.Trace; !seen[id] {
			seen[id] = true
			names = append(names, id)
		}
		return nil
	})
	return &exit.Failure{Err: fmt.Errorf("there is no trace %s", trace), Hint: nearly(trace, names, "the traces are: "), Code: exit.Failed}
}

// mostNear is how many names are proposed.
const mostNear = 3

// nearly proposes names like the one that is not there, or all where they are few.
func nearly(want string, names []string, all string) string {
	if len(names) == 0 {
		return "the log is empty: sluice-replay import or sluice-node submit puts something in it"
	}
	type like struct {
		name string
		far  int
	}
	var list []like
	for _, n := range names {
		if d := farFrom(want, n); d <= max(2, len(want)/4) {
			list = append(list, like{n, d})
		}
	}
	slices.SortStableFunc(list, func(a, b like) int { return cmp.Compare(a.far, b.far) })
	var out []string
	for _, n := range list[:min(len(list), mostNear)] {
		out = append(out, n.name)
	}
	switch {
	case len(out) > 0:
		return "did you mean " + strings.Join(out, " or ") + "?"
	case len(names) <= 2*mostNear:
		return all + strings.Join(names, ", ")
	}
	return "sluice-replay list shows what there is"
}

// farFrom is how many letters must change to make one name of the other; 0 also where one
// begins with the other, since names are cut when they are copied.
func farFrom(a, b string) int {
	if len(a) >= 4 && len(b) >= 4 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
		return 0
	}
	return near.Distance(a, b)
}
