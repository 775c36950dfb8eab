package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
)

// ImportReport says what an import found, and what of it was new.
type ImportReport struct {
	Traces   []string // ids, in the recording's order
	Turns    int
	Calls    int
	Answers  int      // calls that have an answer
	New      int      // turns that were not in the log
	Skipped  []string // answers that no call asked for: what and where
	Position string   // behind the last turn that was appended; "" if none was
}

// Import puts recorded conversations in the log: JSON Lines or one document, see
// codec.Transcripts. Each message with calls is a turn marked as imported, with
// ids made from the content and answers kept to the byte; nothing of it is ever
// run. Importing the same again changes nothing, and an import that was cut off
// goes on where it stopped. source says where the recording came from.
//
// What was read before an error is in the log, and in the report.
func (d *Desk) Import(ctx context.Context, r io.Reader, source string) (ImportReport, error) {
	var out ImportReport
	for rec, err := range codec.Transcripts(r) {
		if err != nil {
			return out, errors.Join(fmt.Errorf("%s: %w", source, err), d.durable(ctx))
		}
		if err := d.importOne(ctx, rec, source, &out); err != nil {
			return out, fmt.Errorf("%s: trace %s: %w", source, rec.Trace, err)
		}
	}
	return out, d.durable(ctx)
}

func (d *Desk) importOne(ctx context.Context, rec codec.Recording, source string, out *ImportReport) error {
	out.Traces = append(out.Traces, rec.Trace)
	out.Skipped = append(out.Skipped, rec.Skipped...)
	for _, t := range rec.Turns {
		key := events.TurnKey{Trace: rec.Trace, Turn: t.Turn}
		s := whole(events.TurnSubmitted{
			Principal: events.Principal{ID: "import", Kind: "service"}, Calls: t.Calls, Format: string(rec.Format), Imported: source,
		})
		isNew, err := d.importTurn(ctx, key, s, t.Results(), out)
		if err != nil {
			return fmt.Errorf("turn %s: %w", t.Turn, err)
		}
		out.Turns++
		out.Calls += len(t.Calls)
		if isNew {
			out.New++
		}
		for _, a := range t.Answers {
			if a != nil {
				out.Answers++
			}
		}
	}
	return nil
}

// importTurn appends the history of one turn, or what of it is missing.
func (d *Desk) importTurn(ctx context.Context, key events.TurnKey, s events.TurnSubmitted, answers []*events.Result, out *ImportReport) (isNew bool, err error) {
	if err := lifecycle.CheckSubmission(s); err != nil {
		return false, err
	}
	s, answers = unsecret(s, answers)
	if s, err = d.refer(ctx, s); err != nil {
		return false, err
	}
	if err := d.referAnswers(ctx, answers); err != nil {
		return false, err
	}
	now := d.now().UTC().Truncate(time.Microsecond)
	records, err := lifecycle.Import(key, s, answers, now)
	if err != nil {
		return false, err
	}
	stored, err := d.appendHistory(ctx, key, records, 0, now)
	for range maxTries { // somebody imports, or has imported, the same
		var moved *bus.Conflict
		if !errors.As(err, &moved) {
			break
		}
		last, have, lerr := d.imported(ctx, key, s, moved.Last)
		if lerr != nil || have >= len(records) {
			return false, lerr
		}
		stored, err = d.appendHistory(ctx, key, records[have:], last, now)
	}
	if err != nil {
		return false, err
	}
	out.Position = events.Position{Generation: stored.Generation, Seq: stored.Seq + 1}.String()
	return true, nil
}

// appendHistory appends records behind the sequence last, in as many commits as
// their size asks for, and returns the last one.
func (d *Desk) appendHistory(ctx context.Context, key events.TurnKey, records []events.Record, last uint64, now time.Time) (bus.Stored, error) {
	parts, err := split(records)
	var stored bus.Stored
	for _, part := range parts {
		c := events.Commit{ID: d.newID(), Turn: key, At: now, Records: part}
		if part[0].Event.Kind() != events.KindTurnSubmitted {
			c.By = importer
		}
		if stored, err = d.bus.Append(ctx, c, last); err != nil {
			return stored, err
		}
		last = stored.Seq
	}
	return stored, err
}

// importer is who writes the history of an imported turn, as lifecycle.Import
// has it. The submission alone is a door's.
var importer = events.Owner{Boot: "import", Epoch: 1}

// imported says how much of a turn is in the log: its last sequence, and how
// many events.
func (d *Desk) imported(ctx context.Context, key events.TurnKey, s events.TurnSubmitted, atLeast uint64) (last uint64, n int, err error) {
	v, err := d.load(ctx, key, atLeast)
	if err != nil {
		return 0, 0, err
	}
	if _, err := lifecycle.Decide(v.Turn, lifecycle.Env{}, lifecycle.Submit{Turn: s}); err != nil {
		return 0, 0, err
	}
	for _, c := range v.Commits {
		n += len(c.Commit.Records)
	}
	return v.seq(), n, nil
}

// referAnswers stores large texts outside the log.
func (d *Desk) referAnswers(ctx context.Context, answers []*events.Result) error {
	for _, a := range answers {
		if a != nil && len(a.Text.Text) > bus.MaxInline {
			if err := d.byRef(ctx, &a.Text); err != nil {
				return err
			}
		}
	}
	return nil
}

// split cuts a history behind its submission, and between two events wherever a
// commit would be too large.
func split(records []events.Record) ([][]events.Record, error) {
	const most = bus.MaxCommit - (16 << 10)
	var out [][]events.Record
	size := 0
	for i, r := range records {
		b, err := events.Encode(events.Commit{ID: "size", Records: []events.Record{r}})
		if err != nil {
			return nil, err
		}
		if i == 0 || size+len(b) > most || records[i-1].Event.Kind() == events.KindTurnSubmitted {
			out, size = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], r)
		size += len(b)
	}
	return out, nil
}
