package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/tools/sandbox"
	"github.com/sluice-run/sluice/tools/shell"
)

// The states of what doctor looks at.
const (
	wellOK   = "ok"
	wellWarn = "warn" // serve would start, and somebody should know
	wellFail = "fail" // serve would refuse
)

// finding is what doctor says of one thing. Its JSON is for programs, and grows only.
type finding struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Says  string `json:"says"`
	Do    string `json:"do,omitempty"` // where it is not ok
}

// examined is all that doctor says.
type examined struct {
	OK          bool      `json:"ok"` // nothing fails
	Containment string    `json:"containment"`
	Checks      []finding `json:"checks"`
}

// doctor is the verb that looks at the machine and the settings.
func (a *app) doctor() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look at the machine and the settings, and say what serve would make of them", Args: command.Args(0, 0, "none"),
		Long: "Look at the machine and the settings, and say what serve would make of them: what contains commands, each part\n" +
			"really tried in a process of its own; the data directory, the policy, who may come in, ports, clock, programs; and\n" +
			"whether a node runs. Nothing is changed, but that a small file is written to the data directory and removed.\n\n" +
			"Exit codes:\n  0  all is right, or only worth a warning\n  1  serve would refuse; so it would with --require-sandbox, if that is given\n" +
			"  2  the command line or the configuration is wrong",
		RunE: func(cmd *cobra.Command, _ []string) error {
			x := a.set.examine(cmd.Context())
			if err := a.printExamined(x); err != nil {
				return err
			}
			if _, err := a.set.boxPolicy(); err != nil {
				return err // of the command line
			}
			if !x.OK {
				return errors.New("serve would refuse: see what fails")
			}
			return nil
		},
	}
	a.set.nodeFlags(cmd.Flags())
	a.set.doorFlags(cmd.Flags())
	return cmd
}

func (a *app) printExamined(x examined) error {
	if a.json {
		return a.printJSON(x)
	}
	for _, f := range x.Checks {
		a.print("%-4s  %-16s  %s\n", f.State, f.Name, show.Short(f.Says, 600))
		if f.Do != "" {
			a.print("      %-16s  → %s\n", "", f.Do)
		}
	}
	a.print("commands would be contained by: %s\n", x.Containment)
	return nil
}

// examine looks at everything.
func (s *settings) examine(ctx context.Context) examined {
	x := examined{OK: true}
	for _, look := range []func(context.Context) []finding{s.seeSandbox, seeKernel, s.seeData, s.seeSettings, s.seeRisks, s.seePorts, s.seeNode, seePrograms, seeClock} {
		x.Checks = append(x.Checks, look(ctx)...)
	}
	for i, f := range x.Checks {
		if f.State == wellOK {
			x.Checks[i].Do = ""
		}
		x.OK = x.OK && f.State != wellFail
	}
	words := []string{shell.Containment()}
	if s.box.mode != boxOff && s.box.machine != nil {
		words = append(words, sandbox.Policy{Use: s.box.machine.Use, Network: s.network}.Words()...)
	}
	x.Containment = strings.Join(words, ",")
	return x
}

// needed is a finding of something that serve needs, or nothing where it is right.
func needed(name string, err error, right string) finding {
	if err == nil {
		return finding{Name: name, State: wellOK, Says: right}
	}
	return finding{Name: name, State: wellFail, Says: err.Error(), Do: exit.Hint(err)}
}

// seeSandbox tries each part of containment.
func (s *settings) seeSandbox(ctx context.Context) []finding {
	m, err := s.box.look(ctx)
	if err != nil {
		return []finding{{Name: "sandbox", State: wellFail, Says: err.Error(), Do: "free some space in the directory for temporary files, or use --sandbox off"}}
	}
	var out []finding
	for _, p := range m.Parts {
		f := finding{Name: p.Name, State: wellOK, Says: meanings[p.Name]}
		if p.Detail != "" {
			f.Says += ": " + p.Detail
		}
		if !p.Have {
			f.State, f.Says, f.Do = wellWarn, "MISSING ("+p.Detail+"): "+meanings[p.Name], p.Remedy
		}
		out = append(out, f)
	}
	p, err := s.contained(ctx)
	for _, path := range absentGrants(p) {
		out = append(out, finding{Name: "sandbox", State: wellWarn, Says: isAbsent + ": " + path, Do: "mend the path, or make what it names"})
	}
	switch all := needed("sandbox", err, "files, the network and processes of this machine are out of commands' reach"); {
	case err != nil:
		return append(out, all)
	case s.box.mode == boxOff:
		return append(out, finding{Name: "sandbox", State: wellWarn, Says: "off: commands have this node's rights", Do: "leave --sandbox off out"})
	case !m.Holds():
		return append(out, finding{
			Name: "sandbox", State: wellWarn, Says: "not all of files, network and processes are out of commands' reach; --require-sandbox would refuse to serve",
			Do: "get what is missing, or run the node as a user with few rights in a container of its own",
		})
	default:
		return append(out, all)
	}
}

// meanings say what each part of containment is for.
var meanings = map[string]string{
	"userns":   "a command has no rights over the machine, and no other identity",
	"mountns":  "a command sees the workspace and the system's programs, and no other files",
	"pidns":    "a command sees no other processes, and none of its own outlives it",
	"ipcns":    "a command shares no memory and no queues with others",
	"utsns":    "a command does not learn this machine's name",
	"netns":    "a command reaches no network, loopback of this machine included, unless --network is given",
	"view":     "all of these work together, and can be set up",
	"landlock": "the kernel holds a command to its paths, and keeps its signals inside",
	"nnp":      "no program that a command starts has more rights than it",
	"rlimits":  "processor time, memory, processes, files and descriptors of a command are bounded",
	"seccomp":  "a command asks the kernel only for what programs need",
	"sandbox":  "a command is contained",
}

// seeSettings reads whatever serve reads before it starts.
func (s *settings) seeSettings(context.Context) []finding {
	workspace, err := s.directory()
	out := []finding{needed("workspace", err, workspace)}
	_, err = newJudge(s.policy)
	out = append(out, needed("policy", err, saysOf(s.policy, "the policy loads", "none is given: the program's own counts, which sluice-node policy default prints")))
	_, err = s.allowlists()
	out = append(out, needed("principals", err, saysOf(s.principals, "who may call what can be read", "none are given: everybody may call every tool, as far as the policy allows it")))
	_, err = s.limits()
	out = append(out, needed("limits", err, saysOf(s.limit.file, "the file of limits loads", "none is given: as much runs at once as turns ask for")))
	_, err = s.mcpServers(slog.New(slog.DiscardHandler))
	out = append(out, needed("mcp-servers", err, saysOf(s.servers.file, "the file of MCP servers can be read; sluice-node mcpservers check tries them", "none is given: there are no tools of MCP servers")))
	_, err = s.roll()
	out = append(out, needed("nats-users", err, saysOf(s.bus.users, "who may come in by NATS can be read", s.withoutUsers())))
	_, err = s.webhook()
	out = append(out, needed("webhook", err, saysOf(s.hook.url, "the webhook can be used", "none is given: nobody is told what waits for a person")))
	_, err = s.remote.trust()
	out = append(out, needed("remote-tiers", err, saysOf(s.remote.tiers, "whose word counts for the tiers of workers' tools can be read", "none are given: no worker's tool is believed to be readonly")))
	_, err = s.mcpConfig(nil)
	out = append(out, needed("mcp-door", err, "the settings of the protocol's door fit each other"))
	_, err = s.spans.config()
	out = append(out, needed("otlp", err, "the settings of spans fit each other"))
	_, err = s.logger(io.Discard)
	out = append(out, needed("log", err, "the node's log can be written"))
	if s.http != "none" {
		if err = s.checkDoor(); err == nil {
			err = (&doorway{set: s}).read()
		}
		out = append(out, needed("http", err, saysOf(s.entry.auth, "who may come in by HTTP can be read",
			"no --http-auth is given: whoever reaches "+s.http+" is believed to be who he says, and may do everything")))
	}
	return out
}

// saysOf is what is said where a setting is given, or what is said where it is not.
func saysOf(setting, given, none string) string {
	if setting == "" {
		return none
	}
	return given
}

// withoutUsers says who can write the log by NATS where no users are named.
func (s *settings) withoutUsers() string {
	switch {
	case s.NATS != "":
		return "none are given: the server of --nats says who connects, and who does can write the log"
	case s.listen == "none":
		return "none are given, and nobody can connect"
	case s.listen == "":
		return "none are given: only this user's other processes know how to connect, and they can write the log"
	case s.token != "":
		return "none are given: whoever has the token of --nats-token can write the log"
	}
	return "none are given: whoever reaches " + s.listen + " can write the log"
}

// warnOpen says what of the settings lets more in, or out, than may be meant.
func (s *settings) warnOpen(log *slog.Logger) {
	if s.NATS == "" && s.listen != "" && s.listen != "none" && s.token == "" && s.bus.users == "" {
		log.Warn("every user of this machine who reaches --listen-nats can read and write the log: say who may come in with --nats-users, or give --nats-token", "listen-nats", s.listen)
	}
	if s.fixtures && s.entry.auth != "" {
		log.Warn("--fixtures on a node that others come in to: agents can call tools that are made for trying faults, which write, wait, fail and keep memory as their arguments say; leave it out where agents are not yours")
	}
	if s.network && s.policy == "" {
		log.Warn("with --network, and without a policy of yours, Fetch reaches every public address and asks nobody: a policy can name the hosts")
	}
}

// seeRisks are the warnings that serve would write to its log.
func (s *settings) seeRisks(context.Context) []finding {
	var heard heard
	s.warn(slog.New(&heard))
	var out []finding
	for _, text := range heard.lines {
		out = append(out, finding{Name: "settings", State: wellWarn, Says: text})
	}
	if len(out) == 0 {
		out = append(out, finding{Name: "settings", State: wellOK, Says: "nothing about them is risky"})
	}
	return out
}

// heard is a log that keeps its lines.
type heard struct{ lines []string }

// Enabled is slog.Handler's.
func (h *heard) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle is slog.Handler's.
func (h *heard) Handle(_ context.Context, r slog.Record) error {
	var attrs []string
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, fmt.Sprintf("%s %s", a.Key, a.Value))
		return true
	})
	slices.Sort(attrs)
	text := r.Message
	if len(attrs) > 0 {
		text += " (" + strings.Join(attrs, ", ") + ")"
	}
	h.lines = append(h.lines, text)
	return nil
}

// WithAttrs is slog.Handler's.
func (h *heard) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup is slog.Handler's.
func (h *heard) WithGroup(string) slog.Handler { return h }
