package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/events"
)

// opener reads one trace, and then answers what is asked of it.
type opener struct {
	app    *app
	read   *reading
	book   *book
	limit  int
	times  bool
	last   *page
	took   []time.Duration
	failed bool
}

const openHelp = `  POSITION          the trace as it stood at that event, the last page of it
  from POSITION     the page that begins there
  next, back        the page behind, or before
  turn ID[/CALL]    one turn, or one call, as it stood where we are
  messages          what the model would have been told where we are
  end               the trace as it stands
  help, quit
`

// opening is the verb that keeps a trace open.
func (a *app) opening() *cobra.Command {
	o := &opener{app: a}
	cmd := &cobra.Command{
		Use: "open TRACE", Short: "Read a trace once, and answer what is asked on standard input: to go back and forth in a long one",
		Args: command.Args(1, 1, "a trace"),
		Long: "Read a trace once, and answer what is asked on standard input, a line each:\n\n" + openHelp + "\n" +
			"What is kept is a table of contents, so that a trace of any length takes little memory; any event of it is shown in\n" +
			"some milliseconds. It is the trace as it was when it was opened. With --json each answer is a line: {\"ask\", \"from\",\n" +
			"\"to\", \"before\", \"after\", \"turns\", \"calls\", \"total\", \"events\": [CloudEvents]}, or {\"ask\", \"error\"}.",
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseTarget(args[0], 1)
			if err != nil {
				return err
			}
			if o.limit < 1 {
				return exit.Misused(fmt.Errorf("--limit %d: want a number of events, from 1", o.limit), "")
			}
			return a.withReading(cmd.Context(), func(r *reading) error {
				o.read = r
				return o.run(cmd.Context(), t.trace)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.limit, "limit", 100, "most `events` on a page")
	f.BoolVar(&o.times, "times", false, "say how long each answer took, and in the end how much memory was needed, on standard error")
	return cmd
}

func (o *opener) run(ctx context.Context, trace string) error {
	began := time.Now()
	b, err := openBook(ctx, o.read, trace, end)
	if err != nil {
		return err
	}
	o.book = b
	wrong := o.app.faults(b, target{trace: trace})
	if err := o.answer(ctx, "end", choice{target: target{trace: trace, call: noCall}, from: b.turnsFrom(), at: end, limit: o.limit}); err != nil {
		return err
	}
	if o.times {
		o.app.note("opened in %s", time.Since(began).Round(time.Microsecond))
	}
	if err := o.ask(ctx); err != nil {
		return err
	}
	o.sum()
	if wrong == nil && o.failed {
		wrong = errSaid
	}
	return wrong
}

// turnsFrom is the position of the first event; zero where nothing can be read.
func (b *book) turnsFrom() events.Position {
	if len(b.turns) == 0 {
		return events.Position{}
	}
	return b.turns[0].from
}

// ask answers line by line, until the lines end.
func (o *opener) ask(ctx context.Context) error {
	lines := bufio.NewScanner(o.app.in)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch line {
		case "":
			continue
		case "quit", "exit":
			return nil
		case "help":
			o.app.note("%s", strings.TrimSuffix(openHelp, "\n"))
			continue
		}
		began := time.Now()
		err := o.one(ctx, line)
		if err == nil {
			err = o.app.out.Flush()
		}
		took := time.Since(began)
		o.took = append(o.took, took)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			o.refuse(line, err)
		}
		if o.times {
			o.app.note("%s took %s", line, took.Round(time.Microsecond))
		}
	}
	return lines.Err()
}

// refuse says what is wrong with what was asked; the next may be right.
func (o *opener) refuse(line string, err error) {
	o.failed = true
	if !o.app.json {
		o.app.complain(err)
		return
	}
	_ = o.app.printJSON(map[string]string{"ask": line, "error": err.Error()}) // two strings have a JSON form
}

// one answers one line.
func (o *opener) one(ctx context.Context, line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	c := choice{target: target{trace: o.book.trace, call: noCall}, at: o.last.choice.at, limit: o.limit}
	var err error
	switch word {
	case "end":
		c.at = end
	case "from":
		c.from, err = parseFrom(rest)
	case "next":
		if o.last.after == 0 {
			return errors.New("this is the last page")
		}
		c.target, c.from = o.last.choice.target, o.last.next()
	case "back":
		if o.last.before == 0 {
			return errors.New("this is the first page")
		}
		c.target = o.last.choice.target
		c.from = o.last.earlier()
	case "turn":
		c.target, err = parseTarget(o.book.trace+"/"+rest, 3)
	case "messages":
		m := &renderer{app: o.app, log: o.read, at: c.at}
		return m.one(ctx, c.target)
	default:
		c.at, err = parseAt(line)
	}
	if err != nil {
		return err
	}
	return o.answer(ctx, line, c)
}

// answer prints a page.
func (o *opener) answer(ctx context.Context, line string, c choice) error {
	p, err := o.book.page(ctx, c)
	if err != nil {
		return err
	}
	o.last = p
	if o.app.json {
		return o.line(line, p)
	}
	o.app.tree(p, o.read.redacted)
	return o.app.out.Flush()
}

// sum says how long the answers took, and how much memory was needed.
func (o *opener) sum() {
	if !o.times {
		return
	}
	if n := len(o.took); n > 0 {
		slices.Sort(o.took)
		at := func(percent int) time.Duration { return o.took[min(n*percent/100, n-1)].Round(time.Microsecond) }
		o.app.note("%s: p50 %s, p99 %s, the longest %s", count(n, "answer"), at(50), at(99), o.took[n-1].Round(time.Microsecond))
	}
	if kb, err := peakMemory(); err == nil {
		o.app.note("peak memory %d MiB", (kb+1023)/1024)
	}
}
