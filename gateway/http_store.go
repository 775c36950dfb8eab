package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections/readstore"
)

// Bounds of what is asked of the read store.
const (
	storePatience = 2 * time.Second  // until it has what was in the log when it was asked
	searchLimit   = 10 * time.Second // of a search
	farBehind     = 20_000           // commits: more than can be waited for
)

// errNoStore is the problem of a node without a read store.
var errNoStore = problem(http.StatusNotFound, "no-store", "This node has no read store", "it was started without one",
	"ask another node, or start it with --read-store DIR")

// ask asks the read store once it has what was in the log at the time of the call,
// or after a while of what it has. behind is how many commits it then lacked.
func (a *API) ask(r *http.Request, do func(context.Context, *readstore.Store) error) (behind uint64, err error) {
	if a.store == nil {
		return 0, errNoStore
	}
	behind, err = a.level(r.Context())
	if err != nil {
		return behind, err
	}
	ctx, stop := context.WithTimeout(r.Context(), searchLimit)
	defer stop()
	err = do(ctx, a.store)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = problem(http.StatusServiceUnavailable, "too-slow", "The search took too long", fmt.Sprintf("more than %v", searchLimit),
			"narrow it: by a time, a tool or a rarer word")
	}
	return behind, err
}

// level waits a while until the read store has what was in the log at the time of the
// call, and says how many commits it lacks.
func (a *API) level(ctx context.Context) (behind uint64, err error) {
	s, err := a.store.Status(ctx)
	if err != nil || s.Behind == 0 && s.State != readstore.StateBuilding || s.Behind > farBehind {
		return s.Behind, err
	}
	head, err := events.ParsePosition(s.Head)
	if err != nil {
		return 0, err
	}
	soon, stop := context.WithTimeout(ctx, storePatience)
	defer stop()
	err = a.store.Await(soon, head)
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, readstore.ErrStalled) {
		return 0, err
	}
	s, err = a.store.Status(ctx)
	return s.Behind, err
}

// tracesPage answers GET /v1/traces.
type tracesPage struct {
	readstore.Page
	Behind uint64 `json:"behind,omitempty"` // commits that the read store lacked
}

// timelinePage answers GET …/timeline.
type timelinePage struct {
	readstore.TimelinePage
	Behind uint64 `json:"behind,omitempty"` // commits that the read store lacked
}

// usagePage answers GET /v1/usage.
type usagePage struct {
	Usage  []readstore.Use `json:"usage"`
	More   bool            `json:"more,omitempty"`   // there are other rows: ask for fewer days
	Behind uint64          `json:"behind,omitempty"` // commits that the read store lacked
}

// getTraces is GET /v1/traces: the traces that pass, newest first.
func (a *API) getTraces(w http.ResponseWriter, r *http.Request) error {
	q, err := a.traceQuery(r)
	if err != nil {
		return err
	}
	var out tracesPage
	out.Behind, err = a.ask(r, func(ctx context.Context, s *readstore.Store) (err error) {
		out.Page, err = s.Traces(ctx, q)
		return err
	})
	if err == nil {
		ok(w, out)
	}
	return err
}

func (a *API) traceQuery(r *http.Request) (readstore.Query, error) {
	var q readstore.Query
	in := r.URL.Query()
	var err error
	q.Tools, q.Statuses, q.Principals = in["tool"], several(in["status"]), in["principal"]
	one := r.URL.Query()
	q.Text, q.Cursor = one.Get("text"), one.Get("cursor")
	switch v := one.Get("order"); v {
	case "", "newest":
	case "oldest":
		q.Oldest = true
	default:
		return q, BadRequest(fmt.Sprintf("order %q", v), "say newest or oldest")
	}
	if q.Since, q.Until, err = a.times(r); err != nil {
		return q, err
	}
	q.Limit, err = limitOf(r)
	return q, errors.Join(err, q.Check())
}

// times are the bounds of a question: times, days, or how long ago.
func (a *API) times(r *http.Request) (since, until time.Time, err error) {
	for name, into := range map[string]*time.Time{"since": &since, "until": &until} {
		v := r.URL.Query().Get(name)
		if v == "" {
			continue
		}
		if *into, err = when(v, a.desk.now()); err != nil {
			return since, until, BadRequest(fmt.Sprintf("%s=%s", name, v), "send a time (2026-11-30T12:00:00Z), a day (2026-11-30), or how long ago (90m, 48h)")
		}
	}
	return since, until, nil
}

// when reads a time, a day in UTC, or how long ago.
func when(v string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return t, nil
	}
	if d, err := time.ParseDuration(v); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Parse(time.DateOnly, v)
}

// limitOf is how much of a list is asked for; 0: it is not said.
func limitOf(r *http.Request) (int, error) {
	v := r.URL.Query().Get("limit")
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > readstore.MaxLimit {
		return 0, BadRequest("limit="+v, fmt.Sprintf("send 1 to %d", readstore.MaxLimit))
	}
	return n, nil
}

// getTrace is GET /v1/traces/{trace}: its line of the list.
func (a *API) getTrace(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("trace")
	err := events.CheckID("trace", name)
	if err != nil {
		return err
	}
	var out readstore.Trace
	_, err = a.ask(r, func(ctx context.Context, s *readstore.Store) (err error) {
		out, err = s.Trace(ctx, name)
		return err
	})
	if err == nil {
		ok(w, out)
	}
	return err
}

// getTimeline is GET /v1/traces/{trace}/timeline: a page of its events.
func (a *API) getTimeline(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("trace")
	err := events.CheckID("trace", name)
	if err != nil {
		return err
	}
	q := readstore.TimelineQuery{Cursor: r.URL.Query().Get("cursor")}
	if q.Limit, err = limitOf(r); err != nil {
		return err
	}
	var out timelinePage
	out.Behind, err = a.ask(r, func(ctx context.Context, s *readstore.Store) (err error) {
		out.TimelinePage, err = s.Timeline(ctx, name, q)
		return err
	})
	if err == nil {
		ok(w, out)
	}
	return err
}

// getUsage is GET /v1/usage: what was used, by day, tool, principal.
func (a *API) getUsage(w http.ResponseWriter, r *http.Request) error {
	in := r.URL.Query()
	var err error
	q := readstore.UsageQuery{By: several(in["by"]), Tools: in["tool"], Principals: in["principal"]}
	if q.Since, q.Until, err = a.times(r); err != nil {
		return err
	}
	if q.Limit, err = limitOf(r); err != nil {
		return err
	}
	var out usagePage
	out.Behind, err = a.ask(r, func(ctx context.Context, s *readstore.Store) (err error) {
		out.Usage, out.More, err = s.Usage(ctx, q)
		return err
	})
	if err == nil {
		ok(w, out)
	}
	return err
}

// getStore is GET /v1/readstore: how it stands.
func (a *API) getStore(w http.ResponseWriter, r *http.Request) error {
	if a.store == nil {
		return errNoStore
	}
	s, err := a.store.Status(r.Context())
	if err == nil {
		ok(w, s)
	}
	return err
}

// rebuildStore is POST /v1/readstore/rebuild: it is built anew, and read as it is
// meanwhile.
func (a *API) rebuildStore(w http.ResponseWriter, r *http.Request) error {
	by, err := a.actor(w, r)
	if err != nil {
		return err
	}
	if a.store == nil {
		return errNoStore
	}
	a.log.Info("the read store is built anew", "by", by.ID)
	status := "accepted"
	if !a.store.Rebuild() {
		status = "already_rebuilding"
	}
	writeJSON(w, http.StatusAccepted, "application/json", replied{Status: status})
	return nil
}
