package client_test

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
)

// asks are a method of a Client for each route of the node, by the route.
var asks = map[string]func(context.Context, *client.Client){
	"GET /readyz":                func(ctx context.Context, c *client.Client) { _ = c.Ready(ctx) },
	"GET /v1/whoami":             func(ctx context.Context, c *client.Client) { _, _ = c.Whoami(ctx) },
	"GET /v1/nodes":              func(ctx context.Context, c *client.Client) { _, _ = c.Nodes(ctx, true) },
	"GET /v1/workers":            func(ctx context.Context, c *client.Client) { _, _ = c.Workers(ctx) },
	"GET /v1/limits":             func(ctx context.Context, c *client.Client) { _, _ = c.Limits(ctx) },
	"GET /v1/readstore":          func(ctx context.Context, c *client.Client) { _, _ = c.ReadStore(ctx) },
	"POST /v1/readstore/rebuild": func(ctx context.Context, c *client.Client) { _, _ = c.RebuildReadStore(ctx, noAct) },
	"GET /v1/policy":             func(ctx context.Context, c *client.Client) { _, _ = c.Policy(ctx) },
	"POST /v1/policy/reload":     func(ctx context.Context, c *client.Client) { _, _ = c.ReloadPolicy(ctx, noAct) },
	"POST /v1/explain":           func(ctx context.Context, c *client.Client) { _, _ = c.Explain(ctx, client.Supposition{Tool: "echo"}) },
	"GET /v1/tools":              func(ctx context.Context, c *client.Client) { _, _ = c.Tools(ctx, client.OpenAI) },
	"GET /v1/blobs/{digest}":     func(ctx context.Context, c *client.Client) { _, _ = c.Blob(ctx, "sha256:00", ofTurn) },
	"GET /v1/breakers":           func(ctx context.Context, c *client.Client) { _, _ = c.Breakers(ctx) },
	"GET /v1/breakers/{tool}":    func(ctx context.Context, c *client.Client) { _, _ = c.Breaker(ctx, "echo", "") },
	"POST /v1/breakers/{tool}/open": func(ctx context.Context, c *client.Client) {
		_, _ = c.OpenBreaker(ctx, "echo", time.Minute, noAct)
	},
	"POST /v1/breakers/{tool}/reset": func(ctx context.Context, c *client.Client) { _, _ = c.ResetBreaker(ctx, "echo", noAct) },

	"GET /v1/traces":                  func(ctx context.Context, c *client.Client) { drain(c.Traces(ctx, client.TraceQuery{})) },
	"GET /v1/traces/{trace}":          func(ctx context.Context, c *client.Client) { _, _ = c.Trace(ctx, "tr") },
	"GET /v1/traces/{trace}/timeline": func(ctx context.Context, c *client.Client) { drain(c.Timeline(ctx, "tr")) },
	"GET /v1/usage":                   func(ctx context.Context, c *client.Client) { _, _, _ = c.Usage(ctx, client.UsageQuery{}) },
	"GET /v1/events":                  func(ctx context.Context, c *client.Client) { drain(c.Events(ctx, client.Query{})) },

	"POST /v1/turns": func(ctx context.Context, c *client.Client) {
		_, _ = c.Submit(ctx, client.Submission{Calls: []client.Call{{Tool: "echo"}}})
	},
	"POST /v1/turns:stream": func(ctx context.Context, c *client.Client) {
		_, _ = c.SubmitStream(ctx, client.Submission{}, client.Stream{Body: strings.NewReader("data: {}\n\n")})
	},
	"GET /v1/turns/{trace}/{turn}":          func(ctx context.Context, c *client.Client) { _, _ = c.Get(ctx, ofTurn) },
	"GET /v1/turns/{trace}/{turn}/messages": func(ctx context.Context, c *client.Client) { _, _ = c.Messages(ctx, ofTurn, "") },
	"GET /v1/turns/{trace}/{turn}/events":   func(ctx context.Context, c *client.Client) { drain(c.TurnEvents(ctx, ofTurn)) },
	"POST /v1/turns/{trace}/{turn}/cancel":  func(ctx context.Context, c *client.Client) { _, _ = c.Cancel(ctx, ofTurn, noAct) },
	"POST /v1/turns/{trace}/{turn}/calls/{call}/cancel": func(ctx context.Context, c *client.Client) {
		_, _ = c.CancelCall(ctx, ofCall, noAct)
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/resolve": func(ctx context.Context, c *client.Client) {
		_, _ = c.Resolve(ctx, ofCall, events.EffectsNone, noAct)
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/compensate": func(ctx context.Context, c *client.Client) {
		_, _ = c.Compensate(ctx, ofCall, 0, noAct)
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/approve": func(ctx context.Context, c *client.Client) {
		_, _ = c.Approve(ctx, client.Approval{Call: ofCall, Asking: 1, ArgsHash: "sha256:00"}, client.Yes{})
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/deny": func(ctx context.Context, c *client.Client) {
		_, _ = c.Deny(ctx, client.Approval{Call: ofCall, Asking: 1}, client.No{})
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/answer": func(ctx context.Context, c *client.Client) {
		_, _ = c.Answer(ctx, client.Approval{Call: ofCall, Asking: 1, Kind: "input"}, client.InputAnswers{})
	},
	"GET /v1/approvals":                       func(ctx context.Context, c *client.Client) { _, _ = c.Approvals(ctx) },
	"GET /v1/approvals/{trace}/{turn}/{call}": func(ctx context.Context, c *client.Client) { _, _ = c.Approval(ctx, ofCall, 1) },
}

var (
	noAct  client.Act
	ofTurn = events.TurnKey{Trace: "tr", Turn: "tu"}
	ofCall = events.CallKey{Trace: "tr", Turn: "tu"}
)

func drain[V any](all iter.Seq2[V, error]) {
	for _, err := range all {
		if err != nil {
			return
		}
	}
}

// told are the addresses that a server was asked for.
type told struct {
	mu   sync.Mutex
	seen []string
}

// ServeHTTP is http.Handler's.
func (o *told) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, r.Method+" "+r.URL.Path)
	w.WriteHeader(http.StatusNotFound)
}

// route is a pattern of addresses.
func route(pattern string) *regexp.Regexp {
	parts := regexp.MustCompile(`\{[a-z]+\}`).Split(pattern, -1)
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile("^" + strings.Join(parts, "[^/]+") + "$")
}

// TestEveryRouteHasAMethod: what the node can be asked for a program in Go can ask, but
// for the routes that the documentation says are for others, and why.
func TestEveryRouteHasAMethod(t *testing.T) {
	doc := described(t)
	text, err := os.ReadFile("../docs/client.md")
	must(t, err)
	var others []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\| .+ \\|$").FindAllStringSubmatch(string(text), -1) {
		others = append(others, m[1])
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			at := strings.ToUpper(method) + " " + path
			if (asks[at] != nil) == slices.Contains(others, at) {
				t.Errorf("%s: want a method of the client here, or a row in docs/client.md that says why there is none", at)
			}
		}
	}
	for _, at := range append(others, slices.Sorted(maps.Keys(asks))...) {
		method, path, _ := strings.Cut(at, " ")
		if _, ok := doc.Paths[path][strings.ToLower(method)]; !ok {
			t.Errorf("%s is no route of the node", at)
		}
	}
	for at, ask := range asks {
		heard := new(told)
		s := httptest.NewServer(heard)
		c, err := client.New(s.URL, client.Options{Retry: client.Retry{Attempts: 1}})
		must(t, err)
		ask(within(t), c)
		c.Close()
		s.Close()
		if want := route(at); len(heard.seen) != 1 || !want.MatchString(heard.seen[0]) {
			t.Errorf("the method for %s asks for %q", at, heard.seen)
		}
	}
}

// TestMethodsAreDocumented: docs/client.md names every method of a client.
func TestMethodsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/client.md")
	must(t, err)
	for m := range reflect.TypeFor[*client.Client]().Methods() {
		if m.Name != "Close" && !strings.Contains(string(text), "`"+m.Name+"`") {
			t.Errorf("docs/client.md does not name %s", m.Name)
		}
	}
}
