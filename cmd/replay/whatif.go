package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
)

const whatifHelp = "Ask a policy about every recorded call, and say which would be decided otherwise than they were: denied, asked about or\n" +
	"allowed, in groups with counts and examples. A call counts once, by the first decision about it. It is judged as a node\n" +
	"does, by the operation that was parsed then; where none was recorded (denied calls, imported ones), by its arguments, if\n" +
	"its tool's can be read without the tool. What cannot be judged is counted, and said why. Nothing is run.\n\n" +
	"Exit codes: 0 nothing changes; 1 something changes, or a part of the log could not be read (the rest was judged), or no\n" +
	"call was selected or could be judged; 2 and 3 as for every verb. --to names the changes that count: --to allowed fails only where a policy\n" +
	"lets through what was not. With --strict calls that cannot be judged fail, too.\n\n" +
	"Examples:\n" +
	"  sluice-replay whatif --policy new.cedar --since 7d\n" +
	"  sluice-replay whatif --policy policies/ --tool Bash --to denied,asked\n" +
	"  sluice-replay whatif --policy default --network=false --archive week.sluice --json"

// whatIf is one run of whatif.
type whatIf struct {
	app     *app
	by      *deciding
	sel     again.Selection
	trace   string
	strict  bool
	damaged int
	version string
}

// whatif is the verb that asks a policy about recorded calls.
func (a *app) whatif() *cobra.Command {
	w := &whatIf{app: a, by: &deciding{}}
	var since, until string
	var to []string
	cmd := &cobra.Command{
		Use: "whatif --policy F", Short: "Say which recorded calls a policy would deny, ask about or allow otherwise than they were", Args: command.Args(0, 0, "none"),
		Long: whatifHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.choose(since, until, to, time.Now()); err != nil {
				return err
			}
			return a.withReading(cmd.Context(), func(r *reading) error { return w.run(cmd.Context(), r) })
		},
	}
	f := cmd.Flags()
	w.by.flags(f, "`policy` to ask: a Cedar file, a directory of them, or default (of this release)")
	f.StringVar(&since, "since", "", "only calls decided at this `time` or later: a time, a date, or how long ago (2h, 3d)")
	f.StringVar(&until, "until", "", "only calls decided before this `time`")
	f.StringSliceVar(&w.sel.Tools, "tool", nil, "only calls of these `tools`")
	f.StringSliceVar(&w.sel.Principals, "principal", nil, "only turns of these `principals`, or of their children")
	f.StringVar(&w.trace, "trace", "", "only this `trace`")
	f.StringSliceVar(&to, "to", nil, "only changes to these count: denied, asked, allowed")
	f.BoolVar(&w.strict, "strict", false, "calls that cannot be judged fail")
	return cmd
}

// choose reads what the flags select.
func (w *whatIf) choose(since, until string, to []string, now time.Time) (err error) {
	switch w.by.policy {
	case "":
		return exit.Misused(errors.New("whatif needs a policy"), "name a file with --policy; --policy default is this release's own")
	case policyRecorded:
		return exit.Misused(errors.New("the recorded decisions are what a policy is compared with"), "name another one; sluice-replay decide --policy recorded asks the deciders alone")
	}
	if w.sel.Since, err = parseWhen("since", since, now); err != nil {
		return err
	}
	if w.sel.Until, err = parseWhen("until", until, now); err != nil {
		return err
	}
	if !w.sel.Until.IsZero() && !w.sel.Since.Before(w.sel.Until) {
		return exit.Misused(errors.New("--until is not behind --since"), "give a later time for --until")
	}
	for _, word := range to {
		r := again.Ruling(word)
		if !slices.Contains([]again.Ruling{again.Denied, again.Asked, again.Allowed}, r) {
			return exit.Misused(fmt.Errorf("--to %q", word), "use denied, asked or allowed, or several of them with commas")
		}
		w.sel.To = append(w.sel.To, r)
	}
	if w.trace != "" {
		return events.CheckID("trace", w.trace)
	}
	return nil
}

func (w *whatIf) run(ctx context.Context, r *reading) error {
	conf, err := w.app.decidingBy(ctx, w.by, r)
	if err != nil {
		return err
	}
	w.version = conf.Policy.Version()
	s := again.NewSurvey(conf, w.sel)
	err = scan(ctx, r.source, bus.Filter{Trace: w.trace}, w.broken, func(c bus.Stored) error {
		s.Add(c)
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range s.Again() {
		err := scan(ctx, r.source, bus.Filter{Trace: k.Trace, Turn: k.Turn}, func(damage) {}, func(c bus.Stored) error {
			s.Add(c)
			return nil
		})
		if err != nil {
			return err
		}
	}
	sum := s.End()
	if sum.Calls == 0 {
		if err := w.empty(ctx, r, sum); err != nil {
			return err
		}
	}
	if w.app.json {
		err = w.app.printJSON(w.line(sum))
	} else {
		w.tell(sum)
	}
	if err == nil && !w.clean(sum) {
		err = errSaid
	}
	return err
}

// clean says whether a job that watches for changes may go on.
func (w *whatIf) clean(s again.Summary) bool {
	judged := s.Same + s.Changed + s.Broken
	return judged > 0 && s.Changed == 0 && s.Broken == 0 && w.damaged == 0 && (!w.strict || s.NotJudged == 0 && s.Headless == 0)
}

func (w *whatIf) broken(d damage) {
	w.damaged++
	w.app.complain(errors.New(d.String()))
}

// empty is the error of a selection that holds no call.
func (w *whatIf) empty(ctx context.Context, r *reading, s again.Summary) error {
	fail := func(hint, format string, args ...any) error {
		return &exit.Failure{Err: fmt.Errorf(format, args...), Hint: hint, Code: exit.Failed}
	}
	switch {
	case s.Headless > 0 && s.Passed == 0:
		return fail("ask about a later time, or read an archive that was made before", "no call was judged: the beginnings of the turns of all %s are not in the log any more", count(s.Headless, "call"))
	case s.Passed > 0:
		return fail("widen the selection: leave out a filter, or give an earlier --since", "no call was selected: of %s, decided from %s to %s, none fits %s",
			count(s.Passed, "call"), stamp(s.First), stamp(s.Last), w.filters())
	case w.damaged > 0:
		return fail("sluice-replay verify names what is damaged", "no call was judged")
	case w.trace != "":
		return unknownTrace(ctx, r.source, w.trace)
	}
	return fail("sluice-replay import, or a node, puts something in it", "no call was judged: the log has none")
}

// filters are the selection as it was given.
func (w *whatIf) filters() string {
	var out []string
	if len(w.sel.Tools) > 0 {
		out = append(out, "--tool "+strings.Join(w.sel.Tools, ","))
	}
	if len(w.sel.Principals) > 0 {
		out = append(out, "--principal "+strings.Join(w.sel.Principals, ","))
	}
	if !w.sel.Since.IsZero() {
		out = append(out, "--since "+stamp(w.sel.Since))
	}
	if !w.sel.Until.IsZero() {
		out = append(out, "--until "+stamp(w.sel.Until))
	}
	return strings.Join(out, " ")
}
