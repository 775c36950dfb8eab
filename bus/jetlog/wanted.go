package jetlog

import (
	"slices"

	"github.com/sluice-run/sluice/bus"
)

// Wanted is bus.Live's. Where the server is another process, it is always true.
func (b *Bus) Wanted(s bus.Stored, tools map[int]string) bool {
	if b.cfg.SubjectInterest == nil {
		return true
	}
	for _, r := range s.Commit.Records {
		if slices.ContainsFunc(bus.LiveSubjects(r.Event, tools[r.Call], s.Commit.Turn, r.Call), b.cfg.SubjectInterest) {
			return true
		}
	}
	return false
}
