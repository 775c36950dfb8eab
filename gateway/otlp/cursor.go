package otlp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// stride is how many commits without spans are read before the cursor is moved all the
// same.
const stride = 2000

// place is how far the log was told.
type place struct {
	next  events.Position // of the first commit that was not told, or may not have been
	until events.Position // behind the last one that was about to be told; zero: none was
	rev   uint64          // of the cursor's cell
}

// storedPlace is the cell's value.
type storedPlace struct {
	Next  string `json:"next"`
	Until string `json:"until,omitempty"`
}

// cursor is how far the log was told. Of a log that nobody has told yet it is where
// this exporter was started.
func (x *Exporter) cursor(ctx context.Context) (place, error) {
	cell, err := x.Bus.Cells().Get(ctx, bus.BucketLock, cursorCell)
	if errors.Is(err, bus.ErrNotFound) {
		return x.keep(ctx, place{next: x.birth})
	}
	if err != nil {
		return place{}, err
	}
	at, err := parsePlace(cell.Value)
	if at.rev = cell.Revision; err != nil { // not ours
		x.Log.Warn("the exporter's cursor cannot be read: spans are told from here on", "err", err)
		return x.keep(ctx, place{next: x.birth, rev: cell.Revision})
	}
	return at, nil
}

func parsePlace(value []byte) (at place, err error) {
	var v storedPlace
	if err = json.Unmarshal(value, &v); err != nil {
		return at, err
	}
	if at.next, err = events.ParsePosition(v.Next); err != nil {
		return at, err
	}
	if v.Until != "" {
		at.until, err = events.ParsePosition(v.Until)
	}
	return at, err
}

// keep moves the cursor. A conflict means that somebody else has the role by now.
func (x *Exporter) keep(ctx context.Context, at place) (place, error) {
	v := storedPlace{Next: at.next.String()}
	if at.until != (events.Position{}) {
		v.Until = at.until.String()
	}
	value, err := json.Marshal(v)
	if err != nil {
		return at, err
	}
	at.rev, err = x.Bus.Cells().Put(ctx, bus.BucketLock, cursorCell, value, at.rev, 0)
	return at, err
}
