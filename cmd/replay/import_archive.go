package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
)

// restored is what became of one trace of an archive. It has the members of imported
// that mean something here, and more. Scripts read it.
type restored struct {
	File    string     `json:"file"`
	Trace   string     `json:"trace"`
	Status  string     `json:"status"` // imported, attached, continued or bad
	Turns   int        `json:"turns"`
	New     int        `json:"new_turns"`
	Calls   int        `json:"calls"`
	Commits int        `json:"commits"`
	Added   int        `json:"new_commits"`
	More    int        `json:"more_in_log,omitempty"` // commits that the log has, and the archive has not
	Was     positions  `json:"recorded"`
	At      *positions `json:"now,omitempty"` // where what is new stands now
	Missing int        `json:"missing_blobs,omitempty"`
	Error   string     `json:"error,omitempty"`
	broken  bool       // it is not whole in the archive
}

// positions are those of a first and a last commit.
type positions struct {
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

func positionsOf(from, to events.Position) positions {
	if from == (events.Position{}) {
		return positions{}
	}
	return positions{from.String(), to.String()}
}

// isArchive looks whether an archive comes next.
func isArchive(r *bufio.Reader) bool {
	b, err := r.Peek(16)
	return err == nil && archive.Is(b)
}

// archive imports an archive. r is at its beginning, and is only read where the file
// has no path.
func (im *importer) archive(ctx context.Context, path, name string, r io.Reader) error {
	if path == "-" {
		var drop func() error
		var err error
		if path, drop, err = spool(ctx, r); err != nil {
			return err
		}
		return errors.Join(im.restore(ctx, path, name), drop())
	}
	return im.restore(ctx, path, name)
}

// spool puts what comes in a file: an archive is read from more than one place.
func spool(ctx context.Context, r io.Reader) (path string, drop func() error, err error) {
	f, err := os.CreateTemp("", "sluice-*.archive")
	if err != nil {
		return "", nil, exit.Misused(fmt.Errorf("keep standard input for the moment: %w", err), "write it to a file, and import that")
	}
	_, err = io.Copy(f, archive.Paced(ctx, r))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", nil, errors.Join(fmt.Errorf("read standard input: %w", err), os.Remove(f.Name()))
	}
	return f.Name(), func() error { return os.Remove(f.Name()) }, nil
}

// restore imports the traces of an archive.
func (im *importer) restore(ctx context.Context, path, name string) error {
	r, err := archive.Open(path)
	if err != nil {
		return notOpened(name, err)
	}
	job := archive.Import{From: r, To: im.log, Prefix: im.prefix}
	waiting := 0
	err = job.Run(ctx, im.only, func(o archive.Outcome) error {
		im.restored = append(im.restored, restoredOf(name, o))
		if waiting++; waiting == mostReady {
			waiting = 0
			return im.tell(ctx)
		}
		return nil
	})
	if err == nil {
		err = r.Check(ctx) // each trace is whole; the file may have more in it than it says
	}
	if errors.Is(err, archive.ErrDamaged) || errors.Is(err, archive.ErrHostile) {
		im.restored = append(im.restored, restored{File: name, Status: archive.Bad, Error: err.Error()})
		err = nil
	}
	return errors.Join(err, r.Close())
}

func restoredOf(file string, o archive.Outcome) restored {
	out := restored{
		File: file, Trace: o.Trace, Status: o.Status, Turns: o.Turns, New: o.NewTurns, Calls: o.Calls, Commits: o.Commits,
		Added: o.New, More: o.More, Was: positionsOf(o.Was.First, o.Was.Last), Missing: o.Missing,
	}
	if o.First != (events.Position{}) {
		at := positionsOf(o.First, o.Last)
		out.At = &at
	}
	if o.Err != nil {
		out.Error, out.broken = o.Err.Error(), errors.Is(o.Err, archive.ErrDamaged) || errors.Is(o.Err, archive.ErrHostile)
	}
	return out
}

// tellRestored prints what became of the traces of archives, once that is durable.
func (im *importer) tellRestored() error {
	for _, one := range im.restored {
		im.sum.restore(one)
		if err := im.printRestored(one); err != nil {
			return err
		}
	}
	im.restored = im.restored[:0]
	return nil
}

func (s *imports) restore(one restored) {
	switch one.Status {
	case archive.Imported:
		s.Imported++
	case archive.Attached:
		s.Attached++
	case archive.Continued:
		s.Continued++
	default:
		s.Bad++
		return
	}
	s.Traces++
	s.Turns, s.New, s.Calls = s.Turns+one.Turns, s.New+one.New, s.Calls+one.Calls
	s.Missing += one.Missing
}

func (im *importer) printRestored(one restored) error {
	if one.Error != "" {
		im.app.out.Flush() // the two outputs in their order; its error is asked for at the end
		what := one.File
		if one.Trace != "" {
			what += ": trace " + show.Short(one.Trace, 80)
		}
		im.app.complain(&exit.Failure{Err: fmt.Errorf("%s: %s", what, one.Error), Hint: im.otherwise(one)})
	}
	if one.Missing > 0 {
		im.app.note("%s: trace %s: %d bodies outside the log are not in the archive, or damaged there", one.File, one.Trace, one.Missing)
	}
	switch {
	case im.app.json:
		return im.app.printJSON(one)
	case one.Status == archive.Bad:
		return nil
	}
	where := "recorded at " + one.Was.From
	if one.At != nil {
		where += ", now at " + one.At.From
	}
	if one.More > 0 {
		where += fmt.Sprintf(", and the log has %s more", count(one.More, "commit"))
	}
	im.app.print("%-45s %-9s %s, %s, %s  %s: %s\n", one.Trace, one.Status, count(one.Turns, "turn"), count(one.Calls, "call"), count(one.Commits, "commit"), show.Lines(one.File), where)
	return nil
}

// otherwise is what can be done about a trace that was not imported.
func (im *importer) otherwise(one restored) string {
	switch {
	case one.Trace == "":
		return "what is whole in it was imported; --archive shows the rest as far as it goes"
	case one.broken:
		return "--archive shows it as far as it goes; get the file once more from where it came from"
	case im.prefix == "":
		return "look at it with --archive, or import it beside the log's own with --as PREFIX"
	}
	return "look at it with --archive, or give another --as"
}

// checkPrefix refuses what cannot begin a trace's id.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if err := events.CheckID("--as", prefix); err != nil {
		return exit.Misused(err, "give a few of A-Z a-z 0-9 _ - that are put before each trace's id")
	}
	return nil
}
