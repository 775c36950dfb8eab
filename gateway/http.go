package gateway

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections/readstore"
)

// Bounds of a request.
const (
	MaxBody     = 8 << 20          // bytes of a request's body
	maxHeaders  = 64 << 10         // bytes of its headers
	bodyLimit   = 30 * time.Second // to send the body
	headerLimit = 5 * time.Second  // to send the headers, and for the handshake before them
	maxStreams  = 64               // event streams at once, where nothing else is said
)

// APIConfig is what the HTTP door is made of. Desk is required; zero elsewhere
// means the default beside the field.
type APIConfig struct {
	Desk *Desk
	// Tools is the list of tools as a provider's API takes it, sorted, without
	// those whose circuit is open. nil: the node has none to show.
	Tools func(ctx context.Context, format string) (json.RawMessage, error)
	// Explain judges a call that is not made, as the node behind the door would. nil: there is none.
	Explain func(context.Context, Supposed) (Explained, error)
	Ready   func(ctx context.Context) error // why no turn would be run here now; nil: as long as it serves
	Metrics *Metrics                        // nil: /metrics is not found
	Store   *readstore.Store                // for searches; nil: there is none, and approvals are folded from the log
	Rules   func() lifecycle.Limits         // the limits of the node behind it; nil: it has none
	Breaker lifecycle.BreakerConfig         // the node's numbers, by which circuits are shown
	Workers func() bus.WorkerTools          // who serves tools over NATS; nil: they are not heard
	Policy  PolicyKeeper                    // the policy of the node behind it; nil: there is none to show
	MCP     http.Handler                    // speaks the Model Context Protocol at /mcp: see CallerOf; nil: nobody does
	Hosts   []string                        // names this node answers to, besides loopback's

	// Keys is who may come in: it is asked for each request, and its answer may change
	// at any time. nil: everybody is believed, and what the body says of who acts counts;
	// for doors that only this machine's programs can reach.
	Keys func() *keys.Ring
	// Known says whether an id is somebody's whom another door knows: no child has it.
	// nil: there is no other door.
	Known  func(id string) bool
	Open   []string         // paths for which nobody has to say who they are, beside /healthz
	Proxy  bool             // all requests come from a proxy: their addresses tell nobody apart
	TLS    *tls.Config      // nil: plain HTTP
	Limits Limits           // of what it does at once
	Now    func() time.Time // the clock by which tokens expire; nil means time.Now

	Ping time.Duration // between comments on a silent event stream; 0 means 15 s
	Log  *slog.Logger  // nil discards
}

// API is the HTTP door: see Handler. It may be used from many goroutines at once.
type API struct {
	desk    *Desk
	tools   func(context.Context, string) (json.RawMessage, error)
	judged  func(context.Context, Supposed) (Explained, error)
	ready   func(context.Context) error
	metrics *Metrics
	store   *readstore.Store
	rules   func() lifecycle.Limits
	breaker lifecycle.BreakerConfig
	workers func() bus.WorkerTools
	policy  PolicyKeeper
	mcp     http.Handler
	hosts   []string
	ping    time.Duration
	log     *slog.Logger
	closing chan struct{} // closed when streams must end

	keys     func() *keys.Ring
	known    func(id string) bool
	open     map[string]bool // patterns of routes for everybody
	tls      *tls.Config
	now      func() time.Time
	limits   Limits
	places   chan struct{}       // one for each request
	streams  chan struct{}       // one for each event stream
	bodies   *semaphore.Weighted // bytes of bodies
	streamed *semaphore.Weighted // bytes of models' streams
	shares   *shares
	failures *failures
}

// NewAPI makes the door. Close it to end its event streams.
func NewAPI(c APIConfig) *API {
	l := c.Limits.filled()
	a := &API{
		desk: c.Desk, tools: c.Tools, judged: c.Explain, ready: c.Ready, metrics: c.Metrics, store: c.Store, rules: c.Rules, breaker: c.Breaker, policy: c.Policy, mcp: c.MCP, workers: c.Workers,
		hosts: c.Hosts, ping: c.Ping, log: c.Log, closing: make(chan struct{}),
		keys: c.Keys, known: c.Known, open: map[string]bool{healthRoute: true}, tls: c.TLS, now: c.Now, limits: l,
		places: make(chan struct{}, l.Requests), streams: make(chan struct{}, l.Streams), bodies: semaphore.NewWeighted(bodyBudget), streamed: semaphore.NewWeighted(streamBudget),
		shares:   &shares{limits: l, of: make(map[string]*share)},
		failures: &failures{proxy: c.Proxy, of: make(map[netip.Prefix]*failed)},
	}
	for _, path := range c.Open {
		a.open["GET "+path] = true
	}
	if a.ping <= 0 {
		a.ping = 15 * time.Second
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	return a
}

// Close ends the event streams and every wait for a turn's end, so that a
// server can be shut down. It must be called once.
func (a *API) Close() { close(a.closing) }

// server bounds every phase of a connection: its handshake, headers, silence between
// requests, and in HTTP/2 its streams. Bodies and answers have bounds of their own.
func (a *API) server() *http.Server {
	return &http.Server{
		Handler: a.Handler(), ReadHeaderTimeout: headerLimit, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaders,
		DisableGeneralOptionsHandler: true, TLSConfig: a.tls, ConnContext: withConn,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 128, SendPingTimeout: time.Minute, PingTimeout: writeLimit, WriteByteTimeout: writeLimit,
		},
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
}

// Serve answers on the listener until ctx ends, then lets requests end within
// the grace time. It returns nil after an orderly end.
func (a *API) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	s := a.server()
	l = newBounded(l, a.limits)
	ended := make(chan error, 1)
	go func() {
		if a.tls != nil {
			ended <- s.ServeTLS(l, "", "")
			return
		}
		ended <- s.Serve(l)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	a.Close()
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	err := s.Shutdown(late)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close()
	}
	if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// readBody reads a request's whole body, within its bounds. Its bytes are held of the
// budget until the request has been served.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	large := problem(http.StatusRequestEntityTooLarge, "too-large", "The body is too large",
		fmt.Sprintf("more than %d bytes", MaxBody), "send less in one turn")
	if r.ContentLength > MaxBody {
		return nil, large
	}
	held, err := a.hold(r.Context(), r)
	if err != nil {
		return nil, err
	}
	visitOf(r).body += held
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyLimit)) // not every writer has one
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	_ = control.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		return nil, BadRequest(cutShort(err), "send it again")
	case len(body) > MaxBody:
		return nil, large
	}
	return body, nil
}

// maxDrained is how much of a body that is too large is read and thrown away, in bytes.
const maxDrained = 8 * MaxBody

// drain reads the rest of a body that is refused as too large, within bounds: many clients
// read no answer before they have sent everything, and would only see a broken connection.
func drain(w http.ResponseWriter, r *http.Request, refused error) {
	if problemOf(refused).Status != http.StatusRequestEntityTooLarge || r.Header.Get("Expect") != "" {
		return // who asks before it sends is told before
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyLimit)) // not every writer has one
	_, _ = io.CopyN(io.Discard, r.Body, maxDrained)        // it may end early: it is refused anyway
	_ = control.SetReadDeadline(time.Time{})
}

// cutShort says why a body could not be read whole: without the addresses that an error of
// the network holds, which are nobody's business behind a proxy.
func cutShort(err error) string {
	var of net.Error
	switch {
	case errors.As(err, &of) && of.Timeout():
		return fmt.Sprintf("the body did not come whole within %v", bodyLimit)
	case errors.As(err, &of):
		return "the body ended early"
	}
	return "the body ended early: " + err.Error()
}

// decodeOptional is decodeStrict for a body that may be missing.
func (a *API) decodeOptional(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := a.readBody(w, r)
	if err != nil || len(strings.TrimSpace(string(body))) == 0 {
		return err
	}
	return decodeStrict(body, v)
}

// turnOf is the turn that a path names.
func turnOf(r *http.Request) (events.TurnKey, error) {
	k := events.TurnKey{Trace: r.PathValue("trace"), Turn: r.PathValue("turn")}
	return k, k.Check()
}

// callOf is the call that a path names.
func callOf(r *http.Request) (events.CallKey, error) {
	k, err := turnOf(r)
	if err != nil {
		return events.CallKey{}, err
	}
	call, err := events.ParseCallKey(k.String() + "/" + r.PathValue("call"))
	if err != nil {
		return events.CallKey{}, BadRequest(fmt.Sprintf("call %q", r.PathValue("call")), "name a call by its place in the turn, from 0")
	}
	return call, nil
}

// listParameters are those that may stand several times; all others say one thing.
var listParameters = []string{"allow", "by", "kind", "principal", "secrets", "status", "tool"}

// checkQuery refuses parameters that mean nothing on a route, and those that say two
// things at once.
func checkQuery(r *http.Request, known []string) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	for name, values := range r.URL.Query() {
		switch {
		case slices.Contains(known, name) && len(values) > 1 && !slices.Contains(listParameters, name):
			return BadRequest(fmt.Sprintf("query parameter %q stands %d times", name, len(values)), "send it once")
		case slices.Contains(known, name):
		case len(known) == 0:
			return BadRequest(fmt.Sprintf("query parameter %.60q is not known", name), "there are none here")
		default:
			return BadRequest(fmt.Sprintf("query parameter %.60q is not known", name), meant(name, known)+"known here: "+strings.Join(known, ", "))
		}
	}
	return nil
}
