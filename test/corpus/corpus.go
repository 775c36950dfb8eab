// Package corpus keeps logs of every release, as that release wrote them; see
// README.md.
package corpus

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/sluice-run/sluice/events"
)

//go:embed v*
var files embed.FS

// Log is the history of one trace.
type Log struct {
	Release string // v1, v2 …: the folder
	Name    string
	Bodies  [][]byte // commits in their stored form, in the log's order
}

// Logs are all of them, by release and name.
func Logs() ([]Log, error) {
	folders, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var out []Log
	for _, folder := range folders {
		list, err := files.ReadDir(folder.Name())
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			name, ok := strings.CutSuffix(f.Name(), ".msgpack")
			if !ok {
				continue
			}
			l, err := Read(folder.Name(), name)
			if err != nil {
				return nil, err
			}
			out = append(out, l)
		}
	}
	return out, nil
}

// Read reads one log.
func Read(release, name string) (Log, error) {
	l := Log{Release: release, Name: name}
	raw, err := files.ReadFile(path.Join(release, name+".msgpack"))
	if err != nil {
		return l, err
	}
	for dec := msgpack.NewDecoder(bytes.NewReader(raw)); ; {
		body, err := dec.DecodeRaw()
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		if err != nil {
			return l, fmt.Errorf("%s/%s, commit %d: %w", release, name, len(l.Bodies), err)
		}
		l.Bodies = append(l.Bodies, bytes.Clone(body))
	}
}

// Commits are the commits as this build reads them.
func (l Log) Commits() ([]events.Commit, error) {
	out := make([]events.Commit, len(l.Bodies))
	for i, b := range l.Bodies {
		c, err := events.Decode(b)
		if err != nil {
			return nil, fmt.Errorf("%s/%s, commit %d: %w", l.Release, l.Name, i, err)
		}
		out[i] = c
	}
	return out, nil
}
