package jetlog

import "github.com/sluice-run/sluice/bus"

// Wanted says whether anybody may listen for one of the commit's events now, so
// that a publisher can spare itself the barrier where nobody does. It errs on
// the side of yes: where the server is another process, it is always true.
func (b *Bus) Wanted(s bus.Stored, tools map[int]string) bool {
	if b.cfg.SubjectInterest == nil {
		return true
	}
	for _, r := range s.Commit.Records {
		if b.cfg.SubjectInterest(bus.LiveSubject(r.Event.Kind(), tools[r.Call], s.Commit.Turn, r.Call)) {
			return true
		}
	}
	return false
}
