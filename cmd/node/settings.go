package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/events/near"
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
	changeRetention                                                bool
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
	unfit    map[string]string // what is wrong with one that stands somewhere
	patience time.Duration     // see nextNode
	verb     string            // that runs a node; "": serve
	ways     ways              // by which a node of this command would run turns
	alike    string            // see alikeOf
}

func newSettings() *settings {
	return &settings{
		Place: session.Place{Hint: "start that server, or name another with --nats; without --nats the log is embedded"},
		from:  make(map[string]string), unfit: make(map[string]string), patience: nextNode,
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
	f.DurationVar(&s.retention, "retention", 0, "how long the log keeps an event; 0: for ever, or as a log does that is there. A log on --nats that keeps less stays so,\n"+
		"and one that keeps more is not opened: see --change-retention")
	f.BoolVar(&s.changeRetention, "change-retention", false, "put --retention into force for a log that is there, and remove what is older; also 0, for ever")
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
// A place that a flag names wins over one that the others name. With an error whatever
// could be read is filled all the same, for the verb that shows it.
func (s *settings) complete(f *pflag.FlagSet) error {
	if err := session.OnePlace(f); err != nil {
		return err
	}
	known := allSettings()
	errs := []error{checkEnv(os.Environ(), known)}
	if env := os.Getenv(session.EnvName("config")); s.file == "" && env != "" {
		s.file = env
	}
	file, err := readSettings(s.file, known)
	errs = append(errs, err)
	f.VisitAll(func(flag *pflag.Flag) {
		name := flag.Name
		switch env, inEnv := os.LookupEnv(session.EnvName(name)); {
		case known.Lookup(name) == nil || name == "config":
		case flag.Changed:
			s.from[name] = "flag"
		case name == "nats" && f.Changed("data"):
		case inEnv:
			errs = append(errs, s.fill(flag, []string{env}, session.EnvName(name), session.EnvName(name)))
		case file[name] != nil:
			errs = append(errs, s.fill(flag, file[name], s.file, s.file+": "+name))
		}
	})
	if errors.Join(errs...) == nil {
		errs = append(errs, outside(f)...)
	}
	if f.Lookup("ack-wait") != nil && errors.Join(errs...) == nil {
		errs = append(errs, s.bounds()...)
	}
	if err := errors.Join(errs...); err != nil {
		return exit.Misused(err, cmp.Or(exit.Hint(err), "sluice-node config shows the settings and where they come from"))
	}
	s.ways, s.alike = waysOf(f), alikeOf(f, known)
	return nil
}

// notSettings begin the names of variables that are no settings, and may be there:
// those of the tests, and what marks the children of a Bash call.
var notSettings = []string{"SLUICE_TEST_", shell.Marker}

// checkEnv refuses variables that look like settings and are none.
func checkEnv(environ []string, known *pflag.FlagSet) error {
	var names []string
	known.VisitAll(func(f *pflag.Flag) { names = append(names, session.EnvName(f.Name)) })
	var unknown []error
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		none := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if strings.HasPrefix(name, "SLUICE_") && value != "" && !slices.ContainsFunc(notSettings, none) && !slices.Contains(names, name) {
			unknown = append(unknown, noSetting(name, name, names))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return exit.Misused(errors.Join(unknown...), "mend the name, or unset it; sluice-node config prints all settings")
}

// noSetting is the error of a name that no setting has. It is shown as it was written.
func noSetting(shown, name string, known []string) error {
	if like := near.Word(name, known); like != "" {
		return fmt.Errorf("there is no setting %s: is %s meant?", shown, like)
	}
	return fmt.Errorf("there is no setting %s", shown)
}

// fill sets a flag from elsewhere. where is said of what is wrong with it.
func (s *settings) fill(flag *pflag.Flag, values []string, from, where string) error {
	s.from[flag.Name] = from
	var err error
	switch list, ok := flag.Value.(pflag.SliceValue); {
	case ok && len(values) != 1:
		err = list.Replace(values)
	case len(values) != 1:
		err = errors.New("want one value, not a list")
	default:
		err = setTo(flag, values[0])
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", where, err)
		s.unfit[flag.Name] = err.Error()
		_ = flag.Value.Set(flag.DefValue) // a flag may have taken part of it
	}
	return err
}

// setTo sets a flag to a value that no shell has seen: the home of a place is still to be
// put in.
func setTo(flag *pflag.Flag, value string) (err error) {
	if what, _ := pflag.UnquoteUsage(flag); what == "file" || what == "directory" {
		if value, err = fromHome(value); err != nil {
			return err
		}
	}
	if err := flag.Value.Set(value); err != nil {
		return command.Unfit(flag, value, err)
	}
	return nil
}

// maxSettings is the size in bytes of the largest configuration file.
const maxSettings = 1 << 20

// readSettings reads a file of settings: each name with its values. With an error, those
// that could be read are there.
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
	var names []string
	known.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	out, wrong, hint := make(map[string][]string), []error(nil), ""
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if known.Lookup(name) == nil || name == "config" {
			wrong, hint = append(wrong, fmt.Errorf("configuration %s: %w", path, noSetting(strconv.Quote(name), name, names))), "sluice-node config prints all settings"
			continue
		}
		if out[name], err = scalars(raw[name]); err != nil {
			wrong, hint = append(wrong, fmt.Errorf("configuration %s: %s: %w", path, name, err)), "write a value, or a list of them"
		}
	}
	if len(wrong) == 0 {
		return out, nil
	}
	return out, exit.Misused(errors.Join(wrong...), hint)
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
