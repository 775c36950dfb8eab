package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// State is how a server stands.
type State string

// The states of a server.
const (
	Connecting State = "connecting"
	Up         State = "up"
	Down       State = "down" // it will be tried again
	Stopped    State = "stopped"
)

// server keeps one server connected, and its tools registered. A server that was there
// once keeps its last tools while it is away: a model's list does not flicker, and calls
// are told that the server is down. One that was not there yet has those that the
// operator's file names.
type server struct {
	spec Server
	cfg  Config
	log  *slog.Logger
	room chan struct{} // calls at once

	mu      sync.Mutex
	state   State
	why     error         // of Down
	last    string        // why it was down last
	retry   time.Time     // of Down: when it is tried again
	turn    chan struct{} // closed when the state changes next
	session *session      // of Up
	tools   []Offer
	bad     []error
	refused error // what the registry said of the tools
	known   bool  // it has been there
	older   bool  // it is asked for an older revision; run's own
	newer   bool  // it has spoken the newest one; run's own
	tried   chan struct{}
	once    sync.Once
	hung    events.CallKey // the call with which it became deaf last
}

func newServer(spec Server, cfg Config) *server {
	at := spec.AtOnce
	if at == 0 {
		at = defaultAtOnce
	}
	return &server{
		spec: spec, cfg: cfg, log: cfg.Log.With("server", spec.Name), room: make(chan struct{}, at),
		state: Connecting, turn: make(chan struct{}), tried: make(chan struct{}),
	}
}

// source is what the registry knows a server by.
func source(name string) string { return "mcp server " + name }

// run keeps the server connected until ctx ends.
func (s *server) run(ctx context.Context) {
	s.standIn()
	failures := 0
	for ctx.Err() == nil {
		lasted, err := s.serve(ctx)
		if ctx.Err() != nil {
			break
		}
		if lasted >= s.cfg.Times.Healthy {
			failures = 0
		}
		s.down(err, s.pause(failures))
		failures++
		s.rest(ctx)
	}
	s.to(Stopped, nil, nil)
	_ = s.cfg.Provide(source(s.spec.Name), nil) // taking away refuses nothing
}

// pause is how long to wait after so many failures in a row: the first is taken for an
// accident.
func (s *server) pause(failures int) time.Duration {
	if failures == 0 && s.isKnown() {
		return 0
	}
	wait := min(s.cfg.Times.Backoff<<min(failures, 16), s.cfg.Times.MaxPause)
	return wait/2 + time.Duration(s.cfg.Rand()*float64(wait)/2)
}

func (s *server) isKnown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// rest waits until the server is tried again.
func (s *server) rest(ctx context.Context) {
	s.mu.Lock()
	wait := time.Until(s.retry)
	s.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	s.to(Connecting, nil, nil)
}

// serve connects, and returns why the connection has ended, and how long it lasted.
func (s *server) serve(ctx context.Context) (lasted time.Duration, err error) {
	attempt, stop := context.WithTimeoutCause(ctx, s.cfg.Times.Connect, fmt.Errorf("it was not ready within %v", s.cfg.Times.Connect))
	defer stop()
	x, err := open(attempt, ctx, s.spec, s.cfg, s.older)
	if err != nil {
		if attempt.Err() != nil && !s.newer { // it heard something, and said nothing
			s.older = !s.older
		}
		return 0, err
	}
	s.older = x.revision() < newRevision
	s.newer = s.newer || !s.older
	l, err := x.list(attempt)
	if err != nil {
		x.end(err)
		return 0, err
	}
	stop()
	began := time.Now()
	s.provide(l)
	s.mu.Lock()
	s.last = ""
	s.mu.Unlock()
	s.to(Up, x, nil)
	s.log.Info("an MCP server is connected", "revision", x.revision(), "tools", len(s.offers()))
	err = s.follow(x, l.fresh)
	if errors.Is(err, errDeaf) {
		s.mu.Lock()
		s.hung = x.tap.hearing.culprit()
		s.mu.Unlock()
	}
	s.to(Connecting, nil, nil) // who calls now waits for what comes next
	x.end(err)
	return time.Since(began), err
}

// follow keeps the list of tools, until the session ends. It returns why that has.
func (s *server) follow(x *session, fresh time.Duration) error {
	var last time.Time // a word of change finds the list that came with the connection old enough
	for {
		due := s.due(x, fresh)
		select {
		case <-x.ctx.Done():
			return context.Cause(x.ctx)
		case <-x.tap.changed:
		case <-due:
		}
		if !s.settle(x, time.Until(last.Add(s.cfg.Times.Relist))) {
			return context.Cause(x.ctx)
		}
		last = time.Now()
		ctx, stop := context.WithTimeout(x.ctx, s.cfg.Times.Connect)
		l, err := x.list(ctx)
		stop()
		if err != nil {
			s.log.Warn("an MCP server does not list its tools: the last list counts", "err", err)
			x.suspect()
			continue
		}
		fresh = l.fresh
		s.provide(l)
	}
}

// deafRelist is how often the list of a server is asked for that cannot tell of changes
// any more.
const deafRelist = time.Minute

// due is when the list is to be asked for without a word of the server; nil: never.
func (s *server) due(x *session, fresh time.Duration) <-chan time.Time {
	switch {
	case fresh > 0:
		return time.After(fresh)
	case x.wire != nil && x.wire.deaf.Load():
		return time.After(deafRelist)
	}
	return nil
}

// settle lets a server that changes its list all the time do so at its own cost: the first
// change is looked at at once, so that a tool is there when it is called.
func (s *server) settle(x *session, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		select {
		case <-x.tap.changed: // it is in the list that is asked for now
		default:
		}
		return true
	case <-x.ctx.Done():
		return false
	}
}

// provide registers what the server lists.
func (s *server) provide(l listing) {
	list, offers, bad := s.made(l)
	refused := s.cfg.Provide(source(s.spec.Name), list)
	s.mu.Lock()
	before := append(slices.Clone(s.bad), each(s.refused)...)
	offers = slices.DeleteFunc(offers, func(o Offer) bool { return refuses(refused, o.Name) })
	s.tools, s.bad, s.refused, s.known = offers, bad, refused, true
	s.mu.Unlock()
	for _, err := range slices.Concat(bad, each(refused)) {
		if !told(before, err) {
			s.log.Warn("a tool of an MCP server is not there", "err", err)
		}
	}
}

// refuses says whether the registry's error is about a tool, too: each begins with a name.
func refuses(err error, tool string) bool {
	for _, e := range each(err) {
		about, _ := strings.CutPrefix(e.Error(), tools.ErrTool.Error()+": ")
		about, _, _ = strings.Cut(about+" ", " ")
		if strings.Trim(about, `":`) == tool {
			return true
		}
	}
	return false
}

func told(before []error, err error) bool {
	for _, b := range before {
		if b.Error() == err.Error() {
			return true
		}
	}
	return false
}

// standIn registers the tools that the operator's file names, for as long as the server
// has not been there: who calls one is told so.
func (s *server) standIn() {
	var list []tools.Tool
	for _, name := range s.spec.named() {
		list = append(list, s.tool(definition{Name: name, InputSchema: anyObject, Description: "The server of this tool has not been reached yet."}))
	}
	if err := s.cfg.Provide(source(s.spec.Name), list); err != nil {
		s.log.Warn("tools of an MCP server are not registered", "err", err)
	}
}

// to changes the state.
func (s *server) to(state State, x *session, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.session, s.why = state, x, why
	close(s.turn)
	s.turn = make(chan struct{})
	if state != Connecting {
		s.once.Do(func() { close(s.tried) })
	}
}

// down says that the server is away, and for how long at least.
func (s *server) down(why error, pause time.Duration) {
	s.mu.Lock()
	s.retry = time.Now().Add(pause)
	again := s.last == why.Error()
	s.last = why.Error()
	s.mu.Unlock()
	s.to(Down, nil, why)
	tell := s.log.Warn
	if again {
		tell = s.log.Debug // it has been said
	}
	tell("an MCP server is down", "err", why, "again", pause.Round(time.Millisecond))
}

// errDown says that a server is not there.
var errDown = errors.New("is down")

// errStuck says that a call's time has passed while the server did not hear.
var errStuck = errors.New("the server does not hear while it has another call")

// soon is a pause so short that a call waits for what comes after it.
const soon = 2 * time.Second

// reach returns the session. It waits for one that is being opened, or soon will be, and
// fails where the server is down: with errDown, and after how long it is tried again.
func (s *server) reach(ctx context.Context) (*session, time.Duration, error) {
	patience := time.NewTimer(s.cfg.Times.Patience)
	defer patience.Stop()
	for {
		s.mu.Lock()
		state, x, why, turn, again := s.state, s.session, s.why, s.turn, time.Until(s.retry)
		s.mu.Unlock()
		switch {
		case state == Up && x.ctx.Err() == nil:
			word := x.tap.hearing.doubt()
			if word == nil {
				return x, 0, nil
			}
			select { // with what it has, it has the time that calls have
			case <-word:
			case <-x.ctx.Done():
			case <-ctx.Done():
				return nil, 0, errStuck
			}
			patience.Reset(s.cfg.Times.Patience) // for what comes next
			continue
		case state == Stopped:
			return nil, 0, fmt.Errorf("server %s: %w: it was taken out of the file of servers", s.spec.Name, errDown)
		case state == Down && again > soon:
			return nil, again, fmt.Errorf("server %s %w: %s", s.spec.Name, errDown, forCallers(why))
		}
		select {
		case <-turn:
		case <-patience.C:
			return nil, time.Second, fmt.Errorf("server %s %w: it is being connected, which takes longer than %v", s.spec.Name, errDown, s.cfg.Times.Patience)
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// yields says whether a call has made the server deaf, when it was sent before: others go
// first then, since it may well do so again.
func (s *server) yields(c events.CallKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hung == c
}

func (s *server) offers() []Offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}
