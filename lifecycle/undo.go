package lifecycle

import (
	"encoding/json"

	"github.com/sluice-run/sluice/events"
)

// UndoTool is the name of the tool that undoes a completed call. An undo is a call
// like any other.
const UndoTool = "compensate"

// UndoArgs are the arguments of a call of UndoTool.
type UndoArgs struct {
	Call   string `json:"call" jsonschema:"the completed call to undo: trace/turn/offset"`
	Reason string `json:"reason,omitempty" jsonschema:"a sentence for the record"`
}

// Undo is the raw call that asks for the undo of a call.
func Undo(call events.CallKey, reason string) events.RawCall {
	b, err := json.Marshal(UndoArgs{call.String(), reason})
	if err != nil {
		return events.RawCall{} // two strings always have a JSON form
	}
	return events.RawCall{Tool: UndoTool, Args: events.Body{Text: string(b)}}
}

// UndoOf is the call that a call of UndoTool is about; ok is false for arguments
// that name none.
func UndoOf(args json.RawMessage) (call events.CallKey, ok bool) {
	var in UndoArgs
	if json.Unmarshal(args, &in) != nil {
		return events.CallKey{}, false
	}
	call, err := events.ParseCallKey(in.Call)
	return call, err == nil
}

// WhyNotUndone is why a call cannot be undone, whatever its tool may say; "" where
// it can. It does not look at whether the call was undone.
func WhyNotUndone(t Turn, c *Call) string {
	d, reused := c.Terminal.(*events.Deduplicated)
	switch {
	case t.Submitted == nil || t.Broken != "":
		return "what the log has of its turn is not whole"
	case t.Submitted.Imported != "":
		return "it never ran here: it was imported"
	case c.Open():
		return "it has not ended"
	case reused:
		return "it did nothing itself: its result is that of call " + d.Of + ", which may be undone"
	case c.Last != events.KindCompleted:
		return "only a completed call can be, and it ended as " + string(c.Last)
	case c.Verdict == nil || c.Started == nil:
		return "it never ran here: it was imported"
	case !c.Verdict.Undo:
		return "its tool, " + c.Tool + ", has no way to undo a call"
	}
	return ""
}
