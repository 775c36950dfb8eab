package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/codec"
)

// importing is the verb that puts recorded conversations in the log.
func (a *app) importing() *cobra.Command {
	im := &importer{app: a}
	cmd := &cobra.Command{
		Use: "import FILE…", Short: "Put archives and recorded conversations in the log; nothing of them is ever run",
		Long: "Put archives and recorded conversations in the log; nothing of them is ever run. A FILE is an archive that export\n" +
			"wrote; or holds JSON Lines, each line an object with messages (or the array of them), or one such document over many\n" +
			"lines; - is standard input. The messages are those of OpenAI Chat or Responses, Anthropic or Gemini. Ids are made from\n" +
			"the content, so importing the same again changes nothing. A line that is bad is named, and the others are imported.\n\n" +
			"Traces of an archive come back with their ids, turns, commits and times; positions are the log's. A trace that is there\n" +
			"already with the same content stays as it is; with other content it is left alone, and the first difference is named:\n" +
			"--as PREFIX imports it beside. Turns that were open stay so, and no node ever goes on with them.",
		Example: "  sluice-replay import --data D conversations.jsonl\n" +
			"  gunzip -c conversations.jsonl.gz | sluice-replay import --data D -\n" +
			"  sluice-replay import --data D week.sluice --trace shop --as old-",
		Args: command.Args(1, 1<<16, "one file or more, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := readable(args); err != nil {
				return err // BEFORE a log is made
			}
			if err := checkPrefix(im.prefix); err != nil {
				return err
			}
			return a.withStore(cmd.Context(), true, func(st *session.Session) error {
				return im.run(cmd.Context(), st, args)
			})
		},
	}
	cmd.Flags().StringVar(&im.prefix, "as", "", "`prefix` of the ids that the traces of an archive get")
	cmd.Flags().StringSliceVar(&im.only, "trace", nil, "of an archive, only these `traces`")
	return cmd
}

// openFile opens a file to read. A pipe waits for who writes it, or for ctx.
func openFile(ctx context.Context, path string) (*os.File, error) {
	if !isPipe(path) {
		return os.Open(path)
	}
	return openPipe(ctx, path)
}

func isPipe(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// readable looks at the files before anything is done.
func readable(paths []string) error {
	for _, path := range paths {
		if path == "-" || isPipe(path) { // to look into a pipe would cut its writer off
			continue
		}
		f, err := os.Open(path)
		if err == nil {
			info, serr := f.Stat()
			if err = serr; err == nil && info.IsDir() {
				err = fmt.Errorf("%s is a directory", path)
			}
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return exit.Misused(err, "name files that can be read, or - for standard input")
		}
	}
	return nil
}

// imported is what became of one conversation.
type imported struct {
	File    string   `json:"file"`
	Line    int      `json:"line"`
	Trace   string   `json:"trace,omitempty"`
	Status  string   `json:"status"` // imported, attached, continued, empty or bad
	Turns   int      `json:"turns"`
	New     int      `json:"new_turns"`
	Calls   int      `json:"calls"`
	Answers int      `json:"answers"`
	Skipped []string `json:"skipped,omitempty"` // answers that no call asked for
	Error   string   `json:"error,omitempty"`
}

// imports are all of them together.
type imports struct {
	Traces    int `json:"traces"` // with calls, whether new or not
	Imported  int `json:"imported"`
	Attached  int `json:"attached"` // were there already
	Continued int `json:"continued"`
	Empty     int `json:"empty"` // conversations without calls
	Turns     int `json:"turns"`
	New       int `json:"new_turns"`
	Calls     int `json:"calls"`
	Answers   int `json:"answers"`
	Bad       int `json:"bad"`
	Missing   int `json:"missing_blobs,omitempty"` // of archives
}

// importer puts conversations in the log, and says so once they are durable.
type importer struct {
	app      *app
	desk     *gateway.Desk
	real     bus.Barrier
	ready    []imported // to be told of after the next barrier
	restored []restored // the same, of archives
	sum      imports

	// Of archives.
	log    archive.Log
	prefix string
	only   []string // traces; empty means all
}

// sharedBarrier is a bus whose barrier has always been passed already: an import
// waits once for many conversations, and tells of none before.
type sharedBarrier struct{ bus.Bus }

// Barrier is bus.Bus's.
func (s sharedBarrier) Barrier() bus.Barrier { return passed{s.Bus.Barrier()} }

type passed struct{ bus.Barrier }

// Wait is bus.Barrier's.
func (passed) Wait(ctx context.Context) error { return ctx.Err() }

func (im *importer) run(ctx context.Context, st *session.Session, paths []string) error {
	im.real, im.log = st.Bus.Barrier(), st.Bus
	im.desk = gateway.NewDesk(gateway.DeskConfig{Bus: sharedBarrier{st.Bus}})
	var failed error
	for _, path := range paths {
		if failed = im.file(ctx, path); failed != nil {
			break
		}
	}
	if err := errors.Join(failed, im.tell(context.WithoutCancel(ctx))); err != nil {
		return err // what was told of is in the log
	}
	if err := im.total(); err != nil {
		return err
	}
	if im.sum.Bad+im.sum.Missing > 0 {
		return errSaid
	}
	return nil
}

// file imports one file.
func (im *importer) file(ctx context.Context, path string) error {
	name, r := filepath.Base(path), im.app.in
	if path == "-" {
		name = "stdin"
	} else {
		f, err := openFile(ctx, path)
		if err != nil {
			return exit.Misused(err, "name files that can be read, or - for standard input")
		}
		defer f.Close()
		r = f
	}
	src := bufio.NewReaderSize(archive.Paced(ctx, r), 64<<10)
	if isArchive(src) {
		return im.archive(ctx, path, name, src)
	}
	if im.prefix != "" || len(im.only) > 0 {
		return exit.Misused(fmt.Errorf("%s is no archive: --as and --trace are for archives", name), "import it without them: a conversation's id comes from its content")
	}
	docs := newSplitter(src)
	for {
		doc, err := docs.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := im.document(ctx, name, doc); err != nil {
			return err
		}
		if doc.err != nil && bytes.HasPrefix(doc.text, compressed) {
			return nil // every line of it would be bad
		}
	}
}

// compressed is how a gzip file begins.
var compressed = []byte{0x1f, 0x8b}

// mostReady is how many conversations wait for one barrier at most.
const mostReady = 64

// document imports one conversation. Its error is the log's: what is wrong with
// the document is told, and that is all.
func (im *importer) document(ctx context.Context, file string, doc document) error {
	one := imported{File: file, Line: doc.line, Status: "bad"}
	err := doc.err
	if err == nil {
		var r gateway.ImportReport
		r, err = im.desk.Import(ctx, bytes.NewReader(doc.text), fmt.Sprintf("%s:%d", file, doc.line))
		if fatal(ctx, err) {
			return fmt.Errorf("%s:%d: %w", file, doc.line, err)
		}
		one.take(r)
	}
	if err != nil {
		var bad *codec.Error
		if errors.As(err, &bad) {
			err = bad // without what the desk says of a file of its own
		}
		one.Status, one.Error = "bad", hintOf(doc.text, err)
	}
	im.ready = append(im.ready, one)
	if len(im.ready) == mostReady {
		return im.tell(ctx)
	}
	return nil
}

// fatal says whether an error is the log's, and not one document's.
func fatal(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, bus.ErrUnavailable) || errors.Is(err, bus.ErrUncertain))
}

// hintOf adds what a reader may not see at once.
func hintOf(text []byte, err error) string {
	if bytes.HasPrefix(text, compressed) {
		return "it is compressed: gunzip -c FILE | sluice-replay import -"
	}
	return err.Error()
}

// take notes what an import of one document found.
func (one *imported) take(r gateway.ImportReport) {
	if len(r.Traces) > 0 {
		one.Trace = r.Traces[0]
	}
	one.Turns, one.New, one.Calls, one.Answers, one.Skipped = r.Turns, r.New, r.Calls, r.Answers, r.Skipped
	switch {
	case r.Turns == 0:
		one.Status = "empty"
	case r.New == 0:
		one.Status = "attached"
	case r.New < r.Turns:
		one.Status = "continued"
	default:
		one.Status = "imported"
	}
}

// tell waits until what was imported is durable, and prints it.
func (im *importer) tell(ctx context.Context) error {
	if len(im.ready)+len(im.restored) == 0 {
		return nil
	}
	if err := im.real.Wait(ctx); err != nil {
		return fmt.Errorf("%w: its durability is not known: %w", bus.ErrUnavailable, err)
	}
	for _, one := range im.ready {
		im.sum.add(one)
		if err := im.print(one); err != nil {
			return err
		}
	}
	im.ready = im.ready[:0]
	return im.tellRestored()
}

func (s *imports) add(one imported) {
	switch one.Status {
	case "imported":
		s.Imported++
	case "attached":
		s.Attached++
	case "continued":
		s.Continued++
	case "empty":
		s.Empty++
	case "bad":
		s.Bad++
	}
	if one.Turns > 0 && one.Status != "bad" {
		s.Traces++
	}
	s.Turns, s.New, s.Calls, s.Answers = s.Turns+one.Turns, s.New+one.New, s.Calls+one.Calls, s.Answers+one.Answers
}

func (im *importer) print(one imported) error {
	where := fmt.Sprintf("%s:%d", one.File, one.Line)
	if one.Status == "bad" {
		im.app.out.Flush() // the two outputs in their order; its error is asked for at the end
		im.app.complain(fmt.Errorf("%s: %s", where, one.Error))
	}
	for _, s := range one.Skipped {
		im.app.note("%s: passed over: %s", where, s)
	}
	switch {
	case im.app.json:
		return im.app.printJSON(one)
	case one.Status == "bad":
	case one.Status == "empty":
		im.app.print("%-45s %-9s no calls  %s\n", "-", one.Status, show.Lines(where))
	default:
		im.app.print("%-45s %-9s %s, %s, %s  %s\n", one.Trace, one.Status,
			count(one.Turns, "turn"), count(one.Calls, "call"), count(one.Answers, "answer"), show.Lines(where))
	}
	return nil
}

func (im *importer) total() error {
	s := im.sum
	if im.app.json {
		return im.app.printJSON(map[string]imports{"total": s})
	}
	im.app.print("%s: %s, %s in %s; %d imported, %d attached", count(s.Traces, "trace"), count(s.Calls, "call"),
		count(s.Answers, "answer"), count(s.Turns, "turn"), s.Imported, s.Attached)
	for _, more := range []struct {
		n    int
		what string
	}{{s.Continued, "continued"}, {s.Empty, "without calls"}, {s.Bad, "bad"}, {s.Missing, "bodies missing"}} {
		if more.n > 0 {
			im.app.print(", %d %s", more.n, more.what)
		}
	}
	im.app.print("\n")
	return nil
}
