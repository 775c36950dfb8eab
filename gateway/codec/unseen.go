package codec

// unseen refuses a message in which its format finds no call, and which has some all the
// same: as another format writes them, or by the word for why the model stopped. Taken for
// the model's last word it would end a conversation whose calls nobody has answered.
func unseen(f Format, m Message, body []byte) error {
	if len(m.Calls) > 0 || len(m.Unanswered) > 0 {
		return nil
	}
	for _, c := range codecs {
		if c.format == f {
			continue
		}
		if other, err := c.decode(body); err == nil && len(other.Calls) > 0 {
			return malformed("", "it has calls as %s writes them (%q is the first), and was read as %s: say the format %s, or none", c.format, shorten(other.Calls[0].Tool, 64), f, c.format)
		}
	}
	if f != AISDK && asksForCalls(m.Reason) { // a provider may have run those of the AI SDK itself
		return malformed("", "the model stopped for %q, and no call is in it: send the message with its calls, as %s writes them", m.Reason, f)
	}
	return nil
}

// asksForCalls says whether a model that stopped for a reason waits for answers to calls.
func asksForCalls(reason string) bool {
	switch reason {
	case "tool_calls", "function_call", // Chat Completions
		"tool_use": // Anthropic
		return true
	}
	return false
}
