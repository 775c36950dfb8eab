package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// testKey is a key for tests: placeholders are the same each time.
var testKey = []byte("0123456789abcdef0123456789abcdef")

func redactor(t interface{ Fatal(...any) }, keys ...string) *Redactor {
	r, err := NewRedactor(keys, testKey)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// redacted is a commit of one event, redacted and read again.
func redactedEvent(t *testing.T, r *Redactor, blobs bus.Blobs, call int, e events.Event) events.Event {
	t.Helper()
	key := events.TurnKey{Trace: "t", Turn: "u"}
	body, err := events.Encode(events.Commit{ID: "id", Turn: key, At: noon, Records: []events.Record{{Call: call, Seq: 1, Event: e}}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.commit(t.Context(), Commit{At: events.Position{Generation: 1, Seq: 1}, Turn: key, Body: body}, blobs)
	if err != nil {
		t.Fatal(err)
	}
	back, err := events.Decode(c.Body)
	if err != nil {
		t.Fatal(err)
	}
	return back.Records[0].Event
}

// TestEveryFieldHasARule: a text that comes into the vocabulary is replaced until
// somebody has said here that it may stay.
func TestEveryFieldHasARule(t *testing.T) {
	named := map[string]bool{}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(ty reflect.Type) {
		for ty.Kind() == reflect.Pointer || ty.Kind() == reflect.Slice && ty != typeRaw {
			ty = ty.Elem()
		}
		if ty.Kind() != reflect.Struct || seen[ty] || ty == typeTime {
			return
		}
		seen[ty] = true
		for f := range ty.Fields() {
			of := f.Type
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice && of != typeRaw {
				of = of.Elem()
			}
			name := ty.Name() + "." + f.Name
			_, ruled := rules[name]
			if text := of.Kind() == reflect.String || of.Kind() == reflect.Map || of == typeRaw; text && !ruled {
				t.Errorf("%s has no rule: say in rules.go what a redaction does to it", name)
			}
			named[name] = true
			walk(f.Type)
		}
	}
	for _, row := range events.Kinds {
		walk(reflect.TypeOf(row.New()))
	}
	for name := range rules {
		if !named[name] {
			t.Errorf("%s is in no event: take it out of rules.go", name)
		}
	}
}

// filled is an event with a text in every field that can have one.
func filled(v reflect.Value, text string) {
	switch {
	case v.Type() == typeTime:
		v.Set(reflect.ValueOf(noon.Add(time.Second)))
	case v.Type() == typeRaw:
		v.Set(reflect.ValueOf(json.RawMessage(fmt.Sprintf(`{"name":%q}`, text))))
	case v.Type() == typeRef:
		v.Set(reflect.ValueOf(events.BlobRef{Digest: digestText(bytes.Repeat([]byte{7}, 32)), Size: 70_000}))
	case v.Type() == typeBody:
		v.Set(reflect.ValueOf(events.Body{Text: fmt.Sprintf(`{"name":%q}`, text)}))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), text)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0), text)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i), text)
		}
	}
}

// kept are the texts that an event still has.
func kept(v reflect.Value, name, text string, out map[string]bool) {
	switch {
	case v.Type() == typeTime:
	case v.Type() == typeRaw && bytes.Contains(v.Bytes(), []byte(text)), v.Kind() == reflect.String && strings.Contains(v.String(), text):
		out[name] = true
	case v.Kind() == reflect.Pointer && !v.IsNil():
		kept(v.Elem(), name, text, out)
	case v.Kind() == reflect.Slice && v.Type() != typeRaw:
		for i := range v.Len() {
			kept(v.Index(i), name, text, out)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			kept(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name, text, out)
		}
	}
}

// TestBodiesAreReplaced: of an event that is full of one text, the fields that may keep
// it do, and nothing else has it: neither the commit nor what it refers to.
func TestBodiesAreReplaced(t *testing.T) {
	const text = "sk-AAAAAAAAAAAAAAAAAAAAAAAA"
	for _, row := range events.Kinds {
		e := row.New()
		filled(reflect.ValueOf(e).Elem(), text)
		call := 0
		if row.Turn {
			call = events.TurnEvent
		}
		got := map[string]bool{}
		kept(reflect.ValueOf(redactedEvent(t, redactor(t), shelf{}, call, e)), "", text, got)
		for name := range got {
			if rules[name] != ruleKeep {
				t.Errorf("%s: %s still has the text", row.Kind, name)
			}
		}
	}
}

// TestRedactedLogsStandUp: redacted histories keep the laws and the providers' rules,
// every id, kind, tool, effect and time is as it was, what they refer to is there, and
// what was equal is equal.
func TestRedactedLogsStandUp(t *testing.T) {
	for _, keys := range [][]string{nil, {"path", "order"}} {
		log := newMemory()
		log.fill(t, wholeCorpus(t)...)
		if _, err := log.Blobs().Put(t.Context(), []byte("the whole log"), ""); err != nil {
			t.Fatal(err)
		}
		b, m := exported(t, Export{From: log, Blobs: log.Blobs(), Redact: redactor(t, keys...)})
		if again, _ := exported(t, Export{From: log, Blobs: log.Blobs(), Redact: redactor(t, keys...)}); !bytes.Equal(b, again) {
			t.Error("the same key gave other bytes")
		}
		r := openBytes(t, b)
		defer r.Close()
		if !r.Redacted() || m.Redaction == nil || m.Missing > 0 {
			t.Errorf("%+v", m)
		}
		was, is := turnsOf(t, log), turnsOf(t, r)
		if len(was) != len(is) {
			t.Fatalf("%d turns, were %d", len(is), len(was))
		}
		for key, list := range is {
			for _, v := range lifecycle.Laws(list) {
				t.Errorf("%s: %s", key, v)
			}
			if want, got := bones(was[key]), bones(list); !slices.Equal(got, want) {
				t.Errorf("%s:\n%v\nwas\n%v", key, got, want)
			}
			rendered(t, key, list, r)
		}
	}
}

// turnsOf are the commits of each turn.
func turnsOf(t *testing.T, log bus.Tail) map[events.TurnKey][]events.Commit {
	t.Helper()
	out := map[events.TurnKey][]events.Commit{}
	err := log.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		out[s.Commit.Turn] = append(out[s.Commit.Turn], s.Commit)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// bones are what a redaction keeps of a history.
func bones(list []events.Commit) []string {
	var out []string
	for _, c := range list {
		for _, r := range c.Records {
			line := fmt.Sprint(c.ID, c.At, c.By, r.Call, r.Seq, r.Event.Kind())
			switch e := r.Event.(type) {
			case *events.Requested:
				line += e.Tool + e.ProviderID
			case *events.Started:
				line += fmt.Sprint(e.Attempt, e.Owner, e.Deadline, e.Breaker)
			}
			if o := events.OutcomeOf(r.Event); o != nil {
				line += fmt.Sprint(o.Attempt, o.Class, o.Effects, o.Signal, o.Output, o.Stages, o.Result.Status)
			}
			out = append(out, line)
		}
	}
	return out
}

// rendered sees that every provider takes the messages of a redacted turn, and that
// what it refers to is there.
func rendered(t *testing.T, key events.TurnKey, list []events.Commit, r *Reader) {
	t.Helper()
	conv := projections.Answers.Init()
	for i, c := range list {
		for e := range projections.Events(1, uint64(i+1), c) {
			conv = projections.Answers.Apply(conv, e)
			for _, ref := range References(e.Event) {
				if _, err := r.Blobs().Get(context.Background(), ref); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
		}
	}
	for _, turn := range conv.Turns {
		answers, err := turn.Answers(nil)
		calls, err2 := turn.Requests(nil)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		for _, f := range codec.Formats() {
			m, err := codec.Conversation(f, []codec.Turn{{Calls: calls, Answers: answers}}, 0)
			if err == nil {
				err = codec.Validate(f, m)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", key, f, err)
			}
		}
	}
}

// TestValuesOfMembers: at any depth, in JSON, in JSON that is a string, in what is
// nearly JSON, in bytes outside the log, and wherever the value stands again.
func TestValuesOfMembers(t *testing.T) {
	const secret = "sk-AAAAAAAAAAAAAAAAAAAAAAAA"
	blobs := shelf{}
	large := blobs.put([]byte(`{"rows":[{"TOKEN":"` + secret + `"}],"kept":9007199254740993}`))
	binary := blobs.put([]byte("\x00\xff" + secret + "\xfe"))
	r := redactor(t, "token", "password")
	e := redactedEvent(t, r, blobs, events.TurnEvent, &events.TurnSubmitted{Principal: events.Principal{ID: "agent"}, Calls: []events.RawCall{
		{ProviderID: secret, Tool: "post", Args: events.Body{Text: `{"a": [{"token" : "` + secret + `", "n":1e3}], "token_count": 7, "inner":"{\"password\":12345678}"}`}},
		{ProviderID: "call_2", Tool: "post", Args: events.Body{Ref: &large}},
		{ProviderID: "call_3", Tool: "post", Args: events.Body{Text: `{"token":"` + secret + `","cut o`}},
	}}).(*events.TurnSubmitted)
	by := r.known[secret]
	for i, want := range []string{
		`{"a": [{"token" : "` + by + `", "n":1e3}], "token_count": 7, "inner":"{\"password\":\"` + r.text("12345678") + `\"}"}`, "",
		r.text(`{"token":"` + secret + `","cut o`),
	} {
		if got := e.Calls[i].Args.Text; got != want {
			t.Errorf("arguments %d:\n%s\nwant\n%s", i, got, want)
		}
	}
	if e.Calls[0].ProviderID != secret {
		t.Error("the id of a call was redacted")
	}
	if data, err := r.Get(t.Context(), *e.Calls[1].Args.Ref); err != nil || string(data) != `{"rows":[{"TOKEN":"`+by+`"}],"kept":9007199254740993}` {
		t.Errorf("the bytes outside: %s, %v", data, err)
	}
	f := redactedEvent(t, r, blobs, 0, &events.Failed{Outcome: events.Outcome{Attempt: 1, Class: events.ClassTool, Effects: events.EffectsNone, Result: events.Result{
		Status: events.Failure, Error: &events.Error{Code: events.ExecutionError, Message: "https://u:" + secret + "@h/ said no"},
		Data: json.RawMessage(`{"ok":false,"echo":"Bearer ` + secret + `"}`), Blobs: []events.BlobRef{binary},
	}}}).(*events.Failed)
	if m := f.Result.Error.Message; m != "https://u:"+by+"@h/ said no" {
		t.Error(m)
	}
	if d := string(f.Result.Data); d != `{"ok":false,"echo":"Bearer `+by+`"}` {
		t.Error(d)
	}
	if data, err := r.Get(t.Context(), f.Result.Blobs[0]); err != nil || bytes.Contains(data, []byte(secret)) || !bytes.HasPrefix(data, []byte("\x00\xff[redacted 27 bytes ")) {
		t.Errorf("binary: %q, %v", data, err)
	}
}

// TestNoMemberIsForgotten: whatever the JSON, the value is not in what comes out.
func TestNoMemberIsForgotten(t *testing.T) {
	const secret = "s3cr3t-value"
	rapid.Check(t, func(t *rapid.T) {
		r := redactor(t, "token")
		r.known = map[string]string{}
		text := drawJSON(t, secret, 0)
		if rapid.Bool().Draw(t, "cut") {
			if i := strings.LastIndex(text, secret); i >= 0 {
				text = text[:rapid.IntRange(i+len(secret), len(text)).Draw(t, "end")]
			}
		}
		if out := r.scrub(text); strings.Contains(out, secret) {
			t.Fatalf("%s\nbecame\n%s", text, out)
		}
	})
}

// drawJSON draws JSON with the secret in members of the name token.
func drawJSON(t *rapid.T, secret string, depth int) string {
	what := rapid.IntRange(0, 5).Draw(t, "what")
	if depth > 4 {
		what = 0
	}
	switch what {
	case 1:
		return "[" + drawJSON(t, secret, depth+1) + " , " + drawJSON(t, secret, depth+1) + "]"
	case 2:
		return `{"a":` + drawJSON(t, secret, depth+1) + `}`
	case 3:
		return `{"to\u006ben" :` + "\n" + `"` + secret + `","b":` + drawJSON(t, secret, depth+1) + `}`
	case 4:
		b, err := json.Marshal(drawJSON(t, secret, depth+1))
		if err != nil {
			t.Fatal(err)
		}
		return `{"text":` + string(b) + `}`
	case 5:
		return `{"token":{"deep":["` + secret + `",1]},"c":null}`
	}
	return "12.50"
}

// TestPlaceholdersCannotBeGuessed: they differ by key, are equal for equal values, and
// nothing of another key's archive can be recognised.
func TestPlaceholdersCannotBeGuessed(t *testing.T) {
	a := redactor(t)
	b, err := NewRedactor(nil, bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	first, again := a.text("1234"), a.text("1234")
	if first != again || first == a.text("1235") || a.text("1234") == b.text("1234") || a.hash("sha256:1") == b.hash("sha256:1") {
		t.Error("a placeholder is not bound to its value and its key")
	}
	if !regexp.MustCompile(`^\[redacted 4 bytes [0-9a-f]{16}\]$`).MatchString(a.text("1234")) || a.text("") != "" {
		t.Error(a.text("1234"))
	}
	for _, key := range [][]byte{nil, []byte("short")} {
		if _, err := NewRedactor(nil, key); err == nil {
			t.Errorf("a key of %d bytes was taken", len(key))
		}
	}
}

// TestTheFutureIsRedacted: of events that nobody knows, everything in one mode, and the
// members in the other.
func TestTheFutureIsRedacted(t *testing.T) {
	body := []byte{0x82, 0xa5, 't', 'o', 'k', 'e', 'n', 0xa6, 's', 'e', 'c', 'r', 'e', 't', 0xa4, 'n', 'o', 't', 'e', 0xa4, 'm', 'i', 'n', 'e'}
	for _, c := range []struct {
		keys []string
		note bool
	}{{nil, false}, {[]string{"token"}, true}} {
		f := redactedEvent(t, redactor(t, c.keys...), nil, 0, events.Foreign{Name: "teleported", Version: 3, Body: body}).(events.Foreign)
		if f.Name != "teleported" || f.Version != 3 || bytes.Contains(f.Body, []byte("secret")) || bytes.Contains(f.Body, []byte("mine")) != c.note {
			t.Errorf("%v: %q", c.keys, f.Body)
		}
	}
}
