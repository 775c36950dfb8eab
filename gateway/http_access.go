package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/access"
	"github.com/sluice-run/sluice/projections"
)

// PolicyKeeper tells of the policy in force, and has it read anew.
type PolicyKeeper interface {
	// PolicyState is the policy in force as JSON tells it.
	PolicyState() json.RawMessage
	// ReloadPolicy has it read anew for somebody, and returns the new state. With an
	// error nothing has changed.
	ReloadPolicy(by events.Principal) (json.RawMessage, error)
}

// acts is who does what a request asks for: see access.Identity.Acts. said is what the
// body says of it.
func acts(r *http.Request, said Who) (events.Principal, error) {
	return who(r).Acts(events.Principal(said))
}

// actorAsked is the body of an act that has nothing but an actor in it, if that.
type actorAsked struct {
	Principal Who `json:"principal,omitzero"`
}

// actor is who asks for an act that has nothing but an actor in its body, if that.
func (a *API) actor(w http.ResponseWriter, r *http.Request) (events.Principal, error) {
	var in actorAsked
	if err := a.decodeOptional(w, r, &in); err != nil {
		return events.Principal{}, err
	}
	by, err := acts(r, in.Principal)
	return person(by), err
}

// submits is the principal of a submission: see access.Identity.Submits.
func (a *API) submits(r *http.Request, said events.Principal) (events.Principal, error) {
	known := func(id string) bool {
		return a.keys != nil && a.keys().Known(id) || a.known != nil && a.known(id)
	}
	p, err := who(r).Submits(said, known)
	p.ID = cmp.Or(p.ID, DefaultPrincipal) // of somebody who is believed, and has not said it
	return p, err
}

// mayUndo returns nil where a submission undoes no call of somebody else's. A trace is
// open to all who know its id, and the tool that undoes looks no further than the trace:
// who may not have calls undone may do so with its own alone. What the tool would make of
// other arguments is the tool's to say.
func (d *Desk) mayUndo(ctx context.Context, id access.Identity, s events.TurnSubmitted) error {
	if id.Reach(access.Compensate) == access.All {
		return nil
	}
	for _, c := range s.Calls {
		if c.Tool != lifecycle.UndoTool {
			continue
		}
		args, err := lifecycle.Parse(wholeJSON(c.Args.Text))
		if err != nil {
			continue
		}
		call, ok := lifecycle.UndoOf(json.RawMessage(args.JSON))
		if !ok {
			continue
		}
		v, err := d.Get(ctx, call.TurnKey())
		switch {
		case err != nil:
			return err // also where there is no such turn: it could still come
		case !id.Owns(v.Turn.Submitted.Principal):
			return access.May(id, access.Compensate)
		}
	}
	return nil
}

// whoami answers GET /v1/whoami.
type whoami struct {
	Principal  *events.Principal      `json:"principal,omitempty"` // absent where bodies say who acts
	Roles      []access.Role          `json:"roles,omitempty"`
	Via        string                 `json:"via"` // token, certificate or loopback
	Expires    time.Time              `json:"expires,omitzero"`
	Workspaces []string               `json:"workspaces,omitempty"` // where its turns run: see turnsOf
	May        map[access.Verb]string `json:"may"`                  // own: its own turns and those of its children; all
}

// getWhoami is GET /v1/whoami: who the caller is here, and what that allows.
func (a *API) getWhoami(w http.ResponseWriter, r *http.Request) error {
	id := who(r)
	out := a.desk.whoIs(id)
	out.Expires = visitOf(r).expires
	ok(w, out)
	return nil
}

// whoIs is what every door tells somebody of that one.
func (d *Desk) whoIs(id access.Identity) whoami {
	out := whoami{Roles: id.Roles, Via: id.Via, Workspaces: d.turnsOf(id), May: make(map[access.Verb]string)}
	if !id.Trusted {
		out.Principal = &id.Principal
	}
	for _, v := range access.Verbs() {
		if reach := id.Reach(v); reach > access.None {
			out.May[v] = reach.String()
		}
	}
	return out
}

// turnsOf are the folders that an identity's turns may run in, the first of them where a
// turn names none; access.Anywhere stands for any. None: it submits nothing, or only the
// node knows which folder is its own.
func (d *Desk) turnsOf(id access.Identity) []string {
	if id.Reach(access.Submit) == access.None {
		return nil
	}
	anywhere := func(dir string) bool { return dir == access.Anywhere }
	out := slices.DeleteFunc(slices.Clone(id.Workspaces), anywhere)
	if len(out) == 0 && d.workspace != "" {
		out = append(out, d.workspace)
	}
	if id.Trusted || slices.ContainsFunc(id.Workspaces, anywhere) {
		out = append(out, access.Anywhere)
	}
	return out
}

// errNoPolicy is the problem of a door that no node with a policy is behind.
var errNoPolicy = problem(http.StatusNotFound, "no-policy", "This door has no policy", "no node runs behind it", "ask a node")

// getPolicy is GET /v1/policy: what is in force, since when, and by whom.
func (a *API) getPolicy(w http.ResponseWriter, _ *http.Request) error {
	if a.policy == nil {
		return errNoPolicy
	}
	ok(w, a.policy.PolicyState())
	return nil
}

// reloadPolicy is POST /v1/policy/reload. A policy that does not load changes nothing.
func (a *API) reloadPolicy(w http.ResponseWriter, r *http.Request) error {
	by, err := a.actor(w, r)
	if err != nil {
		return err
	}
	if a.policy == nil {
		return errNoPolicy
	}
	state, err := a.policy.ReloadPolicy(by)
	if err != nil {
		return problem(http.StatusUnprocessableEntity, "policy-refused", "The policy was not read anew, and nothing has changed", wholeText(err.Error()),
			"mend what the detail names, and reload again")
	}
	ok(w, state)
	return nil
}

// ownOnly leaves those that the caller may see of what waits for a person.
func ownOnly(id access.Identity, list []projections.Pending) []projections.Pending {
	if id.Reach(access.Read) == access.All {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(p projections.Pending) bool { return !id.Owns(p.Principal) })
}

// mayFeed returns nil where the caller may read events: all of them, or those of a turn
// of its own.
func (a *API) mayFeed(r *http.Request, f FeedFilter) error {
	if who(r).Reach(access.Watch) == access.All {
		return nil
	}
	if f.Trace == "" || f.Turn == "" {
		return access.May(who(r), access.Watch)
	}
	v, err := a.desk.Get(r.Context(), events.TurnKey{Trace: f.Trace, Turn: f.Turn})
	if err != nil {
		return err
	}
	return access.MayOn(who(r), access.Read, v.Turn.Submitted.Principal)
}

// mayBlob returns nil where the caller may read bytes by their digest: any, or those that
// a turn of its own refers to, which it names.
func (a *API) mayBlob(r *http.Request, digest string) error {
	id := who(r)
	if id.Reach(access.Read) == access.All {
		return nil
	}
	q := r.URL.Query()
	key := events.TurnKey{Trace: q.Get("trace"), Turn: q.Get("turn")}
	if key == (events.TurnKey{}) {
		return BadRequest("the turn is missing whose bytes these are", "name a turn of yours with ?trace= and &turn=; the role observer reads any bytes")
	}
	v, err := a.desk.Get(r.Context(), key)
	if err == nil {
		err = access.MayOn(id, access.Read, v.Turn.Submitted.Principal)
	}
	if err != nil {
		return err
	}
	for _, s := range v.Commits {
		for _, rec := range s.Commit.Records {
			if refers(reflect.ValueOf(rec.Event), digest, maxNesting) {
				return nil
			}
		}
	}
	return problem(http.StatusNotFound, "not-found", "It is not there", "the turn "+key.String()+" does not refer to "+digest, "check the digest, and the turn")
}

// maxNesting is how deep an event's values are looked into for references.
const maxNesting = 32

var typeRef = reflect.TypeFor[events.BlobRef]()

// refers says whether a value holds a reference to the bytes of a digest. Only references
// count: a text that looks like one is a text.
func refers(v reflect.Value, digest string, deep int) bool {
	if deep == 0 || !v.IsValid() {
		return false
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && refers(v.Elem(), digest, deep-1)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false // a text
		}
		for i := range v.Len() {
			if refers(v.Index(i), digest, deep-1) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if refers(it.Value(), digest, deep-1) {
				return true
			}
		}
	case reflect.Struct:
		if v.Type() == typeRef {
			return v.Field(0).String() == digest
		}
		for i := range v.NumField() {
			if refers(v.Field(i), digest, deep-1) {
				return true
			}
		}
	}
	return false
}
