package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sluice-run/sluice/events"
)

// decode is the message that data is. What is no text in it becomes U+FFFD here, once,
// wherever it stands: in results, in lists of tools, in what people are asked. An answer
// whose id is a number in quotes answers that number: all ids of ours are numbers.
func decode(data []byte) (jsonrpc.Message, error) {
	whole := events.WholeJSON(bytes.TrimPrefix(data, byteOrder))
	msg, err := jsonrpc.DecodeMessage(whole)
	if err == nil && !json.Valid(whole) { // it reads the first value alone
		return nil, errMore
	}
	r, isAnswer := msg.(*jsonrpc.Response)
	if err != nil || !isAnswer {
		return msg, err
	}
	if quoted, ok := r.ID.Raw().(string); ok {
		if n, err := strconv.ParseInt(quoted, 10, 53); err == nil {
			r.ID = idOf(n)
		}
	}
	if bytes.Contains(r.Result, []byte(`"capabilities"`)) {
		r.Result = able(r.Result)
	}
	return r, nil
}

// errMore says that something stands behind a message: whoever waits for that would wait
// for nothing.
var errMore = errors.New("more stands behind the message")

// byteOrder is the mark that some programs begin their output with.
var byteOrder = []byte("\xef\xbb\xbf")

// able is what a server says of itself, so that it can be decoded: see objects.
func able(result json.RawMessage) json.RawMessage {
	var said map[string]json.RawMessage
	if json.Unmarshal(result, &said) != nil || said["serverInfo"] == nil && said["supportedVersions"] == nil {
		return result
	}
	all := objects(said["capabilities"], "tools", "resources", "prompts", "logging", "completions", "experimental", "extensions")
	if bytes.Equal(all, said["capabilities"]) {
		return objects(result, "capabilities", "_meta")
	}
	said["capabilities"] = all
	out, err := json.Marshal(said)
	if err != nil {
		return result
	}
	return objects(out, "_meta")
}

// idOf is the id of a request of ours.
func idOf(n int64) jsonrpc.ID {
	id, _ := jsonrpc.MakeID(float64(n)) // a number is one
	return id
}

// decodeFor is decode for what came in answer to request id alone, over HTTP. An answer
// to another request is not its answer, whoever sent it there; one that bears no id can
// only be an error. What is its answer, and cannot be decoded, is an error of ours.
func decodeFor(id int64, data []byte) (jsonrpc.Message, error) {
	msg, err := decode(data)
	if r, isAnswer := msg.(*jsonrpc.Response); isAnswer && err == nil && r.ID != idOf(id) {
		return nil, errOthers
	}
	if err == nil {
		return msg, nil
	}
	if slices.Contains(answersIn(data), id) {
		return failing(id, codeUnreadable, whyUnreadable), nil
	}
	var bare struct {
		ID     any            `json:"id"`
		Method any            `json:"method"`
		Error  *jsonrpc.Error `json:"error"`
	}
	if json.Unmarshal(events.WholeJSON(data), &bare) == nil && bare.ID == nil && bare.Method == nil && bare.Error != nil {
		return &jsonrpc.Response{ID: idOf(id), Error: bare.Error}, nil
	}
	return nil, err
}

// errOthers says that an answer is that to another request.
var errOthers = errors.New("the server answers a request that it was not asked here")

const whyUnreadable = "the server has answered, and its answer cannot be read: it is no message of JSON-RPC 2.0, or nested too deep"

// unreadable are errors in the place of answers that cannot be decoded, for the requests
// that they answer: who waits for one would wait for nothing. It is empty where data
// answers nothing, as lines of a program's log do.
func unreadable(data []byte) (out []jsonrpc.Message) {
	for _, id := range answersIn(data) {
		out = append(out, failing(id, codeUnreadable, whyUnreadable))
	}
	return out
}

// answersIn are the ids of the answers in data, which is an object, or a list of them, to
// any depth, and may be broken somewhere. Lines with an id that a program logs there as
// JSON are no answers: those name the protocol, or hold an object as result or error.
func answersIn(data []byte) (ids []int64) {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 || data[0] != '{' && data[0] != '[' {
		return nil
	}
	base := 1 // the depth of an answer's own members
	if data[0] == '[' {
		base = 2
	}
	var a maybeAnswer
	depth := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == base-1 {
				ids = a.ends(ids)
			}
		case '"':
			end := i + stringEnd(data[i:])
			if depth == base {
				a.member(data[i:end], data[end:])
			}
			i = end - 1
		}
	}
	return a.ends(ids)
}

// maybeAnswer is what is known of an object that may be an answer.
type maybeAnswer struct {
	id       *int64
	protocol bool // it says that it is of the protocol
	request  bool
}

// ends adds the id of what ends here, if it was an answer, and begins anew.
func (a *maybeAnswer) ends(ids []int64) []int64 {
	if a.id != nil && a.protocol && !a.request && !slices.Contains(ids, *a.id) && len(ids) < maxBatch {
		ids = append(ids, *a.id)
	}
	*a = maybeAnswer{}
	return ids
}

// member takes a string of the object, and what stands behind it: it names a member where
// a colon does.
func (a *maybeAnswer) member(name, rest []byte) {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return
	}
	value := bytes.TrimLeft(rest[1:], " \t\r\n")
	switch string(name) {
	case `"id"`:
		end := max(bytes.IndexAny(value, ",}] \t\r\n"), 0) // what has no end may be half a number
		if n, err := strconv.ParseInt(string(bytes.Trim(value[:end], `"`)), 10, 64); err == nil {
			a.id = &n
		}
	case `"jsonrpc"`:
		a.protocol = true
	case `"result"`, `"error"`:
		a.protocol = a.protocol || bytes.HasPrefix(value, []byte("{"))
	case `"method"`:
		a.request = true
	}
}

// stringEnd is the length of the string that data begins with.
func stringEnd(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}
