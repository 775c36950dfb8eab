package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/policy/access"
)

// Bounds of sessions, of clients before 2026-07-28.
const (
	maxSessions  = 1024             // of everybody
	eachSessions = 128              // of one principal
	sessionIdle  = 30 * time.Minute // without a request, and the session ends
	writeLimit   = 30 * time.Second // for a client to take a part of an answer
)

// Headers of the protocol.
const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
)

// versionField stands in the body of a request that needs no session.
var versionField = []byte(`"` + sdk.MetaKeyProtocolVersion + `"`)

// ServeHTTP answers one request of the protocol for whoever gateway.CallerOf says. The
// door around it has looked at origins, names, sizes and rights.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := gateway.CallerOf(r.Context())
	v := &visit{who: who, traceparent: r.Header.Get("Traceparent"), request: r.Context()}
	body, err := io.ReadAll(r.Body) // it is read already, and bounded
	if err != nil {
		refuse(w, http.StatusBadRequest, nil, unanswerable("the body cannot be read"))
		return
	}
	h := d.http.brief
	if v.stream = brief(r, body); !v.stream {
		h = d.http.kept
		if status, err := d.mayGoOn(w, r, who); err != nil {
			refuse(w, status, idOf(body), err)
			return
		}
		if id := r.Header.Get(sessionHeader); id != "" {
			v.session = traceID("session", id)
		}
	}
	asked := body
	body, held, err := d.ids.in(body)
	var id json.RawMessage
	switch {
	case err != nil || r.Method != http.MethodPost:
	case !json.Valid(body):
		err = &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the body is not one JSON value"}
	case !v.stream && v.session == "" && lacksSession(asked):
		id, err = idOf(asked), errNoSession
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, id, err)
		return
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	d.enter(v)
	r.Header.Set(visitHeader, v.id)
	out := &reply{ResponseWriter: w, control: http.NewResponseController(w)}
	if r.Method == http.MethodPost {
		out.asked = asked
	}
	if !v.stream {
		out.session = func(id string) { d.own(id, who) }
	}
	if held {
		out.ids = d.ids.out
	}
	h.ServeHTTP(out, r)
	if !out.whole() || r.Context().Err() != nil || !v.gives() {
		d.leave(v, false)
		return
	}
	raw := wire(r.Context())
	if standing := standingOf(raw); standing != underWay {
		d.leave(v, standing != lost)
		return
	}
	d.wg.Go(func() { d.leave(v, arrived(d.life, raw)) })
}

// refuse answers what is not taken. id is that of the message; nil: none.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store, no-transform")
	w.WriteHeader(status)
	_, _ = w.Write(refusal(id, err)) // whoever asked may have gone
}

// brief says whether a request needs no session: it says of which revision it is.
func brief(r *http.Request, body []byte) bool {
	if r.Method != http.MethodPost || r.Header.Get(sessionHeader) != "" {
		return false
	}
	if version := r.Header.Get(versionHeader); version != "" {
		return version >= sinceStateless
	}
	return bytes.Contains(body, versionField)
}

// lacksSession says that a message without a session is a request that needs one.
func lacksSession(body []byte) bool {
	method := ""
	members(body, func(name string, s span) {
		if name == methodMember {
			_ = json.Unmarshal(s.in(body), &method) // what is no text is no method
		}
	})
	return method != "" && method != "initialize" && method != "ping" && idOf(body) != nil
}

var errNoSession = unanswerable("there is no session: send initialize first, and then the %s of its answer with every request; requests of %s need none", sessionHeader, sinceStateless)

// ownerOf is whose session one is. Those who are believed have each other's.
func ownerOf(who access.Identity) string {
	if who.Trusted {
		return ""
	}
	return who.Principal.Kind + " " + who.Principal.ID
}

// mayGoOn refuses requests of a session that is somebody else's, and new sessions where
// there are too many.
func (d *Door) mayGoOn(w http.ResponseWriter, r *http.Request, who access.Identity) (status int, err error) {
	id := r.Header.Get(sessionHeader)
	d.mu.Lock()
	defer d.mu.Unlock()
	if id != "" {
		if owner, known := d.owners[id]; !known || owner != ownerOf(who) {
			return http.StatusNotFound, unanswerable("session not found: begin a new one with initialize") // which there are, is told to nobody
		}
		return 0, nil
	}
	if r.Method != http.MethodPost {
		return 0, nil // it is refused for having none
	}
	d.forget()
	mine := 0
	for _, owner := range d.owners {
		if owner == ownerOf(who) {
			mine++
		}
	}
	if len(d.owners) >= maxSessions || !who.Trusted && mine >= eachSessions {
		w.Header().Set("Retry-After", "30")
		return http.StatusServiceUnavailable, unanswerable("too many sessions are open: end one with DELETE")
	}
	return 0, nil
}

// forget takes out the sessions that have ended. d.mu is held.
func (d *Door) forget() {
	if len(d.owners) < eachSessions {
		return
	}
	open := make(map[string]bool)
	for ss := range d.kept.Sessions() {
		open[ss.ID()] = true
	}
	for id := range d.owners {
		if !open[id] {
			delete(d.owners, id)
		}
	}
}

// own notes whose a new session is, BEFORE its client is told of it.
func (d *Door) own(id string, who access.Identity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owners[id] = ownerOf(who)
}

// reply writes an answer, and knows whether all of it was written.
type reply struct {
	http.ResponseWriter
	control *http.ResponseController
	session func(id string)     // hears of a session's id; nil: there is none
	ids     func([]byte) []byte // gives ids back as they came, in an event or message that is whole; nil: there are none
	asked   []byte              // the message that is answered, as it came; nil: there is none
	refused int                 // a status whose text is still to come, which is told as an error of JSON-RPC; 0: none

	mu     sync.Mutex
	wrote  bool
	failed bool
}

// WriteHeader is http.ResponseWriter's. No answer is kept by anybody.
func (t *reply) WriteHeader(status int) {
	h := t.Header()
	if status >= http.StatusBadRequest && strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		t.refused = status
		return
	}
	h.Set("Cache-Control", "no-store, no-transform")
	if h.Get("Content-Type") == "text/event-stream" {
		h.Set("X-Accel-Buffering", "no")
	}
	if id := h.Get(sessionHeader); id != "" && t.session != nil {
		t.session(id)
	}
	t.mu.Lock()
	t.wrote = true
	t.mu.Unlock()
	t.ResponseWriter.WriteHeader(status)
}

// Write is http.ResponseWriter's, for a client that may be slow, within bounds.
func (t *reply) Write(b []byte) (int, error) {
	if t.refused != 0 {
		return len(b), t.refuse(strings.TrimSpace(string(b)))
	}
	t.mu.Lock()
	wrote := t.wrote
	t.mu.Unlock()
	if !wrote {
		t.WriteHeader(http.StatusOK)
	}
	_ = t.control.SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer has one
	said := b
	if t.ids != nil {
		said = t.ids(b) // the SDK writes an event, or a message, at once
	}
	n, err := t.ResponseWriter.Write(said)
	t.note(err)
	if err == nil {
		n = len(b)
	}
	return min(n, len(b)), err
}

// What the SDK's words for a message that it does not take begin with.
const (
	wordsUnknown = "JSON RPC not handled"
	wordsLacking = "invalid request: missing required"
	wordsBroken  = "malformed payload"
)

// refuse tells the SDK's words for a message that it does not take as the protocol has it:
// programs read errors of JSON-RPC, not words. What is only told, and that nobody here
// knows, is no error.
func (t *reply) refuse(words string) error {
	status, id := t.refused, idOf(t.asked)
	t.refused = 0
	t.Header().Del("Content-Length") // of the words
	e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: words}
	switch {
	case strings.HasPrefix(words, wordsUnknown) && id == nil:
		t.Header().Del("Content-Type")
		t.WriteHeader(http.StatusAccepted)
		return nil
	case strings.HasPrefix(words, wordsUnknown):
		status, e.Code = http.StatusOK, jsonrpc.CodeMethodNotFound
	case strings.HasPrefix(words, wordsLacking) && id != nil:
		status, e.Code = http.StatusOK, jsonrpc.CodeInvalidParams
	case strings.HasPrefix(words, wordsBroken):
		e.Code = jsonrpc.CodeParseError
	case status >= http.StatusInternalServerError:
		e.Code = jsonrpc.CodeInternalError
	}
	t.Header().Set("Content-Type", "application/json")
	t.WriteHeader(status)
	_, err := t.Write(refusal(id, e))
	return err
}

// FlushError is http.ResponseController's.
func (t *reply) FlushError() error {
	err := t.control.Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return err
	}
	t.note(err)
	return err
}

// Unwrap lets http.ResponseController find the writer beneath.
func (t *reply) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *reply) note(err error) {
	if err != nil {
		t.mu.Lock()
		t.failed = true
		t.mu.Unlock()
	}
}

// whole says whether everything was written, and is on its way.
func (t *reply) whole() bool {
	t.note(t.FlushError())
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wrote && !t.failed
}
