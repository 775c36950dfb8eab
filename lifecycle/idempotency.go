package lifecycle

import (
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/events"
)

// KeyEntry is what a key's entry holds: it only points to the call that holds
// the key. That call's own log is its state.
type KeyEntry struct {
	Holder  string   `json:"holder"`            // trace/turn/offset
	Hash    string   `json:"hash"`              // of its arguments
	Seq     uint64   `json:"seq"`               // of the commit that requested the holder: what a reader must see of it
	Waiting []string `json:"waiting,omitempty"` // trace/turn of those to wake when it ends
}

// MaxWaiting bounds the turns that an entry remembers. Those beyond are woken
// by their backstop timer.
const MaxWaiting = 256

// DedupeRuling says what a call finds at its key.
type DedupeRuling string

// The rulings of the key.
const (
	KeyTake     DedupeRuling = "take"     // free: write an entry that names this call
	KeyMine     DedupeRuling = "mine"     // this call holds it already
	KeyReuse    DedupeRuling = "reuse"    // the holder's result is the answer
	KeyWait     DedupeRuling = "wait"     // the holder has not ended
	KeyBlocked  DedupeRuling = "blocked"  // how the holder ended is not known, and this call did not wait for it
	KeyConflict DedupeRuling = "conflict" // the holder has other arguments
)

// Dedupe decides what a call finds at its key. entry is nil where there is
// none; holder is the fold of the holder's turn, with no calls where that turn
// has no events. A call that waited for the holder gets its answer, whatever that
// is; one that comes when nobody knows how the holder ended is blocked.
func Dedupe(call events.CallKey, hash string, entry *KeyEntry, holder Turn) (DedupeRuling, *events.Deduplicated) {
	if entry == nil {
		return KeyTake, nil
	}
	if entry.Holder == call.String() {
		return KeyMine, nil
	}
	key, err := events.ParseCallKey(entry.Holder)
	if err != nil {
		return KeyTake, nil // an entry that points nowhere holds nothing
	}
	h := holder.Call(key.Offset)
	if h == nil || h.Phase == PhaseNone || spared(h) {
		return KeyTake, nil
	}
	if entry.Hash != hash {
		return KeyConflict, nil
	}
	ruling, same := standing(h, entry.Holder)
	if ruling == KeyBlocked && slices.Contains(entry.Waiting, call.TurnKey().String()) {
		// It asked while the holder ran: both are told the same, that nobody knows.
		return KeyReuse, &events.Deduplicated{Of: entry.Holder, Outcome: *h.Outcome, As: h.Last}
	}
	return ruling, same
}

// spared says whether the holder ended without any effect: its key is free.
func spared(h *Call) bool {
	if h.Open() {
		return false
	}
	if h.Resolved != nil {
		return h.Resolved.Effects == events.EffectsNone
	}
	return h.Outcome == nil || h.Outcome.Effects == events.EffectsNone && !h.succeeded()
}

func standing(h *Call, of string) (DedupeRuling, *events.Deduplicated) {
	switch {
	case h.Open():
		return KeyWait, nil
	case h.Last == events.KindDeduplicated:
		e := h.Terminal.(*events.Deduplicated)
		return KeyReuse, &events.Deduplicated{Of: e.Of, Outcome: e.Outcome, As: e.As}
	case h.Unresolved():
		return KeyBlocked, nil
	}
	d := &events.Deduplicated{Of: of, Outcome: *h.Outcome, As: h.Last}
	if h.Resolved != nil { // a person or a probe found that the effect happened
		d.As, d.Outcome.Effects = events.KindCompleted, events.EffectsDone
		if h.Resolved.Result != nil {
			d.Outcome.Result = *h.Resolved.Result
		}
	}
	return KeyReuse, d
}

// DedupeFinding is the dedupe gate's finding for a ruling.
func DedupeFinding(r DedupeRuling, key string, e *KeyEntry, d *events.Deduplicated) Finding {
	f := Finding{Gate: GateDedupe}
	switch r {
	case KeyReuse:
		d.Key = key
		f.Ruling, f.Reuse = Reuse, d
	case KeyWait:
		f.Ruling, f.Reason = Wait, fmt.Sprintf("call %s holds the key and has not ended", e.Holder)
	case KeyBlocked:
		f.Ruling, f.Code = Deny, events.UnknownOutcome
		f.Reason = fmt.Sprintf("an earlier call with this idempotency key (%s) may have had its effect, and nobody knows: check first, do not repeat it; somebody must resolve it", e.Holder)
	case KeyConflict:
		f.Ruling, f.Code = Deny, events.IdempotencyConflict
		f.Reason = fmt.Sprintf("the idempotency key is held by call %s with other arguments: use another key, or the same arguments", e.Holder)
	}
	return f
}
