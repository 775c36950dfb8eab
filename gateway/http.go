package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections/readstore"
)

// Bounds of a request.
const (
	MaxBody    = 8 << 20          // bytes of a request's body
	maxHeaders = 64 << 10         // bytes of its headers
	bodyLimit  = 30 * time.Second // to send the body
	maxStreams = 64               // event streams at once
)

// APIConfig is what the HTTP door is made of. Desk is required; zero elsewhere
// means the default beside the field.
type APIConfig struct {
	Desk *Desk
	// Tools is the list of tools as a provider's API takes it, sorted, without
	// those whose circuit is open. nil: the node has none to show.
	Tools   func(ctx context.Context, format string) (json.RawMessage, error)
	Ready   func(ctx context.Context) error // why no turn would be run here now; nil: as long as it serves
	Metrics *Metrics                        // nil: /metrics is not found
	Store   *readstore.Store                // for searches; nil: there is none, and approvals are folded from the log
	Breaker lifecycle.BreakerConfig         // the node's numbers, by which circuits are shown
	Hosts   []string                        // names this node answers to, besides loopback's
	Ping    time.Duration                   // between comments on a silent event stream; 0 means 15 s
	Log     *slog.Logger                    // nil discards
}

// API is the HTTP door. Who acts is what the body says: it is meant for
// programs on this machine, and authentication is not its business yet.
type API struct {
	desk    *Desk
	tools   func(context.Context, string) (json.RawMessage, error)
	ready   func(context.Context) error
	metrics *Metrics
	store   *readstore.Store
	breaker lifecycle.BreakerConfig
	hosts   []string
	ping    time.Duration
	log     *slog.Logger
	streams chan struct{} // a place for each event stream
	closing chan struct{} // closed when streams must end
}

// NewAPI makes the door. Close it to end its event streams.
func NewAPI(c APIConfig) *API {
	a := &API{
		desk: c.Desk, tools: c.Tools, ready: c.Ready, metrics: c.Metrics, store: c.Store, breaker: c.Breaker, hosts: c.Hosts, ping: c.Ping, log: c.Log,
		streams: make(chan struct{}, maxStreams), closing: make(chan struct{}),
	}
	if a.ping <= 0 {
		a.ping = 15 * time.Second
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	return a
}

// Close ends the event streams and every wait for a turn's end, so that a
// server can be shut down. It must be called once.
func (a *API) Close() { close(a.closing) }

// route is one way in. An error that it returns is answered as a problem.
type route struct {
	pattern string
	serve   func(w http.ResponseWriter, r *http.Request) error
}

func (a *API) routes() []route {
	return []route{
		{"POST /v1/turns", a.submit},
		{"GET /v1/turns/{trace}/{turn}", a.getTurn},
		{"GET /v1/turns/{trace}/{turn}/messages", a.getMessages},
		{"GET /v1/turns/{trace}/{turn}/events", a.getTurnEvents},
		{"POST /v1/turns/{trace}/{turn}/cancel", a.cancelTurn},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/cancel", a.cancelCall},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/approve", a.approve},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/deny", a.deny},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/resolve", a.resolve},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/compensate", a.compensate},
		{"GET /v1/approvals", a.getApprovals},
		{"GET /v1/traces", a.getTraces},
		{"GET /v1/traces/{trace}", a.getTrace},
		{"GET /v1/traces/{trace}/timeline", a.getTimeline},
		{"GET /v1/usage", a.getUsage},
		{"GET /v1/readstore", a.getStore},
		{"POST /v1/readstore/rebuild", a.rebuildStore},
		{"GET /v1/nodes", a.getNodes},
		{"GET /v1/breakers", a.getBreakers},
		{"GET /v1/breakers/{tool}", a.getBreaker},
		{"POST /v1/breakers/{tool}/reset", a.resetBreaker},
		{"POST /v1/breakers/{tool}/open", a.openBreaker},
		{"GET /v1/tools", a.getTools},
		{"GET /v1/events", a.getEvents},
		{"GET /v1/blobs/{digest}", a.getBlob},
		{"GET /healthz", a.getHealth},
		{"GET /readyz", a.getReady},
	}
}

const metricsRoute = "GET /metrics"

// Handler is the door itself.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range a.routes() {
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := rt.serve(w, r); err != nil {
				a.writeProblem(w, r, err)
			}
		})
	}
	if a.metrics != nil {
		mux.Handle(metricsRoute, a.metrics.Handler())
	}
	mux.HandleFunc("/", a.nowhere(mux))
	return a.counted(mux, a.guard(mux))
}

// nowhere answers what no route does: by another method, or not at all.
func (a *API) nowhere(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			other := r.Clone(r.Context())
			other.Method = m
			if _, pattern := mux.Handler(other); pattern != "/" {
				w.Header().Set("Allow", m)
				a.writeProblem(w, r, problem(http.StatusMethodNotAllowed, "method", "Not by that method", r.Method+" "+r.URL.Path, "use "+m))
				return
			}
		}
		var all []string
		for _, rt := range a.routes() {
			all = append(all, rt.pattern)
		}
		if a.metrics != nil {
			all = append(all, metricsRoute)
		}
		a.writeProblem(w, r, problem(http.StatusNotFound, "no-route", "There is no such resource", r.URL.Path, "there are "+strings.Join(all, ", ")))
	}
}

// counted counts the requests by route and status.
func (a *API) counted(mux *http.ServeMux, next http.Handler) http.Handler {
	if a.metrics == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		c := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(c, r)
		a.metrics.request(pattern, c.status)
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader is http.ResponseWriter's.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the writer beneath.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Serve answers on the listener until ctx ends, then lets requests end within
// the grace time. It returns nil after an orderly end.
func (a *API) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	s := &http.Server{
		Handler: a.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaders,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
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

// readBody reads a request's whole body, within its bounds.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyLimit)) // not every writer has one
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	_ = control.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, problem(http.StatusRequestEntityTooLarge, "too-large", "The body is too large",
			fmt.Sprintf("more than %d bytes", MaxBody), "send less in one turn")
	case err != nil:
		return nil, BadRequest("the body ended early: "+err.Error(), "send it again")
	}
	return body, nil
}

// decodeStrict reads JSON of our own into v: a field that is not ours is an
// error that names it, and so is anything behind the value.
func decodeStrict(body []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(wholeText(string(body))))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return BadRequest(readable(err), "send one JSON object with the fields of the documentation")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return BadRequest(fmt.Sprintf("something stands behind the object, at byte %d", d.InputOffset()), "send one JSON object")
	}
	return checkNames(body)
}

// checkNames refuses what the decoder would let pass in an object that it has
// read: a field twice, and a field in other letters than ours.
func checkNames(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil // null: nothing was said
	}
	seen := make(map[string]bool)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return BadRequest(readable(err), "send one JSON object")
		}
		n, _ := name.(string) // a name always is one
		switch {
		case n != strings.ToLower(n):
			return BadRequest(fmt.Sprintf("unknown field %q", n), "fields are written in small letters")
		case seen[n]:
			return BadRequest(fmt.Sprintf("field %q stands twice", n), "send each field once")
		}
		seen[n] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return BadRequest(readable(err), "send one JSON object")
		}
	}
	return nil
}

// readable is a decoder's error in words.
func readable(err error) string {
	var typed *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF):
		return "the body is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON ends too early"
	case errors.As(err, &typed):
		return fmt.Sprintf("field %q cannot be a %s", typed.Field, typed.Value)
	case errors.As(err, &syntax):
		return fmt.Sprintf("no JSON at byte %d: %s", syntax.Offset, syntax)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// decodeOptional is decodeStrict for a body that may be missing.
func decodeOptional(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r)
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
	n, err := strconv.Atoi(r.PathValue("call"))
	if err != nil || n < 0 {
		return events.CallKey{}, BadRequest(fmt.Sprintf("call %q", r.PathValue("call")), "name a call by its place in the turn, from 0")
	}
	return k.Call(n), nil
}

// query reads the query's values and refuses names that mean nothing here.
func query(r *http.Request, known ...string) (map[string][]string, error) {
	q := r.URL.Query()
	for name := range q {
		if !slices.Contains(known, name) {
			return nil, BadRequest(fmt.Sprintf("query parameter %q", name), "known here: "+strings.Join(known, ", "))
		}
	}
	return q, nil
}
