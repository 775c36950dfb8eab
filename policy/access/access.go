// Package access says who may do what at the doors: the roles, the verbs they allow,
// and in whose name an identity may act. HTTP and NATS share it. It is pure: no clock,
// no I/O, no state, and every function may be called from many goroutines.
package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// Verb is what somebody wants to do at a door.
type Verb string

// The verbs.
const (
	Submit     Verb = "submit"     // have calls run
	Read       Verb = "read"       // see turns: how they stand, their messages, events, bodies and approvals; and the tools
	Watch      Verb = "watch"      // see everything: the log, searches, usage, nodes, circuits, the policy
	Measure    Verb = "measure"    // see how the node does: its metrics, and whether it is ready
	Cancel     Verb = "cancel"     // ask for the end of a turn or a call
	Approve    Verb = "approve"    // say yes or no to what is asked
	Resolve    Verb = "resolve"    // say how an unknown end ended
	Compensate Verb = "compensate" // have a call undone
	Operate    Verb = "operate"    // switch circuits, rebuild the read store
	Policy     Verb = "policy"     // have the policy read anew
	Import     Verb = "import"     // put recorded conversations into the log
)

// Verbs are all of them.
func Verbs() []Verb {
	return []Verb{Submit, Read, Watch, Measure, Cancel, Approve, Resolve, Compensate, Operate, Policy, Import}
}

// words are a verb as it stands behind "may not".
func (v Verb) words() string {
	switch v {
	case Read:
		return "see turns"
	case Watch:
		return "see what is everybody's"
	case Measure:
		return "see metrics"
	case Approve:
		return "approve or deny what is asked"
	case Resolve:
		return "resolve how a call ended"
	case Compensate:
		return "have calls undone"
	case Operate:
		return "switch circuits or rebuild the read store"
	case Policy:
		return "have the policy read anew"
	case Import:
		return "import conversations"
	}
	return string(v)
}

// Role is a set of verbs that somebody was given.
type Role string

// The roles. Somebody may have several.
const (
	Monitor   Role = "monitor"   // a program that watches over nodes: their metrics, and no turn
	Submitter Role = "submitter" // an agent's program: its own turns
	Observer  Role = "observer"  // sees everything, changes nothing
	Approver  Role = "approver"  // a person who answers what is asked
	Operator  Role = "operator"  // keeps the system going; can neither submit nor approve
	Admin     Role = "admin"     // all of these
	// Node is for the processes that run turns. They reach the log itself, where their
	// permissions are the bus's: no door lets them do anything.
	Node Role = "node"
	// Worker is for the processes that serve tools to nodes over the bus, where their
	// permissions name the tools: no door lets them do anything.
	Worker Role = "worker"
)

// Reach is how far a verb goes.
type Reach int

// The reaches, from short to long.
const (
	None Reach = iota
	Own        // turns of the identity's own principal and of its children
	All
)

// String is the reach in a word.
func (r Reach) String() string { return [...]string{"none", "own", "all"}[r] }

// grants are the roles' verbs. A verb that a role does not name, it does not have.
// Nobody submits in another's name: Submit reaches no further than Own.
var grants = []struct {
	role  Role
	reach map[Verb]Reach
}{
	{Monitor, map[Verb]Reach{Measure: All}},
	{Submitter, map[Verb]Reach{Submit: Own, Read: Own, Cancel: Own}},
	{Observer, map[Verb]Reach{Read: All, Watch: All, Measure: All}},
	{Approver, map[Verb]Reach{Read: All, Approve: All, Resolve: All}},
	{Operator, map[Verb]Reach{
		Read: All, Watch: All, Measure: All, Cancel: All, Resolve: All, Compensate: All, Operate: All, Policy: All, Import: All,
	}},
	{Admin, map[Verb]Reach{
		Submit: Own, Read: All, Watch: All, Measure: All, Cancel: All, Approve: All, Resolve: All, Compensate: All,
		Operate: All, Policy: All, Import: All,
	}},
	{Node, nil},
	{Worker, nil},
}

// Roles are all of them, the smallest first.
func Roles() []Role {
	out := make([]Role, len(grants))
	for i, g := range grants {
		out[i] = g.role
	}
	return out
}

// Reach is how far a role goes with a verb: None for a role or a verb that there is not.
func (r Role) Reach(v Verb) Reach {
	for _, g := range grants {
		if g.role == r {
			return g.reach[v]
		}
	}
	return None
}

// Anywhere stands among workspaces for every folder that a node can reach.
const Anywhere = "*"

// Identity is who a door has found somebody to be.
type Identity struct {
	Principal events.Principal
	Roles     []Role
	Via       string // how the door knows: token, certificate, nats, or loopback
	// Workspaces are the only folders that its turns may run in, the first of them where a
	// turn names none. None: the node's own. Anywhere among them: any that a turn names.
	Workspaces []string
	// Trusted says that nobody was asked who they are, and everybody is believed: a
	// door that only this machine can reach. Bodies say who acts, and everything is
	// allowed. Principal and Roles are empty.
	Trusted bool
}

// ErrRole says that an identity lacks the role for what it wants. ErrName says that it
// wants to act in another's name, ErrPlace that its turn may not run there.
var (
	ErrRole  = errors.New("not allowed")
	ErrName  = errors.New("in another's name")
	ErrPlace = errors.New("not in that workspace")
)

// Denied is an ErrRole: what was wanted, and who could have it.
type Denied struct {
	Who     string // id of the identity's principal
	Verb    Verb
	Missing []Role // any of these would do
	Foreign bool   // the identity has the verb, but this turn is not its own
	Agent   bool   // it has the role, but is an agent
}

// Error says what is missing.
func (d *Denied) Error() string {
	roles := make([]string, len(d.Missing))
	for i, r := range d.Missing {
		roles[i] = string(r)
	}
	need := strings.Join(roles, " or ")
	switch {
	case d.Agent:
		return fmt.Sprintf("%s may not %s: it is an agent, and agents only submit and watch", d.Who, d.Verb.words())
	case d.Foreign && need == "":
		return fmt.Sprintf("%s may %s only its own turns", d.Who, d.Verb)
	case d.Foreign:
		return fmt.Sprintf("%s may %s only its own turns: for others' it needs the role %s", d.Who, d.Verb, need)
	case need == "":
		return fmt.Sprintf("%s may not %s, and no role allows it", d.Who, d.Verb.words())
	}
	return fmt.Sprintf("%s may not %s: it needs the role %s", d.Who, d.Verb.words(), need)
}

// Unwrap makes it an ErrRole.
func (d *Denied) Unwrap() error { return ErrRole }

// Reach is how far the identity goes with a verb.
func (id Identity) Reach(v Verb) Reach {
	if id.Trusted {
		return All
	}
	out := None
	for _, r := range id.Roles {
		if !agent(id.Principal) || forAgents(r) {
			out = max(out, r.Reach(v))
		}
	}
	return out
}

// May says whether an identity has a verb at all, for whatever turn: nil, or a *Denied
// that says which roles would do.
func May(id Identity, v Verb) error {
	if id.Reach(v) > None {
		return nil
	}
	return id.denied(v, Own)
}

// MayOn says whether an identity has a verb for a turn of a principal: nil, or a *Denied.
// The principal is that of the turn's submission.
func MayOn(id Identity, v Verb, of events.Principal) error {
	switch id.Reach(v) {
	case All:
		return nil
	case Own:
		if id.Owns(of) {
			return nil
		}
		d := id.denied(v, All)
		d.Foreign = true
		return d
	}
	return id.denied(v, Own)
}

// Owns says whether a principal is the identity's own, or a child of it.
func (id Identity) Owns(p events.Principal) bool {
	own := id.Principal.ID
	return id.Trusted || own != "" && (p.ID == own || slices.Contains(p.Parents, own))
}

func (id Identity) denied(v Verb, reach Reach) *Denied {
	d := &Denied{Who: id.Principal.ID, Verb: v}
	for _, g := range grants {
		if g.reach[v] < reach {
			continue
		}
		d.Missing = append(d.Missing, g.role)
		d.Agent = d.Agent || slices.Contains(id.Roles, g.role) // it has it, and it does not count
	}
	return d
}

// agent says whether a principal is one; no kind means that it is.
func agent(p events.Principal) bool { return p.Kind == "" || p.Kind == KindAgent }

// forAgents says whether a role counts for an agent: what a model controls may ask for
// calls, and look. What it asked for is judged by somebody else.
func forAgents(r Role) bool { return r == Submitter || r == Observer }
