package events

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// renamed is the third version of a kind that is made up: the first had the field
// text, the second called it note, the third counts how often it was read.
type renamed struct {
	Note  string `json:"note"`
	Reads int    `json:"reads"`
	Body  []byte `json:"body,omitempty"`
}

func (*renamed) Kind() Kind { return "test_renamed" }

// withRow puts a row into the table for one test.
func withRow(t *testing.T, r Row) {
	t.Helper()
	before := byKind
	byKind = maps.Clone(before)
	byKind[r.Kind] = &r
	t.Cleanup(func() { byKind = before })
}

func renamedRow() Row {
	return Row{
		Kind: "test_renamed", Version: 3, New: func() Event { return new(renamed) },
		Upcasts: map[int]Upcast{
			1: func(m map[string]any) map[string]any {
				m["note"] = m["text"]
				delete(m, "text")
				return m
			},
			2: func(m map[string]any) map[string]any {
				m["reads"] = 1
				return m
			},
		},
	}
}

// stored is a commit of one event, in any version, with any body.
func stored(t testing.TB, kind Kind, version int, body any) []byte {
	t.Helper()
	raw, err := msgpack.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	b, err := msgpack.Marshal(map[string]any{
		"f": 1, "id": "c", "tr": "t", "tu": "u", "at": 0, "later": "a field of a newer release",
		"ev": []any{map[string]any{"k": string(kind), "v": version, "c": 0, "s": 1, "d": msgpack.RawMessage(raw), "x": 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestUpcast(t *testing.T) {
	withRow(t, renamedRow())
	for version, body := range map[int]map[string]any{
		1: {"text": "hello", "body": []byte{0, 255}},
		2: {"note": "hello", "body": []byte{0, 255}},
		3: {"note": "hello", "reads": 1, "body": []byte{0, 255}, "newer": true},
	} {
		c, err := Decode(stored(t, "test_renamed", version, body))
		if err != nil {
			t.Errorf("version %d: %v", version, err)
			continue
		}
		if got, want := c.Records[0].Event, (&renamed{"hello", 1, []byte{0, 255}}); !reflect.DeepEqual(got, want) {
			t.Errorf("version %d: %+v, want %+v", version, got, want)
		}
		// What is folded is written in today's version.
		b, err := Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Decode(b); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("version %d: written again: %+v, %v", version, again, err)
		}
	}
}

func TestNoUpcastIsAnError(t *testing.T) {
	r := renamedRow()
	delete(r.Upcasts, 2)
	withRow(t, r)
	_, err := Decode(stored(t, "test_renamed", 1, map[string]any{"text": "x"}))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "no upcast from version 2") {
		t.Error(err)
	}
}

// A table whose versions cannot all be read is no table.
func TestEveryVersionHasItsUpcast(t *testing.T) {
	for _, r := range Kinds {
		if r.Version < 1 || r.New == nil || r.New().Kind() != r.Kind {
			t.Errorf("row of %s: %+v", r.Kind, r)
		}
		for v := 1; v < r.Version; v++ {
			if r.Upcasts[v] == nil {
				t.Errorf("%s: no upcast from version %d", r.Kind, v)
			}
		}
	}
}

// 94: what a newer release wrote is shown, kept to the byte, and not taken for anything else.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		version int
	}{{"dreamt", 1}, {KindCompleted, 2}} {
		in := stored(t, c.kind, c.version, map[string]any{"what": "ever"})
		commit, err := Decode(in)
		if err != nil {
			t.Fatal(err)
		}
		f, ok := commit.Records[0].Event.(Foreign)
		if !ok || f.Kind() != c.kind || f.Version != c.version {
			t.Fatalf("%+v", commit.Records[0].Event)
		}
		out, err := Encode(commit)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(out)
		if err != nil || !reflect.DeepEqual(again, commit) {
			t.Errorf("%s: %+v became %+v, %v", c.kind, commit, again, err)
		}
	}
}

// Fields that this release does not know are passed over, in the commit and in its events.
func TestUnknownFieldsAreTolerated(t *testing.T) {
	c, err := Decode(stored(t, KindProgress, 1, map[string]any{"attempt": 2, "mood": "fine", "text": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Records[0].Event, (&Progress{Attempt: 2, Text: "x"}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// 64: bytes of any kind are kept as they are.
func TestBytesAreKept(t *testing.T) {
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	for _, text := range []string{"a\x00b", string(all[:]), "\xed\xa0\x80"} {
		r, _ := KindRow(KindCompleted)
		b, err := Encode(commitOf(r, &Completed{Outcome: Outcome{Result: Result{Text: Body{Text: text}}}}))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Records[0].Event.(*Completed).Result.Text.Text; got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	newer, err := msgpack.Marshal(map[string]any{"f": Format + 1, "ev": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	whole := stored(t, KindProgress, 1, map[string]any{"attempt": 2})
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"newer format", newer, ErrNewerFormat},
		{"nothing", nil, ErrFormat},
		{"text", []byte("hello"), ErrFormat},
		{"an empty map", []byte{0x80}, ErrFormat},
		{"cut short", whole[:len(whole)-1], ErrFormat},
		{"a body of another type", stored(t, KindProgress, 1, "x"), ErrFormat},
		{"version 0", stored(t, KindProgress, 0, map[string]any{}), ErrFormat},
		{"something behind it", append(bytes.Clone(whole), 0xc0), ErrFormat},
		{"deep", bytes.Repeat([]byte{0x91}, 5_000_000), ErrFormat},
		{"a map that is longer than the bytes", []byte{0xdf, 0xff, 0xff, 0xff, 0xff}, ErrFormat},
		{"a text that is longer than the bytes", []byte{0x81, 0xa2, 'i', 'd', 0xdb, 0xff, 0xff, 0xff, 0xff}, ErrFormat},
		{"a list that is longer than the bytes", append([]byte{0x81, 0xa2, 'e', 'v', 0xdd}, 0xff, 0xff, 0xff, 0xff), ErrFormat},
	} {
		if _, err := Decode(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := Encode(Commit{ID: "c"}); err == nil {
		t.Error("a commit without events was encoded")
	}
	if _, err := Encode(Commit{Records: []Record{{Event: new(renamed)}}}); err == nil {
		t.Error("an event of no table was encoded")
	}
}

func BenchmarkDecode(b *testing.B) {
	raw, err := os.ReadFile(goldenPath(KindCompleted, 1) + ".msgpack")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("walk", func(b *testing.B) {
		for b.Loop() {
			if walk(raw) != nil {
				b.Fatal("refused")
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, err := Decode(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// FuzzDecode: no bytes make it panic, and what it reads it writes so that it reads
// the same again.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.msgpack"))
	if err != nil || len(files) == 0 {
		f.Fatal(len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(stored(f, "dreamt", 1, nil))
	f.Add(stored(f, KindCompleted, 1, map[string]any{"result": map[string]any{"stats": map[string]any{"more": map[string]any{"b": 1, "a": -1}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		out, err := Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(out)
		if err != nil {
			t.Fatal(err)
		}
		last, err := Encode(again)
		if err != nil || !bytes.Equal(out, last) {
			t.Fatalf("%x\nbecame %x, %v", out, last, err)
		}
	})
}

// A time that JSON has no form for would break every answer that it stands in.
func TestTimesThatCannotBeTold(t *testing.T) {
	for year, told := range map[int]bool{-1: false, 1: true, 1970: true, 9999: true, 10_000: false, 290_000: false} {
		c := Commit{ID: "c", Turn: TurnKey{"t", "u"}, At: time.Date(year, 12, 31, 23, 59, 59, 0, time.UTC), Records: []Record{{Seq: 1, Event: &Progress{Attempt: 1}}}}
		b, err := Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b)
		switch {
		case told && (err != nil || !got.At.Equal(c.At)):
			t.Errorf("year %d: %v, %v", year, got.At, err)
		case !told && (!errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "the years 1 to 9999")):
			t.Errorf("year %d: %v", year, err)
		}
	}
}
