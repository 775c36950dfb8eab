package tools_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// TestBinaryOutput is described, and kept where somebody keeps it.
func TestBinaryOutput(t *testing.T) {
	var all [1024]byte
	for i := range all {
		all[i] = byte(i)
	}
	for name, raw := range map[string]string{"all bytes": string(all[:]), "a NUL": "a\x00b", "no UTF-8": strings.Repeat("\xfe\xff", 100)} {
		t.Run(name, func(t *testing.T) {
			var kept []byte
			ref := events.BlobRef{Digest: "sha256:x", Size: int64(len(raw)), Media: "application/octet-stream"}
			tool := toolOf(events.Readonly, answers(text(raw), nil))
			got := execute(t, tool, tools.Options{Keep: func(data []byte, media string) (events.BlobRef, error) {
				kept = data
				if media != ref.Media {
					t.Errorf("media type %q", media)
				}
				return ref, nil
			}})
			if string(kept) != raw || cmp.Diff([]events.BlobRef{ref}, got.Result.Blobs) != "" || got.Output != int64(len(raw)) {
				t.Errorf("kept %d bytes, %+v", len(kept), got.Result.Blobs)
			}
			if want := fmt.Sprintf("[binary output: %d bytes, application/octet-stream, sha256:", len(raw)); !strings.HasPrefix(got.Result.Text.Text, want) {
				t.Errorf("text %q", got.Result.Text.Text)
			}
			lost := execute(t, tool, tools.Options{Keep: func([]byte, string) (events.BlobRef, error) { return ref, errors.New("full") }})
			if len(lost.Result.Blobs) > 0 || !strings.Contains(lost.Result.Text.Text, "could not be stored") || lost.Class != events.ClassOK {
				t.Errorf("%+v", lost)
			}
		})
	}
}

func TestBinaryOutputHasItsMediaType(t *testing.T) {
	got := execute(t, toolOf(events.Readonly, answers(text("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), nil)), tools.Options{})
	if !strings.Contains(got.Result.Text.Text, "image/png") {
		t.Errorf("text %q", got.Result.Text.Text)
	}
}

func TestTextIsMadeStorable(t *testing.T) {
	got := execute(t, toolOf(events.Readonly, answers(text("caf\xe9 au lait, \x1b[1mbold\x1b[0m"), nil)), tools.Options{})
	if got.Result.Text.Text != "caf\uFFFD au lait, \x1b[1mbold\x1b[0m" || len(got.Result.Blobs) > 0 {
		t.Errorf("text %q", got.Result.Text.Text)
	}
	failed := execute(t, toolOf(events.Readonly, answers(events.Result{}, &tools.Error{Message: "a\x00b\xff", Path: "/\xff"})), tools.Options{})
	if e := failed.Result.Error; e.Message != "a\uFFFDb\uFFFD" || e.Path != "/\uFFFD" {
		t.Errorf("%+v", e)
	}
}

func TestOutputIsBounded(t *testing.T) {
	long := strings.Repeat("界", 1000) // 3 000 bytes
	for _, keep := range []tools.Keep{"", tools.KeepHead, tools.KeepTail, tools.KeepBoth} {
		for limit := 500; limit < 506; limit++ {
			tool := toolOf(events.Readonly, answers(text(long), nil))
			tool.Limits = tools.Limits{Output: limit, Keep: keep}
			got := execute(t, tool, tools.Options{})
			if s := got.Result.Text.Text; len(s) > limit || len(s) < limit-10 || !utf8.ValidString(s) || got.Output != 3000 {
				t.Errorf("%s %d: %d bytes, valid %v, emitted %d", keep, limit, len(s), utf8.ValidString(s), got.Output)
			}
			tool = toolOf(events.Readonly, answers(text(long), &tools.Error{Message: long}))
			tool.Limits.Output = limit
			if s := execute(t, tool, tools.Options{}).Result.Error.Message; len(s) > limit || !utf8.ValidString(s) {
				t.Errorf("%d: an error of %d bytes", limit, len(s))
			}
		}
	}
}

func TestDataIsJSONOrNothing(t *testing.T) {
	for name, c := range map[string]struct{ data, want, text string }{
		"exact":     {`{"id":9007199254740993}`, `{"id":9007199254740993}`, "hi"},
		"not JSON":  {`{"id":`, "", "[the tool's data of 6 bytes is no JSON and was left out]\nhi"},
		"too large": {`"` + strings.Repeat("x", 2000) + `"`, "", "[the tool's data of 2002 bytes is over its limit of 1000 and was left out]\nhi"},
		"not UTF-8": {"\"a\xff\"", "\"a\uFFFD\"", "hi"},
		"half pair": {`{"a\udc00":"\ud83d\ude00\ud83d"}`, `{"a\ufffd":"\ud83d\ude00\ufffd"}`, "hi"},
	} {
		tool := toolOf(events.Irreversible, answers(events.Result{Text: events.Body{Text: "hi"}, Data: json.RawMessage(c.data)}, nil))
		tool.Limits.Output = 1000
		got := execute(t, tool, tools.Options{})
		if string(got.Result.Data) != c.want || got.Result.Text.Text != c.text || got.Class != events.ClassOK {
			t.Errorf("%s: %+v", name, got.Result)
		}
		if wantPartial := c.want == ""; (got.Result.Status == events.Partial) != wantPartial {
			t.Errorf("%s: status %s", name, got.Result.Status)
		}
	}
}

func TestModifiersThatAreNoJSONAreDropped(t *testing.T) {
	given := []events.Modifier{{Name: "a", Value: json.RawMessage("1")}, {Name: "b", Value: json.RawMessage("{")}, {Name: "c"}, {Value: json.RawMessage("2")}}
	got := execute(t, toolOf(events.Readonly, answers(events.Result{Context: given}, nil)), tools.Options{})
	want := []events.Modifier{{Name: "a", Value: json.RawMessage("1")}, {Name: "c"}}
	if d := cmp.Diff(want, got.Result.Context); d != "" {
		t.Error(d)
	}
	if string(given[1].Value) != "{" {
		t.Error("the tool's own slice was changed")
	}
}
