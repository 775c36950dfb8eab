package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/remote"
)

// remoteFile is where a node keeps the definitions of workers' tools in its data
// directory: where the log is embedded, workers can come back only after the node has,
// and what it takes up by then may be theirs.
const remoteFile = "remote-tools.json"

// maxRemoteFile is the size in bytes of the largest file of definitions.
const maxRemoteFile = 64 << 20

// workersWait is how long a node that joins others waits for the workers that are there,
// BEFORE it takes turns: whatever it does not know, it would deny.
const workersWait = 250 * time.Millisecond

// startRemote starts to have the tools of workers; nil where they are not wanted.
func (s *settings) startRemote(ctx context.Context, ses *session.Session, r *tools.Registry, boot string, log *slog.Logger) (*remote.Roster, error) {
	trust, err := s.remote.trust()
	if err != nil || !s.remote.on {
		return nil, err
	}
	c := remote.Config{
		Workers: ses.Bus, Registry: r, Boot: boot, Trust: trust, Silence: s.remote.silence, Gone: s.remote.gone, Now: ses.Now, Log: log,
	}
	wait := workersWait
	if s.NATS == "" {
		wait = 0 // nobody else is connected yet
		path := filepath.Join(s.Data, remoteFile)
		c.Known = knownTools(path, log)
		c.Keep = func(list []remote.Known) {
			if err := keepTools(path, list); err != nil {
				log.Warn("the definitions of workers' tools could not be kept: after a restart they are known only once their workers are back", "file", path, "err", err)
			}
		}
	}
	roster, err := remote.New(c)
	if err != nil {
		return nil, err
	}
	if err := roster.Start(ctx, wait); err != nil {
		roster.Stop()
		return nil, err
	}
	return roster, nil
}

// knownTools reads what keepTools wrote. What cannot be read is as if nothing was kept.
func knownTools(path string, log *slog.Logger) []remote.Known {
	var list []remote.Known
	body, err := readSmall(path, maxRemoteFile)
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the definitions of workers' tools cannot be read: they are known once their workers are back", "file", path, "err", err)
	}
	return list
}

// keepTools writes the file anew: all of it, or nothing.
func keepTools(path string, list []remote.Known) error {
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return replaceFile(path, body)
}
