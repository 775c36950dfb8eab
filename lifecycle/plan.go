package lifecycle

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/events"
)

// Bounds of a submission, and what a turn does where it does not say.
const (
	MaxCalls           = 256
	MaxSubmission      = 8 << 20   // bytes of all arguments of a turn
	MaxName            = 128       // bytes of a tool's name as the model wrote it
	MaxProviderID      = 16 << 10  // bytes of a provider's id: some routers keep a signature in it
	MaxProviderIDs     = 64 << 10  // of all ids of a turn
	MaxKey             = 256       // of an idempotency key
	MaxExtra           = 256 << 10 // bytes of what a provider wants back with a call
	DefaultConcurrency = 4
	MaxConcurrency     = 64
)

// ErrSubmission says that a submission is not one. Nothing was kept.
var ErrSubmission = errors.New("submission refused")

// CheckSubmission returns nil for a submission within the bounds, or an error
// that wraps ErrSubmission and says which field is at fault.
func CheckSubmission(s events.TurnSubmitted) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrSubmission, fmt.Sprintf(format, args...))
	}
	switch {
	case len(s.Calls) == 0:
		return bad("it has no calls: send at least one")
	case len(s.Calls) > MaxCalls:
		return bad("%d calls: at most %d in a turn", len(s.Calls), MaxCalls)
	case s.Principal.ID == "":
		return bad("principal.id is empty: say who acts")
	case s.Mode != "" && s.Mode != events.ModeRead && s.Mode != events.ModeWrite:
		return bad("mode %q: want %s or %s", s.Mode, events.ModeRead, events.ModeWrite)
	case s.OnError != "" && s.OnError != events.OnErrorContinue && s.OnError != events.OnErrorAbortRest:
		return bad("on_error %q: want %s or %s", s.OnError, events.OnErrorContinue, events.OnErrorAbortRest)
	case s.Placement != "" && (events.CheckID("placement", s.Placement) != nil || s.Placement[0] == '_'):
		return bad("placement %q: want 1 to 64 of A-Z a-z 0-9 _ -, not beginning with _", s.Placement)
	}
	if err := checkCaller(s); err != nil {
		return fmt.Errorf("%w: %w", ErrSubmission, err)
	}
	l := s.Limits
	if l.Concurrency < 0 || l.Concurrency > MaxConcurrency {
		return bad("limits.max_concurrency %d: want 0 to %d", l.Concurrency, MaxConcurrency)
	}
	if l.DeadlineMS < 0 || l.CallMS < 0 || l.CallBytes < 0 || l.TurnBytes < 0 {
		return bad("limits: a negative number has no meaning")
	}
	return checkCalls(s.Calls, bad)
}

func checkCalls(calls []events.RawCall, bad func(string, ...any) error) error {
	total, ids := int64(0), 0
	for i, c := range calls {
		n := int64(len(c.Args.Text))
		if c.Args.Ref != nil {
			n = c.Args.Ref.Size
		}
		extra := int64(len(c.Extra.Text))
		if c.Extra.Ref != nil {
			extra = c.Extra.Ref.Size
		}
		total += n + extra
		ids += len(c.ProviderID)
		switch {
		case n > MaxArgs:
			return bad("call %d: %d bytes of arguments, at most %d", i, n, MaxArgs)
		case max(len(c.Tool), len(c.Said)) > MaxName:
			return bad("call %d: a name of %d bytes, at most %d", i, max(len(c.Tool), len(c.Said)), MaxName)
		case len(c.ProviderID) > MaxProviderID:
			return bad("call %d: an id of %d bytes, at most %d", i, len(c.ProviderID), MaxProviderID)
		case ids > MaxProviderIDs:
			return bad("more than %d bytes of ids", MaxProviderIDs)
		case len(c.Key) > MaxKey:
			return bad("call %d: a key of %d bytes, at most %d", i, len(c.Key), MaxKey)
		case extra > MaxExtra:
			return bad("call %d: %d bytes that its provider wants back, at most %d", i, extra, MaxExtra)
		case total > MaxSubmission:
			return bad("more than %d bytes of arguments", MaxSubmission)
		}
	}
	return nil
}

// CallFacts is what planning needs to know of a call. The edge looks it up.
type CallFacts struct {
	Hash      string               // of the canonical arguments; "" where they do not parse
	Known     bool                 // the tool exists
	Safe      bool                 // may run beside its neighbours
	Resources []events.ResourceUse // that it must lock
}

// Batches groups calls into batches that run one after another. Neighbouring
// safe calls form one, unless one of them needs a resource of another alone;
// anything else is a batch of its own. A call that does not parse or has no tool
// is alone. Where disjoint is true, neighbours that declare resources which do
// not meet may share a batch too.
func Batches(facts []CallFacts, disjoint bool) [][]int {
	var out [][]int
	for i, f := range facts {
		if n := len(out); n > 0 && mayJoin(facts, out[n-1], f, disjoint) {
			out[n-1] = append(out[n-1], i)
			continue
		}
		out = append(out, []int{i})
	}
	return out
}

func mayJoin(facts []CallFacts, batch []int, f CallFacts, disjoint bool) bool {
	for _, j := range batch {
		if !mayShare(facts[j], f, disjoint) {
			return false
		}
	}
	return true
}

func mayShare(a, b CallFacts, disjoint bool) bool {
	switch {
	case a.Hash == "" || b.Hash == "" || !a.Known || !b.Known || meet(a.Resources, b.Resources):
		return false
	case a.Safe && b.Safe:
		return true
	}
	return disjoint && len(a.Resources) > 0 && len(b.Resources) > 0
}

// meet says whether two calls need one resource, at least one of them alone.
func meet(a, b []events.ResourceUse) bool {
	for _, x := range a {
		if slices.ContainsFunc(b, func(y events.ResourceUse) bool {
			return x.Name == y.Name && (x.Exclusive || y.Exclusive)
		}) {
			return true
		}
	}
	return false
}
