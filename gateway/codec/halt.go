package codec

import "strings"

// Halt says of a message that asks for no call why it is not the model's last word.
type Halt string

// The kinds of halts.
const (
	HaltNone    Halt = ""        // it is the last word, or nothing says otherwise
	HaltCut     Halt = "cut"     // the model ran into a limit
	HaltBlocked Halt = "blocked" // the model or a filter refuses to go on
	HaltPaused  Halt = "paused"  // it goes on once its message is sent back
	HaltFailed  Halt = "failed"  // the provider, or the model's attempt at a call
	HaltUnclear Halt = "unclear" // it stopped for a reason that is not known here
)

// halts are the reasons that are known, in small letters and with underscores. Routers pass
// on the words of other providers, so each counts in every format.
var halts = map[string]Halt{
	// What a server says where the model was done. Calls are held to less: see finished.
	"stop_sequence": HaltNone, "eos": HaltNone, "eos_token": HaltNone, "complete": HaltNone,

	"length": HaltCut, "max_tokens": HaltCut, "model_context_window_exceeded": HaltCut, "incomplete": HaltCut,

	"content_filter": HaltBlocked, "refusal": HaltBlocked, "blocked": HaltBlocked, "safety": HaltBlocked, "recitation": HaltBlocked,
	"language": HaltBlocked, "blocklist": HaltBlocked, "prohibited_content": HaltBlocked, "spii": HaltBlocked, "model_armor": HaltBlocked,
	"jailbreak": HaltBlocked, "image_safety": HaltBlocked, "image_prohibited_content": HaltBlocked, "image_recitation": HaltBlocked,

	"pause_turn": HaltPaused,

	"error": HaltFailed, "failed": HaltFailed, "cancelled": HaltFailed, noCandidates: HaltFailed, "malformed_function_call": HaltFailed,
	"unexpected_tool_call": HaltFailed, "too_many_tool_calls": HaltFailed, "malformed_response": HaltFailed, "missing_thought_signature": HaltFailed,
}

// Halt is HaltNone for a message that asks for something, and for a model's last word.
func (m Message) Halt() Halt {
	if len(m.Calls)+len(m.Unanswered) > 0 || finished(m.Reason) {
		return HaltNone
	}
	word, cause, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(m.Reason), "-", "_"), ": ")
	for _, w := range []string{cause, word} { // the cause says more, where it is known
		if h, ok := halts[w]; ok {
			return h
		}
	}
	return HaltUnclear
}
