package remote

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// statusSilent is that of a worker that serves, and has not been heard for as long as one
// may be silent at work: it may have died, and is gone once Config.Gone has passed.
const statusSilent = "silent"

// View is who serves which tool, as far as is known here.
func (r *Roster) View() bus.WorkerTools {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := bus.WorkerTools{At: r.cfg.Now().UTC(), Attempts: r.taken, Tools: []bus.WorkerView{}}
	for _, name := range slices.Sorted(maps.Keys(r.posts)) {
		p := r.posts[name]
		v := bus.WorkerView{Tool: name, Status: "waiting", Why: p.why, Definition: p.digest, Workers: []bus.WorkerSeat{}, Counts: p.tally.counts()}
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
			if t.Status == wire.StatusServing && r.cfg.Now().Sub(s.heard) > r.cfg.silence() {
				t.Status = statusSilent
			}
			v.Workers = append(v.Workers, bus.WorkerSeat{
				Worker: w.String(), Status: t.Status, Why: t.Why, Definition: s.digest, About: s.here.About,
				Since: s.here.Since, Heard: s.heard.UTC(), Running: s.here.Running, Room: s.here.Room,
			})
		}
		out.Tools = append(out.Tools, v)
	}
	return out
}

func (t *tally) counts() bus.WorkerCounts {
	return bus.WorkerCounts{
		Offers: t.offers.Load(), Accepted: t.accepted.Load(), Refused: t.refused.Load(), Lost: t.lost.Load(), Running: t.running.Load(),
	}
}
