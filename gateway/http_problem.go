package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/access"
	"github.com/sluice-run/sluice/projections/readstore"
)

// Problem is an error as HTTP tells it (RFC 9457).
type Problem struct {
	Type   string `json:"type"` // urn:sluice:problem: and a word
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Next   string `json:"next,omitempty"` // what the caller can do about it

	Trace string `json:"trace,omitempty"` // of the turn that it is about
	Turn  string `json:"turn,omitempty"`

	Roles []access.Role `json:"roles,omitempty"` // any of which would allow it

	Fields []FieldProblem `json:"fields,omitempty"` // of an answer to a tool, that do not fit

	Stop string `json:"stop,omitempty"` // why a model stopped that has not ended, in its provider's word

	wait time.Duration // until it is worth asking again; 0: it is not known
}

// Error is the problem in a line.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// problemPrefix stands before the word that tells a problem's type.
const problemPrefix = "urn:sluice:problem:"

func problem(status int, word, title, detail, next string) *Problem {
	return &Problem{Type: problemPrefix + word, Title: title, Status: status, Detail: detail, Next: next}
}

// BadRequest is the problem of a request that cannot be read: what is wrong
// with it, and what the caller can do.
func BadRequest(detail, next string) *Problem {
	return problem(http.StatusBadRequest, "bad-request", "The request cannot be read", detail, next)
}

// verdicts say which error is which problem; the first that fits counts.
var verdicts = []struct {
	is     error
	status int
	word   string
	title  string
	next   string
}{
	{access.ErrRole, http.StatusForbidden, "role", "You may not do that", "ask whoever keeps the file of --http-auth for that role; GET /v1/whoami tells what you may"},
	{access.ErrName, http.StatusForbidden, "other-name", "Nobody acts in another's name here", "leave the principal out of the body: you are known"},
	{access.ErrPlace, http.StatusForbidden, "workspace", "Your turns do not run there", "name one of your workspaces, or none for the first of them"},
	{bus.ErrTooLarge, http.StatusRequestEntityTooLarge, "too-large", "The submission is too large", "send less in one turn: 1 MiB of arguments a call, 8 MiB a turn"},
	{ErrNothingToRun, http.StatusUnprocessableEntity, "nothing-to-run", "There is nothing to run", "a model's message without calls is its last word: the conversation is over, and nothing has to be submitted; else send at least one call"},
	{lifecycle.ErrSubmission, http.StatusUnprocessableEntity, "submission-refused", "The submission is refused", "mend the field that the detail names, and submit again"},
	{lifecycle.ErrWords, http.StatusRequestEntityTooLarge, "too-long", "Somebody says too much", "say it shorter"},
	{lifecycle.ErrArgs, http.StatusUnprocessableEntity, "arguments-refused", "The arguments are refused", "send one JSON object that fits the tool's schema and that the policy allows"},
	{lifecycle.ErrAnswers, http.StatusUnprocessableEntity, "answers-refused", "The answers do not fit what was asked", "mend the fields that are named, and answer again: the call waits"},
	{events.ErrID, http.StatusBadRequest, "bad-id", "An id is not one", "use 1 to 64 of A-Z a-z 0-9 _ -"},
	{lifecycle.ErrNoTurn, http.StatusNotFound, "no-turn", "There is no such turn", "check the ids; GET /v1/traces shows what is there"},
	{lifecycle.ErrNoCall, http.StatusNotFound, "no-call", "There is no such call", "a call is named by its place in the turn, from 0"},
	{ErrNoTool, http.StatusNotFound, "no-tool", "No node knows the tool", "name a tool as GET /v1/tools does; or, for the tool of a node that is not there now, send force: true"},
	{bus.ErrNotFound, http.StatusNotFound, "not-found", "It is not there", "check the digest"},
	{lifecycle.ErrDifferent, http.StatusConflict, "turn-exists", "The turn exists, with other calls or another principal", "use a new turn id, or submit exactly the same calls as the same principal"},
	{lifecycle.ErrHash, http.StatusConflict, "other-arguments", "The arguments are not those that were asked about", "look at GET /v1/approvals again"},
	{lifecycle.ErrDecider, http.StatusForbidden, "may-not-decide", "Who answers may not decide about this call", "have a person answer, who is not the one that asks"},
	{lifecycle.ErrSuperseded, http.StatusConflict, "superseded", "The call was asked about again", "look at GET /v1/approvals again, and answer the asking that is open"},
	{lifecycle.ErrExpired, http.StatusConflict, "expired", "The time to answer is over", "nothing more can be approved here: the agent may ask again"},
	{ErrNoApproval, http.StatusNotFound, "no-approval", "There is no such approval", "GET /v1/approvals shows what waits"},
	{lifecycle.ErrNotAsking, http.StatusConflict, "not-asking", "No approval is asked for", "look at GET /v1/approvals"},
	{lifecycle.ErrNoInput, http.StatusConflict, "no-input", "Its tool asks for nothing", "look at GET /v1/approvals"},
	{lifecycle.ErrCancelled, http.StatusConflict, "cancelled", "Its end was asked for", "nothing more can be approved here"},
	{lifecycle.ErrEnded, http.StatusConflict, "ended", "It has ended", "GET the turn to see how"},
	{lifecycle.ErrNothing, http.StatusConflict, "nothing-to-resolve", "There is nothing to resolve", "only an end whose effects are possible can be resolved"},
	{lifecycle.ErrNoUndo, http.StatusConflict, "nothing-to-undo", "The call cannot be undone", "GET the turn to see how the call ended"},
	{ErrUndoUnknown, http.StatusConflict, "undo-unknown", "Nobody knows whether it was undone", "look at what the undo would have changed, then POST …/resolve for the undo's call"},
	{lifecycle.ErrForeign, http.StatusConflict, "newer-release", "The turn holds events of a newer release", "upgrade this node"},
	{readstore.ErrQuery, http.StatusBadRequest, "bad-request", "The request cannot be read", "mend what the detail names"},
	{readstore.ErrNoTrace, http.StatusNotFound, "no-trace", "There is no such trace", "check the id; GET /v1/traces shows what is there"},
	{readstore.ErrNone, http.StatusServiceUnavailable, "store-building", "The read store is being built", "wait, and ask again: GET /v1/readstore tells how far it has come"},
	{bus.ErrConflict, http.StatusConflict, "busy", "The turn moved on", "try again"},
	{ErrUntold, http.StatusServiceUnavailable, "untold", "It is kept, but no node could be told", "repeat the request: it is safe"},
	{bus.ErrUncertain, http.StatusServiceUnavailable, "uncertain", "It is not known whether it was kept", "repeat the request with the same ids: it is safe"},
	{bus.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", "The log cannot be reached", "try again with the same ids: it is safe"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "too-slow", "It took too long", "repeat the request with the same ids: it is safe"},
	{context.Canceled, http.StatusServiceUnavailable, "stopping", "The node is stopping, or the caller has gone", "repeat the request with the same ids: it is safe"},
}

// problemOf is the problem that tells an error.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	for _, v := range verdicts {
		if errors.Is(err, v.is) {
			p := problem(v.status, v.word, v.title, err.Error(), v.next)
			var d *access.Denied
			if errors.As(err, &d) {
				p.Roles = d.Missing
			}
			var u unfit
			if errors.As(err, &u) {
				p.Fields = u.fields
			}
			return p
		}
	}
	return problem(http.StatusInternalServerError, "internal", "Something is wrong with this node", err.Error(), "look at the node's log")
}

// about is the problem of an error about a turn whose ids the caller may not
// know: they were made here, and repeating them is safe.
func about(key events.TurnKey, err error) error {
	p := *problemOf(err)
	p.Trace, p.Turn = key.Trace, key.Turn
	return &p
}

// writeProblem answers with an error.
func (a *API) writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err).discreet()
	switch {
	case p.wait > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.wait.Seconds()))))
	case p.Status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case p.Status >= http.StatusInternalServerError:
		a.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}

// writeLimit is how long a client may take to read an answer.
const writeLimit = 30 * time.Second

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, status int, media string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, media = http.StatusInternalServerError, "application/problem+json"
		body = []byte(`{"type":"urn:sluice:problem:internal","title":"The answer has no JSON form","status":500}`)
	}
	writeBody(w, status, media, append(body, '\n'))
}

// writeBody answers with bytes.
func writeBody(w http.ResponseWriter, status int, media string, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer has one
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone hears nothing
}

func ok(w http.ResponseWriter, v any) { writeJSON(w, http.StatusOK, "application/json", v) }
