package family

import (
	"cmp"
	"time"

	"golang.org/x/sys/unix"
)

// hunt is what can be done for a family whose keeper was killed: whatever bears
// its marker, is in the command's session or group, or descends from such a process is
// killed. It proves nothing, so there are always pids that may still run: those
// that do or, for what nobody can see any more, the command's own.
func (f *Family) hunt(patience time.Duration) []int {
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(huntBeat)
	defer tick.Stop()
	h := hunter{f: f, scan: scan{since: f.since}, known: map[ident]bool{}}
	for calm := 0; calm < 2; { // a child may have been between two parents at the first look
		alive := h.look()
		if len(alive) == 0 {
			calm++
		} else {
			calm = 0
		}
		for _, p := range alive {
			send(p, unix.SIGKILL)
		}
		select {
		case <-late.C:
			if left := h.look(); len(left) > 0 {
				return pids(left)
			}
			return []int{f.First()}
		case <-tick.C:
		}
	}
	return []int{f.First()}
}

// huntBeat is how often a hunter looks.
const huntBeat = 4 * time.Millisecond

// hunter looks for a family by its marks.
type hunter struct {
	f     *Family
	scan  scan
	known map[ident]bool // from earlier looks
}

// look is everything of the family that runs, as far as it can be seen.
func (h *hunter) look() []proc {
	all, _ := h.scan.table()
	root := cmp.Or(h.f.root, -1) // where it was never told, only the marker counts
	ours := map[int]bool{}
	for _, p := range all {
		if p.session == root || p.group == root || h.known[p.ident] || !p.dead() && marked(p.pid, h.f.marker) {
			ours[p.pid] = true
		}
	}
	var out []proc
	for _, p := range descend(all, ours) {
		h.known[p.ident] = true
		if !p.dead() {
			out = append(out, p)
		}
	}
	return out
}
