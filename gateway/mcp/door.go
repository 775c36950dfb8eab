// Package mcp lets clients of the Model Context Protocol call a node's tools: over HTTP
// at a path of the node's door, and over the standard streams of a process that an agent
// starts. Every tools/call becomes a call of a turn. It decides nothing: it translates,
// says in whose name, bounds, and hands over.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
)

// Config is how a door of the protocol behaves. Zero fields mean what stands beside them.
type Config struct {
	// Tools are patterns of path.Match for the names of the tools that are shown and can
	// be called; none: all of them. CheckTools says what is wrong with one.
	Tools []string
	// Allow is a principal's allowlist, by exact names: what is not in it is not shown, and
	// if it is called all the same the gates deny it. nil: everybody may call every tool.
	Allow func(principal string) []string
	// Approver names the person who answers at the client of a principal: what is said to
	// an elicitation there is that person's word. "" means that nobody's is, and who answers
	// answers at the inbox. nil: there is nobody at any client.
	Approver func(asker events.Principal) string
	// AskClients says that what a tool itself asks is also put before clients of principals
	// who have no Approver. What is said there is recorded as the client program's word, a
	// service by the name of "client:" and the principal. Else it waits at the inbox: an
	// agent may be what answers for a client, and it does not answer what it has caused.
	AskClients bool
	// Inbox says that what a tool itself asks is put before people at the inbox alone, though
	// there are an Approver and AskClients.
	Inbox bool
	// Patience is how long a request is held whose call waits for a person, before it is
	// answered that the call waits; 0 means 50 s. The call goes on waiting.
	Patience time.Duration
	// Linger is how long a call above readonly goes on whose client has closed the stream
	// of its request, in case the same request comes again; then its end is asked for.
	// Of a closed stream nobody can tell a cancel from a lost network. 0 means 2 s,
	// negative not at all.
	Linger time.Duration
	// Look is how often it is looked whether the list of tools has changed; 0 means 2 s.
	Look     time.Duration
	Fixtures bool             // also the resources and prompts that the protocol's conformance suite reads
	Version  string           // of the program, for clients
	Now      func() time.Time // nil means time.Now
	NewID    func() string    // makes ids of turns and traces; nil means ULIDs
	Log      *slog.Logger     // nil discards
}

// CheckTools returns nil for patterns that Config.Tools takes, or says which is none.
func CheckTools(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return fmt.Errorf("%q is no pattern of names: * stands for any letters, ? for one, [ab] for one of several", p)
		}
	}
	return nil
}

// Backend is what a door stands before: a log with its node. It may change.
type Backend struct {
	Desk  *gateway.Desk
	Tools func(ctx context.Context) ([]Tool, error) // sorted by name
	Where string                                    // how a person answers what waits, in a sentence; "" says the inbox
}

// Door speaks the protocol. Make one with New, give it a Backend with Use, and Close it.
// It may be used from many goroutines at once.
type Door struct {
	cfg   Config
	id    string // of this door, among those of the cluster
	ids   ids    // of clients' messages
	impl  *sdk.Implementation
	caps  *sdk.ServerCapabilities
	kept  *sdk.Server // of sessions that last: those of HTTP before 2026-07-28, and standard streams
	brief *sdk.Server // of sessions that are one request: HTTP from 2026-07-28 on
	http  struct{ kept, brief http.Handler }

	life  context.Context // ends with Close: requests in flight have nothing else to hear it by
	ended context.CancelFunc
	wg    sync.WaitGroup
	left  sync.WaitGroup // of calls whose end is asked for, since nobody waits for them any more

	showing sync.Mutex        // guards shown, and changes of edition
	shown   map[string]string // the tools of the list, by name: a digest of what is told of each
	edition atomic.Int64      // of the list: another one for each change; 0: there was none yet

	mu     sync.Mutex
	back   *backend
	newer  chan struct{}   // closed when back changes
	all    map[string]Tool // that can be called
	visits map[string]*visit
	ears   map[events.TurnKey]map[*ear]struct{}
	giving map[events.TurnKey]*giving
	owners map[string]string // session: who opened it
}

// backend is a Backend in use.
type backend struct {
	Backend
	ctx  context.Context // ends when another one takes its place
	stop context.CancelFunc
}

// maxBody is the length in bytes of the longest body that the SDK is given, with the texts in
// the place of ids.
const maxBody = gateway.MaxBody + 1<<20

// New makes a door, which ends with ctx, as by Close. It starts nothing.
func New(ctx context.Context, c Config) *Door {
	c.Patience, c.Linger, c.Look = cmp.Or(c.Patience, 50*time.Second), cmp.Or(c.Linger, 2*time.Second), cmp.Or(c.Look, 2*time.Second)
	if c.Allow == nil {
		c.Allow = func(string) []string { return nil }
	}
	if c.Approver == nil {
		c.Approver = func(events.Principal) string { return "" }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = func() string { return ulid.Make().String() }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	d := &Door{
		cfg: c, id: c.NewID(), ids: newIDs(), newer: make(chan struct{}),
		shown: make(map[string]string), all: make(map[string]Tool), visits: make(map[string]*visit),
		ears: make(map[events.TurnKey]map[*ear]struct{}), giving: make(map[events.TurnKey]*giving), owners: make(map[string]string),
		impl: &sdk.Implementation{Name: "sluice", Title: "Sluice", Version: cmp.Or(c.Version, "unknown")},
		caps: logging(&sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}, Resources: &sdk.ResourceCapabilities{}}),
	}
	d.life, d.ended = context.WithCancel(ctx)
	d.kept, d.brief = d.server(), d.server()
	d.http.kept = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return d.kept }, &sdk.StreamableHTTPOptions{
		SessionTimeout: sessionIdle, DisableLocalhostProtection: true, MaxRequestBodyBytes: maxBody, // the door around it looks at names
	})
	d.http.brief = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return d.brief }, &sdk.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, DisableLocalhostProtection: true, MaxRequestBodyBytes: maxBody,
	})
	return d
}

// instructions are for the model at the other end.
const instructions = "These tools run through Sluice: each call is checked against a policy, recorded, and may wait for a person's approval. " +
	"An answer that says a call may have happened means: do not repeat it, check first whether it took effect."

func (d *Door) server() *sdk.Server {
	o := &sdk.ServerOptions{
		Instructions: instructions, Capabilities: d.caps,
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) {
			c.TTLMs, c.CacheScope = int(listFresh.Milliseconds()), "private"
		},
	}
	if d.cfg.Fixtures {
		subscribed(o)
	}
	s := sdk.NewServer(d.impl, o)
	if d.cfg.Fixtures {
		addFixtures(s)
	}
	s.AddResourceTemplate(blobTemplate(), d.readBlob)
	s.AddReceivingMiddleware(d.middleware)
	return s
}

// Use puts the door before a backend, in the place of the one before, until ctx ends.
// Requests in flight go on at the new one. It returns once tools can be called, or an error where the list
// cannot be had; then the door stays as it is.
func (d *Door) Use(ctx context.Context, b Backend) error {
	list, err := b.Tools(ctx)
	if err != nil {
		return fmt.Errorf("the list of tools: %w", err)
	}
	own, stop := context.WithCancel(ctx)
	back := &backend{Backend: b, ctx: own, stop: stop}
	d.mu.Lock()
	if d.life.Err() != nil {
		d.mu.Unlock()
		stop()
		return errClosed
	}
	if d.back != nil {
		d.back.stop()
	}
	d.back = back
	close(d.newer)
	d.newer = make(chan struct{})
	d.mu.Unlock()
	d.show(list)
	for _, kind := range heardKinds {
		d.wg.Go(func() { d.listen(back, kind) })
	}
	d.wg.Go(func() { d.look(back) })
	return nil
}

var (
	errClosed = errors.New("the door is closed")
	errLeft   = errors.New("the node behind the door has gone")
)

// behind is the backend in use, and waits for one where there is none.
func (d *Door) behind(ctx context.Context) (*backend, error) {
	for {
		d.mu.Lock()
		back, newer := d.back, d.newer
		d.mu.Unlock()
		if back != nil && back.ctx.Err() == nil {
			return back, nil
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-d.life.Done():
			return nil, errClosed
		}
	}
}

// noNode is how long a request waits for a node to come back.
const noNode = time.Minute

var errNoNode = errors.New("no node runs behind this server: start it again")

// soon is behind, for a request: it waits for noNode at most.
func (d *Door) soon(ctx context.Context) (*backend, error) {
	bounded, stop := context.WithTimeoutCause(ctx, noNode, errNoNode)
	defer stop()
	back, err := d.behind(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = errNoNode
	}
	return back, err
}

// Close ends every session and every request, and waits for them. Calls that run go on, but
// for those that their clients had left before: their end is asked for by then. It must be
// called once.
func (d *Door) Close() {
	d.ended()
	for _, s := range []*sdk.Server{d.kept, d.brief} {
		for ss := range s.Sessions() {
			_ = ss.Close() // there is nobody to tell
		}
	}
	d.left.Wait() // the node is behind the door for so long
	d.mu.Lock()
	if d.back != nil {
		d.back.stop()
	}
	d.mu.Unlock()
	d.wg.Wait()
}
