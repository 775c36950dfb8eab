package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Problem is an error as the node tells it (RFC 9457). errors.As finds it in what the
// methods of a Client return.
type Problem struct {
	Type   string `json:"type"` // urn:sluice:problem: and its code
	Title  string `json:"title"`
	Status int    `json:"status"` // of HTTP
	Detail string `json:"detail,omitempty"`
	Next   string `json:"next,omitempty"` // what the caller can do about it

	Trace string   `json:"trace,omitempty"` // of the turn that it is about
	Turn  string   `json:"turn,omitempty"`
	Roles []string `json:"roles,omitempty"` // any of which would allow what was refused

	Fields []FieldProblem `json:"fields,omitempty"` // of AnswersRefused: what does not fit

	Stop string `json:"stop,omitempty"` // of ModelCut and its like: why the model stopped, in its provider's word

	RetryAfter time.Duration `json:"-"` // the node's word on when to ask again; 0: it has said nothing
}

// FieldProblem is what is wrong with one field of an answer to a tool.
type FieldProblem struct {
	Request string `json:"request"` // id of what was asked
	Field   string `json:"field"`   // of its form; "" where it is about all of it
	Why     string `json:"why"`
}

const problemPrefix = "urn:sluice:problem:"

// Error is the problem in a line, with the next move.
func (p *Problem) Error() string {
	out := p.Title
	if p.Detail != "" {
		out += ": " + p.Detail
	}
	if p.Next != "" {
		out += " (" + p.Next + ")"
	}
	return fmt.Sprintf("%d %s", p.Status, out)
}

// Code is what kind of problem it is; "" where something else than a node has answered.
func (p *Problem) Code() Code {
	code, ours := strings.CutPrefix(p.Type, problemPrefix)
	if !ours {
		return ""
	}
	return Code(code)
}

// Is makes errors.Is(err, code) hold for the problem's own code.
func (p *Problem) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code != "" && code == p.Code()
}

// Code is a kind of problem. It is an error only to be compared with:
// errors.Is(err, client.NoTurn). Nodes of a newer release may know others.
type Code string

// Error is the code itself.
func (c Code) Error() string { return string(c) }

// The codes that a program may want to tell apart; the documentation of HTTP lists all.
const (
	BadRequest        Code = "bad-request"
	BadID             Code = "bad-id"
	Unauthenticated   Code = "unauthenticated"
	NotAllowed        Code = "role"
	OtherName         Code = "other-name"
	NoTurn            Code = "no-turn"
	NoCall            Code = "no-call"
	NoTrace           Code = "no-trace"
	NoApproval        Code = "no-approval"
	NotFound          Code = "not-found"
	NoStore           Code = "no-store"
	NoPolicy          Code = "no-policy"
	NoWorkers         Code = "no-workers"
	PolicyRefused     Code = "policy-refused"
	TurnExists        Code = "turn-exists" // with other calls, or another principal
	OtherArguments    Code = "other-arguments"
	Superseded        Code = "superseded"
	Expired           Code = "expired"
	NotAsking         Code = "not-asking"
	Ended             Code = "ended"
	MayNotDecide      Code = "may-not-decide"
	NothingToResolve  Code = "nothing-to-resolve"
	NothingToUndo     Code = "nothing-to-undo"
	UndoUnknown       Code = "undo-unknown"
	TooLarge          Code = "too-large"
	SubmissionRefused Code = "submission-refused"
	NothingToRun      Code = "nothing-to-run" // the message has no calls, and is the model's last word: a loop is over
	ModelCut          Code = "model-cut"      // the message has no calls, and is not the model's last word: it ran into a limit
	ModelBlocked      Code = "model-blocked"  // the same: the model or a filter refuses to go on
	ModelPaused       Code = "model-paused"   // the same: it goes on once its message is sent back
	ModelFailed       Code = "model-failed"   // the same: the provider, or its attempt at a call, failed
	ModelUnclear      Code = "model-unclear"  // the same: for a reason that the node does not know
	ArgumentsRefused  Code = "arguments-refused"
	AnswersRefused    Code = "answers-refused"
	NoInput           Code = "no-input"
	StreamCut         Code = "stream-cut" // and other codes that begin with stream-: nothing was submitted
	TooMany           Code = "too-many"
	Unavailable       Code = "unavailable"
	Uncertain         Code = "uncertain"
)

// ErrAnswer says that an answer is not one of a node, or is larger than it may be.
var ErrAnswer = errors.New("the answer cannot be read")

// maxProblem is how much of an error's body is read, in bytes.
const maxProblem = 256 << 10

// problemOf is the problem that an answer tells; of one that tells none, what can be said.
func problemOf(status int, h http.Header, body []byte) *Problem {
	p := new(Problem)
	if json.Unmarshal(body, p) != nil || p.Title == "" {
		*p = Problem{Title: http.StatusText(status), Detail: excerpt(body)}
		if status >= 300 && status < 400 {
			p.Title, p.Next = "Something between here and the node sends requests elsewhere", "name the node's own address"
		}
	}
	p.Status = status
	p.RetryAfter = retryAfter(h.Get("Retry-After"))
	return p
}

// excerpt is the beginning of a text that is not ours, in one line.
func excerpt(body []byte) string {
	text := strings.Join(strings.FieldsFunc(string(body[:min(len(body), 400)]), func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == utf8.RuneError
	}), " ")
	return strings.ToValidUTF8(text[:min(len(text), 200)], "")
}

// maxRetryAfter is the longest time that a node, or what stands before it, is believed.
const maxRetryAfter = time.Minute

// retryAfter is how long a header of that name says to wait, in seconds; 0: it says nothing.
func retryAfter(v string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(v))
	if err != nil || n <= 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxRetryAfter)
}
