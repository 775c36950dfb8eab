package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections/readstore"
)

// exporter is export, with what it was asked for.
type exporter struct {
	app    *app
	traces []string
	all    bool
	query  readstore.Query // where no trace is named
	output string
	redact string // "", bodies or keys=…
	secret string // file with the key of a redaction
}

// exporting is the verb that writes traces into an archive.
func (a *app) exporting() *cobra.Command {
	e := &exporter{app: a}
	var since, until string
	cmd := &cobra.Command{
		Use: "export TRACE… | --all | FILTER…", Short: "Write traces into one file, with all that belongs to them",
		Long: "Write traces into one file: their commits to the byte, with their positions, what stands outside the log, and an\n" +
			"index. Every reading verb reads it with --archive FILE, and import puts its traces in another log. A turn that still\n" +
			"runs is written as far as it has come. The filters are those of list. With --archive the traces come from that file.\n\n" +
			"--redact replaces arguments, results, texts of errors, progress and reasons by placeholders, which tell the length and\n" +
			"which values were equal; --redact keys=token,password only the values of these JSON members, at any depth, and what\n" +
			"repeats them. Ids, kinds, tools, tiers, codes and times stay.\n\n" +
			"  sluice-replay export 01M8N7B4F841T4CKN17SHHKQ38 -o incident.sluice\n" +
			"  sluice-replay export --since 2h --tool charge --status unknown -o charges.sluice --redact\n" +
			"  sluice-replay export --all -o - --redact keys=token,password | ssh …\n" +
			"  sluice-replay show --archive incident.sluice 01M8N7B4F841T4CKN17SHHKQ38",
		Args: command.Args(0, 1<<16, "traces, or --all, or filters"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.parse(args, since, until); err != nil {
				return err
			}
			return a.withReading(cmd.Context(), func(r *reading) error { return e.run(cmd.Context(), r) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&e.output, "output", "o", "", "`file` to write, or - for standard output")
	f.BoolVar(&e.all, "all", false, "every trace of the log")
	f.StringVar(&since, "since", "", "traces with an event at or behind this `time`: RFC 3339, a date, or how long ago (2h, 3d)")
	f.StringVar(&until, "until", "", "traces that began before this `time`")
	f.StringSliceVar(&e.query.Tools, "tool", nil, "traces with a call of one of these `tools`")
	f.StringSliceVar(&e.query.Statuses, "status", nil, "traces with a call that stands so: "+strings.Join(readstore.Statuses(), ", "))
	f.StringSliceVar(&e.query.Principals, "principal", nil, "traces with a call that one of these `principals` submitted")
	f.StringVar(&e.query.Text, "text", "", "traces with a call that holds these `words`")
	f.StringVar(&e.redact, "redact", "", "replace texts: `bodies` (the meaning of --redact alone), or keys=NAME,… for the values of JSON members")
	f.Lookup("redact").NoOptDefVal = archive.RedactBodies
	f.StringVar(&e.secret, "redact-key", "", "`file` whose bytes are the key of the placeholders, so that the same values are equal in several archives; else it is new each time")
	return cmd
}

// keysPrefix begins the redaction of members.
const keysPrefix = archive.RedactKeys + "="

// parse checks the command line.
func (e *exporter) parse(args []string, since, until string) error {
	l := &lister{app: e.app, query: e.query}
	if err := l.parse(since, until, "", time.Now()); err != nil {
		return err
	}
	e.query = l.query
	for _, arg := range args {
		if e.redact == archive.RedactBodies && strings.HasPrefix(arg, keysPrefix) { // --redact keys=…, with a blank
			e.redact = arg
			continue
		}
		if _, err := parseTarget(arg, 1); err != nil {
			return err
		}
		e.traces = append(e.traces, arg)
	}
	q := e.query
	filters := len(q.Tools)+len(q.Statuses)+len(q.Principals) > 0 || q.Text != "" || !q.Since.IsZero() || !q.Until.IsZero()
	switch {
	case e.output == "":
		return exit.Misused(errors.New("where to is not said"), "name the file with -o FILE, or - for standard output")
	case len(e.traces) > 0 && (e.all || filters):
		return exit.Misused(errors.New("want either traces by name, or --all and filters"), "sluice-replay list takes the same filters, and shows what they find")
	case len(e.traces) == 0 && !e.all && !filters:
		return exit.Misused(errors.New("nothing is named"), "name traces, or --all, or filters; sluice-replay list shows what there is")
	case e.redact == "" && e.secret != "":
		return exit.Misused(errors.New("--redact-key without --redact"), "say what is replaced: --redact, or --redact keys=NAME,…")
	}
	return nil
}

// redactor is what replaces texts; nil if nothing is replaced.
func (e *exporter) redactor() (*archive.Redactor, error) {
	var keys []string
	switch names, ok := strings.CutPrefix(e.redact, keysPrefix); {
	case e.redact == "":
		return nil, nil
	case ok:
		keys = strings.Split(names, ",")
	case e.redact != archive.RedactBodies:
		return nil, exit.Misused(fmt.Errorf("--redact %q", show.Short(e.redact, 40)), "give --redact alone, or keys=NAME,… with the names of JSON members")
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	if e.secret != "" {
		var err error
		if key, err = os.ReadFile(e.secret); err != nil {
			return nil, exit.Misused(err, "name a file with the key: 32 random bytes, for example by head -c 32 /dev/urandom")
		}
	}
	r, err := archive.NewRedactor(keys, key)
	if err != nil {
		return nil, exit.Misused(err, "head -c 32 /dev/urandom makes a key; keys=NAME,… names JSON members")
	}
	return r, nil
}

func (e *exporter) run(ctx context.Context, r *reading) error {
	from, ok := r.source.(archive.Bodies)
	if !ok {
		return errors.New("what is read does not give its commits as they are stored")
	}
	redactor, err := e.redactor()
	if err != nil {
		return err
	}
	spans, wrong, err := e.choose(ctx, r.source, from)
	if err != nil {
		return err
	}
	job := archive.Export{From: from, Blobs: r.blobs, Redact: redactor}
	out, err := newOutput(e.output, e.app.out)
	if err != nil {
		return err
	}
	done, err := e.write(ctx, job, spans, out)
	if err := out.close(err); err != nil {
		return err
	}
	return errors.Join(e.tell(done), wrong)
}

// exported is what an export has done. Scripts read it.
type exported struct {
	File     string           `json:"file"`
	Bytes    int64            `json:"bytes"`
	Manifest archive.Manifest `json:"manifest"`
	lost     []string
}

// write writes the archive.
func (e *exporter) write(ctx context.Context, job archive.Export, spans []archive.Span, out *output) (exported, error) {
	done := exported{File: e.output}
	o := archive.Options{Release: command.Version()}
	if job.Redact != nil {
		o.Redaction = job.Redact.About()
	}
	w, err := archive.NewWriter(out, o)
	if err != nil {
		return done, err
	}
	if err := job.Run(ctx, w, spans); err != nil {
		return done, err
	}
	done.Manifest, err = w.Close()
	done.Bytes, done.lost = out.n, w.Lost()
	return done, err
}

// tell says what was written, and what was not there. What is told of an archive on
// standard output goes to standard error.
func (e *exporter) tell(done exported) error {
	m := done.Manifest
	var wrong error
	for _, l := range done.lost {
		e.app.complain(fmt.Errorf("%s: it is not there, and not in the archive", l))
		wrong = errSaid
	}
	if more := m.Missing - len(done.lost); more > 0 && len(done.lost) > 0 {
		e.app.note("and %d more", more)
	}
	if m.Unreadable > 0 {
		e.app.complain(fmt.Errorf("%s cannot be decoded by this release: the archive has the bytes", count(m.Unreadable, "commit")))
		wrong = errSaid
	}
	if e.app.json {
		line, err := plainJSON(done)
		if err != nil {
			return err
		}
		return errors.Join(e.line(string(line)), wrong)
	}
	open := ""
	if m.Open > 0 {
		open = fmt.Sprintf(", %d of them open", m.Open)
	}
	text := fmt.Sprintf("%s: %s, %s%s, %s, %s, %s outside the log; %d bytes", e.output, count(m.Traces, "trace"), count(m.Turns, "turn"), open,
		count(m.Commits, "commit"), count(m.Events, "event"), count(m.Blobs, "body"), done.Bytes)
	text = strings.Replace(text, " bodys ", " bodies ", 1)
	if m.Redaction != nil {
		text += "; redacted: " + m.Redaction.Mode
		if len(m.Redaction.Keys) > 0 {
			text += " " + strings.Join(m.Redaction.Keys, ", ")
		}
	}
	return errors.Join(e.line(text), wrong)
}

func (e *exporter) line(text string) error {
	if e.output == "-" {
		e.app.note("%s", text)
		return nil
	}
	e.app.print("%s\n", show.Lines(text))
	return nil
}

// choose finds the traces, and where each begins and ends. wrong says that something is
// missing, and that it was told.
func (e *exporter) choose(ctx context.Context, log source, from archive.Bodies) (spans []archive.Span, wrong, err error) {
	lost := func(err error) {
		e.app.complain(err)
		wrong = errSaid
	}
	if len(e.traces) == 0 {
		spans, err = e.search(ctx, from, lost)
		return spans, wrong, err
	}
	seen := map[string]bool{}
	for _, id := range e.traces {
		if seen[id] {
			continue
		}
		seen[id] = true
		s := archive.Span{Trace: id}
		err := archive.ReadOn(ctx, from, events.Position{}, bus.Filter{Trace: id}, lost, func(at events.Position, _ events.TurnKey, _ []byte) error {
			if s.First == (events.Position{}) {
				s.First = at
			}
			s.Last = at
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		if s.First == (events.Position{}) {
			return nil, nil, unknownTrace(ctx, log, id)
		}
		spans = append(spans, s)
	}
	return spans, wrong, nil
}

// search finds the traces that pass the filters.
func (e *exporter) search(ctx context.Context, from archive.Bodies, lost func(error)) ([]archive.Span, error) {
	match, err := readstore.NewMatcher(e.query)
	if err != nil {
		return nil, err
	}
	found := map[string]*chosen{}
	var order []string
	err = archive.ReadOn(ctx, from, events.Position{}, bus.Filter{}, lost, func(at events.Position, turn events.TurnKey, body []byte) error {
		c := found[turn.Trace]
		if c == nil {
			c = &chosen{Span: archive.Span{Trace: strings.Clone(turn.Trace), First: at}}
			found[c.Trace] = c
			order = append(order, c.Trace)
		}
		c.Last = at
		commit, err := events.Decode(body)
		if err != nil {
			return nil // it is copied, and nothing is known of it
		}
		if c.from.IsZero() {
			c.from = commit.At
		}
		c.to = commit.At
		match.Add(bus.Stored{Generation: at.Generation, Seq: at.Seq, Commit: commit})
		return nil
	})
	if err != nil {
		return nil, err
	}
	var spans []archive.Span
	for _, id := range order {
		c := found[id]
		outside := !e.query.Since.IsZero() && c.to.Before(e.query.Since) || !e.query.Until.IsZero() && !c.from.Before(e.query.Until)
		if !outside && match.Matches(id) {
			spans = append(spans, c.Span)
		}
	}
	if len(spans) == 0 {
		return nil, &exit.Failure{Err: errors.New("no trace is like that"), Hint: "sluice-replay list takes the same filters, and shows what they find", Code: exit.Failed}
	}
	return spans, nil
}

// chosen is a trace that may be exported, and its time.
type chosen struct {
	archive.Span
	from, to time.Time
}

// output is the file that is written: under a temporary name until it is whole.
type output struct {
	*bufio.Writer
	file *os.File // nil: standard output
	path string
	n    int64 // bytes
}

func newOutput(path string, std io.Writer) (*output, error) {
	if path == "-" {
		return &output{Writer: bufio.NewWriterSize(std, 64<<10)}, nil
	}
	f, err := createBeside(path)
	if err != nil {
		return nil, exit.Misused(err, "name a file in a directory that can be written")
	}
	return &output{Writer: bufio.NewWriterSize(f, 1<<20), file: f, path: path}, nil
}
