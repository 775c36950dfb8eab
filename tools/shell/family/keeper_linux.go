package family

import (
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/tools/sandbox"
)

// init makes a keeper of the process that was started as one. It is an init and
// not a verb, because every binary that holds this package starts keepers of
// itself, those of tests included, and none of them may begin its own work then.
func init() {
	if len(os.Args) > 0 && os.Args[0] == keeperName {
		os.Exit(keep())
	}
}

// keeper is the process between the node and one command. It is what the kernel
// makes the parent of everything below it whose own parent has ended, whatever
// session, group, environment and descriptors that has by now, and so it can
// prove that nothing is left: it has no children. It is the work of one thread,
// but for the reading of orders.
type keeper struct {
	self, root int
	sealed     bool // it is the first process of a pid namespace
	out        *json.Encoder
	phase      phase
	over       bool // the command has ended, and was told of
	scan       scan
	look       <-chan time.Time // when the table is read next; nil while calm
	asked      bool             // the command's group was sent SIGTERM
	met        map[ident]bool   // had to be ended: SIGTERM was sent to it
	told       word             // the last one
}

// phase is what a keeper does to its family.
type phase int

const (
	calm    phase = iota // it buries the dead
	asking               // SIGTERM to whoever has had none
	killing              // SIGKILL to all, again and again
)

// beats are how often the table of processes is read while a family is ended. A
// death is heard of at once.
var beats = map[phase]time.Duration{asking: 5 * time.Millisecond, killing: 2 * time.Millisecond}

// keep is a keeper's life. It returns the exit status.
func keep() int {
	runtime.LockOSThread()
	stockThreads()
	unix.CloseOnExec(controlFD)
	// Handlers, and not SIG_IGN, which the command would inherit.
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, unix.SIGCHLD)
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM)
	control := os.NewFile(controlFD, "control")
	in := json.NewDecoder(control)
	var e errand
	if err := in.Decode(&e); err != nil {
		return 2 // nobody has a task
	}
	k := &keeper{self: os.Getpid(), out: json.NewEncoder(control), met: map[ident]bool{}, sealed: e.Contain.Use.Namespaces}
	room, fault := k.begin(e)
	if room != nil {
		defer room.Close()
	}
	if fault != nil {
		_ = k.out.Encode(*fault)
		return 1
	}
	_ = k.out.Encode(word{Pid: k.root}) // where the node has gone, the orders say so
	orders := make(chan order)
	go obey(in, orders) // ends with the process
	k.run(orders, deaths, e)
	return 0
}

// begin starts the command where it is contained. The word says why it could not.
func (k *keeper) begin(e errand) (*sandbox.Room, *word) {
	fault := func(err error) *word {
		errno := unix.EIO
		_ = errors.As(err, &errno)
		return &word{Errno: int(max(errno, 1))}
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0) // as long as it is there
	if err == nil {
		err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if err != nil {
		return nil, fault(err)
	}
	room, err := sandbox.Enter(e.Contain)
	if err != nil {
		w := fault(err)
		w.Fault, w.Place = err.Error(), errors.Is(err, sandbox.ErrWorkspace)
		return nil, w
	}
	if e.Env, err = room.Environ(e.Env); err != nil {
		w := fault(err)
		w.Fault = err.Error()
		return room, w
	}
	_ = k.out.Encode(word{Starting: true})
	var started error
	if err := room.Confined(func() error {
		k.root, started = syscall.ForkExec(e.Path, e.Args, &syscall.ProcAttr{
			Dir: e.Dir, Env: e.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		return nil
	}); err != nil {
		w := fault(err)
		w.Fault = err.Error()
		return room, w
	}
	if started != nil {
		return room, fault(started)
	}
	root, _ := readStat(k.root) // it cannot go before it is buried
	k.scan.since = root.start
	for fd := range 3 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return room, fault(err)
		}
	}
	return room, nil
}

// threads is more than a keeper needs at any moment.
const threads = 6

// stockThreads has the runtime make threads, which it keeps: where a family has
// used up the machine's process ids there would be none to be had, and that is
// when a keeper has work to do.
func stockThreads() {
	var all, here sync.WaitGroup
	here.Add(threads)
	for range threads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			here.Done()
			here.Wait()
		})
	}
	all.Wait()
}

// obey passes orders on, and closes orders where there will be none any more.
func obey(in *json.Decoder, orders chan<- order) {
	defer close(orders)
	for {
		var o order
		if in.Decode(&o) != nil {
			return
		}
		orders <- o
	}
}

// run is the loop: it ends once nothing is left.
func (k *keeper) run(orders <-chan order, deaths <-chan os.Signal, e errand) {
	var late <-chan time.Time
	if e.Limit > 0 {
		late = time.After(e.Limit)
	}
	for {
		if k.bury() {
			k.told.Empty = true
			_ = k.out.Encode(k.told)
			return
		}
		select {
		case <-deaths:
		case <-k.look:
			k.press()
			k.look = time.After(beats[k.phase])
		case <-late:
			late = k.abandoned(e.Grace)
		case o, ok := <-orders:
			if !ok {
				orders, late = nil, k.abandoned(e.Grace)
				continue
			}
			k.do(o)
		}
	}
}

// abandoned asks everything to end and, at the second time, ends it: the node is
// gone, or hangs.
func (k *keeper) abandoned(grace time.Duration) <-chan time.Time {
	if k.phase != calm {
		k.end(killing)
		return nil
	}
	k.end(asking)
	return time.After(grace)
}

func (k *keeper) do(o order) {
	switch o {
	case orderTerm:
		k.end(asking)
	case orderKill:
		k.end(killing)
	case orderLook:
		_ = k.out.Encode(word{Look: true, Left: pids(k.family())})
	}
}

// end begins a phase. The command's group is signalled at one moment, so that no fork
// slips through, and mostly that is everything: the table is looked at for the
// rest a moment later.
func (k *keeper) end(p phase) {
	if p <= k.phase {
		return
	}
	k.phase = p
	if p == killing {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -10) // of this thread, where that is allowed: it races with what it kills
	}
	wait := time.Duration(0)
	if !k.over {
		_, _ = unix.Kill(-k.root, p.signal()), unix.Kill(-k.root, unix.SIGCONT)
		k.asked, wait = true, beats[p]
	}
	k.look = time.After(wait)
}

func (p phase) signal() unix.Signal {
	if p == killing {
		return unix.SIGKILL
	}
	return unix.SIGTERM
}

// family is everything that descends from the keeper, the dead included: a
// process whose first thread has ended looks dead, and is not.
func (k *keeper) family() []proc {
	all, _ := k.scan.table() // none can be seen where the table cannot be read: the next look may do better
	all = descend(all, map[int]bool{k.self: true})
	return slices.DeleteFunc(all, func(p proc) bool { return p.pid == k.self }) // it may have been started in the same tick
}

// press signals the family, as the phase says.
func (k *keeper) press() {
	sig := k.phase.signal()
	for _, p := range k.family() {
		switch {
		case k.phase == killing && p.parent == k.self:
			_ = unix.Kill(p.pid, sig) // it is not buried yet, so the number is its own
		case k.phase == killing:
			send(p, sig)
		case k.met[p.ident] || k.asked && p.group == k.root:
			continue // it has heard it, or is about to leave the command's group
		default:
			send(p, sig)
			send(p, unix.SIGCONT) // one that was stopped has to hear it, too
		}
		k.meet(p)
	}
}

// maxMet bounds what a keeper remembers of a family that multiplies.
const maxMet = 1 << 14

// meet counts a process that has to be ended.
func (k *keeper) meet(p proc) {
	if k.met[p.ident] || len(k.met) >= maxMet {
		return
	}
	k.met[p.ident] = true
	switch {
	case p.dead() || p.pid == k.root:
	case len(k.told.Ended) < maxNamed:
		k.told.Ended = append(k.told.Ended, ended{p.pid, p.name})
	default:
		k.told.More++
	}
}

// bury takes what the dead have left, and says whether nothing is left at all.
// While it kills, it kills a dead child's group first: as long as that is not
// buried the number is the group's, and one signal to all of a group outruns a
// chain of processes that each start the next and end.
func (k *keeper) bury() (empty bool) {
	for {
		pid, err := firstDead()
		if pid == 0 || err != nil {
			return err == unix.ECHILD
		}
		if k.phase == killing {
			if p, ok := readStat(pid); ok && p.group > 1 && p.group != k.self {
				_ = unix.Kill(-p.group, unix.SIGKILL)
			}
		}
		k.wait(pid)
	}
}

// firstDead is a child that has ended and is not buried; 0 where there is none,
// and ECHILD where there are no children at all.
func firstDead() (int, error) {
	var info unix.Siginfo
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	}
	// The pid is the first member of the union behind three numbers, aligned as pointers are.
	at := max(3*unsafe.Sizeof(info.Signo), 2*unsafe.Sizeof(uintptr(0)))
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at))), err
}

// wait buries a child that has ended. If it is the command, the node hears of it.
func (k *keeper) wait(pid int) {
	var ws unix.WaitStatus
	_, err := unix.Wait4(pid, &ws, unix.WNOHANG, nil)
	for err == unix.EINTR {
		_, err = unix.Wait4(pid, &ws, unix.WNOHANG, nil)
	}
	if err == nil && pid == k.root && !k.over {
		k.over = true
		status := uint32(ws)
		_ = k.out.Encode(word{Status: &status})
	}
}
