package shell

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
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
	line := classify(args.Command)
	if err := inside(in.Workspace, line); err != nil {
		return events.Result{}, err
	}
	outer := ctx
	ctx, stop := context.WithTimeoutCause(ctx, wall, errTimeout)
	defer stop()
	grace := c.Kill + 3*c.Sweep + settle
	tools.Tell(outer, tools.Ending{Grace: grace})
	j, err := start(c, in, args.Command, line.Reads)
	if err != nil {
		return events.Result{}, err
	}
	tools.Tell(outer, tools.Ending{Grace: grace, Pids: []int{j.cmd.Process.Pid}})
	forced := j.wait(ctx)
	swept, left := j.family.sweep(c.Sweep)
	ended := j.finish(len(left) == 0)
	end := j.ending(ended, left)
	tools.Tell(outer, end)
	return j.answer(end, swept, forced, wall)
}

// job is one bash and what it started.
type job struct {
	c      Config
	cmd    *exec.Cmd
	family *family
	out    *tools.Capture
	stdout *pipe // standard output and errors
	life   *pipe // held open by all that descends from bash and does not close what it was not told of
}

// pipe is our end of a pipe that a command holds.
type pipe struct {
	file *os.File
	eof  chan struct{} // closed once nothing holds the other end, or it was released
}

// newPipe is a pipe whose other end is for the command.
func newPipe() (ours *pipe, theirs *os.File, err error) {
	r, w, err := os.Pipe()
	return &pipe{file: r, eof: make(chan struct{})}, w, err
}

// read takes what comes until nothing holds the other end, or it is released.
func (p *pipe) read(take func([]byte)) {
	defer close(p.eof)
	buf := make([]byte, 32<<10)
	for {
		n, err := p.file.Read(buf)
		take(buf[:n])
		if err != nil {
			return
		}
	}
}

// release ends read, whatever still holds the other end.
func (p *pipe) release() {
	_ = p.file.SetReadDeadline(time.Unix(1, 0))
	<-p.eof
	_ = p.file.Close()
}

// start starts bash. Its errors are for the model: nothing ran.
func start(c Config, in tools.Invocation, line string, reads bool) (*job, error) {
	bash, err := locate(c.Shell)
	if err != nil {
		return nil, notStarted(err)
	}
	stdout, w, err := newPipe()
	if err != nil {
		return nil, notStarted(err)
	}
	defer w.Close()
	life, held, err := newPipe()
	if err != nil {
		stdout.file.Close()
		return nil, notStarted(err)
	}
	defer held.Close()
	marker := fmt.Sprintf("%s/%d/%s", in.Call, in.Attempt, rand.Text())
	cmd := exec.Command(bash, "--noprofile", "--norc", "-c", line)
	cmd.Dir = in.Workspace
	cmd.Env = environment(c, in, marker, reads)
	cmd.Stdout, cmd.Stderr = w, w // one pipe: the order is the commands' own
	detach(cmd, held)
	if err := cmd.Start(); err != nil {
		stdout.file.Close()
		life.file.Close()
		return nil, notStarted(err)
	}
	j := &job{
		c: c, cmd: cmd, stdout: stdout, life: life,
		out:    tools.NewCapture(c.Output, tools.KeepBoth),
		family: newFamily(cmd, marker, stdout, life),
	}
	go stdout.read(j.take(in.Progress)) // joined by finish
	go life.read(func([]byte) {})       // joined by finish
	return j, nil
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

// notStarted is the failure of a command of which nothing ran.
func notStarted(err error) error {
	e := &tools.Error{
		Code: events.ExecutionError, Class: events.ClassUnavailable, Effects: events.EffectsNone,
		Message: "bash could not be started: " + err.Error(),
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		e.Code, e.Class = events.NotFound, events.ClassTool
		e.Message = "bash could not be started, because it or the workspace does not exist: " + err.Error()
	}
	return e
}

// take is what happens to output: it is collected, and once a second somebody
// hears of it.
func (j *job) take(progress func(events.Progress)) func([]byte) {
	told := time.Now()
	return func(b []byte) {
		_, _ = j.out.Write(b) // a Capture takes everything
		now := time.Now()
		if len(b) == 0 || progress == nil || now.Sub(told) < time.Second {
			return
		}
		told = now
		size, _ := j.out.Total()
		progress(events.Progress{Text: fmt.Sprintf("%d bytes so far: %s", size, lastLine(b)), Done: float64(size)})
	}
}

// lastLine is the last line of b that holds anything, or a part of it.
func lastLine(b []byte) string {
	s := strings.TrimSpace(string(b[max(len(b)-200, 0):]))
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// wait returns once bash has ended, or has been told to by the end of ctx. In
// the second case it says why.
func (j *job) wait(ctx context.Context) error {
	select {
	case <-j.family.exited:
		within(j.c.Linger, j.stdout.eof)
		return nil
	case <-ctx.Done():
	}
	j.family.terminate(j.c.Kill)
	return context.Cause(ctx)
}

// finish releases the pipes and bash's entry in the table of processes, and says
// whether bash has ended.
func (j *job) finish(confirmed bool) bool {
	patience := time.Duration(0)
	if confirmed { // then nothing holds the pipes and bash is dead: to hear of it takes a moment, or more on a slow machine
		patience = j.c.Sweep
	}
	within(patience, j.stdout.eof)
	j.stdout.release()
	j.life.release()
	return j.family.release(patience)
}

// within waits for done, but no longer than d.
func within(d time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// ending is what the runtime should know.
func (j *job) ending(ended bool, left []int) tools.Ending {
	size, _ := j.out.Total()
	e := tools.Ending{Output: size, Pids: left}
	if !ended {
		return e
	}
	if e.Signal = signalName(j.cmd.ProcessState); e.Signal == "" {
		code := j.cmd.ProcessState.ExitCode()
		e.Exit = &code
	}
	return e
}

// answer is the result, or the failure with the output beside it.
func (j *job) answer(e tools.Ending, swept int, forced error, wall time.Duration) (events.Result, error) {
	size, lines := j.out.Total()
	r := events.Result{
		Status: events.Success,
		Text:   events.Body{Text: j.out.Text()},
		Stats:  events.Stats{Bytes: size, Lines: lines},
	}
	if swept > 0 {
		r.Stats.More = map[string]int64{"swept": int64(swept)}
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
	case e.Exit == nil:
		fail.Class, fail.Effects = events.ClassUnavailable, events.EffectsPossible
		fail.Message = "how the command ended is not known"
	case *e.Exit != 0:
		fail.Message = fmt.Sprintf("exit status %d%s", *e.Exit, meaning[*e.Exit])
	default:
		return r, nil
	}
	return r, fail
}

// meaning is what bash means by some exit statuses.
var meaning = map[int]string{
	126: ": found, but not executable",
	127: ": command not found",
	137: ": killed by SIGKILL, perhaps for want of memory",
}
