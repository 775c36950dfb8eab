package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/gateway/keys"
)

// natsSettings say who may come in by NATS, and how.
type natsSettings struct {
	users, cert, key string
}

// natsUsersFlags are those of natsSettings.
func (s *settings) natsUsersFlags(f *pflag.FlagSet) {
	f.StringVar(&s.bus.users, "nats-users", "", "YAML `file` of who may come in by NATS, in which roles: the users of the embedded server, and who they are at the\n"+
		"NATS door of this node; SIGHUP reads it anew. Left out: there is no such door, and who can connect to NATS can write the log")
	f.StringVar(&s.bus.cert, "nats-cert", "", "PEM `file` with the certificate of the embedded server; with --nats-users SIGHUP reads it anew. Left out: no TLS")
	f.StringVar(&s.bus.key, "nats-key", "", "PEM `file` with the key of --nats-cert")
}

// admit gives the embedded server its users, and its certificate.
func (s *settings) admit(sc *jetlog.ServerConfig) error {
	if (s.bus.cert == "") != (s.bus.key == "") {
		return exit.Misused(errors.New("--nats-cert and --nats-key go together"), "name both files, or none")
	}
	if s.bus.key != "" {
		if err := keys.CheckFile(s.bus.key); err != nil {
			return exit.Misused(fmt.Errorf("--nats-key: %w", err), "mend the file's mode, or name another one")
		}
	}
	sc.Cert, sc.Key = s.bus.cert, s.bus.key
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
