package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Doors let people and programs ask for acts by request and reply over the bus,
// without rights of their own to the log. Who asks is the user whom the request's
// subject names: the keeper's permissions say who may publish there.
type Doors interface {
	// ServeDoor answers requests until ctx ends, and returns ctx's error then, or
	// ErrUnavailable where it cannot begin. Each request is answered by one of all
	// who serve. Up to DoorsAtOnce are answered at a time; beyond, who asks is told
	// that it is busy. What is not answered in somebody's own inbox is not heard:
	// a request's reply subject is its sender's choice, and must never be a way to
	// have an answer published where only nodes may write.
	ServeDoor(ctx context.Context, d Door) error
	// Knock asks, and waits for the answer. It returns ErrUnavailable where nobody
	// serves, ErrTooLarge where the body is more than a message may hold, and
	// ctx's error.
	Knock(ctx context.Context, k Knock) (Answer, error)
}

// DoorsAtOnce is how many requests one that serves answers at a time.
const DoorsAtOnce = 256

// MaxAnswer is the size in bytes of the largest answer: with its headers it stays
// within what servers allow a message by default, which is 1 MiB.
const MaxAnswer = 1<<20 - 4<<10

// Door is what answers.
type Door struct {
	Name    string   // of the service, for those who look for it: A-Z a-z 0-9 _ -
	ID      string   // of the one who serves, unique; A-Z a-z 0-9 _ -
	Version string   // semantic
	About   string   // a sentence
	Verbs   []string // that are answered, for those who look; others are handed over, too
	// Answer answers one request. It is called from many goroutines at once.
	Answer func(ctx context.Context, k Knock) Answer
}

// Knock is a request.
type Knock struct {
	User string // who asks
	Verb string // a single token: what for
	Body []byte // JSON; empty means an empty object
	// Traceparent is the W3C header of that name; "" where there was none.
	Traceparent string
}

// Answer is what a request is answered with.
type Answer struct {
	Status int    // as HTTP has it
	Error  string // a line; "" where the status is below 400
	Body   []byte // JSON: a value, or a problem (RFC 9457)
}

// DoorSubject is where a user asks for a verb.
func DoorSubject(user, verb string) string { return DoorPrefix + Token(user) + "." + verb }

// ParseDoorSubject reads what DoorSubject wrote. Another spelling of the same user
// is an error: permissions name only this one.
func ParseDoorSubject(s string) (user, verb string, err error) {
	rest, ok := strings.CutPrefix(s, DoorPrefix)
	token, verb, two := strings.Cut(rest, ".")
	if ok && two && token != "" && verb != "" && !strings.Contains(verb, ".") {
		user, err = ParseToken(token)
		if err == nil && Token(user) == token && utf8.ValidString(user) {
			return user, verb, nil
		}
	}
	return "", "", fmt.Errorf("subject %q is not %s<user>.<verb>", s, DoorPrefix)
}

// InboxOf is the prefix, with a dot at its end, of the subjects on which a user
// hears answers, and nobody else does.
func InboxOf(user string) string { return InboxPrefix + Token(user) + "." }

// maxReply is the size in bytes of the longest reply subject that is answered.
const maxReply = 256

// InInbox says whether a reply subject is one below prefix that can be published to
// as it is: plain tokens, at least one.
func InInbox(reply, prefix string) bool {
	rest, ok := strings.CutPrefix(reply, prefix)
	if !ok || len(reply) > maxReply {
		return false
	}
	for token := range strings.SplitSeq(rest, ".") {
		if token == "" {
			return false
		}
		for i := range len(token) {
			if c := token[i]; c <= ' ' || c >= 0x7f || c == '*' || c == '>' {
				return false
			}
		}
	}
	return true
}

// BusyAnswer is the answer of one who answers DoorsAtOnce already.
func BusyAnswer() Answer {
	return doorProblem(503, "busy", "Too many requests are being answered", "wait a moment, and repeat the request: it is safe")
}

// LargeAnswer stands for an answer of n bytes, which is more than MaxAnswer.
func LargeAnswer(n int) Answer {
	return doorProblem(413, "answer-too-large", fmt.Sprintf("The answer has %d bytes, and a message at most %d", n, MaxAnswer),
		"ask for less at once, or over HTTP")
}

func doorProblem(status int, word, title, next string) Answer {
	body, err := json.Marshal(map[string]any{"type": "urn:sluice:problem:" + word, "title": title, "status": status, "next": next})
	if err != nil {
		body = nil // a map of plain values always has a JSON form
	}
	return Answer{Status: status, Error: title, Body: body}
}
