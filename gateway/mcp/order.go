package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// What a client may say in a request's _meta, and is told in a result's.
const (
	MetaKey   = "run.sluice/idempotency-key" // request: names what the call does; the same again is done once
	MetaTrace = "run.sluice/trace"           // request: the trace that the call belongs to; result: where it is
	MetaTurn  = "run.sluice/turn"            // result
	MetaAgain = "run.sluice/again"           // result: true where the call was asked for before, and is not made again

	metaTraceparent = "traceparent"
)

// maxKey is the length in bytes of the longest idempotency key that a client may give.
const maxKey = 256

// order is a request to call a tool, read.
type order struct {
	tool  Tool
	key   string // as the client gave it; "" means none
	trace string
	turn  events.TurnSubmitted
	mark  string // the cell of what makes two requests one: see same
	held  string // the cell that stands for it while a person is waited for, in whatever trace; "" where there is a key
	named bool   // the request names its trace
}

// read reads a request. Its errors are the protocol's.
func (d *Door) read(v *visit, req *sdk.CallToolRequest) (order, error) {
	tool, ok := d.tool(req.Params.Name)
	if !ok {
		return order{}, invalid("there is no tool %.80q", req.Params.Name)
	}
	who := v.principal()
	o := order{tool: tool}
	var err error
	if o.key, err = metaText(req.Params.Meta, MetaKey); err != nil {
		return o, err
	}
	if len(o.key) > maxKey || !utf8.ValidString(o.key) {
		return o, invalid("%s: %d bytes, at most %d of UTF-8", MetaKey, len(o.key), maxKey)
	}
	if o.trace, err = d.traceOf(v, who, req); err != nil {
		return o, err
	}
	workspace, err := d.worksIn(v)
	if err != nil {
		return o, invalid("%s", err)
	}
	o.turn = events.TurnSubmitted{
		Principal: who, Workspace: workspace, CanAsk: true, Traceparent: traceparentOf(v, req.Params.Meta),
		Calls: []events.RawCall{{Tool: tool.Name, Args: events.Body{Text: string(req.Params.Arguments)}, Key: o.key}},
	}
	args := lifecycle.Digest(req.Params.Arguments)
	if parsed, err := lifecycle.Parse(string(req.Params.Arguments)); err == nil {
		args = parsed.Hash
	}
	if o.key != "" {
		o.mark = same("key", who.ID, tool.Name, o.key, args)
	} else {
		o.mark = same("call", who.ID, o.trace, tool.Name, args)
		o.held = same("held", who.ID, workspace, tool.Name, args)
		_, o.named = req.Params.Meta[MetaTrace]
	}
	return o, nil
}

func invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// metaText is a text in a request's _meta; "" where it is not there.
func metaText(m sdk.Meta, name string) (string, error) {
	v, there := m[name]
	if !there || v == nil {
		return "", nil
	}
	s, ok := v.(string)
	if !ok || s == "" {
		return "", invalid("_meta %s: want a text", name)
	}
	return s, nil
}

// traceOf is the trace of a call: the one that the request names, else its session's, else
// one for what this client program does in its principal's name today.
func (d *Door) traceOf(v *visit, who events.Principal, req *sdk.CallToolRequest) (string, error) {
	said, err := metaText(req.Params.Meta, MetaTrace)
	switch {
	case err != nil:
		return "", err
	case said != "":
		if err := events.CheckID("trace", said); err != nil {
			return "", invalid("_meta %s: %s", MetaTrace, err)
		}
		return said, nil
	case v.session != "":
		return v.session, nil
	}
	client := ""
	if c := req.ClientInfo(); c != nil {
		client = c.Name
	}
	return traceID(who.ID, client, d.cfg.Now().UTC().Format("2006-01-02")), nil
}

// traceID makes a trace's id of parts that nobody can read out of it.
func traceID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s ", len(p), p)
	}
	return "mcp-" + hex.EncodeToString(h.Sum(nil)[:12])
}

// worksIn is the workspace of a visit's turns.
func (d *Door) worksIn(v *visit) (string, error) {
	d.mu.Lock()
	back := d.back
	d.mu.Unlock()
	if back == nil {
		return "", errors.New("no node is behind this door yet")
	}
	return v.who.Works(v.workspace, back.Desk.Workspace())
}

// traceparentOf is the caller's trace context: its message's, else its request's.
func traceparentOf(v *visit, m sdk.Meta) string {
	if s, ok := m[metaTraceparent].(string); ok && traceparent(s) {
		return s
	}
	if traceparent(v.traceparent) {
		return v.traceparent
	}
	return ""
}

// traceparent says whether s is a W3C trace context.
func traceparent(s string) bool {
	_, ok := events.ParseTraceparent(s)
	return ok
}
