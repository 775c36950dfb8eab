package shell

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ident is one process for good: numbers are used again, but not with the same
// start.
type ident struct {
	pid   int
	start uint64 // clock ticks since the machine's start
}

// proc is a line of the table of processes.
type proc struct {
	ident
	state                  byte
	parent, group, session int
}

// dead says that a process does nothing any more.
func (p proc) dead() bool { return p.state == 'Z' || p.state == 'X' || p.state == 'x' }

// table is every process that is not older than since, in order of pid. It
// fails where this system shows no processes.
func table(since uint64) ([]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readStat(pid); ok && p.start >= since {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b proc) int { return a.pid - b.pid })
	return out, nil
}

// readStat reads one line of the table; a process that has gone has none.
func readStat(pid int) (proc, bool) {
	var room [1024]byte
	n := readInto("/proc/"+strconv.Itoa(pid)+"/stat", room[:])
	// The name may hold anything, parentheses too; the last one ends it.
	i := bytes.LastIndexByte(room[:n], ')')
	if i < 0 {
		return proc{}, false
	}
	fields := strings.Fields(string(room[i+1 : n]))
	const start = 19 // the 22nd field of the line
	if len(fields) <= start {
		return proc{}, false
	}
	p := proc{ident: ident{pid: pid}, state: fields[0][0]}
	var errs [4]error
	p.parent, errs[0] = strconv.Atoi(fields[1])
	p.group, errs[1] = strconv.Atoi(fields[2])
	p.session, errs[2] = strconv.Atoi(fields[3])
	p.start, errs[3] = strconv.ParseUint(fields[start], 10, 64)
	return p, errs == [4]error{}
}

// readInto reads the beginning of a small file and returns its length, 0 where
// it cannot be read.
func readInto(path string, room []byte) int {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, room)
	if err != nil {
		return 0
	}
	return n
}

// marked says whether a process inherited the marker.
func marked(pid int, marker string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if string(v) == marker {
			return true
		}
	}
	return false
}

// alive is everything of the family that still runs. It is known by its session
// or group, which stay bash's own until release, by the marker, by its parent,
// or from an earlier look.
func (f *family) alive() []proc {
	all, err := table(f.root.start)
	if err != nil {
		return f.blind()
	}
	ours := map[int]bool{}
	for _, p := range all {
		if p.session == f.root.pid || p.group == f.root.pid || f.known[p.ident] || !p.dead() && marked(p.pid, f.marker) {
			ours[p.pid] = true
		}
	}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if !ours[p.pid] && ours[p.parent] {
				ours[p.pid], grew = true, true
			}
		}
	}
	var out []proc
	for _, p := range all {
		if !ours[p.pid] {
			continue
		}
		f.known[p.ident] = true
		if !p.dead() {
			out = append(out, p)
		} else if p.parent == os.Getpid() && p.pid != f.root.pid {
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil) // an orphan that nobody else can bury
		}
	}
	return out
}

// blind is what may still run where no table can be read: bash, for all of its
// family, until nothing holds its pipes any more.
func (f *family) blind() []proc {
	if f.closed(0) {
		return nil
	}
	return []proc{f.root}
}

// adopt makes whoever holds one of the family's pipes a member of it.
func (f *family) adopt() {
	first := f.holding()
	within(beat, f.exited) // a fork of the node's own holds all that is the node's, until it has become what it starts
	for id := range f.holding() {
		if first[id] {
			f.known[id] = true
		}
	}
}

// holding is every process but this one that has one of the family's pipes open.
func (f *family) holding() map[ident]bool {
	var names []string
	for _, p := range f.pipes {
		names = append(names, pipeName(p.file))
	}
	out := map[ident]bool{}
	all, _ := table(f.root.start) // none can be found where none can be seen
	for _, p := range all {
		if !p.dead() && p.pid != os.Getpid() && holds(p.pid, names) {
			out[p.ident] = true
		}
	}
	return out
}

// keepPrivate sees to it that no descriptor of the node reaches a command: Go's
// own do not, but the node may have been started with others.
func keepPrivate() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // an old kernel does not know it
}

// pipeName is what a pipe is called in /proc/*/fd.
func pipeName(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return "?"
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "?"
	}
	return "pipe:[" + strconv.FormatUint(s.Ino, 10) + "]"
}

// holds says whether a process has one of the pipes open.
func holds(pid int, names []string) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if to, err := os.Readlink(dir + "/" + e.Name()); err == nil && slices.Contains(names, to) {
			return true
		}
	}
	return false
}
