package mcp

import (
	"slices"
	"sync"
	"time"

	"github.com/sluice-run/sluice/events"
)

// hearing is what is known of whether a server over pipes hears. Many do one thing at a
// time, and are deaf meanwhile: that is theirs to do until a call's time has passed. While
// a question is open no further call goes into the pipe behind what the server may be
// stuck with, and whose time passes there has not failed for itself.
type hearing struct {
	mu    sync.Mutex
	heard time.Time     // its last word
	asked time.Time     // since when it is asked whether it is there, with no word since; zero: it is not
	word  chan struct{} // closed by the next word; nil: it is not asked
	over  bool          // a call's time has passed without an answer, and none before it waits
	open  []*waiting    // calls that wait for an answer, oldest first
	stuck *waiting      // the oldest that was given up, with no word since; nil: none
}

// waiting is a call that waits for its answer.
type waiting struct {
	call  events.CallKey
	tool  string
	since time.Time
}

// begins notes a call of a tool.
func (h *hearing) begins(call events.CallKey, tool string) *waiting {
	w := &waiting{call, tool, time.Now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = append(h.open, w)
	return w
}

// ends notes that nobody waits for a call any more. slow says that its time has passed.
// behind says that the server may never have got to it, for what it does for another tool.
func (h *hearing) ends(w *waiting, answered, slow bool) (behind bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.Index(h.open, w)
	before := h.open[:at]
	if h.stuck != nil {
		before = append([]*waiting{h.stuck}, before...)
	}
	if silent := h.word != nil || !h.heard.After(w.since); silent && !answered {
		behind = slices.ContainsFunc(before, func(o *waiting) bool { return o.tool != w.tool })
	}
	h.open = slices.Delete(h.open, at, at+1)
	if at > 0 || answered {
		return behind
	}
	if h.stuck == nil {
		h.stuck = w
	}
	h.over = h.over || slow
	return behind
}

// says notes a word of the server, whatever it is.
func (h *hearing) says() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard, h.asked, h.over, h.stuck = time.Now(), time.Time{}, false, nil
	if h.word != nil {
		close(h.word)
		h.word = nil
	}
}

// asks notes that the server is asked whether it is there. It returns false where it is
// being asked already: one question is enough, since pipes lose nothing.
func (h *hearing) asks() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.word != nil {
		return false
	}
	h.asked, h.word = time.Now(), make(chan struct{})
	return true
}

// doubt is closed by the server's next word, where the server may be stuck; nil: it hears.
func (h *hearing) doubt() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) == 0 && h.stuck == nil {
		return nil
	}
	return h.word
}

// culprit is the call that the server was given up with; the zero one where it was not.
func (h *hearing) culprit() (call events.CallKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stuck != nil {
		call = h.stuck.call
	}
	return call
}

// deaf says whether the server has had its time to answer; else in how long it may have.
// One that is busy has all the time of its calls, one whose call's time has passed has
// pong, and one that has nothing to do has it as often as over HTTP.
func (h *hearing) deaf(pong, every time.Duration) (deaf bool, look time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.word == nil, len(h.open) > 0 && !h.over:
		return false, every
	case !h.over:
		pong *= looks
	}
	left := time.Until(h.asked.Add(pong))
	return left <= 0, left
}
