package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
)

// settings say where the log is. The flags are those of sluice-node, and --archive.
type settings struct {
	session.Place
	archive string        // file that is read instead of a log; "" means the log
	wait    time.Duration // for whoever uses the directory; 0 means patience
}

// Flags adds the flags that say what is read.
func (s *settings) Flags(f *pflag.FlagSet) {
	s.Place.Flags(f)
	f.StringVar(&s.archive, "archive", "", "`file` that export wrote, which is read instead of a log")
}

func newSettings() *settings {
	return &settings{Place: session.Place{Hint: "start that server, or name another with --nats; --data names a directory"}}
}

// fromEnv are the flags that can stand in the environment.
var fromEnv = []string{"data", "nats", "creds", "nkey", "tls-ca", "tls-cert", "tls-key", "tls"}

// complete fills what no flag has set from the environment. A place that a flag
// names wins over one that the environment names.
func (s *settings) complete(f *pflag.FlagSet) error {
	if err := session.OnePlace(f); err != nil {
		return err
	}
	if s.archive != "" && (f.Changed("data") || f.Changed("nats")) {
		return exit.Misused(errors.New("--archive is read instead of a log, and another flag names one"), "give one of them")
	}
	for _, name := range fromEnv {
		env := session.EnvName(name)
		value, ok := os.LookupEnv(env)
		if !ok || f.Changed(name) || name == "nats" && f.Changed("data") {
			continue
		}
		if err := f.Lookup(name).Value.Set(value); err != nil {
			return exit.Misused(fmt.Errorf("%s: %w", env, err), "mend it, or unset it")
		}
	}
	return nil
}

// open opens the log: of --nats, of the node that runs on the data directory, or
// the directory itself. A log that is not there is made if make says so, else it
// is an error. ctx bounds the opening only.
func (s *settings) open(ctx context.Context, log *slog.Logger, make bool) (*session.Session, error) {
	if s.NATS != "" {
		return s.openNATS(ctx, log, make)
	}
	late := time.Now().Add(cmp.Or(s.wait, patience))
	for {
		st, err := s.openData(ctx, log, make, late)
		if err == nil {
			return st, nil
		}
		// Somebody may have taken the directory between our look and our try.
		if _, taken, ferr := jetlog.Find(s.Data); ferr != nil || !taken || ctx.Err() != nil || time.Now().After(late) {
			return nil, err
		}
	}
}

// openData opens the log of the data directory, whoever keeps it.
func (s *settings) openData(ctx context.Context, log *slog.Logger, make bool, late time.Time) (*session.Session, error) {
	running, found, err := s.find(ctx, late)
	switch {
	case err != nil:
		return nil, exit.Unusable(err, "")
	case found && running.URL == "":
		return nil, exit.Unusable(session.Silent(running, s.Data), "wait for its end; or, if it is a node, start it without --listen-nats none")
	case found:
		return s.OpenRunning(ctx, running, jetlog.Config{Log: log})
	}
	if !make && !session.HoldsLog(s.Data) {
		return nil, noLog(fmt.Errorf("there is no log in %s", s.Data))
	}
	keys, err := s.StoreKeys()
	if err != nil {
		return nil, err
	}
	return session.OpenEmbedded(ctx, jetlog.ServerConfig{Dir: s.Data, Keys: keys, KeepClear: true, Log: log}, jetlog.Config{Log: log})
}

func noLog(err error) error {
	return exit.Unusable(err, "name the directory of a node with --data, or a server with --nats; sluice-replay import makes a new log")
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
		running, found, err := jetlog.Find(s.Data)
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
func (s *settings) openNATS(ctx context.Context, log *slog.Logger, make bool) (*session.Session, error) {
	conf, err := s.Dial(ctx, jetlog.Config{Log: log})
	if err == nil && !make {
		err = look(conf)
	}
	if err != nil {
		return nil, err
	}
	return session.Open(ctx, conf)
}

// look sees that there is a log, BEFORE it is opened: opening makes the streams that
// are missing.
func look(conf jetlog.Config) error {
	nc, err := conf.Connect("sluice-replay-look")
	if err != nil {
		return exit.Unusable(err, "")
	}
	m, err := nc.Request("$JS.API.STREAM.INFO."+jetlog.StreamLog, nil, patience)
	nc.Close()
	if err != nil {
		return exit.Unusable(fmt.Errorf("ask the server for the log: %w", err), "")
	}
	if isMissing(m.Data) {
		return noLog(errors.New("that server keeps no log"))
	}
	return nil
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

// withStore opens the log, does something with it, and closes it.
func (a *app) withStore(ctx context.Context, make bool, do func(*session.Session) error) error {
	if a.set.archive != "" {
		return exit.Misused(errors.New("this needs a log, and --archive names a file"), "name the log with --data or --nats; verbs that only read take --archive")
	}
	log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	st, err := a.set.open(ctx, log, make)
	if err != nil {
		return err
	}
	return errors.Join(do(st), st.Close())
}
