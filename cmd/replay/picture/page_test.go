package picture

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestPages: every page fetches nothing, holds no script or handler but its own, and
// its policy names what it holds.
func TestPages(t *testing.T) {
	for name, draw := range each() {
		if filepath.Ext(name) == ".html" {
			t.Run(name, func(t *testing.T) { checkPage(t, drawn(name, draw)) })
		}
	}
}

func checkPage(t *testing.T, got []byte) {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(got))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	var policy string
	var links, own []string
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if slices.Contains([]string{"iframe", "object", "embed", "link", "img", "base", "form", "template", "foreignObject", "use", "image"}, n.Data) {
			t.Errorf("it holds %s", n.Data)
		}
		if n.Data == "script" || n.Data == "style" {
			own = append(own, n.Data+"-src 'sha256-"+digest(n.FirstChild.Data)+"'")
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "src", a.Key == "style", a.Key == "srcset":
				t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
			case a.Key == "href":
				links = append(links, a.Val)
			case a.Key == "id":
				if ids[a.Val] {
					t.Errorf("two elements are called %s", a.Val)
				}
				ids[a.Val] = true
			case a.Key == "content" && strings.HasPrefix(a.Val, "default-src"):
				policy = a.Val
			}
		}
	}
	for _, l := range links {
		if target, ok := strings.CutPrefix(l, "#"); !ok || !ids[target] {
			t.Errorf("it leads to %q", l)
		}
	}
	if len(own) != 2 || !strings.Contains(policy, own[0]) || !strings.Contains(policy, own[1]) || !strings.HasPrefix(policy, "default-src 'none'; ") {
		t.Errorf("its policy is %q; it holds %q", policy, own)
	}
}

// TestPageTells: a page has every text that it was given, with or without its script.
func TestPageTells(t *testing.T) {
	got := string(document(incident()).Page())
	for _, want := range []string{
		"trace <bdi>shop-4711</bdi>", "2 turns, 4 calls, 27 events", "shop-agent of desk", "1.7.0 to 2.13.1",
		"turn <bdi>01M8N64G7Z2M8QX</bdi>", "1 denied, 1 unknown", "by shop-agent (agent) of desk, mode write, format openai",
		"turn_planned", "batches (0)(1)", "batch 1 of 2", "batch 1 of 1: 2 calls at the same time",
		"{&#34;order&#34;:&#34;4711&#34;,&#34;amount&#34;:120}", "effects possible, resolved: done", "2.10.1", "&#43;4.648s",
		"the tool may have started (attempt 1)", "late_result", "What the model was told", "call_9f2", "Do not repeat it: check first",
		"made by sluice-replay show --html of release 0.2.0", `title="2026-11-30T08:15:14.877000Z"`,
	} {
		if !strings.Contains(got, want) && !strings.Contains(got, strings.ReplaceAll(want, "&#43;", "+")) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
