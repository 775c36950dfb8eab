package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// differ compares two traces.
type differ struct {
	app   *app
	a, b  operand
	with  string // an archive that holds b; "" means where a is
	all   bool   // also what is different in every run
	limit int
}

// operand is what is compared: a trace, a turn or a call, up to a position.
type operand struct {
	target
	at events.Position
}

// diff is the verb that compares.
func (a *app) diff() *cobra.Command {
	d := &differ{app: a}
	cmd := &cobra.Command{
		Use: "diff A [B]", Short: "Compare two traces, or one at two of its events: events, decisions, results, messages",
		Args: command.Args(1, 2, "two traces, or one with --with"),
		Long: "Compare two traces, turns or calls: their events, decisions, results, and what the model was told. Each is\n" +
			"TRACE[/TURN[/CALL]][@POSITION]: with a position it is compared as it stood at that event. Turns are set beside each\n" +
			"other by their ids, or by their order where the two have no id in common, and calls by their place in the turn, so\n" +
			"that it does not matter when and where they ran. The first difference is named first.\n\n" +
			"What is different in every run is left out unless --all says otherwise: times, ids of providers, boots, leases,\n" +
			"progress. A value that was redacted on one side is not compared.\n\n" +
			"Exit status, as diff has it: 0 the same, 1 different, 2 they could not be compared; 3 the log cannot be reached.\n\n" +
			"  sluice-replay diff shop-1 shop-2\n" +
			"  sluice-replay diff shop-1@1.40.0 shop-1@1.60.0      what those events have changed\n" +
			"  sluice-replay diff shop-1 --with shop.sluice        the log's trace, and the same in an archive",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && d.with == "" {
				return exit.Misused(errors.New("one trace is not two"), "name another one, the same at another event (TRACE@POSITION), or an archive with --with")
			}
			var err error
			if d.a, err = parseOperand(args[0]); err != nil {
				return err
			}
			if d.b, err = parseOperand(args[len(args)-1]); err != nil {
				return err
			}
			return a.withReading(cmd.Context(), func(r *reading) error { return d.between(cmd.Context(), r) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.with, "with", "", "archive `file` in which B is looked for; left out, B is A's trace there")
	f.BoolVar(&d.all, "all", false, "compare also what is different in every run: times, ids, boots, progress")
	f.IntVar(&d.limit, "limit", 100, "most `differences` that are printed; all are counted; 0 means all")
	return cmd
}

// parseOperand reads TRACE[/TURN[/CALL]][@POSITION].
func parseOperand(s string) (operand, error) {
	name, at, found := strings.Cut(s, "@")
	t, err := parseTarget(name, 3)
	if err != nil {
		return operand{}, err
	}
	if found && at == "" {
		return operand{}, exit.Misused(fmt.Errorf("%q has no position behind its @", s), "for example "+name+"@1.42.0")
	}
	p, err := parseAt(at)
	return operand{t, p}, err
}

func (o operand) String() string {
	if o.at == end {
		return o.target.String()
	}
	at := strings.TrimSuffix(o.at.String(), "."+fmt.Sprint(end.Index))
	return o.target.String() + "@" + at
}

// between compares the operands.
func (d *differ) between(ctx context.Context, r *reading) error {
	if d.with == "" {
		return d.compare(ctx, r, r)
	}
	return d.app.withArchive(d.with, func(other *reading) error { return d.compare(ctx, r, other) })
}

func (d *differ) compare(ctx context.Context, ra, rb *reading) error {
	a, err := d.load(ctx, ra, d.a)
	if err != nil {
		return trouble(err)
	}
	b, err := d.load(ctx, rb, d.b)
	if err != nil {
		return trouble(err)
	}
	m := &matcher{all: d.all, redacted: ra.redacted || rb.redacted}
	m.traces(a, b)
	return d.tell(a, b, m)
}

// trouble is an error that kept two traces from being compared: 1 would mean that they
// differ.
func trouble(err error) error {
	if exit.Code(err, false) == exit.Failed {
		return &exit.Failure{Err: err, Hint: hint(err), Code: exit.Usage}
	}
	return err
}

// side is one of the two, whole.
type side struct {
	of     operand
	turns  []*story
	conv   projections.Conversation
	blobs  projections.Blobs
	wrong  []string // what could not be read
	events int
	calls  int
}

// load reads a side.
func (d *differ) load(ctx context.Context, r *reading, o operand) (*side, error) {
	s := &side{of: o, conv: projections.Answers.Init(), blobs: blobsOf(ctx, r)}
	of := make(map[string]*story)
	f := bus.Filter{Trace: o.trace, Turn: o.turn}
	some := false
	var first events.Position
	err := scan(ctx, r, f, func(bad damage) { s.wrong = append(s.wrong, bad.String()) }, func(c bus.Stored) error {
		if !some {
			some, first = true, c.Position(0)
		}
		kept, left := upTo(c, o.at)
		if !left {
			return errEnough
		}
		s.conv = foldAnswers(s.conv, kept)
		id := kept.Commit.Turn.Turn
		if of[id] == nil {
			of[id] = newStory(kept.Commit.Turn)
			s.turns = append(s.turns, of[id])
		}
		for e := range projections.Events(kept.Generation, kept.Seq, kept.Commit) {
			of[id].tell(e, true)
		}
		return nil
	})
	if errors.Is(err, archive.ErrDamaged) {
		s.wrong, err = append(s.wrong, err.Error()), nil
	}
	switch {
	case err != nil:
		return nil, err
	case !some && o.turn != "" && len(s.wrong) == 0:
		return nil, (&liner{want: choice{target: o.target, at: o.at}, some: true}).absent(ctx, r)
	case !some && len(s.wrong) == 0:
		return nil, unknownTrace(ctx, r, o.trace)
	case some && len(s.turns) == 0:
		return nil, beginsBehind(o.target.String(), first)
	}
	for _, st := range s.turns {
		if o.call == noCall {
			s.events, s.calls = s.events+st.kept, s.calls+len(st.turn.Calls)
		} else {
			s.events, s.calls = s.events+len(st.told(o.call)), 1
		}
		if st.fault != "" {
			s.wrong = append(s.wrong, fmt.Sprintf("turn %s, at %s: %s", st.key, st.faultAt, st.fault))
		}
	}
	if o.call != noCall && s.events == 0 {
		return s, hasCall(o.target, len(s.turns[0].turn.Calls))
	}
	return s, nil
}

// absent is the error of a turn that the log has not: of its trace, or of the turn.
func (l *liner) absent(ctx context.Context, r *reading) error {
	b, err := openBook(ctx, r, l.want.trace, end)
	if err != nil {
		return err
	}
	return b.has(l.want.target, len(b.turns))
}

// diffReport is what was found, in JSON. Scripts read it.
type diffReport struct {
	Same        bool         `json:"same"`
	A           string       `json:"a"`
	B           string       `json:"b"`
	Count       int          `json:"count"`
	Differences []difference `json:"differences"`
	Redacted    int          `json:"redacted,omitempty"` // values that were not compared
	Wrong       []string     `json:"wrong,omitempty"`    // what could not be read, of either
}

// tell prints what was found.
func (d *differ) tell(a, b *side, m *matcher) error {
	shown := m.found
	if d.limit > 0 && len(shown) > d.limit {
		shown = shown[:d.limit]
	}
	wrong := append(a.wrong, b.wrong...)
	for _, w := range wrong {
		d.app.complain(errors.New(w))
	}
	var bad error
	if len(m.found) > 0 || len(wrong) > 0 {
		bad = errSaid
	}
	if d.app.json {
		if shown == nil {
			shown = []difference{}
		}
		return errors.Join(d.app.printJSON(diffReport{len(m.found) == 0, a.of.String(), b.of.String(), len(m.found), shown, m.skipped, wrong}), bad)
	}
	d.print(a, b, m, shown)
	return bad
}

func (d *differ) print(a, b *side, m *matcher, shown []difference) {
	p := d.app.print
	if len(shown) > 0 {
		p("the first difference: %s\n", shown[0].sentence())
		p("A is %s: %s, %s, %s\n", a.of, count(len(a.turns), "turn"), count(a.calls, "call"), count(a.events, "event"))
		p("B is %s: %s, %s, %s\n\n", b.of, count(len(b.turns), "turn"), count(b.calls, "call"), count(b.events, "event"))
	}
	of := ""
	for _, one := range shown {
		if one.Of != of {
			of = one.Of
			p("%s\n", show.Short(of, 200))
		}
		said := one.A != nil && one.B != nil && one.A.Kind == one.B.Kind
		p("%s\n", strings.TrimRight(fmt.Sprintf("  %-9s %s", one.What, one.place()), " "))
		p("    A  %s\n    B  %s\n", one.A.text(said), one.B.text(said))
	}
	if more := len(m.found) - len(shown); more > 0 {
		p("and %d more: --limit 0 prints all\n", more)
	}
	if m.skipped > 0 {
		p("%s not compared: redacted\n", count(m.skipped, "value"))
	}
	if len(m.found) == 0 {
		p("no difference: %s, %s, %s\n", count(len(a.turns), "turn"), count(a.calls, "call"), count(a.events, "event"))
		return
	}
	p("%s\n", count(len(m.found), "difference"))
}
