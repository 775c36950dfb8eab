package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/events"
)

// Format is how a message is written: a provider's way, or Sluice's own.
type Format string

// The formats that every node knows; a node of a newer release may know others.
const (
	OpenAI    Format = "openai"    // Chat Completions
	Responses Format = "responses" // OpenAI's Responses API
	Anthropic Format = "anthropic"
	Gemini    Format = "gemini"
	AISDK     Format = "aisdk" // messages of Vercel's AI SDK
	Neutral   Format = "json"
)

// Call is one call of a Submission, in Sluice's own form.
type Call struct {
	ID      string   `json:"id,omitempty"`      // the provider's; "" makes one of the place
	Tool    string   `json:"tool"`              // its name
	Args    any      `json:"args,omitempty"`    // anything that becomes a JSON object; nil means {}
	Key     string   `json:"key,omitempty"`     // idempotency key; "" leaves it to the tool
	Secrets []string `json:"secrets,omitempty"` // JSON Pointers to arguments that are secrets
}

// Submission is a turn to run: the calls of one model response, and what they need.
// Exactly one of Message, ToolCalls and Calls must be there.
type Submission struct {
	Trace string `json:"trace,omitempty"` // the conversation; "" makes one
	Turn  string `json:"turn,omitempty"`  // unique in its trace; "" makes one
	// Principal is who acts; nil means the caller, or local where everybody is believed.
	Principal *events.Principal `json:"principal,omitempty"`

	Format    Format          `json:"format,omitempty"`     // of the message and of its answers; "" means: as it looks
	Message   json.RawMessage `json:"message,omitempty"`    // the provider's response, or its assistant message, as it came
	ToolCalls json.RawMessage `json:"tool_calls,omitempty"` // the provider's array of calls
	Calls     []Call          `json:"calls,omitempty"`

	Workspace string        `json:"workspace,omitempty"` // absolute; "" means the node's own
	Mode      string        `json:"mode,omitempty"`      // read_only or write; "" means write
	CanAsk    bool          `json:"can_ask,omitempty"`   // somebody can be asked; otherwise what must be asked is denied
	Allow     []string      `json:"allow,omitempty"`     // narrows the principal's allowlist to these tools
	Placement string        `json:"placement,omitempty"` // which nodes may run it; "" means default
	OnError   string        `json:"on_error,omitempty"`  // continue, the meaning of "", or abort_rest
	Disjoint  bool          `json:"parallel_disjoint,omitempty"`
	Limits    events.Limits `json:"limits,omitzero"`
	Secrets   []string      `json:"secrets,omitempty"` // JSON Pointers to arguments of every call that are secrets

	Traceparent string `json:"traceparent,omitempty"` // W3C

	// Wait is how long the node waits for the end before it answers, at most an hour; 0:
	// it answers once the turn is durable. Run waits for as long as it takes.
	Wait time.Duration `json:"-"`
}

// Submitted is what became of a submission.
type Submitted struct {
	Trace    string `json:"trace"`
	Turn     string `json:"turn"`
	State    string `json:"state"`    // see Turn.State; nothing for a stream that asks for no call
	Attached bool   `json:"attached"` // the turn was there already
	// NotTaken are settings of this submission that the turn which was there does not have, by
	// the names of their fields (limits.deadline_ms), each with what stands instead; nil: none.
	NotTaken map[string]any `json:"not_taken"`
	Stop     string         `json:"stop"` // of SubmitStream: why the model has ended

	Format   Format            `json:"format"`   // of Messages
	Messages []json.RawMessage `json:"messages"` // once the turn has ended; nil before
	// Assistant is the model's message with the ids that Messages answer: only where they
	// are not those of the message that was submitted, which had some repeated or missing.
	Assistant json.RawMessage `json:"assistant"`
	// Unanswered are calls of the message that are neither run nor answered at the node:
	// the agent answers them itself. nil: none.
	Unanswered []Unanswered `json:"unanswered"`
	// Next are the requests that go on from here, for people to read; nil once the turn has
	// ended. Messages, Turn, CancelTurn and Approvals are them in Go.
	Next map[string]string `json:"next"`
}

// Unanswered is a call of a kind that a node neither runs nor answers.
type Unanswered struct {
	Type string `json:"type"` // the provider's word for its kind, as computer_call
	ID   string `json:"id"`   // that its answer names; "" where it has none
}

// Key names the turn.
func (s Submitted) Key() events.TurnKey { return events.TurnKey{Trace: s.Trace, Turn: s.Turn} }

// Ended says whether the turn has ended, and Messages are there.
func (s Submitted) Ended() bool { return ended(s.State) }

func ended(state string) bool { return state == "completed" || state == "abandoned" }

// maxWait is how long one request waits: proxies end what waits for longer.
const maxWait = 25 * time.Second

// named is the submission with its ids made.
func (s Submission) named() (Submission, error) {
	for _, id := range []*string{&s.Trace, &s.Turn} {
		if *id != "" {
			continue
		}
		made, err := ulid.New(ulid.Now(), rand.Reader)
		if err != nil {
			return s, err
		}
		*id = made.String()
	}
	return s, s.key().Check()
}

func (s Submission) key() events.TurnKey { return events.TurnKey{Trace: s.Trace, Turn: s.Turn} }

// Submit submits a turn, and returns once it is durable, or once it has ended where that is
// within s.Wait. Ids that are missing are made BEFORE the first try; with an error, too, the
// answer has them, so that the same submission can be made again under the same ids: it
// attaches to the turn if that was kept. With other calls it is TurnExists.
func (c *Client) Submit(ctx context.Context, s Submission) (Submitted, error) {
	s, err := s.named()
	out := Submitted{Trace: s.Trace, Turn: s.Turn}
	if err != nil {
		return out, err
	}
	body := struct {
		Submission
		WaitMS int64 `json:"wait_ms,omitempty"`
	}{s, s.Wait.Milliseconds()}
	var got Submitted
	if _, err := c.do(ctx, request{method: "POST", path: "/v1/turns", body: body, wait: s.Wait, into: &got}); err != nil {
		return out, err
	}
	return got, nil
}

// Run submits a turn and waits for its end, however long that takes: people may have to
// answer first. Connections that break meanwhile are opened again. With an error the
// answer has the ids at least; the turn goes on, and the same Run attaches to it.
func (c *Client) Run(ctx context.Context, s Submission) (Submitted, error) {
	s.Wait = maxWait
	out, err := c.Submit(ctx, s)
	if err != nil || out.Ended() {
		return out, err
	}
	t, err := c.Wait(ctx, out.Key())
	if err != nil {
		return out, err
	}
	m, err := c.Messages(ctx, out.Key(), s.Format)
	if err != nil {
		return out, err
	}
	out.State, out.Format, out.Messages = t.State, m.Format, m.Messages
	return out, nil
}

// Turn is how a turn stands.
type Turn struct {
	Trace           string           `json:"trace"`
	Turn            string           `json:"turn"`
	State           string           `json:"state"` // submitted, running, parked, completed, abandoned or imported
	Principal       events.Principal `json:"principal"`
	Format          Format           `json:"format"` // as it was submitted; "" where nobody has said
	Workspace       string           `json:"workspace"`
	Mode            string           `json:"mode"`
	Placement       string           `json:"placement"`
	Imported        string           `json:"imported"` // the recording that it comes from; "" for one that ran here
	SubmittedAt     time.Time        `json:"submitted_at"`
	Owner           *events.Owner    `json:"owner"`   // nil: no node has claimed it
	Batches         [][]int          `json:"batches"` // offsets of calls that run together; nil before it is planned
	CancelRequested bool             `json:"cancel_requested"`
	Broken          string           `json:"broken"`   // why its history is not one that this release writes
	Position        string           `json:"position"` // of its last commit
	Calls           []CallState      `json:"calls"`    // in the order of the request
}

// Key names the turn.
func (t Turn) Key() events.TurnKey { return events.TurnKey{Trace: t.Trace, Turn: t.Turn} }

// Ended says whether the turn has ended.
func (t Turn) Ended() bool { return ended(t.State) }

// CallState is how one call of a turn stands.
type CallState struct {
	Call            int             `json:"call"` // its place in the turn, from 0
	ProviderID      string          `json:"provider_id"`
	Tool            string          `json:"tool"`
	State           string          `json:"state"` // a phase, or the kind of its end
	Tier            events.Tier     `json:"tier"`  // "" before it is judged
	Attempt         int             `json:"attempt"`
	Effects         events.Effects  `json:"effects"`  // of its end; "" before
	Resolved        events.Effects  `json:"resolved"` // what was found out later
	Compensated     *Compensated    `json:"compensated"`
	Status          events.Status   `json:"status"`
	Code            events.Code     `json:"code"`
	Reason          string          `json:"reason"`
	Path            string          `json:"path"` // JSON Pointer into the arguments
	Deduplicated    string          `json:"deduplicated_from"`
	CancelRequested bool            `json:"cancel_requested"`
	Whole           *events.BlobRef `json:"whole"` // of an answer that a limit has cut; see Client.Blob
	Stages          *events.Stages  `json:"stages"`
}

// Compensated is who has undone a call, and when.
type Compensated struct {
	By events.Principal `json:"by"`
	At time.Time        `json:"at"`
}

// Get is a turn as it stands. It returns NoTurn where there is none.
func (c *Client) Get(ctx context.Context, key events.TurnKey) (Turn, error) {
	return c.look(ctx, key, 0)
}

// Wait waits until a turn has ended, however long that takes, and returns it. It returns
// NoTurn where there is none.
func (c *Client) Wait(ctx context.Context, key events.TurnKey) (Turn, error) {
	var p patience
	for {
		t, err := c.look(ctx, key, maxWait)
		if err != nil || t.Ended() {
			return t, err
		}
		if err := p.rest(ctx, c, maxWait); err != nil {
			return t, err
		}
	}
}

// WaitFor is Wait for a time: then the turn is as it stands, and that is no error.
func (c *Client) WaitFor(ctx context.Context, key events.TurnKey, limit time.Duration) (Turn, error) {
	late, p := time.Now().Add(limit), patience{}
	for {
		left := max(0, time.Until(late))
		t, err := c.look(ctx, key, min(left, maxWait))
		if err != nil || t.Ended() || left == 0 {
			return t, err
		}
		if err := p.rest(ctx, c, min(left, maxWait)); err != nil {
			return t, err
		}
	}
}

func (c *Client) look(ctx context.Context, key events.TurnKey, wait time.Duration) (Turn, error) {
	var t Turn
	at, err := pathOf(key)
	if err == nil {
		_, err = c.do(ctx, request{method: "GET", path: at, query: waiting(nil, wait), wait: wait, into: &t})
	}
	return t, err
}

// waiting adds how long the node is to wait to a query.
func waiting(q url.Values, wait time.Duration) url.Values {
	if wait <= 0 {
		return q
	}
	if q == nil {
		q = make(url.Values)
	}
	q.Set("wait_ms", strconv.FormatInt(max(1, wait.Milliseconds()), 10))
	return q
}

// pathOf is a turn's address, with what stands below it.
func pathOf(key events.TurnKey, below ...string) (string, error) {
	if err := key.Check(); err != nil {
		return "", err
	}
	return path(append([]string{"v1", "turns", key.Trace, key.Turn}, below...)...), nil
}

// callPath is a call's address, with what stands below it.
func callPath(call events.CallKey, below string) (string, error) {
	if call.Offset < 0 {
		return "", errors.New("a call is named by its place in the turn, from 0")
	}
	return pathOf(call.TurnKey(), "calls", strconv.Itoa(call.Offset), below)
}

// Messages are what the model is told of a turn.
type Messages struct {
	Trace     string            `json:"trace"`
	Turn      string            `json:"turn"`
	State     string            `json:"state"` // of the turn: see Turn.State
	Format    Format            `json:"format"`
	Assistant json.RawMessage   `json:"assistant"` // the model's message that these answer, with the same ids
	Messages  []json.RawMessage `json:"messages"`  // one for each call, or one with all of them, as the format has it
}

// Messages are a turn's answers as they stand, in a format; "" means the one in which it
// was submitted. A call that has not ended has a placeholder.
func (c *Client) Messages(ctx context.Context, key events.TurnKey, f Format) (Messages, error) {
	var m Messages
	at, err := pathOf(key, "messages")
	if err != nil {
		return m, err
	}
	q := make(url.Values)
	if f != "" {
		q.Set("format", string(f))
	}
	return m, c.get(ctx, at, q, &m)
}

// Tools is the list of tools as a provider's API takes it; "" means OpenAI's. It is sorted
// by name, and without those whose circuit is open.
func (c *Client) Tools(ctx context.Context, f Format) (json.RawMessage, error) {
	q := make(url.Values)
	if f != "" {
		q.Set("format", string(f))
	}
	var out json.RawMessage
	if err := c.get(ctx, "/v1/tools", q, &out); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	return out, nil
}
