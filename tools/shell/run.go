package shell

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/sandbox"
	"github.com/sluice-run/sluice/tools/shell/family"
)

// errTimeout is the cause of a context that ended because of timeout_ms.
var errTimeout = errors.New("the command's own time limit has passed")

// settle is how long a pipe may take to close once nothing holds it any more.
const settle = 100 * time.Millisecond

// run does one command line: start, wait or end, sweep, collect.
func run(ctx context.Context, in tools.Invocation, args Args, c Config) (events.Result, error) {
	wall, err := check(args)
	if err != nil {
		return events.Result{}, err
	}
	line := classifyIn(in.Workspace, args.Command)
	if err := inside(in.Workspace, line, in.May); err != nil {
		return events.Result{}, err
	}
	outer := ctx
	ctx, stop := context.WithTimeoutCause(ctx, wall, errTimeout)
	defer stop()
	grace := c.Kill + 3*c.Sweep + settle
	tools.Tell(outer, tools.Ending{Grace: grace})
	j, err := start(ctx, c, in, args.Command, line.Reads, wall+grace)
	if err != nil {
		return events.Result{}, err
	}
	tools.Tell(outer, tools.Ending{Grace: grace, Pids: []int{j.family.First()}})
	forced := j.wait(ctx)
	swept, left := j.family.Sweep(c.Sweep)
	j.finish(len(left) == 0)
	end := j.ending(left)
	tools.Tell(outer, end)
	j.commands = line.Commands
	return j.answer(end, swept, forced, wall)
}

// job is one bash and what it started.
type job struct {
	c      Config
	family *family.Family
	out    *tools.Capture
	stdout *family.Pipe // standard output and errors
	home   string       // made for it; "" where its sandbox has made one, or it has none

	commands []string // of the line, as far as it is understood
}

// start starts bash. Its errors are for the model: nothing ran.
func start(ctx context.Context, c Config, in tools.Invocation, line string, reads bool, limit time.Duration) (*job, error) {
	bash, err := locate(c.Shell)
	if err == nil {
		err = checkPlace(in.Workspace)
	}
	if err != nil {
		return nil, notStarted(err)
	}
	home, err := c.home(reads)
	if err != nil {
		return nil, notStarted(err)
	}
	stdout, w, err := family.NewPipe()
	if err != nil {
		leave(home)
		return nil, notStarted(err)
	}
	defer w.Close()
	marker := fmt.Sprintf("%s/%d/%s", in.Call, in.Attempt, rand.Text())
	env := environment(c, in, home, marker, reads)
	f, err := family.Start(ctx, family.Launch{
		Path: bash, Args: []string{bash, "--noprofile", "--norc", "-c", line}, Dir: in.Workspace,
		Env: env, Mark: Marker + "=" + marker, Limit: limit, Grace: c.Kill, Contain: c.contain(in, bash, reads),
	}, w, stdout)
	if err != nil {
		leave(home)
		stdout.Close()
		return nil, notStarted(err)
	}
	j := &job{c: c, family: f, stdout: stdout, home: home, out: tools.NewCapture(c.Output, tools.KeepBoth)}
	go stdout.Read(j.take(in.Progress)) // joined by finish
	return j, nil
}

// contain is what one command may do: a reading one has the workspace to read, and no
// network.
func (c Config) contain(in tools.Invocation, bash string, reads bool) sandbox.Policy {
	p := c.Sandbox
	p.Workspace, p.Write, p.Network = in.Workspace, !reads, in.Network && !reads
	p.Path = c.path() + string(os.PathListSeparator) + filepath.Dir(bash)
	return p
}

// locate is the path of bash.
func locate(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	if _, err := os.Stat("/bin/bash"); err == nil {
		return "/bin/bash", nil
	}
	return exec.LookPath("bash")
}

// notStarted is the failure of a command of which nothing ran. What whoever asked can
// mend is no evidence against the tool, and is not tried again.
func notStarted(err error) error {
	e := &tools.Error{
		Code: events.ExecutionError, Class: events.ClassUnavailable, Effects: events.EffectsNone,
		Message: "bash could not be started: " + err.Error(),
	}
	switch {
	case errors.Is(err, sandbox.ErrWorkspace):
		e.Code, e.Class, e.Message = events.InvalidParam, events.ClassInvalid, err.Error()
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound):
		e.Code, e.Class = events.NotFound, events.ClassTool
		e.Message = "bash could not be started, because it or the workspace does not exist: " + err.Error()
	}
	return e
}

// checkPlace says what is wrong with a workspace, whatever contains the command: there is
// nobody else to mend it than who named it.
func checkPlace(workspace string) error {
	info, err := os.Stat(workspace)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%w: it is no directory; name one", sandbox.ErrWorkspace)
	}
	if err == nil {
		_, err = os.Stat(workspace + "/.") // which one that may not be entered does not let
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: the node's user may not go there", sandbox.ErrWorkspace)
	}
	return err // it does not exist, or nobody can tell
}

// take is what happens to output: it is collected, and once a second somebody hears
// of its last whole line. Parts of lines are nobody's: what makes a secret of them may
// come with the rest.
func (j *job) take(progress func(events.Progress)) func([]byte) {
	told, line := time.Now(), lastLine{}
	return func(b []byte) {
		_, _ = j.out.Write(b) // a Capture takes everything
		line.write(b)
		now := time.Now()
		if len(b) == 0 || progress == nil || now.Sub(told) < time.Second {
			return
		}
		told = now
		size, _ := j.out.Total()
		progress(events.Progress{Text: strings.TrimSuffix(fmt.Sprintf("%d bytes so far: %s", size, line.whole), ": "), Done: float64(size)})
	}
}

// maxLine is the length in bytes of the longest line that is told as progress.
const maxLine = 200

// lastLine keeps the last line that has ended, that holds anything, and that is not too
// long to be told as it is.
type lastLine struct {
	whole string
	part  []byte // of the line that has not ended: at most maxLine and one
}

func (l *lastLine) write(b []byte) {
	for len(b) > 0 {
		piece, rest, ended := bytes.Cut(b, []byte{'\n'})
		l.part = append(l.part, piece[:min(len(piece), maxLine+1-len(l.part))]...)
		if b = rest; !ended {
			return
		}
		if text := strings.TrimSpace(string(l.part)); text != "" && len(l.part) <= maxLine {
			l.whole = text
		}
		l.part = l.part[:0]
	}
}

// wait returns once bash has ended, or has been told to by the end of ctx. In
// the second case it says why. What bash has left is asked to end in either case.
func (j *job) wait(ctx context.Context) (forced error) {
	select {
	case <-j.family.Exited():
		if j.family.Linger(j.c.Linger) {
			return nil
		}
	case <-ctx.Done():
		forced = context.Cause(ctx)
	}
	j.family.Terminate(j.c.Kill)
	return forced
}

// finish releases the pipe, and what watched over bash.
func (j *job) finish(confirmed bool) {
	patience := time.Duration(0)
	if confirmed { // then nothing holds the pipe and bash is dead: to hear of it takes a moment, or more on a slow machine
		patience = j.c.Sweep
	}
	family.Within(patience, j.stdout.EOF())
	j.stdout.Release()
	j.family.Release(patience)
	leave(j.home)
}

// home makes an empty folder for one command, which the caller must leave; "" where the
// command needs none, or its sandbox makes one.
func (c Config) home(reads bool) (string, error) {
	if c.Sandbox.Use.Own() || c.Home != "" || reads {
		return "", nil
	}
	return os.MkdirTemp("", "sluice-home-")
}

// leave removes a folder that was made for a command, as far as it can: what a program
// has left in it that it may not remove is the machine's to clean.
func leave(made string) {
	if made != "" {
		_ = os.RemoveAll(made)
	}
}

// ending is what the runtime should know.
func (j *job) ending(left []int) tools.Ending {
	size, _ := j.out.Total()
	e := tools.Ending{Output: size, Pids: left}
	e.Exit, e.Signal = j.family.Ending()
	return e
}

// answer is the result, or the failure with the output beside it.
func (j *job) answer(e tools.Ending, s family.Swept, forced error, wall time.Duration) (events.Result, error) {
	size, lines := j.out.Total()
	r := events.Result{
		Status: events.Success,
		Text:   events.Body{Text: j.out.Text()},
		Stats:  events.Stats{Bytes: size, Lines: lines},
	}
	if s.N > 0 {
		r.Stats.More = map[string]int64{"swept": int64(s.N)}
	}
	if forced == nil {
		r.Text.Text = noted(r.Text.Text, s, e.Pids)
	}
	fail := &tools.Error{Code: events.ExecutionError, Class: events.ClassTool, Effects: events.EffectsDone, Result: &r}
	switch {
	case errors.Is(forced, errTimeout):
		fail.Code, fail.Class, fail.Effects = events.Timeout, events.ClassTimeout, events.EffectsPossible
		fail.Message = fmt.Sprintf("the command was ended after %s, its time limit", wall)
	case forced != nil:
		fail.Code, fail.Class, fail.Effects = events.CodeCancelled, events.ClassCancelled, events.EffectsPossible
		fail.Message = "the command was ended before it had finished"
	case e.Signal != "":
		fail.Message = "ended by signal " + e.Signal
		if e.Signal == "SIGKILL" {
			fail.Message += j.c.killers()
		}
	case e.Exit == nil:
		fail.Class, fail.Effects = events.ClassUnavailable, events.EffectsPossible
		fail.Message = "how the command ended is not known"
		if j.family.Lost() {
			fail.Message += ": what watched over its processes was killed"
		}
	case *e.Exit != 0:
		fail.Message = fmt.Sprintf("exit status %d%s", *e.Exit, j.means(*e.Exit))
	default:
		return r, nil
	}
	return r, fail
}

// noted is output with a line about what bash had left running when it ended: who
// started something to use it later has to know.
func noted(text string, s family.Swept, left []int) string {
	if s.N == 0 && len(left) == 0 {
		return text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if len(left) > 0 {
		return text + fmt.Sprintf("[something that the command left running could not be ended, or nobody can tell: pids %v]\n", left)
	}
	names := slices.Clone(s.Names)
	for i := range names {
		names[i] = tools.Visible(names[i])
	}
	if more := s.N - len(names); more > 0 && len(names) > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return text + strings.TrimSuffix(fmt.Sprintf("[ended, because the command left it running: %s", strings.Join(names, ", ")), ": ") + "]\n"
}

// means is what an exit status means, behind a colon, where that is known.
func (j *job) means(status int) string {
	for _, c := range slices.Backward(j.commands) {
		name, rest, _ := strings.Cut(c, " ")
		if verb, _, _ := strings.Cut(rest, " "); name == "git" {
			name += " " + verb
		}
		if says := answers[name]; says != "" && status == 1 {
			return ": " + name + " ends so where " + says
		}
	}
	if status == killed {
		return ": killed by SIGKILL" + j.c.killers()
	}
	return meaning[status]
}

// killed is bash's exit status for a command that SIGKILL has ended.
const killed = 137

// killers are what may have sent a SIGKILL: nobody tells.
func (c Config) killers() string {
	if c.Sandbox.Use.Limits {
		return ": at its limit of processor time, for want of memory, or by another process"
	}
	return ": for want of memory, or by another process"
}

// answers are commands that say no with the status 1: that is an answer, and no fault.
var answers = map[string]string{
	"grep": "nothing matches", "egrep": "nothing matches", "fgrep": "nothing matches", "rg": "nothing matches",
	"git grep": "nothing matches", "git check-ignore": "nothing is ignored", "diff": "there are differences", "cmp": "there are differences",
	"test": "the condition does not hold", "'['": "the condition does not hold",
}

// meaning is what bash means by some exit statuses.
var meaning = map[int]string{
	126: ": found, but not executable",
	127: ": command not found",
}
