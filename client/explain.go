package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Supposition is a call to be judged as though it stood alone in a turn. Tool is required;
// what is left out is as in a Submission that leaves it out.
type Supposition struct {
	Tool      string            `json:"tool"`
	Args      any               `json:"args,omitempty"`      // anything that becomes a JSON object, or its text as a string; nil means {}
	Principal *events.Principal `json:"principal,omitempty"` // nil means the caller, or local where everybody is believed
	Trace     string            `json:"trace,omitempty"`     // policies may look at it; "" is none
	Turn      string            `json:"turn,omitempty"`
	Workspace string            `json:"workspace,omitempty"` // absolute; "" means the node's own
	Mode      string            `json:"mode,omitempty"`      // read_only or write; "" means write
	CanAsk    bool              `json:"can_ask,omitempty"`
	Allow     []string          `json:"allow,omitempty"`
	Placement string            `json:"placement,omitempty"`
	Time      time.Time         `json:"time,omitzero"` // when it is judged; zero means now
}

// Explained is what the gates would say of a call that is not made.
type Explained struct {
	Decision  string            `json:"decision"` // allow, ask or deny
	Gate      string            `json:"gate"`     // that decided
	Code      events.Code       `json:"code"`     // of a call that is denied; "" otherwise
	Reason    string            `json:"reason"`   // as the model would read it
	Policies  []string          `json:"policies"` // ids of those that decided
	Path      string            `json:"path"`     // JSON Pointer to the argument that decided; "" where none did
	Tier      events.Tier       `json:"tier"`     // that counts; "" where it was not judged
	Operation *events.Operation `json:"operation"`
	Policy    string            `json:"policy"` // version of the policy
	Texts     []PolicyText      `json:"texts"`  // of the policies that decided; nil for who may not see the policy
}

// PolicyText is a policy that decided, as its file has it.
type PolicyText struct {
	ID   string `json:"id"`
	File string `json:"file"` // "" is the program's own
	Line int    `json:"line"` // from 1
	Text string `json:"text"`
}

// Explain asks what the node's gates would say of a call. Nothing is run and nothing is
// kept. Gates that need state are not asked: idempotency key, circuit, limits, locks. Who
// submits asks about itself and its children; who reads every turn, about anybody.
func (c *Client) Explain(ctx context.Context, s Supposition) (out Explained, err error) {
	return out, c.post(ctx, "/v1/explain", s, &out)
}

// Policy is the policy in force at a node.
type Policy struct {
	Version string          // by which verdicts name it
	State   json.RawMessage // the object that the node tells: its files, when it was loaded, and by whom
}

// UnmarshalJSON is json.Unmarshaler's.
func (p *Policy) UnmarshalJSON(text []byte) error {
	var v struct {
		Version string `json:"version"`
	}
	err := json.Unmarshal(text, &v)
	*p = Policy{v.Version, append(json.RawMessage(nil), text...)}
	return err
}

// Policy is the policy in force at the node. It returns NoPolicy where that tells none.
func (c *Client) Policy(ctx context.Context) (out Policy, err error) {
	return out, c.get(ctx, "/v1/policy", nil, &out)
}

// ReloadPolicy has the node read its policy anew, and returns what is in force then. With
// an error nothing has changed: PolicyRefused says why the new one does not load. Of a, the
// reason is not told.
func (c *Client) ReloadPolicy(ctx context.Context, a Act) (out Policy, err error) {
	return out, c.post(ctx, "/v1/policy/reload", byBody{a.By}, &out)
}
