package actors

import (
	"sync"
	"time"

	"github.com/sluice-run/sluice/lifecycle"
)

// maxSights bounds the resources of whose locks sightings are kept; beyond it, those
// go whose leases have all ended.
const maxSights = 1024

// sights is what this node has seen of other nodes' leases: see lifecycle.Sighting.
// They outlive the locks' actors, or a lease would begin anew with each who asks.
type sights struct {
	mu sync.Mutex
	of map[string][]lifecycle.Sighting
}

// look takes a new state of a lock into account.
func (s *sights) look(resource, boot string, now time.Time, ttl time.Duration, l lifecycle.LockState) []lifecycle.Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string][]lifecycle.Sighting)
	}
	seen := l.Sight(boot, now, s.of[resource])
	if len(seen) == 0 {
		delete(s.of, resource)
		return nil
	}
	if len(s.of) >= maxSights {
		s.prune(now, ttl)
	}
	s.of[resource] = seen
	return seen
}

// prune forgets what says nothing any more. The caller holds mu.
func (s *sights) prune(now time.Time, ttl time.Duration) {
	for resource, seen := range s.of {
		live := false
		for _, x := range seen {
			live = live || now.Sub(x.At) < 2*ttl
		}
		if !live {
			delete(s.of, resource)
		}
	}
}
