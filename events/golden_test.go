package events

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files that are missing; those that are there are history")

const goldenDir = "testdata/golden"

// filler gives every field a value that is not zero, the same every time, so that a
// field that is not written or not read is seen.
type filler struct{ n int }

func (f *filler) fill(v reflect.Value, name string) {
	f.n++
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 10, 1, 12, 0, 0, f.n*1000, time.UTC)
		return
	case *json.RawMessage:
		*x = json.RawMessage(fmt.Sprintf(`{"n":%d}`, f.n))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0), name)
		f.fill(v.Index(1), name)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, name)
			f.fill(value, name)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("%s %d é", name, f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(f.n) + 0.5)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n) << (f.n % 40))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.n) << (f.n % 20))
	default:
		panic("events: fields of kind " + v.Kind().String() + " are not filled")
	}
}

// filled is an event of the kind with every field set.
func filled(r Row) Event {
	e := r.New()
	(&filler{}).fill(reflect.ValueOf(e).Elem(), "")
	return e
}

func commitOf(r Row, e Event) Commit {
	call := 3
	if r.Turn {
		call = TurnEvent
	}
	return Commit{
		ID: "01K6GOLDEN", Turn: TurnKey{"trace", "turn"}, At: time.Date(2026, 10, 1, 12, 0, 0, 123456000, time.UTC),
		By: Owner{Boot: "boot", Epoch: 2}, Records: []Record{{Call: call, Seq: 7, Event: e}},
	}
}

// shown is a commit as a person reads it.
func shown(t testing.TB, c Commit) []byte {
	t.Helper()
	type record struct {
		Call  int    `json:"call"`
		Seq   uint32 `json:"seq"`
		Kind  Kind   `json:"kind"`
		Event Event  `json:"event"`
	}
	out := struct {
		ID      string    `json:"id"`
		Turn    TurnKey   `json:"turn"`
		At      time.Time `json:"at"`
		By      Owner     `json:"by"`
		Records []record  `json:"records"`
	}{ID: c.ID, Turn: c.Turn, At: c.At, By: c.By}
	for _, r := range c.Records {
		out.Records = append(out.Records, record{r.Call, r.Seq, r.Event.Kind(), r.Event})
	}
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func goldenPath(k Kind, version int) string {
	return filepath.Join(goldenDir, fmt.Sprintf("%s.v%d", k, version))
}

// writeMissing makes the golden files of today's version, once.
func writeMissing(t *testing.T, r Row) {
	path := goldenPath(r.Kind, r.Version)
	if _, err := os.Stat(path + ".msgpack"); err == nil {
		return
	}
	c := commitOf(r, filled(r))
	b, err := Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".msgpack", b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".json", shown(t, c), 0o644); err != nil {
		t.Fatal(err)
	}
}

// L9: what any release wrote is read as it was meant. Files are added, never edited.
func TestGolden(t *testing.T) {
	for _, r := range Kinds {
		if *rewrite {
			writeMissing(t, r)
		}
		for version := 1; version <= r.Version; version++ {
			path := goldenPath(r.Kind, version)
			b, err := os.ReadFile(path + ".msgpack")
			if err != nil {
				t.Errorf("%v: run go test ./events -rewrite", err)
				continue
			}
			want, err := os.ReadFile(path + ".json")
			if err != nil {
				t.Error(err)
				continue
			}
			c, err := Decode(b)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if got := shown(t, c); !bytes.Equal(got, want) {
				t.Errorf("%s: got %s\nwant %s", path, got, want)
			}
			again, err := Encode(c)
			if version == r.Version && (err != nil || !bytes.Equal(again, b)) {
				t.Errorf("%s: is written otherwise today: %v\n%x\n%x", path, err, again, b)
			}
		}
	}
}

func TestGoldenHasNoStrangers(t *testing.T) {
	files, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := f.Name()
		kind, rest, _ := strings.Cut(name, ".v")
		version, ext, _ := strings.Cut(rest, ".")
		r, ok := KindRow(Kind(kind))
		if !ok || ext != "json" && ext != "msgpack" || version == "" || len(version) > len(fmt.Sprint(r.Version)) {
			t.Errorf("%s belongs to no row of the table: a kind is never taken out", name)
		}
	}
}

// Every field survives the trip, and so does every field's absence.
func TestRoundTrip(t *testing.T) {
	for _, r := range Kinds {
		for name, e := range map[string]Event{"filled": filled(r), "zero": r.New()} {
			want := commitOf(r, e)
			b, err := Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 { // an order of a map would show
				if again, err := Encode(want); err != nil || !bytes.Equal(b, again) {
					t.Fatalf("%s, %s: written in two ways: %v", r.Kind, name, err)
				}
			}
			got, err := Decode(b)
			if err != nil {
				t.Errorf("%s, %s: %v", r.Kind, name, err)
				continue
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s:\n got %s\nwant %s", r.Kind, name, shown(t, got), shown(t, want))
			}
		}
	}
}

// The zone of the machine is not part of what happened.
func TestTimesAreUTC(t *testing.T) {
	zone := time.Local
	time.Local = time.FixedZone("elsewhere", 5*3600)
	defer func() { time.Local = zone }()
	for _, at := range []time.Time{
		time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC), time.Date(2026, 10, 1, 12, 0, 0, 999_999_999, time.UTC),
		time.Date(2600, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC),
		{},
	} {
		e := &Started{Deadline: at.In(time.Local), Expect: []Expectation{{Mtime: at}}}
		if at.IsZero() {
			e.Deadline = at
		}
		r, _ := KindRow(e.Kind())
		b, err := Encode(commitOf(r, e))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		got := c.Records[0].Event.(*Started)
		if !got.Deadline.Equal(at) || got.Deadline.Location() != time.UTC || !got.Expect[0].Mtime.Equal(at) || c.At.Location() != time.UTC {
			t.Errorf("%s became %s", at, got.Deadline)
		}
	}
}
