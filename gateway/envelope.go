package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/policy/access"
)

// Envelope is a submission as it is sent to POST /v1/turns. Fields that are not
// named here are errors; inside Message and ToolCalls, which are the provider's,
// they are tolerated. Exactly one of Message, ToolCalls, Calls and Stream must be there.
type Envelope struct {
	Trace     string          `json:"trace,omitempty"` // "" makes one
	Turn      string          `json:"turn,omitempty"`  // "" makes one
	Principal Who             `json:"principal,omitzero"`
	Format    codec.Format    `json:"format,omitempty"`     // "" means: as the message looks, else openai
	Message   json.RawMessage `json:"message,omitempty"`    // the provider's response or assistant message
	ToolCalls json.RawMessage `json:"tool_calls,omitempty"` // the provider's array of calls
	Calls     json.RawMessage `json:"calls,omitempty"`      // ours: [{id, tool, args, key}]
	Stream    string          `json:"stream,omitempty"`     // the provider's whole stream of events, as it came
	Workspace string          `json:"workspace,omitempty"`  // absolute; "" means the node's own
	Mode      string          `json:"mode,omitempty"`       // read_only or write; "" means write
	CanAsk    bool            `json:"can_ask,omitempty"`
	Allow     []string        `json:"allow,omitempty"` // narrows the principal's allowlist; empty does not
	Placement string          `json:"placement,omitempty"`
	OnError   string          `json:"on_error,omitempty"`
	Disjoint  bool            `json:"parallel_disjoint,omitempty"`
	Limits    events.Limits   `json:"limits,omitzero"`
	WaitMS    int64           `json:"wait_ms,omitempty"` // how long to wait for the turn's end; 0: not at all
	Secrets   []string        `json:"secrets,omitempty"` // JSON Pointers to arguments of every call that are secrets; what looks like one is, anyway

	Traceparent string `json:"traceparent,omitempty"` // W3C; the header of that name means the same
}

// Who is a principal. A JSON string is one with that id.
type Who events.Principal

// whoSaid is a principal as a body may name one: how its door knows it is the door's to say.
type whoSaid struct {
	ID      string   `json:"id"`
	Kind    string   `json:"kind,omitempty"`    // agent, person or service
	Parents []string `json:"parents,omitempty"` // nearest first
}

// UnmarshalJSON reads a string or an object.
func (w *Who) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &w.ID)
	}
	var said whoSaid
	if err := json.Unmarshal(b, &said); err != nil {
		return err
	}
	w.ID, w.Kind, w.Parents = said.ID, said.Kind, said.Parents
	if !slices.Contains([]string{"", access.KindAgent, access.KindPerson, access.KindService}, w.Kind) {
		return fmt.Errorf("the kind %.40q of a principal: say agent, person or service, or leave it out", w.Kind)
	}
	return nil
}

// DefaultPrincipal acts where a submission does not say who does.
const DefaultPrincipal = "local"

// MaxWait is how long a request may wait for a turn's end.
const MaxWait = time.Hour

// Order is a submission that has been read.
type Order struct {
	Key  events.TurnKey // parts that are empty are still to be made
	Turn events.TurnSubmitted
	Said events.Principal // who submits, as the envelope has it; zero where it does not say
	Wait time.Duration
	// Unanswered are calls of the message that are neither run nor answered here.
	Unanswered []codec.Unanswered
}

// ParseEnvelope reads a submission. Its errors are Problems.
func ParseEnvelope(body []byte) (Order, error) {
	var e Envelope
	if err := decodeStrict(body, &e); err != nil {
		return Order{}, err
	}
	return e.Order()
}

// Order reads what an envelope holds. Its errors are Problems.
func (e Envelope) Order() (Order, error) {
	if err := e.check(); err != nil {
		return Order{}, err
	}
	format, m, err := e.calls()
	if err != nil {
		return Order{}, err
	}
	calls := m.Calls
	if len(calls) == 0 && len(m.Unanswered) > 0 {
		return Order{}, onlyUnanswered(m.Unanswered[0])
	}
	if err := HaltProblem(m); err != nil {
		return Order{}, err
	}
	if err := Declare(calls, e.Secrets); err != nil {
		return Order{}, err
	}
	p := events.Principal(e.Principal)
	p.ID = cmp.Or(p.ID, DefaultPrincipal)
	return Order{
		Said: events.Principal(e.Principal),
		Key:  events.TurnKey{Trace: e.Trace, Turn: e.Turn},
		Wait: time.Duration(e.WaitMS) * time.Millisecond,

		Unanswered: m.Unanswered,
		Turn: events.TurnSubmitted{
			Principal: p, Calls: calls, Format: string(format), Workspace: e.Workspace, Mode: e.Mode, CanAsk: e.CanAsk, Allow: e.Allow,
			Placement: e.Placement, OnError: e.OnError, Disjoint: e.Disjoint, Limits: e.Limits, Traceparent: e.Traceparent,
		},
	}, nil
}

func (e Envelope) check() error {
	given := 0
	for _, there := range []bool{!isNull(e.Message), !isNull(e.ToolCalls), !isNull(e.Calls), e.Stream != ""} {
		if there {
			given++
		}
	}
	const next = "send exactly one of message, tool_calls, calls and stream"
	switch {
	case given == 0:
		return BadRequest("there is nothing to run", next)
	case given > 1:
		return BadRequest("more than one of message, tool_calls, calls and stream", next)
	case e.Trace != "" && events.CheckID("trace", e.Trace) != nil:
		return BadRequest(events.CheckID("trace", e.Trace).Error(), "use another id, or none to have one made")
	case e.Turn != "" && events.CheckID("turn", e.Turn) != nil:
		return BadRequest(events.CheckID("turn", e.Turn).Error(), "use another id, or none to have one made")
	case e.Workspace != "" && !filepath.IsAbs(e.Workspace):
		return BadRequest(fmt.Sprintf("workspace %q is no absolute path", e.Workspace), "send an absolute path, or none for the node's own")
	case strings.ContainsFunc(e.Workspace, unicode.IsControl):
		return BadRequest(fmt.Sprintf("workspace %q holds control characters", e.Workspace), "send the path of a folder without them, or none for the node's own")
	case e.WaitMS < 0 || time.Duration(e.WaitMS) > MaxWait/time.Millisecond:
		return BadRequest(fmt.Sprintf("wait_ms %d", e.WaitMS), fmt.Sprintf("send 0 to %d", MaxWait.Milliseconds()))
	case e.Traceparent != "" && !traceparent(e.Traceparent):
		return BadRequest(fmt.Sprintf("traceparent %q is not one", e.Traceparent), "send 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, or none")
	}
	return nil
}

func isNull(raw json.RawMessage) bool {
	b := bytes.TrimSpace(raw)
	return len(b) == 0 || string(b) == "null"
}

// traceparent says whether s is a W3C trace context.
func traceparent(s string) bool {
	_, ok := events.ParseTraceparent(s)
	return ok
}

// calls reads the calls in whatever form they came.
func (e Envelope) calls() (codec.Format, codec.Message, error) {
	if e.Stream != "" {
		format, m, err := codec.DecodeStream(e.Format, []byte(e.Stream), codec.StreamOptions{})
		return format, m, StreamProblem(err)
	}
	raw, as := e.Message, e.Format
	switch {
	case !isNull(e.Calls):
		raw, as = e.Calls, codec.Neutral
	case !isNull(e.ToolCalls):
		raw = e.ToolCalls
	}
	if as == "" {
		as = Sniff(raw)
	}
	m, err := codec.Decode(as, raw)
	if err != nil {
		p := codecProblem(err)
		if as == codec.Neutral && p.Status == http.StatusBadRequest {
			p.Next = `send calls as [{"tool", "args"}], each with id, key and secrets if it has them`
		}
		return "", m, p
	}
	format := cmp.Or(e.Format, as)
	if !slices.Contains(codec.Formats(), format) {
		return "", m, noFormat(format)
	}
	return format, m, nil
}

// onlyUnanswered is the problem of a message whose calls are all of kinds that are not run
// here.
func onlyUnanswered(u codec.Unanswered) error {
	return BadRequest(fmt.Sprintf("the message has no call that is run here: a %s is run and answered by the agent itself", u.Type),
		"answer it yourself, or give the model a function in its place")
}

// noFormat is the problem of a format that there is not.
func noFormat(f codec.Format) *Problem {
	return BadRequest(fmt.Sprintf("format %q", f), fmt.Sprintf("use one of %v", codec.Formats()))
}

// codecProblem is the problem that tells why a provider's message was refused.
func codecProblem(err error) *Problem {
	if ce, ok := asCodecError(err); ok && ce.Status() == 413 {
		return problem(413, "too-large", "The message is too large", err.Error(), "have the model ask for less at once")
	}
	return BadRequest(err.Error(), "send the provider's message as it came, and its format")
}

// Sniff says which format a JSON text looks like; see codec.Sniff.
func Sniff(raw json.RawMessage) codec.Format { return codec.Sniff(raw) }
