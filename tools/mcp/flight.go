package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// flight is one request of ours on its way, as its messages are seen to pass. The SDK
// decodes an answer into Go values, which changes digits and drops what it does not know,
// and forgets the request as soon as its caller has gone; here is what it really was.
type flight struct {
	token string // of its progress; "" where none is wanted
	list  bool   // it asks for a list of tools
	trace string // W3C trace context that goes with it; "" means none

	progress func(json.RawMessage) // the parameters of one progress; quick
	barren   atomic.Int32          // how often its stream was asked for again in vain

	mu     sync.Mutex
	id     *int64 // over HTTP, once it is known
	sent   bool   // at least some of it has left this process
	over   bool   // nobody waits any more
	answer *jsonrpc.Response
	late   func(*jsonrpc.Response)
}

type flightKey struct{}

// with is ctx for the request of f: the transport finds f in it, since the SDK has no
// other way to hand something on to it.
func (f *flight) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, flightKey{}, f)
}

// flightOf is the request that ctx belongs to; nil where it is none of these.
func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey{}).(*flight)
	return f
}

// asks notes the request's id.
func (f *flight) asks(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = &id
}

// number is the request's id; nil where none is known.
func (f *flight) number() *int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id
}

// answeredBy says whether r has the request's id.
func (f *flight) answeredBy(r *jsonrpc.Response) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id != nil && r.ID == idOf(*f.id)
}

func (f *flight) leaves() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = true
}

// returns says that what has left was not taken, and has done nothing.
func (f *flight) returns() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = false
}

// lands takes the answer. One that nobody waits for any more is told as late.
func (f *flight) lands(r *jsonrpc.Response) {
	f.mu.Lock()
	first := f.answer == nil
	if first {
		f.answer = r
	}
	late := f.late
	if !f.over || !first {
		late = nil
	}
	f.mu.Unlock()
	if late != nil {
		late(r)
	}
}

// abandon says that nobody waits any more. It returns the answer if there is one by now;
// one that comes later goes to late, which may be nil.
func (f *flight) abandon(late func(*jsonrpc.Response)) (r *jsonrpc.Response, sent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.late, f.progress = true, late, nil
	return f.answer, f.sent
}

func (f *flight) tell(params json.RawMessage) {
	f.mu.Lock()
	progress := f.progress
	f.mu.Unlock()
	if progress != nil {
		progress(params)
	}
}

// tap sees all messages of one connection pass, and takes out what is handled here.
type tap struct {
	changed chan struct{} // holds one: the server says that its tools have changed
	hearing hearing

	mu      sync.Mutex
	byID    map[jsonrpc.ID]*flight // over a pipe alone: an HTTP request knows whose it is
	byToken map[string]*flight
	left    []jsonrpc.ID // of flights that nobody waits for, oldest first
	foreign int          // requests of the server's that are not answered yet
	fault   error        // of the server's, for which its connection is ended here; nil: none
}

func newTap() *tap {
	return &tap{changed: make(chan struct{}, 1), byID: make(map[jsonrpc.ID]*flight), byToken: make(map[string]*flight)}
}

// departs notes a request before it is sent.
func (t *tap) departs(id jsonrpc.ID, f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[id] = f
}

// wants notes whose progress a token is, until the function that it returns is called.
func (t *tap) wants(f *flight) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byToken[f.token] = f
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.byToken, f.token)
	}
}

// keeps bounds the flights whose answers may still come late: the oldest are forgotten.
func (t *tap) keeps(f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, g := range t.byID {
		if g == f {
			t.left = append(t.left, id)
		}
	}
	for len(t.left) > maxAbandoned {
		delete(t.byID, t.left[0])
		t.left = t.left[1:]
	}
}

// incoming takes a message from the server, and returns what the SDK is to see of it;
// nil: nothing. f is the request that it came in answer to, where that is known. It fails
// where the server asks too much.
func (t *tap) incoming(msg jsonrpc.Message, f *flight) (jsonrpc.Message, error) {
	t.hearing.says()
	switch m := msg.(type) {
	case *jsonrpc.Response:
		if f == nil {
			f = t.arrives(m.ID)
		}
		if f == nil {
			return m, nil
		}
		if f.list {
			defer f.lands(m)
			return withoutTTL(m), nil
		}
		f.lands(m)
		if f.token != "" && m.Error == nil {
			return &jsonrpc.Response{ID: m.ID, Result: taken}, nil
		}
		return m, nil
	case *jsonrpc.Request:
		if m.IsCall() {
			return m, t.asks(1)
		}
		return nil, t.notified(m)
	}
	return msg, nil
}

// taken is what the SDK is told that a call came to: the answer itself is read here, and
// need not be decoded twice, whatever it holds.
var taken = json.RawMessage(`{"content":[]}`)

func (t *tap) arrives(id jsonrpc.ID) *flight {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.byID[id]
	delete(t.byID, id)
	return f
}

// asks counts the server's open requests.
func (t *tap) asks(n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.foreign = max(t.foreign+n, 0); t.foreign > maxForeign {
		t.fault = fmt.Errorf("it asks for more than %d things at once, and does not wait for the answers", maxForeign)
	}
	return t.fault
}

// fails notes and returns for what fault of the server's its connection is ended here.
func (t *tap) fails(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault = err
	return err
}

// failed is that fault, or nil.
func (t *tap) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fault
}

// notified handles what the server tells unasked. Nothing of it goes on to the SDK, whose
// queue of such messages has no bound.
func (t *tap) notified(m *jsonrpc.Request) error {
	switch m.Method {
	case "notifications/tools/list_changed":
		select {
		case t.changed <- struct{}{}:
		default: // it is known
		}
	case "notifications/progress":
		var p struct {
			Token any `json:"progressToken"`
		}
		if json.Unmarshal(m.Params, &p) != nil {
			return nil
		}
		token, _ := p.Token.(string)
		t.mu.Lock()
		f := t.byToken[token]
		t.mu.Unlock()
		if f != nil {
			f.tell(m.Params)
		}
	}
	return nil
}

// withoutTTL is a list that the SDK will not keep: when a list is asked for is decided
// here, and it must be the server's then.
func withoutTTL(r *jsonrpc.Response) *jsonrpc.Response {
	if !bytes.Contains(r.Result, []byte("ttlMs")) {
		return r
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(r.Result, &members) != nil {
		return r
	}
	delete(members, "ttlMs")
	plain, err := json.Marshal(members)
	if err != nil {
		return r
	}
	return &jsonrpc.Response{ID: r.ID, Result: plain, Error: r.Error, Extra: r.Extra}
}
