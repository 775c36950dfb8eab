package schemas

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

var rewrite = flag.Bool("rewrite", false, "write the files anew")

func generated(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := Generate("../events", "github.com/sluice-run/sluice/schemas")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestFilesAreGenerated(t *testing.T) {
	files := generated(t)
	if len(files) != len(events.Kinds)+2 {
		t.Errorf("%d files for %d kinds", len(files), len(events.Kinds))
	}
	for name, want := range files {
		if *rewrite {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the types say (%v): run go generate ./schemas, and look whether old logs can still be read", name, err)
		}
	}
	there, err := filepath.Glob("*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range there {
		if files[name] == nil && name != "openapi.json" { // the HTTP door's, made and compared in package gateway
			t.Errorf("%s belongs to no kind", name)
		}
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	b := generated(t)["started.json"]
	if !bytes.Contains(b, []byte("Started is a durable fact BEFORE anything is done.")) || !bytes.Contains(b, []byte("1 for the first claim of the turn")) {
		t.Errorf("the comments of the types are not in it:\n%s", b)
	}
}

// compiler knows all files as they are generated.
func compiler(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for name, b := range generated(t) {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(base+name, doc); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func compile(t *testing.T, c *jsonschema.Compiler, name string) *jsonschema.Schema {
	t.Helper()
	s, err := c.Compile(base + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// broken is a copy of the object in which the member of that name is of another type.
func broken(t *testing.T, doc any, name string) any {
	t.Helper()
	m, ok := doc.(map[string]any)
	if !ok {
		t.Fatalf("no object: %v", doc)
	}
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	out[name] = []any{[]any{}}
	return out
}

func unmarshal(t *testing.T, b []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Every event that was ever written is what its schema says, and so is the live event
// that tells of it, and the commit that holds it.
func TestGoldenEventsMatch(t *testing.T) {
	c := compiler(t)
	live, commit := compile(t, c, "cloudevent.json"), compile(t, c, "commit.json")
	names, err := filepath.Glob("../events/testdata/golden/*.msgpack")
	if err != nil || len(names) < len(events.Kinds) {
		t.Fatal(len(names), err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := events.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		e := decoded.Records[0].Event
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := compile(t, c, file(e.Kind())).Validate(unmarshal(t, body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		ce, err := bus.CloudEvent(bus.Stored{Generation: 1, Seq: 2, Commit: decoded}, 0, "echo")
		if err != nil {
			t.Fatal(err)
		}
		if err := live.Validate(unmarshal(t, ce)); err != nil {
			t.Errorf("%s, live: %v", name, err)
		}
		if live.Validate(broken(t, unmarshal(t, ce), "data")) == nil {
			t.Errorf("%s, live: any data will do", name)
		}
		var wire map[string]any
		if err := msgpack.Unmarshal(b, &wire); err != nil {
			t.Fatal(err)
		}
		asJSON, err := json.Marshal(wire)
		if err != nil {
			t.Fatal(err)
		}
		if err := commit.Validate(unmarshal(t, asJSON)); err != nil {
			t.Errorf("%s, commit: %v", name, err)
		}
		if commit.Validate(broken(t, unmarshal(t, asJSON), "ev")) == nil {
			t.Errorf("%s, commit: any events will do", name)
		}
	}
}

// The schemas refuse what is not so: one field of each kind is made wrong.
func TestSchemasRefuse(t *testing.T) {
	c := compiler(t)
	for kind, doc := range map[events.Kind]string{
		events.KindStarted:       `{"attempt":"1","owner":{"boot":"b","epoch":1},"deadline":"2026-10-01T12:00:00Z","args_hash":"h"}`,
		events.KindDenied:        `{"gate":"validate","code":"INVALID_PARAM"}`,
		events.KindCompleted:     `{"attempt":1,"class":"ok","effects":"done","result":{"status":7}}`,
		events.KindTurnSubmitted: `{"principal":{"id":"a"},"calls":[{"args":{}}]}`,
		events.KindProgress:      `[]`,
	} {
		if compile(t, c, file(kind)).Validate(unmarshal(t, []byte(doc))) == nil {
			t.Errorf("%s takes %s", kind, doc)
		}
	}
	ok := `{"attempt":1,"a field of a newer release":[1]}`
	if err := compile(t, c, "progress.json").Validate(unmarshal(t, []byte(ok))); err != nil {
		t.Error(err)
	}
}

// The commit's schema names the keys that are written, all of them.
func TestCommitSchemaNamesEveryKey(t *testing.T) {
	b, err := events.Encode(events.Commit{
		ID: "c", Turn: events.TurnKey{Trace: "t", Turn: "u"}, At: time.Unix(1, 0), By: events.Owner{Boot: "b", Epoch: 1},
		Records: []events.Record{{Seq: 1, Event: &events.Progress{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var wire map[string]any
	if err := msgpack.Unmarshal(b, &wire); err != nil {
		t.Fatal(err)
	}
	properties := commitSchema()["properties"].(object)
	compareKeys(t, "commit", wire, properties)
	record := properties["ev"].(object)["items"].(object)["properties"].(object)
	compareKeys(t, "event", wire["ev"].([]any)[0].(map[string]any), record)
}

func compareKeys(t *testing.T, what string, wire, properties map[string]any) {
	t.Helper()
	for k := range wire {
		if properties[k] == nil {
			t.Errorf("%s: key %s has no schema", what, k)
		}
	}
	for k := range properties {
		if _, ok := wire[k]; !ok {
			t.Errorf("%s: key %s is never written", what, k)
		}
	}
}

func TestFilesAreEmbedded(t *testing.T) {
	names, err := fs.Glob(Files, "*.json")
	if err != nil || len(names) != len(events.Kinds)+3 || !slices.Contains(names, "commit.json") {
		t.Error(strings.Join(names, " "), err)
	}
}
