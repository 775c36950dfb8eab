package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/tools/shell"
)

// settings are everything that can be configured. A flag's name is its name in
// the file too, and in the environment behind SLUICE_, in capitals, with _.
type settings struct {
	file string // --config

	session.Place

	http, listen, token, sync, workspace, principals, policy, name string
	hosts, placements                                              []string
	room, replicas, breakerFailures                                int
	drain, approval, breakerWindow, retention                      time.Duration
	ackWait, keyRetention                                          time.Duration
	presence                                                       spanOrOff
	fixtures, network                                              bool
	ledger, readStore                                              string
	logLevel, logFormat                                            string

	policyTold string // what that node has told of its policy, as JSON; "" where another one is asked about

	entry   doorSettings
	box     boxSettings
	servers serversSettings // MCP servers whose tools it has
	bus     natsSettings    // who may come in by NATS
	hook    webhookSettings
	limit   limitsSettings // what may run at once, and begin in a time

	remote remoteSettings // the tools of workers

	mcpDoor mcpDoorSettings
	spans   otlpSettings

	secret secretSettings

	inForce  string            // version of the policy of the node that runs on --data, where that one counts
	from     map[string]string // where a setting's value comes from
	patience time.Duration     // see nextNode
	verb     string            // that runs a node; "": serve
	ways     string            // see waysOf
}

func newSettings() *settings {
	return &settings{
		Place: session.Place{Hint: "start that server, or name another with --nats; without --nats the log is embedded"},
		from:  make(map[string]string), patience: nextNode,
	}
}

// storeFlags say where the log is.
func (s *settings) storeFlags(f *pflag.FlagSet) {
	f.StringVar(&s.file, "config", "", "YAML `file` with settings, by the names of the flags")
	s.Flags(f)
	s.secret.keyFlags(f)
}

// nodeFlags say how a node in this process runs turns.
func (s *settings) nodeFlags(f *pflag.FlagSet) {
	s.toolFlags(f)
	f.StringVar(&s.sync, "sync", "barrier", "durability of the embedded log: barrier, always or interval=`D`")
	f.StringVar(&s.listen, "listen-nats", "", "where the embedded log listens for NATS clients, `host:port`; port 0 takes any free one; none: only this process.\n"+
		"Left out: any free loopback port, with a token that only this user can read")
	f.StringVar(&s.token, "nats-token", "", "`token` that NATS clients of the embedded log must give")
	f.IntVar(&s.replicas, "replicas", 1, "replicas of each stream that has to be made on --nats")
	f.DurationVar(&s.retention, "retention", 0, "how long the log keeps an event; 0: for ever")
	f.StringSliceVar(&s.placements, "placements", []string{"default"}, "`placements` whose turns this node runs")
	f.IntVar(&s.room, "room", 512, "turns at once")
	f.DurationVar(&s.drain, "drain", 10*time.Second, "how long running attempts may take to end at a stop")
	f.DurationVar(&s.approval, "approval", 24*time.Hour, "how long a person has to answer")
	s.natsUsersFlags(f)
	s.sandboxFlags(f)
	s.remote.remoteFlags(f)
	s.secret.redactFlags(f)
	s.breakerFlags(f)
	s.limitsFlags(f)
	f.DurationVar(&s.ackWait, "ack-wait", 15*time.Second, "how long a turn stays with a node of which nothing is heard, 2s to 10m; the same on all nodes of a log")
	s.presence.span = 3 * time.Second
	f.Var(&s.presence, "presence", "after how long without a sign of life others take a node for dead, 1s to 1m; off: then ack-wait alone counts")
	f.DurationVar(&s.keyRetention, "key-retention", 720*time.Hour, "how long an idempotency key is remembered; shorter than --retention")
	f.StringVar(&s.name, "name", "", "`name` of this node, for people; left out: host and process")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&s.logFormat, "log-format", "text", "text or json")
}

// breakerFlags say when circuits open, and for how long.
func (s *settings) breakerFlags(f *pflag.FlagSet) {
	f.IntVar(&s.breakerFailures, "breaker-failures", 3, "consecutive failures of availability that open a tool's circuit")
	f.DurationVar(&s.breakerWindow, "breaker-window", 300*time.Second, "how long an open circuit stays open")
}

// toolFlags say what can be called, and by whom.
func (s *settings) toolFlags(f *pflag.FlagSet) {
	f.StringVar(&s.workspace, "workspace", ".", "`directory` where calls run whose turn names none")
	f.BoolVar(&s.fixtures, "fixtures", false, "register the small tools for trying faults, too")
	f.StringVar(&s.ledger, "ledger", "", "`file` that the fixtures with effects write to; left out: fixtures-ledger.jsonl in the data directory")
	f.BoolVar(&s.network, "network", false, "tools may use the network")
	f.StringVar(&s.policy, "policy", "", "`file` of Cedar policies, or directory with files *.cedar; left out: the program's own, which policy default prints")
	f.StringVar(&s.principals, "principals", "", "YAML `file` with each principal's allowlist; left out: everybody may call every tool")
	s.serversFlags(f)
}

// doorFlags say where HTTP listens, and what it answers searches from.
func (s *settings) doorFlags(f *pflag.FlagSet) {
	f.StringVar(&s.http, "http", "127.0.0.1:8383", "where HTTP listens, `host:port`; port 0 takes any free one; none: nowhere")
	f.StringSliceVar(&s.hosts, "http-hosts", nil, "`names` that HTTP answers to besides loopback's, and the address that it listens on")
	s.doorAccessFlags(f)
	s.readStoreFlag(f)
	s.hook.webhookFlags(f)
	s.mcpDoorFlags(f)
	s.spans.otlpFlags(f)
}

// all are every setting there is, with defaults.
func allSettings() *pflag.FlagSet {
	s, f := newSettings(), pflag.NewFlagSet("all", pflag.ContinueOnError)
	s.storeFlags(f)
	s.nodeFlags(f)
	s.doorFlags(f)
	return f
}

// complete fills what no flag has set from the environment, else from the file.
// A place that a flag names wins over one that the others name.
func (s *settings) complete(f *pflag.FlagSet) error {
	if err := session.OnePlace(f); err != nil {
		return err
	}
	known := allSettings()
	if err := checkEnv(os.Environ(), known); err != nil {
		return err
	}
	if env := os.Getenv(session.EnvName("config")); s.file == "" && env != "" {
		s.file = env
	}
	file, err := readSettings(s.file, known)
	if err != nil {
		return err
	}
	var errs []error
	f.VisitAll(func(flag *pflag.Flag) {
		name := flag.Name
		switch env, inEnv := os.LookupEnv(session.EnvName(name)); {
		case known.Lookup(name) == nil || name == "config":
		case flag.Changed:
			s.from[name] = "flag"
		case name == "nats" && f.Changed("data"):
		case inEnv:
			s.from[name] = session.EnvName(name)
			errs = append(errs, fill(flag, []string{env}, session.EnvName(name)))
		case file[name] != nil:
			s.from[name] = s.file
			errs = append(errs, fill(flag, file[name], s.file+": "+name))
		}
	})
	if f.Lookup("ack-wait") != nil && len(errs) == 0 {
		errs = s.bounds()
	}
	if err := errors.Join(errs...); err != nil {
		return exit.Misused(err, "sluice-node config shows the settings and where they come from")
	}
	s.ways = waysOf(f, known)
	return nil
}

// notSettings begin the names of variables that are no settings, and may be there:
// those of the tests, and what marks the children of a Bash call.
var notSettings = []string{"SLUICE_TEST_", shell.Marker}

// checkEnv refuses variables that look like settings and are none.
func checkEnv(environ []string, known *pflag.FlagSet) error {
	names := &cobra.Command{SuggestionsMinimumDistance: 3} // it knows which names are near
	known.VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: session.EnvName(f.Name), Run: func(*cobra.Command, []string) {}})
	})
	var unknown []error
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		none := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if !strings.HasPrefix(name, "SLUICE_") || value == "" || slices.ContainsFunc(notSettings, none) ||
			slices.ContainsFunc(names.Commands(), func(c *cobra.Command) bool { return c.Use == name }) {
			continue
		}
		err := fmt.Errorf("there is no setting %s", name)
		if near := names.SuggestionsFor(name); len(near) > 0 {
			err = fmt.Errorf("%w: is %s meant?", err, strings.Join(near, " or "))
		}
		unknown = append(unknown, err)
	}
	if len(unknown) == 0 {
		return nil
	}
	return exit.Misused(errors.Join(unknown...), "mend the name, or unset it; sluice-node config prints all settings")
}

// fill sets a flag from elsewhere.
func fill(flag *pflag.Flag, values []string, where string) error {
	var err error
	if list, ok := flag.Value.(pflag.SliceValue); ok && len(values) != 1 {
		err = list.Replace(values)
	} else if len(values) != 1 {
		err = errors.New("want one value, not a list")
	} else {
		err = flag.Value.Set(values[0])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// maxSettings is the size in bytes of the largest configuration file.
const maxSettings = 1 << 20

// readSettings reads a file of settings: each name with its values.
func readSettings(path string, known *pflag.FlagSet) (map[string][]string, error) {
	if path == "" {
		return nil, nil
	}
	body, err := readSmall(path, maxSettings)
	if err != nil {
		return nil, exit.Misused(fmt.Errorf("configuration: %w", err), "name a YAML file that can be read")
	}
	var raw map[string]any
	if err := yaml.Unmarshal(body, &raw); err != nil {
		return nil, exit.Misused(fmt.Errorf("configuration %s: %w", path, err), "write one name and value a line, for example: workspace: /srv/work")
	}
	out := make(map[string][]string)
	for name, v := range raw {
		if known.Lookup(name) == nil || name == "config" {
			return nil, exit.Misused(fmt.Errorf("configuration %s: there is no setting %q", path, name), "sluice-node config prints all settings")
		}
		if out[name], err = scalars(v); err != nil {
			return nil, exit.Misused(fmt.Errorf("configuration %s: %s: %w", path, name, err), "write a value, or a list of them")
		}
	}
	return out, nil
}

// scalars are the values of a YAML node, as flags read them.
func scalars(v any) ([]string, error) {
	switch v := v.(type) {
	case []any:
		out := []string{}
		for _, e := range v {
			one, err := scalars(e)
			if err != nil || len(one) != 1 {
				return nil, errors.New("a list in a list has no meaning")
			}
			out = append(out, one[0])
		}
		return out, nil
	case map[string]any, map[any]any:
		return nil, errors.New("it has no parts")
	case nil:
		return nil, errors.New("it has no value")
	}
	return []string{fmt.Sprint(v)}, nil
}

// readSmall reads a file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is no regular file")}
	case info.Size() > limit:
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%d bytes, at most %d", info.Size(), limit)}
	}
	return os.ReadFile(path)
}

// config is the verb that prints the settings in force.
func (a *app) config() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Print the settings that serve would use, and where each comes from", Args: command.Args(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			type setting struct {
				Name  string `json:"name"`
				Value any    `json:"value"`
				From  string `json:"from"`
			}
			var list []setting
			known := allSettings()
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if known.Lookup(f.Name) == nil || f.Name == "config" {
					return
				}
				from := a.set.from[f.Name]
				if from == "" {
					from = "default"
				}
				list = append(list, setting{f.Name, plainValue(f), from})
			})
			slices.SortFunc(list, func(x, y setting) int { return strings.Compare(x.Name, y.Name) })
			if a.json {
				return a.printJSON(map[string]any{"settings": list})
			}
			for _, s := range list {
				line, err := settingLine(s.Name, s.Value)
				if err != nil {
					return err
				}
				a.print("%s # %s\n", line, show.Short(s.From, 300))
			}
			return nil
		},
	}
	a.set.nodeFlags(cmd.Flags())
	a.set.doorFlags(cmd.Flags())
	return cmd
}

// settingLine is a setting as --config reads it. A secret is a comment.
func settingLine(name string, v any) (string, error) {
	if name == "nats-token" && v == secretSet {
		return "# nats-token: " + secretSet, nil
	}
	line, err := yaml.Marshal(map[string]any{name: v})
	text := strings.TrimSpace(string(line))
	if _, list := v.([]string); err == nil && (list || strings.Contains(text, "\n")) {
		line, err = json.Marshal(v) // YAML, too, and always one line
		text = name + ": " + string(line)
	}
	return text, err
}

// secretSet stands for a secret that is there.
const secretSet = "(set)"

// plainValue is a flag's value as YAML shows it. A secret is not shown.
func plainValue(f *pflag.Flag) any {
	switch v := f.Value.(type) {
	case pflag.SliceValue:
		return append([]string{}, v.GetSlice()...) // not nil: that would be no value
	default:
		if f.Name == "nats-token" && v.String() != "" {
			return secretSet
		}
		switch v.Type() {
		case "bool":
			return v.String() == "true"
		case "int":
			var n int
			_, _ = fmt.Sscan(v.String(), &n) // it is one
			return n
		}
		return v.String()
	}
}
