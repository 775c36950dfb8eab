package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// TestPartsMakeTheWhole: whatever is split is put together again, also where some of it is
// said several times, or begins anew.
func TestPartsMakeTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 3*wire.PartData).Draw(t, "size")
		whole := bytes.Repeat([]byte{byte(size)}, size)
		parts := wire.Split(whole)
		var p wire.Parts
		for range rapid.IntRange(0, 3).Draw(t, "tries that break off") {
			for _, part := range parts[:rapid.IntRange(0, len(parts)-1).Draw(t, "parts")] {
				if got, err := p.Add(part); got != nil || err != nil {
					t.Fatalf("a beginning is a whole: %d bytes, %v", len(got), err)
				}
			}
		}
		for i, part := range parts {
			got, err := p.Add(part)
			if err != nil {
				t.Fatal(err)
			}
			if last := i == len(parts)-1; last != (got != nil) || last && !bytes.Equal(got, whole) {
				t.Fatalf("part %d of %d gives %d bytes", i+1, len(parts), len(got))
			}
		}
	})
}

// TestPartsInDisorderMakeNothing: what was lost, or is another message's, spoils the whole.
func TestPartsInDisorderMakeNothing(t *testing.T) {
	part := func(seq, n, of int, data string) wire.Part {
		return wire.Part{Seq: seq, Part: n, Parts: of, Data: []byte(data)}
	}
	for name, c := range map[string]struct {
		parts []wire.Part
		err   bool
	}{
		"a part is missing":    {[]wire.Part{part(1, 1, 3, "a"), part(1, 3, 3, "c")}, false},
		"the first is missing": {[]wire.Part{part(1, 2, 2, "b")}, false},
		"twice the same":       {[]wire.Part{part(1, 1, 3, "a"), part(1, 2, 3, "b"), part(1, 2, 3, "b"), part(1, 3, 3, "c")}, false},
		"of two answers":       {[]wire.Part{part(1, 1, 2, "a"), part(2, 2, 2, "b")}, false},
		"of two sizes":         {[]wire.Part{part(1, 1, 2, "a"), part(1, 2, 3, "b")}, false},
		"no part":              {[]wire.Part{part(1, 0, 2, "a")}, true},
		"no parts":             {[]wire.Part{part(1, 1, 0, "a")}, true},
		"beyond the end":       {[]wire.Part{part(1, 3, 2, "a")}, true},
		"empty":                {[]wire.Part{part(1, 1, 2, "")}, true},
		"more than can be":     {[]wire.Part{part(1, 1, 1<<30, "a")}, true},
		"too large":            {slices.Repeat([]wire.Part{part(1, 1, 1, strings.Repeat("x", wire.MaxWhole+1))}, 1), true},
	} {
		var p wire.Parts
		var failed bool
		for _, one := range c.parts {
			whole, err := p.Add(one)
			failed = failed || err != nil
			if whole != nil {
				t.Errorf("%s: %q is a whole", name, whole)
			}
		}
		if failed != c.err {
			t.Errorf("%s: failed %t", name, failed)
		}
	}
}

// TestDigestIsOfWhatIsMeant: the same definition in another form has the same digest, and
// another one has another.
func TestDigestIsOfWhatIsMeant(t *testing.T) {
	d := wire.Definition{Description: "<saws>", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"minimum":1.50}}}`)}
	same := d
	same.Schema = json.RawMessage(" {\"properties\": {\"a\" :{\"minimum\":1.50}},\n \"type\":\"object\"}")
	if d.Digest() != same.Digest() || !strings.HasPrefix(d.Digest(), "sha256-") || len(d.Digest()) != 19 {
		t.Errorf("%s and %s", d.Digest(), same.Digest())
	}
	seen := map[string]bool{d.Digest(): true}
	for _, other := range []wire.Definition{
		{Description: "saws", Schema: d.Schema},
		{Description: d.Description, Schema: json.RawMessage(`{"type":"object"}`)},
		{Description: d.Description, Schema: d.Schema, Tier: events.Readonly},
		{Description: d.Description, Schema: d.Schema, HonoursKey: true},
		{Description: d.Description, Schema: d.Schema, Key: "/a"},
		{Description: d.Description, Schema: d.Schema, Limits: &wire.Limits{WallMS: 1}},
		{Description: d.Description, Schema: json.RawMessage(`{`)},
		{Description: d.Description, Schema: json.RawMessage(`}`)},
	} {
		if seen[other.Digest()] {
			t.Errorf("%+v has the digest of another", other)
		}
		seen[other.Digest()] = true
	}
}

func TestDefinitionsAreChecked(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	for name, d := range map[string]wire.Definition{
		"no schema":           {},
		"no JSON":             {Schema: json.RawMessage(`{`)},
		"a large schema":      {Schema: json.RawMessage(`"` + strings.Repeat("x", wire.MaxSchema) + `"`)},
		"a long description":  {Schema: schema, Description: strings.Repeat("x", 9000)},
		"a broken text":       {Schema: schema, Description: "\xff"},
		"a version of lines":  {Schema: schema, Version: "1\n2"},
		"no pointer":          {Schema: schema, Key: "a"},
		"no escape":           {Schema: schema, Key: "/a~2"},
		"no tier":             {Schema: schema, Tier: "harmless"},
		"an undo of nothing":  {Schema: schema, Compensate: true},
		"a negative limit":    {Schema: schema, Limits: &wire.Limits{WallMS: -1}},
		"an end that is none": {Schema: schema, Limits: &wire.Limits{Keep: "middle"}},
	} {
		if d.Check() == nil {
			t.Errorf("%s is let pass", name)
		}
	}
	if err := (wire.Definition{Schema: schema, Tier: events.Reversible, Compensate: true, Key: "/a", Limits: &wire.Limits{Retries: -1, Keep: "tail"}}).Check(); err != nil {
		t.Error(err)
	}
}

func TestAt(t *testing.T) {
	const doc = `{"a":{"b":["x",7,1.50],"":"e","m~n":"t","o/p":"s"},"n":null,"t":true,"e":""}`
	for pointer, want := range map[string]string{
		"/a/b/0": "x", "/a/b/1": "7", "/a/b/2": "1.50", "/a/": "e", "/a/m~0n": "t", "/a/o~1p": "s",
		"": "", "a": "", "/a": "", "/a/b": "", "/a/b/3": "", "/a/b/-1": "", "/a/b/01": "", "/n": "", "/t": "", "/e": "", "/x/y": "",
	} {
		if got, ok := wire.At(json.RawMessage(doc), pointer); got != want || ok != (want != "") {
			t.Errorf("%s: %q %t, want %q", pointer, got, ok, want)
		}
	}
	if _, ok := wire.At(json.RawMessage(`{`), "/a"); ok {
		t.Error("something was found in no JSON")
	}
}

// FuzzSound: whatever error a worker makes up, what is left of it makes sense.
func FuzzSound(f *testing.F) {
	f.Add("NOT_FOUND", "invalid", "no", "/a", "none", int64(5))
	f.Add("x\x00", "ok", strings.Repeat("ä", 20_000), "a", "many", int64(-1))
	f.Fuzz(func(t *testing.T, code, class, message, path, effects string, after int64) {
		e := wire.Error{Code: events.Code(code), Class: events.Class(class), Message: message, Path: path, Effects: events.Effects(effects), AfterMS: after}
		s := e.Sound()
		if s.Code == "" || len(s.Code) > 64 || s.AfterMS < 0 || len(s.Message) > 17<<10 || len(s.Path) > 1<<10 || s.Path != "" && s.Path[0] != '/' {
			t.Errorf("%+v", s)
		}
		switch s.Class {
		case events.ClassOK, events.ClassPanic, events.ClassLost, events.ClassInput, "":
			t.Errorf("class %q", s.Class)
		}
		if again := s.Sound(); len(again.Message) <= 16<<10 && again != s {
			t.Errorf("%+v is not %+v", again, s)
		}
	})
}

// FuzzParts: no parts make a whole that is larger than may be, or panic.
func FuzzParts(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		var p wire.Parts
		for range 50 {
			n := r.IntN(5)
			whole, _ := p.Add(wire.Part{Seq: r.IntN(2), Part: n, Parts: r.IntN(5), Data: make([]byte, r.IntN(100))})
			if len(whole) > 500 {
				t.Fatalf("seed %d: %d bytes", seed, len(whole))
			}
		}
	})
}

// TestDecode says which member is wrong, in no language's words.
func TestDecode(t *testing.T) {
	for body, want := range map[string]string{
		`{"v":1,"type":"here","tool":{"tier":3}}`:   "tool.tier is no string: number",
		`{"v":1,"tool":{"limits":{"wall_ms":1.5}}}`: "tool.limits.wall_ms is no whole number: number 1.5",
		`{"v":1,"tool":{"limits":[]}}`:              "tool.limits is no object: array",
		`{"v":1,"tool":{"probe":"yes"}}`:            "tool.probe is no truth value: string",
		`[]`:                                        "want a JSON object, not: array",
		`{"v":1`:                                    "no JSON: unexpected end of JSON input",
		``:                                          "no JSON: unexpected end of JSON input",
		`{"v":1} x`:                                 "no JSON: invalid character 'x' after top-level value",
		`{"v":1,"since":"yesterday","tool":{"schema":{}}}`:         `parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"`,
		`{"v":1,"unknown":[1],"tool":{"schema":{},"other":"one"}}`: "",
	} {
		var h wire.Here
		err := wire.Decode([]byte(body), &h)
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
