package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
)

// split is what a splitter makes of a text: each document, or its line and error.
func split(text string) (docs []string, bad []int, err error) {
	for s := newSplitter(strings.NewReader(text)); ; {
		d, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return docs, bad, nil
		case err != nil:
			return docs, bad, err
		case d.err != nil:
			bad = append(bad, d.line)
		default:
			docs = append(docs, fmt.Sprintf("%d:%s", d.line, d.text))
		}
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		in   string
		docs []string
		bad  []int
	}{
		{"", nil, nil},
		{"\n \n", nil, nil},
		{"{}", []string{"1:{}"}, nil},
		{"\ufeff{}\r\n[]\r\n", []string{"1:{}\r", "2:[]\r"}, nil},
		{"{\n\"a\":\n[1,\n{}]\n}\n\n{}", []string{"1:{\n\"a\":\n[1,\n{}]\n}", "7:{}"}, nil},
		{"bad\n{}\nworse\n[]\n", []string{"2:{}", "4:[]"}, []int{1, 3}},
		{"{\"a\":\n{}\n{}", []string{"2:{}", "3:{}"}, []int{1}}, // a line that was cut off hides none
		{"{\n  \"a\": 1,\n  bad\n  \"b\": 2\n}\n{}", []string{"6:{}"}, []int{1}},
		{"{} {}\n{}", []string{"2:{}"}, []int{1}},
		{"[\n1\n] x\n{}", []string{"4:{}"}, []int{1}},
		{"{\n{\n{\n", nil, []int{1, 2, 3}},
		{"{\"a\":\"", nil, []int{1}},
	} {
		docs, bad, err := split(c.in)
		if err != nil || fmt.Sprint(docs) != fmt.Sprint(c.docs) || fmt.Sprint(bad) != fmt.Sprint(c.bad) {
			t.Errorf("%q: %q, bad %v, %v", c.in, docs, bad, err)
		}
	}
}

// TestSplitLosesNothing: good lines come out whole and in order, whatever stands
// between them.
func TestSplitLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{`{"a":1}`, `[]`, "", "bad", `{"a":`, `{"a":"x`, "  {}", `{} {}`, `[1,`, "]", `"`})).Draw(t, "lines")
		want := map[string]int{}
		for _, l := range lines {
			if l == `{"a":1}` { // no broken document goes on with it
				want[l]++
			}
		}
		docs, _, err := split(strings.Join(lines, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		got, before := 0, 0
		for _, d := range docs {
			n, text, _ := strings.Cut(d, ":")
			var line int
			if _, err := fmt.Sscan(n, &line); err != nil || line <= before || !json.Valid([]byte(text)) {
				t.Fatalf("document %q behind line %d", d, before)
			}
			before = line
			got += strings.Count(text, `{"a":1}`)
		}
		if got != want[`{"a":1}`] {
			t.Fatalf("%d of %d good lines", got, want[`{"a":1}`])
		}
	})
}

func TestSplitBoundsItsMemory(t *testing.T) {
	s := newSplitter(strings.NewReader(strings.Repeat("x", 100) + "\n{}\n[\n" + strings.Repeat("1,\n", 40) + "1]\n{}\n"))
	s.limit = 60
	var got []string
	for {
		d, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d:%s:%t", d.line, d.text, errors.Is(d.err, errLong)))
	}
	if want := "[1::true 2:{}:false 3:[:true 45:{}:false]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestNothingHiddenIsShown(t *testing.T) {
	nasty := "a\x1b[2K\r\u202eb\u200b\x00\\u001b\n界"
	for name, got := range map[string]string{
		"short": show.Short(nasty, 100), "cut": show.Short(nasty, 6), "body": body(events.Body{Text: nasty + strings.Repeat("y", 1000)}), "json": show.JSON(nasty), "lines": show.Lines(nasty),
	} {
		for _, r := range got {
			if r < ' ' && !(r == '\n' && (name == "json" || name == "lines")) || r == 0x7f || r == '\u202e' || r == '\u200b' {
				t.Errorf("%s: %q holds %q", name, got, r)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		raw, err := plainJSON(s)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal([]byte(show.JSON(string(raw))), &back); err != nil || back != strings.ToValidUTF8(s, "\uFFFD") {
			t.Fatalf("%q became %q: %v", s, back, err)
		}
	})
}

func TestNearly(t *testing.T) {
	names := []string{"ends", "people", "owners", "imp_7c074c3fde5c992885c06c86704f69031ba125a8", "a", "b", "c"}
	for want, hint := range map[string]string{
		"imp_7c07": "did you mean imp_7c074c3fde5c992885c06c86704f69031ba125a8?",
		"PEOPLE":   "did you mean people?",
		"owner":    "did you mean owners?",
		"elsewise": "sluice-replay list shows what there is",
	} {
		if got := nearly(want, names, ""); got != hint {
			t.Errorf("%s: %s", want, got)
		}
	}
}

func TestUpTo(t *testing.T) {
	log := (&shelf{}).place(quick("a", "1")...)
	at, err := parseAt("1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	kept, some := upTo(log.commits[1], at)
	if !some || len(kept.Commit.Records) != 4 || len(log.commits[1].Commit.Records) != 7 {
		t.Errorf("%d of %d, %t", len(kept.Commit.Records), len(log.commits[1].Commit.Records), some)
	}
	if at, err = parseAt("1.1"); err != nil {
		t.Fatal(err)
	}
	if _, some := upTo(log.commits[1], at); some {
		t.Error("what stands behind was kept")
	}
	if whole, _ := upTo(log.commits[0], at); len(whole.Commit.Records) != 1 {
		t.Error("a position without an index is the whole commit")
	}
	if at, err = parseAt(""); err != nil || at != end {
		t.Errorf("%v, %v", at, err)
	}
}
