package remote

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// View is who serves which tool, as far as is known here.
func (r *Roster) View() bus.WorkerTools {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := bus.WorkerTools{At: r.cfg.Now().UTC(), Attempts: r.taken, Tools: []bus.WorkerView{}}
	for _, name := range slices.Sorted(maps.Keys(r.posts)) {
		p := r.posts[name]
		v := bus.WorkerView{Tool: name, Status: "waiting", Why: p.why, Definition: p.digest, Workers: []bus.WorkerSeat{}}
		switch {
		case p.why != "":
			v.Status = wire.StatusRefused
		case p.served():
			v.Status = wire.StatusServing
		}
		if p.digest != "" {
			tier, _ := r.cfg.Trust.Of(name, p.def.Tier)
			v.Version, v.Tier, v.Declared = p.def.Version, string(tier), string(cmp.Or(p.def.Tier, events.Irreversible))
		}
		for _, w := range slices.SortedFunc(maps.Keys(p.seats), compareWorkers) {
			s := p.seats[w]
			t := p.standing(s)
			v.Workers = append(v.Workers, bus.WorkerSeat{
				Worker: w.String(), Status: t.Status, Why: t.Why, Definition: s.digest, About: s.here.About,
				Since: s.here.Since, Heard: s.heard.UTC(), Running: s.here.Running, Room: s.here.Room,
			})
		}
		out.Tools = append(out.Tools, v)
	}
	return out
}
