package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/tools/remote/wire"
)

// Subjects of the contract between nodes and workers; docs/remote-tools.md has all of it.
const (
	offerSubject  = "sluice.tool."   // <tool>
	hereSubject   = "sluice.here."   // <tool>.<user>.<instance>
	toldSubject   = "sluice.worker." // <user>.<instance>
	allSubject    = "sluice.workers"
	workersQueue  = "workers"
	maxTools      = 256
	maxInstance   = 40
	defaultRoom   = 16
	defaultEvery  = 2 * time.Second
	defaultDrain  = 10 * time.Second
	awaitGo       = 5 * time.Second  // how long an offer that was accepted waits for the go
	awaitLast     = time.Second      // the same, of a worker that is to leave
	awaitDone     = 30 * time.Second // how long an end is repeated that no node has heard
	reach         = 5 * time.Second  // how long a server may take to answer
	maxUnheard    = 4096
	maxUnheardLen = 64 << 20
)

// WorkerConfig says how a worker serves. The zero value of each field but Conn has a
// meaning.
type WorkerConfig struct {
	// Conn is the connection to the NATS servers that the nodes use. It should reconnect
	// for ever, as nats.MaxReconnects(-1) has it. Serve does not close it. Required.
	Conn *nats.Conn
	// User is the NATS user as whom Conn connects, whose permissions name it in the
	// worker's subjects; "" means worker, for servers that know no users.
	User string
	// Instance tells the processes of a user apart: 1 to 40 of A-Za-z0-9-; "" makes one.
	Instance string
	// About is what this worker is, for people; "" means its program, host and process.
	About string
	// Room is how many attempts run at once, all tools together; 0 means 16.
	Room int
	// Every is how often the worker announces itself; 0 means 2 s.
	Every time.Duration
	// Drain is how long attempts may go on once ctx has ended; 0 means 10 s. Then their
	// contexts end.
	Drain time.Duration
	// Log hears what an operator should know; nil discards.
	Log *slog.Logger
}

// ErrWorker says that a worker cannot serve, and why.
var ErrWorker = errors.New("the worker cannot serve")

// Serve serves tools to the nodes until ctx ends: it announces them, takes attempts that
// nodes offer, runs them, each on a goroutine of its own, and answers. Then it drains: it
// takes nothing new, lets what runs end within WorkerConfig.Drain, ends the contexts of
// what is left, and waits for it. It returns nil then, or an error that wraps ErrWorker
// where it cannot begin. A tool that panics ends the process, as everywhere in Go: its
// nodes notice.
func Serve(ctx context.Context, cfg WorkerConfig, list ...WorkerTool) error {
	w, err := newWorker(ctx, cfg, list)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrWorker, err)
	}
	defer w.leave()
	if err := w.open(); err != nil {
		return fmt.Errorf("%w: %w", ErrWorker, err)
	}
	tick := time.NewTicker(w.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			w.drain(ctx)
			return nil
		case <-tick.C:
			w.announce(wire.TypeHere, false)
		}
	}
}

// worker is a running Serve.
type worker struct {
	cfg   WorkerConfig
	name  string // <user>.<instance>, as subjects have it
	since time.Time
	tools map[string]*served
	ctx   context.Context // of what runs: it outlives Serve's by the drain
	stop  context.CancelFunc
	subs  []*nats.Subscription
	wg    sync.WaitGroup

	mu     sync.Mutex
	leavs  bool          // it takes nothing new
	leaves chan struct{} // closed then
	work   map[string]*attempt
	busy   int // of work, those that have not ended
}

// served is a tool with what nodes call its definition.
type served struct {
	WorkerTool
	def      wire.Definition
	revision string

	mu   sync.Mutex
	told map[string]bool // digests that nodes have for the definition
}

func newWorker(ctx context.Context, cfg WorkerConfig, list []WorkerTool) (*worker, error) {
	cfg = cfg.withDefaults()
	w := &worker{cfg: cfg, since: time.Now().UTC(), tools: map[string]*served{}, work: map[string]*attempt{}, leaves: make(chan struct{})}
	w.name = token(cfg.User) + "." + cfg.Instance
	w.ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	switch {
	case cfg.Conn == nil:
		return w, errors.New("WorkerConfig.Conn is required: connect with nats.Connect")
	case !plain(cfg.Instance, maxInstance):
		return w, fmt.Errorf("instance %q: want 1 to %d of A-Za-z0-9-", cfg.Instance, maxInstance)
	case len(list) == 0 || len(list) > maxTools:
		return w, fmt.Errorf("%d tools: want 1 to %d", len(list), maxTools)
	}
	for _, t := range list {
		s, err := t.served()
		if err != nil {
			return w, fmt.Errorf("tool %q: %w", t.Name, err)
		}
		if w.tools[t.Name] != nil {
			return w, fmt.Errorf("tool %q is there twice", t.Name)
		}
		w.tools[t.Name] = s
	}
	return w, nil
}

func (c WorkerConfig) withDefaults() WorkerConfig {
	if c.User == "" {
		c.User = "worker"
	}
	if c.Instance == "" {
		c.Instance = rand.Text()
	}
	if c.About == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "?"
		}
		c.About = fmt.Sprintf("%s on %s, process %d", filepath.Base(os.Args[0]), host, os.Getpid())
	}
	if c.Room <= 0 {
		c.Room = defaultRoom
	}
	if c.Every <= 0 {
		c.Every = defaultEvery
	}
	if c.Drain <= 0 {
		c.Drain = defaultDrain
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// plain says whether s is 1 to most of A-Za-z0-9-.
func plain(s string, most int) bool {
	other := func(r rune) bool {
		return !(r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	}
	return s != "" && len(s) <= most && strings.IndexFunc(s, other) < 0
}

// token is a name as a token of subjects: other bytes than A-Za-z0-9_- are =XX, and so is
// a leading _.
func token(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c == '_' && i > 0 || plain(string(rune(c)), 1) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// open announces the tools, and then hears what is offered, in that order: a node hands
// nothing to a worker that it does not know.
func (w *worker) open() error {
	nc := w.cfg.Conn
	hear := func(subject string, f nats.MsgHandler) error {
		s, err := nc.Subscribe(subject, f)
		return w.keep(s, err)
	}
	if err := errors.Join(hear(toldSubject+w.name, w.hear), hear(allSubject, w.hear)); err != nil {
		return fmt.Errorf("hear what nodes say: %w", err)
	}
	w.announce(wire.TypeHere, true)
	for name := range w.tools {
		s, err := nc.QueueSubscribe(offerSubject+name, workersQueue, w.offered)
		if err := w.keep(s, err); err != nil {
			return fmt.Errorf("hear offers of %s: %w", name, err)
		}
	}
	if err := nc.FlushTimeout(reach); err != nil {
		return fmt.Errorf("reach the NATS server: %w", err)
	}
	return nil
}

func (w *worker) keep(s *nats.Subscription, err error) error {
	if err != nil {
		return err
	}
	w.subs = append(w.subs, s)
	return s.SetPendingLimits(maxUnheard, maxUnheardLen)
}

// announce says of all tools that they are here, or gone. whole says that their
// definitions go along.
func (w *worker) announce(kind string, whole bool) {
	w.mu.Lock()
	running := w.busy
	w.mu.Unlock()
	for name, t := range w.tools {
		h := wire.Here{
			V: wire.Version, Type: kind, Revision: t.revision, Since: w.since, EveryMS: w.cfg.Every.Milliseconds(),
			Running: running, Room: w.cfg.Room, About: w.cfg.About,
		}
		if whole {
			h.Tool = &t.def
		}
		w.say(hereSubject+name+"."+w.name, h)
	}
}

// say publishes a message; what is lost is said again, or asked for.
func (w *worker) say(subject string, v any) {
	body, err := wire.Encode(v)
	if err == nil {
		err = w.cfg.Conn.Publish(subject, body)
	}
	if err != nil {
		w.cfg.Log.Warn("a message to the nodes was not sent", "subject", subject, "err", err)
	}
}

// drain takes nothing new, and lets what runs end.
func (w *worker) drain(ctx context.Context) {
	w.takeNothing()
	w.announce(wire.TypeGone, false)
	ended := make(chan struct{})
	go func() { // it ends with the attempts, which leave waits for
		w.wg.Wait()
		close(ended)
	}()
	late := time.NewTimer(w.cfg.Drain)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		w.cfg.Log.Warn("attempts have not ended within the drain: they are cancelled", "after", w.cfg.Drain, "cause", context.Cause(ctx))
	}
}

// takeNothing has offers refused from now on.
func (w *worker) takeNothing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.leavs {
		w.leavs = true
		close(w.leaves)
	}
}

// leave ends everything, and waits for it.
func (w *worker) leave() {
	w.takeNothing()
	w.stop()
	w.wg.Wait()
	for _, s := range w.subs {
		_ = s.Unsubscribe() // fails only on a closed connection
	}
	if w.cfg.Conn != nil && w.cfg.Conn.IsConnected() {
		_ = w.cfg.Conn.FlushTimeout(time.Second) // the last words; who misses them notices the silence
	}
}

// hear takes what a node tells this worker, or all of them.
func (w *worker) hear(m *nats.Msg) {
	var t struct {
		Type, ID, Tool, Status, Definition, Why string
	}
	if err := json.Unmarshal(m.Data, &t); err != nil {
		return
	}
	switch t.Type {
	case wire.TypeDescribe:
		w.mu.Lock()
		leaving := w.leavs
		w.mu.Unlock()
		if !leaving {
			w.announce(wire.TypeHere, true)
		}
	case wire.TypeTold:
		if s := w.tools[t.Tool]; s != nil {
			s.learn(t.Definition)
			if t.Status == wire.StatusRefused {
				w.cfg.Log.Warn("a node refuses a tool of this worker", "tool", t.Tool, "why", t.Why)
			}
		}
	case wire.TypeGo, wire.TypePart, wire.TypeNo, wire.TypeCancel, wire.TypeDone:
		w.mu.Lock()
		a := w.work[t.ID]
		w.mu.Unlock()
		if a != nil {
			a.hear(t.Type, m)
		}
	}
}

// learn notes what a node calls the definition.
func (s *served) learn(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.told) > 64 {
		clear(s.told) // nodes of as many releases are none
	}
	s.told[digest] = true
}

// mine says whether an offer is of this definition, as far as nodes have told.
func (s *served) mine(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.told) == 0 || s.told[digest]
}

// offered answers an offer.
func (w *worker) offered(m *nats.Msg) {
	var o wire.Offer
	if err := json.Unmarshal(m.Data, &o); err != nil || m.Reply == "" || o.ID == "" {
		return
	}
	t := wire.Take{V: wire.Version, Type: wire.TypeRefuse, Worker: w.name}
	if t.Why = w.refuses(o); t.Why == "" {
		t.Type = wire.TypeAccept
	}
	w.say(m.Reply, t)
}

// refuses is why an offer is not taken; "" where it is, and then waits for its go.
func (w *worker) refuses(o wire.Offer) string {
	s := w.tools[o.Tool]
	switch {
	case o.V != wire.Version:
		return wire.WhyVersion
	case s == nil || !s.mine(o.Definition):
		return wire.WhyDefinition
	case !s.can(o.Verb):
		return wire.WhyVerb
	case o.LeftMS <= 0 || !o.Deadline.IsZero() && o.Deadline.Year() > 1 && time.Now().After(o.Deadline):
		return wire.WhyDeadline
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.leavs:
		return wire.WhyDraining
	case w.work[o.ID] != nil:
		return "" // offered twice, since the first word took long
	case w.busy >= w.cfg.Room:
		return wire.WhyBusy
	}
	w.busy++
	a := &attempt{w: w, tool: s, offer: o, in: make(chan noted, 64), over: make(chan struct{})}
	w.work[o.ID] = a
	w.wg.Go(a.run)
	return ""
}

// free gives an attempt's room to the next one: it has ended.
func (w *worker) free() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
}

// forget drops an attempt whose end the node has heard.
func (w *worker) forget(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.work, a.offer.ID)
}
