package family

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/tools/sandbox"
)

// Containment is what a family is known by: its process tree, its process group, or
// its first process alone. It is no sandbox.
const Containment = "process-tree"

// Family is the command and everything that descends from it, whatever session, group
// or parent it has by now: its keeper knows.
type Family struct {
	keeper  process
	control *os.File
	orders  *json.Encoder
	root    int // the command's own pid; 0 where the keeper ended before it could tell
	marker  string
	since   uint64 // when the command was started, in the ticks of the table of processes
	sealed  bool   // it has a pid namespace of which the keeper is the first process: none outlives the keeper

	starting chan struct{} // the command may run
	started  chan word
	exited   chan struct{} // the command has ended, or nobody can tell any more
	empty    chan struct{} // nothing is left: the keeper has proven it
	gone     chan struct{} // the keeper has ended
	looked   chan []int

	mu     sync.Mutex
	status *syscall.WaitStatus // of the command
	last   word                // the one that said that nothing is left
}

// Start starts a keeper, and through it a command whose output goes to
// stdout. Its errors mean that nothing ran.
func Start(ctx context.Context, l Launch, stdout *os.File, _ *Pipe) (*Family, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	keeper, err := startKeeper(l, stdout, theirs)
	theirs.Close() // or the keeper's end would not be heard
	if err != nil {
		ours.Close()
		return nil, err
	}
	f := &Family{
		keeper: keeper, control: ours, orders: json.NewEncoder(ours), marker: l.Mark, sealed: l.Contain.Use.Namespaces,
		starting: make(chan struct{}), started: make(chan word, 1), exited: make(chan struct{}), empty: make(chan struct{}), gone: make(chan struct{}), looked: make(chan []int, 1),
	}
	go f.listen() // ends with the keeper
	if err := f.begin(ctx, l); err != nil {
		return nil, err
	}
	return f, nil
}

// startTime is how long a keeper may take to take its task: only one that was
// stopped takes that long.
const startTime = 30 * time.Second

// begin gives the keeper its task, and waits until the command runs. The end of ctx does
// not end that wait, since the command may run already and be heard of in a moment; but it
// wakes a keeper that the command has stopped before it could tell.
func (f *Family) begin(ctx context.Context, l Launch) error {
	_ = f.control.SetWriteDeadline(time.Now().Add(startTime))
	if err := f.orders.Encode(errand{Path: l.Path, Args: l.Args, Env: l.Env, Dir: l.Dir, Limit: l.Limit, Grace: l.Grace, Contain: l.Contain}); err != nil {
		_ = f.control.Close()
		_ = f.keeper.signal(unix.SIGKILL) // it has started nothing
		<-f.gone
		return fmt.Errorf("its keeper takes no task: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = f.keeper.signal(unix.SIGCONT) })()
	var w word
	select {
	case w = <-f.started:
	case <-f.gone:
		select {
		case w = <-f.started: // its last word
		default:
		}
	}
	switch {
	case w.Place:
		<-f.gone
		return unfit(w.Fault)
	case w.Fault != "":
		<-f.gone
		return fmt.Errorf("it cannot be contained: %s: %w", w.Fault, syscall.Errno(w.Errno))
	case w.Errno != 0:
		<-f.gone
		return &os.PathError{Op: "start", Path: l.Path, Err: syscall.Errno(w.Errno)}
	case w.Pid != 0:
		if f.sealed {
			return nil // the number means nothing outside
		}
		f.root = w.Pid
		if p, ok := readStat(w.Pid); ok {
			f.since = p.start
		}
		return nil
	case Within(0, f.starting):
		return nil // somebody has ended the keeper, and the command may run: see lost
	}
	return errors.New("its keeper ended first")
}

// unfit is sandbox.ErrWorkspace as a keeper told of it.
type unfit string

func (u unfit) Error() string        { return string(u) }
func (u unfit) Is(target error) bool { return target == sandbox.ErrWorkspace }

// socketPair is a socket of which theirs is for a child to inherit.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil { // so that closing it ends a read of it
		_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "keeper"), os.NewFile(uintptr(fds[1]), "node"), nil
}

// listen hears the keeper until it ends.
func (f *Family) listen() {
	defer close(f.gone)
	in, over := json.NewDecoder(f.control), false
	for {
		var w word
		if err := in.Decode(&w); err != nil {
			break
		}
		switch {
		case w.Starting:
			close(f.starting)
		case w.Pid != 0 || w.Errno != 0:
			f.started <- w
		case w.Status != nil:
			f.mu.Lock()
			f.status = new(syscall.WaitStatus(*w.Status))
			f.mu.Unlock()
			over = true
			close(f.exited)
		case w.Look:
			select {
			case f.looked <- w.Left:
			default: // nobody waits for it any more
			}
		case w.Empty:
			f.last = w
			close(f.empty)
		}
	}
	f.keeper.wait()
	if !over {
		close(f.exited)
	}
}

// order tells the keeper what to do. One that was stopped is woken; one that has
// gone hears nothing.
func (f *Family) order(o order) {
	_ = f.keeper.signal(unix.SIGCONT)
	_ = f.control.SetWriteDeadline(time.Now().Add(time.Second))
	_ = f.orders.Encode(o)
}

// quiet waits until nothing is left, and says whether that is so.
func (f *Family) quiet(patience time.Duration) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-f.empty:
	case <-f.gone:
	case <-late.C:
	}
	return Within(0, f.empty)
}

// Terminate asks everything to end, and waits until it has or the time is up.
func (f *Family) Terminate(patience time.Duration) {
	f.order(orderTerm)
	f.quiet(patience)
}

// Sweep kills what is left until nothing is, or the time is up. It returns what
// had to be ended beside the command, and the pids of what may still run.
func (f *Family) Sweep(patience time.Duration) (s Swept, left []int) {
	if !Within(0, f.empty) {
		f.order(orderKill)
		f.quiet(patience)
	}
	if f.sealed && !Within(0, f.empty) {
		return s, f.unseal(patience)
	}
	switch {
	case Within(0, f.empty):
		for _, e := range f.last.Ended {
			s.Names = append(s.Names, e.Name)
		}
		s.N = len(s.Names) + f.last.More
		return s, nil
	case Within(0, f.gone):
		return s, f.hunt(patience)
	}
	f.order(orderLook)
	late := time.NewTimer(settle)
	defer late.Stop()
	select {
	case left = <-f.looked:
	case <-late.C:
	}
	if len(left) == 0 {
		left = []int{f.First()} // its number is all that is known
	}
	return s, left
}

// unseal ends a keeper that has not ended its family. The kernel ends all that is in its
// namespace with it, and takes it for dead only when they are.
func (f *Family) unseal(patience time.Duration) (left []int) {
	_ = f.keeper.signal(unix.SIGKILL)
	if !Within(patience, f.gone) {
		left = []int{f.First()}
	}
	return left
}

// Exited is closed once the command itself has ended, or nobody can tell any more.
func (f *Family) Exited() <-chan struct{} { return f.exited }

// Linger waits until nothing is left, for what ends by itself in that time.
func (f *Family) Linger(patience time.Duration) bool { return f.quiet(patience) }

// First is the command's pid or, where that was never told or has no meaning outside
// its namespace, its keeper's, without which it does not live.
func (f *Family) First() int { return cmp.Or(f.root, f.keeper.pid()) }

// Lost says that the keeper was ended by somebody else, so that nobody can prove
// anything any more.
func (f *Family) Lost() bool { return Within(0, f.gone) && !Within(0, f.empty) }

// Release lets the keeper go, and waits for it where that takes but a moment. One
// that still has a family stays until it could end that; one that takes its namespaces
// with it, of which nothing runs any more, is left to the kernel, which has its own time for that.
func (f *Family) Release(time.Duration) {
	if Within(0, f.empty) && !f.sealed {
		<-f.gone // that was its last word
	}
	_ = f.keeper.signal(unix.SIGCONT) // should its command have stopped it: there is something to hear
	_ = f.control.Close()
}

// Ending is how the command ended: its exit status or the signal that ended it. Neither
// is there where that is not known.
func (f *Family) Ending() (exit *int, signal string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.status == nil:
		return nil, ""
	case f.status.Signaled():
		return nil, unix.SignalName(f.status.Signal())
	}
	return new(f.status.ExitStatus()), ""
}
