package fault

import (
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// pairsOf are the neighbouring stages of the turn and of each of its calls, as they
// occur in a history with one event a commit: the turn's first.
func pairsOf(calls int, commits []bus.Stored) []Pair {
	last := make(map[int]Pair) // by call: the pair whose later stage is to come
	lists := make(map[int][]Pair)
	for i, s := range commits {
		r := s.Commit.Records[0]
		kind := string(r.Event.Kind())
		p, some := last[r.Call]
		if !some {
			p = Pair{Call: r.Call, From: StageStart, at: i}
		}
		p.To = kind
		lists[r.Call] = append(lists[r.Call], p)
		last[r.Call] = Pair{Call: r.Call, From: kind, Event: r.Seq, at: i + 1}
	}
	var out []Pair
	for call := events.TurnEvent; call < calls; call++ {
		out = append(out, lists[call]...)
		if p, some := last[call]; some {
			p.To = StageEnd
			out = append(out, p)
		}
	}
	return out
}

// applies says why a kind of fault cannot occur between two stages; "" if it can.
func (s *Script) applies(p Pair, row KindRow) string {
	if p.Call == events.TurnEvent && p.From == StageStart {
		switch row.Kind {
		case CrashLost, CrashKept, Uncertain, PowerLoss:
			return ""
		}
		return "the turn is not submitted yet: there is nothing that this could happen to"
	}
	if p.To == StageEnd {
		switch row.Kind {
		case CrashLost, CrashKept, Uncertain:
			return "nothing is appended behind the last stage"
		case Cancel:
			return "it has ended: there is nothing left to cancel"
		case BreakerOpen:
			return "it has ended: the breaker is not asked any more"
		}
	}
	switch {
	case row.tool:
		return s.runsTool(p, row)
	case row.Kind == Expiry && p.From != string(events.KindApprovalRequested):
		return "nobody is asked for an approval between these stages"
	case row.Kind == BreakerOpen && p.Call == events.TurnEvent:
		return "a breaker is one tool's: see the stages of the calls"
	case row.Kind == Cancel && s.hasCancel(p):
		return "its end has been asked for already"
	}
	return ""
}

func (s *Script) runsTool(p Pair, row KindRow) string {
	switch {
	case p.Call == events.TurnEvent:
		return "it happens to one call's tool: see the stages of the calls"
	case !p.runs():
		return "no attempt of the call runs between these stages"
	case row.Kind == LeaseLoss && len(s.calls[p.Call].verdict.Resources) == 0:
		return "the call holds no lease"
	}
	return ""
}

// hasCancel says whether the earlier stage is the request for the end.
func (s *Script) hasCancel(p Pair) bool {
	return slices.Contains([]string{string(events.KindCancelRequested), string(events.KindTurnCancelRequested)}, p.From)
}
