package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/sluice-run/sluice/policy/access"
)

// route is one way in. An error that it returns is answered as a problem.
type route struct {
	pattern string
	verb    access.Verb // that its caller must have; "": it is enough to be known
	query   string      // names of the parameters that it knows, with blanks between
	serve   func(w http.ResponseWriter, r *http.Request) error
}

const (
	healthRoute  = "GET /healthz"
	readyRoute   = "GET /readyz"
	metricsRoute = "GET /metrics"
)

// routes are all ways in. Where a path names a turn, a verb that reaches only as far as
// the caller's own turns is held against that turn: see allowed.
func (a *API) routes() []route {
	return []route{
		{"POST /v1/turns", access.Submit, "", a.submit},
		{streamRoute, access.Submit, streamQuery, a.submitStream},
		{"GET /v1/turns/{trace}/{turn}", access.Read, "wait_ms", a.getTurn},
		{"GET /v1/turns/{trace}/{turn}/messages", access.Read, "format wait_ms", a.getMessages},
		{"GET /v1/turns/{trace}/{turn}/events", access.Read, "cursor limit wait_ms", a.getTurnEvents},
		{"POST /v1/turns/{trace}/{turn}/cancel", access.Cancel, "", a.cancelTurn},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/cancel", access.Cancel, "", a.cancelCall},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/approve", access.Approve, "", a.approve},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/deny", access.Approve, "", a.deny},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/answer", access.Approve, "", a.answerInput},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/resolve", access.Resolve, "", a.resolve},
		{"POST /v1/turns/{trace}/{turn}/calls/{call}/compensate", access.Compensate, "", a.compensate},
		{"GET /v1/approvals", access.Read, "cursor limit wait_ms", a.getApprovals},
		{"GET /v1/approvals/{trace}/{turn}/{call}", access.Read, "asking kind", a.getApproval},
		{"GET /v1/traces", access.Watch, "since until tool status principal text order cursor limit", a.getTraces},
		{"GET /v1/traces/{trace}", access.Watch, "", a.getTrace},
		{"GET /v1/traces/{trace}/timeline", access.Watch, "cursor limit", a.getTimeline},
		{"GET /v1/usage", access.Watch, "since until by tool principal limit", a.getUsage},
		{"GET /v1/readstore", access.Watch, "", a.getStore},
		{"POST /v1/readstore/rebuild", access.Operate, "", a.rebuildStore},
		{"GET /v1/nodes", access.Watch, "turns log", a.getNodes},
		{"GET /v1/workers", access.Watch, "", a.getWorkers},
		{"GET /v1/limits", access.Watch, "", a.getLimits},
		{"GET /v1/breakers", access.Watch, "", a.getBreakers},
		{"GET /v1/breakers/{tool}", access.Watch, "circuit", a.getBreaker},
		{"POST /v1/breakers/{tool}/reset", access.Operate, "circuit", a.resetBreaker},
		{"POST /v1/breakers/{tool}/open", access.Operate, "circuit", a.openBreaker},
		{"GET /v1/tools", access.Read, "format cursor limit", a.getTools},
		{"GET /v1/events", access.Read, "from trace turn kind tool follow limit wait_ms", a.getEvents},
		{"GET /v1/blobs/{digest}", access.Read, "trace turn", a.getBlob},
		{"POST /v1/explain", access.Read, "", a.explain},
		{"GET /v1/policy", access.Watch, "", a.getPolicy},
		{"POST /v1/policy/reload", access.Policy, "", a.reloadPolicy},
		{"POST " + mcpPath, access.Submit, "", a.postMCP},
		{"GET " + mcpPath, access.Submit, "", a.getMCP},
		{"DELETE " + mcpPath, access.Submit, "", a.deleteMCP},
		{"GET /v1/whoami", "", "", a.getWhoami},
		{openAPIRoute, "", "", a.getOpenAPI},
		{healthRoute, "", "", a.getHealth},
		{readyRoute, access.Measure, "", a.getReady},
		{metricsRoute, access.Measure, "", a.getMetrics},
	}
}

// Handler is the door itself.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range a.routes() {
		mux.Handle(rt.pattern, a.enter(rt))
	}
	mux.HandleFunc("/", a.nowhere(mux))
	return a.counted(mux, a.guard(a.authenticated(mux)))
}

// enter serves a route to whoever may go that way.
func (a *API) enter(rt route) http.Handler {
	known := strings.Fields(rt.query)
	turn := strings.Contains(rt.pattern, "{turn}")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer a.letGo(visitOf(r))
		err := a.allowed(r, rt, turn)
		if err == nil {
			err = checkQuery(r, known)
		}
		if err == nil {
			err = checkMedia(r, mediaOf[rt.pattern]...)
		}
		if err == nil {
			err = rt.serve(w, r)
		}
		if err != nil {
			drain(w, r, err)
			a.writeProblem(w, r, err)
		}
	})
}

// allowed returns nil where the caller may go a way. turn says that the way names a turn.
func (a *API) allowed(r *http.Request, rt route, turn bool) error {
	if rt.verb == "" || a.keys != nil && a.open[rt.pattern] {
		return nil
	}
	err := access.May(who(r), rt.verb)
	if err == nil && turn {
		err = a.allowedOn(r, rt.verb)
	}
	if err != nil && a.metrics != nil {
		a.metrics.refused.WithLabelValues("role").Inc()
	}
	return err
}

// allowedOn holds a verb that reaches as far as the caller's own turns against the turn
// that the path names.
func (a *API) allowedOn(r *http.Request, verb access.Verb) error {
	if who(r).Reach(verb) == access.All {
		return nil
	}
	key, err := turnOf(r)
	if err != nil {
		return err
	}
	v, err := a.desk.Get(r.Context(), key)
	if err != nil {
		return err
	}
	return access.MayOn(who(r), verb, v.Turn.Submitted.Principal)
}

// methodsOf are the methods by which a path is answered, with OPTIONS; none where there is
// no such path.
func methodsOf(mux *http.ServeMux, r *http.Request) []string {
	var out []string
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := mux.Handler(other); pattern != "/" {
			out = append(out, m)
		}
	}
	if len(out) > 0 {
		out = append(out, http.MethodOptions)
	}
	return out
}

// nowhere answers what no route does: which methods there are, what comes by another one,
// and what is not there at all.
func (a *API) nowhere(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if known := methodsOf(mux, r); len(known) > 0 {
			w.Header().Set("Allow", strings.Join(known, ", "))
			if r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			a.writeProblem(w, r, problem(http.StatusMethodNotAllowed, "method", "Not by that method", r.Method+" "+r.URL.Path, "use "+known[0]))
			return
		}
		var all []string
		for _, rt := range a.routes() {
			if rt.pattern != metricsRoute || a.metrics != nil {
				all = append(all, rt.pattern)
			}
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
		c, began := &statusWriter{ResponseWriter: w, status: http.StatusOK}, time.Now()
		next.ServeHTTP(c, r)
		a.metrics.request(pattern, c.status, time.Since(began))
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
