package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
)

// natsSettings say who may come in by NATS, and how.
type natsSettings struct {
	users string
}

// natsUsersFlags are those of natsSettings.
func (s *settings) natsUsersFlags(f *pflag.FlagSet) {
	f.StringVar(&s.bus.users, "nats-users", "", "YAML `file` of who may come in by NATS, in which roles: the users of the embedded server, and who they are at the\n"+
		"NATS door of this node; SIGHUP reads it anew. Left out: there is no such door, and who can connect to NATS can write the log")
}

// admit gives the embedded server its users.
func (s *settings) admit(sc *jetlog.ServerConfig) error {
	if s.bus.users == "" {
		return nil
	}
	if s.listen == "none" {
		return exit.Misused(errors.New("--nats-users says who connects, and --listen-nats none lets nobody"), "say where to listen, for example --listen-nats 127.0.0.1:4222")
	}
	f, err := readNATSUsers(s.bus.users)
	if err != nil {
		return err
	}
	sc.Users = f.users()
	return nil
}
