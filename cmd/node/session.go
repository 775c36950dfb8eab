package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
)

// open opens the log: of --nats, of the node that runs on the data directory, or
// the directory itself, which is made if make says so. ctx bounds the opening only.
func (s *settings) open(ctx context.Context, log *slog.Logger, make bool) (*session.Session, error) {
	if s.NATS != "" {
		return s.openNATS(ctx, log)
	}
	info, err := os.Stat(s.Data)
	switch {
	case err == nil && !info.IsDir():
		return nil, exit.Unusable(fmt.Errorf("%s is not a directory", s.Data), "name another one with --data")
	case errors.Is(err, fs.ErrNotExist) && !make:
		return nil, exit.Unusable(fmt.Errorf("there is no log in %s", s.Data), "name the directory of a node with --data, or a server with --nats")
	}
	running, found, err := jetlog.Find(s.Data)
	switch {
	case err != nil:
		return nil, exit.Unusable(err, "")
	case found && running.URL == "":
		return nil, exit.Unusable(session.Silent(running, s.Data), "")
	case found:
		return s.OpenRunning(ctx, running, jetlog.Config{Replicas: 1, AckWait: s.ackWait, Log: log})
	}
	return s.openEmbedded(ctx, true, log)
}

// natsConfig is how the log of --nats is opened.
func (s *settings) natsConfig(ctx context.Context, log *slog.Logger) (jetlog.Config, error) {
	return s.Dial(ctx, jetlog.Config{
		Replicas: s.replicas, Retention: s.retention, ChangeRetention: s.changeRetention, AckWait: s.ackWait, Log: log,
	})
}

func (s *settings) openNATS(ctx context.Context, log *slog.Logger) (*session.Session, error) {
	conf, err := s.natsConfig(ctx, log)
	if err != nil {
		return nil, err
	}
	ses, err := session.Open(ctx, conf)
	var shortens *jetlog.Shortens
	if errors.As(err, &shortens) {
		return nil, exit.Misused(err, "leave --retention out, or make it the same as what is in force; to remove what is older on purpose, for all nodes of this log, add --change-retention")
	}
	return ses, err
}

// openEmbedded opens the log in this process. keepClear leaves one that is not encrypted as
// it is: only a node makes that step, for which there is no way back.
func (s *settings) openEmbedded(ctx context.Context, keepClear bool, log *slog.Logger) (*session.Session, error) {
	keys, err := s.StoreKeys()
	if err != nil {
		return nil, err
	}
	sc := jetlog.ServerConfig{Dir: s.Data, Sync: s.sync, Token: s.token, Keys: keys, KeepClear: keepClear, Log: log}
	if err := errors.Join(s.listenAt(&sc), s.admit(&sc)); err != nil {
		return nil, err
	}
	ses, err := session.OpenEmbedded(ctx, sc, jetlog.Config{Retention: s.retention, ChangeRetention: s.changeRetention, AckWait: s.ackWait, Log: log})
	if err != nil {
		return nil, err
	}
	ses.LendBarrier(ctx, log)
	return ses, nil
}

// listenAt says where the embedded log listens. Other processes of this user
// always can reach it, unless they are told not to.
func (s *settings) listenAt(sc *jetlog.ServerConfig) error {
	switch s.listen {
	case "none":
		return nil
	case "":
		sc.Port = -1
		if sc.Token == "" {
			sc.Token = rand.Text()
		}
		return nil
	}
	host, port, err := net.SplitHostPort(s.listen)
	if err == nil {
		sc.Host = host
		sc.Port, err = strconv.Atoi(port)
	}
	if err != nil || sc.Port < 0 {
		return exit.Misused(fmt.Errorf("--listen-nats %q: want host:port", s.listen), "for example 127.0.0.1:4222, or none")
	}
	if sc.Port == 0 {
		sc.Port = -1
	}
	if everywhere(host) && sc.Token == "" && s.bus.users == "" {
		return exit.Misused(fmt.Errorf("--listen-nats %s is open to the network, and whoever can connect could write the log", s.listen),
			"say who may come in with --nats-users FILE (sluice-node nats user makes an entry), or give --nats-token; or listen on 127.0.0.1")
	}
	return nil
}
