package codec

import "encoding/json"

// Ollama's own API answers with an object around a message that is one of Chat Completions,
// and streams such objects, one a line: done says which is the last, done_reason why the
// model stopped. Its calls come whole, and mostly without ids.

// ofOllama says whether an object is such an answer, or a piece of one.
func ofOllama(top map[string]json.RawMessage) bool {
	return absent(top["choices"]) && !absent(top["done"]) && first(top["message"]) == '{'
}

// endOfOllama is why the model stopped, "" for a piece that is not the last.
func endOfOllama(top map[string]json.RawMessage) (string, error) {
	var done bool
	if json.Unmarshal(top["done"], &done) != nil {
		return "", malformed("/done", "want true or false")
	}
	reason, err := text(top["done_reason"], "/done_reason")
	if err != nil || !done {
		return "", err
	}
	if reason == "" { // older releases say no more than that it is done
		reason = "stop"
	}
	return reason, nil
}

// takeOllama adds a line of such a stream as the chunk that it would be in Chat Completions.
func (s *openAIStream) takeOllama(top map[string]json.RawMessage) error {
	reason, err := endOfOllama(top)
	if err != nil {
		return ofMessage(err)
	}
	if err := s.note(top["model"], nil); err != nil {
		return err
	}
	choice := map[string]json.RawMessage{"delta": top["message"]}
	if reason != "" {
		choice["finish_reason"] = marshal(reason)
	}
	if err := s.choice(marshal(choice), nil); err != nil {
		return err
	}
	s.done = reason != ""
	return nil
}
