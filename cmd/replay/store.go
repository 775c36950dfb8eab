package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
)

// settings say where the log is. The flags are those of sluice-node.
type settings struct {
	data, nats, creds, nkey, ca, cert, key string
	tls                                    bool
	wait                                   time.Duration // 0 means patience
}

func (s *settings) flags(f *pflag.FlagSet) {
	f.StringVar(&s.data, "data", defaultData(), "data `directory` of the embedded log; a node that runs there is found through it")
	f.StringVar(&s.nats, "nats", "", "`URL` of a NATS server with JetStream that keeps the log, instead of --data")
	f.StringVar(&s.creds, "creds", "", "credentials `file` for --nats")
	f.StringVar(&s.nkey, "nkey", "", "nkey seed `file` for --nats")
	f.StringVar(&s.ca, "tls-ca", "", "`file` with the certificates to trust for --nats")
	f.StringVar(&s.cert, "tls-cert", "", "client certificate `file` for --nats")
	f.StringVar(&s.key, "tls-key", "", "key `file` of the client certificate")
	f.BoolVar(&s.tls, "tls", false, "speak TLS to --nats though its URL does not say tls://")
}

// defaultData is the data directory where none is named: that of sluice-node.
func defaultData() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sluice")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "sluice-data"
	}
	return filepath.Join(home, ".local", "share", "sluice")
}

// fromEnv are the flags that can stand in the environment.
var fromEnv = []string{"data", "nats", "creds", "nkey", "tls-ca", "tls-cert", "tls-key", "tls"}

// complete fills what no flag has set from the environment. A place that a flag
// names wins over one that the environment names.
func (s *settings) complete(f *pflag.FlagSet) error {
	if f.Changed("data") && f.Changed("nats") {
		return usage(errors.New("--data and --nats name two logs"), "give one of them")
	}
	for _, name := range fromEnv {
		env := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value, ok := os.LookupEnv(env)
		if !ok || f.Changed(name) || name == "nats" && f.Changed("data") {
			continue
		}
		if err := f.Lookup(name).Value.Set(value); err != nil {
			return usage(fmt.Errorf("%s: %w", env, err), "mend it, or unset it")
		}
	}
	return nil
}

// store is a log that a verb works on.
type store struct {
	bus    bus.Bus
	server *jetlog.Server // the log is embedded in this process; else nil
}

func (st *store) close() error {
	err := st.bus.Close()
	if st.server != nil {
		err = errors.Join(err, st.server.Close()) // says that the log was closed, whatever was done with it
	}
	return err
}

// open opens the log: of --nats, of the node that runs on the data directory, or
// the directory itself. A log that is not there is made if make says so, else it
// is an error. ctx bounds the opening only.
func (s *settings) open(ctx context.Context, log *slog.Logger, make bool) (*store, error) {
	if s.nats != "" {
		return s.openNATS(ctx, log, s.nats, nil, make)
	}
	late := time.Now().Add(cmp.Or(s.wait, patience))
	for {
		st, err := s.openData(ctx, log, make, late)
		if err == nil {
			return st, nil
		}
		// Somebody may have taken the directory between our look and our try.
		if _, taken, ferr := jetlog.Find(s.data); ferr != nil || !taken || ctx.Err() != nil || time.Now().After(late) {
			return nil, err
		}
	}
}

// openData opens the log of the data directory, whoever keeps it.
func (s *settings) openData(ctx context.Context, log *slog.Logger, make bool, late time.Time) (*store, error) {
	running, found, err := s.find(ctx, late)
	switch {
	case err != nil:
		return nil, unusable(err)
	case found && running.URL == "":
		return nil, &failure{
			fmt.Errorf("process %d uses %s, and nobody can talk to it", running.PID, s.data),
			"wait for its end; or, if it is a node, start it without --listen-nats none", exitUnavailable,
		}
	case found:
		return s.openRunning(ctx, log, running)
	}
	if !make && !holdsLog(s.data) {
		return nil, noLog(fmt.Errorf("there is no log in %s", s.data))
	}
	dir, err := filepath.Abs(s.data)
	if err != nil {
		return nil, unusable(err)
	}
	b, server, err := jetlog.OpenEmbedded(ctx, jetlog.ServerConfig{Dir: dir, Log: log}, jetlog.Config{Log: log})
	if err != nil {
		return nil, unusable(err)
	}
	return &store{bus: b, server: server}, nil
}

func noLog(err error) error {
	return &failure{err, "name the directory of a node with --data, or a server with --nats; sluice-replay import makes a new log", exitUnavailable}
}

// holdsLog says whether a log was ever kept in a directory. Opening one that has
// none would make it.
func holdsLog(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "jetstream"))
	return !errors.Is(err, fs.ErrNotExist) // anything else is for the opening to explain
}

// patience is how long a process may take that uses the directory for a moment,
// or that is only just starting.
const patience = 5 * time.Second

// find looks for who uses the data directory, and waits a little where that is
// somebody who cannot be talked to yet.
func (s *settings) find(ctx context.Context, late time.Time) (jetlog.Running, bool, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		running, found, err := jetlog.Find(s.data)
		if err != nil || !found || running.URL != "" || time.Now().After(late) {
			return running, found, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return running, found, ctx.Err()
		}
	}
}

// openNATS opens the log of a server that runs elsewhere.
func (s *settings) openNATS(ctx context.Context, log *slog.Logger, at string, barrier bus.Barrier, make bool) (*store, error) {
	connect, err := jetlog.Dial(ctx, jetlog.DialConfig{
		URL: at, Creds: s.creds, NKey: s.nkey, CA: s.ca, Cert: s.cert, Key: s.key, TLS: s.tls, Log: log,
	})
	if err != nil {
		return nil, &failure{err, "start that server, or name another with --nats; --data names a directory", exitUnavailable}
	}
	if !make { // opening makes the streams that are missing
		nc, err := connect("sluice-replay-look")
		if err != nil {
			return nil, unusable(err)
		}
		m, err := nc.Request("$JS.API.STREAM.INFO."+jetlog.StreamLog, nil, patience)
		nc.Close()
		if err != nil {
			return nil, unusable(fmt.Errorf("ask the server for the log: %w", err))
		}
		if isMissing(m.Data) {
			return nil, noLog(errors.New("that server keeps no log"))
		}
	}
	b, err := jetlog.Open(ctx, jetlog.Config{Connect: connect, Barrier: barrier, Log: log})
	if err != nil {
		return nil, unusable(err)
	}
	return &store{bus: b}, nil
}

// isMissing says whether the server's answer is that there is no such stream.
func isMissing(answer []byte) bool {
	var info struct {
		Error *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	return json.Unmarshal(answer, &info) == nil && info.Error != nil && info.Error.Code == 404
}

// openRunning talks to the node that runs on the data directory.
func (s *settings) openRunning(ctx context.Context, log *slog.Logger, running jetlog.Running) (*store, error) {
	u, err := url.Parse(running.URL)
	if err != nil {
		return nil, unusable(err)
	}
	if running.Token != "" {
		u.User = url.User(running.Token)
	}
	far := &farBarrier{mode: running.More["sync"]}
	plain := settings{data: s.data}
	st, err := plain.openNATS(ctx, log, u.String(), far, true)
	if err != nil {
		return nil, err
	}
	far.notes = st.bus
	return st, nil
}

// farBarrier is the barrier of the node that keeps the log.
type farBarrier struct {
	notes bus.Notes // nil while the bus is being opened
	mode  string
}

const (
	barrierName = "barrier"        // whom a node answers for
	farLimit    = 30 * time.Second // how long it may take
)

// Wait is bus.Barrier's.
func (f *farBarrier) Wait(ctx context.Context) error {
	if f.notes == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, farLimit)
	defer stop()
	answer, err := f.notes.Ask(ctx, barrierName, nil)
	if err == nil && len(answer) > 0 {
		err = errors.New(string(answer))
	}
	return err
}

// Mode is bus.Barrier's.
func (f *farBarrier) Mode() string { return f.mode }

// withStore opens the log, does something with it, and closes it.
func (a *app) withStore(ctx context.Context, make bool, do func(*store) error) error {
	log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	st, err := a.set.open(ctx, log, make)
	if err != nil {
		return err
	}
	return errors.Join(do(st), st.close())
}
