package family

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

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
	name                   string
	state                  byte
	parent, group, session int
}

// dead says that a process does nothing any more.
func (p proc) dead() bool { return p.state == 'Z' || p.state == 'X' || p.state == 'x' }

// scan reads the table of processes, again and again.
type scan struct {
	since uint64       // what has started earlier is of no interest
	old   map[int]bool // pids that were older at the last full look
	looks int
}

// fullLook is after how many looks the older pids are looked at again: a number
// may have been used again meanwhile.
const fullLook = 64

// table is every process that is not older than since, in order of pid. It
// fails where this system shows no processes.
func (s *scan) table() ([]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	if s.looks%fullLook == 0 {
		s.old = map[int]bool{}
	}
	s.looks++
	var out []proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || s.old[pid] {
			continue
		}
		switch p, ok := readStat(pid); {
		case !ok: // it has just gone
		case p.start < s.since:
			s.old[pid] = true
		default:
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b proc) int { return a.pid - b.pid })
	return out, nil
}

// descend is what descends from the roots, and the roots that are in the table.
// ours, which holds the roots, holds them all in the end.
func descend(all []proc, ours map[int]bool) []proc {
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if !ours[p.pid] && ours[p.parent] {
				ours[p.pid], grew = true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(p proc) bool { return !ours[p.pid] })
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
	name, _, _ := strings.Cut(string(room[:i]), "(")
	p := proc{ident: ident{pid: pid}, name: string(room[len(name)+1 : i]), state: fields[0][0]}
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

// send signals one process, and never another that has its number by now.
func send(p proc, sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if err == unix.ENOSYS && same(p) {
			_ = unix.Kill(p.pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if same(p) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

func same(p proc) bool {
	now, ok := readStat(p.pid)
	return ok && now.ident == p.ident
}

func pids(ps []proc) []int {
	out := make([]int, len(ps))
	for i, p := range ps {
		out[i] = p.pid
	}
	return out
}
