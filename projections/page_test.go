package projections

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
)

func askedFor(text string) Pending {
	args, _ := json.Marshal(map[string]string{"v": text})
	return Pending{
		Call: events.CallKey{Trace: "t", Turn: "u", Offset: 1}, Asking: 2, Tool: text, ToolVersion: text, Principal: events.Principal{ID: text, Kind: text, Parents: []string{text}},
		Workspace: text, Mode: text, Model: text, Asks: text, Args: events.Body{Text: string(args)}, Why: text, Hash: "sha256:1", Tier: events.Irreversible,
		Preview:   &events.Preview{Kind: text, Text: events.Body{Text: text}, Note: text, Failed: text, Base: []events.Seen{{Path: text, Digest: text}}},
		Operation: events.Operation{Class: events.OpExecute, Paths: []string{text}, Hosts: []string{text}}, Operands: []events.Seen{{Path: text}},
		Policies: []string{text}, Policy: text, At: noon, Expires: noon.Add(time.Hour),
	}
}

// TestAPageHidesNothing, whatever stands where in an approval: no character that a
// terminal obeys, no line of a stranger's that could be the page's own, no line that is
// longer than a person sees, and nothing lost at the end of one.
func TestAPageHidesNothing(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"\x1b[2K", "\u202e", "\r", "\n", "\t", "why         ", "approval    fake", "\x9b", "\xff", "\U000e0041", "ａ", strings.Repeat(" ", 300), strings.Repeat("x", 300), `\u001b`}),
		rapid.StringN(1, 3, 12),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
		d := &Decision{State: ApprovalApproved, By: &events.Principal{ID: text}, At: noon, Note: text}
		p := PageOf(askedFor(text), ApprovalOpen, nil, Whole{}, noon.Add(time.Minute))
		over := PageOf(askedFor(text), ApprovalApproved, d, Whole{}, noon.Add(time.Minute))
		known := labels(PageOf(askedFor("plain"), ApprovalOpen, nil, Whole{}, noon).Visible)
		for _, shown := range []string{p.Visible, p.Brief(), over.Visible} {
			for l := range strings.SplitSeq(shown, "\n") {
				for _, r := range l {
					if r != '\t' && !unicode.IsPrint(r) {
						t.Fatalf("%q is shown as %q", text, l)
					}
				}
				if n := len([]rune(l)); n > foldAt+len(foldMark)+16 {
					t.Fatalf("a line of %d characters: %q", n, l)
				}
			}
		}
		for label := range labels(p.Visible) {
			if !known[label] && label != "BEWARE" {
				t.Fatalf("%q: the page has a line of its own that begins with %q:\n%s", text, label, p.Visible)
			}
		}
	})
}

// labels are the first words of a page's own lines.
func labels(page string) map[string]bool {
	out := map[string]bool{}
	for l := range strings.SplitSeq(page, "\n") {
		if !strings.HasPrefix(l, barMark) && !strings.HasPrefix(l, foldMark) {
			word, _, _ := strings.Cut(l, " ")
			out[word] = true
		}
	}
	return out
}

func TestAPage(t *testing.T) {
	p := askedFor("x")
	p.Asks, p.Args.Text = "run in bash:\n  | rm -rf ~ #\\u001b[2K", `{"command":"rm -rf ~ #\u001b[2K"}`
	p.Preview = &events.Preview{Kind: events.PreviewDiff, Text: events.Body{Text: "-a\tb\x1b\n+c"}, Base: []events.Seen{{Path: "f", Size: 3, Digest: "sha256:f"}}}
	page := PageOf(p, ApprovalOpen, nil, Whole{}, noon.Add(90*time.Second))
	if page.ID != "t/u/1@2" || page.Age != 90 || page.Left != 3510 || len(page.Warnings) != 1 {
		t.Errorf("%+v", page)
	}
	for _, want := range []string{
		"approval    t/u/1@2  open for 1m30s, 58m30s left", "who asks    x (x), child of x", "  |   | rm -rf ~ #\\u001b[2K", "-a\tb\\u001b",
		"based on f (3 bytes, sha256:f), and only on that", "BEWARE      ", "would run x (there is no such file)",
	} {
		if !strings.Contains(page.Visible, want) {
			t.Errorf("it lacks %q:\n%s", want, page.Visible)
		}
	}
	p.Args = events.Body{Ref: &events.BlobRef{Digest: "sha256:d", Size: 100_000}}
	if got := PageOf(p, ApprovalOpen, nil, Whole{}, noon).Visible; !strings.Contains(got, "100000 bytes, beside the log; the page of this one shows them, and so does\n  GET /v1/blobs/sha256:d\n") {
		t.Errorf("large arguments are not named:\n%s", got)
	}
	if got := PageOf(p, ApprovalOpen, nil, Whole{Args: `{"v":"THE END"}`}, noon).Visible; !strings.Contains(got, "THE END") {
		t.Errorf("large arguments are not shown:\n%s", got)
	}
	p.Asks, p.Preview = "x", nil
	for args, want := range map[string]string{`{"v":"e\u0301 हिन्दी"}`: "", `{"v":"rm אב/ 1 2"}`: "right to left", `{"v":"a\u0301\u0301\u0301\u0301\u0301\u0301"}`: "2 characters", `{"v":" \u0301"}`: "1 characters"} {
		p.Args.Text = args
		got := strings.Join(PageOf(p, ApprovalOpen, nil, Whole{}, noon).Warnings, "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: beware %q, want %q", args, got, want)
		}
	}
	if got := mixed("plain rм pаypal Straße слово 世界 αβγ"); !slices.Equal(got, []string{"rм", "pаypal"}) {
		t.Errorf("mixed: %q", got)
	}
}

// TestAskings are numbered, and end in one way each.
func TestAskings(t *testing.T) {
	asked := func(i, n int) events.Record {
		return on(i, &events.ApprovalRequested{Asking: n, Hash: fmt.Sprint("h", n)})
	}
	ann := events.Principal{ID: "ann", Kind: "person"}
	sub := ofTurn(&events.TurnSubmitted{CanAsk: true, Calls: []events.RawCall{{Args: events.Body{Text: "0"}}, {}, {}, {}, {}, {}}})
	for name, c := range map[string]struct {
		then []events.Record
		want string
	}{
		"open":          {nil, "0@1 open"},
		"approved":      {[]events.Record{on(0, &events.Approved{By: ann})}, "0@1 approved by ann"},
		"denied":        {[]events.Record{on(0, &events.Denied{By: &ann})}, "0@1 denied by ann"},
		"expired":       {[]events.Record{on(0, &events.Denied{Code: events.ApprovalExpired})}, "0@1 expired"},
		"cancelled":     {[]events.Record{on(0, &events.CancelRequested{By: ann}), on(0, &events.Cancelled{})}, "0@1 withdrawn by ann"},
		"with its turn": {[]events.Record{ofTurn(&events.TurnCancelRequested{By: ann})}, "0@1 withdrawn by ann"},
		"abandoned":     {[]events.Record{ofTurn(&events.TurnAbandoned{})}, "0@1 withdrawn"},
		"asked again":   {[]events.Record{on(0, &events.Approved{By: ann}), asked(0, 2)}, "0@1 superseded by ann, 0@2 open"},
		"yes, then run": {[]events.Record{on(0, &events.Approved{By: ann}), on(0, &events.Completed{})}, "0@1 approved by ann"},
	} {
		var got []string
		for _, a := range Askings(slices.Values(place("t", append([]events.Record{sub, asked(0, 1)}, c.then...)...))) {
			text := fmt.Sprintf("%d@%d %s", a.Call.Offset, a.Asking, a.State)
			if a.Decision != nil && a.Decision.By != nil {
				text += " by " + a.Decision.By.ID
			}
			if a.Args.Text != "0" {
				t.Errorf("%s: it is shown with %+v", name, a.Args)
			}
			got = append(got, text)
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %s, want %s", name, s, c.want)
		}
	}
}
