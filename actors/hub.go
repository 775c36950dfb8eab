package actors

import (
	"sync"

	"github.com/sluice-run/sluice/events"
)

// hub tells waiters in this process of turns that have ended here.
type hub struct {
	mu   sync.Mutex
	wait map[events.TurnKey]map[chan Finished]bool
}

func newHub() *hub { return &hub{wait: make(map[events.TurnKey]map[chan Finished]bool)} }

func (h *hub) watch(key events.TurnKey) (<-chan Finished, func()) {
	ch := make(chan Finished, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wait[key] == nil {
		h.wait[key] = make(map[chan Finished]bool)
	}
	h.wait[key][ch] = true
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.wait[key], ch)
		if len(h.wait[key]) == 0 {
			delete(h.wait, key)
		}
	}
}

func (h *hub) tell(f Finished) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.wait[f.Key] {
		ch <- f // room for one, and told once: the entry goes with it
	}
	delete(h.wait, f.Key)
}
