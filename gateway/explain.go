package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/access"
)

// Explained is what the gates would say of a call that is not made. Its JSON form is what
// POST /v1/explain and sluice-node explain --json give, and grows only.
type Explained struct {
	Decision  policy.Decision   `json:"decision"`            // allow, ask or deny
	Gate      string            `json:"gate"`                // that decided
	Code      events.Code       `json:"code"`                // of a call that is denied
	Reason    string            `json:"reason"`              // as the model would read it
	Policies  []string          `json:"policies"`            // ids of those that decided
	Path      string            `json:"path,omitempty"`      // JSON Pointer to the argument that decided
	Tier      events.Tier       `json:"tier,omitempty"`      // that counts
	Operation *events.Operation `json:"operation,omitempty"` // what the call would do
	Policy    string            `json:"policy,omitempty"`    // version of the policy
	Texts     []PolicyText      `json:"texts,omitempty"`     // of the policies that decided, for who may see the policy
}

// PolicyText is a policy that decided, as its file has it.
type PolicyText struct {
	ID   string `json:"id"`
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// Supposition is a call to be judged as though it stood alone in a turn, as it is sent to
// POST /v1/explain. Tool is required. What is left out is as in a submission that leaves
// it out.
type Supposition struct {
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args,omitempty"` // an object, or its text as a string
	Principal Who             `json:"principal,omitzero"`
	Trace     string          `json:"trace,omitempty"`
	Turn      string          `json:"turn,omitempty"`
	Workspace string          `json:"workspace,omitempty"` // absolute; "" means the node's own
	Mode      string          `json:"mode,omitempty"`      // read_only or write; "" means write
	CanAsk    bool            `json:"can_ask,omitempty"`
	Allow     []string        `json:"allow,omitempty"`
	Placement string          `json:"placement,omitempty"`
	Time      time.Time       `json:"time,omitzero"` // of the judgement; zero means now
}

// Supposed is a supposition that has been read: a turn of one call, within the bounds of
// a submission and with its tools' names as they are registered.
type Supposed struct {
	Key  events.TurnKey // parts that are empty are not known
	Turn events.TurnSubmitted
	At   time.Time // UTC; zero means now
}

// Read reads a supposition, of that principal. Its errors are Problems, or
// lifecycle.ErrSubmission with what is out of bounds.
func (x Supposition) Read(by events.Principal) (Supposed, error) {
	if x.Tool == "" {
		return Supposed{}, BadRequest("the body names no tool", "send tool, and args as the model would")
	}
	call := map[string]any{"tool": x.Tool}
	if !isNull(x.Args) {
		call["args"] = x.Args
	}
	calls, err := json.Marshal([]any{call})
	if err != nil {
		return Supposed{}, BadRequest("args: "+err.Error(), "send an object, or its text as a string")
	}
	o, err := Envelope{
		Trace: x.Trace, Turn: x.Turn, Principal: Who(by), Calls: calls, Workspace: x.Workspace, Mode: x.Mode, CanAsk: x.CanAsk,
		Allow: x.Allow, Placement: x.Placement,
	}.Order()
	if err != nil {
		return Supposed{}, err
	}
	turn := named(whole(o.Turn))
	return Supposed{Key: o.Key, Turn: turn, At: x.Time.UTC()}, checkSize(turn)
}

// explain is POST /v1/explain: what the gates of the node behind this door would say of a
// call. Nothing is run, and nothing is kept.
func (a *API) explain(w http.ResponseWriter, r *http.Request) error {
	if a.judged == nil {
		return errNoTools
	}
	body, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	var in Supposition
	if err := decodeStrict(body, &in); err != nil {
		return err
	}
	by, err := a.supposes(r, &in)
	if err != nil {
		return err
	}
	x, err := in.Read(by)
	if err != nil {
		return err
	}
	x.Turn.Workspace = cmp.Or(x.Turn.Workspace, a.desk.workspace)
	out, err := a.judged(r.Context(), x)
	if err != nil {
		return err
	}
	if who(r).Reach(access.Watch) != access.All {
		out.Texts = nil // the policy's texts are not everybody's
	}
	ok(w, out)
	return nil
}

// supposes is the principal of a supposition, and fills its workspace. Who reads every turn
// asks about anybody, anywhere; everybody else about what it could submit itself.
func (a *API) supposes(r *http.Request, in *Supposition) (events.Principal, error) {
	id, said := who(r), events.Principal(in.Principal)
	if id.Reach(access.Read) == access.All {
		if said.ID == "" && !id.Trusted {
			said = id.Principal
		}
		return said, nil
	}
	by, err := a.submits(r, said)
	if err == nil {
		in.Workspace, err = id.Works(in.Workspace, a.desk.workspace)
	}
	return by, err
}
