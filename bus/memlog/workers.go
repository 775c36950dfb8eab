package memlog

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/bus"
)

var _ bus.Workers = (*View)(nil)

// maxSaid is the size in bytes of the largest message, as a server has it by default.
const maxSaid = 1 << 20

// line is one who listens, and what was not heard yet. unheard is guarded by log.mu.
type line struct {
	view     *View
	patterns [][]string
	shared   string // the one of the patterns that a queue group shares; "" means none
	unheard  []spoken
	missed   int
	closed   bool
}

type spoken struct {
	subject, reply string
	body           []byte
	nobody         bool
}

// listen adds a line.
func (v *View) listen(ctx context.Context, shared []string, patterns ...string) (*line, error) {
	l := &line{view: v}
	for _, p := range append(slices.Clone(shared), patterns...) {
		l.patterns = append(l.patterns, strings.Split(p, "."))
	}
	if len(shared) > 0 {
		l.shared = bus.ToolPrefix
	}
	if err := v.enter(ctx); err != nil {
		return nil, err
	}
	defer v.log.mu.Unlock()
	v.log.lines = append(v.log.lines, l)
	return l, nil
}

// close ends a line.
func (l *line) close() {
	l.view.set(func() {
		l.closed = true
		l.view.log.lines = slices.DeleteFunc(l.view.log.lines, func(o *line) bool { return o == l })
	})
}

// next waits for what is said next.
func (l *line) next(ctx context.Context) (s spoken, err error) {
	err = l.view.wait(ctx, func() bool {
		if l.closed {
			return true
		}
		if len(l.unheard) == 0 {
			return false
		}
		s, l.unheard = l.unheard[0], l.unheard[1:]
		return true
	})
	if err == nil && s.subject == "" {
		err = fmt.Errorf("%w: it is closed", bus.ErrUnavailable)
	}
	return s, err
}

// say publishes. Of those who share a subject one hears it, in turn.
func (v *View) say(ctx context.Context, s spoken) error {
	if len(s.body) > maxSaid {
		return fmt.Errorf("%s: %w: %d bytes", s.subject, bus.ErrTooLarge, len(s.body))
	}
	s.body = slices.Clone(s.body)
	if err := v.enter(ctx); err != nil {
		return err
	}
	defer v.log.mu.Unlock()
	if !v.log.spread(s) && strings.HasPrefix(s.subject, bus.ToolPrefix) && s.reply != "" {
		v.log.spread(spoken{subject: s.reply, nobody: true})
	}
	v.log.announce()
	return nil
}

// spread hands s to the lines that match, and says whether there are any. The lock is held.
func (l *Log) spread(s spoken) (heard bool) {
	tokens := strings.Split(s.subject, ".")
	for i, o := range l.lines {
		if o.view.reachable() != nil || !slices.ContainsFunc(o.patterns, func(p []string) bool { return matches(p, tokens) }) {
			continue
		}
		heard = true
		if len(o.unheard) < bus.MaxUnheard {
			o.unheard = append(o.unheard, s)
		} else {
			o.missed++
		}
		if o.shared != "" && strings.HasPrefix(s.subject, o.shared) {
			l.lines = append(slices.Delete(l.lines, i, i+1), o) // the next one is another's
			return true
		}
	}
	return heard
}

// HearWorkers is bus.Workers'.
func (v *View) HearWorkers(ctx context.Context, hear func(bus.Announcement)) error {
	l, err := v.listen(ctx, nil, bus.HerePrefix+"*.*.*")
	if err != nil {
		return fmt.Errorf("hear workers: %w", err)
	}
	defer l.close()
	hear(bus.Announcement{})
	for {
		s, err := l.next(ctx)
		if err != nil {
			return fmt.Errorf("hear workers: %w", err)
		}
		if tool, w, err := bus.ParseHereSubject(s.subject); err == nil {
			hear(bus.Announcement{Tool: tool, Worker: w, Body: s.body})
		}
	}
}

// TellWorker is bus.Workers'.
func (v *View) TellWorker(ctx context.Context, w bus.Worker, body []byte) error {
	return v.say(ctx, spoken{subject: bus.WorkerSubject(w), body: body})
}

// job is bus.Job.
type job struct {
	ctx      context.Context // of OpenJob, without its end: for what has no context
	line     *line
	boot, id string
	place    string // guarded by log.mu; "" while nobody has the job
}

// OpenJob is bus.Workers'.
func (v *View) OpenJob(ctx context.Context, boot string) (bus.Job, error) {
	id := rand.Text()
	l, err := v.listen(ctx, nil, bus.AnswerSubject(boot, id, "*"))
	if err != nil {
		return nil, fmt.Errorf("open a job: %w", err)
	}
	return &job{ctx: context.WithoutCancel(ctx), line: l, boot: boot, id: id}, nil
}

// Offer is bus.Job's.
func (j *job) Offer(tool string, body []byte) error {
	return j.line.view.say(j.ctx, spoken{subject: bus.ToolSubject(tool), reply: bus.AnswerSubject(j.boot, j.id, bus.OfferPlace), body: body})
}

// Hand is bus.Job's.
func (j *job) Hand(w bus.Worker, body []byte) error {
	place := rand.Text()
	j.line.view.set(func() { j.place = place })
	return j.line.view.say(j.ctx, spoken{subject: bus.WorkerSubject(w), reply: bus.AnswerSubject(j.boot, j.id, place), body: body})
}

// Hear is bus.Job's.
func (j *job) Hear(ctx context.Context) (bus.Said, error) {
	for {
		s, err := j.line.next(ctx)
		if err != nil {
			return bus.Said{}, fmt.Errorf("hear a worker: %w", err)
		}
		at := s.subject[strings.LastIndexByte(s.subject, '.')+1:]
		j.line.view.log.mu.Lock()
		place, missed := j.place, j.line.missed
		j.line.view.log.mu.Unlock()
		switch at {
		case bus.OfferPlace:
			return bus.Said{Nobody: s.nobody, Missed: missed, Body: s.body}, nil
		case place:
			return bus.Said{Taken: true, Missed: missed, Body: s.body}, nil
		}
	}
}

// Close is bus.Job's.
func (j *job) Close() { j.line.close() }

// seat is bus.Seat.
type seat struct {
	ctx  context.Context // as in job
	line *line
	w    bus.Worker
}

// Seat makes a worker of whoever calls it, with the tools that it serves.
func (v *View) Seat(ctx context.Context, w bus.Worker, tools ...string) (bus.Seat, error) {
	var shared []string
	for _, t := range tools {
		shared = append(shared, bus.ToolSubject(t))
	}
	l, err := v.listen(ctx, shared, bus.WorkerSubject(w), bus.AllWorkers)
	if err != nil {
		return nil, fmt.Errorf("seat worker %s: %w", w, err)
	}
	return &seat{ctx: context.WithoutCancel(ctx), line: l, w: w}, nil
}

// Announce is bus.Seat's.
func (s *seat) Announce(tool string, body []byte) error {
	return s.line.view.say(s.ctx, spoken{subject: bus.HereSubject(tool, s.w), body: body})
}

// Hear is bus.Seat's.
func (s *seat) Hear(ctx context.Context) (bus.Heard, error) {
	m, err := s.line.next(ctx)
	tool, _ := strings.CutPrefix(m.subject, bus.ToolPrefix)
	if tool == m.subject {
		tool = ""
	}
	return bus.Heard{Tool: tool, Reply: m.reply, Body: m.body}, err
}

// Answer is bus.Seat's.
func (s *seat) Answer(reply string, body []byte) error {
	return s.line.view.say(s.ctx, spoken{subject: reply, body: body})
}

// Close is bus.Seat's.
func (s *seat) Close() { s.line.close() }
