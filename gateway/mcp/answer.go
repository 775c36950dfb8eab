package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// Bounds in bytes of what is sent whole of binaries. What is over them is named, and can be
// read as a resource.
const (
	maxMedia    = 1 << 20  // one image or sound
	maxAllMedia = 4 << 20  // all of an answer
	maxEmbedded = 64 << 10 // other bytes
	maxResource = 8 << 20  // read as a resource
)

// failure is an error for the model.
func failure(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: true, Meta: sdk.Meta{}}
}

// result is the answer of a turn that has ended, as the protocol has it. What is not a
// success is an error for the model, an unknown end too: it says so in words.
func (d *Door) result(ctx context.Context, back *backend, v gateway.View, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	a, err := d.answerOf(ctx, back, v)
	if err != nil {
		return nil, err
	}
	key := v.Turn.Key
	out := &sdk.CallToolResult{Meta: sdk.Meta{MetaTrace: key.Trace, MetaTurn: key.Turn}, IsError: a.Standing != events.AnswerSuccess}
	data := shown(a.Result.Data)
	text := strings.ToValidUTF8(a.Result.Text.Text, "\uFFFD")
	if ref := a.Result.Text.Ref; ref != nil {
		text = fmt.Sprintf("(%d bytes of output are not at hand)", ref.Size)
	}
	said := notes(a, text, data)
	media, links := d.media(ctx, back, key, a.Result)
	if len(said) == 0 && len(media)+len(links) == 0 {
		said = []string{lifecycle.NoOutput}
	}
	for _, s := range said {
		out.Content = append(out.Content, &sdk.TextContent{Text: s})
	}
	out.Content = append(append(out.Content, media...), links...)
	if data != nil && (newer(req) || data[0] == '{') { // before, only objects were allowed
		out.StructuredContent = json.RawMessage(data)
	}
	return out, nil
}

// answerOf is what there is to tell of the turn's call, within the turn's limits.
func (d *Door) answerOf(ctx context.Context, back *backend, v gateway.View) (events.Answer, error) {
	conv := projections.Answers.Init()
	for _, s := range v.Commits {
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			conv = projections.Answers.Apply(conv, e)
		}
	}
	t := conv.Turn(v.Turn.Key)
	if t == nil || len(t.Calls) == 0 {
		return events.Answer{}, fmt.Errorf("turn %s: %w", v.Turn.Key, lifecycle.ErrNoTurn)
	}
	list, err := t.Answers(func(ref events.BlobRef) ([]byte, error) { return back.Desk.Blob(ctx, ref) })
	if ctx.Err() != nil {
		return events.Answer{}, ctx.Err()
	}
	if err != nil {
		d.cfg.Log.Warn("a part of an answer cannot be read", "turn", v.Turn.Key.String(), "err", err)
	}
	fitted, _ := lifecycle.FitTurn(list, t.Limits.CallBytes, t.Limits.TurnBytes) // the wholes were kept before the turn ended
	return fitted[0], nil
}

// notes are the texts of an answer, in the order in which they are read.
func notes(a events.Answer, text string, data json.RawMessage) []string {
	var out []string
	add := func(s string) {
		if strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	if a.Changed != nil {
		add(changed(*a.Changed))
	}
	if e := a.Result.Error; e != nil && (a.Standing != events.AnswerSuccess || a.Result.Status == events.Partial) {
		add(errorText(*e))
	}
	add(text)
	if strings.TrimSpace(text) == "" && !hollow(data) {
		add(string(data))
	}
	if c := a.Result.Cut; c != nil {
		add(fmt.Sprintf("[%d bytes were cut here; all of it is %s]", c.Bytes, c.Whole.Digest))
	}
	if a.Of != "" {
		add(fmt.Sprintf("[This is the answer of an earlier call, %s: this one was not made again.]", a.Of))
	}
	return out
}

// hollow says that data holds nothing that a model could take for an answer.
func hollow(data json.RawMessage) bool {
	return data == nil || slices.Contains([]string{`""`, `[]`, `{}`, `{"content":[]}`}, string(data))
}

// errorText is an error in words. Its code stands first, since models are told of codes.
func errorText(e events.Error) string {
	s := string(e.Code) + ": " + strings.ToValidUTF8(e.Message, "\uFFFD")
	if e.Path != "" {
		s += " (at " + strings.ToValidUTF8(e.Path, "\uFFFD") + ")"
	}
	return s
}

// changed says that a person has put other arguments in the place of the model's.
func changed(args events.Body) string {
	switch {
	case args.Ref != nil || len(args.Text) > lifecycle.ShownArgs:
		return lifecycle.ChangedSentence + lifecycle.ChangedUnseen
	}
	return lifecycle.ChangedSentence + " Theirs: " + strings.ToValidUTF8(args.Text, "\uFFFD")
}

// shown is structured data, compact, with nothing in it that is no text; nil where there is none.
func shown(data json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	if len(data) == 0 || json.Compact(&out, data) != nil || out.String() == "null" {
		return nil
	}
	return events.WholeJSON(out.Bytes())
}

// media are the binaries of a result: images, sounds and what is small as they are, and
// what is too large as links to resources.
func (d *Door) media(ctx context.Context, back *backend, key events.TurnKey, r events.Result) (media, links []sdk.Content) {
	total := int64(0)
	for _, ref := range r.Blobs {
		kind, limit := kindOf(ref), int64(maxEmbedded)
		if kind != "" {
			limit = maxMedia
		}
		if ref.Size <= limit && total+ref.Size <= maxAllMedia {
			if b, err := back.Desk.Blob(ctx, ref); err == nil {
				total += ref.Size
				media = append(media, whole(key, ref, kind, b))
				continue
			}
		}
		links = append(links, link(key, ref))
	}
	if r.Cut != nil {
		links = append(links, link(key, r.Cut.Whole))
	}
	return media, links
}

// kindOf is image or audio, or "" for other bytes.
func kindOf(ref events.BlobRef) string {
	kind, _, _ := strings.Cut(ref.Media, "/")
	if kind == "image" || kind == "audio" {
		return kind
	}
	return ""
}

// whole is a part of an answer that is sent as it is.
func whole(key events.TurnKey, ref events.BlobRef, kind string, b []byte) sdk.Content {
	switch kind {
	case "image":
		return &sdk.ImageContent{Data: b, MIMEType: ref.Media}
	case "audio":
		return &sdk.AudioContent{Data: b, MIMEType: ref.Media}
	}
	return &sdk.EmbeddedResource{Resource: contents(blobURI(key, ref.Digest), mediaOf(ref), b)}
}

// contents are bytes as a resource has them.
func contents(uri, media string, b []byte) *sdk.ResourceContents {
	c := &sdk.ResourceContents{URI: uri, MIMEType: media}
	if isText(b) {
		c.Text = string(b)
	} else {
		c.Blob = b
	}
	return c
}

func link(key events.TurnKey, ref events.BlobRef) sdk.Content {
	size := ref.Size
	return &sdk.ResourceLink{
		URI: blobURI(key, ref.Digest), Name: ref.Digest, MIMEType: mediaOf(ref), Size: &size,
		Description: "bytes of this call's answer that are kept beside it",
	}
}

func mediaOf(ref events.BlobRef) string {
	if ref.Media == "" {
		return "text/plain; charset=utf-8"
	}
	return ref.Media
}

// blobScheme begins the address of bytes that a turn refers to.
const blobScheme = "sluice://turns/"

func blobURI(key events.TurnKey, digest string) string {
	return blobScheme + key.Trace + "/" + key.Turn + "/blobs/" + url.QueryEscape(digest) // a template takes no bare colon
}

func blobTemplate() *sdk.ResourceTemplate {
	return &sdk.ResourceTemplate{
		Name: "blob", Title: "Bytes of an answer", URITemplate: blobScheme + "{trace}/{turn}/blobs/{digest}",
		Description: "what was too large, or no text, in the answer of a call of yours; answers link to it",
	}
}

// readBlob answers resources/read, for who may see the turn.
func (d *Door) readBlob(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	v := d.visitOf(req.Extra)
	if v == nil {
		return nil, errNoVisit
	}
	uri := req.Params.URI
	parts := strings.Split(strings.TrimPrefix(uri, blobScheme), "/")
	if len(parts) != 4 || parts[2] != "blobs" {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	digest, err := url.QueryUnescape(parts[3])
	key := events.TurnKey{Trace: parts[0], Turn: parts[1]}
	if err != nil || key.Check() != nil {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	back, err := d.soon(ctx)
	if err != nil {
		return nil, err
	}
	b, err := back.Desk.BlobOf(ctx, v.who, key, digest)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil: // whose it is nobody else is told
		return nil, sdk.ResourceNotFoundError(uri)
	case len(b) > maxResource:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%d bytes, at most %d are sent this way: GET /v1/blobs has all", len(b), maxResource)}
	}
	media := "application/octet-stream"
	if isText(b) {
		media = "text/plain; charset=utf-8"
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents(uri, media, b)}}, nil
}

// isText says whether bytes can be sent as text.
func isText(b []byte) bool { return utf8.Valid(b) && !bytes.ContainsRune(b, 0) }
