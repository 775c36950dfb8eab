package lifecycle

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// What a model is told of arguments that are not its own.
const (
	ChangedSentence = "A person has changed the arguments of this call before they agreed to it: this is the answer to theirs, not to yours."
	ChangedUnseen   = " They are not all shown here: look at what was done before you go on."
)

// ShownArgs bounds, in bytes of compact JSON, the changed arguments that a model is shown
// whole. Of longer ones it is shown the beginning.
const ShownArgs = 2048

// changedNote bounds what the note takes in an envelope without any arguments.
const changedNote = 320

// changeNote is the member of an envelope that says so.
type changeNote struct {
	Note  string          `json:"note"`
	Args  json.RawMessage `json:"args,omitempty"`       // all of them
	Begin string          `json:"args_begin,omitempty"` // of what is too long
	Bytes int64           `json:"bytes,omitempty"`      // of all, where Args is not there
}

// changeOf is the note on changed arguments, nil where there are none. It depends on
// nothing but what the log holds: of a reference only the size is told.
func changeOf(args *events.Body) *changeNote {
	if args == nil {
		return nil
	}
	n := &changeNote{Note: ChangedSentence}
	text := compacted(args.Text)
	switch {
	case args.Ref != nil:
		n.Note, n.Bytes = n.Note+ChangedUnseen, args.Ref.Size
	case len(text) > ShownArgs:
		n.Note, n.Bytes = n.Note+ChangedUnseen, int64(len(text))
		n.Begin = head(text, ShownArgs/2, ShownArgs) + "…"
	default:
		n.Args = shownData(json.RawMessage(text))
	}
	return n
}

// compacted is JSON without blanks between its parts, and text that is none as it is.
func compacted(text string) string {
	var out bytes.Buffer
	if json.Compact(&out, []byte(text)) != nil {
		return valid(text)
	}
	return strings.ToValidUTF8(out.String(), "\uFFFD")
}

// changedSize bounds the bytes that the note on changed arguments takes in an envelope
// that is itself quoted; 0 where there are none.
func changedSize(args *events.Body) int {
	if args == nil {
		return 0
	}
	c := changeOf(args)
	return changedNote + quoted(c.Args) + costOf(c.Begin)
}
