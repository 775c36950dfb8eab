package fs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

func TestReadShowsNumberedLines(t *testing.T) {
	b := newBench(t, map[string]string{
		"a": "one\ntwo\nthree", "empty": "", "bom": "\ufeffone\n", "only-bom": "\ufeff", "crlf": "a\r\nb\r\nc\n", "blank": "\n\n", "cr": "x\ry",
	})
	for _, c := range []struct {
		args m
		want string
	}{
		{m{"path": "a"}, "     1\tone\n     2\ttwo\n     3\tthree"},
		{m{"path": "a", "offset": 2, "limit": 1}, "     2\ttwo\n[lines 2-2 of 3; read on with offset 3]"},
		{m{"path": "a", "offset": 3}, "     3\tthree\n[lines 3-3 of 3, the end]"},
		{m{"path": "empty"}, "[empty is empty]"},
		{m{"path": "bom"}, "     1\tone"},
		{m{"path": "only-bom"}, "[only-bom holds a byte order mark and nothing else]"},
		{m{"path": "crlf"}, "     1\ta\n     2\tb\n     3\tc\n[2 of 3 lines end with CRLF; Edit keeps line ends]"},
		{m{"path": "blank"}, "     1\t\n     2\t"},
		{m{"path": "cr"}, "     1\tx\ry"},
	} {
		r := b.ok(ReadName, c.args)
		if diff := cmp.Diff(c.want, r.Text.Text); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.args, diff)
		}
		content := b.get(c.args["path"].(string))
		if s := r.Seen[0]; s.Digest != Digest([]byte(content)) || s.Size != int64(len(content)) || s.Mtime.IsZero() {
			t.Errorf("%v: seen %+v", c.args, s)
		}
	}
	b.fails(events.InvalidParam, []string{"3 lines"}, ReadName, m{"path": "a", "offset": 4})
}

func TestReadStopsAtItsLimitsAndSaysWhereToGoOn(t *testing.T) {
	lines := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	b := newBench(t, map[string]string{
		"many": lines(3456, "x"), "wide": lines(100, strings.Repeat("y", 1900)), "long": strings.Repeat("界", 5000) + "\nend\n",
		"exact": lines(2000, "x"), "one": strings.Repeat("z", 200_000),
	})
	r := b.ok(ReadName, m{"path": "many"})
	if r.Status != events.Partial || !strings.HasSuffix(r.Text.Text, "  2000\tx\n[lines 1-2000 of 3456; read on with offset 2001]") {
		t.Errorf("many: %s …%q", r.Status, r.Text.Text[len(r.Text.Text)-80:])
	}
	if r := b.ok(ReadName, m{"path": "many", "limit": 10}); r.Status != events.Success {
		t.Errorf("ten lines that were asked for: %s", r.Status)
	}
	if r := b.ok(ReadName, m{"path": "exact"}); r.Status != events.Success || strings.Contains(r.Text.Text, "[") {
		t.Errorf("exact: %s", r.Status)
	}
	r = b.ok(ReadName, m{"path": "wide"})
	if len(r.Text.Text) > maxText || r.Status != events.Partial || !strings.Contains(r.Text.Text, "of 100; read on with offset 27]") {
		t.Errorf("wide: %d bytes, …%q", len(r.Text.Text), r.Text.Text[len(r.Text.Text)-80:])
	}
	r = b.ok(ReadName, m{"path": "long"})
	if !utf8.ValidString(r.Text.Text) || !strings.Contains(r.Text.Text, "[13002 bytes of this line are not shown") || !strings.Contains(r.Text.Text, "     2\tend") {
		t.Errorf("long: %.100q", r.Text.Text)
	}
	r = b.ok(ReadName, m{"path": "one"})
	if len(r.Text.Text) > 3000 || r.Stats.Bytes != 200_000 || r.Stats.Lines != 1 {
		t.Errorf("one: %d bytes, %+v", len(r.Text.Text), r.Stats)
	}
}

func TestReadDescribesBinaryFiles(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	late := strings.Repeat("text\n", 200_000)
	b := newBench(t, map[string]string{
		"x.png": "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "nul": "a\x00b", "bytes": string(all), "latin": "caf\xe9\n", "late": late + "\x00", "late8": late + "\xff",
		"cut": "caf\xc3", "utf16": "\xff\xfea\x00b\x00",
	})
	for name, words := range map[string][]string{
		"x.png": {"image/png", "16 bytes"}, "nul": {"3 bytes"}, "bytes": {"256 bytes"}, "latin": {"no UTF-8 text"}, "late": {"1000001 bytes"}, "late8": {"no UTF-8"},
		"cut": {"no UTF-8"}, "utf16": {"utf-16le"},
	} {
		b.fails(events.BinaryFile, words, ReadName, m{"path": name})
	}
}

func TestReadRefusesWhatItCannotLookThrough(t *testing.T) {
	b := newBench(t, nil)
	f, err := os.Create(filepath.Join(b.dir, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(maxReadFile+1), f.Close()); err != nil {
		t.Fatal(err)
	}
	b.fails(events.TooLarge, []string{"268435457"}, ReadName, m{"path": "huge"})
	if _, err := b.try(ReadName, m{"path": "x"}); err == nil {
		t.Error("nothing is there")
	}
	in := b.invocation(ReadName, m{"path": "x"})
	tool, _ := b.reg.Lookup(ReadName)
	for _, w := range []string{"", "relative"} {
		in.Workspace = w
		_, err := tool.Run(t.Context(), in)
		if _, told := errors.AsType[*tools.Error](err); err == nil || told {
			t.Errorf("workspace %q: got %v, want an error that is ours", w, err)
		}
	}
}

// A workspace that is no folder is told, and is never waited for.
func TestTheWorkspaceIsAFolder(t *testing.T) {
	b := newBench(t, nil)
	b.put("file", "x")
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []struct {
		name string
		args m
	}{{ReadName, m{"path": "x"}}, {WriteName, m{"path": "x", "text": "y"}}, {GlobName, m{"pattern": "*"}}, {GrepName, m{"pattern": "x"}}, {EditName, m{"path": "x", "old_string": "a", "new_string": "b"}}} {
		for _, w := range []string{"none", "file", "pipe", strings.Repeat("n", 300)} {
			in := b.invocation(tool.name, tool.args)
			in.Workspace = filepath.Join(b.dir, w)
			run, _ := b.reg.Lookup(tool.name)
			_, err := run.Run(t.Context(), in)
			e, told := errors.AsType[*tools.Error](err)
			if !told || e.Class != events.ClassTool || e.Effects != events.EffectsNone || !strings.Contains(e.Message, "name a folder that is there") {
				t.Errorf("%s in %.20s: %v", tool.name, w, err)
			}
		}
	}
	if _, err := Look(t.Context(), filepath.Join(b.dir, "pipe"), "x"); err == nil {
		t.Error("a pipe was looked through")
	}
}

// What Read shows, taken together over its pages, is the file.
func TestPagesMakeTheFile(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`[a-zé界\t ]{0,12}`), 0, 60).Draw(rt, "lines")
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(rt, "end")
		content := strings.Join(lines, end)
		if rapid.Bool().Draw(rt, "last line ends") && len(lines) > 0 {
			content += end
		}
		b := newBench(t, map[string]string{"f": content})
		var got []string
		limit := rapid.IntRange(1, 20).Draw(rt, "limit")
		for offset := 1; ; {
			text := b.ok(ReadName, m{"path": "f", "offset": offset, "limit": limit}).Text.Text
			for line := range strings.SplitSeq(text, "\n") {
				if n, rest, ok := strings.Cut(line, "\t"); ok {
					if i, err := strconv.Atoi(strings.TrimSpace(n)); err != nil || i != len(got)+1 {
						rt.Fatalf("line %d is numbered %q", len(got)+1, n)
					}
					got = append(got, rest)
				}
			}
			if _, next, ok := strings.Cut(text, "read on with offset "); ok {
				fmt.Sscanf(next, "%d]", &offset)
				continue
			}
			break
		}
		want := strings.Split(strings.TrimSuffix(content, end), end)
		if content == "" {
			want = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// A rune may be parted between two pieces of a file at any place.
func TestTextIsCheckedAcrossPieces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }), rapid.SliceOf(rapid.Byte())).Draw(rt, "text")
		var c utf8Checker
		ok := true
		for rest := text; len(rest) > 0 && ok; {
			n := rapid.IntRange(1, min(len(rest), 5)).Draw(rt, "piece")
			ok = c.ok(rest[:n])
			rest = rest[n:]
		}
		if got := ok && c.done(); got != utf8.Valid(text) {
			rt.Fatalf("%q: got %t", text, got)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	for range 2000 {
		fmt.Fprintf(&text, "%x some words of a line\n", r.Uint64())
	}
	w := newBench(b, map[string]string{"f": text.String()})
	in := w.invocation(ReadName, m{"path": "f"})
	tool, _ := w.reg.Lookup(ReadName)
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := tool.Run(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
