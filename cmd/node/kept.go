package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
)

// keptFile tells, in the data directory, how the node runs turns that was started there in
// its own right. A verb that runs a node for as long as it takes would take that one's turns
// over as well: it does so only where it would run them in the same way, or was told to.
const keptFile = "sluice.node"

// maxKept bounds that file, in bytes.
const maxKept = 64 << 10

// ways are the settings by which a node would run, as far as they matter to a turn: of two
// nodes that have the same ones, either may take the other's place. The values are those of
// flags; places are absolute.
type ways map[string]string

// ownWays are settings of nodes that no turn is run by: where the process listens and logs,
// what it is called, and how it shares its log.
var ownWays = []string{
	"log-level", "log-format", "name", "listen-nats", "nats-token", "nats-users", "nats-cert", "nats-key", "replicas", "change-retention", "room", "drain", "ack-wait", "presence", "sync",
}

// waysOf reads them off a command's flags.
func waysOf(f *pflag.FlagSet) ways {
	known, out := pflag.NewFlagSet("node", pflag.ContinueOnError), make(ways)
	newSettings().nodeFlags(known)
	known.VisitAll(func(k *pflag.Flag) {
		flag := f.Lookup(k.Name)
		if flag == nil || slices.Contains(ownWays, k.Name) {
			return
		}
		out[k.Name] = placed(flag.Value.String())
	})
	return out
}

// placed is the value of a flag; where it is a place, named from where the command was
// started, from the root.
func placed(value string) string {
	if value == "" {
		return value
	}
	abs, err := filepath.Abs(value)
	if err == nil {
		_, err = os.Stat(abs)
	}
	if err != nil {
		return value
	}
	return abs
}

// unlike are the names of the settings in which two ways differ, sorted.
func (w ways) unlike(other ways) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w)) {
		if value, has := other[name]; has && value != w[name] {
			out = append(out, name)
		}
	}
	return out
}

// keepWays notes how the node runs that starts here in its own right.
func (s *settings) keepWays() error {
	if s.NATS != "" || s.verb != "" {
		return nil
	}
	body, err := json.MarshalIndent(s.ways, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(s.Data, keptFile), append(body, '\n'))
}

// standsIn says in which settings a node of this command would differ from the one that was
// started on the data directory in its own right: none where there was none, or it would
// run turns in the same way.
func (s *settings) standsIn() ([]string, error) {
	if s.NATS != "" {
		return nil, nil
	}
	path := filepath.Join(s.Data, keptFile)
	body, err := readSmall(path, maxKept)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // what is no directory the opening explains
		return nil, nil
	}
	var kept ways
	if err == nil {
		err = json.Unmarshal(body, &kept)
	}
	if err != nil {
		return nil, exit.Unusable(fmt.Errorf("%s says how the node of this directory runs, and cannot be read: %w", path, err), "start that node: sluice-node serve writes it anew")
	}
	return s.ways.unlike(kept), nil
}

// openToRun opens the log for a verb that needs a node: the one that runs, or one in this
// process. Where that would not run turns as the directory's own node did, that one is
// waited for, unless here says that this one is meant.
func (a *app) openToRun(ctx context.Context, here, create bool, log *slog.Logger) (*session.Session, error) {
	unlike, err := a.set.standsIn()
	if err != nil {
		return nil, err
	}
	if _, found, err := jetlog.Find(a.set.Data); len(unlike) == 0 || here || err != nil || found || jetlog.Readable(a.set.Data) != nil {
		return a.set.open(ctx, log, create) // which says what is wrong
	}
	dir := show.Short(a.set.Data, 1000)
	with := "another " + unlike[0]
	if len(unlike) > 1 {
		with = "other settings: " + strings.Join(unlike, ", ")
	}
	a.note("%s: no node runs on %s, and the one that did had %s; waiting %v for it", name, dir, with, a.set.patience)
	ses, err := a.set.openNext(ctx, log)
	if _, late := errors.AsType[*exit.Failure](err); late {
		return nil, exit.Unusable(fmt.Errorf("no node runs on %s, and the one that did had %s", dir, with),
			"start that one, sluice-node serve; give this command its settings; or --here runs a node in this process as it is, which then takes over what that one has left, too")
	}
	return ses, err
}

// hereFlag says that a node of this process is meant, whatever ran before.
func hereFlag(f *pflag.FlagSet, here *bool) {
	f.BoolVar(here, "here", false, "where no node runs on a data directory that one was started on with other settings: run one in this process all the same")
}

// replaceFile puts a file that only this user reads in the place of another, whole or not at
// all.
func replaceFile(path string, body []byte) error {
	next := path + ".new"
	if err := os.WriteFile(next, body, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
