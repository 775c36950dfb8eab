package picture

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's style sheet and script
	"encoding/base64"
	"fmt"
	"time"
)

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// Bounds of what of a document stands in a page.
const (
	pageCalls    = 1500 // calls with their events
	pageTurns    = 400  // turns with their events
	pageEvents   = 120  // of a call or a turn
	pageFacts    = 40   // of a call, and of the summary
	pageAbout    = 20   // lines about a turn
	pageWarnings = 40
	pageText     = 1200     // runes of a fact or a line
	pageMessage  = 48 << 10 // bytes of a message before its escapes
	roomForTree  = MaxPage / 2
	roomForAll   = MaxPage * 7 / 8
)

// page is a page while it is written.
type page struct {
	bytes.Buffer
	calls map[place]bool // those that it has
}

// Page is the document as one HTML page of at most MaxPage bytes: the waterfall,
// what happened as a tree that can be unfolded, and the messages. It fetches
// nothing and is whole without its script, which only folds and filters; its
// content security policy lets nothing else run. It is pure.
//
// Of a long trace it has the calls that did not end well and then the first and last
// ones, and says how many it left out.
func (d Document) Page() []byte {
	tree := &page{calls: map[place]bool{}}
	tree.tree(d.Trace)
	p := &page{}
	p.begin("trace " + plain(d.Trace.Title, 120))
	p.head(d)
	p.line(`<section aria-labelledby="time"><h2 id="time">Where the time went</h2><div class="scroll" tabindex="0">`)
	p.Write(d.Trace.waterfall(tree.calls))
	p.line("</div></section>")
	p.line(`<section aria-labelledby="events"><h2 id="events">What happened</h2>`)
	p.line(`<div class="tools" id="tools" hidden><input type="search" id="find" placeholder="find calls: a tool, a text, a position" aria-label="find calls"><label><input type="checkbox" id="bad"> only what did not end well</label><button type="button" id="open">open all</button><button type="button" id="close">close all</button></div>`)
	p.Write(tree.Bytes())
	p.line("</section>")
	p.messages(d)
	p.line(`<footer>%s</footer>`, markup(plain(d.Footer, pageText)))
	p.line("<script>%s</script>", pageScript)
	p.line("</body></html>")
	return p.Bytes()
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// begin writes what a browser must know first. The policy names the style sheet and
// the script by their digests.
func (p *page) begin(title string) {
	css := variables() + style("svg ") + "\n" + pageStyle
	p.line(`<!DOCTYPE html>`)
	p.line(`<html lang="en"><head><meta charset="utf-8">`)
	p.line(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; base-uri 'none'; form-action 'none'">`, digest(css), digest(pageScript))
	p.line(`<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">`)
	p.line("<title>%s</title>", markup(title))
	p.line("<style>%s</style></head><body>", css)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// head is what the trace is, and what is wrong with what is shown of it.
func (p *page) head(d Document) {
	p.line(`<header><h1>trace <bdi>%s</bdi></h1>`, markup(plain(d.Trace.Title, 120)))
	if d.Trace.Subtitle != "" {
		p.line(`<p class="sub">%s</p>`, markup(plain(d.Trace.Subtitle, 300)))
	}
	if len(d.Trace.Warnings) > 0 {
		p.line(`<ul class="warn">`)
		for i, w := range d.Trace.Warnings {
			if i == pageWarnings {
				p.line("<li>and %s</li>", count(len(d.Trace.Warnings)-pageWarnings, "more warning"))
				break
			}
			p.line("<li>%s<span>%s</span></li>", icon(signLooks[Broken]), markup(plain(w, pageText)))
		}
		p.line("</ul>")
	}
	p.facts(d.Summary, "")
	p.line("</header>")
}

// facts is a list of names and texts.
func (p *page) facts(list []Fact, class string) {
	if len(list) == 0 {
		return
	}
	p.line("<dl>")
	for i, f := range list {
		if i == pageFacts {
			p.line(`<dt></dt><dd class="soft">and %s</dd>`, count(len(list)-pageFacts, "more line"))
			break
		}
		p.line(`<dt>%s</dt><dd%s><bdi>%s</bdi></dd>`, markup(plain(f.Name, 60)), class, markup(plain(f.Text, pageText)))
	}
	p.line("</dl>")
}

// icon is a glyph in the text.
func icon(l look) string {
	return fmt.Sprintf(`<svg class="gl" viewBox="0 0 12 12" aria-hidden="true"><path class="g s-%s" d="%s"/></svg>`, l.ink, l.glyph)
}

// tree is the turns, each with its batches, calls and events.
func (p *page) tree(t Trace) {
	if len(t.Turns) == 0 {
		p.line(`<p class="left">Nothing is recorded.</p>`)
	}
	picked := choose(t.Turns, pageCalls, pageTurns)
	for i := 0; i < len(t.Turns); {
		if picked.turns[i] && p.Len() < roomForTree {
			p.turn(i, &t.Turns[i], picked)
			i++
			continue
		}
		var left tally
		n := i
		for ; i < len(t.Turns) && (!picked.turns[i] || p.Len() >= roomForTree); i++ {
			left.addTurn(&t.Turns[i])
		}
		p.line(`<p class="left">… %s not in this page, with %s</p>`, count(i-n, "turn"), left.String())
	}
}

// turn is one turn.
func (p *page) turn(i int, t *Turn, picked choice) {
	from, _ := t.bounds()
	look, fine := t.State.look(), ""
	if t.worst().fine() {
		fine = " data-fine"
	}
	p.line(`<details class="turn" id="t%d" open%s><summary>%s<span>turn <bdi>%s</bdi></span><span class="bad i-%s">%s</span><span class="end i-%s"><span>%s</span><span class="soft">%s</span></span></summary><div class="inner">`,
		i, fine, icon(look), markup(plain(t.Name, 64)), t.worst().look().ink, markup(t.bad()), look.ink, markup(t.lasted()), stamp(from))
	for n, a := range t.About[:min(len(t.About), pageAbout)] {
		if n == 0 {
			p.WriteString(`<div class="soft">`)
		}
		p.line("<div>%s</div>", markup(plain(a, pageText)))
		if n == min(len(t.About), pageAbout)-1 {
			p.line("</div>")
		}
	}
	p.events(t.Events)
	p.batches(i, t, picked)
	p.line("</div></details>")
}

// batches are the calls of a turn.
func (p *page) batches(i int, t *Turn, picked choice) {
	var left tally
	flush := func() {
		if left.all() > 0 {
			p.line(`<p class="left">… %s not in this page</p>`, left.String())
			left = tally{}
		}
	}
	n := 0
	for b := range t.Batches {
		calls := t.Batches[b].Calls
		kept := false
		for k := range calls {
			at := place{i, n}
			n++
			if !picked.calls[at] || p.Len() >= roomForTree {
				left.add(calls[k].State)
				continue
			}
			flush()
			if !kept {
				p.batch(t, b)
				kept = true
			}
			p.call(at, &calls[k])
		}
		flush()
		if kept {
			p.line("</div>")
		}
	}
}

// batch begins a batch.
func (p *page) batch(t *Turn, i int) {
	b := &t.Batches[i]
	switch {
	case b.Loose:
		p.line(`<div><div class="batch">in no batch</div>`)
	case len(b.Calls) > 1:
		p.line(`<div class="together"><div class="batch">batch %d of %d: %s at the same time</div>`, i+1, len(t.Batches), count(len(b.Calls), "call"))
	default:
		p.line(`<div><div class="batch">batch %d of %d</div>`, i+1, len(t.Batches))
	}
}

// call is one call. Those that somebody may look for are unfolded.
func (p *page) call(at place, c *Call) {
	p.calls[at] = true
	look, state := c.State.look(), " data-fine"
	if c.telling() {
		state = " open"
	}
	effects := ""
	if c.Effects != "" {
		effects = `<span class="soft">effects ` + markup(plain(c.Effects, 60)) + "</span>"
	}
	p.line(`<details class="call" id="%s"%s><summary><span class="number">%d</span><span class="tool"><bdi>%s</bdi></span><span class="hint"><bdi>%s</bdi></span><span class="end i-%s">%s<span>%s</span>%s</span></summary><div class="inner">`,
		anchor(at), state, c.Number, markup(c.tool()), markup(plain(c.Hint, 200)), look.ink, icon(look), markup(c.status()), effects)
	p.facts(c.Facts, ` class="body"`)
	p.events(c.Events)
	p.line("</div></details>")
}

// events is a table of events: the first and the last where there are many.
func (p *page) events(list []Event) {
	if len(list) == 0 {
		return
	}
	p.line(`<table><colgroup><col class="pos"><col class="after"><col class="kind"><col></colgroup><thead class="unseen"><tr><th scope="col">position</th><th scope="col">after</th><th scope="col">event</th><th scope="col">what</th></tr></thead><tbody>`)
	for i := range list {
		if gap := len(list) - pageEvents; gap > 0 && i >= pageEvents/2 && i < len(list)-pageEvents/2 {
			if i == pageEvents/2 {
				p.line(`<tr><td colspan="4" class="soft">… %s not in this page</td></tr>`, count(gap, "event"))
			}
			continue
		}
		p.event(list[i])
	}
	p.line("</tbody></table>")
}

func (p *page) event(e Event) {
	class, mark := "", ""
	if e.Wrong {
		class, mark = ` class="wrong"`, icon(signLooks[Broken])+" "
	}
	after := plain(e.After, 40)
	if after == "" && !e.At.IsZero() {
		after = e.At.UTC().Format("15:04:05.000")
	}
	p.line(`<tr%s><td class="pos">%s</td><td class="after"%s>%s</td><td class="kind">%s%s</td><td><bdi>%s</bdi></td></tr>`,
		class, markup(plain(e.Position, 64)), moment(e.At), markup(after), mark, markup(plain(e.Kind, 64)), markup(plain(e.Text, pageText)))
}

// moment is the attribute that tells when something happened.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ` title="` + t.UTC().Format("2006-01-02T15:04:05.000000Z") + `"`
}

// messages are what the model was told.
func (p *page) messages(d Document) {
	if len(d.Messages) == 0 {
		return
	}
	format := ""
	if d.Format != "" {
		format = ", format " + plain(d.Format, 40)
	}
	p.line(`<section aria-labelledby="messages"><h2 id="messages">What the model was told</h2>`)
	p.line(`<p class="sub">%s%s</p>`, count(len(d.Messages), "message"), markup(format))
	for i, m := range d.Messages {
		if p.Len() >= roomForAll {
			p.line(`<p class="left">… %s not in this page</p>`, count(len(d.Messages)-i, "message"))
			break
		}
		look := m.State.look()
		text, cut := lines(m.Text, pageMessage)
		p.line(`<article class="message"><header>%s<strong>%s</strong><bdi class="soft">%s</bdi><span class="end i-%s">%s</span></header>`,
			icon(look), markup(plain(m.Role, 40)), markup(plain(m.Of, 120)), look.ink, look.words)
		p.line("<pre>%s</pre>", markup(text))
		if cut > 0 {
			p.line(`<p class="left">… %s not in this page</p>`, count(cut, "more byte"))
		}
		p.line("</article>")
	}
	p.line("</section>")
}
