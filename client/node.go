package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Whoami is who the caller is at the node, and what that allows.
type Whoami struct {
	Principal  *events.Principal `json:"principal"` // nil where bodies say who acts
	Roles      []string          `json:"roles"`
	Via        string            `json:"via"`        // token, certificate or loopback
	Expires    time.Time         `json:"expires"`    // zero: never
	Workspaces []string          `json:"workspaces"` // where its turns run, the first where a turn names none; * is any folder
	May        map[string]string `json:"may"`        // by verb: own, for its own turns and those of its children, or all
}

// Whoami asks who the caller is at the node.
func (c *Client) Whoami(ctx context.Context) (out Whoami, err error) {
	return out, c.get(ctx, "/v1/whoami", nil, &out)
}

// Ready returns nil where a turn that is submitted now would be kept and run, and
// otherwise says why not. It tries once.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.try(ctx, request{method: "GET", path: "/readyz"}, nil)
	return err
}

// Node is a node as the cluster sees it.
type Node struct {
	Boot       string    `json:"boot"`
	Name       string    `json:"name"`
	State      string    `json:"state"` // live where it answers
	Owned      int       `json:"owned"` // turns that the log says are its own, parked ones not counted
	Placements []string  `json:"placements"`
	Says       *NodeSays `json:"says"`     // nil where it does not answer
	ClockMS    *float64  `json:"clock_ms"` // how far its machine's clock is ahead; nil: not told
}

// NodeSays is what a node says of itself.
type NodeSays struct {
	Version    string    `json:"version"`
	Placements []string  `json:"placements"`
	Since      time.Time `json:"since"`
	Draining   bool      `json:"draining"`
	Room       int       `json:"room"`     // turns that it can have in memory
	Turns      int       `json:"turns"`    // that it has
	Attempts   int       `json:"attempts"` // that run
	// What nodes of a log should have alike; "" from a release that does not tell.
	Policy      string    `json:"policy"`       // version of the policy in force
	PolicySince time.Time `json:"policy_since"` // when that came into force there
	Limits      string    `json:"limits"`       // digest of the limits in force, or none
	LimitsSince time.Time `json:"limits_since"` // when these came into force there
	Principals  string    `json:"principals"`   // digest of the allowlists, or none
	SecretsKeys string    `json:"secrets_keys"` // ids of the keys for secrets, the one that seals first, or none
	Retention   string    `json:"retention"`    // of the log, when the node began: a duration, or for ever
	Tools       []string  `json:"tools"`        // that it has, sorted
}

// Count is how many turns there are of a kind, and since when the oldest waits.
type Count struct {
	Turns  int       `json:"turns"`
	Oldest time.Time `json:"oldest"`
}

// Crew is who is there, and who has what.
type Crew struct {
	At        time.Time `json:"at"`
	Nodes     []Node    `json:"nodes"`
	Running   *Count    `json:"running"` // nil where the log was not read
	Gone      *Count    `json:"gone"`    // owned by a node that is gone
	Parked    *Count    `json:"parked"`
	Unclaimed *Count    `json:"unclaimed"`
	Warnings  []string  `json:"warnings"` // what an operator should look at
}

// Nodes tells who is there. log counts the turns that have not ended, too: the first time a
// node reads its whole log for that.
func (c *Client) Nodes(ctx context.Context, log bool) (out Crew, err error) {
	return out, c.get(ctx, "/v1/nodes", url.Values{"log": {fmt.Sprint(log)}}, &out)
}

// Breaker is the circuit of a tool, or of one of the endpoints that it reaches, as the
// cluster has it.
type Breaker struct {
	Tool       string    `json:"tool"`
	Circuit    string    `json:"circuit"` // the endpoint; "": the tool as a whole
	State      string    `json:"state"`   // closed, open or half_open
	Failures   int       `json:"failures"`
	OpenedAt   time.Time `json:"opened_at"` // zero: it is closed
	Until      time.Time `json:"until"`     // its next probe may pass then
	OpenedBy   string    `json:"opened_by"` // the person who has opened it; "" where failures have
	Reason     string    `json:"reason"`    // that person's
	Probe      string    `json:"probe"`     // the call that probes
	ProbeBoot  string    `json:"probe_boot"`
	ProbeUntil time.Time `json:"probe_until"`
	Note       string    `json:"note"` // that no node knows the tool; "": one does, or nobody was asked
}

// Breakers are all circuits that are not closed, or have failures.
func (c *Client) Breakers(ctx context.Context) ([]Breaker, error) {
	var out struct {
		Breakers []Breaker `json:"breakers"`
	}
	err := c.get(ctx, "/v1/breakers", nil, &out)
	return out.Breakers, err
}

// Breaker is the circuit of a tool, or of one of the endpoints that it reaches, for example
// https://example.com; "" is the tool as a whole. One of which nothing is known is closed.
func (c *Client) Breaker(ctx context.Context, tool, circuit string) (out Breaker, err error) {
	at, err := breaker(tool)
	if err != nil {
		return out, err
	}
	return out, c.get(ctx, at, circuitQuery(circuit), &out)
}

// Switched is what was done to a circuit.
type Switched struct {
	Tool      string  `json:"tool"`
	Circuit   string  `json:"circuit"`   // as in Breaker
	Status    string  `json:"status"`    // closed, already_closed or open
	Endpoints int     `json:"endpoints"` // how many circuits of the tool's endpoints were closed with it
	Was       Breaker `json:"was"`
	Note      string  `json:"note"` // that no node knows the tool

	By events.Principal `json:"by"` // who has done it
}

// ResetBreaker closes the circuit of a tool, and those of all its endpoints; or the one
// that a.Circuit names. Of a, the reason is not told.
func (c *Client) ResetBreaker(ctx context.Context, tool string, a Act) (out Switched, err error) {
	at, err := breaker(tool, "reset")
	if err != nil {
		return out, err
	}
	_, err = c.do(ctx, request{method: "POST", path: at, query: circuitQuery(a.Circuit), body: byBody{a.By}, into: &out})
	return out, err
}

// OpenBreaker switches a tool off for a time, 1 s to 30 days; or, of what it reaches, the
// endpoint that a.Circuit names. A tool that no node knows is an error, which names those
// that are alike, unless a.Force says that it is meant.
func (c *Client) OpenBreaker(ctx context.Context, tool string, d time.Duration, a Act) (out Switched, err error) {
	at, err := breaker(tool, "open")
	if err != nil {
		return out, err
	}
	body := struct {
		actBody
		ForMS int64 `json:"for_ms"`
		Force bool  `json:"force,omitempty"`
	}{actBody{a.By, a.Reason}, d.Milliseconds(), a.Force}
	_, err = c.do(ctx, request{method: "POST", path: at, query: circuitQuery(a.Circuit), body: body, into: &out})
	return out, err
}

func circuitQuery(circuit string) url.Values {
	v := make(url.Values)
	set(v, "circuit", circuit)
	return v
}

// breaker is the address of a tool's circuit, with what stands below it.
func breaker(tool string, below ...string) (string, error) {
	if tool == "" || strings.ContainsAny(tool, "/\\") {
		return "", fmt.Errorf("tool %.80q: want the name of one", tool)
	}
	return path(append([]string{"v1", "breakers", tool}, below...)...), nil
}

// Blob is the bytes that a digest names, for example the whole of a cut answer. turn is
// one that refers to it, which the node asks of who may not read everything; its zero value
// names none. Bytes that do not have that digest are an ErrAnswer.
func (c *Client) Blob(ctx context.Context, digest string, turn events.TurnKey) ([]byte, error) {
	v := make(url.Values)
	if turn != (events.TurnKey{}) {
		v.Set("trace", turn.Trace)
		v.Set("turn", turn.Turn)
	}
	var out []byte
	if err := c.get(ctx, path("v1", "blobs", digest), v, &out); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(out); "sha256:"+hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("%w: the bytes are not those of %.80s", ErrAnswer, digest)
	}
	return out, nil
}
