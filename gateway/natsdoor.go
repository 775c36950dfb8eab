package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/access"
	"github.com/sluice-run/sluice/projections/readstore"
)

// NATSDoorConfig is what the NATS door is made of. Desk, Doors, Who and ID are
// required.
type NATSDoorConfig struct {
	Desk  *Desk
	Doors bus.Doors
	// Who is the identity of a user, by the name in the request's subject; false: there
	// is no such user. Its answer may change at any time.
	Who func(user string) (access.Identity, bool)
	// Known says whether an id is somebody's whom another door knows, and whose name no
	// child of a user can have; nil: there is no other. Users of Who need not be among
	// them.
	Known   func(id string) bool
	ID      string // of this node, among those who serve: A-Z a-z 0-9 _ -
	Version string // of the program, for who looks; "" means 0.0.0, and what is no semantic version is told as a build of that
	// Tools is the list of tools as a provider's API takes it; nil: there is none to show.
	Tools func(ctx context.Context, format string) (json.RawMessage, error)
	// Explain judges a call that is not made; nil: there is no node to do it.
	Explain func(context.Context, Supposed) (Explained, error)
	Store   *readstore.Store        // for searches; nil: there is none, and what waits for people is folded from the log
	Rules   func() lifecycle.Limits // see APIConfig
	Workers func() bus.WorkerTools  // see APIConfig
	Breaker lifecycle.BreakerConfig // the node's numbers, by which circuits are shown
	Policy  PolicyKeeper            // the policy of the node; nil: there is none to show
	Log     *slog.Logger            // nil discards
}

// NATSDoor answers requests that come over the bus: the acts of HTTP, by the same
// desk, with the same bodies and problems. Who acts is the user whom the request's
// subject names, and never what the body says. It may be used from many goroutines at
// once.
type NATSDoor struct {
	desk    *Desk
	doors   bus.Doors
	who     func(string) (access.Identity, bool)
	other   func(string) bool
	id      string
	version string
	tools   func(context.Context, string) (json.RawMessage, error)
	log     *slog.Logger
	api     *API // whose handlers answer some verbs; it listens nowhere
	verbs   map[string]natsVerb
	waits   chan struct{} // one for each request that waits for a turn's end

	mu   sync.Mutex
	busy map[string]int // requests of each user that are being answered
}

// Bounds of what is answered at once, below those of the bus.
const (
	natsEach  = 32                  // requests of one user
	natsWaits = bus.DoorsAtOnce / 2 // requests that wait for a turn's end
	natsLimit = 30 * time.Second    // what a request may take that waits for nothing
	natsTurn  = "trace, turn"       // the members that name a turn
	natsCall  = "trace, turn, call" // those that name a call
)

// NewNATSDoor makes the door. It starts nothing: see Serve.
func NewNATSDoor(c NATSDoorConfig) *NATSDoor {
	d := &NATSDoor{
		desk: c.Desk, doors: c.Doors, who: c.Who, other: c.Known, id: c.ID, version: c.Version, tools: c.Tools, log: c.Log,
		waits: make(chan struct{}, natsWaits), busy: make(map[string]int), verbs: make(map[string]natsVerb),
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.api = NewAPI(APIConfig{Desk: c.Desk, Tools: c.Tools, Explain: c.Explain, Known: d.known, Store: c.Store, Rules: c.Rules, Breaker: c.Breaker, Workers: c.Workers, Policy: c.Policy, Log: d.log})
	for _, v := range d.table() {
		d.verbs[v.name] = v
	}
	return d
}

// natsVerb is one thing that can be asked for.
type natsVerb struct {
	name  string
	needs access.Verb // "": anybody whom the door knows
	long  bool        // it may wait for longer than natsLimit
	serve func(ctx context.Context, r natsRequest) (int, any, error)
}

// natsRequest is a request whose user is known and may ask for such a thing at all.
type natsRequest struct {
	who    access.Identity
	user   string // by whose subject it came
	body   []byte
	parent string // traceparent
}

// table is every verb, in the order in which who looks for the service sees them.
func (d *NATSDoor) table() []natsVerb {
	return []natsVerb{
		{"submit", access.Submit, true, d.submit},
		{"turn", access.Read, true, d.turn},
		{"messages", access.Read, true, d.messages},
		{"history", access.Read, false, d.history},
		{"events", access.Read, true, d.events},
		{"inbox", access.Read, true, d.inbox},
		{"approval", access.Read, false, d.approval},
		{"tools", access.Read, false, d.listTools},
		{"cancel", access.Cancel, false, d.cancel},
		{"approve", access.Approve, false, d.approve},
		{"deny", access.Approve, false, d.deny},
		{"answer", access.Approve, false, d.answer},
		{"resolve", access.Resolve, false, d.resolve},
		{"compensate", access.Compensate, true, d.compensate},
		{"blob", access.Read, false, d.blob},
		{"traces", access.Watch, false, d.byHTTP("GET /v1/traces")},
		{"trace", access.Watch, false, d.byHTTP("GET /v1/traces/{trace}")},
		{"timeline", access.Watch, false, d.byHTTP("GET /v1/traces/{trace}/timeline")},
		{"usage", access.Watch, false, d.byHTTP("GET /v1/usage")},
		{"readstore", access.Watch, false, d.byHTTP("GET /v1/readstore")},
		{"rebuild", access.Operate, false, d.byHTTP("POST /v1/readstore/rebuild")},
		{"nodes", access.Watch, false, d.byHTTP("GET /v1/nodes")},
		{"workers", access.Watch, false, d.byHTTP("GET /v1/workers")},
		{"limits", access.Watch, false, d.byHTTP("GET /v1/limits")},
		{"breakers", access.Watch, false, d.byHTTP("GET /v1/breakers")},
		{"breaker", access.Watch, false, d.byHTTP("GET /v1/breakers/{tool}")},
		{"breaker_reset", access.Operate, false, d.byHTTP("POST /v1/breakers/{tool}/reset")},
		{"breaker_open", access.Operate, false, d.byHTTP("POST /v1/breakers/{tool}/open")},
		{"explain", access.Read, false, d.byHTTP("POST /v1/explain")},
		{"policy", access.Watch, false, d.byHTTP("GET /v1/policy")},
		{"policy_reload", access.Policy, false, d.byHTTP("POST /v1/policy/reload")},
		{"whoami", "", false, d.whoami},
	}
}

// Serve answers until ctx ends, and returns nil then. Where the log cannot be reached
// at the beginning, it tries again.
func (d *NATSDoor) Serve(ctx context.Context) error {
	door := bus.Door{
		Name: "sluice", ID: d.id, Version: semantic(d.version), About: "Sluice runs the tool calls of agents: submit turns, answer approvals",
		Answer: d.Answer,
	}
	for _, v := range d.table() {
		door.Verbs = append(door.Verbs, v.name)
	}
	for {
		err := d.doors.ServeDoor(ctx, door)
		switch {
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, bus.ErrUnavailable):
			return err
		}
		d.log.Warn("the NATS door cannot be opened: it is tried again", "error", err)
		pause(ctx, d.desk.poll)
	}
}

// release is a semantic version, as who looks for services takes it.
var release = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// noBuild is what cannot stand in the part of such a version that tells builds apart.
var noBuild = regexp.MustCompile(`[^0-9A-Za-z-]+`)

// semantic is a version as who looks for services takes it: one that is of another kind
// becomes the name of a build.
func semantic(v string) string {
	if plain := strings.TrimPrefix(v, "v"); release.MatchString(plain) {
		return plain
	}
	if build := strings.Trim(noBuild.ReplaceAllString(v, "."), "."); build != "" {
		return "0.0.0+" + build
	}
	return "0.0.0"
}

// Answer answers one request: bus.Door's.
func (d *NATSDoor) Answer(ctx context.Context, k bus.Knock) bus.Answer {
	status, v, err := d.admit(ctx, k)
	if err != nil {
		return d.refuse(k, err)
	}
	body, err := json.Marshal(v)
	if err != nil {
		return d.refuse(k, fmt.Errorf("the answer has no JSON form: %w", err))
	}
	return bus.Answer{Status: status, Body: body}
}

// natsNext is what to do next where HTTP has other words for it than this door, by the
// problem's word.
var natsNext = map[string]string{
	"role":            "ask whoever keeps the file of --nats-users for that role; the verb whoami tells what you may",
	"no-turn":         "check the ids; the verb events shows what is there",
	"no-tool":         "name a tool as the verb tools does; or, for the tool of a node that is not there now, send force: true",
	"no-trace":        "check the id; the verb traces shows what is there",
	"store-building":  "wait, and ask again: the verb readstore tells how far it has come",
	"other-arguments": "ask for the verb approval again, and answer what it shows",
	"superseded":      "ask for the verb approval again, and answer the asking that is open",
	"no-input":        "the verb inbox shows what waits",
	"no-approval":     "the verb inbox shows what waits",
	"not-asking":      "the verb inbox shows what waits",
	"ended":           "ask for the verb turn to see how",
	"nothing-to-undo": "ask for the verb turn to see how the call ended",
	"undo-unknown":    "look at what the undo would have changed, then ask for the verb resolve for the undo's call",
}

// refuse is an error as it is answered.
func (d *NATSDoor) refuse(k bus.Knock, err error) bus.Answer {
	p := *problemOf(err).discreet()
	p.Detail = wholeText(p.Detail)
	if next, ok := natsNext[strings.TrimPrefix(p.Type, problemPrefix)]; ok {
		p.Next = next
	}
	if p.Status >= http.StatusInternalServerError && p.Status != http.StatusServiceUnavailable {
		d.log.Error("request failed", "user", k.User, "verb", k.Verb, "error", err)
	}
	body, err := json.Marshal(&p)
	if err != nil {
		body = []byte(`{"type":"urn:sluice:problem:internal","title":"The answer has no JSON form","status":500}`)
	}
	return bus.Answer{Status: p.Status, Error: p.Title, Body: body}
}

// admit finds out who asks, whether that one may, and for what, BEFORE the body is
// looked at.
func (d *NATSDoor) admit(ctx context.Context, k bus.Knock) (int, any, error) {
	id, ok := d.who(k.User)
	if !ok {
		return 0, nil, problem(http.StatusForbidden, "no-user", "This door does not know the user",
			fmt.Sprintf("user %.200q", k.User), "ask whoever keeps the file of --nats-users to add it")
	}
	v, ok := d.verbs[k.Verb]
	if !ok {
		var all []string
		for _, v := range d.table() {
			all = append(all, v.name)
		}
		return 0, nil, problem(http.StatusNotFound, "no-verb", "There is no such verb", fmt.Sprintf("%.100q", k.Verb), "there are "+strings.Join(all, ", "))
	}
	if v.needs != "" {
		if err := access.May(id, v.needs); err != nil {
			return 0, nil, err
		}
	}
	if !d.begin(k.User) {
		return 0, nil, problem(http.StatusTooManyRequests, "too-many", "Too many requests of this user are being answered",
			fmt.Sprintf("%d are", natsEach), "wait for their answers, and repeat the request: it is safe")
	}
	defer d.end(k.User)
	if !v.long {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, natsLimit)
		defer stop()
	}
	return v.serve(ctx, natsRequest{id, k.User, k.Body, k.Traceparent})
}

func (d *NATSDoor) begin(user string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[user] >= natsEach {
		return false
	}
	d.busy[user]++
	return true
}

func (d *NATSDoor) end(user string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[user]--; d.busy[user] == 0 {
		delete(d.busy, user)
	}
}

// decode reads the body of a request; none is an empty object.
func (r natsRequest) decode(v any) error {
	if len(strings.TrimSpace(string(r.body))) == 0 {
		return nil
	}
	return decodeStrict(r.body, v)
}

// natsKey is the part of a body that names a turn, or a call of it.
type natsKey struct {
	Trace string `json:"trace"`
	Turn  string `json:"turn"`
	Call  *int   `json:"call,omitempty"`
}

func (k natsKey) turn() (events.TurnKey, error) {
	key := events.TurnKey{Trace: k.Trace, Turn: k.Turn}
	switch {
	case key.Trace == "" || key.Turn == "":
		return key, BadRequest("the body names no turn", "send "+natsTurn)
	case k.Call != nil:
		return key, BadRequest("the body names a call, and this is about a turn", "leave call out")
	}
	return key, key.Check()
}

func (k natsKey) call() (events.CallKey, error) {
	if k.Call == nil {
		return events.CallKey{}, BadRequest("the body names no call", "send "+natsCall+": a call is its place in the turn, from 0")
	}
	n := *k.Call
	k.Call = nil
	key, err := k.turn()
	if err == nil && n < 0 {
		err = BadRequest(fmt.Sprintf("call %d", n), "name a call by its place in the turn, from 0")
	}
	return key.Call(n), err
}

// may reads a turn for somebody who wants a verb of it: an error where that one may
// not have it.
func (d *NATSDoor) may(ctx context.Context, id access.Identity, v access.Verb, key events.TurnKey) (View, error) {
	view, err := d.desk.Get(ctx, key)
	if err != nil {
		return View{}, err
	}
	return view, access.MayOn(id, v, view.Turn.Submitted.Principal)
}
