package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/sandbox"
	"github.com/sluice-run/sluice/tools/shell/family"
)

// marker is the environment variable that names a server to everything it starts.
const marker = "SLUICE_MCP_SERVER"

// defaultPath is for a node that was started without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// sweepWait is how long what a server has left may take to end.
const sweepWait = 2 * time.Second

// process is a server that runs, with everything that it has started.
type process struct {
	family *family.Family
	in     *os.File // its standard input
	out    *os.File // its standard output
	errs   *os.File // its standard errors
	said   *tools.Capture
	called atomic.Bool // it has been sent a call: what it says may be of anybody's secrets
	hint   string      // see contained
	wg     sync.WaitGroup
}

// startProcess starts a server in the sandbox, with nothing of this process's environment
// but PATH and what its entry says.
func startProcess(ctx context.Context, s Server, c Config) (*process, error) {
	dir := cmp.Or(s.Dir, c.Workspace)
	path := cmp.Or(c.Path, os.Getenv("PATH"), defaultPath)
	if v, own := s.Env["PATH"]; own {
		path = v
	}
	command, err := locate(s.Command, path, dir)
	if err != nil {
		return nil, err
	}
	ends, closeAll, err := pipes()
	if err != nil {
		return nil, err
	}
	box := containment(s, c, dir, path, command)
	hint := contained(box, append([]string{command}, s.Args...))
	mark := rand.Text()
	f, err := family.Start(ctx, family.Launch{
		Path: command, Args: append([]string{command}, s.Args...), Dir: dir, Env: environment(s, path, mark), Mark: marker + "=" + mark,
		Grace: c.Times.Close, Stdin: ends[0], Stderr: ends[5], Contain: box,
	}, ends[3], nil)
	if err != nil {
		closeAll()
		err = fmt.Errorf("it could not be started: %w", err)
		if errors.Is(err, fs.ErrNotExist) { // what is there, and not shown to it
			err = &ended{why: err, hint: hint}
		}
		return nil, err
	}
	for _, theirs := range []int{0, 3, 5} {
		_ = ends[theirs].Close()
	}
	p := &process{family: f, in: ends[1], out: ends[2], errs: ends[4], said: tools.NewCapture(maxSaid, tools.KeepTail), hint: hint}
	p.wg.Go(func() { p.listen(ctx, c.Log.With("server", s.Name)) })
	return p, nil
}

// pipes are standard input (theirs, ours), output (ours, theirs) and errors (ours, theirs).
func pipes() (ends [6]*os.File, closeAll func(), err error) {
	closeAll = func() {
		for _, f := range ends {
			if f != nil {
				_ = f.Close()
			}
		}
	}
	for i := 0; i < len(ends); i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			closeAll()
			return ends, func() {}, err
		}
	}
	return ends, closeAll, nil
}

// locate finds the program of a command, as a shell in dir would.
func locate(command, path, dir string) (string, error) {
	if strings.ContainsRune(command, filepath.Separator) {
		if !filepath.IsAbs(command) {
			command = filepath.Join(dir, command)
		}
		return exec.LookPath(command)
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue // what a workspace holds is not started by a plain name
		}
		if at, err := exec.LookPath(filepath.Join(d, command)); err == nil {
			return at, nil
		}
	}
	return "", fmt.Errorf("there is no program %s in PATH: install it, or write its path", shown(command))
}

// environment is all that a server sees of this process.
func environment(s Server, path, mark string) []string {
	vars := map[string]string{"PATH": path, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
	if home, err := os.UserHomeDir(); err == nil && s.Open {
		vars["HOME"] = home // it is the operator's in any case
	}
	maps.Copy(vars, s.Env)
	vars[marker] = mark
	var env []string
	for name, v := range vars {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env
}

// containment is what a server may do: read its directory, its program's and what its
// entry names, write what its entry says, and use the network if that says so.
func containment(s Server, c Config, dir, path, command string) sandbox.Policy {
	if s.Open || !c.Sandbox.Use.Any() {
		return sandbox.Policy{}
	}
	p := c.Sandbox
	p.Workspace, p.Write, p.Network, p.Path = dir, false, s.Network, path
	p.Read = slices.Concat(s.Read, homes(command, c.Sandbox.Hide))
	p.Writable = slices.Clone(s.Write)
	return p
}

// contained is what to do, for people, where a server that this contains does not come up:
// what it is not shown reads there as if it were not, and a network that it has not as a
// silence. argv are its program and arguments. "" where nothing contains it.
func contained(p sandbox.Policy, argv []string) string {
	if !p.Use.Any() {
		return ""
	}
	var unseen []string
	for _, arg := range argv {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = value // --root=/srv
		}
		if arg != "" && !filepath.IsAbs(arg) {
			arg = filepath.Join(p.Workspace, arg)
		}
		if _, err := os.Stat(arg); err == nil && !p.Shows(arg) && !slices.Contains(unseen, arg) {
			unseen = append(unseen, arg)
		}
	}
	hint := "it runs in the sandbox, which shows it its directory, the system's programs and what its entry names"
	if len(unseen) > 0 {
		hint += ", so not " + clip(strings.Join(unseen, ", "), 300)
	}
	hint += ": name what it needs in sandbox.read of its entry"
	if !p.Network {
		hint += "; it has no network, unless its entry says \"network\": true"
	}
	return hint
}

// homes are the directories of a program, by its name and behind its links, which may be
// read so that it can be started: neither those that hold what is hidden, nor a home.
func homes(command string, hidden []string) []string {
	var out []string
	real, err := filepath.EvalSymlinks(command)
	if err != nil {
		real = command
	}
	dirs := []string{filepath.Dir(command), filepath.Dir(real)}
	if i := strings.LastIndex(real, "/node_modules/"); i >= 0 {
		dirs = append(dirs, real[:i]+"/node_modules") // what a package needs lies beside it
	}
	for _, dir := range dirs {
		holds := slices.ContainsFunc(hidden, func(h string) bool { return sandbox.Within(h, dir) })
		if dir != "/" && dir != "/root" && filepath.Dir(dir) != "/home" && !holds && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// Bounds of what is logged of a server's standard errors.
const (
	maxLogLine = 2 << 10
	logBurst   = 50               // lines
	logEvery   = 10 * time.Second // and then so many again
)

// listen logs what the server writes to its standard errors, in bounds, until nothing
// holds that pipe any more: at debug once it has been called. Servers write down what they
// are asked, and which of it is a secret only its caller has said.
func (p *process) listen(ctx context.Context, log *slog.Logger) {
	buf := make([]byte, 8<<10)
	var line []byte
	said, since, dropped := 0, time.Now(), 0
	tell := func() {
		text := strings.TrimSpace(string(line))
		line = line[:0]
		if time.Since(since) > logEvery {
			if dropped > 0 {
				log.Info("an MCP server wrote more to its standard errors than is logged", "lines", dropped)
			}
			said, since, dropped = 0, time.Now(), 0
		}
		switch {
		case text == "":
		case said < logBurst:
			said++
			log.Log(ctx, p.level(), "an MCP server says", "line", shownLine(text))
		default:
			dropped++
		}
	}
	for {
		n, err := p.errs.Read(buf)
		_, _ = p.said.Write(buf[:n]) // a Capture takes everything
		for rest := buf[:n]; len(rest) > 0; {
			part, more, ended := bytes.Cut(rest, []byte{'\n'})
			line = append(line, part[:min(len(part), maxLogLine-len(line))]...)
			if rest = more; ended {
				tell()
			}
		}
		if err != nil {
			tell()
			return
		}
	}
}

// level is that of what the server says now.
func (p *process) level() slog.Level {
	if p.called.Load() {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// last is the end of what the server wrote to its standard errors, for its operator; ""
// once it has been called: see listen.
func (p *process) last() string {
	if p.called.Load() {
		return ""
	}
	text := strings.TrimSpace(p.said.Text())
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return shown(text)
}

// end has the server end: its input is closed, after a while it is asked, and after another
// one killed. It returns once nothing of it runs, or nobody can tell.
func (p *process) end(closing, patience time.Duration) {
	_ = p.in.Close()
	if !family.Within(closing, p.family.Exited()) || !p.family.Linger(0) {
		p.family.Terminate(patience)
	}
	p.family.Sweep(sweepWait)
	_ = p.out.Close()
	_ = p.errs.SetReadDeadline(time.Now().Add(sweepWait))
	p.wg.Wait()
	_ = p.errs.Close()
	p.family.Release(sweepWait)
}

// ending is how the server ended, for people. It is called once it has.
func (p *process) ending() error {
	exit, signal := p.family.Ending()
	switch {
	case signal != "":
		return fmt.Errorf("its process was ended by %s", signal)
	case exit != nil:
		return fmt.Errorf("its process ended with status %d", *exit)
	}
	return errors.New("its process ended")
}
