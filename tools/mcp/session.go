package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/shell/family"
)

// newRevision is the first revision of the protocol without a session of its own: there a
// tool asks for input by its answer.
const newRevision = "2026-07-28"

// oldRevision is the newest one before that.
const oldRevision = "2025-11-25"

// session is one connection to a server, from its start to its end.
type session struct {
	server Server
	times  Times
	log    *slog.Logger

	cs   *mcp.ClientSession
	tap  *tap
	pipe *lines   // nil over HTTP
	proc *process // nil over HTTP
	wire *wire    // nil over pipes

	ctx  context.Context // ends with the session; its cause is why
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	tokens atomic.Int64
	busy   atomic.Int64  // calls that run
	doubt  chan struct{} // holds one: somebody thinks that the server is gone
}

// revision is the one that was agreed on.
func (s *session) revision() string {
	if r := s.cs.InitializeResult(); r != nil {
		return r.ProtocolVersion
	}
	return ""
}

// open starts a server, or reaches it, and agrees with it on a revision. own is the life
// of the session, ctx that of the attempt. older says not to ask for the newest revision,
// which some servers of before it do not even refuse.
func open(ctx, own context.Context, s Server, c Config, older bool) (_ *session, err error) {
	x := &session{server: s, times: c.Times, log: c.Log.With("server", s.Name), tap: newTap(), doubt: make(chan struct{}, 1)}
	x.ctx, x.stop = context.WithCancelCause(own)
	transport, err := x.transport(ctx, c)
	if err != nil {
		x.stop(err)
		return nil, err
	}
	want := &mcp.ClientSessionOptions{}
	if older {
		want.ProtocolVersion = oldRevision
	}
	if x.cs, err = x.client(c).Connect(ctx, transport, want); err != nil {
		if ended := errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, io.EOF); ended || ctx.Err() != nil {
			err = x.unready(ctx, err)
		} // else it is there, and says what is of no use: its end is then our doing
		err = withoutAddress(err)
		x.end(err)
		return nil, err
	}
	x.wg.Go(x.watch)
	return x, nil
}

func (s *session) transport(ctx context.Context, c Config) (mcp.Transport, error) {
	if s.server.URL != "" {
		s.wire = newWire(s.server, s.tap, s.log)
		return &mcp.StreamableClientTransport{Endpoint: s.server.URL, HTTPClient: s.wire.client(), MaxRetries: 2, MaxEventSize: maxLine}, nil
	}
	p, err := startProcess(ctx, s.server, c)
	if err != nil {
		return nil, err
	}
	s.proc = p
	s.pipe = newLines(p.out, p.in, s.tap, s.log)
	s.wg.Go(func() {
		<-p.family.Exited()
		_ = s.pipe.Close() // whatever still holds its output, it will not answer
	})
	return s.pipe, nil
}

// client is a client of the SDK that offers no more than this package does: a person's
// answers, where the revision lets a tool wait for them without a call that hangs.
func (s *session) client(c Config) *mcp.Client {
	client := mcp.NewClient(&mcp.Implementation{Name: "sluice", Title: "Sluice", Version: c.Version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		MultiRoundTrip:         &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {}, // has the SDK ask for these; see tap
		Logger:                 slog.New(slog.DiscardHandler),
	})
	client.AddSendingMiddleware(offerLess)
	client.AddReceivingMiddleware(declines)
	return client
}

// offerLess takes out of the older handshake what can only be kept in the newer one.
func offerLess(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if p, ok := req.GetParams().(*mcp.InitializeParams); ok && p != nil && p.Capabilities != nil {
			p.Capabilities.Elicitation = nil
		}
		return next(ctx, method, req)
	}
}

// declines answers what a server asks of its client: a sign of life, and else a clear no.
func declines(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case "sampling/createMessage", "roots/list", "elicitation/create":
			return nil, &jsonrpc.Error{
				Code: jsonrpc.CodeInvalidRequest, Message: "Sluice does not offer " + method + " to servers: a tool that needs input answers with input_required (" + newRevision + ")",
			}
		}
		return next(ctx, method, req)
	}
}

// watch ends the session once its connection has ended, or nothing answers any more.
func (s *session) watch() {
	gone := make(chan error, 1)
	s.wg.Go(func() { gone <- s.cs.Wait() })
	look, next := s.look, s.pause
	if s.pipe != nil {
		look, next = s.listens, s.listening
	}
	for {
		timer := time.NewTimer(next())
		doubted := false
		select {
		case err := <-gone:
			timer.Stop()
			s.stop(s.explain(s.ctx, err))
			return
		case <-s.ctx.Done():
			timer.Stop()
			return
		case <-s.doubt:
			doubted = true
		case <-timer.C:
		}
		timer.Stop()
		if err := look(doubted); err != nil {
			s.stop(err)
			return
		}
	}
}

// listening is how long to wait before it is looked at a server over pipes again.
func (s *session) listening() time.Duration {
	_, wait := s.tap.hearing.deaf(s.times.Pong, cmp.Or(s.times.Ping, idlePing))
	return max(wait, 0)
}

// errDeaf says that a server over pipes does not hear any more, though its process lives.
var errDeaf = errors.New("it does not answer any more")

// listens asks a server over pipes whether it is there. Any word of it is an answer.
func (s *session) listens(bool) error {
	deaf, _ := s.tap.hearing.deaf(s.times.Pong, 0)
	if deaf {
		return errDeaf
	}
	if s.tap.hearing.asks() {
		s.wg.Go(func() {
			ctx, stop := context.WithTimeout(s.ctx, looks*s.times.Pong)
			defer stop()
			_ = s.cs.Ping(ctx, nil) // its answer has been heard by now
		})
	}
	return nil
}

// pause is how long to wait before it is looked at a server over HTTP again.
func (s *session) pause() time.Duration {
	if s.times.Ping == 0 && s.busy.Load() > 0 {
		return busyPing
	}
	return cmp.Or(s.times.Ping, idlePing)
}

// looks is how many looks in a row must fail.
const looks = 2

// look asks a server over HTTP whether it is there. Any answer is one: revisions without
// ping refuse it.
func (s *session) look(doubted bool) error {
	if !doubted && s.busy.Load() == 0 && s.revision() >= newRevision {
		return nil // there is nothing to keep: the next call finds out
	}
	var err error
	for range looks {
		ctx, stop := context.WithTimeout(s.ctx, s.times.Pong)
		f := &flight{}
		err = s.cs.Ping(f.with(ctx), nil)
		stop()
		if r, _ := f.abandon(nil); err == nil || s.ctx.Err() != nil || r != nil && !unreachable(r) {
			return nil
		}
	}
	return fmt.Errorf("it does not answer: %w", withoutAddress(err))
}

// unreachable says that an answer is not the server's, but ours in its place, or that of
// something in front of it.
func unreachable(r *jsonrpc.Response) bool {
	var e *jsonrpc.Error
	if !errors.As(r.Error, &e) {
		return false
	}
	var s status
	return e.Code == codeNoResponse || e.Code == codeStatus && json.Unmarshal(e.Data, &s) == nil && s.Status >= 500
}

// suspect has the server looked at now.
func (s *session) suspect() {
	select {
	case s.doubt <- struct{}{}:
	default:
	}
}

// explain is an error of the connection, in words for people.
func (s *session) explain(ctx context.Context, err error) error {
	if fault := s.tap.failed(); fault != nil {
		return fault // its process ends for it, too
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if s.proc == nil {
		if err == nil {
			err = errors.New("the connection was closed")
		}
		return withoutAddress(err)
	}
	switch {
	case family.Within(exitWait, s.proc.family.Exited()):
		err = s.proc.ending()
	case err == nil:
		err = errors.New("it closed its standard output")
	}
	if last := s.proc.last(); last != "" {
		err = &ended{why: err, said: last}
	}
	return err
}

// unready is why a server did not become ready, with what to do where it is contained.
func (s *session) unready(ctx context.Context, err error) error {
	err = s.explain(ctx, err)
	if s.proc == nil || s.proc.hint == "" || s.tap.failed() != nil {
		return err
	}
	e, ok := errors.AsType[*ended](err)
	if !ok {
		e = &ended{why: err}
	}
	e.hint = s.proc.hint
	return e
}

// ended is why a process is not there any more, what it said last, before it was ever
// called, and what to do. These are for the operator alone.
type ended struct {
	why        error
	said, hint string // "": nothing
}

func (e *ended) Error() string {
	text := e.why.Error()
	if e.said != "" {
		text += "; it said: " + e.said
	}
	if e.hint != "" {
		text += "; " + e.hint
	}
	return text
}

func (e *ended) Unwrap() error { return e.why }

// forCallers is err in words for whoever has called a tool.
func forCallers(err error) string {
	if e, ok := errors.AsType[*ended](err); ok {
		return events.Visible(e.why.Error()) + "; the node's log says more"
	}
	return events.Visible(withoutAddress(err).Error())
}

// withoutAddress is what an error of HTTP comes from: an address may have a key in it, and
// is for nobody to read but who wrote it.
func withoutAddress(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// exitWait is how long the end of a process may stand behind that of its output.
const exitWait = 500 * time.Millisecond

// end ends the session, and returns once nothing of it runs any more.
func (s *session) end(why error) {
	s.stop(why)
	if s.pipe != nil {
		_ = s.pipe.Close()
	}
	if s.cs != nil {
		_ = s.cs.Close() // over HTTP it says so to the server
	}
	if s.proc != nil {
		closing := s.times.Close
		if errors.Is(why, errDeaf) {
			closing = 0 // it does not hear that its input is closed, either
		}
		s.proc.end(closing, s.times.Close)
	}
	if s.pipe != nil {
		s.pipe.wait()
	}
	if s.wire != nil {
		s.wire.closeIdle()
	}
	s.wg.Wait()
}

// within is ctx for one request: it ends with the session, too.
func (s *session) within(ctx context.Context) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(s.ctx, func() { stop(errEnded) })
	return ctx, func() { unhook(); stop(nil) }
}

// errEnded says that the connection ended under a request.
var errEnded = errors.New("the connection to the server ended")

// token is a new one for progress, unique on the connection.
func (s *session) token() string { return "sluice-" + strconv.FormatInt(s.tokens.Add(1), 10) }
