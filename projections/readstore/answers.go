package readstore

import (
	"context"

	"github.com/sluice-run/sluice/projections"
)

// Traces is Reader.Traces of the database that is read now.
func (s *Store) Traces(ctx context.Context, q Query) (out Page, err error) {
	err = s.use(func(r *Reader) error {
		out, err = r.Traces(ctx, q)
		return err
	})
	return out, err
}

// Trace is Reader.Trace of the database that is read now.
func (s *Store) Trace(ctx context.Context, name string) (out Trace, err error) {
	err = s.use(func(r *Reader) error {
		out, err = r.Trace(ctx, name)
		return err
	})
	return out, err
}

// Timeline is Reader.Timeline of the database that is read now.
func (s *Store) Timeline(ctx context.Context, trace string, q TimelineQuery) (out TimelinePage, err error) {
	err = s.use(func(r *Reader) error {
		out, err = r.Timeline(ctx, trace, q)
		return err
	})
	return out, err
}

// Approvals is Reader.Approvals of the database that is read now.
func (s *Store) Approvals(ctx context.Context) (out []projections.Pending, err error) {
	err = s.use(func(r *Reader) error {
		out, err = r.Approvals(ctx)
		return err
	})
	return out, err
}

// Usage is Reader.Usage of the database that is read now.
func (s *Store) Usage(ctx context.Context, q UsageQuery) (out []Use, more bool, err error) {
	err = s.use(func(r *Reader) error {
		out, more, err = r.Usage(ctx, q)
		return err
	})
	return out, more, err
}
