package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/tools/sandbox"
	"github.com/sluice-run/sluice/tools/shell"
)

// boxSettings say what contains commands.
type boxSettings struct {
	mode                autoOrOff
	require             bool
	read, write, limits []string

	machine *sandbox.Machine // nil: nobody has looked
	policy  sandbox.Policy   // of the node that runs in this process
}

// sandboxFlags say what contains commands.
func (s *settings) sandboxFlags(f *pflag.FlagSet) {
	b := &s.box
	f.Var(&b.mode, "sandbox", "what contains commands: auto, all that the machine has; off, nothing but their process tree")
	f.BoolVar(&b.require, "require-sandbox", false, "serve only where files, network and processes of the machine are out of commands' reach")
	f.StringSliceVar(&b.read, "sandbox-read", nil, "`paths` that commands may read beside the workspace and the system's programs, for example ~/go")
	f.StringSliceVar(&b.write, "sandbox-write", nil, "`paths` that commands may read and write beside the workspace, for example ~/.cache")
	f.StringSliceVar(&b.limits, "sandbox-limit", nil, "`limits` of a command as name=value: cpu=30m, memory=4GiB, file=4GiB, temp=512MiB, processes=1024, open=4096")
}

// autoOrOff is whether there is a sandbox.
type autoOrOff bool

const (
	boxAuto autoOrOff = false
	boxOff  autoOrOff = true
)

// String is pflag.Value's.
func (v *autoOrOff) String() string {
	if *v == boxOff {
		return "off"
	}
	return "auto"
}

// Set is pflag.Value's.
func (v *autoOrOff) Set(text string) error {
	switch text {
	case "auto":
		*v = boxAuto
	case "off", "false": // which is what YAML makes of a plain off
		*v = boxOff
	default:
		return errors.New("want auto or off; --require-sandbox refuses to serve without one")
	}
	return nil
}

// Type is pflag.Value's.
func (v *autoOrOff) Type() string { return "auto|off" }

// look tries what the machine has, once.
func (b *boxSettings) look(ctx context.Context) (sandbox.Machine, error) {
	if b.machine == nil {
		m, err := sandbox.Look(ctx)
		if err != nil {
			return m, exit.Unusable(err, "see what sluice-node doctor says, or use --sandbox off")
		}
		b.machine = &m
	}
	return *b.machine, nil
}

// contained is what commands may do beside their workspace, and what holds them to it.
// It fails where a sandbox is required that the machine does not give.
func (s *settings) contained(ctx context.Context) (sandbox.Policy, error) {
	p, err := s.boxPolicy()
	if err != nil {
		return p, err
	}
	if s.box.mode == boxOff {
		if s.box.require {
			return p, exit.Misused(errors.New("--require-sandbox and --sandbox off cannot both be"), "leave one of them out")
		}
		return sandbox.Policy{}, nil
	}
	m, err := s.box.look(ctx)
	if err != nil {
		return p, err
	}
	p.Use = m.Use
	if !s.box.require {
		return p, nil
	}
	if !m.Holds() {
		return p, exit.Unusable(fmt.Errorf("a sandbox is required, and this machine lacks %s", lacking(m)), "sluice-node doctor says what each part is for and how to get it")
	}
	workspace, err := s.directory()
	if err != nil {
		return p, err
	}
	p.Workspace = workspace
	if open := p.Exposed(); len(open) > 0 {
		return p, exit.Misused(fmt.Errorf("a sandbox is required, and commands could read %s: without namespaces nothing can be hidden in what they may read", strings.Join(open, ", ")),
			"move the data directory out of the workspace and of --sandbox-read and --sandbox-write")
	}
	return p, nil
}

// boxIn has the commands of the node that is about to start contained, and says so.
func (s *settings) boxIn(ctx context.Context, log *slog.Logger) (err error) {
	if s.box.policy, err = s.contained(ctx); err == nil {
		s.tellBox(s.box.policy, log)
	}
	return err
}

// lacking names the parts that are missing, each with why.
func lacking(m sandbox.Machine) string {
	var words []string
	for _, p := range m.Lacks() {
		words = append(words, fmt.Sprintf("%s (%s)", p.Name, p.Detail))
	}
	return strings.Join(words, ", ")
}

// boxPolicy is what the settings say of commands.
func (s *settings) boxPolicy() (p sandbox.Policy, err error) {
	var errs [3]error
	p.Read, errs[0] = absolute("sandbox-read", s.box.read)
	p.Writable, errs[1] = absolute("sandbox-write", s.box.write)
	p.Limits, errs[2] = limitsOf(s.box.limits)
	p.Hide = s.ownFiles()
	if err := errors.Join(grantable("sandbox-read", p.Read, p.Hide), grantable("sandbox-write", p.Writable, p.Hide)); err != nil {
		return p, exit.Misused(err, "name what commands need, and nothing of the node's own")
	}
	if err := errors.Join(errs[:]...); err != nil {
		return p, exit.Misused(err, "sluice-node config shows the settings and where they come from")
	}
	return p, nil
}

// absolute are paths from here, or from the home of this user where they begin with ~.
func absolute(setting string, paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		path, err := fromHome(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", setting, err)
		}
		whole, err := filepath.Abs(path)
		if err != nil || path == "" {
			return nil, fmt.Errorf("%s %q: want a path", setting, path)
		}
		out = append(out, whole)
	}
	return out, nil
}

// fromHome is a path that may begin with ~, the home of this user. A shell has made it plain
// where it stood in a command line; a file of settings and the environment have none.
func fromHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return filepath.Join(home, rest), nil
}

// grantable refuses paths that no command can be given: the whole file system, and what
// is hidden from all of them, by whatever name.
func grantable(setting string, paths, hidden []string) error {
	for _, path := range paths {
		whole := resolved(path)
		if whole == "/" {
			return fmt.Errorf("--%s %s: that is the whole file system", setting, path)
		}
		for _, own := range hidden {
			if sandbox.Within(whole, resolved(own)) {
				return fmt.Errorf("--%s %s: no command may see it, since %s is the node's own", setting, path, own)
			}
		}
	}
	return nil
}

// maxLinks is how many links that lead to nothing yet are followed, one after the other.
const maxLinks = 40

// resolved is an absolute path without links, also where what they lead to is not there
// yet.
func resolved(path string) string {
	path = filepath.Clean(path)
	at, rest, links := path, "", 0
	for {
		if whole, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(whole, rest)
		}
		to, err := os.Readlink(at)
		switch {
		case err == nil && links < maxLinks:
			links++
			if !filepath.IsAbs(to) {
				to = filepath.Join(resolved(filepath.Dir(at)), to)
			}
			at, rest = filepath.Join(to, rest), ""
		case at == filepath.Dir(at):
			return path
		default:
			at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest)
		}
	}
}

// absentGrants are the paths that commands are given and that are not there, each with
// why. They may come yet.
func absentGrants(p sandbox.Policy) (out []string) {
	for _, path := range slices.Concat(p.Read, p.Writable) {
		var why *fs.PathError
		if _, err := os.Stat(path); errors.As(err, &why) {
			out = append(out, fmt.Sprintf("%s (%v)", path, why.Err))
		}
	}
	return out
}

// isAbsent is what is said of absentGrants.
const isAbsent = "commands do not get a path of --sandbox-read or --sandbox-write, which is not there"

// limitsOf reads limits.
func limitsOf(list []string) (l sandbox.Limits, err error) {
	for _, one := range list {
		name, text, _ := strings.Cut(one, "=")
		bytes := func() int64 {
			var n uint64
			if n, err = humanize.ParseBytes(text); err == nil && (n == 0 || n > math.MaxInt64) {
				err = errors.New("out of range")
			}
			return int64(n)
		}
		count := func() (n int) {
			if n, err = strconv.Atoi(text); err == nil && n <= 0 {
				err = errors.New("out of range")
			}
			return n
		}
		switch name {
		case "cpu":
			if l.CPU, err = time.ParseDuration(text); err == nil && l.CPU < time.Second {
				err = errors.New("less than a second")
			}
		case "memory":
			l.Memory = bytes()
		case "file":
			l.File = bytes()
		case "temp":
			l.Temp = bytes()
		case "processes":
			l.Processes = count()
		case "open":
			l.Open = count()
		default:
			err = errors.New("there is no such limit: want cpu, memory, file, temp, processes or open")
		}
		if err != nil {
			return l, fmt.Errorf("sandbox-limit %q: %w", one, err)
		}
	}
	return l, nil
}

// tellBox says in the log, once, what contains commands and what does not.
func (s *settings) tellBox(p sandbox.Policy, log *slog.Logger) {
	words := strings.Join(append([]string{shell.Containment()}, p.Words()...), ",")
	switch {
	case s.box.mode == boxOff:
		log.Warn("commands are not contained: they have this node's rights", "containment", words)
	case !s.box.machine.Holds():
		log.Warn("commands are contained in part: sluice-node doctor says what is missing", "containment", words, "missing", lacking(*s.box.machine))
	default:
		log.Info("commands are contained", "containment", words)
	}
	if s.box.mode == boxOff {
		return
	}
	for _, path := range absentGrants(p) {
		log.Warn(isAbsent, "path", path)
	}
	for _, path := range p.Exposed() {
		log.Warn("commands can read what they should not: without namespaces nothing can be hidden in what they may read", "path", path)
	}
	if s.network {
		log.Warn("with --network commands that are not only reading have the machine's network, private addresses and this node's own doors included")
	}
}
