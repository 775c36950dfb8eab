package main

import (
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
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus/vault"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/tools"
)

// secretSettings say how secrets are kept.
type secretSettings struct {
	keys   string // file
	redact string // on or off
}

// keyFlags say where the keys of secrets are, for whoever takes secrets out of arguments.
func (s *secretSettings) keyFlags(f *pflag.FlagSet) {
	f.StringVar(&s.keys, "secrets-key", "", "`file` of the keys under which secrets out of arguments are sealed, the same on all nodes of a log.\n"+
		"Left out: secrets.key in the data directory, which is made; with --nats: values stay in this process, and are lost with it")
}

// redactFlags say what is looked for in what tools answer.
func (s *secretSettings) redactFlags(f *pflag.FlagSet) {
	f.StringVar(&s.redact, "redact", "on", "on, or off: what only looks like a secret stays in what tools answer. Values that a tool was given are taken out in any case")
}

// shown says whether what only looks like a secret stays in what tools answer.
func (s *secretSettings) shown() bool { return s.redact == "off" || s.redact == "false" }

// keyName is the file of keys in a data directory, where no other is named.
const keyName = "secrets.key"

// toldKey is what a node tells of its file of keys to others on its data directory.
const toldKey = "secrets-key"

// keyFile is the file of keys for a log that is open; "" where there is none. own says
// that it is this process's to make.
func (s *settings) keyFile(ses *session.Session) (path string, own bool) {
	switch {
	case s.secret.keys != "":
		return s.secret.keys, false
	case s.NATS != "":
		return "", false
	case ses.Server != nil:
		return filepath.Join(s.Data, keyName), true
	case ses.Found != nil && ses.Found.More[toldKey] != "":
		return ses.Found.More[toldKey], false
	}
	path = filepath.Join(s.Data, keyName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", false // of a release that made none
	}
	return path, false
}

// vault keeps the secrets of calls. lasting says that a node runs in this process, so
// that values may stay in its memory; otherwise there is no vault without keys.
func (s *settings) vault(ses *session.Session, lasting bool, log *slog.Logger) (*vault.Vault, error) {
	path, own := s.keyFile(ses)
	if path == "" {
		if !lasting {
			return nil, nil
		}
		log.Warn("secrets out of arguments stay in the memory of this process, and are lost with it: give all nodes of the log one file of keys with --secrets-key")
		return vault.New(vault.Config{Now: ses.Now})
	}
	if own {
		if err := session.MakeKeyFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, exit.Unusable(fmt.Errorf("make a key for secrets: %w", err), "name a file of keys with --secrets-key")
		}
	}
	raw, err := session.KeyFile("secrets-key", path)
	if err != nil {
		return nil, err
	}
	keys, err := secrets.NewKeys(raw...)
	if err != nil {
		return nil, exit.Misused(fmt.Errorf("%s: %w", path, err), "")
	}
	return vault.New(vault.Config{Cells: ses.Bus.Cells(), Keys: keys, Now: ses.Now})
}

// opener is a vault as actors take it; nil where there is none.
func opener(v *vault.Vault) actors.Vault {
	if v == nil {
		return nil
	}
	return v
}

// declaredBy are the arguments that tools' schemas say are secrets.
func declaredBy(r *tools.Registry) func(tool string) []string {
	var known sync.Map // of a tool that was added never changes
	return func(name string) []string {
		if have, ok := known.Load(name); ok {
			return have.([]string)
		}
		t, ok := r.Lookup(name)
		if !ok {
			return nil
		}
		var out []string
		secretMembers(t.Schema, "", 0, &out)
		known.Store(name, out)
		return out
	}
}

// maxSchemaDepth bounds how deep a schema is looked into.
const maxSchemaDepth = 16

// secretMembers are the members of an object that its schema marks with
// "writeOnly": true or "format": "password".
func secretMembers(schema json.RawMessage, path string, depth int, out *[]string) {
	var s struct {
		WriteOnly  bool                       `json:"writeOnly"`
		Format     string                     `json:"format"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if depth > maxSchemaDepth || json.Unmarshal(schema, &s) != nil {
		return
	}
	if path != "" && (s.WriteOnly || s.Format == "password") {
		*out = append(*out, path)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		secretMembers(s.Properties[name], path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), depth+1, out)
	}
}

// discreet is a log that shows nothing that looks like a secret.
func discreet(h slog.Handler) slog.Handler { return actors.NewLogHandler(h, secrets.Redact) }

// discreetError says what an error says, but for what looks like a secret.
type discreetError struct{ error }

func (e discreetError) Error() string { return secrets.Redact(e.error.Error()) }
func (e discreetError) Unwrap() error { return e.error }

// secretVerbs is the verb that makes keys.
func (a *app) secretVerbs() *cobra.Command {
	cmd := &cobra.Command{Use: "secrets", Short: "Make keys that secrets, or the log on the disk, are sealed under"}
	cmd.AddCommand(&cobra.Command{
		Use: "key [FILE]", Short: "Make a new key: print it, or write it to a new file that only you can read", Args: command.Args(0, 1, "a new file, or nothing"),
		Long: "Make a new key for --secrets-key or --encrypt-key: print it, or write it to a new file that only you can read.\n" +
			"A file may hold several, one a line, the newest first: the first one seals, each of them opens.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				key, err := session.NewKey()
				if err == nil {
					a.print("%s\n", key)
				}
				return err
			}
			if err := session.MakeKeyFile(args[0]); err != nil {
				return exit.Misused(err, "name a file that does not exist yet, in a directory that does")
			}
			return a.say(map[string]string{"status": "made", "file": args[0]}, "%s: made, readable by you only\n", args[0])
		},
	})
	return cmd
}
