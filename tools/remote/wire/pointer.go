package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// At is the string or the number that a JSON Pointer (RFC 6901) leads to in a JSON text,
// with a number's digits as they stand. ok is false where there is none.
func At(text json.RawMessage, pointer string) (value string, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || !strings.HasPrefix(pointer, "/") {
		return "", false
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch in := v.(type) {
		case map[string]any:
			if v, ok = in[token]; !ok {
				return "", false
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(in) || strconv.Itoa(i) != token {
				return "", false
			}
			v = in[i]
		default:
			return "", false
		}
	}
	switch v := v.(type) {
	case string:
		return v, v != ""
	case json.Number:
		return v.String(), true
	}
	return "", false
}
