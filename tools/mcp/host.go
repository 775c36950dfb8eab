package mcp

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-run/sluice/events"
)

// Host keeps servers. It may be used from many goroutines.
type Host struct {
	cfg Config
	own context.Context // of all servers; ends with Stop
	end context.CancelFunc

	mu      sync.Mutex
	running map[string]*running
	wg      sync.WaitGroup
}

type running struct {
	*server
	stop  context.CancelFunc
	ended chan struct{}
}

// NewHost makes a host without servers. ctx is the life of what it will keep, beside Stop.
func NewHost(ctx context.Context, cfg Config) *Host {
	h := &Host{cfg: cfg.withDefaults(), running: make(map[string]*running)}
	h.own, h.end = context.WithCancel(ctx)
	return h
}

// Apply makes list the servers that are kept. One whose entry has changed is stopped and
// begun anew, one that is gone is stopped and its tools are taken away, any other goes on
// undisturbed. It returns once what is stopped has ended; what is begun is not waited for.
// A call that runs on a server that is stopped ends at once.
func (h *Host) Apply(list []Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.own.Err() != nil {
		return
	}
	var stopped []*running
	for name, r := range h.running {
		i := slices.IndexFunc(list, func(s Server) bool { return s.Name == name })
		if i < 0 || !reflect.DeepEqual(list[i], r.spec) {
			r.stop()
			stopped = append(stopped, r)
			delete(h.running, name)
		}
	}
	for _, r := range stopped {
		<-r.ended
	}
	for _, s := range list {
		if h.running[s.Name] == nil {
			h.begin(s)
		}
	}
}

// begin starts to keep a server. The caller holds mu.
func (h *Host) begin(s Server) {
	ctx, stop := context.WithCancel(h.own)
	r := &running{server: newServer(s, h.cfg), stop: stop, ended: make(chan struct{})}
	h.running[s.Name] = r
	h.wg.Go(func() {
		defer close(r.ended)
		defer stop()
		r.run(ctx)
	})
}

// Stop ends all servers, and returns once nothing of them runs.
func (h *Host) Stop() {
	h.end()
	h.wg.Wait()
}

// Tried returns once each server is connected or has failed once, or ctx ends.
func (h *Host) Tried(ctx context.Context) {
	for _, r := range h.all() {
		select {
		case <-r.tried:
		case <-ctx.Done():
			return
		}
	}
}

func (h *Host) all() []*running {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*running
	for _, r := range h.running {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *running) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	return out
}

// Status is how one server stands.
type Status struct {
	Server   string
	State    State
	Why      string // of Down: why; made visible
	Revision string // of Up: of the protocol
	Name     string // of Up: what the server calls itself, and its version; made visible
	Tools    []Offer
	Refused  []string // tools that are not registered, or not there though the file names them, each with why
}

// Offer is one tool of a server, as it is offered.
type Offer struct {
	Name    string // as it is registered
	Own     string // as the server calls it
	Tier    events.Tier
	Why     string // why it has that tier
	Version string
}

// Status is how all servers stand, sorted by name.
func (h *Host) Status() []Status {
	var out []Status
	for _, r := range h.all() {
		out = append(out, r.status())
	}
	return out
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Server: s.spec.Name, State: s.state, Tools: slices.Clone(s.tools)}
	if s.why != nil {
		st.Why = events.Visible(s.why.Error())
	}
	if s.session != nil {
		st.Revision = s.session.revision()
		if r := s.session.cs.InitializeResult(); r != nil && r.ServerInfo != nil {
			st.Name = shown(strings.TrimSpace(r.ServerInfo.Name + " " + r.ServerInfo.Version))
		}
	}
	for _, err := range append(slices.Clone(s.bad), each(s.refused)...) {
		st.Refused = append(st.Refused, events.Visible(err.Error()))
	}
	return st
}

// each are the errors that one is joined of.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
