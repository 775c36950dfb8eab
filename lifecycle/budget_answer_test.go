package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

func outcome(effects events.Effects, text string) events.Outcome {
	return events.Outcome{Effects: effects, Result: events.Result{Text: events.Body{Text: text}}}
}

func TestAnswerOf(t *testing.T) {
	none, possible, done := events.EffectsNone, events.EffectsPossible, events.EffectsDone
	partial := outcome(done, "half")
	partial.Result.Status, partial.Result.Error = events.Partial, &events.Error{Code: events.Timeout, Message: "One host was silent."}
	exit := outcome(done, "out")
	exit.Result.Error = &events.Error{Code: events.ExecutionError, Message: "Exit status 3."}
	ref := events.BlobRef{Digest: Digest([]byte("x")), Size: 70_000}
	far := events.Outcome{Result: events.Result{Text: events.Body{Ref: &ref}}}
	unknown := `"error":{"code":"UNKNOWN_OUTCOME","message":"` + UnknownSentence
	for _, c := range []struct {
		name     string
		terminal events.Event
		standing events.Standing
		want     string
	}{
		{"open", nil, events.AnswerOpen, `{"status":"open","text":"(no answer yet: this call has not ended)"}`},
		{"completed", &events.Completed{Outcome: outcome(done, "a <b> \"c\"")}, events.AnswerSuccess, `{"status":"success","text":"a <b> \"c\""}`},
		{"empty", &events.Completed{Outcome: outcome(done, "")}, events.AnswerSuccess, `{"status":"success","text":"(no output)"}`},
		{"blank", &events.Completed{Outcome: outcome(done, " \n")}, events.AnswerSuccess, `{"status":"success","text":"(no output)"}`},
		{"partial", &events.Completed{Outcome: partial}, events.AnswerSuccess, `{"status":"partial","text":"half","error":{"code":"TIMEOUT","message":"One host was silent."}}`},
		{"far", &events.Completed{Outcome: far}, events.AnswerSuccess, `{"status":"success","text":"(70000 bytes of output are not at hand)","cut":{"bytes":70000,"whole":"` + ref.Digest + `"}}`},
		{"denied", &events.Denied{Gate: "validate", Code: events.InvalidParam, Reason: "v is missing.", Path: "/v"}, events.AnswerDenied, `{"status":"denied","error":{"code":"INVALID_PARAM","message":"v is missing.","path":"/v"}}`},
		{"failed", &events.Failed{Outcome: exit}, events.AnswerFailed, `{"status":"error","text":"out","error":{"code":"EXECUTION_ERROR","message":"Exit status 3."}}`},
		{"failed, silent", &events.Failed{Outcome: outcome(none, "")}, events.AnswerFailed, `{"status":"error","error":{"code":"EXECUTION_ERROR","message":"The call failed."}}`},
		{"failed, possible", &events.Failed{Outcome: outcome(possible, "")}, events.AnswerUnknown, `{"status":"unknown",` + unknown + ` (EXECUTION_ERROR: The call failed.)"}}`},
		{"timed out, none", &events.TimedOut{Outcome: outcome(none, "")}, events.AnswerFailed, `{"status":"error","error":{"code":"TIMEOUT","message":"The call ran out of time."}}`},
		{"timed out, possible", &events.TimedOut{Outcome: outcome(possible, "")}, events.AnswerUnknown, `{"status":"unknown",` + unknown + ` (TIMEOUT: The call ran out of time.)"}}`},
		{"timed out, unsaid", &events.TimedOut{Outcome: outcome("", "")}, events.AnswerUnknown, `{"status":"unknown",` + unknown + ` (TIMEOUT: The call ran out of time.)"}}`},
		{"cancelled", &events.Cancelled{Outcome: outcome(none, ""), Reason: "the user left"}, events.AnswerFailed, `{"status":"error","error":{"code":"CANCELLED","message":"The call was cancelled: the user left"}}`},
		{"unknown, none", &events.Unknown{Outcome: outcome(none, ""), Why: events.UnknownUnconfirmed}, events.AnswerFailed, `{"status":"error","error":{"code":"INTERNAL_ERROR","message":"The call ended without an answer."}}`},
		{"unknown", &events.Unknown{Outcome: outcome(possible, "some"), Why: events.UnknownOwnerLost}, events.AnswerUnknown, `{"status":"unknown","text":"some",` + unknown + ` (INTERNAL_ERROR: The call ended without an answer.)"}}`},
		{"unknown, done", &events.Unknown{Outcome: outcome(done, "")}, events.AnswerUnknown, `{"status":"unknown",` + unknown + ` (INTERNAL_ERROR: The call ended without an answer.)"}}`},
		{"same as another", &events.Deduplicated{Of: "a/b/0", As: events.KindCompleted, Outcome: outcome(done, "x")}, events.AnswerSuccess, `{"status":"success","text":"x","deduplicated_from":"a/b/0"}`},
		{"same as an unknown", &events.Deduplicated{Of: "a/b/0", As: events.KindTimedOut, Outcome: outcome(possible, "")}, events.AnswerUnknown, `{"status":"unknown",` + unknown + ` (TIMEOUT: The call ran out of time.)"},"deduplicated_from":"a/b/0"}`},
		{"from the future", events.Foreign{Name: events.KindCompleted, Version: 9}, events.AnswerUnknown, `{"status":"unknown",` + unknown + ` (INTERNAL_ERROR: The call ended without an answer.)"}}`},
	} {
		a := AnswerOf(4, events.RawCall{ProviderID: "id", Tool: "t"}, c.terminal)
		if a.Standing != c.standing || a.Call != 4 || a.ProviderID != "id" || a.Tool != "t" {
			t.Errorf("%s: %+v", c.name, a)
		}
		if got := string(Envelope(a)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestHollowDataIsNoOutput(t *testing.T) {
	for data, want := range map[string]string{
		`null`:                    `{"status":"success","text":"(no output)"}`,
		`""`:                      `{"status":"success","text":"(no output)","data":""}`,
		`" \t"`:                   `{"status":"success","text":"(no output)","data":" \t"}`,
		`" x"`:                    `{"status":"success","data":" x"}`,
		`[ ]`:                     `{"status":"success","text":"(no output)","data":[]}`,
		`{"content": []}`:         `{"status":"success","text":"(no output)","data":{"content":[]}}`,
		`{"n":90071992547409931}`: `{"status":"success","data":{"n":90071992547409931}}`,
		`{"broken`:                `{"status":"success","data":"{\"broken"}`,
	} {
		o := events.Outcome{Result: events.Result{Data: json.RawMessage(data)}}
		if got := string(Envelope(AnswerOf(0, events.RawCall{}, &events.Completed{Outcome: o}))); got != want {
			t.Errorf("%s: got %s, want %s", data, got, want)
		}
	}
}

func TestWhatShowsNothingIsNoOutput(t *testing.T) {
	for text, nothing := range map[string]bool{
		"": true, " \t\r\n": true, "\x1b[31m\x1b[0m": true, "\x1b[2K\r \x1b[1;31m\n": true, "\x1b]0;title\x07": true, "\x1b]8;;http://e\x1b\\ \x1b(B": true,
		"\u200b\ufeff\u2060": true, "\u00a0\u3000": true, "\x00\x07": true, "\u202e": true,
		"\x1b[31mred\x1b[0m": false, "\x1b]0;a title without its end": false, "0": false, "\ufffd": false, "\u0301": false, "👨\u200d👩": false, "null": false, ".": false,
	} {
		a := AnswerOf(0, events.RawCall{}, &events.Completed{Outcome: events.Outcome{Result: events.Result{Text: events.Body{Text: text}}}})
		if got := strings.Contains(string(Envelope(a)), NoOutput); got != nothing {
			t.Errorf("%q: %s", text, Envelope(a))
		}
	}
}

func TestBinariesAloneAreNoEmptyResult(t *testing.T) {
	image := events.BlobRef{Digest: Digest([]byte("x")), Size: 1, Media: "image/png"}
	for _, c := range []struct {
		text  string
		blobs []events.BlobRef
		want  string
	}{
		{"", []events.BlobRef{image}, "[binary output: 1 bytes, image/png, " + image.Digest + "]"},
		{" ", []events.BlobRef{{Digest: image.Digest, Size: 1}, image, image, image}, "[binary output: 1 bytes, application/octet-stream, " + image.Digest + ", and 3 more]"},
		{"a picture", []events.BlobRef{image}, "a picture"},
	} {
		o := events.Outcome{Result: events.Result{Text: events.Body{Text: c.text}, Blobs: c.blobs}}
		if got := string(Envelope(AnswerOf(0, events.RawCall{}, &events.Completed{Outcome: o}))); got != `{"status":"success","text":"`+c.want+`"}` {
			t.Errorf("%q: %s", c.text, got)
		}
	}
}

func TestAnswerLeft(t *testing.T) {
	for _, c := range []struct {
		started bool
		tier    events.Tier
		want    events.Standing
	}{
		{false, events.Irreversible, events.AnswerFailed},
		{true, events.Readonly, events.AnswerFailed},
		{true, events.Reversible, events.AnswerUnknown},
		{true, "", events.AnswerUnknown},
	} {
		a := AnswerLeft(1, events.RawCall{ProviderID: "id"}, c.started, c.tier, "it kills every node")
		if a.Standing != c.want || a.ProviderID != "id" || !strings.Contains(a.Result.Error.Message, "it kills every node") {
			t.Errorf("started %v, %s: %+v %+v", c.started, c.tier, a, a.Result.Error)
		}
	}
}

func TestACancelTellsItsReason(t *testing.T) {
	o := outcome(events.EffectsNone, "")
	o.Class, o.Result.Error = events.ClassCancelled, &events.Error{Code: events.CodeCancelled, Message: "the call was cancelled while it ran"}
	a := AnswerOf(0, events.RawCall{}, &events.Cancelled{Outcome: o, Reason: "changed my mind"})
	if got := a.Result.Error.Message; got != "the call was cancelled while it ran: changed my mind" {
		t.Errorf("told %q", got)
	}
	if o.Result.Error.Message != "the call was cancelled while it ran" {
		t.Error("the terminal was changed")
	}
}

func TestNothingToCheckWhereNothingWasDone(t *testing.T) {
	o := outcome(events.EffectsNone, "")
	o.Class, o.Result.Error = events.ClassTimeout, &events.Error{Code: events.UnknownOutcome, Message: "it may still be at work"}
	a := AnswerOf(0, events.RawCall{}, &events.Unknown{Outcome: o, Why: events.UnknownUnconfirmed})
	if a.Standing != events.AnswerFailed || a.Result.Error.Code != events.Timeout {
		t.Errorf("%s %+v", a.Standing, a.Result.Error)
	}
}
