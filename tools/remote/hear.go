package remote

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// Bounds of what workers can have a node remember.
const (
	maxPosts = 1024 // tools
	maxSeats = 256  // workers of one tool
)

// post is a tool, and who serves it. Roster.mu guards it.
type post struct {
	name   string
	def    wire.Definition // that stands: the one of the worker that came first
	digest string          // of def; "" while none stands
	why    string          // why the registry does not have it; "" where it does
	seats  map[bus.Worker]*seat
	seen   time.Time // when somebody was last there for def
	made   tools.Tool
	of     string // digest that made is of; "" where none is made
	tally  tally
}

// tally counts what has become of a tool's attempts on this node, since its workers came.
type tally struct {
	offers, accepted, refused, lost atomic.Int64
	running                         atomic.Int64 // now
}

// tallyOf is that of a tool; of one that has none any more it is nobody's.
func (r *Roster) tallyOf(tool string) *tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.posts[tool]; p != nil {
		return &p.tally
	}
	return new(tally)
}

// seat is a worker of a tool.
type seat struct {
	here   wire.Here
	def    wire.Definition
	said   string // digest of def; "" where it cannot be read
	digest string // said, where it makes sense; "" otherwise
	fault  string // why it makes none
	first  time.Time
	heard  time.Time
	told   wire.Told // the last time
}

// word is something to say to a worker.
type word struct {
	to   bus.Worker
	body any
}

// say says words. Roster.mu is not held.
func (r *Roster) say(words []word) {
	for _, w := range words {
		if told, ok := w.body.(wire.Told); ok && r.cfg.Quiet && told.Type == wire.TypeTold {
			continue
		}
		body, err := wire.Encode(w.body)
		if err == nil {
			err = r.cfg.Workers.TellWorker(r.ctx, w.to, body)
		}
		if err != nil {
			r.log.Debug("a worker was not told", "worker", w.to.String(), "err", err)
		}
	}
}

// hear takes an announcement. The first one, of nobody, says that the others are heard
// from now on.
func (r *Roster) hear(a bus.Announcement) {
	if a.Tool == "" {
		r.say([]word{{bus.Worker{}, wire.Told{V: wire.Version, Type: wire.TypeDescribe}}})
		r.once.Do(func() { close(r.began) })
		return
	}
	h, err := readHere(a.Body)
	r.mu.Lock()
	words := r.take(a, h, err)
	r.mu.Unlock()
	r.say(words)
}

// readHere reads an announcement.
func readHere(body []byte) (h wire.Here, err error) {
	if len(body) > wire.MaxHere {
		return h, fmt.Errorf("an announcement has at most %d bytes, and this one %d", wire.MaxHere, len(body))
	}
	if err := wire.Decode(body, &h); err != nil {
		return h, fmt.Errorf("the announcement: %w", err)
	}
	h.Revision, h.About = clip(h.Revision, 128), clip(h.About, 200)
	h.Running, h.Room = max(h.Running, 0), max(h.Room, 0)
	switch {
	case h.V != wire.Version:
		return h, fmt.Errorf("an announcement of version %d: this node speaks version %d", h.V, wire.Version)
	case h.Type == wire.TypeHere, h.Type == wire.TypeGone:
		return h, nil
	}
	return h, fmt.Errorf("an announcement of type %.40q: want %s or %s", h.Type, wire.TypeHere, wire.TypeGone)
}

func clip(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }

// take notes what was announced, and returns what is to be said about it. The lock is held.
func (r *Roster) take(a bus.Announcement, h wire.Here, fault error) []word {
	now := r.cfg.Now()
	p := r.posts[a.Tool]
	if fault == nil && h.Type == wire.TypeGone {
		if p != nil && p.seats[a.Worker] != nil {
			delete(p.seats, a.Worker)
			return r.settle(p, now)
		}
		return nil
	}
	if p == nil {
		if len(r.posts) >= maxPosts {
			return nil
		}
		p = &post{name: a.Tool, seats: map[bus.Worker]*seat{}, seen: now}
		r.posts[a.Tool] = p
	}
	s := p.seats[a.Worker]
	if s == nil && len(p.seats) >= maxSeats {
		return nil
	}
	switch {
	case fault != nil:
		s = &seat{fault: fault.Error(), first: now}
	case h.Tool != nil:
		s = r.seatOf(p, s, h, now)
	case s == nil || s.said == "" || s.here.Revision != h.Revision:
		return r.ask(a.Worker, now)
	}
	old := p.seats[a.Worker]
	if old != nil {
		s.told = old.told
	}
	if s.fault != "" && (old == nil || old.fault == "") { // once: it may find others
		r.log.Warn("a worker's tool is refused", "tool", a.Tool, "worker", a.Worker.String(), "why", s.fault)
	}
	s.here, s.heard = h, now
	s.here.Tool = nil
	p.seats[a.Worker] = s
	return r.settle(p, now)
}

// seatOf is the seat of a worker that tells its definition; old may be nil. One that no
// registry takes is its own fault, and stands in nobody's way. The lock is held.
func (r *Roster) seatOf(p *post, old *seat, h wire.Here, now time.Time) *seat {
	s := &seat{def: *h.Tool, first: now}
	if err := s.def.Check(); err != nil {
		s.fault = err.Error()
		return s
	}
	s.said = s.def.Digest()
	if old != nil && old.said == s.said { // as it was
		s.first, s.digest, s.fault = old.first, old.digest, old.fault
		return s
	}
	s.digest = s.said
	if s.digest == p.digest {
		return s
	}
	if err := r.tool(p.name, s.said, s.def).Check(); err != nil {
		text, _ := strings.CutPrefix(err.Error(), tools.ErrTool.Error()+": ")
		s.digest, s.fault = "", clip(text, maxWhy)
	}
	return s
}

// maxWhy is the length in bytes of the longest reason that a worker is told.
const maxWhy = 1000

// ask has a worker say its definitions, at most once a second. The lock is held.
func (r *Roster) ask(w bus.Worker, now time.Time) []word {
	if at, ok := r.asked[w]; ok && now.Sub(at) < time.Second && !now.Before(at) || len(r.asked) > maxPosts*maxSeats {
		return nil
	}
	r.asked[w] = now
	return []word{{w, wire.Told{V: wire.Version, Type: wire.TypeDescribe}}}
}

// settle finds out which definition of a tool stands, gives the registry what follows from
// it, and returns what its workers are to be told. The lock is held.
func (r *Roster) settle(p *post, now time.Time) []word {
	if p.served() {
		p.seen = now
	} else if next := p.next(); next != nil {
		p.def, p.digest, p.seen = next.def, next.digest, now
		r.log.Info("a worker's tool is there", "tool", p.name, "definition", p.digest, "version", p.def.Version)
	}
	if p.of != p.digest || p.why != "" {
		r.provide()
	}
	return p.tell()
}

// served says whether somebody is there for the definition that stands.
func (p *post) served() bool {
	for _, s := range p.seats {
		if s.digest != "" && s.digest == p.digest {
			return true
		}
	}
	return false
}

// next is whose definition could stand: the one that has served for the longest time, as
// the workers themselves say, else as they came. nil: nobody's.
func (p *post) next() *seat {
	var best *seat
	for _, w := range slices.SortedFunc(maps.Keys(p.seats), compareWorkers) {
		s := p.seats[w]
		if s.digest == "" {
			continue
		}
		if best == nil || s.before(best) {
			best = s
		}
	}
	return best
}

func (s *seat) before(o *seat) bool {
	a, b := s.here.Since, o.here.Since
	if a.IsZero() || b.IsZero() || a.Equal(b) {
		return s.first.Before(o.first)
	}
	return a.Before(b)
}

func compareWorkers(a, b bus.Worker) int { return strings.Compare(a.String(), b.String()) }

// standing is what a worker is to be told of its definition.
func (p *post) standing(s *seat) wire.Told {
	t := wire.Told{V: wire.Version, Type: wire.TypeTold, Tool: p.name, Definition: s.said, Status: wire.StatusRefused}
	switch {
	case s.fault != "":
		t.Why = s.fault
	case s.digest != p.digest:
		t.Why = fmt.Sprintf("another definition of %s stands, %s, whose workers came first: stop or drain them, or give this tool another name", p.name, p.digest)
	case p.why != "":
		t.Why = p.why
	default:
		t.Status = wire.StatusServing
	}
	return t
}

// tell is what has changed for the tool's workers.
func (p *post) tell() []word {
	var out []word
	for _, w := range slices.SortedFunc(maps.Keys(p.seats), compareWorkers) {
		s := p.seats[w]
		if t := p.standing(s); t != s.told {
			s.told = t
			out = append(out, word{w, t})
		}
	}
	return out
}

// provide gives the registry the tools that stand. The lock is held.
func (r *Roster) provide() {
	var list []tools.Tool
	var known []Known
	var ids []string
	for _, name := range slices.Sorted(maps.Keys(r.posts)) {
		p := r.posts[name]
		if p.digest == "" {
			continue
		}
		if p.of != p.digest {
			p.made, p.of = r.tool(p.name, p.digest, p.def), p.digest
		}
		list = append(list, p.made)
		known, ids = append(known, Known{p.name, p.def}), append(ids, p.name+" "+p.digest)
	}
	faults := joined(r.cfg.Registry.Provide(Source, list))
	for _, p := range r.posts {
		was := p.why
		p.why = ""
		if p.digest != "" && r.cfg.Registry.Source(p.name) != Source {
			p.why = cmp.Or(faults[p.name], "the registry does not take it")
		}
		if p.why != "" && p.why != was {
			r.log.Warn("a worker's tool is refused", "tool", p.name, "definition", p.digest, "why", p.why)
		}
	}
	if kept := fmt.Sprint(ids); r.cfg.Keep != nil && kept != r.kept {
		r.kept = kept
		r.cfg.Keep(known)
	}
}

// joined are the registry's complaints by the name that each begins with.
func joined(err error) map[string]string {
	out := make(map[string]string)
	each, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return out
	}
	for _, e := range each.Unwrap() {
		text, _ := strings.CutPrefix(e.Error(), tools.ErrTool.Error()+": ")
		name := strings.Trim(text[:max(strings.IndexAny(text, " :"), 0)], `"`)
		out[name] = text
	}
	return out
}

// age lets go who has not been heard of for long. The lock is held.
func (r *Roster) age(now time.Time) []word {
	var words []word
	changed := false
	for _, name := range slices.Sorted(maps.Keys(r.posts)) {
		p := r.posts[name]
		before := len(p.seats)
		maps.DeleteFunc(p.seats, func(w bus.Worker, s *seat) bool {
			late := now.Sub(s.heard) > r.cfg.gone()
			if late {
				r.log.Info("a worker is gone: nothing was heard of it", "tool", name, "worker", w.String(), "for", now.Sub(s.heard).Round(time.Second))
			}
			return late
		})
		switch {
		case p.why != "" || len(p.seats) != before:
			words = append(words, r.settle(p, now)...)
		case p.served():
			p.seen = now
		}
		if len(p.seats) == 0 && now.Sub(p.seen) > r.cfg.gone() {
			delete(r.posts, name)
			changed = changed || p.digest != ""
			r.log.Info("a worker's tool is gone: nobody serves it", "tool", name)
		}
	}
	if changed {
		r.provide()
	}
	maps.DeleteFunc(r.asked, func(_ bus.Worker, at time.Time) bool { return now.Sub(at) > time.Second })
	return words
}

// serves says whether a worker serves the tool by that definition, as it has announced.
func (r *Roster) serves(w bus.Worker, tool, digest string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.posts[tool]
	return p != nil && p.seats[w] != nil && p.seats[w].digest == digest
}
