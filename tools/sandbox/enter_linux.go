package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// rootInside is who a command is whose node runs as root: programs behave badly
// that believe they have root's rights and have not.
const rootInside = 1000

// spaces are the namespaces that a keeper is started in. That of the network comes
// on top, unless the command may use it.
const spaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// Attr has the keeper of a command started in the policy's namespaces. It changes
// nothing where the machine has none.
func (p Policy) Attr(a *syscall.SysProcAttr) {
	if !p.Use.Namespaces {
		return
	}
	a.Cloneflags |= spaces
	if !p.Network {
		a.Cloneflags |= unix.CLONE_NEWNET
	}
	mapIDs(a)
	// The identity inside is not root's, so that starting a program would lose them all.
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SETGID}
}

// mapIDs gives a process in a new user namespace the one identity that any process
// may give: that of its parent.
func mapIDs(a *syscall.SysProcAttr) {
	uid, gid := os.Geteuid(), os.Getegid()
	inUID, inGID := uid, gid
	if uid == 0 {
		inUID = rootInside
	}
	if gid == 0 {
		inGID = rootInside
	}
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: inUID, HostID: uid, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: inGID, HostID: gid, Size: 1}}
	a.GidMappingsEnableSetgroups = able(unix.CAP_SETGID) // to leave groups is allowed only to those who could join them
}

// able says whether this process has a capability.
func able(c int) bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	return unix.Capget(&h, &d[0]) == nil && d[c/32].Effective&(1<<(c%32)) != 0
}

// Room is where a command runs. It belongs to one goroutine.
type Room struct {
	p    Policy
	temp string // the directory that stands for /tmp, where that is not the command's own; "" otherwise
	home string // made for the command; "" otherwise
}

// Enter prepares the calling process, which was started with Attr, for the command:
// its view of the file system, its limits. It is called once, BEFORE Confine, and
// changes the whole process. What it returns is closed when the command has ended.
func Enter(p Policy) (*Room, error) {
	r := &Room{p: p}
	if !p.Use.Any() {
		return r, nil
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	hidden, err := p.hidden()
	if err != nil {
		return nil, err
	}
	p.Hide = hidden
	r.p = p
	unix.Umask(0o022)
	// Where memory runs out the kernel ends the command first, and the largest process of it,
	// and not the node. Where that cannot be said, it guesses as ever.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	if p.Use.Namespaces {
		if err := r.furnish(); err != nil {
			return nil, err
		}
	} else if p.Use.Landlock > 0 {
		temp, err := os.MkdirTemp("", "sluice-") // nothing of others' /tmp is seen
		if err != nil {
			return nil, fmt.Errorf("make a directory for temporary files: %w", err)
		}
		r.temp = temp
	}
	if p.Use.Limits {
		if err := r.limit(); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

// hidden are the paths to hide that are there, without links, and under every name that
// a path which the policy grants gives them. A granted path that is hidden itself is
// refused, whatever name it is given under.
func (p Policy) hidden() ([]string, error) {
	var out []string
	for _, path := range p.Hide {
		secret, err := filepath.EvalSymlinks(path)
		if err != nil {
			if absent(err) {
				continue
			}
			return nil, fmt.Errorf("hide %s: %w", path, err)
		}
		out = append(out, secret)
		for _, granted := range slices.Concat([]string{p.Workspace}, p.Read, p.Writable, p.searched()) {
			whole, err := filepath.EvalSymlinks(granted)
			switch rel, relErr := filepath.Rel(whole, secret); {
			case err != nil || relErr != nil: // what is not there is granted to nobody
			case Within(whole, secret) && granted == p.Workspace:
				return nil, fmt.Errorf("%w: no command may see what is in %s; name another directory", ErrWorkspace, granted)
			case Within(whole, secret):
				return nil, fmt.Errorf("%s is granted, and no command may see what is there", granted)
			case Within(secret, whole):
				out = append(out, filepath.Join(granted, rel))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Environ is the environment as the command gets it: with TMPDIR where that is not /tmp,
// and with a HOME that is made for it where it holds OwnHome.
func (r *Room) Environ(env []string) ([]string, error) {
	out := make([]string, 0, len(env)+1)
	for _, v := range env {
		switch {
		case v == OwnHome:
			home, err := os.MkdirTemp(cmp.Or(r.temp, "/tmp"), "home-")
			if err != nil {
				return nil, fmt.Errorf("make a home: %w", err)
			}
			r.home = home
			out = append(out, OwnHome+home)
		case r.temp == "" || !strings.HasPrefix(v, "TMPDIR="):
			out = append(out, v)
		}
	}
	if r.temp != "" {
		out = append(out, "TMPDIR="+r.temp)
	}
	return out, nil
}

// Close removes what the command had for itself.
func (r *Room) Close() {
	for _, dir := range []string{r.home, r.temp} {
		if dir != "" {
			_ = os.RemoveAll(dir) // what cannot be removed is the machine's own to clean
		}
	}
}

// furnish makes the namespaces a place to work in.
func (r *Room) furnish() error {
	if err := unix.Sethostname([]byte("sluice")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if able(unix.CAP_SETGID) {
		_, _, _ = unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0) // refused where the node could not join groups either
	}
	if !r.p.Network {
		if err := loopback(); err != nil {
			return fmt.Errorf("start loopback: %w", err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the mounts: %w", err)
	}
	h := &house{p: r.p}
	if err := h.gather(); err != nil {
		return err
	}
	boundPIDs(h.proc, r.p.Limits.withDefaults().Processes)
	return h.build()
}

// loopback starts the loopback interface of a new network, for what a command starts
// and asks by itself.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// reserved are the low numbers that are not given to processes a second time.
const reserved = 300

// boundPIDs bounds the processes of this pid namespace, on a kernel that has such a
// bound for each: root's, too, whom RLIMIT_NPROC does not hold. On an older kernel the
// file is the machine's. The reserved numbers are used once, so they come on top.
func boundPIDs(proc, n int) {
	if !kernelAtLeast(6, 14) || os.Getpid() != 1 {
		return
	}
	fd, err := unix.Openat(proc, "sys/kernel/pid_max", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // RLIMIT_NPROC holds all but root
	}
	defer unix.Close(fd)
	_, _ = unix.Write(fd, []byte(strconv.Itoa(n+reserved)))
}

// kernelAtLeast says whether the kernel is of that version or a later one.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var x, y int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &x, &y)
	return err == nil && (x > major || x == major && y >= minor)
}

// limit sets the limits of this process, and so of the command.
func (r *Room) limit() error {
	l := r.p.Limits.withDefaults()
	for _, x := range []struct {
		what  string
		which int
		value uint64
	}{
		{"core files", unix.RLIMIT_CORE, 0},
		{"processor time", unix.RLIMIT_CPU, uint64(l.CPU.Seconds())},
		{"memory", unix.RLIMIT_DATA, uint64(l.Memory)},
		{"file size", unix.RLIMIT_FSIZE, uint64(l.File)},
		{"open files", unix.RLIMIT_NOFILE, uint64(l.Open)},
		{"processes", unix.RLIMIT_NPROC, uint64(l.Processes)},
	} {
		if x.which == unix.RLIMIT_NPROC && !r.p.Use.Namespaces {
			continue // it would count all that this user runs on the machine
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(x.which, &now); err != nil {
			return fmt.Errorf("limit %s: %w", x.what, err)
		}
		v := min(x.value, now.Max)
		if err := unix.Setrlimit(x.which, &unix.Rlimit{Cur: v, Max: v}); err != nil {
			return fmt.Errorf("limit %s: %w", x.what, err)
		}
	}
	return nil
}

// house is the file system of a command while it is made. Everything that it takes
// from the machine's is taken BEFORE the change of root, as a copy of mounts that is
// nowhere yet; everything is put in its place after it, so that no link can lead out.
type house struct {
	p     Policy
	proc  int
	parts []part
}

// part is one thing in a house.
type part struct {
	to    string
	link  string // of a symbolic link: where it points
	fd    int    // of a mount; negative: none
	dir   bool
	grade int // among parts with the same place the last one counts
	hide  bool
}

// gather takes what is needed from the machine's file system.
func (h *house) gather() (err error) {
	if h.proc, err = fresh("proc", writable|unix.MOUNT_ATTR_NOEXEC, nil); err != nil {
		return fmt.Errorf("make a table of processes: %w", err)
	}
	l := h.p.Limits.withDefaults()
	size := map[string]string{"size": strconv.FormatInt(l.Temp, 10), "mode": "1777", "nr_inodes": "131072"}
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		fd, err := fresh("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, size)
		if err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
		h.parts = append(h.parts, part{to: dir, fd: fd, dir: true})
	}
	if fd, err := fresh("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, map[string]string{"ptmxmode": "0666", "mode": "0620"}); err == nil {
		h.parts = append(h.parts, part{to: "/dev/pts", fd: fd, dir: true}, part{to: "/dev/ptmx", fd: -1, link: "pts/ptmx"})
	}
	for _, name := range devices {
		if err := h.take("/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, 0); err != nil {
			return err
		}
	}
	return errors.Join(h.gatherSystem(), h.gatherOwn())
}

// devices are the files of /dev that a command has.
var devices = []string{"null", "zero", "full", "random", "urandom"}

const (
	readable = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	writable = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// gatherSystem takes programs and what they need.
func (h *house) gatherSystem() error {
	paths := slices.Clone(system)
	for _, name := range settings {
		paths = append(paths, "/etc/"+name)
	}
	for _, path := range paths {
		if to, err := os.Readlink(path); err == nil {
			if whole, err := filepath.EvalSymlinks(path); err == nil && Within(whole, "/usr") {
				h.parts = append(h.parts, part{to: path, fd: -1, link: to})
				continue
			}
		}
		if err := h.take(path, readable, 0); err != nil && !absent(err) {
			return err
		}
	}
	for to, link := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
		"/var/tmp": "/tmp", "/etc/mtab": "/proc/self/mounts",
	} {
		h.parts = append(h.parts, part{to: to, fd: -1, link: link})
	}
	return nil
}

// gatherOwn takes what the policy names.
func (h *house) gatherOwn() error {
	for _, list := range []struct {
		paths []string
		attr  uint64
		grade int
	}{{h.p.searched(), readable, 1}, {h.p.Read, readable, 2}, {h.p.Writable, writable, 4}} {
		for _, path := range list.paths {
			if list.attr == readable && slices.ContainsFunc(system, func(dir string) bool { return Within(path, dir) }) {
				continue // there already
			}
			if err := h.take(filepath.Clean(path), list.attr, list.grade); err != nil && !absent(err) {
				return err
			}
		}
	}
	attr := uint64(readable)
	if h.p.Write {
		attr = writable
	}
	for _, path := range h.p.Hide {
		if err := h.cover(path); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	err := h.take(filepath.Clean(h.p.Workspace), attr, 3)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: the node's user may not go there", ErrWorkspace)
	}
	return err
}

// absent says that something is not there, for the node's user at least.
func absent(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || errors.Is(err, unix.ENOTDIR)
}

// cover hides what is at a path.
func (h *house) cover(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	cover := part{to: path, dir: info.IsDir(), hide: true, grade: 5}
	if cover.dir {
		cover.fd, err = fresh("tmpfs", writable|unix.MOUNT_ATTR_NOEXEC, map[string]string{"size": "65536", "mode": "0755"})
	} else {
		cover.fd, err = unix.OpenTree(unix.AT_FDCWD, "/dev/null", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	}
	h.parts = append(h.parts, cover)
	return err
}

// take takes a file or a directory, with everything that is mounted below it.
func (h *house) take(path string, attr uint64, grade int) error {
	fail := func(err error) error { return &os.PathError{Op: "take into the sandbox", Path: path, Err: err} }
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fail(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail(err)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		return fail(err)
	}
	h.parts = append(h.parts, part{to: path, fd: fd, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, grade: grade})
	return nil
}

// fresh is a mount of a new file system that is nowhere yet.
func fresh(kind string, attr int, options map[string]string) (int, error) {
	fd, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	for k, v := range options {
		if err := unix.FsconfigSetString(fd, k, v); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return -1, err
	}
	return unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, attr)
}

// build makes the house the root of this process, and puts everything in its place.
func (h *house) build() error {
	root, err := fresh("tmpfs", writable, map[string]string{"size": "4194304", "mode": "0755"})
	if err == nil {
		err = enterRoot(root)
	}
	if err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	slices.SortStableFunc(h.parts, func(a, b part) int {
		if len(a.to) != len(b.to) {
			return len(a.to) - len(b.to) // what holds another one comes first
		}
		return a.grade - b.grade
	})
	h.parts = append([]part{{to: "/proc", fd: h.proc, dir: true}, {to: "/run", fd: -1, dir: true}}, h.parts...)
	for _, p := range h.parts {
		if err := p.place(); err != nil {
			return fmt.Errorf("put %s into the sandbox: %w", p.to, err)
		}
	}
	shut := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	for _, p := range h.parts {
		if p.hide || p.to == "/proc" {
			if err := unix.MountSetattr(p.fd, "", unix.AT_EMPTY_PATH, shut); err != nil {
				return fmt.Errorf("shut %s: %w", p.to, err)
			}
		}
		_ = unix.Close(p.fd)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, shut); err != nil {
		return fmt.Errorf("shut the root: %w", err)
	}
	return nil
}

// enterRoot makes a mount that is nowhere yet the root, and lets go of the old one.
func enterRoot(root int) error {
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, "/proc", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	_ = unix.Close(root)
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root, which lies above the new one
		return err
	}
	return unix.Chdir("/")
}

// place puts a part in its place in the new root.
func (p part) place() error {
	if p.hide {
		if _, err := os.Lstat(p.to); err != nil {
			return nil // nothing that is there holds it
		}
	}
	if err := os.MkdirAll(filepath.Dir(p.to), 0o755); err != nil {
		return err
	}
	switch {
	case p.link != "":
		err := os.Symlink(p.link, p.to)
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	case p.dir:
		if err := os.MkdirAll(p.to, 0o755); err != nil {
			return err
		}
	default:
		if _, err := os.Lstat(p.to); err == nil {
			break
		}
		if err := os.WriteFile(p.to, nil, 0o644); err != nil {
			return err
		}
	}
	if p.fd < 0 {
		return nil
	}
	return unix.MoveMount(p.fd, "", unix.AT_FDCWD, p.to, unix.MOVE_MOUNT_F_EMPTY_PATH)
}
