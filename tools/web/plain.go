package web

import (
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// plainText is what a reader sees of an HTML page: text, headings, lists and
// links, in the manner of Markdown. It goes through the tags in order and
// builds no tree, so no page is too deep for it.
func plainText(page string, base *url.URL) string {
	p := plainer{base: base}
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		if p.out.Len() > maxPlain {
			return strings.TrimSpace(p.out.String()) + "\n[the page is longer as text than is made of it]"
		}
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(p.out.String())
		case html.TextToken:
			if p.hidden == 0 {
				p.text(string(z.Text()))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			p.open(z.Token())
		case html.EndTagToken:
			p.close(z.Token().DataAtom)
		}
	}
}

// maxPlain is how much text is made of a page, in bytes: a page of short links grows by
// the address that each of them is relative to.
const maxPlain = 8 << 20

type plainer struct {
	base   *url.URL
	out    strings.Builder
	ends   int  // newlines that out ends with
	blank  bool // a blank is owed before the next word
	hidden int  // open elements whose text nobody sees
	pre    int  // open elements that keep their blanks
	links  []string
}

func (p *plainer) text(s string) {
	if p.pre > 0 {
		p.write(s)
		return
	}
	for i, word := range strings.Fields(s) {
		if i > 0 || strings.ContainsAny(s[:1], " \t\r\n\f") {
			p.blank = true
		}
		p.word(word)
	}
	if s != "" && strings.ContainsAny(s[len(s)-1:], " \t\r\n\f") {
		p.blank = true
	}
}

// word writes one word, after the blank that is owed, if any.
func (p *plainer) word(w string) {
	if p.blank && p.ends == 0 && p.out.Len() > 0 {
		p.out.WriteByte(' ')
	}
	p.write(w)
}

func (p *plainer) write(s string) {
	if s == "" {
		return
	}
	p.out.WriteString(s)
	p.blank = false
	p.ends = len(s) - len(strings.TrimRight(s, "\n"))
}

// line makes sure that what follows stands behind n newlines; 0 changes nothing.
func (p *plainer) line(n int) {
	if n == 0 {
		return
	}
	p.blank = false
	for p.out.Len() > 0 && p.ends < n {
		p.out.WriteByte('\n')
		p.ends++
	}
}

func (p *plainer) open(t html.Token) {
	if hides(t.DataAtom) {
		if t.Type == html.StartTagToken {
			p.hidden++
		}
		return
	}
	if p.hidden > 0 {
		return
	}
	switch t.DataAtom {
	case atom.Br:
		p.out.WriteByte('\n')
		p.ends++
		p.blank = false
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		p.line(2)
		p.word(strings.Repeat("#", int(t.Data[1]-'0')) + " ")
	case atom.Li:
		p.line(1)
		p.word("- ")
	case atom.Td, atom.Th:
		if p.ends == 0 && p.out.Len() > 0 {
			p.word(" | ")
		}
	case atom.Pre, atom.Textarea:
		p.line(2)
		p.pre++
	case atom.Img:
		if alt := attribute(t, "alt"); alt != "" {
			p.text("[" + alt + "]")
		}
	case atom.A:
		p.link(attribute(t, "href"))
	default:
		p.line(breaks(t.DataAtom))
	}
}

func (p *plainer) close(a atom.Atom) {
	if hides(a) {
		p.hidden = max(0, p.hidden-1)
		return
	}
	if p.hidden > 0 {
		return
	}
	switch a {
	case atom.Pre, atom.Textarea:
		p.pre = max(0, p.pre-1)
		p.line(2)
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Title:
		p.line(2)
	case atom.A:
		if n := len(p.links); n > 0 {
			if to := p.links[n-1]; to != "" {
				p.write("](" + to + ")")
			}
			p.links = p.links[:n-1]
		}
	default:
		p.line(breaks(a))
	}
}

// hides says whether nobody sees the text of an element.
func hides(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Template, atom.Svg, atom.Noscript, atom.Iframe:
		return true
	}
	return false
}

// link begins a link, where it leads somewhere that can be fetched.
func (p *plainer) link(href string) {
	const most = 64 // links inside of links, which no honest page has
	if len(p.links) >= most {
		return
	}
	to := ""
	if u, err := url.Parse(href); err == nil && href != "" && !strings.HasPrefix(href, "#") {
		if p.base != nil {
			u = p.base.ResolveReference(u)
		}
		if u.Scheme == "http" || u.Scheme == "https" {
			to = u.String()
		}
	}
	if p.links = append(p.links, to); to != "" {
		p.word("[")
	}
}

// breaks is how many newlines stand before and behind an element.
func breaks(a atom.Atom) int {
	switch a {
	case atom.P, atom.Blockquote, atom.Table, atom.Ul, atom.Ol, atom.Dl, atom.Section, atom.Article, atom.Hr:
		return 2
	case atom.Div, atom.Tr, atom.Header, atom.Footer, atom.Main, atom.Nav, atom.Aside, atom.Form, atom.Dt, atom.Dd, atom.Figure, atom.Option:
		return 1
	}
	return 0
}

func attribute(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
