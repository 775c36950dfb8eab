package gateway

import (
	"context"
	"encoding/hex"
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

func (a *API) getTools(w http.ResponseWriter, r *http.Request) error {
	if a.tools == nil {
		return problem(http.StatusNotFound, "no-tools", "This door has no tools", "no node runs behind it", "ask a node")
	}
	format := r.URL.Query().Get("format")
	if format == "" {
		format = "openai"
	}
	list, err := a.tools(r.Context(), format)
	if err != nil {
		return err
	}
	ok(w, list)
	return nil
}

// getBlob is GET /v1/blobs/{digest}. A blob is never shown by a browser as what it may
// claim to be. Who may not read everything names a turn that refers to it.
func (a *API) getBlob(w http.ResponseWriter, r *http.Request) error {
	digest := r.PathValue("digest")
	sum, isDigest := strings.CutPrefix(digest, "sha256:")
	if b, err := hex.DecodeString(sum); !isDigest || err != nil || len(b) != 32 || strings.ToLower(sum) != sum {
		return BadRequest(fmt.Sprintf("digest %q", digest), "send sha256: and 64 hex digits")
	}
	if err := a.mayBlob(r, digest); err != nil {
		return err
	}
	data, err := a.desk.Blob(r.Context(), events.BlobRef{Digest: digest})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("ETag", `"`+digest+`"`)
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
