// Package session opens the log that a command works on: of a NATS server, of
// the node that runs on a data directory, or of the directory itself. Which of
// them, and whether a log may be made, is the command's to say.
package session

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
)

// Place says where the log is.
type Place struct {
	Data string // directory
	NATS string // URL; "" means the log of Data

	// What NATS wants to know: names of files.
	Creds, NKey, CA, Cert, Key string

	// EncryptKey is the file of the keys that the embedded log is encrypted under on the
	// disk; "" means that it is not.
	EncryptKey string

	TLS  bool   // though NATS does not say tls://
	Pin  string // of NATS' certificate: see jetlog.DialConfig; "" means that the authorities count
	Hint string // what to do where NATS cannot be reached
}

// Flags adds the flags that fill the place, each with its default.
func (p *Place) Flags(f *pflag.FlagSet) {
	f.StringVar(&p.Data, "data", defaultData(), "data `directory` of the embedded log; a node that runs there is found through it")
	f.StringVar(&p.EncryptKey, "encrypt-key", "", "`file` of the keys that the embedded log is encrypted under on the disk; left out: it is not encrypted")
	f.StringVar(&p.NATS, "nats", "", "`URL` of a NATS server with JetStream that keeps the log, instead of --data")
	f.StringVar(&p.Creds, "creds", "", "credentials `file` for --nats")
	f.StringVar(&p.NKey, "nkey", "", "nkey seed `file` for --nats")
	f.StringVar(&p.CA, "tls-ca", "", "`file` with the certificates to trust for --nats")
	f.StringVar(&p.Cert, "tls-cert", "", "client certificate `file` for --nats")
	f.StringVar(&p.Key, "tls-key", "", "key `file` of the client certificate")
	f.BoolVar(&p.TLS, "tls", false, "speak TLS to --nats though its URL does not say tls://")
}

// OnePlace refuses flags that name two logs.
func OnePlace(f *pflag.FlagSet) error {
	if f.Changed("data") && f.Changed("nats") {
		return exit.Misused(errors.New("--data and --nats name two logs"), "give one of them")
	}
	return nil
}

// defaultData is the data directory where none is named: outside any workspace,
// so that no agent's tool can reach the log.
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

// HoldsLog says whether a log was ever kept in a directory. Opening one that has
// none would make it.
func HoldsLog(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "jetstream"))
	return !errors.Is(err, fs.ErrNotExist) // anything else is for the opening to explain
}

// EnvName is the variable of the environment that stands for a flag.
func EnvName(flag string) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// DialHint is what to do about a NATS server that could not be used: otherwise, where it
// has not refused anything.
func DialHint(err error, otherwise string) string {
	switch jetlog.RefusalOf(err) {
	case jetlog.BadProof:
		return "look at the user and password in the URL of --nats, or at --nkey or --creds: the server is there, and does not know them"
	case jetlog.NoTrust:
		return "name the authority of the server's certificate with --tls-ca, and the server as its certificate does in --nats"
	case jetlog.NotForTheLog:
		return "go through the door of a node with --as NAME, where the verb has it; or come as a user with the role node"
	}
	return otherwise
}

// Dial is conf with connections to the place's NATS server, which can be reached.
func (p Place) Dial(ctx context.Context, conf jetlog.Config) (jetlog.Config, error) {
	connect, err := jetlog.Dial(ctx, jetlog.DialConfig{
		URL: p.NATS, Creds: p.Creds, NKey: p.NKey, CA: p.CA, Cert: p.Cert, Key: p.Key, TLS: p.TLS, Pin: p.Pin, Log: conf.Log,
	})
	if err != nil {
		return conf, exit.Unusable(err, DialHint(err, p.Hint))
	}
	conf.Connect = connect
	return conf, nil
}

// StoreKeys are the keys of the embedded log's store; none where it is not encrypted.
func (p Place) StoreKeys() ([][]byte, error) {
	if p.EncryptKey == "" {
		return nil, nil
	}
	return KeyFile("encrypt-key", p.EncryptKey)
}
