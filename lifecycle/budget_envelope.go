package lifecycle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// Placeholders of answers that have nothing to say.
const (
	NoOutput   = "(no output)"
	StillOpen  = "(no answer yet: this call has not ended)"
	statusOpen = "open"
)

// envelope is an answer as the model reads it. The order of its keys is fixed,
// and nothing in it depends on a clock.
type envelope struct {
	Status string          `json:"status"` // success, partial, error, denied, unknown or open
	Text   string          `json:"text,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
	Error  *events.Error   `json:"error,omitempty"`
	Of     string          `json:"deduplicated_from,omitempty"`
	Change *changeNote     `json:"changed,omitempty"`
	Cut    *cutNote        `json:"cut,omitempty"`
}

type cutNote struct {
	Bytes int64  `json:"bytes"`
	Lines int64  `json:"lines,omitempty"`
	Whole string `json:"whole"` // digest
}

// Envelope is the content of a live answer: compact JSON in valid UTF-8, the
// same bytes for the same answer. It bounds nothing: see FitTurn.
func Envelope(a events.Answer) []byte {
	e := envelope{Status: status(a), Of: a.Of}
	if a.Standing == events.AnswerOpen {
		e.Text = StillOpen
		return marshal(e)
	}
	e.Change = changeOf(a.Changed)
	r := a.Result
	e.Text, e.Data = valid(r.Text.Text), shownData(r.Data)
	if shownError(a) {
		e.Error = &events.Error{
			Code: events.Code(valid(string(r.Error.Code))), Message: valid(r.Error.Message), Path: valid(r.Error.Path),
		}
	}
	if r.Cut != nil {
		e.Cut = &cutNote{r.Cut.Bytes, r.Cut.Lines, r.Cut.Whole.Digest}
	}
	if ref := r.Text.Ref; ref != nil {
		e.Text = "(" + strconv.FormatInt(ref.Size, 10) + " bytes of output are not at hand)"
		if e.Cut == nil {
			e.Cut = &cutNote{Bytes: ref.Size, Whole: ref.Digest}
		}
	}
	if e.Error == nil && e.Cut == nil && invisible(e.Text) && hollow(e.Data) {
		e.Text = binaries(r.Blobs)
	}
	return marshal(e)
}

// shownError says that an error is part of what is told: of a success it is not.
func shownError(a events.Answer) bool {
	return a.Result.Error != nil && (a.Standing != events.AnswerSuccess || a.Result.Status == events.Partial)
}

func status(a events.Answer) string {
	switch a.Standing {
	case events.AnswerOpen:
		return statusOpen
	case events.AnswerDenied, events.AnswerUnknown:
		return string(a.Standing)
	case events.AnswerSuccess:
		if a.Result.Status == events.Partial {
			return string(events.Partial)
		}
		return string(events.Success)
	}
	return string(events.Failure)
}

// shownData is data as one JSON value, or nil where there is none. What is no
// JSON, though a tool said so, becomes a JSON string: it must not break the envelope.
func shownData(data json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return nil
	}
	if !json.Valid(trimmed) {
		return marshal(string(trimmed))
	}
	return bytes.ToValidUTF8(trimmed, []byte("\uFFFD"))
}

// hollow says that data holds nothing that a model could take for an answer.
func hollow(data json.RawMessage) bool {
	var compact bytes.Buffer
	if len(data) == 0 || json.Compact(&compact, data) != nil {
		return true
	}
	switch compact.String() {
	case `[]`, `{}`, `{"content":[]}`:
		return true
	}
	var s string
	return data[0] == '"' && json.Unmarshal(data, &s) == nil && invisible(s)
}

// binaries tell of what a tool gave that no text of its describes: NoOutput where that is
// nothing, too.
func binaries(blobs []events.BlobRef) string {
	if len(blobs) == 0 {
		return NoOutput
	}
	const media, digest = 64, 80 // bytes of what is shown of them: it belongs to the frame
	b, more := blobs[0], ""
	if n := len(blobs) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	kind := cmp.Or(valid(b.Media), "application/octet-stream")
	return fmt.Sprintf("[binary output: %d bytes, %s, %s%s]", b.Size, head(kind, media, media), head(valid(b.Digest), digest, digest), more)
}

// invisible says that a text shows nothing: it is blanks, control and format characters, and
// what tells a terminal of colours and titles.
func invisible(s string) bool {
	for len(s) > 0 {
		if escape := escapes.FindString(s); escape != "" {
			s = s[len(escape):]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		if unicode.IsGraphic(r) && !unicode.IsSpace(r) {
			return false
		}
		s = s[n:]
	}
	return true
}

// escapes is a terminal's sequence at the beginning of a text.
var escapes = regexp.MustCompile(`^\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])`)

// valid is s in valid UTF-8: what is none costs one U+FFFD, not one escape a byte.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// marshal is JSON without the escapes meant for HTML, which would only cost space.
func marshal(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("lifecycle: envelope: " + err.Error()) // strings, and JSON that was checked
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// quoted is the length of b, which is compact JSON, as a JSON string: b holds no
// control character, so only these grow.
func quoted(b []byte) int {
	return len(b) + 2 + bytes.Count(b, []byte{'"'}) + bytes.Count(b, []byte{'\\'}) +
		3*bytes.Count(b, []byte("\u2028")) + 3*bytes.Count(b, []byte("\u2029"))
}

// cost is how many bytes the first rune of s, n bytes long, takes in an envelope that
// is itself quoted. Escapes are escaped again: a NUL takes seven.
func cost(s string) (bytes, n int) {
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case r == '"' || r == '\\':
		return 4, n
	case r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return 3, n
	case r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' || r == utf8.RuneError && n == 1:
		return 7, n
	}
	return n, n
}

// costOf is the cost of all of s.
func costOf(s string) int {
	sum := 0
	for len(s) > 0 {
		c, n := cost(s)
		sum, s = sum+c, s[n:]
	}
	return sum
}

// head is the longest beginning of s of at most limit bytes that costs at most
// budget. It ends between two runes.
func head(s string, limit, budget int) string {
	i := 0
	for i < len(s) {
		c, n := cost(s[i:])
		if budget -= c; budget < 0 || i+n > limit {
			break
		}
		i += n
	}
	return s[:i]
}

// tail is the same from the end.
func tail(s string, limit, budget int) string {
	i := len(s)
	for i > 0 {
		_, n := utf8.DecodeLastRuneInString(s[:i])
		c, _ := cost(s[i-n:])
		if budget -= c; budget < 0 || len(s)-i+n > limit {
			break
		}
		i -= n
	}
	return s[i:]
}
