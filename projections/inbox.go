package projections

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Inbox is what waits for a person now.
var Inbox = Projection[Waiting]{
	Name: "inbox", Version: 2,
	Init:  func() Waiting { return Waiting{Asked: map[string]Pending{}, Turns: map[string]Asker{}} },
	Apply: ask,
}

// Waiting is the state of the inbox, for any number of traces.
type Waiting struct {
	Asked map[string]Pending `json:"asked"` // by call key
	Turns map[string]Asker   `json:"turns"` // by turn key, while the turn is open
}

// Pending is one approval that is asked for. Every text is as it came: who shows it
// escapes control and bidi characters, and cuts nothing from Asks.
type Pending struct {
	Call        events.CallKey   `json:"call"`
	Seq         uint32           `json:"seq"` // of the approval_requested
	Tool        string           `json:"tool"`
	ToolVersion string           `json:"tool_version,omitempty"`
	Principal   events.Principal `json:"principal"` // who wants it
	Asks        string           `json:"asks"`      // what would happen
	Why         string           `json:"why"`
	Hash        string           `json:"args_hash"` // what a yes is bound to
	Tier        events.Tier      `json:"tier,omitempty"`
	Operation   events.Operation `json:"operation"`
	Operands    []events.Seen    `json:"operands,omitempty"`
	Policies    []string         `json:"policies,omitempty"`
	Policy      string           `json:"policy,omitempty"`
	At          time.Time        `json:"at"`
	Expires     time.Time        `json:"expires"`
}

// Asker is what the inbox must know of an open turn.
type Asker struct {
	Principal events.Principal `json:"principal"`
	Tools     []string         `json:"tools"`
	Imported  bool             `json:"imported,omitempty"` // it is never run
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
	case *events.Approved, *events.CancelRequested: // after a cancel an approval is refused
		delete(w.Asked, call.String())
	default:
		if events.IsTerminal(e.Kind()) {
			delete(w.Asked, call.String())
		}
	}
	return w
}

func askTurn(w Waiting, e Event) Waiting {
	switch v := e.Event.(type) {
	case *events.TurnSubmitted:
		a := Asker{Principal: v.Principal, Tools: make([]string, len(v.Calls)), Imported: v.Imported != ""}
		for i, c := range v.Calls {
			a.Tools[i] = c.Tool
		}
		w.Turns[e.Turn.String()] = a
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

// drop forgets what the turn asks.
func (w Waiting) drop(turn events.TurnKey) {
	for i := range w.Turns[turn.String()].Tools {
		delete(w.Asked, turn.Call(i).String())
	}
}

func (w Waiting) pending(call events.CallKey, e Event, v *events.ApprovalRequested) Pending {
	p := Pending{
		Call: call, Seq: e.Seq, ToolVersion: v.ToolVersion, Asks: v.Asks, Why: v.Why, Hash: v.Hash,
		Tier: v.Verdict.Tier, Operation: v.Verdict.Operation, Operands: v.Operands,
		Policies: v.Policies, Policy: v.Policy, At: e.At, Expires: v.Expires.UTC(),
	}
	turn := w.Turns[e.Turn.String()]
	p.Principal = turn.Principal
	if call.Offset >= 0 && call.Offset < len(turn.Tools) {
		p.Tool = turn.Tools[call.Offset]
	}
	return p
}
