package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// TestTheModelIsToldOfChangedArguments: which they are, whole or the beginning, and
// nothing where they are its own.
func TestTheModelIsToldOfChangedArguments(t *testing.T) {
	long := `{"content":"` + strings.Repeat("é", ShownArgs) + `"}`
	note, more := `"changed":{"note":"`+ChangedSentence, `"bytes":`
	for name, c := range map[string]struct {
		args    *events.Body
		has, no []string
	}{
		"its own":           {nil, nil, []string{"changed"}},
		"small":             {&events.Body{Text: "{ \"command\": \"touch <made2>\" }"}, []string{note, `"args":{"command":"touch <made2>"}`}, []string{more, ChangedUnseen}},
		"a sealed one":      {&events.Body{Text: `{"token":"sluice-secret-0123"}`}, []string{note, `"args":{"token":"sluice-secret-0123"}`}, []string{more}},
		"long":              {&events.Body{Text: long}, []string{note + ChangedUnseen, `"args_begin":"{\"content\":\"é`, `"bytes":4110`}, []string{`"args":`}},
		"outside the log":   {&events.Body{Ref: &events.BlobRef{Size: 70_000}}, []string{note + ChangedUnseen, `"bytes":70000`}, []string{`"args`}},
		"not UTF-8":         {&events.Body{Text: "{\"v\":\"\xff\"}"}, []string{note, `"args":{"v":"` + "\uFFFD" + `"}`}, []string{more}},
		"no JSON, somehow":  {&events.Body{Text: `{"v":`}, []string{note, `"args":"{\"v\":"`}, []string{more}},
		"nothing, somehow":  {&events.Body{}, []string{note}, []string{`"args`, more}},
		"exactly the bound": {&events.Body{Text: `{"v":"` + strings.Repeat("x", ShownArgs-8) + `"}`}, []string{note, `"args":{`}, []string{more}},
	} {
		for _, end := range []events.Event{
			&events.Completed{Outcome: outcome(events.EffectsDone, "out")}, &events.Failed{Outcome: outcome(events.EffectsNone, "")},
			&events.Denied{Code: events.PermissionDenied, Reason: "no"}, &events.Unknown{Outcome: outcome(events.EffectsPossible, "")},
		} {
			a := AnswerOf(0, events.RawCall{Tool: "Bash"}, end)
			plain := string(Envelope(a))
			a.Changed = c.args
			got := string(Envelope(a))
			if !json.Valid([]byte(got)) || !utf8.ValidString(got) {
				t.Fatalf("%s: %s", name, got)
			}
			if c.args == nil && got != plain {
				t.Errorf("%s: %s, want %s", name, got, plain)
			}
			for _, want := range c.has {
				if !strings.Contains(got, want) {
					t.Errorf("%s: no %s in %.300s", name, want, got)
				}
			}
			for _, never := range c.no {
				if strings.Contains(got, never) {
					t.Errorf("%s: %s in %.300s", name, never, got)
				}
			}
			if grown := quoted([]byte(got)) - quoted([]byte(plain)); grown > changedSize(c.args) {
				t.Errorf("%s: it takes %d bytes, bounded at %d", name, grown, changedSize(c.args))
			}
		}
		a := AnswerOf(0, events.RawCall{Tool: "Bash"}, nil)
		a.Changed = c.args
		if got := string(Envelope(a)); strings.Contains(got, "changed") {
			t.Errorf("%s: a call that is open says %s", name, got)
		}
	}
}

// TestChangedArgumentsFitTheBounds: the note stays, whatever the limit takes.
func TestChangedArgumentsFitTheBounds(t *testing.T) {
	for _, size := range []int{10, ShownArgs - 20, 3 * ShownArgs} {
		a := AnswerOf(0, events.RawCall{Tool: "Write"}, &events.Completed{Outcome: outcome(events.EffectsDone, strings.Repeat("x\n", 30_000))})
		a.Changed = &events.Body{Text: `{"v":"` + strings.Repeat("\\\"", size/2) + `"}`}
		for _, limit := range []int{900, 2000, 4000, 20_000} {
			fitted, wholes := FitTurn([]events.Answer{a}, limit, 0)
			got := string(Envelope(fitted[0]))
			if n := Size(fitted[0]); n > limit || !strings.Contains(got, ChangedSentence) || len(wholes) != 1 {
				t.Errorf("%d bytes of arguments, limit %d: %d bytes, %d wholes: %.400s", size, limit, n, len(wholes), got)
			}
		}
	}
}

// TestChangedArgs: what runs is the last that was given, and none where it is the model's own.
func TestChangedArgs(t *testing.T) {
	old, theirs := &events.Body{Text: "old"}, &events.Body{Text: "theirs"}
	for name, c := range map[string]struct{ yes, want *events.Body }{
		"as asked": {nil, old}, "others": {theirs, theirs},
	} {
		if got := ChangedArgs("sha256:given", old, &events.Approved{Hash: "sha256:theirs", Args: c.yes, Told: true}); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := ChangedArgs("sha256:given", nil, &events.Approved{Hash: "sha256:theirs", Args: theirs}); got != nil {
		t.Errorf("of a release that told nobody: %+v", got)
	}
	if got := ChangedArgs("sha256:given", old, &events.Approved{Hash: "sha256:given", Args: theirs, Told: true}); got != nil {
		t.Errorf("back to the model's own: %+v", got)
	}
}
