package tools

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// DefaultOutput is how many bytes of text are kept of an attempt that says
// nothing of it.
const DefaultOutput = 16 << 20

// binaryOctet is the media type of bytes that no detector knows.
const binaryOctet = "application/octet-stream"

// tidy makes a tool's result one that can be stored and shown: a status, valid
// UTF-8, bounded, binary output described, no broken JSON.
func (a *attempt) tidy(r events.Result, failed *events.Error) events.Result {
	r.Error = nil
	r.Status = cmp.Or(r.Status, events.Success)
	if failed != nil {
		r.Status, r.Error = events.Failure, a.tidyError(*failed)
	}
	if r.Status != events.Success && r.Status != events.Failure {
		r.Status = events.Partial
	}
	a.tidyData(&r)
	a.tidyText(&r)
	r.Context = slices.Clone(r.Context)
	r.Context = slices.DeleteFunc(r.Context, func(m events.Modifier) bool {
		bad := m.Name == "" || len(m.Value) > 0 && !json.Valid(m.Value)
		if bad {
			a.o.Log.Error("tool gave a context modifier that is no JSON", "tool", a.tool.Name, "call", a.in.Call.String())
		}
		return bad
	})
	return r
}

// outputLimit is how many bytes the attempt may keep.
func (a *attempt) outputLimit() int {
	if a.tool.Limits.Output > 0 {
		return a.tool.Limits.Output
	}
	return DefaultOutput
}

func (a *attempt) tidyError(e events.Error) *events.Error {
	e.Message, _, _ = cut(cleanText(e.Message), limits{a.outputLimit(), math.MaxInt, math.MaxInt}, KeepHead, "")
	e.Path = cleanText(e.Path)
	return &e
}

// tidyText replaces text that is none by its description, and bounds the rest.
func (a *attempt) tidyText(r *events.Result) {
	limit := a.outputLimit()
	if r.Text.Ref != nil {
		r.Text.Text = "" // a body is inline or elsewhere
		return
	}
	if !IsBinary(r.Text.Text) {
		r.Text.Text, _, _ = cut(cleanText(r.Text.Text), limits{limit, math.MaxInt, math.MaxInt}, a.tool.Limits.Keep, "")
		return
	}
	whole := len(r.Text.Text)
	data := []byte(r.Text.Text[:min(whole, limit)])
	media := http.DetectContentType(data)
	if strings.HasPrefix(media, "text/") {
		media = binaryOctet // the detector looks at the first bytes only
	}
	r.Text.Text = fmt.Sprintf("[binary output: %d bytes, %s, sha256:%x]", whole, media, sha256.Sum256(data))
	if len(data) < whole {
		r.Text.Text = fmt.Sprintf("[binary output: %d bytes, %s; the first %d have sha256:%x]", whole, media, len(data), sha256.Sum256(data))
	}
	if a.o.Keep == nil {
		return
	}
	ref, err := a.o.Keep(data, media)
	if err != nil {
		a.o.Log.Error("output not stored", "tool", a.tool.Name, "call", a.in.Call.String(), "err", err)
		r.Text.Text += " [it could not be stored]"
		return
	}
	r.Blobs = append(slices.Clone(r.Blobs), ref)
}

// tidyData drops data that is no JSON or too large to keep, and says so: JSON
// cannot be cut.
func (a *attempt) tidyData(r *events.Result) {
	r.Data = bytes.TrimSpace(r.Data)
	note := ""
	switch {
	case len(r.Data) == 0:
		r.Data = nil
		return
	case len(r.Data) > a.outputLimit():
		note = fmt.Sprintf("[the tool's data of %d bytes is over its limit of %d and was left out]", len(r.Data), a.outputLimit())
	case !json.Valid(r.Data):
		note = fmt.Sprintf("[the tool's data of %d bytes is no JSON and was left out]", len(r.Data))
	default:
		r.Data = events.WholeJSON(r.Data)
		return
	}
	r.Data = nil
	if r.Status == events.Success {
		r.Status = events.Partial
	}
	if r.Text.Ref == nil {
		r.Text.Text = strings.TrimSuffix(note+"\n"+r.Text.Text, "\n")
	}
}

// cleanText is s as valid UTF-8 without NUL: each run of bytes that are none,
// and each NUL, becomes U+FFFD.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// IsBinary says whether bytes are no text: they hold a NUL, or more than three
// in ten are no UTF-8. It is pure.
func IsBinary(s string) bool {
	if strings.IndexByte(s, 0) >= 0 {
		return true
	}
	if utf8.ValidString(s) {
		return false
	}
	wrong := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			wrong++
		}
		i += n
	}
	return wrong*10 > len(s)*3
}
