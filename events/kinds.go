package events

import "fmt"

// Kind is the stored name of an event's type. It survives any rename in Go.
type Kind string

// The kinds of call events.
const (
	KindRequested         Kind = "requested"
	KindDeduplicated      Kind = "deduplicated"
	KindDenied            Kind = "denied"
	KindApprovalRequested Kind = "approval_requested"
	KindApproved          Kind = "approved"
	KindAuthorized        Kind = "authorized"
	KindStarted           Kind = "started"
	KindProgress          Kind = "progress"
	KindCancelRequested   Kind = "cancel_requested"
	KindRetrying          Kind = "retrying"
	KindRecovered         Kind = "recovered"
	KindCompleted         Kind = "completed"
	KindFailed            Kind = "failed"
	KindTimedOut          Kind = "timed_out"
	KindCancelled         Kind = "cancelled"
	KindUnknown           Kind = "unknown"
	KindResolved          Kind = "resolved"
	KindLateResult        Kind = "late_result"
	KindCompensated       Kind = "compensated"
	KindInputRequested    Kind = "input_requested"
	KindInputGiven        Kind = "input_given"
)

// The kinds of turn events.
const (
	KindTurnSubmitted       Kind = "turn_submitted"
	KindTurnClaimed         Kind = "turn_claimed"
	KindTurnPlanned         Kind = "turn_planned"
	KindTurnParked          Kind = "turn_parked"
	KindTurnCancelRequested Kind = "turn_cancel_requested"
	KindTurnCompleted       Kind = "turn_completed"
	KindTurnAbandoned       Kind = "turn_abandoned"
	KindModelStarted        Kind = "model_started"
	KindModelCompleted      Kind = "model_completed"
)

// Row is one row of the table of kinds: what a kind means and how it is read.
type Row struct {
	Kind     Kind
	Version  int  // written today, from 1
	Turn     bool // about the turn itself, not one call
	Terminal bool // ends its call, or its turn
	New      func() Event
	// Upcasts[v] turns the stored body of version v into version v+1. There is
	// one for each version from 1 to Version-1.
	Upcasts map[int]Upcast
}

// Upcast rewrites the decoded map of an old version as the next one.
type Upcast func(map[string]any) map[string]any

// Kinds is the one table of kinds: to add one, write its struct and its row.
var Kinds = []Row{
	call[Requested](KindRequested),
	terminal[Deduplicated](KindDeduplicated),
	terminal[Denied](KindDenied),
	call[ApprovalRequested](KindApprovalRequested),
	call[Approved](KindApproved),
	call[Authorized](KindAuthorized),
	call[Started](KindStarted),
	call[Progress](KindProgress),
	call[CancelRequested](KindCancelRequested),
	call[Retrying](KindRetrying),
	call[Recovered](KindRecovered),
	terminal[Completed](KindCompleted),
	terminal[Failed](KindFailed),
	terminal[TimedOut](KindTimedOut),
	terminal[Cancelled](KindCancelled),
	terminal[Unknown](KindUnknown),
	call[Resolved](KindResolved),
	call[LateResult](KindLateResult),
	call[Compensated](KindCompensated),
	call[InputRequested](KindInputRequested),
	call[InputGiven](KindInputGiven),

	turn[TurnSubmitted](KindTurnSubmitted),
	turn[TurnClaimed](KindTurnClaimed),
	turn[TurnPlanned](KindTurnPlanned),
	turn[TurnParked](KindTurnParked),
	turn[TurnCancelRequested](KindTurnCancelRequested),
	turnEnd[TurnCompleted](KindTurnCompleted),
	turnEnd[TurnAbandoned](KindTurnAbandoned),
	turn[ModelStarted](KindModelStarted),
	turn[ModelCompleted](KindModelCompleted),
}

var byKind = index(Kinds)

func index(rows []Row) map[Kind]*Row {
	m := make(map[Kind]*Row, len(rows))
	for i := range rows {
		if m[rows[i].Kind] != nil {
			panic(fmt.Sprintf("events: kind %q has two rows", rows[i].Kind))
		}
		m[rows[i].Kind] = &rows[i]
	}
	return m
}

// KindRow returns the row of a kind, and whether this build knows the kind.
func KindRow(k Kind) (Row, bool) {
	if r := byKind[k]; r != nil {
		return *r, true
	}
	return Row{Kind: k}, false
}

// IsTerminal says whether k ends a call. It is false for turn kinds.
func IsTerminal(k Kind) bool { r := byKind[k]; return r != nil && r.Terminal && !r.Turn }

// EndsTurn says whether k ends a turn.
func EndsTurn(k Kind) bool { r := byKind[k]; return r != nil && r.Terminal && r.Turn }

// Event is something that has happened. The types of this package whose
// pointers are in the table of kinds, and Foreign, implement it.
type Event interface{ Kind() Kind }

// Foreign is an event of a kind or version from a newer release: it may be
// shown, and must not be built upon.
type Foreign struct {
	Name    Kind
	Version int
	Body    []byte // msgpack, as stored
}

// Kind is the stored name.
func (f Foreign) Kind() Kind { return f.Name }

type eventOf[T any] interface {
	*T
	Event
}

func row[T any, P eventOf[T]](k Kind) Row {
	return Row{Kind: k, Version: 1, New: func() Event { return P(new(T)) }}
}

func call[T any, P eventOf[T]](k Kind) Row { return row[T, P](k) }

func terminal[T any, P eventOf[T]](k Kind) Row {
	r := row[T, P](k)
	r.Terminal = true
	return r
}

func turn[T any, P eventOf[T]](k Kind) Row {
	r := row[T, P](k)
	r.Turn = true
	return r
}

func turnEnd[T any, P eventOf[T]](k Kind) Row {
	r := turn[T, P](k)
	r.Terminal = true
	return r
}

// Kind is the stored name of each type. All of them are used through pointers.
func (*Requested) Kind() Kind           { return KindRequested }
func (*Deduplicated) Kind() Kind        { return KindDeduplicated }
func (*Denied) Kind() Kind              { return KindDenied }
func (*ApprovalRequested) Kind() Kind   { return KindApprovalRequested }
func (*Approved) Kind() Kind            { return KindApproved }
func (*Authorized) Kind() Kind          { return KindAuthorized }
func (*Started) Kind() Kind             { return KindStarted }
func (*Progress) Kind() Kind            { return KindProgress }
func (*CancelRequested) Kind() Kind     { return KindCancelRequested }
func (*Retrying) Kind() Kind            { return KindRetrying }
func (*Recovered) Kind() Kind           { return KindRecovered }
func (*Completed) Kind() Kind           { return KindCompleted }
func (*Failed) Kind() Kind              { return KindFailed }
func (*TimedOut) Kind() Kind            { return KindTimedOut }
func (*Cancelled) Kind() Kind           { return KindCancelled }
func (*Unknown) Kind() Kind             { return KindUnknown }
func (*Resolved) Kind() Kind            { return KindResolved }
func (*LateResult) Kind() Kind          { return KindLateResult }
func (*Compensated) Kind() Kind         { return KindCompensated }
func (*InputRequested) Kind() Kind      { return KindInputRequested }
func (*InputGiven) Kind() Kind          { return KindInputGiven }
func (*TurnSubmitted) Kind() Kind       { return KindTurnSubmitted }
func (*TurnClaimed) Kind() Kind         { return KindTurnClaimed }
func (*TurnPlanned) Kind() Kind         { return KindTurnPlanned }
func (*TurnParked) Kind() Kind          { return KindTurnParked }
func (*TurnCancelRequested) Kind() Kind { return KindTurnCancelRequested }
func (*TurnCompleted) Kind() Kind       { return KindTurnCompleted }
func (*TurnAbandoned) Kind() Kind       { return KindTurnAbandoned }
func (*ModelStarted) Kind() Kind        { return KindModelStarted }
func (*ModelCompleted) Kind() Kind      { return KindModelCompleted }
