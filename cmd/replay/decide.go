package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
)

const decideHelp = "Decide a trace, or every trace, again: today's deciders and policy are given what led to each recorded event, and the first\n" +
	"event of each turn that would not be decided as it is recorded is named. What only the world can say is taken from the\n" +
	"record: how an attempt ended, what a person said, what a file or a breaker looked like. Nothing is run.\n\n" +
	"Exit codes: 0 everything would be decided as it is recorded; 1 something would not, or could not be looked at (the rest\n" +
	"was); 2 and 3 as for every verb.\n\n" +
	"Examples:\n" +
	"  sluice-replay decide shop                        one trace, by this release's deciders and the node's policy, else default\n" +
	"  sluice-replay decide shop/t1 --policy recorded   the deciders alone: the policy's word as it was\n" +
	"  sluice-replay decide --all --since 7d --policy new.cedar\n" +
	"  sluice-replay decide --all --archive week.sluice --strict"

// decider is one run of decide.
type decider struct {
	app   *app
	conf  again.Config
	notes bool // are printed, and not only counted
	since time.Time
	sum   decided
}

// decided is what came of it, in JSON.
type decided struct {
	Turns       int            `json:"turns"`
	Events      int            `json:"events"`
	Decided     int            `json:"decided"`
	Given       int            `json:"given"` // among them: what only says what came from outside
	Differences int            `json:"differences"`
	First       string         `json:"first,omitempty"` // position of the first difference
	Stopped     map[string]int `json:"stopped"`         // turns that could not be decided to their end, by why
	Notes       map[string]int `json:"notes"`           // by kind
	Damaged     int            `json:"damaged"`         // commits that cannot be read
	Policy      string         `json:"policy,omitempty"`
	first       events.Position
}

// decide is the verb that decides recorded traces again.
func (a *app) decide() *cobra.Command {
	by := &deciding{}
	var all, strict bool
	var turn, since string
	cmd := &cobra.Command{
		Use: "decide [TRACE[/TURN]]", Short: "Decide recorded traces again with today's deciders and policy, and name the first difference",
		Args: command.Args(0, 1, "a trace or trace/turn, or none with --all"), Long: decideHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := decideTarget(args, turn, all)
			if err != nil {
				return err
			}
			from, err := parseWhen("since", since, time.Now())
			if err != nil {
				return err
			}
			return a.withReading(cmd.Context(), func(r *reading) error {
				conf, err := a.decidingBy(cmd.Context(), by, r)
				if err != nil {
					return err
				}
				conf.Strict = strict
				d := &decider{app: a, conf: conf, since: from, notes: t.trace != ""}
				return d.run(cmd.Context(), r, t)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "every trace of the log")
	f.StringVar(&turn, "turn", "", "only this `turn` of the trace")
	f.StringVar(&since, "since", "", "only turns that began at this `time` or later: a time, a date, or how long ago (2h, 3d)")
	f.BoolVar(&strict, "strict", false, "what only something explains that no log holds is a difference, and so are other words and other rules")
	by.flags(f, "`policy` that is asked: a Cedar file or directory, default (this release's), or recorded (the recorded verdicts);\n"+
		"left out: that of the node on --data, else default")
	return cmd
}

// decideTarget is what decide is about.
func decideTarget(args []string, turn string, all bool) (target, error) {
	const next = "name a trace (sluice-replay list shows them), or say --all"
	switch {
	case len(args) == 0 && !all:
		return target{}, exit.Misused(errors.New("decide what?"), next)
	case len(args) > 0 && all:
		return target{}, exit.Misused(errors.New("a trace and --all"), next)
	case all && turn != "":
		return target{}, exit.Misused(errors.New("--turn needs a trace"), next)
	case all:
		return target{call: noCall}, nil
	}
	t, err := parseTarget(args[0], 2)
	if err == nil && turn != "" {
		if t.turn != "" && t.turn != turn {
			return t, exit.Misused(fmt.Errorf("%s and --turn %s", t, turn), "name the turn once")
		}
		t.turn = turn
		err = events.CheckID("turn", turn)
	}
	return t, err
}

func (d *decider) run(ctx context.Context, r *reading, t target) error {
	d.sum.Stopped, d.sum.Notes = map[string]int{}, map[string]int{}
	if d.conf.Policy != nil {
		d.sum.Policy = d.conf.Policy.Version()
	}
	found := false
	turns := newTurnReader(r.source, bus.Filter{Trace: t.trace, Turn: t.turn}, d.damaged, func(key events.TurnKey, commits []bus.Stored, already int) error {
		found = true
		if commits[0].Commit.At.Before(d.since) {
			return nil
		}
		if already > 0 { // something was added behind its end: what was said of it is said anew
			d.count(again.Turn(key, commits[:already], d.conf), -1)
		}
		return d.turn(again.Turn(key, commits, d.conf))
	})
	if err := turns.run(ctx); err != nil {
		return err
	}
	switch {
	case !found && t.trace != "" && d.sum.Damaged == 0:
		return d.nothing(ctx, r, t)
	case d.sum.Turns == 0 && d.sum.Damaged == 0:
		return &exit.Failure{Err: errors.New("no turn was decided again: none that is looked for began in that time"), Hint: "leave out --since, or give an earlier time; sluice-replay list shows when traces began", Code: exit.Failed}
	}
	return d.end()
}

// nothing is the error of a trace or a turn that is not there.
func (d *decider) nothing(ctx context.Context, r *reading, t target) error {
	if t.turn == "" {
		return unknownTrace(ctx, r.source, t.trace)
	}
	var turns []string
	err := scan(ctx, r.source, bus.Filter{Trace: t.trace}, func(damage) {}, func(s bus.Stored) error {
		if id := s.Commit.Turn.Turn; !slices.Contains(turns, id) {
			turns = append(turns, id)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(turns) == 0:
		return unknownTrace(ctx, r.source, t.trace)
	}
	return &exit.Failure{Err: fmt.Errorf("trace %s has no turn %s", t.trace, t.turn), Hint: nearly(t.turn, turns, "its turns are: "), Code: exit.Failed}
}

func (d *decider) damaged(at damage) {
	d.sum.Damaged++
	d.app.complain(errors.New(at.String()))
}

// turn counts and prints what came of one turn.
func (d *decider) turn(r again.Report) error {
	d.count(r, 1)
	if d.app.json {
		return d.app.printJSON(decidedLine(r))
	}
	d.tell(r)
	return nil
}

// count adds what came of one turn, or takes it away again.
func (d *decider) count(r again.Report, n int) {
	d.sum.Turns += n
	d.sum.Events, d.sum.Decided, d.sum.Given = d.sum.Events+n*r.Events, d.sum.Decided+n*r.Decided, d.sum.Given+n*r.Given
	for _, note := range r.Notes {
		d.sum.Notes[note.Kind] += n
	}
	if r.Stopped != nil {
		d.sum.Stopped[r.Stopped.Kind] += n
	}
	if diff := r.Difference; diff != nil {
		d.sum.Differences += n
		if d.sum.first == (events.Position{}) || diff.Position.Compare(d.sum.first) < 0 {
			d.sum.first, d.sum.First = diff.Position, diff.Position.String()
		}
	}
}

// tell prints what a person should know of a turn.
func (d *decider) tell(r again.Report) {
	if diff := r.Difference; diff != nil {
		d.app.print("%s: %s\n", r.Turn, show.Short(diff.String(), 2000))
	}
	if s := r.Stopped; s != nil {
		d.app.print("%s: decided up to %s: %s\n", r.Turn, s.Position, show.Short(s.Why, 500))
	}
	if !d.notes {
		return
	}
	for _, n := range r.Notes {
		where := ""
		if n.Call != events.TurnEvent {
			where = fmt.Sprintf(", call %d", n.Call)
		}
		d.app.print("%s: %s%s: %s: %s\n", r.Turn, n.Position, where, n.Kind, show.Short(n.Text, 1000))
	}
	if r.MoreNotes > 0 {
		d.app.print("%s: and %s\n", r.Turn, count(r.MoreNotes, "further note"))
	}
}

// end prints the sum, and says whether everything was as recorded.
func (d *decider) end() error {
	s := d.sum
	whole := s.Differences == 0 && s.Damaged == 0 && s.Stopped[again.StopNewer] == 0 && s.Stopped[again.StopBroken] == 0 &&
		s.Stopped[again.StopHeadless] < s.Turns
	if d.app.json {
		if err := d.app.printJSON(map[string]any{"total": s, "ok": whole}); err != nil {
			return err
		}
	} else {
		d.app.print("decided again %s, %d of %s: %s\n", count(s.Turns, "turn"), s.Decided, count(s.Events, "event"), s.words())
	}
	if !whole {
		return errSaid
	}
	return nil
}

// words are the sum in words.
func (s decided) words() string {
	out := "no difference"
	if s.Differences > 0 {
		out = fmt.Sprintf("%s, the first at %s", count(s.Differences, "difference"), s.First)
	}
	for _, kind := range counted(s.Stopped) {
		out += fmt.Sprintf("; %s stopped: %s", count(s.Stopped[kind], "turn"), kind)
	}
	for _, kind := range counted(s.Notes) {
		out += fmt.Sprintf("; %s: %s", count(s.Notes[kind], "note"), kind)
	}
	if s.Damaged > 0 {
		out += fmt.Sprintf("; %s cannot be read", count(s.Damaged, "commit"))
	}
	return out
}

// counted are the names of which there are any, sorted.
func counted(m map[string]int) []string {
	var out []string
	for name, n := range m {
		if n > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
