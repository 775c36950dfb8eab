package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/access"
	"github.com/sluice-run/sluice/projections/readstore"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fixture"
	"github.com/sluice-run/sluice/tools/fs"
	"github.com/sluice-run/sluice/tools/remote"
)

// node is a real node in this process, with its HTTP door: its log is in memory, and its
// tools are the fixtures and those for files.
type node struct {
	url    string
	desk   *gateway.Desk
	log    *memlog.Log
	api    *gateway.API
	server *httptest.Server
	stops  []func() error
}

// settings change what a node is made of.
type settings struct {
	keys   func() *keys.Ring
	limits gateway.Limits
	wrap   func(http.Handler) http.Handler // around the door
}

// allow lets every call through its policy.
type allow struct{}

// Authorize is policy.Authorizer's.
func (allow) Authorize(policy.Request) policy.Verdict {
	return policy.Verdict{Decision: policy.Allow, Gate: "authorize", Version: "test"}
}

// Version is policy.Authorizer's.
func (allow) Version() string { return "test" }

// PolicyState is gateway.PolicyKeeper's.
func (allow) PolicyState() json.RawMessage { return json.RawMessage(`{"version":"test"}`) }

// ReloadPolicy is gateway.PolicyKeeper's.
func (allow) ReloadPolicy(events.Principal) (json.RawMessage, error) {
	return json.RawMessage(`{"version":"test"}`), nil
}

// start starts a node. Its close must be called.
func start(s settings) (*node, error) {
	dir, err := os.MkdirTemp("", "sluice-client")
	if err != nil {
		return nil, err
	}
	n := &node{log: memlog.New(memlog.Config{})}
	n.stops = append(n.stops, func() error { return os.RemoveAll(dir) }, n.log.Close)
	b := n.log.View("node")
	registry, err := registryOf(dir, actors.UndoConfig{Bus: b, Workspace: dir})
	if err != nil {
		return n, err
	}
	rules, err := lifecycle.NewLimits([]lifecycle.LimitRule{{ID: "naps", Tool: "sleep", Concurrency: 64, Wait: time.Minute}})
	if err != nil {
		return n, err
	}
	limits := func() lifecycle.Limits { return rules }
	node, err := actors.New(actors.Config{Bus: b, Registry: registry, Authorizer: allow{}, Limits: limits, Boot: "node", Name: "node", Workspace: dir})
	if err != nil {
		return n, err
	}
	ctx := context.Background()
	if err := node.Start(ctx); err != nil {
		return n, err
	}
	n.desk = gateway.NewDesk(gateway.DeskConfig{Bus: b, Boot: "node", Workspace: dir, Poll: 20 * time.Millisecond})
	n.desk.Start(ctx)
	n.stops = append(n.stops, func() error { n.desk.Stop(); return nil }, func() error { return node.Stop(ctx) })
	store, err := readstore.Open(ctx, readstore.Config{Dir: dir + "/store", Log: b, Every: 2 * time.Millisecond, Rest: -1})
	if err != nil {
		return n, err
	}
	store.Start(ctx)
	n.stops = append(n.stops, store.Stop)
	roster, err := remote.New(remote.Config{Workers: b, Registry: registry, Boot: "node"})
	if err != nil {
		return n, err
	}
	n.stops = append(n.stops, func() error { roster.Stop(); return nil })
	if err := roster.Start(ctx, 0); err != nil {
		return n, err
	}
	n.api = gateway.NewAPI(gateway.APIConfig{
		Desk: n.desk, Store: store, Policy: allow{}, Keys: s.keys, Limits: s.limits, Ping: 50 * time.Millisecond,
		Rules: limits, Explain: explains(registry), Workers: roster.View,
		Tools: func(context.Context, string) (json.RawMessage, error) { return tools.OpenAI(registry.List()) },
	})
	h := n.api.Handler()
	if s.wrap != nil {
		h = s.wrap(h)
	}
	n.server = httptest.NewServer(h)
	n.url = n.server.URL
	n.stops = append(n.stops, func() error { n.api.Close(); n.server.CloseClientConnections(); n.server.Close(); return nil })
	return n, nil
}

// explains is what a node's gates say of a call.
func explains(r *tools.Registry) func(context.Context, gateway.Supposed) (gateway.Explained, error) {
	gates := actors.Gates{Registry: r, Authorizer: allow{}}
	return func(_ context.Context, x gateway.Supposed) (gateway.Explained, error) {
		call := x.Turn.Calls[0]
		args, fault := lifecycle.Parse(call.Args.Text)
		found, verdict := gates.Static(&actors.Asked{Tool: call.Tool, Args: args, Fault: fault, Raw: &call, Turn: &x.Turn, Key: x.Key})
		last := found[len(found)-1]
		out := gateway.Explained{
			Decision: policy.Allow, Gate: string(last.Gate), Code: last.Code, Reason: last.Reason, Path: last.Path, Policies: []string{},
			Policy: last.Policy, Tier: verdict.Tier, Texts: []gateway.PolicyText{{ID: "all", Line: 1, Text: "permit (principal, action, resource);"}},
		}
		if last.Ruling == lifecycle.Deny {
			out.Decision = policy.Deny
		}
		return out, nil
	}
}

func registryOf(dir string, u actors.UndoConfig) (*tools.Registry, error) {
	list, err := fixture.Tools(fixture.Config{Ledger: dir + "/ledger.jsonl"})
	if err != nil {
		return nil, err
	}
	files, err := fs.Tools()
	if err != nil {
		return nil, err
	}
	r, err := tools.NewRegistry(append(list, files...)...)
	if err != nil {
		return nil, err
	}
	u.Registry = r
	undo, err := actors.NewUndo(u)
	if err != nil {
		return nil, err
	}
	return r, r.Add(undo)
}

func (n *node) close() error {
	var err error
	for i := len(n.stops) - 1; i >= 0; i-- {
		err = errors.Join(err, n.stops[i]())
	}
	return err
}

// running is a node that runs until the test ends, and a client of it.
func running(t *testing.T, s settings, o client.Options) (*node, *client.Client) {
	t.Helper()
	n, err := start(s)
	if n != nil {
		t.Cleanup(func() { must(t, n.close()) })
	}
	must(t, err)
	return n, n.client(t, o)
}

// client is a client of the node, until the test ends.
func (n *node) client(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	if o.Retry == (client.Retry{}) {
		o.Retry = client.Retry{First: time.Millisecond, Most: 20 * time.Millisecond, Attempts: 50}
	}
	c, err := client.New(n.url, o)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within is a context that ends a hanging test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(stop)
	return ctx
}

// ring lets in a submitter, an observer, an approver and an operator, each with a token of
// its name.
func ring() *keys.Ring {
	var f keys.File
	for id, role := range map[string]access.Role{
		"planner": access.Submitter, "eye": access.Observer, "ann": access.Approver, "ops": access.Operator,
	} {
		kind := "person"
		if role == access.Submitter {
			kind = "agent"
		}
		f.Principals = append(f.Principals, keys.Principal{
			ID: id, Kind: kind, Roles: []access.Role{role}, Tokens: []keys.Token{{SHA256: keys.Digest("sluice_token-of-" + id)}},
		})
	}
	r, err := f.Ring()
	if err != nil {
		panic(err)
	}
	return r
}

// guarded is a node that wants to know who comes, and clients of its people.
func guarded(t *testing.T) (*node, func(id string) *client.Client) {
	t.Helper()
	r := ring()
	n, err := start(settings{keys: func() *keys.Ring { return r }})
	if n != nil {
		t.Cleanup(func() { must(t, n.close()) })
	}
	must(t, err)
	return n, func(id string) *client.Client { return n.client(t, client.Options{Token: "sluice_token-of-" + id}) }
}
