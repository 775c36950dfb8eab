package lifecycle

import (
	"slices"

	"github.com/sluice-run/sluice/events"
)

// follows is a call's life as data: which kinds may follow which on its way. ""
// stands for the call that has no event yet. Recovered is on the way only where
// it ends an attempt: a finding that the call goes on where it stood is not.
var follows = map[events.Kind][]events.Kind{
	"": {events.KindRequested},
	events.KindRequested: {
		events.KindDeduplicated, events.KindDenied, events.KindApprovalRequested, events.KindAuthorized,
		events.KindCancelled, events.KindTimedOut,
	},
	events.KindApprovalRequested: {
		events.KindApproved, events.KindDenied, events.KindCancelled, events.KindTimedOut,
	},
	events.KindApproved: { // with changed arguments it is judged once more
		events.KindAuthorized, events.KindApprovalRequested, events.KindDeduplicated, events.KindDenied,
		events.KindCancelled, events.KindTimedOut,
	},
	events.KindAuthorized: { // the start gates may ask or deny
		events.KindStarted, events.KindApprovalRequested, events.KindDenied, events.KindCancelled, events.KindTimedOut,
	},
	events.KindStarted: {
		events.KindRetrying, events.KindRecovered, events.KindCompleted, events.KindFailed, events.KindTimedOut,
		events.KindCancelled, events.KindUnknown, events.KindInputRequested,
	},
	events.KindInputRequested: {events.KindInputGiven, events.KindCancelled, events.KindTimedOut},
	events.KindInputGiven: { // a gate may refuse the next attempt: the call has failed
		events.KindStarted, events.KindFailed, events.KindCancelled, events.KindTimedOut,
	},
	events.KindRetrying: { // a gate may refuse the next attempt: the call has failed
		events.KindStarted, events.KindFailed, events.KindCancelled, events.KindTimedOut,
	},
	events.KindRecovered: { // started again, probed, or not known
		events.KindStarted, events.KindRetrying, events.KindRecovered, events.KindCompleted, events.KindFailed,
		events.KindTimedOut, events.KindCancelled, events.KindUnknown,
	},
	events.KindCompleted: {events.KindResolved, events.KindCompensated},
	events.KindFailed:    {events.KindResolved},
	events.KindTimedOut:  {events.KindResolved},
	events.KindCancelled: {events.KindResolved},
	events.KindUnknown:   {events.KindResolved},
}

// beside are the kinds that are not on a call's way: they have their own rules.
var beside = []events.Kind{events.KindProgress, events.KindCancelRequested, events.KindLateResult}

// MayFollow says whether a call's event of kind next may follow last on its way:
// the last of its events that is not progress, cancel_requested, late_result or
// a recovered that changes nothing, and not behind its terminal. "" is the call
// that has none. It is false for kinds of turns.
func MayFollow(last, next events.Kind) bool {
	if slices.Contains(beside, next) {
		return last != "" && !(events.IsTerminal(last) && next != events.KindLateResult)
	}
	return slices.Contains(follows[last], next)
}
