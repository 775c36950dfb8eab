package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
)

// verify is the verb that checks what was recorded.
func (a *app) verify() *cobra.Command {
	var noBlobs bool
	cmd := &cobra.Command{
		Use: "verify [TRACE]", Short: "Check the laws over a trace, or over the whole log", Args: command.Args(0, 1, "a trace, or none for the whole log"),
		Long: "Check, over a trace or over the whole log, that\n" +
			"  - the history of every turn keeps the laws L1 to L11, and its events follow each other as they may;\n" +
			"  - the two folds of it, the decider's and the answers', tell the same, also after one more trip through the stored form;\n" +
			"  - the messages that it gives are valid by each provider's rules, wherever an answer changes (of a turn with more\n" +
			"    than 32 such places, at 32 of them: the first and last eight, and sixteen between); of a trace that is named,\n" +
			"    also the conversation of all its turns;\n" +
			"  - no commit is missing in the middle of the log, and each can be read;\n" +
			"  - what stands outside the log by reference is there, and is what its digest says.\n" +
			"An archive (--archive) is checked in the same way, and its own digests, too; of one that was redacted the digests are\n" +
			"of what stands there now.\n" +
			"Prints what was verified; else each event that breaks a law, in the log's order, and why. The exit status is then 1.",
		RunE: func(cmd *cobra.Command, args []string) error {
			t := target{call: noCall}
			if len(args) == 1 {
				var err error
				if t, err = parseTarget(args[0], 1); err != nil {
					return err
				}
			}
			return a.withReading(cmd.Context(), func(r *reading) error {
				blobs := r.blobs
				if noBlobs {
					blobs = nil
				}
				return a.runVerify(cmd.Context(), r, blobs, t.trace)
			})
		},
	}
	cmd.Flags().BoolVar(&noBlobs, "skip-blobs", false, "do not read what stands outside the log: faster where there is much of it")
	return cmd
}

// Findings that are no law's; see lifecycle.Violation for the laws.
const (
	lawFold   = "fold"       // the folds do not tell the same
	lawCounts = "counts"     // the turn's own count is wrong
	lawRules  = "rules"      // a provider would refuse the messages
	lawBlob   = "blob"       // what is referred to cannot be read
	lawGap    = "gap"        // commits are missing
	lawBytes  = "unreadable" // a commit cannot be decoded
	lawNewer  = "newer"      // an event of a newer release: it could not be verified
)

// problem is something that is wrong with one event.
type problem struct {
	Position events.Position
	Law      string // of package lifecycle, or one of those above
	Of       string // trace/turn, or trace/turn/call; "" where that is not known
	Why      string
}

// problemLine is a problem in JSON. Scripts read it.
type problemLine struct {
	Position string `json:"position"`
	Law      string `json:"law"`
	Of       string `json:"of,omitempty"`
	Why      string `json:"why"`
}

func (p problem) String() string {
	of := p.Of
	if of != "" {
		of += ": "
	}
	return fmt.Sprintf("%-9s  %-10s  %s%s", p.Position, p.Law, of, show.Short(p.Why, 500))
}

// keptProblems is how many problems are remembered and shown: the first ones in
// the log's order. All are counted.
const keptProblems = 100

// report is what a verification found. Its methods may be used from many
// goroutines at once.
type report struct {
	mu       sync.Mutex
	traces   int
	turns    int
	events   int
	open     int // turns that have not ended
	headless int // turns whose beginning retention has removed
	count    int // of problems
	first    []problem
	damage   string // what is wrong with an archive as a whole; "" if nothing is
	redacted bool   // its bodies were replaced
}

// add notes problems.
func (r *report) add(list ...problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range list {
		r.count++
		at, _ := slices.BinarySearchFunc(r.first, p, func(a, b problem) int { return a.Position.Compare(b.Position) })
		for at < len(r.first) && r.first[at].Position == p.Position {
			at++ // those of one event stay in the order in which they were found
		}
		if at < keptProblems {
			r.first = slices.Insert(r.first, at, p)
		}
		r.first = r.first[:min(len(r.first), keptProblems)]
	}
}

// note counts a turn that was checked.
func (r *report) note(open, headless bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if open {
		r.open++
	}
	if headless {
		r.headless++
	}
}

func (a *app) runVerify(ctx context.Context, log *reading, blobs bus.Blobs, trace string) error {
	r := &report{redacted: log.redacted}
	err := sweep(ctx, log.source, blobs, trace, r)
	if err != nil && !errors.Is(err, archive.ErrDamaged) {
		return err
	}
	if err != nil {
		r.damage = err.Error()
		a.complain(err)
	} else if trace != "" && r.turns == 0 && r.count == 0 {
		return unknownTrace(ctx, log, trace)
	}
	return a.printReport(r)
}

func (a *app) printReport(r *report) error {
	var bad error
	if r.count > 0 || r.damage != "" || r.headless > 0 && r.headless == r.turns {
		bad = errSaid
	}
	if a.json {
		list := make([]problemLine, len(r.first))
		for i, p := range r.first {
			list[i] = problemLine{p.Position.String(), p.Law, p.Of, p.Why}
		}
		line := map[string]any{
			"ok": bad == nil, "traces": r.traces, "turns": r.turns, "events": r.events, "open_turns": r.open,
			"without_beginning": r.headless, "problem_count": r.count, "problems": list,
		}
		if r.damage != "" {
			line["damage"] = r.damage
		}
		if r.redacted {
			line["redacted"] = true
		}
		return errors.Join(a.printJSON(line), bad)
	}
	for _, p := range r.first {
		a.print("%s\n", p)
	}
	if more := r.count - len(r.first); more > 0 {
		a.print("and %d more\n", more)
	}
	if r.headless > 0 {
		a.print("%s: the beginning is not in the log any more, so the laws could not be checked\n", count(r.headless, "turn"))
	}
	what := fmt.Sprintf("verified %s, %s, %s", count(r.traces, "trace"), count(r.turns, "turn"), count(r.events, "event"))
	if r.redacted {
		what += " (redacted: bodies are placeholders)"
	}
	switch {
	case r.damage != "" && r.count == 0:
		a.print("%s: all laws hold in what could be read\n", what)
		return bad
	case r.headless > 0 && r.headless == r.turns:
		a.print("%s: nothing could be checked\n", what)
		return bad
	case r.count == 0 && r.headless > 0:
		a.print("%s: all laws hold in what could be checked\n", what)
		return nil
	case r.count == 0:
		a.print("%s: all laws hold\n", what)
		return nil
	}
	p := r.first[0]
	a.print("%s: %s, the first at %s: %s: %s\n", what, count(r.count, "problem"), p.Position, p.Law, show.Short(p.Why, 500))
	return bad
}
