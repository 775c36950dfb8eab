package tools_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/tools"
)

var keeps = []tools.Keep{"", tools.KeepHead, tools.KeepTail, tools.KeepBoth}

// parts takes the notice out of what CutText kept.
func parts(t interface{ Errorf(string, ...any) }, kept string, cutBytes, cutLines int64, keep tools.Keep) (head, tail string) {
	notice := fmt.Sprintf("[%d bytes, %d lines cut]", cutBytes, cutLines)
	i := strings.LastIndex(kept, notice)
	if keep == tools.KeepTail {
		i = strings.Index(kept, notice)
	}
	if i < 0 {
		t.Errorf("no notice %q in %.80q", notice, kept)
		return "", ""
	}
	return kept[:i], kept[i+len(notice):]
}

// checkCut holds what must be true of every cut.
func checkCut(t interface{ Errorf(string, ...any) }, text string, l tools.Limits) {
	kept, cutBytes, cutLines := tools.CutText(text, l)
	limit, lines := l.Text, l.Lines
	if limit == 0 {
		limit = tools.DefaultText
	}
	if lines == 0 {
		lines = tools.DefaultLines
	}
	if !utf8.ValidString(kept) {
		t.Errorf("%+v: no UTF-8: %.80q", l, kept)
	}
	if len(kept) > limit {
		t.Errorf("%+v: %d bytes kept", l, len(kept))
	}
	if cutBytes == 0 {
		if kept != text || cutLines != 0 {
			t.Errorf("%+v: changed without a word", l)
		}
		return
	}
	if limit < 100 {
		return // there may be no room for the notice
	}
	head, tail := parts(t, kept, cutBytes, cutLines, l.Keep)
	if got := strings.Count(head, "\n") + strings.Count(tail, "\n"); got > lines+2 { // the notice's own line breaks
		t.Errorf("%+v: %d line breaks kept", l, got)
	}
	// What is kept is the text's own beginning and end, but for the notice's line breaks.
	for _, h := range []string{head, strings.TrimSuffix(head, "\n")} {
		for _, e := range []string{tail, strings.TrimPrefix(tail, "\n")} {
			if strings.HasPrefix(text, h) && strings.HasSuffix(text, e) && int64(len(h)+len(e))+cutBytes == int64(len(text)) {
				return
			}
		}
	}
	t.Errorf("%+v: %d + %d bytes kept and %d cut of %d", l, len(head), len(tail), cutBytes, len(text))
}

func TestCutNeverInsideARune(t *testing.T) {
	for _, text := range []string{strings.Repeat("a", 49_999) + "😀", strings.Repeat("界", 30_000), strings.Repeat("😀\n", 12_000)} {
		for _, keep := range keeps {
			for _, base := range []int{512, 49_999, 50_000, 50_003, 51_200, 90_000} {
				for limit := base - 3; limit <= base+3; limit++ {
					checkCut(t, text, tools.Limits{Text: limit, Keep: keep})
					checkCut(t, text, tools.Limits{Text: limit, Keep: keep, Lines: 1 << 20})
				}
			}
		}
	}
}

func TestCutUsesItsRoom(t *testing.T) {
	for _, keep := range keeps {
		kept, _, _ := tools.CutText(strings.Repeat("界", 30_000), tools.Limits{Keep: keep})
		if len(kept) < tools.DefaultText-12 {
			t.Errorf("%s: only %d of %d bytes kept", keep, len(kept), tools.DefaultText)
		}
	}
}

func TestCutLines(t *testing.T) {
	var b strings.Builder
	for i := 1; i <= 100; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	for _, c := range []struct {
		lines int
		keep  tools.Keep
		want  string
	}{
		{2, tools.KeepHead, "line 1\nline 2\n[778 bytes, 98 lines cut]"},
		{2, tools.KeepTail, "[775 bytes, 98 lines cut]\nline 99\nline 100\n"},
		{2, tools.KeepBoth, "line 1\n[776 bytes, 98 lines cut]\nline 100\n"},
		{3, tools.KeepBoth, "line 1\nline 2\n[769 bytes, 97 lines cut]\nline 100\n"},
		{100, tools.KeepHead, b.String()},
	} {
		if got, _, _ := tools.CutText(b.String(), tools.Limits{Lines: c.lines, Keep: c.keep}); got != c.want {
			t.Errorf("%d %s:\n%s", c.lines, c.keep, got)
		}
	}
	both, _, n := tools.CutText(b.String(), tools.Limits{Lines: 90, Keep: tools.KeepBoth})
	if n != 20 || !strings.Contains(both, "line 40\n[") || !strings.Contains(both, "]\nline 61\n") {
		t.Errorf("both ends keep 40 lines each: %d lines cut\n%s", n, both)
	}
}

func TestCutNamesWhereTheWholeIs(t *testing.T) {
	got, _, _ := tools.CutTextFrom(strings.Repeat("x", 300), tools.Limits{Text: 120}, "sha256:abc")
	if !strings.HasSuffix(got, "\n[229 bytes, 0 lines cut; whole text: sha256:abc]") || len(got) > 120 {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestCutWithoutRoomForAWord(t *testing.T) {
	for limit := 1; limit < 40; limit++ {
		for _, keep := range keeps {
			kept, cutBytes, _ := tools.CutText(strings.Repeat("界", 100), tools.Limits{Text: limit, Keep: keep})
			if len(kept) > limit || !utf8.ValidString(kept) || cutBytes == 0 {
				t.Errorf("%s %d: %q", keep, limit, kept)
			}
		}
	}
}

func TestCutAnything(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "b c", "\n", "\n\n", "\r\n", "界", "😀", "é", "e\u0301", strings.Repeat("y", 300), "[3 bytes, 1 lines cut]"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 400).Draw(t, "text"), "")
		l := tools.Limits{
			Text:  rapid.IntRange(1, 3000).Draw(t, "bytes"),
			Lines: rapid.IntRange(1, 120).Draw(t, "lines"),
			Keep:  rapid.SampledFrom(keeps).Draw(t, "keep"),
		}
		checkCut(t, text, l)
	})
}

// TestCaptureAgainstAPlainString checks the ring against keeping everything.
func TestCaptureAgainstAPlainString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.SampledFrom(keeps).Draw(t, "keep")
		limit := rapid.IntRange(1, 400).Draw(t, "limit")
		c := tools.NewCapture(limit, keep)
		var all strings.Builder
		for _, s := range rapid.SliceOfN(rapid.StringN(0, 60, 150), 0, 30).Draw(t, "writes") {
			all.WriteString(s)
			if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
				t.Fatalf("wrote %d, %v", n, err)
			}
		}
		whole, got := all.String(), c.Text()
		size, lines := c.Total()
		if size != int64(len(whole)) || lines != int64(strings.Count(whole, "\n")) {
			t.Errorf("counted %d bytes and %d lines of %d and %d", size, lines, len(whole), strings.Count(whole, "\n"))
		}
		if got == whole {
			return
		}
		if !utf8.ValidString(got) || len(got) > max(limit, 48) {
			t.Errorf("%d bytes for a limit of %d, valid %v", len(got), limit, utf8.ValidString(got))
		}
		var missing int
		i := strings.LastIndex(got, "[")
		if keep == tools.KeepTail {
			i = strings.Index(got, "[")
		}
		for ; i >= 0; i = strings.LastIndex(got[:i], "[") {
			if n, _ := fmt.Sscanf(got[i:], "[%d bytes not kept]", &missing); n == 1 {
				break
			}
		}
		note := fmt.Sprintf("[%d bytes not kept]", missing)
		head, tail, ok := strings.Cut(got, note)
		if !ok || !strings.HasPrefix(whole, strings.TrimSuffix(head, "\n")) || !strings.HasSuffix(whole, strings.TrimPrefix(tail, "\n")) {
			t.Errorf("kept %q of %q", got, whole)
		}
	})
}

func TestCaptureHoldsNoMoreThanItsLimit(t *testing.T) {
	c := tools.NewCapture(1000, tools.KeepBoth)
	for range 10_000 {
		fmt.Fprintln(c, strings.Repeat("z", 999))
	}
	if got := c.Text(); len(got) > 1000 || !strings.Contains(got, "bytes not kept") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if size, lines := c.Total(); size != 10_000_000 || lines != 10_000 {
		t.Errorf("%d bytes, %d lines", size, lines)
	}
}
