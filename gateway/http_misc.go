package gateway

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
)

// until is the request's context, ended too when the door closes.
func (a *API) until(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	go func() { // it ends with the context
		select {
		case <-a.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// errNoTools is the problem of a door that no node with tools is behind.
var errNoTools = problem(http.StatusNotFound, "no-tools", "This door has no tools", "no node runs behind it", "ask a node")

// getTools is GET /v1/tools: the array that a provider's API takes, all of it or a page.
// The array has no room for a cursor: the header Link has the next page's address.
func (a *API) getTools(w http.ResponseWriter, r *http.Request) error {
	if a.tools == nil {
		return errNoTools
	}
	q := r.URL.Query()
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	list, err := a.tools(r.Context(), cmp.Or(q.Get("format"), "openai"))
	if err != nil {
		return err
	}
	if limit > 0 || q.Has("cursor") {
		var next string
		if list, next, err = toolsBehind(list, q.Get("cursor"), limit); err != nil {
			return err
		}
		if next != "" {
			q.Set("cursor", next)
			w.Header().Set("Link", "</v1/tools?"+q.Encode()+`>; rel="next"`)
		}
	}
	okTagged(w, r, list)
	return nil
}

// toolsBehind is the part of a sorted tool list behind a name, at most limit of them (0:
// all), and the name that the next part is behind; "" where there is none.
func toolsBehind(list json.RawMessage, cursor string, limit int) (part json.RawMessage, next string, err error) {
	var all []json.RawMessage
	if err := json.Unmarshal(list, &all); err != nil {
		return nil, "", err
	}
	out, last := []json.RawMessage{}, ""
	for _, raw := range all {
		var t struct {
			Name     string
			Function struct{ Name string }
		}
		_ = json.Unmarshal(raw, &t) // what is of another form has no name
		name := cmp.Or(t.Name, t.Function.Name)
		if name == "" {
			return nil, "", BadRequest("a page of tools in this format", "leave limit and cursor out: its tools are one list")
		}
		if name <= cursor {
			continue
		}
		if limit > 0 && len(out) == limit {
			next = last
			break
		}
		out, last = append(out, raw), name
	}
	part, err = json.Marshal(out)
	return part, next, err
}

// checkDigest returns nil for a blob's digest.
func checkDigest(digest string) error {
	sum, isDigest := strings.CutPrefix(digest, "sha256:")
	if b, err := hex.DecodeString(sum); !isDigest || err != nil || len(b) != 32 || strings.ToLower(sum) != sum {
		return BadRequest(fmt.Sprintf("digest %.100q", digest), "send sha256: and 64 hex digits")
	}
	return nil
}

// getBlob is GET /v1/blobs/{digest}. A blob is never shown by a browser as what it may
// claim to be. Who may not read everything names a turn that refers to it.
func (a *API) getBlob(w http.ResponseWriter, r *http.Request) error {
	digest := r.PathValue("digest")
	if err := checkDigest(digest); err != nil {
		return err
	}
	if err := a.mayBlob(r, digest); err != nil {
		return err
	}
	data, err := a.desk.Blob(r.Context(), events.BlobRef{Digest: digest})
	if err != nil {
		return err
	}
	if unchanged(w, r, `"`+digest+`"`) {
		return nil
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer has one
	_, _ = w.Write(data)                                                           // a client that has gone hears nothing
	return nil
}

// health answers /healthz and /readyz.
type health struct {
	Status string `json:"status"`
	Sync   string `json:"sync,omitempty"` // the durability in force; not for those who are not known
}

func (a *API) getHealth(w http.ResponseWriter, _ *http.Request) error {
	h := health{Status: "ok"}
	if a.keys == nil {
		h.Sync = a.desk.bus.Barrier().Mode()
	}
	ok(w, h)
	return nil
}

// getMetrics is GET /metrics, as Prometheus scrapes it.
func (a *API) getMetrics(w http.ResponseWriter, r *http.Request) error {
	if a.metrics == nil {
		return problem(http.StatusNotFound, "no-route", "There is no such resource", r.URL.Path, "this door measures nothing")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer has one
	a.metrics.Handler().ServeHTTP(w, r)
	return nil
}

// getReady says whether a turn that is submitted now would be kept and run.
func (a *API) getReady(w http.ResponseWriter, r *http.Request) error {
	ctx, stop := context.WithTimeout(r.Context(), 2*time.Second)
	defer stop()
	not := func(err error) error {
		return problem(http.StatusServiceUnavailable, "not-ready", "This node is not ready", err.Error(), "wait, or ask another node")
	}
	select {
	case <-a.closing:
		return not(fmt.Errorf("it is stopping"))
	default:
	}
	if _, err := a.desk.bus.Head(ctx); err != nil {
		return not(err)
	}
	if a.ready != nil {
		if err := a.ready(ctx); err != nil {
			return not(err)
		}
	}
	ok(w, health{"ready", a.desk.bus.Barrier().Mode()})
	return nil
}
