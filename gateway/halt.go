package gateway

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/sluice-run/sluice/gateway/codec"
)

// halted says of each kind of halt what an agent is told: the word and the title of its
// problem, what it is, and what can be done.
var halted = map[codec.Halt]struct{ word, title, said, next string }{
	codec.HaltCut: {
		"model-cut", "The model was cut off", "the model ran into a limit",
		"ask it again with room for more output, or with less in the conversation",
	},
	codec.HaltBlocked: {
		"model-blocked", "The model's answer was blocked", "the model or its provider refuses to go on",
		"change what it is asked: the same again is blocked again",
	},
	codec.HaltPaused: {
		"model-paused", "The model has paused", "the model waits for its own message",
		"send its message back to it as it is: it goes on",
	},
	codec.HaltFailed: {
		"model-failed", "The model has failed", "the provider, or the model's attempt at a call, failed",
		"ask the model again: nothing was submitted",
	},
	codec.HaltUnclear: {
		"model-unclear", "It is not clear whether the model has ended", "the model stopped for a reason that is not known here",
		"see what its provider means by that, and ask it again if it had not ended",
	},
}

// maxStop bounds how much of a provider's word is repeated, in bytes.
const maxStop = 64

// HaltProblem is the *Problem of a message that asks for no call and is not the model's last
// word; nil for any other. Agents that took it for the end would end without one.
func HaltProblem(m codec.Message) error {
	row, ok := halted[m.Halt()]
	if !ok {
		return nil
	}
	stop := wholeText(strings.ToValidUTF8(m.Reason[:min(len(m.Reason), maxStop)], ""))
	p := problem(http.StatusUnprocessableEntity, row.word, row.title,
		fmt.Sprintf("it asks for no call, and this is not its last word: %s (%q)", row.said, stop), row.next)
	p.Stop = stop
	return p
}
