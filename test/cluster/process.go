package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/sluice-run/sluice/test/proc"
)

// process is a program that can be started, ended in every way, and started again.
type process struct {
	name string
	log  string // path of the file that its standard error goes to, one incarnation behind the other

	starting sync.Mutex // one start at a time; whoever ends the process need not wait for it
	mu       sync.Mutex
	run      *incarnation // the last one; nil BEFORE the first
}

// incarnation is one start of a program.
type incarnation struct {
	cmd   *exec.Cmd
	in    *os.File      // its end ends a server whose parent has gone
	ended chan struct{} // closed when it has ended
	code  int           // exit code; -1 where a signal ended it. Set BEFORE ended is closed
}

// errEnded is the error of a process that ended before it was ready.
var errEnded = errors.New("it ended")

// start starts the program and returns the first line of its output, which says
// that it is ready. It ends where that line does not come before ctx is done.
func (p *process) start(ctx context.Context, path string, args, env []string) ([]byte, error) {
	p.starting.Lock()
	defer p.starting.Unlock()
	if p.Running() {
		return nil, fmt.Errorf("%s runs already", p.name)
	}
	run, out, err := p.begin(path, args, env)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	first := make(chan []byte, 1)
	go func() {
		defer out.Close()
		in := bufio.NewReader(out)
		line, err := in.ReadBytes('\n')
		if err == nil {
			first <- line
		}
		close(first)
		_, _ = io.Copy(io.Discard, in) // until the process ends: it must not wait for a reader
	}()
	select {
	case line, ok := <-first:
		if ok {
			return line, nil
		}
		<-run.ended // its output is closed: it ends
		return nil, fmt.Errorf("start %s: %w with status %d before it was ready\n%s", p.name, errEnded, run.code, tail(p.logged(), 4000))
	case <-ctx.Done():
		run.kill()
		return nil, fmt.Errorf("start %s: %w before it was ready\n%s", p.name, ctx.Err(), tail(p.logged(), 4000))
	}
}

// begin starts the program with its pipes.
func (p *process) begin(path string, args, env []string) (run *incarnation, out *os.File, err error) {
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	theirs, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	out, w, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	defer w.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, w, log
	cmd.Env = proc.Env(env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is not for it: it is told to end in its turn
	started, err := proc.Start(cmd)
	if err != nil {
		return nil, nil, errors.Join(err, in.Close(), out.Close())
	}
	run = &incarnation{cmd: cmd, in: in, ended: make(chan struct{})}
	p.mu.Lock()
	p.run = run
	p.mu.Unlock()
	go func() {
		_ = started.Wait() // how it ended is in its state
		_ = in.Close()
		run.code = cmd.ProcessState.ExitCode()
		close(run.ended)
	}()
	return run, out, nil
}

func (r *incarnation) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// kill ends the process as a crash would, also one that is stopped, and waits
// until it is gone.
func (r *incarnation) kill() {
	_ = r.cmd.Process.Kill() // one that has ended needs none
	<-r.ended
}

// current is the last incarnation, nil if there was none.
func (p *process) current() *incarnation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// Name is the process's, for people and in the names of its files.
func (p *process) Name() string { return p.name }

// Running says whether the process runs, or is paused.
func (p *process) Running() bool {
	r := p.current()
	return r != nil && !r.over()
}

// PID is the process's id, 0 if it was never started.
func (p *process) PID() int {
	if r := p.current(); r != nil {
		return r.cmd.Process.Pid
	}
	return 0
}

// Kill ends the process by SIGKILL, and returns when it is gone. One that does not
// run is no error.
func (p *process) Kill() {
	if r := p.current(); r != nil {
		r.kill()
	}
}

// Pause stops the process by SIGSTOP where it stands; Resume lets it go on.
func (p *process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on, by SIGCONT.
func (p *process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *process) signal(s syscall.Signal) error {
	r := p.current()
	if r == nil {
		return fmt.Errorf("%s: it was never started", p.name)
	}
	if err := r.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// end asks the process to end, and returns its exit code. It is killed where it
// has not ended when ctx is done, which is an error.
func (p *process) end(ctx context.Context) (int, error) {
	r := p.current()
	if r == nil || r.over() {
		return 0, nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	select {
	case <-r.ended:
		return r.code, nil
	case <-ctx.Done():
		r.kill()
		return -1, fmt.Errorf("%s did not end by itself: %w", p.name, ctx.Err())
	}
}

// Ended is closed when the incarnation that runs now has ended; it is closed
// already where none does.
func (p *process) Ended() <-chan struct{} {
	if r := p.current(); r != nil {
		return r.ended
	}
	none := make(chan struct{})
	close(none)
	return none
}

// ExitCode is that of the last incarnation, -1 where a signal ended it. It waits for the end.
func (p *process) ExitCode() int {
	r := p.current()
	if r == nil {
		return 0
	}
	<-r.ended
	return r.code
}

// LogFile is the path of the process's log, in which its incarnations follow each other.
func (p *process) LogFile() string { return p.log }

// Log is what the process has logged so far, in all its incarnations; "" if it cannot be read.
func (p *process) Log() string { return p.logged() }

func (p *process) logged() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	return string(b)
}

// tail is the end of a text.
func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
