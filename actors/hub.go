package actors

import (
	"sync"

	"github.com/sluice-run/sluice/events"
)

// hub tells waiters in this process of turns that have ended here.
type hub struct {
	mu   sync.Mutex
	wait map[events.TurnKey]map[*func(Finished)]bool
}

func newHub() *hub { return &hub{wait: make(map[events.TurnKey]map[*func(Finished)]bool)} }

// watch has ended called once the turn has ended, at most once and not after the function
// that it returns. It must not block.
func (h *hub) watch(key events.TurnKey, ended func(Finished)) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wait[key] == nil {
		h.wait[key] = make(map[*func(Finished)]bool)
	}
	h.wait[key][&ended] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.wait[key], &ended)
		if len(h.wait[key]) == 0 {
			delete(h.wait, key)
		}
	}
}

func (h *hub) tell(f Finished) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ended := range h.wait[f.Key] {
		(*ended)(f) // told once: the entry goes with it
	}
	delete(h.wait, f.Key)
}
