package web

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// page is the body of an answer.
type page struct {
	url   *url.URL
	media string // Content-Type
	coded string // Content-Encoding of what is not unpacked; "" for none
	body  []byte
	cut   bool // there was more
}

// text is the page as valid UTF-8, its HTML turned into plain text unless raw.
func (p page) text(raw bool) (string, *tools.Error) {
	media := p.media
	if media == "" {
		media = http.DetectContentType(p.body)
	}
	kind, _, err := mime.ParseMediaType(media)
	if err != nil {
		kind = strings.ToLower(strings.TrimSpace(strings.SplitN(media, ";", 2)[0]))
	}
	if p.coded != "" {
		return "", refusal(events.BinaryFile, events.ClassTool, "the answer is packed in a way that was not asked for (%s, %d bytes): only text is shown", p.coded, len(p.body))
	}
	if !textual(kind) {
		return "", p.binary(kind)
	}
	text := p.decode(media)
	if strings.ContainsRune(text, 0) {
		return "", p.binary(kind)
	}
	if !raw && (kind == "text/html" || kind == "application/xhtml+xml") {
		text = plainText(text, p.url)
	}
	return text, nil
}

func (p page) binary(kind string) *tools.Error {
	return refusal(events.BinaryFile, events.ClassTool, "the answer is no text (%s, %d bytes): only text is shown", kind, len(p.body))
}

// decode reads the body in the character set that it claims to be in.
func (p page) decode(media string) string {
	if utf8.Valid(p.body) && !p.seemsUTF8(media) {
		return string(bytes.TrimPrefix(p.body, []byte("\ufeff")))
	}
	if r, err := charset.NewReader(bytes.NewReader(p.body), media); err == nil {
		if b, err := io.ReadAll(r); err == nil {
			return strings.TrimPrefix(strings.ToValidUTF8(string(b), "\ufffd"), "\ufeff")
		}
	}
	return strings.ToValidUTF8(string(p.body), "\ufffd")
}

// seemsUTF8 says whether a body is valid UTF-8 though it is in another character set, whose
// bytes are all ASCII: UTF-16 without a mark, or one that escapes to others.
func (p page) seemsUTF8(media string) bool {
	if bytes.IndexByte(p.body, 0) < 0 && bytes.IndexByte(p.body, 0x1b) < 0 {
		return false
	}
	_, name, _ := charset.DetermineEncoding(p.body, media)
	return strings.HasPrefix(name, "utf-16") || name == "iso-2022-jp"
}

func textual(kind string) bool {
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/x-javascript", "application/yaml", "application/x-yaml",
		"application/toml", "application/x-ndjson", "application/jsonl", "application/sql", "application/x-sh", "application/graphql", "image/svg+xml":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml")
}

// window is the part of text from offset on that fits in most bytes, and how
// many bytes are left behind it. No rune is parted.
func window(text string, offset, most int) (shown string, left int) {
	for offset < len(text) && !utf8.RuneStart(text[offset]) {
		offset++
	}
	rest := text[offset:]
	if len(rest) <= most {
		return rest, 0
	}
	end := max(most, 0)
	for end > 0 && !utf8.RuneStart(rest[end]) {
		end--
	}
	return rest[:end], len(rest) - end
}
