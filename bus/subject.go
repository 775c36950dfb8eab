package bus

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// Subject prefixes. This file is the only place that builds or parses subjects.
const (
	EventPrefix = "sluice.ev."    // <trace>.<turn>: the log
	LivePrefix  = "sluice.live."  // <kind>.<tool>.<trace>.<turn>.<call>
	QueuePrefix = "sluice.turns." // <placement>
	WakePrefix  = "sluice.wake."  // <trace>.<turn>
	TimerPrefix = "sluice.timer." // <id>
	AskPrefix   = "sluice.ask."   // <boot>
	DoorPrefix  = "sluice.api."   // <user>.<verb>

	ToolPrefix   = "sluice.tool."   // <tool>: offered to workers
	HerePrefix   = "sluice.here."   // <tool>.<user>.<instance>: workers that announce themselves
	WorkerPrefix = "sluice.worker." // <user>.<instance>: what a worker is told
	AllWorkers   = "sluice.workers" // what all of them are told
	AnswerPrefix = "sluice.answer." // <boot>.<job>.<place>: what workers answer

	InboxPrefix = "_INBOX." // <user>. or NodeInbox, and what the client puts behind it: where answers are heard
)

// NodeInbox is the prefix of the subjects on which nodes hear answers. No user's
// token begins with _.
const NodeInbox = InboxPrefix + "_node"

// EventSubject is where the commits of a turn stand.
func EventSubject(k events.TurnKey) string { return EventPrefix + k.Trace + "." + k.Turn }

// ParseEventSubject reads what EventSubject wrote.
func ParseEventSubject(s string) (events.TurnKey, error) {
	rest, ok := strings.CutPrefix(s, EventPrefix)
	trace, turn, two := strings.Cut(rest, ".")
	k := events.TurnKey{Trace: trace, Turn: turn}
	if !ok || !two || k.Check() != nil {
		return events.TurnKey{}, fmt.Errorf("subject %q is not %s<trace>.<turn>", s, EventPrefix)
	}
	return k, nil
}

// LiveSubject is where an event is told live. tool "" is _unknown; call
// events.TurnEvent is _, and so is its tool.
func LiveSubject(kind events.Kind, tool string, turn events.TurnKey, call int) string {
	t, c := Token(tool), strconv.Itoa(call)
	switch {
	case call == events.TurnEvent:
		t, c = "_", "_"
	case tool == "":
		t = "_unknown"
	}
	return LivePrefix + string(kind) + "." + t + "." + turn.Trace + "." + turn.Turn + "." + c
}

// LiveUnresolved stands in the place of a kind where an end is told that leaves open what
// its call has done.
const LiveUnresolved events.Kind = "unresolved"

// LiveSubjects are where an event is told live: on its LiveSubject, and one that is
// [events.Unresolved] once more, the same, as LiveUnresolved.
func LiveSubjects(e events.Event, tool string, turn events.TurnKey, call int) []string {
	out := []string{LiveSubject(e.Kind(), tool, turn, call)}
	if events.Unresolved(e) {
		out = append(out, LiveSubject(LiveUnresolved, tool, turn, call))
	}
	return out
}

// Token makes one subject token of any name: bytes other than A-Z a-z 0-9 _ -
// become =XX, a leading _ too, so that _ and _unknown are never a tool's.
func Token(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		plain := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' && i > 0
		if plain {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "=%02X", c)
	}
	return b.String()
}

// ParseToken reads what Token wrote.
func ParseToken(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '=' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("token %q: cut short", s)
		}
		n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("token %q: %w", s, err)
		}
		b.WriteByte(byte(n))
		i += 2
	}
	return b.String(), nil
}
