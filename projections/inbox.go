package projections

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Inbox is what waits for a person now.
var Inbox = Projection[Waiting]{
	Name: "inbox", Version: 4,
	Init:  func() Waiting { return Waiting{Asked: map[string]Pending{}, Turns: map[string]Asker{}} },
	Apply: ask,
}

// Waiting is the state of the inbox, for any number of traces.
type Waiting struct {
	Asked map[string]Pending `json:"asked"` // by call key
	Turns map[string]Asker   `json:"turns"` // by turn key, while the turn is open
}

// Kinds of what waits for a person.
const (
	PendingApproval = "approval" // a yes or a no is wanted, before anything has run
	PendingInput    = "input"    // a tool that has begun wants answers before it can go on
)

// Pending is one thing that is asked of a person: an approval, or what a tool needs.
// Every text is as it came: who shows it escapes control and bidi characters, and cuts
// nothing from Asks.
type Pending struct {
	Kind        string           `json:"kind"` // see PendingApproval
	Call        events.CallKey   `json:"call"`
	Seq         uint32           `json:"seq"`    // of the approval_requested or input_requested
	Asking      int              `json:"asking"` // which of the call's askings it is, from 1
	Tool        string           `json:"tool"`
	ToolVersion string           `json:"tool_version,omitempty"`
	Principal   events.Principal `json:"principal"` // who wants it
	Workspace   string           `json:"workspace,omitempty"`
	Mode        string           `json:"mode,omitempty"`
	Model       string           `json:"model,omitempty"`   // that wants it, where the caller has noted one
	Asks        string           `json:"asks"`              // what would happen
	Args        events.Body      `json:"args"`              // whole: by reference where they are large
	Preview     *events.Preview  `json:"preview,omitempty"` // what it would change; nil: its tool shows nothing
	Why         string           `json:"why"`
	Hash        string           `json:"args_hash"` // what a yes is bound to
	Tier        events.Tier      `json:"tier,omitempty"`
	Operation   events.Operation `json:"operation"`
	Operands    []events.Seen    `json:"operands,omitempty"`
	Policies    []string         `json:"policies,omitempty"`
	Policy      string           `json:"policy,omitempty"`
	Requests    []InputShown     `json:"requests,omitempty"` // of an input: what its tool asks for
	Effects     events.Effects   `json:"effects,omitempty"`  // of an input: what the call may have done before it asked
	At          time.Time        `json:"at"`
	Expires     time.Time        `json:"expires"`
}

// Asker is what the inbox must know of an open turn.
type Asker struct {
	Principal events.Principal `json:"principal"`
	Tools     []string         `json:"tools"`
	Args      []events.Body    `json:"args,omitempty"`     // of each call that has not ended; none where nobody can be asked
	Imported  bool             `json:"imported,omitempty"` // it is never run
	Workspace string           `json:"workspace,omitempty"`
	Mode      string           `json:"mode,omitempty"`
	Model     string           `json:"model,omitempty"`
}

// List is all that waits, soonest expiry first, then by call.
func (w Waiting) List() []Pending {
	out := make([]Pending, 0, len(w.Asked))
	for _, p := range w.Asked {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Pending) int {
		return cmp.Or(
			a.Expires.Compare(b.Expires),
			cmp.Compare(a.Call.Trace, b.Call.Trace), cmp.Compare(a.Call.Turn, b.Call.Turn), cmp.Compare(a.Call.Offset, b.Call.Offset),
		)
	})
	return out
}

func ask(w Waiting, e Event) Waiting {
	if e.Call == events.TurnEvent {
		return askTurn(w, e)
	}
	call := e.Turn.Call(e.Call)
	switch v := e.Event.(type) {
	case *events.ApprovalRequested:
		if turn, open := w.Turns[e.Turn.String()]; open && !turn.Imported { // otherwise nobody would go on with the call
			w.Asked[call.String()] = w.pending(call, e, v)
		}
	case *events.InputRequested:
		if turn, open := w.Turns[e.Turn.String()]; open && !turn.Imported && v.Why == "" {
			w.Asked[call.String()] = w.inputPending(call, e, v)
		}
	case *events.InputGiven:
		delete(w.Asked, call.String())
	case *events.Approved:
		delete(w.Asked, call.String())
		if v.Args != nil {
			w.argue(e, *v.Args)
		}
	case *events.CancelRequested: // after a cancel an approval is refused
		delete(w.Asked, call.String())
	default:
		if events.IsTerminal(e.Kind()) {
			delete(w.Asked, call.String())
			w.argue(e, events.Body{})
		}
	}
	return w
}

// argue notes what a call's arguments are from now on.
func (w Waiting) argue(e Event, args events.Body) {
	if list := w.Turns[e.Turn.String()].Args; e.Call >= 0 && e.Call < len(list) {
		list[e.Call] = args
	}
}

func askTurn(w Waiting, e Event) Waiting {
	switch v := e.Event.(type) {
	case *events.TurnSubmitted:
		a := Asker{
			Principal: v.Principal, Tools: make([]string, len(v.Calls)), Imported: v.Imported != "", Workspace: v.Workspace, Mode: v.Mode,
		}
		for i, c := range v.Calls {
			a.Tools[i] = c.Tool
			if v.CanAsk { // otherwise nobody will ever be shown them
				a.Args = append(a.Args, c.Args)
			}
		}
		w.Turns[e.Turn.String()] = a
	case *events.ModelStarted:
		w.model(e.Turn, v.Model)
	case *events.ModelCompleted:
		w.model(e.Turn, v.Model)
	case *events.TurnCancelRequested:
		w.drop(e.Turn)
	default:
		if events.EndsTurn(e.Kind()) {
			w.drop(e.Turn)
			delete(w.Turns, e.Turn.String())
		}
	}
	return w
}

// model notes which model wants what the turn asks, and will ask.
func (w Waiting) model(turn events.TurnKey, name string) {
	a, open := w.Turns[turn.String()]
	if !open {
		return
	}
	a.Model = name
	w.Turns[turn.String()] = a
	for i := range a.Tools {
		if p, asked := w.Asked[turn.Call(i).String()]; asked {
			p.Model = name
			w.Asked[turn.Call(i).String()] = p
		}
	}
}

// drop forgets what the turn asks.
func (w Waiting) drop(turn events.TurnKey) {
	for i := range w.Turns[turn.String()].Tools {
		delete(w.Asked, turn.Call(i).String())
	}
}

func (w Waiting) pending(call events.CallKey, e Event, v *events.ApprovalRequested) Pending {
	p := Pending{
		Kind: PendingApproval, Call: call, Seq: e.Seq, Asking: v.Number(), Preview: v.Preview, ToolVersion: v.ToolVersion, Asks: v.Asks, Why: v.Why, Hash: v.Hash,
		Tier: v.Verdict.Tier, Operation: v.Verdict.Operation, Operands: v.Operands,
		Policies: v.Policies, Policy: v.Policy, At: e.At, Expires: v.Expires.UTC(),
	}
	return w.asker(p, e)
}

// asker is what is asked with who asks it, and with the call's tool and arguments.
func (w Waiting) asker(p Pending, e Event) Pending {
	call, turn := p.Call, w.Turns[e.Turn.String()]
	p.Principal, p.Workspace, p.Mode, p.Model = turn.Principal, turn.Workspace, turn.Mode, turn.Model
	if call.Offset >= 0 && call.Offset < len(turn.Tools) {
		p.Tool = turn.Tools[call.Offset]
	}
	if call.Offset >= 0 && call.Offset < len(turn.Args) {
		p.Args = turn.Args[call.Offset]
	}
	return p
}
