package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/replay/fault"
	"github.com/sluice-run/sluice/events"
)

// faulting is one run of the verb that puts faults into recorded turns.
type faulting struct {
	app     *app
	between string
	kinds   []string
	call    int
	turn    string
	pairs   bool // all
	every   bool // kind
	all     bool // traces
	since   string
	seed    uint64
	rounds  int
	svg     string
	tiers   []string
	verbose bool

	target  target
	after   time.Time
	seeded  bool
	chosen  fault.Selection
	options fault.Options

	began   time.Time
	tally   fault.Tally
	turns   int
	traces  int
	gone    int            // turns that cannot be played, and commits that cannot be read
	unlike  int            // calls that are told something else without any fault
	broken  int            // laws that break without any fault
	results []fault.Result // of a few cells, to be told in full
	failed  []fault.Result // the first ones
	lost    []fault.Round  // the first rounds that failed
	sum     map[string]int // rounds by verdict
	struck  map[string]int // faults of rounds that struck, by kind
}

const faultHelp = `Play recorded turns once more with a fault between two of their stages, and say what would have happened: which event was
durable, whether the tool had started, whether its result was whole; which law broke; how often each effect ran; and whether
the model would have been told the same or, where not, which sentence of policy says so.

The deciders and actors are the node's own. They run on a log in memory and a clock of their own, with the outcomes that were
recorded: no tool is ever run, and the log that is read is not changed. Every event is a commit of its own, so that a fault can
stand between any two.

A turn's stages are named as its events are (turn_claimed, or claimed), a call's too; start is before the first of them, end
behind the last. A fault that cannot occur somewhere is shown as such, and why. Of imported conversations no tier is recorded:
their tools are irreversible unless --tier says otherwise.

Kinds of faults:
`

const faultExamples = `  sluice-replay fault --data D TRACE --between started,completed --kind node-death
  sluice-replay fault --data D TRACE/TURN --between authorized,started --kind crash-kept --call 0 -v
  sluice-replay fault --data D TRACE --all-pairs --svg matrix.svg
  sluice-replay fault --data D --all --all-pairs --all-kinds
  sluice-replay fault --data D --since 24h --all-pairs --kind crash-lost,crash-kept --json
  sluice-replay fault --data D --all --seed 4711 --rounds 1000`

// fault is the verb that puts faults into recorded turns.
func (a *app) fault() *cobra.Command {
	f := &faulting{app: a, target: target{call: noCall}, sum: make(map[string]int), struck: make(map[string]int)}
	help := faultHelp
	for _, k := range fault.Kinds {
		help += fmt.Sprintf("  %-18s %s\n", k.Kind, k.About)
	}
	cmd := &cobra.Command{
		Use: "fault TRACE[/TURN[/CALL]] | --since T | --all", Short: "Put a fault between any two stages of recorded turns, and see what would have happened",
		Long: help, Example: faultExamples,
		Args: command.Args(0, 1, "a trace, a turn or a call, or --since or --all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.seeded = cmd.Flags().Changed("seed")
			if err := f.complete(cmd, args); err != nil {
				return err
			}
			return a.withReading(cmd.Context(), func(r *reading) error { return f.run(cmd.Context(), r) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.between, "between", "", "the two neighbouring `stages`, as A,B")
	fl.StringSliceVar(&f.kinds, "kind", nil, "the `kinds` of faults, separated by commas")
	fl.IntVar(&f.call, "call", events.TurnEvent, "only the stages of the call with this `number` in its turn, from 0")
	fl.StringVar(&f.turn, "turn", "", "only the turn with this `id`")
	fl.BoolVar(&f.pairs, "all-pairs", false, "between any two neighbouring stages")
	fl.BoolVar(&f.every, "all-kinds", false, "every kind of fault; so it is with --all-pairs where no --kind is given")
	fl.BoolVar(&f.all, "all", false, "every trace of the log")
	fl.StringVar(&f.since, "since", "", "every trace with an event since this `moment`: a time, a date, or how long ago")
	fl.Uint64Var(&f.seed, "seed", 0, "several faults at once, drawn from this `number`; 0 draws the number, too")
	fl.IntVar(&f.rounds, "rounds", 100, "with --seed: how `many` times a turn is played, each with the next seed")
	fl.StringVar(&f.svg, "svg", "", "draw the matrix of stages and kinds into this `file`")
	fl.StringSliceVar(&f.tiers, "tier", nil, "tiers of tools whose tier is not recorded, as `NAME=TIER`, separated by commas")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "tell what happened, step by step: of each cell where they are few, else of those that failed")
	return cmd
}

// complete checks the command line.
func (f *faulting) complete(cmd *cobra.Command, args []string) error {
	var err error
	many := f.all || f.since != ""
	if (len(args) == 1) == many || f.all && f.since != "" {
		return exit.Misused(errors.New("want one of: a trace, --since, --all"), "sluice-replay list shows the traces")
	}
	if f.after, err = parseWhen("since", f.since, time.Now()); err != nil {
		return err
	}
	if len(args) == 1 {
		if f.target, err = parseTarget(args[0], 3); err != nil {
			return err
		}
		if f.target.turn != "" && f.turn != "" && f.turn != f.target.turn {
			return exit.Misused(fmt.Errorf("the turn is %s, and --turn says %s", f.target.turn, f.turn), "name it once")
		}
		f.turn = cmp.Or(f.turn, f.target.turn)
	}
	if err := f.what(); err != nil {
		return err
	}
	if f.options.Tiers, err = parseTiers(f.tiers); err != nil {
		return err
	}
	f.chosen.Turn = f.turn
	if n, one := f.call, cmd.Flags().Changed("call"); one || f.target.call != noCall {
		if !one {
			n = f.target.call
		}
		if n < 0 {
			return exit.Misused(fmt.Errorf("--call %d: want its number in the turn, from 0", n), "sluice-replay show TRACE shows the calls")
		}
		f.chosen.Call, f.chosen.One = n, true
	}
	return nil
}

// what reads which faults are wanted.
func (f *faulting) what() error {
	for _, name := range f.kinds {
		k := fault.Kind(strings.TrimSpace(name))
		if !slices.ContainsFunc(fault.Kinds, func(r fault.KindRow) bool { return r.Kind == k }) {
			return exit.Misused(fmt.Errorf("there is no kind of fault %q", name), "sluice-replay fault --help lists the kinds: "+nearKinds(name))
		}
		f.chosen.Kinds = append(f.chosen.Kinds, k)
	}
	switch {
	case f.every && len(f.kinds) > 0:
		return exit.Misused(errors.New("--all-kinds and --kind exclude each other"), "leave one of them out")
	case f.seeded && (f.pairs || f.between != "" || f.every || len(f.kinds) > 0 || f.svg != ""):
		return exit.Misused(errors.New("--seed draws the places and the kinds itself"), "leave out --between, --all-pairs, --kind, --all-kinds and --svg")
	case f.seeded && (f.rounds < 1 || f.rounds > mostRounds):
		return exit.Misused(fmt.Errorf("--rounds %d: want 1 to %d", f.rounds, mostRounds), "")
	case f.seeded:
		return nil
	case f.pairs == (f.between != ""):
		return exit.Misused(errors.New("want either --between A,B or --all-pairs"), "for example --between started,completed; sluice-replay show TRACE shows the stages")
	case f.between != "" && len(f.kinds) == 0 && !f.every:
		return exit.Misused(errors.New("want the kind of fault: --kind K, or --all-kinds"), "sluice-replay fault --help lists the kinds")
	}
	if f.between == "" {
		return nil
	}
	from, to, two := strings.Cut(f.between, ",")
	if from, to = strings.TrimSpace(from), strings.TrimSpace(to); !two || from == "" || to == "" || strings.Contains(to, ",") {
		return exit.Misused(fmt.Errorf("--between %q: want two stages", f.between), "for example --between started,completed")
	}
	for _, stage := range []string{from, to} {
		if !isStageName(stage) {
			return exit.Misused(fmt.Errorf("--between: there is no stage %q", stage), "stages are named as events are, for example requested, authorized, started, completed, turn_claimed; or start, or end")
		}
	}
	f.chosen.From, f.chosen.To = from, to
	return nil
}

// mostRounds bounds --rounds.
const mostRounds = 10_000_000

// isStageName says whether a stage can be called so.
func isStageName(s string) bool {
	if s == fault.StageStart || s == fault.StageEnd {
		return true
	}
	_, call := events.KindRow(events.Kind(s))
	_, turn := events.KindRow(events.Kind("turn_" + s))
	return call || turn
}

// nearKinds are the kinds that somebody may have meant.
func nearKinds(name string) string {
	var all []string
	for _, k := range fault.Kinds {
		all = append(all, string(k.Kind))
	}
	return nearly(name, all, strings.Join(all, ", "))
}

// parseTiers reads NAME=TIER.
func parseTiers(list []string) (map[string]events.Tier, error) {
	out := make(map[string]events.Tier)
	for _, s := range list {
		name, tier, ok := strings.Cut(s, "=")
		switch events.Tier(tier) {
		case events.Readonly, events.Reversible, events.Irreversible, events.Approval:
		default:
			ok = false
		}
		if !ok || name == "" {
			return nil, exit.Misused(fmt.Errorf("--tier %q: want NAME=TIER", s), "a tier is readonly, reversible, irreversible or approval; for example --tier get_user_details=readonly")
		}
		out[name] = events.Tier(tier)
	}
	return out, nil
}

// run plays what was asked for, and tells of it.
func (f *faulting) run(ctx context.Context, r *reading) error {
	f.began = time.Now()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // many short runs that leave much behind
	if f.seeded && f.seed == 0 {
		f.seed = uint64(f.began.UnixNano())
	}
	err := f.scripts(ctx, r, func(scripts []*fault.Script) error { return f.play(ctx, scripts) })
	if err != nil {
		return err
	}
	if f.turns == 0 && f.gone == 0 && f.target.trace == "" {
		return &exit.Failure{Err: errors.New("there is no trace to play"), Hint: "sluice-replay list shows what there is; sluice-replay import or sluice-node submit puts something in it", Code: exit.Failed}
	}
	if err := f.tell(); err != nil {
		return err
	}
	if f.svg != "" {
		if err := os.WriteFile(f.svg, f.matrix().SVG(), 0o644); err != nil {
			return fmt.Errorf("write the picture: %w", err)
		}
	}
	if f.tally.Total.Failed() > 0 || f.gone > 0 || f.broken > 0 || f.sum[string(fault.Failed)] > 0 {
		return errSaid
	}
	return nil
}

// mostKept is how many cells that failed, or rounds, are told in full.
const mostKept = 50

// play plays some scripts.
func (f *faulting) play(ctx context.Context, scripts []*fault.Script) error {
	p, err := fault.Runner{}.Plan(ctx, scripts)
	if err != nil {
		return err
	}
	f.turns += len(p.Turns)
	for _, t := range p.Turns {
		f.about(t)
	}
	if f.seeded {
		return f.combine(ctx, p)
	}
	cells := p.Cells(f.chosen)
	if len(cells) == 0 && f.broken == 0 {
		return f.noCells(p)
	}
	few := f.target.trace != "" && applicable(cells) <= mostTold
	runner := fault.Runner{Story: few && f.verbose}
	var werr error
	var failed []fault.Cell
	i := -1
	err = runner.Play(ctx, cells, func(res fault.Result) {
		i++
		f.tally.Add(res)
		if few && (res.Verdict != fault.NotApplicable || len(cells) <= mostTold) {
			f.results = append(f.results, res)
		}
		if res.Verdict == fault.Failed && len(f.failed)+len(failed) < mostKept {
			failed = append(failed, cells[i])
		}
		if f.app.json {
			werr = errors.Join(werr, f.app.printJSON(res))
		}
	})
	if err := errors.Join(err, werr); err != nil {
		return err
	}
	// They are played once more: the same cell is the same, and now its story is wanted.
	return fault.Runner{Story: f.verbose}.Play(ctx, failed, func(res fault.Result) { f.failed = append(f.failed, res) })
}

// mostTold is how many cells are told in full where nothing failed.
const mostTold = 8

// applicable is how many of the cells can be played.
func applicable(cells []fault.Cell) int {
	n := 0
	for _, c := range cells {
		if c.Applies() == "" {
			n++
		}
	}
	return n
}

// noCells is the error of a selection that fits nothing that happened.
func (f *faulting) noCells(p *fault.Plan) error {
	if f.target.trace == "" {
		return nil // another trace may have it
	}
	if f.chosen.From == "" {
		return &exit.Failure{Err: fmt.Errorf("%s has no such call", f.target), Hint: "sluice-replay show " + f.target.trace + " shows the calls", Code: exit.Failed}
	}
	var have []string
	for _, t := range p.Turns {
		for _, pair := range t.Pairs {
			if s := pair.From + "," + pair.To; !slices.Contains(have, s) {
				have = append(have, s)
			}
		}
	}
	return &exit.Failure{
		Err:  fmt.Errorf("%s,%s are no neighbouring stages of %s", f.chosen.From, f.chosen.To, f.target),
		Hint: "they are: " + strings.Join(have, " "), Code: exit.Failed,
	}
}

// combine plays rounds with several faults.
func (f *faulting) combine(ctx context.Context, p *fault.Plan) error {
	var werr error
	runner := fault.Runner{Story: f.verbose && f.rounds == 1}
	err := runner.Rounds(ctx, p, f.seed, f.rounds, func(r fault.Round) {
		f.sum[string(r.Verdict)]++
		for _, d := range r.Faults {
			if d.Struck {
				f.struck[string(d.Kind)]++
			}
		}
		if (r.Verdict == fault.Failed || f.rounds == 1) && len(f.lost) < mostKept {
			f.lost = append(f.lost, r)
		}
		if f.app.json {
			werr = errors.Join(werr, f.app.printJSON(r))
		}
	})
	return errors.Join(err, werr)
}

// times is for example "once" or "3 times".
func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return strconv.Itoa(n) + " times"
}
