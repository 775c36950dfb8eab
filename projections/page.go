package projections

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// States of an approval.
const (
	ApprovalOpen       = "open"
	ApprovalApproved   = "approved"
	ApprovalDenied     = "denied"
	ApprovalExpired    = "expired"
	ApprovalWithdrawn  = "withdrawn"  // its call or its turn was cancelled, or ended another way
	ApprovalSuperseded = "superseded" // it was answered, and the call was asked about again
	InputAnswered      = "answered"   // of an input: its tool goes on with the answers
)

// Page is one approval as everybody is shown it, over whichever door. Its fields are
// exact; Visible is the same for a person to read.
type Page struct {
	ID    string `json:"id"`    // trace/turn/call@asking: what an answer names
	State string `json:"state"` // see ApprovalOpen
	Pending
	Age      int64     `json:"age_s"`              // seconds since it was asked
	Left     int64     `json:"left_s"`             // seconds until it expires; 0 where it is over
	Decision *Decision `json:"decision,omitempty"` // how it was answered; nil while it is open
	Warnings []string  `json:"warnings,omitempty"` // what could mislead who reads it
	Visible  string    `json:"visible"`
}

// Decision is how an approval was answered.
type Decision struct {
	State string            `json:"state"`
	By    *events.Principal `json:"by,omitempty"` // who answered, or has cancelled its call; nil: nobody
	At    time.Time         `json:"at"`
	Scope string            `json:"scope,omitempty"`
	Hash  string            `json:"args_hash,omitempty"` // of what was approved
	Args  *events.Body      `json:"args,omitempty"`      // changed arguments
	Note  string            `json:"note,omitempty"`
	Code  events.Code       `json:"code,omitempty"`
	// Answers are those to an input. Secrets in them are placeholders.
	Answers []events.InputAnswer `json:"answers,omitempty"`
}

// MarshalJSON escapes what a terminal would obey or hide. The JSON means the same.
func (p Page) MarshalJSON() ([]byte, error) {
	type exact Page
	raw, err := json.Marshal(exact(p))
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, r := range string(raw) {
		switch {
		case r < utf8.RuneSelf && r != 0x7F || r >= utf8.RuneSelf && events.Visible(string(r)) == string(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String()), nil
}

// Whole is what an approval keeps outside the log, for one page. "" leaves what is there.
type Whole struct{ Args, Preview string }

// PendingID names one asking of a call.
func PendingID(call events.CallKey, asking int) string {
	return fmt.Sprintf("%s@%d", call, max(1, asking))
}

// PageOf is the page of an approval at a time.
func PageOf(p Pending, state string, d *Decision, w Whole, now time.Time) Page {
	out := Page{
		ID: p.IDOf(), State: state, Pending: p, Decision: d,
		Age: max(0, int64(now.Sub(p.At)/time.Second)), Left: max(0, int64(p.Expires.Sub(now)/time.Second)),
	}
	if state != ApprovalOpen {
		out.Left = 0
	}
	w.Args = cmp.Or(w.Args, p.Args.Text)
	if p.Preview != nil {
		w.Preview = cmp.Or(w.Preview, p.Preview.Text.Text)
	}
	out.Warnings = warnings(p, w)
	if p.Kind == PendingInput {
		out.Visible = out.inputText(w)
		return out
	}
	out.Visible = out.text(w)
	return out
}

// Pages are the pages of what waits.
func Pages(list []Pending, now time.Time) []Page {
	out := make([]Page, len(list))
	for i, p := range list {
		out[i] = PageOf(p, ApprovalOpen, nil, Whole{}, now)
	}
	return out
}

// text is the page for a person: nothing in it comes from a stranger without being made
// visible, and what is a stranger's stands behind a bar.
func (p Page) text(w Whole) string {
	t := &pageText{}
	t.line("approval    %s  %s", p.ID, p.standing())
	if d := p.Decision; d != nil {
		t.line("answered    %s", d.text())
	}
	t.line("who asks    %s", who(p.Principal))
	t.line("model       %s", cmp.Or(events.Visible(p.Model), "not noted by the caller"))
	t.line("where       trace %s, turn %s, call %d; workspace %s; mode %s", p.Call.Trace, p.Call.Turn, p.Call.Offset,
		cmp.Or(events.Visible(p.Workspace), "the node's own"), cmp.Or(events.Visible(p.Mode), events.ModeWrite))
	t.line("tool        %s, version %s, tier %s, to %s", events.Visible(p.Tool), events.Visible(cmp.Or(p.ToolVersion, "unknown")), cmp.Or(p.Tier, "unknown"), cmp.Or(p.Operation.Class, "unknown"))
	t.line("asked       %s, until %s", stamp(p.At), stamp(p.Expires))
	t.line("why         %s", events.Visible(p.Why))
	t.line("policies    %s; version %s", cmp.Or(events.Visible(strings.Join(p.Policies, ", ")), "none: the tool's tier asks"), cmp.Or(events.Visible(p.Policy), "unknown"))
	t.line("args hash   %s", p.Hash)
	for _, warning := range p.Warnings {
		t.line("BEWARE      %s", warning)
	}
	t.block("the call", p.Asks, false)
	t.body("arguments, exactly", w.Args, p.Args.Ref)
	t.preview(p.Preview, w)
	t.operation(p.Operation)
	t.files(p.Operands)
	return strings.TrimSuffix(t.String(), "\n")
}

// Brief is the page in a few lines, for a list: what is asked is whole there, too.
func (p Page) Brief() string {
	t := &pageText{}
	id := p.ID
	if p.Asking <= 1 && p.Kind != PendingInput {
		id = p.Call.String() // which names it, too
	}
	t.WriteString(id + "\n") // by itself and never folded: it may be long, and is what somebody copies
	t.line("  tool     %s by %s, %s", events.Visible(p.Tool), who(p.Principal), p.standing())
	t.line("  why      %s", events.Visible(p.Why))
	if p.Kind != PendingInput {
		t.line("  hash     %s", p.Hash)
	}
	t.line("  expires  %s", stamp(p.Expires))
	for _, warning := range p.Warnings {
		t.line("  BEWARE   %s", warning)
	}
	first := "  asks     "
	for l := range strings.SplitSeq(strings.TrimSuffix(p.Asks, "\n"), "\n") {
		t.WriteString(fold(seen(l, false), first, "         : ") + "\n")
		first = "           " // no line of the page's own begins so
	}
	return strings.TrimSuffix(t.String(), "\n")
}

func (p Page) standing() string {
	if p.State != ApprovalOpen {
		return p.State
	}
	return fmt.Sprintf("open for %v, %v left", time.Duration(p.Age)*time.Second, time.Duration(p.Left)*time.Second)
}

func (d Decision) text() string {
	out := d.State
	if d.By != nil {
		out += " by " + who(*d.By)
		if d.By.Via != "" {
			out += ", via " + events.Visible(d.By.Via)
		}
	}
	out += " at " + stamp(d.At)
	if d.Scope == events.ScopeSession {
		out += ", for exactly this call in the rest of its trace"
	}
	if d.Args != nil {
		out += ", with other arguments (" + events.Visible(d.Hash) + ")"
	}
	if d.Note != "" {
		out += ": " + events.Visible(d.Note)
	}
	return out
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// who is a principal with its kind and its parents.
func who(p events.Principal) string {
	out := events.Visible(p.ID) + " (" + events.Visible(cmp.Or(p.Kind, "agent")) + ")"
	if len(p.Parents) > 0 {
		out += ", child of " + events.Visible(strings.Join(p.Parents, ", of "))
	}
	return out
}

// Bounds of what a person is shown on one line.
const (
	foldAt   = 100 // characters of a stranger's line before it is folded
	foldMark = "  :   "
	barMark  = "  | "
)

// pageText builds a page.
type pageText struct{ strings.Builder }

// line is one of the page's own; what is a stranger's in it has been made visible.
func (t *pageText) line(format string, args ...any) {
	t.WriteString(fold(fmt.Sprintf(format, args...), "", foldMark+"        ") + "\n")
}

// block is a stranger's text, each of its lines behind a bar, and long ones folded, so
// that none can pass for the page around it and no end is out of view. plain says that
// tabs stay.
func (t *pageText) block(title, text string, tabs bool) {
	t.line("%s:", title)
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		t.WriteString(fold(seen(l, tabs), barMark, foldMark) + "\n")
	}
}

// body is a text that may be kept elsewhere.
func (t *pageText) body(title, text string, ref *events.BlobRef) {
	if text == "" && ref != nil {
		t.line("%s: %d bytes, beside the log; the page of this one shows them, and so does", title, ref.Size)
		t.line("  GET /v1/blobs/%s", events.Visible(ref.Digest))
		return
	}
	t.block(title, text, false)
}

func (t *pageText) preview(p *events.Preview, w Whole) {
	switch {
	case p == nil:
		t.line("would change: its tool shows no more than the call itself")
		return
	case p.Failed != "":
		t.line("would change: it could not be found out (%s)", events.Visible(p.Failed))
	}
	if w.Preview == "" && p.Text.Ref != nil {
		t.body("would change ("+events.Visible(p.Kind)+")", "", p.Text.Ref)
	} else if w.Preview != "" {
		t.block("would change ("+events.Visible(p.Kind)+")", w.Preview, p.Kind == events.PreviewDiff)
	}
	if p.Note != "" {
		t.line("note: %s", events.Visible(p.Note))
	}
	for _, s := range p.Base {
		t.line("based on %s, and only on that: a yes is void once it differs", fileText(s))
	}
}

func (t *pageText) operation(o events.Operation) {
	for _, list := range []struct {
		what  string
		names []string
	}{{"path", o.Paths}, {"host", o.Hosts}} {
		for _, n := range list.names {
			t.line("%s        %s", list.what, events.Visible(n))
		}
	}
}

func (t *pageText) files(list []events.Seen) {
	for _, s := range list {
		t.line("would run %s, and only that: a yes is void once it differs", fileText(s))
	}
}

func fileText(s events.Seen) string {
	if s.Digest == "" {
		return events.Visible(s.Path) + " (there is no such file)"
	}
	return fmt.Sprintf("%s (%d bytes, %s)", events.Visible(s.Path), s.Size, events.Visible(s.Digest))
}

// seen is a line made visible. A tool that says what a person reads has made it so
// itself: what hides nothing stays as it is, so that it is not made so twice.
func seen(l string, tabs bool) string {
	if !tabs {
		if plain(l) {
			return l
		}
		return events.Visible(l)
	}
	parts := strings.Split(l, "\t")
	for i, p := range parts {
		parts[i] = events.Visible(p)
	}
	return strings.Join(parts, "\t")
}

// plain says whether a line hides nothing: only backslashes would be doubled.
func plain(l string) bool {
	bare := strings.ReplaceAll(l, `\`, "-")
	return utf8.ValidString(l) && events.Visible(bare) == bare
}

// fold is a line with its beginning behind first, and what is over foldAt characters on
// lines of its own behind more.
func fold(l, first, more string) string {
	var b strings.Builder
	b.WriteString(first)
	n := 0
	for _, r := range l {
		if n >= foldAt && !unicode.Is(unicode.M, r) { // a mark stays with its letter
			b.WriteString("\n" + more)
			n = 0
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// warnings are what could mislead who reads the call.
func warnings(p Pending, w Whole) []string {
	var out []string
	all := strings.Join([]string{p.Asks, saidIn(w.Args), w.Preview}, "\n")
	if p.Kind == PendingInput {
		all, out = strings.Join([]string{inputSaid(p.Requests), saidIn(w.Args)}, "\n"), inputWarnings(p.Requests)
	}
	if n := hidden(all); n > 0 {
		out = append(out, fmt.Sprintf("%d characters that a terminal hides or obeys stand in it, and are shown as \\u and digits", n))
	}
	if words := mixed(all); len(words) > 0 {
		out = append(out, "words of letters of several alphabets, which may look like others: "+events.Visible(strings.Join(words, " ")))
	}
	if strings.ContainsFunc(all, rightToLeft) {
		out = append(out, "letters that are written from right to left: what stands beside them may be shown in another order than it is in")
	}
	if p.Preview != nil && p.Preview.Failed != "" {
		out = append(out, "what it would change could not be found out: read the call itself")
	}
	return out
}

// saidIn are the texts in arguments, as the tool gets them and not as JSON writes them.
func saidIn(args string) string {
	var v any
	if json.Unmarshal([]byte(args), &v) != nil {
		return args
	}
	var b strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			b.WriteString(v + "\n")
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				b.WriteString(name + "\n")
				walk(v[name])
			}
		}
	}
	walk(v)
	return b.String()
}

// hidden counts the characters of several lines that are shown as escapes.
func hidden(text string) int {
	bare := strings.NewReplacer("\n", "-", "\t", "-", `\`, "-").Replace(text)
	return strings.Count(events.Visible(bare), `\`)
}

// rightToLeft says whether a letter has a terminal turn the order of what stands around it.
func rightToLeft(r rune) bool {
	return r >= 0x0590 && unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko,
		unicode.Samaritan, unicode.Mandaic, unicode.Mende_Kikakui, unicode.Adlam, unicode.Hanifi_Rohingya)
}

// alphabets have letters that look like those of one another.
var alphabets = []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu}

// maxMixed bounds how many words are named.
const maxMixed = 8

// mixed are the words of a text whose letters are of several of the alphabets.
func mixed(text string) []string {
	var out []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		kinds := 0
		for _, a := range alphabets {
			if strings.IndexFunc(word, func(r rune) bool { return unicode.Is(a, r) }) >= 0 {
				kinds++
			}
		}
		if kinds > 1 && len(out) < maxMixed && len(word) <= 200 {
			out = append(out, word)
		}
	}
	return out
}
