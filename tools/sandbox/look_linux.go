package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// tryName is what a process is called that tries what the machine has.
const tryName = "sluice-try"

// init makes a trial of the process that was started as one, like the keeper's in
// package family: a part of a sandbox counts once it has really been had.
func init() {
	if len(os.Args) > 0 && os.Args[0] == tryName {
		os.Exit(trial())
	}
}

// tryTime is how long a trial may take: it takes milliseconds.
const tryTime = 30 * time.Second

// Look tries what this machine has, each part in a process of its own. It takes some
// tens of milliseconds. The error says that nothing could be tried at all.
func Look(ctx context.Context) (Machine, error) {
	ctx, stop := context.WithTimeout(ctx, tryTime)
	defer stop()
	dir, err := os.MkdirTemp("", "sluice-try-")
	if err != nil {
		return Machine{}, fmt.Errorf("try the sandbox: %w", err)
	}
	defer os.RemoveAll(dir)
	l := looker{dir: dir}
	if l.all(ctx) {
		return l.m, nil
	}
	for _, s := range steps {
		l.m.Parts = append(l.m.Parts, l.try(ctx, s))
	}
	if err := ctx.Err(); err != nil {
		return Machine{}, fmt.Errorf("try the sandbox: %w", err)
	}
	return l.m, nil
}

// looker collects what there is.
type looker struct {
	dir string
	m   Machine
}

// step is one thing to try.
type step struct {
	name   string
	flags  uintptr // of a process that only has to start
	policy Use     // of one that has to confine itself
	have   func(u *Use)
	remedy string
}

const (
	remedyUser = "allow unprivileged user namespaces: sysctl user.max_user_namespaces above 0; Debian: sysctl kernel.unprivileged_userns_clone=1; " +
		"Ubuntu: an AppArmor profile with userns for this program, or sysctl kernel.apparmor_restrict_unprivileged_userns=0; " +
		"containers: a seccomp profile that lets unshare and clone make them"
	remedyView = "let this user mount in a user namespace: Linux 5.12 or later; AppArmor must allow mount; containers: --security-opt systempaths=unconfined, " +
		"since a table of processes can be made only where the container's own is not covered"
	remedyLandlock = "Linux 5.19 or later with CONFIG_SECURITY_LANDLOCK, and landlock in the kernel's lsm= list; containers: a seccomp profile that knows landlock_*"
	remedySeccomp  = "a kernel with CONFIG_SECCOMP_FILTER, on amd64 or arm64"
	remedyLimits   = "let this process set no_new_privs and lower its limits: what refuses it is around it"
)

var steps = []step{
	{name: "userns", flags: unix.CLONE_NEWUSER, remedy: remedyUser},
	{name: "mountns", flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, remedy: remedyUser},
	{name: "pidns", flags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID, remedy: remedyUser},
	{name: "ipcns", flags: unix.CLONE_NEWUSER | unix.CLONE_NEWIPC, remedy: remedyUser},
	{name: "utsns", flags: unix.CLONE_NEWUSER | unix.CLONE_NEWUTS, remedy: remedyUser},
	{name: "netns", flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, remedy: remedyUser},
	{name: "view", policy: Use{Namespaces: true}, have: func(u *Use) { u.Namespaces = true }, remedy: remedyView},
	{name: "landlock", policy: Use{Landlock: 1}, have: func(u *Use) { u.Landlock = abi() }, remedy: remedyLandlock},
	{name: "nnp", policy: Use{Limits: true}, have: func(u *Use) { u.Limits = true }, remedy: remedyLimits},
	{name: "rlimits", policy: Use{Limits: true}, remedy: remedyLimits},
	{name: "seccomp", policy: Use{Seccomp: true}, have: func(u *Use) { u.Seccomp = true }, remedy: remedySeccomp},
}

// usable is the first version of Landlock that lets files move between directories.
const usable = 2

// abi is the version of the kernel's Landlock; 0: there is none that is of use.
func abi() int {
	v, err := ll.LandlockGetABIVersion()
	if err != nil || v < usable {
		return 0
	}
	return v
}

// all tries everything at once, which most machines have.
func (l *looker) all(ctx context.Context) bool {
	use := Use{Namespaces: true, Landlock: abi(), Seccomp: nativeArch != 0, Limits: true}
	if use.Landlock == 0 || !use.Seccomp || l.run(ctx, step{policy: use}) != nil {
		return false
	}
	l.m.Use = use
	for _, s := range steps {
		l.m.Parts = append(l.m.Parts, Part{Name: s.name, Have: true, Detail: extent(s.name)})
	}
	return true
}

// extent is what there is of a part.
func extent(name string) string {
	switch name {
	case "landlock":
		return fmt.Sprintf("version %d", abi())
	case "view":
		return "a file system, a table of processes and a network of the command's own"
	}
	return ""
}

// try tries one step.
func (l *looker) try(ctx context.Context, s step) Part {
	p := Part{Name: s.name}
	var err error
	switch {
	case s.name == "landlock" && abi() == 0:
		v, verr := ll.LandlockGetABIVersion()
		if err = verr; err == nil {
			err = fmt.Errorf("version %d is too old", v)
		}
	case s.name == "seccomp" && nativeArch == 0:
		err = errors.New("there is no filter for this architecture")
	default:
		err = l.run(ctx, s)
	}
	if err != nil {
		p.Detail, p.Remedy = err.Error(), s.remedy
		return p
	}
	p.Have = true
	if s.have != nil {
		s.have(&l.m.Use)
	}
	p.Detail = extent(s.name)
	return p
}

// run runs one trial.
func (l *looker) run(ctx context.Context, s step) error {
	policy := Policy{Workspace: l.dir, Write: true, Use: s.policy}
	if s.policy.Landlock > 0 {
		policy.Use.Landlock = abi()
	}
	order, err := json.Marshal(policy)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Env = []string{tryName}, []string{"GOMAXPROCS=1", "GOTRACEBACK=none", "GORACE=atexit_sleep_ms=0"}
	cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = bytes.NewReader(order), &out, &syscall.SysProcAttr{Setsid: true}
	if s.flags != 0 {
		cmd.SysProcAttr.Cloneflags = s.flags
		mapIDs(cmd.SysProcAttr)
	}
	policy.Attr(cmd.SysProcAttr)
	err = cmd.Run()
	if said := strings.TrimSpace(out.String()); said != "" {
		return errors.New(said)
	}
	return err
}

// trial is the life of a process that tries. What it says is what is wrong.
func trial() int {
	var p Policy
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		fmt.Println(err)
		return 2
	}
	room, err := Enter(p)
	if err == nil {
		err = room.Confined(func() error { return shown(p) })
		room.Close()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// shown proves on the confined thread that what was asked for holds.
func shown(p Policy) error {
	if p.Use.Namespaces {
		if os.Getpid() != 1 {
			return errors.New("the process ids are not its own")
		}
		if _, err := os.Stat("/proc/1/stat"); err != nil {
			return err
		}
	}
	if p.Use.Landlock > 0 {
		if !p.Use.Namespaces && !errors.Is(unreadable(), unix.EACCES) { // in a house of its own everything may be read
			return errors.New("landlock refuses nothing")
		}
	}
	if p.Use.Seccomp {
		if err := unix.Unshare(unix.CLONE_NEWUTS); err != unix.EPERM {
			return fmt.Errorf("the filter lets a namespace be made: %w", err)
		}
	}
	if p.Use.Limits {
		var core unix.Rlimit
		if able(unix.CAP_SYS_ADMIN) || unix.Getrlimit(unix.RLIMIT_CORE, &core) != nil || core.Max != 0 {
			return errors.New("capabilities or limits are as they were")
		}
	}
	return nil
}

// unreadable is what the kernel says to reading the directory that holds all.
func unreadable() error {
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}
