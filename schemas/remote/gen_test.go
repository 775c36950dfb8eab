package remote

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the files anew")

func generated(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := Generate("../../tools/remote/wire", "github.com/sluice-run/sluice/schemas/remote")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestFilesAreGenerated(t *testing.T) {
	files := generated(t)
	for name, want := range files {
		if *rewrite {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the types say (%v): run go generate ./schemas/remote, and look whether workers of before are still understood", name, err)
		}
	}
	there, err := filepath.Glob("*.json")
	if err != nil || len(there) != len(files) {
		t.Errorf("%d files, %d messages, %v", len(there), len(files), err)
	}
}

// said is a message of each type, full and empty.
func said() map[string][]any {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	d := wire.Definition{
		Description: "saws", Version: "1", Schema: json.RawMessage(`{"type":"object"}`), Tier: events.Reversible, HonoursKey: true, Key: "/a", Probe: true, Compensate: true,
		Limits: &wire.Limits{WallMS: 1, Output: 2, Lines: 3, Text: 4, Keep: "both", Retries: -1},
	}
	work := &wire.Work{
		Verb: "compensate", Tool: "saw", Call: "t/u/0", Attempt: 1, Deadline: at, Key: "k", Mode: "write", Args: json.RawMessage(`{}`),
		Given: &events.Given{State: "s", Answers: []events.InputAnswer{{ID: "a", Action: "accept", Content: json.RawMessage(`{"a":1}`)}}}, Done: &wire.Result{Text: "x"},
	}
	result := &wire.Result{Status: "partial", Text: "x", Data: json.RawMessage(`[1]`), Undo: json.RawMessage(`{}`)}
	return map[string][]any{
		"here":  {wire.Here{V: 1, Type: "here", Revision: "r", Since: at, EveryMS: 1, Running: 1, Room: 1, About: "x", Tool: &d}, wire.Here{V: 1, Type: "gone"}},
		"told":  {wire.Told{V: 1, Type: "told", Tool: "saw", Status: "refused", Definition: "sha256-1", Why: "x"}, wire.Told{V: 1, Type: "describe"}},
		"offer": {wire.Offer{V: 1, Type: "offer", ID: "i", Verb: "probe", Tool: "saw", Definition: "d", Call: "c", Attempt: 1, Deadline: at, LeftMS: 1, Bytes: 1}},
		"take":  {wire.Take{V: 1, Type: "accept", Worker: "w.a"}, wire.Take{V: 1, Type: "refuse", Worker: "w.a", Why: "busy", AfterMS: 1}},
		"go":    {wire.Go{V: 1, Type: "go", ID: "i", BeatMS: 1, LostMS: 1, Message: 1, LeftMS: 1, Work: work}, wire.Go{V: 1, Type: "go", ID: "i", Parts: 2}},
		"word":  {wire.Word{V: 1, Type: "cancel", ID: "i", Why: "x"}, wire.Word{V: 1, Type: "done", ID: "i"}},
		"part":  {wire.Part{V: 1, Type: "part", ID: "i", Seq: 1, Part: 1, Parts: 1, Data: []byte("x")}},
		"answer": {
			wire.Answer{V: 1, Type: "beat", ID: "i", Seq: 1},
			wire.Answer{V: 1, Type: "progress", ID: "i", Seq: 1, Text: "x", Done: 1, Total: 2},
			wire.Answer{V: 1, Type: "result", ID: "i", Seq: 1, Result: result},
			wire.Answer{V: 1, Type: "found", ID: "i", Seq: 1, Found: true, Result: result},
			wire.Answer{V: 1, Type: "error", ID: "i", Seq: 1, Error: &wire.Error{Code: "NOT_FOUND", Class: "invalid", Message: "x", Path: "/a", Effects: "none", AfterMS: 1}},
			wire.Answer{V: 1, Type: "ask", ID: "i", Seq: 1, State: "s", Asks: []events.InputRequest{{ID: "a", Kind: "form", Schema: json.RawMessage(`{}`)}}},
		},
	}
}

// TestWhatIsSaidMatches: each message is what its schema says, with members of a newer
// release too, and not when its type, or a member, is of another kind.
func TestWhatIsSaidMatches(t *testing.T) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for name, b := range generated(t) {
		if err := c.AddResource(base+name, parsed(t, b)); err != nil {
			t.Fatal(err)
		}
	}
	all := said()
	if len(all) != len(messages) {
		t.Errorf("%d messages, %d schemas", len(all), len(messages))
	}
	for name, list := range all {
		s, err := c.Compile(base + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			body, err := wire.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			doc := parsed(t, body).(map[string]any)
			doc["a_member_of_a_newer_release"] = []any{}
			if err := s.Validate(doc); err != nil {
				t.Errorf("%s %s: %v", name, body, err)
			}
			doc["type"] = "fly"
			if s.Validate(doc) == nil {
				t.Errorf("%s of type fly is let pass", name)
			}
			doc = parsed(t, body).(map[string]any)
			doc["v"] = "1"
			if s.Validate(doc) == nil {
				t.Errorf("%s of version \"1\" is let pass", name)
			}
		}
	}
}

func parsed(t *testing.T, b []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFilesAreEmbedded(t *testing.T) {
	for name := range messages {
		if b, err := Files.ReadFile(name + ".json"); err != nil || !bytes.Contains(b, []byte(base)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
