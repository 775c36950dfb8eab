package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// answer is a server's answer to a call, as it came.
type answer struct {
	ResultType   string                     `json:"resultType"`
	Content      []json.RawMessage          `json:"content"`
	Structured   json.RawMessage            `json:"structuredContent"`
	IsError      bool                       `json:"isError"`
	Requests     map[string]json.RawMessage `json:"inputRequests"`
	RequestState string                     `json:"requestState"`
	Task         json.RawMessage            `json:"task"`
}

// resultOf is what a server's answer means: a result, the tool's own failure, or a
// *tools.InputRequired.
func (d definition) resultOf(ctx context.Context, raw json.RawMessage) (events.Result, error) {
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return events.Result{}, fails("the server's answer is no result of a tool: " + whyNone(err))
	}
	switch a.ResultType {
	case "", "complete":
	case "input_required":
		return events.Result{}, a.asks()
	default:
		return events.Result{}, fails(fmt.Sprintf("the server answers with a result of a kind that is not known here: %s", shown(a.ResultType)))
	}
	if !absent(a.Task) && a.Content == nil {
		return events.Result{}, fails("the server has begun a task in the place of an answer, which it was not asked for: nobody hears how that ends")
	}
	r := a.result(ctx)
	if a.IsError {
		return events.Result{}, &tools.Error{
			Code: events.MCPExecutionError, Class: events.ClassTool, Effects: events.EffectsDone,
			Message: clip(cmp.Or(strings.TrimSpace(r.Text.Text), "the tool failed and did not say why"), maxMessage), Result: withoutText(r),
		}
	}
	if wrong := d.mismatch(a.Structured); wrong != "" {
		return events.Result{}, &tools.Error{
			Code: events.MCPExecutionError, Class: events.ClassTool, Effects: events.EffectsDone,
			Message: "the tool has run, and its structured result is not what its server's output schema says: " + wrong, Result: &r,
		}
	}
	return r, nil
}

// whyNone says what is wrong with an answer that is no result.
func whyNone(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return clip(events.Visible(err.Error()), 300)
	case wrong.Field == "":
		return "it is no object, but of type " + wrong.Value
	}
	return fmt.Sprintf("its %s is of type %s", shown(wrong.Field), wrong.Value)
}

// fails is a failure of which nobody knows what was done.
func fails(why string) *tools.Error {
	return &tools.Error{Code: events.MCPExecutionError, Class: events.ClassTool, Message: why}
}

// withoutText is what a failed result has beside the text that is its message.
func withoutText(r events.Result) *events.Result {
	if len(r.Text.Text) <= maxMessage {
		r.Text = events.Body{}
	}
	return &r
}

// mismatch says what is wrong with a structured result; "" means nothing.
func (d definition) mismatch(structured json.RawMessage) string {
	if len(d.OutputSchema) == 0 {
		return ""
	}
	if absent(structured) {
		return "there is none"
	}
	vs := tools.ValidateValue(d.OutputSchema, structured)
	if len(vs) == 0 {
		return ""
	}
	return strings.TrimSpace(vs[0].Path + " " + vs[0].Message)
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// result is the content of an answer.
func (a answer) result(ctx context.Context) events.Result {
	r := events.Result{Status: events.Success}
	if !absent(a.Structured) {
		r.Data = a.Structured
	}
	var texts []string
	for i, raw := range a.Content {
		if i == maxBlocks {
			texts = append(texts, fmt.Sprintf("[%d more parts were left out]", len(a.Content)-i))
			break
		}
		texts = append(texts, part(ctx, raw, &r))
	}
	r.Text.Text = strings.Join(texts, "\n")
	if len(a.Content) == 1 && same(r.Text.Text, r.Data) {
		r.Text.Text = "" // what servers write for clients that do not read structured results
	}
	return r
}

// same says whether a text is a JSON value.
func same(text string, data json.RawMessage) bool {
	var x, y bytes.Buffer
	if len(data) == 0 || json.Compact(&x, []byte(text)) != nil || json.Compact(&y, data) != nil {
		return false
	}
	if bytes.Equal(x.Bytes(), y.Bytes()) {
		return true
	}
	plain := func(b []byte) string {
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber()
		var v any
		_ = dec.Decode(&v) // it is JSON
		out, _ := json.Marshal(v)
		return string(out)
	}
	return plain(x.Bytes()) == plain(y.Bytes())
}

// block is one part of a result's content.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	Media    string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Title    string `json:"title"`
	About    string `json:"description"`
	Resource *struct {
		URI   string  `json:"uri"`
		Media string  `json:"mimeType"`
		Text  *string `json:"text"`
		Blob  *string `json:"blob"`
	} `json:"resource"`
}

// part is the text of one part. What is not text is kept beside the result, and described.
func part(ctx context.Context, raw json.RawMessage, r *events.Result) string {
	var b block
	if err := json.Unmarshal(raw, &b); err != nil {
		return "[a part that cannot be read]"
	}
	switch b.Type {
	case "text":
		return b.Text
	case "image", "audio":
		return blob(ctx, b.Type, b.Data, b.Media, "", r)
	case "resource_link":
		words := []string{"resource link:", shown(cmp.Or(b.Title, b.Name)), shown(b.URI)}
		if b.Media != "" {
			words = append(words, "("+shown(b.Media)+")")
		}
		if b.About != "" {
			words = append(words, "- "+clip(visibleLines(b.About), 500))
		}
		return "[" + strings.Join(words, " ") + "]"
	case "resource":
		switch res := b.Resource; {
		case res == nil:
		case res.Text != nil:
			return fmt.Sprintf("[resource %s]\n%s", shown(res.URI), *res.Text)
		case res.Blob != nil:
			return blob(ctx, "resource", *res.Blob, res.Media, " "+shown(res.URI), r)
		}
		return "[a resource without contents]"
	}
	return fmt.Sprintf("[a part of a kind that is not known here: %s]", shown(b.Type))
}

// blob keeps a part that is not text.
func blob(ctx context.Context, what, coded, media, of string, r *events.Result) string {
	data, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		data, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(coded, "="))
	}
	if err != nil {
		return fmt.Sprintf("[%s%s: its data is no base64, and was left out]", what, of)
	}
	media = clip(events.Visible(cmp.Or(media, "application/octet-stream")), 100)
	ref, err := tools.KeepBlob(ctx, data, media)
	if err != nil {
		return fmt.Sprintf("[%s%s: %d bytes, %s; it could not be stored]", what, of, len(data), media)
	}
	r.Blobs = append(r.Blobs, ref)
	return fmt.Sprintf("[%s%s: %d bytes, %s, %s]", what, of, len(data), media, ref.Digest)
}

// asks is what a person is asked, so that the tool can go on.
func (a answer) asks() error {
	if len(a.Requests) == 0 {
		// The server is busy, and says so in this way.
		return &tools.Error{Code: events.MCPNetworkError, Class: events.ClassUnavailable, After: busyAfter, Message: "the server is busy: it asks to be called again later"}
	}
	asks := &tools.InputRequired{State: a.RequestState}
	for _, id := range slices.Sorted(maps.Keys(a.Requests)) {
		req, err := inputRequest(id, a.Requests[id])
		if err != nil {
			return fails("the tool asks for input: " + err.Error())
		}
		asks.Requests = append(asks.Requests, req)
	}
	return asks
}

// elicitation is what a server asks a person.
type elicitation struct {
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"requestedSchema"`
	URL     string          `json:"url"`
}

// inputRequest is one request as people see it.
func inputRequest(id string, raw json.RawMessage) (events.InputRequest, error) {
	var r struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	var e elicitation
	if err := json.Unmarshal(raw, &r); err != nil {
		return events.InputRequest{}, errors.New("a request that cannot be read")
	}
	if r.Method != "elicitation/create" {
		return events.InputRequest{}, fmt.Errorf("%s is not offered to servers here", shown(r.Method))
	}
	if err := json.Unmarshal(r.Params, &e); err != nil {
		return events.InputRequest{}, errors.New("a request that cannot be read")
	}
	return e.request(id)
}

func (e elicitation) request(id string) (events.InputRequest, error) {
	switch cmp.Or(e.Mode, "form") {
	case "form":
		return events.InputRequest{ID: id, Kind: events.InputForm, Message: e.Message, Schema: e.Schema}, nil
	case "url":
		return events.InputRequest{ID: id, Kind: events.InputURL, Message: e.Message, URL: e.URL}, nil
	}
	return events.InputRequest{}, fmt.Errorf("in a mode that is not known here: %s", shown(e.Mode))
}
