package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

func TestUndo(t *testing.T) {
	b := newBench(t, map[string]string{"f": "one\n", "bin": "\xff\x00", "big": strings.Repeat("x", maxBefore+1), "secret": "token=abc\n"})
	run := func(path string) (tools.Invocation, events.Result) {
		args := m{"path": path, "text": "new\n"}
		return b.invocation(WriteName, args), b.ok(WriteName, args)
	}
	for path, before := range map[string]string{"f": "one\n", "bin": "\xff\x00"} {
		in, r := run(path)
		u, err := undo(t.Context(), in, r)
		if err != nil || b.get(path) != before || u.Seen[0].Digest != Digest([]byte(before)) {
			t.Errorf("%s: %q, %+v, %v", path, b.get(path), u, err)
		}
		if again, err := undo(t.Context(), in, r); err != nil || b.get(path) != before {
			t.Errorf("%s, undone twice: %q, %v, %v", path, b.get(path), again, err)
		}
	}
	in, r := run("d/e/new")
	if _, err := undo(t.Context(), in, r); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "d")); err == nil {
		t.Error("the folders that were made are still there")
	}
	in, r = run("d/e/new")
	b.put("d/other", "theirs")
	if _, err := undo(t.Context(), in, r); err != nil || b.get("d/other") != "theirs" {
		t.Errorf("a folder that is used: %v", err)
	}
	refused := func(name string, in tools.Invocation, r events.Result, code events.Code, word string) {
		t.Helper()
		_, err := undo(t.Context(), in, r)
		e, ok := errors.AsType[*tools.Error](err)
		if !ok || e.Code != code || e.Effects != events.EffectsNone || !strings.Contains(e.Message, word) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	in, r = run("big")
	refused("too big", in, r, events.ExecutionError, "65537 bytes were replaced")
	in, r = run("f")
	b.put("f", "theirs\n")
	refused("changed since", in, r, events.Conflict, "has changed")
	in, r = run("secret")
	if !strings.Contains(string(r.Undo), `"before":"token=abc"`) {
		t.Errorf("data %s", r.Undo)
	}
	r.Undo = json.RawMessage(strings.Replace(string(r.Undo), "abc", "[redacted]", 1))
	refused("redacted", in, r, events.ExecutionError, "not kept whole")
	refused("no data", in, events.Result{}, events.InvalidParam, "does not say")
	r.Undo = json.RawMessage(`{"path":"secret","digest":"` + Digest([]byte("new\n")) + `","undo":{"head":9,"tail":-1,"digest":"x"}}`)
	refused("forged", in, r, events.ExecutionError, "does not fit")
	if b.get("secret") != "new\n" || b.get("f") != "theirs\n" {
		t.Error("a refused undo changed something")
	}
}

func TestProbes(t *testing.T) {
	b := newBench(t, map[string]string{"f": "one two one\n", "del": "a b c\n", "crlf": "\ufeffa\r\nb\r\n"})
	ask := func(tool string, args m, expect ...events.Expectation) bool {
		t.Helper()
		p, _ := b.reg.Lookup(tool)
		in := b.invocation(tool, args)
		in.Expect = expect
		f, err := p.Probe(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if f.Found && f.Result.Seen[0].Digest == "" {
			t.Error("found, but what?")
		}
		return f.Found
	}
	w := m{"path": "w", "text": "hello"}
	if ask(WriteName, w) {
		t.Error("found before it was written")
	}
	b.ok(WriteName, w)
	if !ask(WriteName, w) {
		t.Error("not found after it was written")
	}
	b.put("w", "hello!")
	if ask(WriteName, w) || ask(WriteName, m{"path": "../w", "text": ""}) {
		t.Error("found what is not there")
	}
	for name, args := range map[string]m{
		"one of two": {"path": "f", "old_string": "two", "new_string": "one"}, "deletion": {"path": "del", "old_string": " b", "new_string": ""},
		"line ends": {"path": "crlf", "old_string": "a\nb", "new_string": "x\ny"}, "all": {"path": "f", "old_string": "one", "new_string": "1", "replace_all": true},
		"made": {"path": "made", "old_string": "", "new_string": "x"},
	} {
		path := args["path"].(string)
		was, err := Look(t.Context(), b.dir, path)
		if err != nil {
			t.Fatal(err)
		}
		e := expectationOf(was)
		if ask(EditName, args, e) {
			t.Errorf("%s: found before it was done", name)
		}
		b.ok(EditName, args, e)
		if !ask(EditName, args, e) {
			t.Errorf("%s: not found after it was done", name)
		}
		if ask(EditName, args) {
			t.Errorf("%s: found without knowing what was there before", name)
		}
		b.put(path, "something else")
		if ask(EditName, args, e) {
			t.Errorf("%s: found after somebody else's change", name)
		}
		b.put("f", "one two one\n")
	}
}

// Whatever was replaced by whatever, there is a way back, and it is short where little was.
func TestThereIsAWayBack(t *testing.T) {
	piece := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 6), rapid.Map(rapid.StringN(0, 6, -1), func(s string) []byte { return []byte(s) }))
	rapid.Check(t, func(rt *rapid.T) {
		head, tail := piece.Draw(rt, "head"), piece.Draw(rt, "tail")
		old := slices.Concat(head, piece.Draw(rt, "old"), tail)
		content := slices.Concat(head, piece.Draw(rt, "new"), tail)
		var b back
		if err := json.Unmarshal(jsonOf(wayBack(old, content)), &b); err != nil {
			rt.Fatal(err)
		}
		if got, err := b.from(content); err != nil || !bytes.Equal(got, old) {
			rt.Fatalf("%q, %v; want %q", got, err, old)
		}
	})
	big := strings.Repeat("x", 1<<20)
	if b := wayBack([]byte(big+"a"+big), []byte(big+"b"+big)); b.None != "" || b.Before != "a" {
		t.Errorf("%+v", b)
	}
}
