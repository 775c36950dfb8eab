package picture

import (
	"fmt"
	"strings"
)

// colour is one of the palette, on a light and on a dark background.
type colour struct {
	name  string
	light string
	dark  string
}

// palette is every colour that is used. Names beginning with ink are for texts
// and glyphs on paper, those beginning with bar fill shapes, and those beginning
// with on are texts and glyphs upon the shape of that name.
var palette = []colour{
	{"paper", "#ffffff", "#0d1117"},
	{"stripe", "#f4f6f8", "#151b23"},
	{"line", "#d4dae0", "#30373f"},

	{"ink", "#1b2026", "#e6edf3"},
	{"ink-soft", "#57606a", "#9aa4ae"},
	{"ink-good", "#0b6b44", "#4cc38a"},
	{"ink-mild", "#855800", "#dfa838"},
	{"ink-bad", "#bf1d2d", "#ff7b72"},
	{"ink-odd", "#7a33b0", "#c79bff"},
	{"ink-stop", "#a33f06", "#f5924a"},
	{"ink-calm", "#0b5cad", "#62a9ff"},

	{"bar-run", "#2a66c8", "#5796f2"},
	{"bar-gate", "#67717b", "#8d97a2"},
	{"bar-ask", "#a67100", "#c8932a"},
	{"bar-lost", "#cf3241", "#ef6a63"},
	{"bar-find", "#8a47bd", "#b583ef"},
	{"bar-stop", "#bf5a12", "#e4833c"},
	{"on-run", "#ffffff", "#0d1117"},
	{"on-gate", "#ffffff", "#0d1117"},
	{"on-find", "#ffffff", "#0d1117"},

	{"tint-good", "#dcf5e7", "#12311f"},
	{"tint-mild", "#fbeccb", "#3a2c0b"},
	{"tint-ask", "#fdf3dc", "#2e240c"},
	{"fill-bad", "#bf1d2d", "#ff7b72"},
	{"fill-odd", "#7a33b0", "#c79bff"},
	{"on-bad", "#ffffff", "#0d1117"},
	{"on-odd", "#ffffff", "#0d1117"},
}

const (
	sansFont = `-apple-system,BlinkMacSystemFont,"Segoe UI","Noto Sans",Helvetica,Arial,sans-serif`
	monoFont = `ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace`
)

// style is the style sheet of pictures: every name of the palette is a class for what
// it fills (f-) and one for what it strokes (s-). Colours are written out, not taken
// from variables: programs that show SVG and know no variables are common. within
// stands before each selector: "" in a picture by itself, "svg " in a page.
func style(within string) string {
	var b strings.Builder
	rule := func(selector, declarations string) {
		fmt.Fprintf(&b, "%s%s{%s}", within, selector, declarations)
	}
	rule("text", "font-family:"+sansFont+";font-size:12px")
	rule(".m", "font-family:"+monoFont)
	rule(".t", "font-size:16px;font-weight:600")
	rule(".h", "font-size:13px;font-weight:600")
	rule(".x", "font-size:10.5px")
	rule(".y", "font-size:9.5px")
	rule(".b", "font-weight:600")
	rule(".e", "text-anchor:end")
	rule(".c", "text-anchor:middle")
	rule(".g", "fill:none;stroke-width:1.7;stroke-linecap:round;stroke-linejoin:round")
	rule(".w", "paint-order:stroke;stroke-width:3px;stroke-linejoin:round")
	rule(".k", "stroke-dasharray:3 2.5")
	rule(".o", "stroke-dasharray:1 4;stroke-linecap:round;stroke-width:2")
	colours(rule, func(c colour) string { return c.light })
	b.WriteString("@media screen and (prefers-color-scheme:dark){")
	colours(rule, func(c colour) string { return c.dark })
	b.WriteString("}")
	return b.String()
}

func colours(rule func(selector, declarations string), value func(colour) string) {
	for _, c := range palette {
		rule(".f-"+c.name, "fill:"+value(c))
		rule(".s-"+c.name, "stroke:"+value(c))
	}
}

// variables are the colours as a page has them.
func variables() string {
	var b strings.Builder
	set := func(value func(colour) string) {
		b.WriteString(":root{")
		for _, c := range palette {
			fmt.Fprintf(&b, "--%s:%s;", c.name, value(c))
		}
		b.WriteString("}")
	}
	set(func(c colour) string { return c.light })
	b.WriteString("@media screen and (prefers-color-scheme:dark){")
	set(func(c colour) string { return c.dark })
	b.WriteString("}")
	return b.String()
}
