package readstore

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/projections"
)

// Standing is what stands open in the log, as numbers.
type Standing struct {
	Waiting map[string]int // what waits for a person, by projections.Pending.Kind
	Oldest  time.Time      // since when the first of them waits; zero: nothing does
	// Unresolved counts the calls whose effects are possible, however they ended, and that
	// nobody has resolved.
	Unresolved int
}

// Standing counts what stands open. It is quick however large the log is.
func (r *Reader) Standing(ctx context.Context) (s Standing, err error) {
	s.Waiting = map[string]int{projections.PendingApproval: 0, projections.PendingInput: 0}
	rows, err := r.db.QueryContext(ctx, `SELECT coalesce(json_extract(pending, '$.kind'), ''), count(*), min(json_extract(pending, '$.at')) FROM approvals GROUP BY 1`)
	if err != nil {
		return s, err
	}
	defer rows.Close()
	for rows.Next() {
		var kind, oldest string
		var n int
		if err := rows.Scan(&kind, &n, &oldest); err != nil {
			return s, err
		}
		at, err := time.Parse(time.RFC3339Nano, oldest)
		if err != nil {
			return s, fmt.Errorf("%w: an approval: %w", errDamaged, err)
		}
		if kind == "" { // of a store that an earlier release has filled
			kind = projections.PendingApproval
		}
		s.Waiting[kind] += n
		if s.Oldest.IsZero() || at.Before(s.Oldest) {
			s.Oldest = at
		}
	}
	if err := rows.Err(); err != nil {
		return s, err
	}
	err = r.db.QueryRowContext(ctx, `SELECT count(*) FROM calls WHERE `+isUnresolved).Scan(&s.Unresolved)
	return s, err
}

// Standing is Reader.Standing of the database that is read now.
func (s *Store) Standing(ctx context.Context) (out Standing, err error) {
	err = s.use(func(r *Reader) error {
		out, err = r.Standing(ctx)
		return err
	})
	return out, err
}
