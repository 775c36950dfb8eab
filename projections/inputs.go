package projections

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// InputShown is one request of a tool that asks a person, with its form read.
type InputShown struct {
	events.InputRequest
	Fields []lifecycle.Field `json:"fields,omitempty"` // of a form, in its order
}

// InputID names one asking of a call's tool.
func InputID(call events.CallKey, round int) string {
	return fmt.Sprintf("%s@i%d", call, max(1, round))
}

// IDOf is what an answer to it names.
func (p Pending) IDOf() string {
	if p.Kind == PendingInput {
		return InputID(p.Call, p.Asking)
	}
	return PendingID(p.Call, p.Asking)
}

// whyInput is why a person is asked for input.
const whyInput = "its tool has begun, and needs answers before it can go on"

func (w Waiting) inputPending(call events.CallKey, e Event, v *events.InputRequested) Pending {
	p := Pending{
		Kind: PendingInput, Call: call, Seq: e.Seq, Asking: v.Round, Why: whyInput, Effects: v.Effects, At: e.At, Expires: v.Expires.UTC(),
	}
	for _, r := range v.Requests {
		shown := InputShown{InputRequest: r}
		switch r.Kind {
		case events.InputForm:
			shown.Raw = nil // it says what the rest says
			if f, err := lifecycle.ReadForm(r.Schema); err == nil {
				shown.Fields = f.Fields
			}
		case events.InputURL:
			shown.Raw = nil
		}
		p.Requests = append(p.Requests, shown)
	}
	p.Asks = asksOf(p.Requests)
	return w.asker(p, e)
}

// asksOf is what a tool asks, for a person to read. What is the tool's in it is made
// visible; its messages stand behind a mark of their own.
func asksOf(requests []InputShown) string {
	var b strings.Builder
	for _, r := range requests {
		fmt.Fprintf(&b, "%s (%s)\n", events.Visible(r.ID), events.Visible(r.Kind))
		for l := range strings.SplitSeq(strings.TrimSuffix(r.Message, "\n"), "\n") {
			if r.Message != "" {
				b.WriteString("> " + events.Visible(l) + "\n")
			}
		}
		switch {
		case r.URL != "":
			b.WriteString("  visit " + events.Visible(r.URL) + "\n")
		case len(r.Raw) > 0:
			b.WriteString("  the request: " + events.Visible(string(r.Raw)) + "\n")
		}
		for _, f := range r.Fields {
			b.WriteString("  " + fieldText(f) + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// fieldText is a form's field on one line.
func fieldText(f lifecycle.Field) string {
	kind := f.Type
	switch {
	case f.Secret:
		kind = "secret " + kind
	case f.Format != "":
		kind = events.Visible(f.Format)
	}
	need := "may be left out"
	if f.Required {
		need = "required"
	}
	out := fmt.Sprintf("%s: %s, %s", events.Visible(f.Name), kind, need)
	if len(f.Choices) > 0 {
		var names []string
		for _, c := range f.Choices {
			names = append(names, events.Visible(c.Value)+titleOf(c))
		}
		out += "; one of " + strings.Join(names, ", ")
		if f.Type == lifecycle.FieldChoices {
			out = strings.Replace(out, "; one of ", "; any of ", 1)
		}
	}
	for _, said := range []string{f.Title, f.Description} {
		if said != "" {
			out += "; " + events.Visible(said)
		}
	}
	if len(f.Default) > 0 {
		out += "; by default " + events.Visible(string(f.Default))
	}
	return out
}

func titleOf(c lifecycle.Choice) string {
	if c.Title == "" || c.Title == c.Value {
		return ""
	}
	return " (" + events.Visible(c.Title) + ")"
}

// inputText is the page of an input for a person.
func (p Page) inputText(w Whole) string {
	t := &pageText{}
	t.line("input       %s  %s", p.ID, p.standing())
	if d := p.Decision; d != nil {
		t.line("answered    %s", d.text())
		for _, a := range d.Answers {
			t.line("            %s: %s %s", events.Visible(a.ID), events.Visible(a.Action), events.Visible(string(a.Content)))
		}
	}
	t.line("who asks    %s, by its call of %s", who(p.Principal), events.Visible(p.Tool))
	t.line("model       %s", cmp.Or(events.Visible(p.Model), "not noted by the caller"))
	t.line("where       trace %s, turn %s, call %d; workspace %s; mode %s", p.Call.Trace, p.Call.Turn, p.Call.Offset,
		cmp.Or(events.Visible(p.Workspace), "the node's own"), cmp.Or(events.Visible(p.Mode), events.ModeWrite))
	t.line("asked       %s, until %s", stamp(p.At), stamp(p.Expires))
	t.line("why         %s", p.Why)
	t.line("effects     before it asked: %s", cmp.Or(p.Effects, "unknown"))
	for _, warning := range p.Warnings {
		t.line("BEWARE      %s", warning)
	}
	t.block("the tool asks", p.Asks, false)
	t.body("arguments of the call, exactly", w.Args, p.Args.Ref)
	return strings.TrimSuffix(t.String(), "\n")
}

// inputSaid are all words of the tool's in what it asks, as they came.
func inputSaid(requests []InputShown) string {
	var b strings.Builder
	for _, r := range requests {
		for _, s := range []string{r.ID, r.Kind, r.Message, r.URL, string(r.Raw)} {
			b.WriteString(s + "\n")
		}
		for _, f := range r.Fields {
			for _, s := range []string{f.Name, f.Title, f.Description, string(f.Default)} {
				b.WriteString(s + "\n")
			}
			for _, c := range f.Choices {
				b.WriteString(c.Value + "\n" + c.Title + "\n")
			}
		}
	}
	return b.String()
}

// inputWarnings are what could mislead who answers a tool.
func inputWarnings(requests []InputShown) []string {
	var out []string
	for _, r := range requests {
		if u, err := url.Parse(r.URL); r.URL != "" && err == nil {
			if u.Scheme != "https" {
				out = append(out, "the address to visit is not encrypted: others can read along")
			}
			if strings.Contains(strings.ToLower(u.Host), "xn--") || strings.IndexFunc(u.Host, func(r rune) bool { return r > 0x7F }) >= 0 {
				out = append(out, "the host to visit has letters beyond ASCII, and may look like another: "+events.Visible(u.Host))
			}
		}
		for _, f := range r.Fields {
			if f.Secret {
				out = append(out, "it wants a secret ("+events.Visible(f.Name)+"): the tool gets it, the log does not")
			}
		}
	}
	return out
}
