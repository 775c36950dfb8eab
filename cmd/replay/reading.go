package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/replay/archive"
)

// reading is what the reading verbs read.
type reading struct {
	source
	blobs    bus.Blobs        // what stands outside the commits
	session  *session.Session // the log that is open; nil for an archive
	redacted bool             // bodies were replaced: digests do not fit them
}

// withReading opens what is to be read, does something with it, and closes it.
func (a *app) withReading(ctx context.Context, do func(*reading) error) error {
	if a.set.archive != "" {
		return a.withArchive(a.set.archive, do)
	}
	return a.withStore(ctx, false, func(st *session.Session) error {
		return do(&reading{source: st.Bus, blobs: st.Bus.Blobs(), session: st})
	})
}

// withArchive opens an archive, does something with it, and closes it. Nothing is
// written anywhere.
func (a *app) withArchive(path string, do func(*reading) error) error {
	r, err := archive.Open(path)
	if err != nil {
		return notOpened(path, err)
	}
	return errors.Join(do(&reading{source: r, blobs: r.Blobs(), redacted: r.Redacted()}), r.Close())
}

// notOpened is the error of an archive that cannot be opened.
func notOpened(path string, err error) error {
	hint := "name a file that can be read"
	switch {
	case errors.Is(err, archive.ErrNewer):
		hint = "use the sluice-replay of that release, or a newer one"
	case errors.Is(err, archive.ErrNotArchive):
		hint = "name a file that sluice-replay export wrote"
	case errors.Is(err, archive.ErrHostile):
		hint = "it was not written by sluice-replay export: do not trust where it came from"
		return &exit.Failure{Err: fmt.Errorf("%s: %w", path, err), Hint: hint, Code: exit.Failed}
	}
	return exit.Misused(fmt.Errorf("%s: %w", path, err), hint)
}
